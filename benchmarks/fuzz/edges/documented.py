"""Documented differences of our functions from their namesakes, and the reasons.

A row says which verdicts on which functions and edges it explains (patterns, of the
whole name and of a part of the others). What no row explains is a fault.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from .comparing import Compared


@dataclass(frozen=True)
class Difference:
    """A documented difference from a peer: where it applies, and the reason."""

    verdict: str
    reason: str
    functions: str = ""
    edges: str = ""
    code: str = ""
    library: str = "numpy"
    of_pairs: bool = False  # seen where two arguments are at an edge only

    def explains(self, found: Compared) -> bool:
        """Return whether this documented difference covers a comparison."""
        given = found.case.arguments.items()
        plain = [f"{n}={v}" for n, v in given if isinstance(v, (str, int, float))]
        edges = "; ".join([*plain, *(f"{n}: {what}" for n, what in found.case.edges)])
        return (
            found.verdict == self.verdict
            and (found.library == self.library or self.verdict == "stricter")
            and re.fullmatch(self.functions or ".*", found.case.function) is not None
            and re.search(self.edges, edges) is not None
            and re.search(self.code, f"{found.our.code} {found.our.refusal}")
            is not None
        )


def reason_of(found: Compared) -> Difference | None:
    """Return the documented difference that covers a comparison; None if none does."""
    return next((row for row in DOCUMENTED if row.explains(found)), None)


def _pairs(verdict: str, functions: str, reason: str, edges: str = "") -> Difference:
    """Return a difference that occurs only where two arguments are edge cases."""
    return Difference(verdict, reason, functions, edges, of_pairs=True)


def _differs(functions: str, reason: str, edges: str = "") -> Difference:
    """Return a difference in results from NumPy."""
    return Difference("differs", reason, functions, edges)


def _scipy(names: str, reason: str, edges: str = "") -> Difference:
    """Return a difference in results from SciPy."""
    return Difference("differs", reason, rf"special\.({names})", edges, library="scipy")


def _jax(functions: str, reason: str, edges: str = "") -> Difference:
    """Return a difference in results from JAX."""
    return Difference("differs", reason, functions, edges, library="jax")


def _looser(functions: str, reason: str, edges: str = "") -> Difference:
    """Return a difference where aotc accepts what NumPy refuses."""
    return Difference("looser", reason, functions, edges)


def _stricter(
    code: str, reason: str, functions: str = "", edges: str = ""
) -> Difference:
    """Return a difference where aotc refuses what NumPy accepts."""
    return Difference("stricter", reason, functions, edges, code)


DOCUMENTED = [
    # ---- other values
    _differs(
        r"numpy\.(floor_divide|remainder|mod|fmod|divmod)",
        "integer division by zero gives -1 (all ones where unsigned), and x1 as the "
        "remainder; a remainder of zero has the sign of x1",
    ),
    _differs(
        r"numpy\.(nan)?(quantile|percentile)",
        "infinite elements are elements like others, where NumPy computes inf - inf",
        "infinit|extremes",
    ),
    _pairs(
        "differs",
        r"numpy\.(array|asarray|full|full_like|(nan)?cum.*|(nan)?(sum|prod|mean)|trace)",
        "as of astype",
        "dtype=[iu]|dtype: [iu]|fill_value",
    ),
    _pairs(
        "differs",
        r"numpy\.(around|round)",
        "beyond the range integers wrap",
        "extremes|integers",
    ),
    _pairs(
        "differs",
        r"numpy\.histogram",
        "sums of weights are those of a bin",
        "weights: .*inf",
    ),
    _pairs(
        "differs", r"numpy\.interp", "a period without end is none", "period: -?inf"
    ),
    _pairs(
        "differs", r"numpy\.(std|var)", "computed in f32, then rounded", "dtype: b?f16"
    ),
    _pairs(
        "differs",
        r"fft\.irfft.",
        "NumPy reads memory that it has not written where there is nothing",
        "no elements|no rows|no columns",
    ),
    _differs(
        r"numpy\.astype",
        "floats beyond the range of integers become its ends, "
        "NaN 0; NumPy leaves them open",
    ),
    _differs(
        r"numpy\.(around|round|square|power|pow|vander)", "bools stay bools", "bool"
    ),
    _differs(r"numpy\.vander", "u64 stays u64; NumPy mixes it with i64", "u64"),
    _differs(
        r"numpy\.(corrcoef|cov)",
        "computed in the dtype of the elements, where NumPy takes f64",
        "largest number|subnormals|extremes|numbers around 1",
    ),
    _differs(
        r"numpy\.(corrcoef|cov)",
        "NumPy forgets y where the first has no variables",
        "no rows|no columns",
    ),
    _differs(
        r"numpy\.histogram(_bin_edges)?",
        "edges are f32, which has no numbers between the bins",
        "the (largest|least) integers|extremes",
    ),
    _differs(
        r"numpy\.histogram(_bin_edges)?",
        "no element is in a bin with an edge of NaN",
        "NaN",
    ),
    _differs(
        r"numpy\.digitize",
        "bins that are NaN have no order",
        "(bins|all arrays): .*NaN|extremes",
    ),
    _differs(
        r"numpy\.arange",
        "whole numbers of fractional steps are rounded one by one; "
        "NumPy adds the rounded difference of the first two",
        "step|start|stop",
    ),
    _differs(
        r"numpy\.(gradient|trapezoid|matmul|dot|inner|vecdot|matvec|vecmat|tensordot|"
        "einsum|vdot|correlate|convolve|outer|kron|std|var|nanstd|nanvar|mean|average)",
        "sums beyond the range of the dtype depend on their order, and those of "
        "half precision are accumulated in f32",
        "extremes|largest",
    ),
    _differs(
        r"numpy\.interp",
        "computed in the dtype of the points, where NumPy takes f64",
        "largest number|subnormals|extremes",
    ),
    _differs(
        r"numpy\.interp",
        "before points that are NaN all values are the first one",
        "(xp|all arrays): .*NaN",
    ),
    _differs(
        r"numpy\.interp",
        "infinities have no place in a period",
        "period=.*(xp|all arrays): .*infinit",
    ),
    _differs(r"numpy\.interp", "a period below the precision of f32", "period: 1e-30"),
    _differs(
        r"numpy\.nan_to_num", "the largest number of bf16, which NumPy has not", "bf16"
    ),
    _differs(r"numpy\.bincount", "sums of no weights are floats", "no rows"),
    _differs(r"numpy\.sinh", "the least subnormal is halved on the way", "extremes"),
    _differs(
        r"numpy\.take", "unsigned positions are not taken for negative ones", "u64"
    ),
    _differs(
        r"fft\..*",
        "an infinity times the sine or cosine 0 is NaN",
        "infinit|extremes|NaN|largest number",
    ),
    _differs(
        r"fft\.i?fft(n|2)",
        "a transform along no axes is complex, too",
        "0-d|no axes|nothing",
    ),
    _differs(
        r"linalg\.(cholesky|eigh|eigvalsh|cho_factor)",
        "the symmetric part is used, where NumPy reads the lower triangle",
    ),
    _differs(
        r"linalg\.(eigh|qr|svd)", "the signs of vectors are a choice of their own"
    ),
    _differs(
        r"linalg\.lstsq", "residuals also where the rank is deficient, and rounded"
    ),
    _differs(
        r"linalg\..*",
        "determinants and inverses beyond the range of f32",
        "subnormals|largest|extremes",
    ),
    _differs(r"complexes\..*", "C's Annex G is not followed", "infinite|extreme"),
    _pairs("differs", r"linalg\.matrix_power", "integers are taken as f32", "i64|i32"),
    _pairs("differs", r"linalg\.norm", "of a singular matrix, rounding", "ord: -2"),
    _pairs(
        "differs", r"complexes\.power", "the sign of an imaginary part of 0", "w: mod"
    ),
    _pairs(
        "differs",
        r"numpy\.(nan)?median",
        "the mean of one element is that element, of 0 and infinities too",
        "no axes",
    ),
    _pairs("differs", r"numpy\.(sum|prod)", "the order of `initial`", "initial"),
    # ---- other values than SciPy's
    _scipy(
        "digamma|psi|polygamma", "NaN at every pole, as in JAX; SciPy has infinities"
    ),
    _scipy("gammaln", "infinite at -inf, as in C", "infinit|extremes"),
    _scipy("betaln", "where gammaln of a part is infinite"),
    _scipy("ndtri|i1", "subnormals round to 0 on the way", "subnormals|extremes"),
    # ---- other values than JAX's
    _jax("nn..*", "XLA flushes subnormals to 0", "subnormals|extremes"),
    _jax("nn.celu", "alpha is of negative elements only", "alpha"),
    _jax("nn.gelu", "exact by default, where JAX approximates"),
    _jax("nn.(relu6|hard_.*)", "integers keep their dtype, or become f32", "[iu]\\d"),
    # ---- values where NumPy refuses
    _pairs("looser", r"numpy\.arange", "integers wrap", "dtype: u"),
    _pairs(
        "looser", r"numpy\.ediff1d", "a Python number takes any dtype", "to_(end|begin)"
    ),
    _looser(
        r"numpy\.(arange|around|round|clip|gradient|positive|(nan)?(quantile|percentile)|negative|"
        "subtract|diff|ediff1d|sign)",
        "bools count as 0 and 1",
        "bool",
    ),
    _looser(r"numpy\.(arg)?partition", "no position to divide at is none", "nothing"),
    _looser(
        r"numpy\.average", "weights of sum 0 give NaN: their values may come later"
    ),
    _looser(
        r"numpy\.histogram(_bin_edges)?",
        "spans that are not finite make edges of NaN: values may come later",
    ),
    _looser(r"numpy\.indices", "a number is a shape of one axis", "dimensions"),
    _looser(r"numpy\.ldexp", "u64 is an integer, too", "u64"),
    _looser(r"numpy\.nan(argmax|argmin)", "0 where all are NaN: values may come later"),
    _looser(r"numpy\.nan(mean|std|var)", "results in any dtype", "dtype"),
    _looser(r"numpy\.pad", "a value is for the mode constant", "constant_values"),
    _looser(
        r"numpy\.(nan)?(quantile|percentile)", "no quantiles at all", "q: no elements"
    ),
    _looser(r"numpy\.pad", "negative widths cut off, as in jax.lax.pad", "pad_width"),
    _looser(
        r"numpy\.(pow|power)",
        "negative powers of integers are 0 but for 1 and -1: values may come later",
    ),
    _looser(r"numpy\.select", "conditions of numbers hold where they are not 0"),
    _looser(r"numpy\.choose", "u64 is an integer, too", "u64"),
    _looser(r"fft\.i?fftshift", "a 0-d array has nothing to shift", "0-d"),
    _looser(r"linalg\..*", "what a singular matrix makes impossible is NaN"),
    _pairs("looser", r"numpy\.(nan)?median", "no axes of no elements", "no axes"),
    _pairs("looser", r"numpy\.corrcoef", "one variable, repeated", "one row"),
    _pairs("looser", r"numpy\.trapezoid", "one point is no area", "x: one element"),
    Difference(
        "looser",
        "of no elements the logarithm of 0",
        r"special\.logsumexp",
        "no |zeros",
        library="scipy",
    ),
    # ---- refusals where NumPy gives a value
    _stricter("dtype-mismatch", "dtypes do not mix, and are those that an op declares"),
    _stricter(
        "bad-size.*size=", "how many there are only values decide: `size` says it"
    ),
    _pairs(
        "stricter",
        r"numpy\.(repeat|tile)",
        "counts are 0 or more, also of nothing",
        "re.*: .*(-|negative)",
    ),
    _stricter(
        "bad-order", "derivatives have an order of 0 or more", "special.polygamma"
    ),
    _stricter("empty-reduction", "of no elements there is none to choose"),
    _stricter("unknown-dtype", "None is no dtype"),
    _stricter("bad-(size|shape)", "sizes are 0 or more, of transforms 1 or more"),
    _stricter("bad-range", "bounds are finite, and of one sign where they are ratios"),
    _stricter("bad-index", "a mask, or a position beyond the array"),
    _stricter("bad-mode|bad-padding|bad-period|unsupported", "not provided"),
    _stricter(
        "bad-axis", "a 0-d array has no axes; axes are named once, and are there"
    ),
    _stricter("bad-argument", "the kind of argument that the signature says"),
    _stricter("shape-mismatch", "shapes are what they must be before anything is read"),
]
