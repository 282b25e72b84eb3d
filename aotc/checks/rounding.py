"""Bounds on the differences that rounding alone can make in the results of a graph.

Compiled code adds up in another order, fuses multiplications and approximates functions
otherwise than the reference evaluator. What that may do to a result is measured by
evaluating the graph several times with random errors of a few units in the last place
in whatever rounds (Monte Carlo arithmetic: Parker, "Monte Carlo Arithmetic", 1997).
Ops that round nothing, such as moves and whole numbers, stay exact, or what they decide
would be open everywhere; `comparisons` says which of those are. Compiled code takes
numbers below the normal ones for zeros, on CPUs too, where IREE says so to the
processor; so does the noise.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import count
from typing import TypeAlias, TypeGuard

import ml_dtypes
import numpy as np

from aotc.checks.array_extents import ArrayExtents, ArrayFacts
from aotc.checks.cached_parts import cached_parts
from aotc.checks.comparisons import RecordedComparisons, compares_floats
from aotc.checks.random_errors import RandomErrors
from aotc.core import dtypes
from aotc.core.numerics import RELAXED
from aotc.dialects.functions.functions import is_entry
from aotc.dialects.graph import LOW, Evaluator, GraphOp
from aotc.dialects.ops.binary import Add, Subtract
from aotc.dialects.ops.contraction import DotGeneral
from aotc.dialects.ops.convolution import ConvGeneral
from aotc.dialects.ops.creation import Constant
from aotc.dialects.ops.reduction import ReduceSum
from aotc.mlir import Operation, Value, ir
from aotc.programs.program import numerics_of

Arrays: TypeAlias = Sequence[np.ndarray]

# What a sum that overflows is in one evaluation after the other: what is computed from
# it is NaN in the first one and not in the second.
_OVERFLOWED = ([np.nan], [0.0], [np.nan, np.inf, -np.inf])
_MUCH_LARGER = 4  # times the elements of the other operand of a product
_SOME = 1024  # elements of an array
_FIRST = 4  # numbers that are looked for before all are, which takes long


class OpFacts:
    """Facts about the ops of one graph, gathered over several noisy evaluations."""

    def __init__(self) -> None:
        self.comparisons = RecordedComparisons()
        # Ops that have been seen to round, and how many terms they add up.
        self.rounding: dict[GraphOp, float] = {}
        self.exact: set[GraphOp] = set()  # and those that were exact when last seen
        # Operands, by op and number, that have no numbers below the normal ones.
        self.normal: set[tuple[GraphOp, int]] = set()
        # Whether an operand is an argument of the entry (`_is_argument`).
        self.arguments: dict[tuple[GraphOp, int], bool] = {}
        self.evaluate = Evaluator()


class Noise:
    """Evaluates ops with random rounding errors; an evaluator for `reference.evaluate`.

    Args:
        seed: of the errors.
        seen: what is known of ops, by this evaluation and others.
    """

    def __init__(self, seed: int, seen: OpFacts) -> None:
        self._seen = seen
        self._evaluate = seen.evaluate
        self._turns: Counter[GraphOp] = Counter()
        self._seed = seed
        self._rng = np.random.default_rng(seed)
        self._extents = ArrayExtents()
        self._errors = RandomErrors(seed, self._extents)
        self._normal = ArrayFacts[bool]()  # without numbers below the normal ones
        self._has_overflowed = False  # whether some number is infinite by size alone

    def __call__(
        self, op: GraphOp, operands: Arrays, symbols: Sequence[int]
    ) -> list[np.ndarray]:
        """Return the results of `op` with rounding errors."""
        if not type(op).reads_bits and not type(op).selects:  # they pass them on
            operands = [
                self._flush_operand(op, number, x) for number, x in enumerate(operands)
            ]
        results = self._rounded(op, operands, symbols)
        if type(op).adds_products and _may_overflow(operands, self._extents):
            return [self._with_open_overflows(op, operands, symbols, results[0])]
        self._has_overflowed |= _overflows(operands, results, self._extents)
        if self._has_overflowed and isinstance(op, (Add, Subtract)):
            return [self._with_open_sums(operands, results[0])]
        return results

    def _flush_operand(self, op: GraphOp, number: int, array: np.ndarray) -> np.ndarray:
        """Return an operand with its subnormal numbers replaced by zeros.

        The arguments of an entry are the same in each evaluation: looked at once.
        """
        place = op, number
        if place in self._seen.normal or self._normal.find(array):
            return array
        found = _flush(array)
        if found is array:
            self._normal.note(array, True)
            if place not in self._seen.arguments:
                self._seen.arguments[place] = _is_argument(op.operands[number])
            if self._seen.arguments[place]:
                self._seen.normal.add(place)
        return found

    def _with_open_sums(self, operands: Arrays, result: np.ndarray) -> np.ndarray:
        """Return a sum with random numbers where infinities of both signs make it NaN.

        Of a product that overflows, a multiply-add has the exact value, so what is left
        of infinity less infinity is infinite.
        """
        if not is_float(result):
            return result
        some = np.array(_OVERFLOWED[-1], result.dtype)
        numbers = self._rng.integers(len(some), size=result.shape)
        is_open = np.isnan(result)
        if not is_open.any():
            return result
        is_open &= ~np.isnan(operands[0]) & ~np.isnan(operands[1])
        return np.where(is_open, some[numbers], result)

    def _with_open_overflows(
        self,
        op: GraphOp,
        operands: Arrays,
        symbols: Sequence[int],
        result: np.ndarray,
    ) -> np.ndarray:
        """Return a result with NaN, 0 or infinities, as the seed chooses, where the sum
        of absolute terms overflows.

        What is added up on the way, in any order, is at most their sum. What is not
        finite in the operands is so in every order, and left out.
        """
        sizes = [np.abs(np.where(np.isfinite(x), x, x.dtype.type(0))) for x in operands]
        with np.errstate(over="ignore"):
            (largest,) = self._evaluate(op, sizes, symbols)
        some = _OVERFLOWED[self._seed % len(_OVERFLOWED)]
        chosen = self._rng.choice(some, result.shape).astype(result.dtype)
        return np.where(np.isfinite(largest), result, chosen)

    def _rounded(
        self, op: GraphOp, operands: Arrays, symbols: Sequence[int]
    ) -> list[np.ndarray]:
        """Evaluate an op with rounding errors, or exactly where its results are
        exact.
        """
        if isinstance(op, Constant) or type(op).selects or type(op).is_exact:
            return self._evaluate(op, operands, symbols)
        if _may_be_winograd(op):
            return [self._disturb(self._convolve(op, *operands))]
        if _may_round_rows(op):
            operands = [self._with_rounded_rows(op, operands[0]), operands[1]]
        if op not in self._seen.rounding:
            results = self._evaluate(op, operands, symbols)
            # What is approximated need not give whole numbers of whole numbers.
            most = 1.0 if type(op).is_approximated else np.inf
            terms = _terms(op, operands, results)
            if terms > 1 and not all(map(_is_whole, operands)):
                most = -1.0  # a sum of fractions is whole by chance only
            briefly = op in self._seen.exact  # a loop, or another evaluation
            if all(_is_exact(x, operands, most, briefly) for x in results):
                self._seen.exact.add(op)
                if compares_floats(op, operands, results):
                    return [self._settle_comparison(op, operands, results[0])]
                return results
            self._seen.rounding[op] = terms
        moved = self._disturb_operands(op, operands)
        found = [self._disturb(x) for x in self._evaluate(op, moved, symbols)]
        beside = type(op).cancelling(operands[0]) if operands else None
        if beside is None:
            return found
        return [self._disturb_beside(beside, y) for y in found]

    def _disturb_operands(self, op: GraphOp, operands: Arrays) -> list[np.ndarray]:
        """Return operands with errors that act as rounding does inside the op.

        Of two that are multiplied and differ much in size, as activations and weights
        do, the smaller one has the errors of both: each product moves as far.
        """
        terms = self._seen.rounding[op]
        axes = op.axes if isinstance(op, ReduceSum) else None
        least = min((x.size for x in operands), default=0)
        if type(op).adds_products and len(operands) == 2:
            is_spared = [x.size > _MUCH_LARGER * least for x in operands]
            scale = np.sqrt(2) if any(is_spared) else 1.0
        else:
            is_spared, scale = [False] * len(operands), 1.0
        return [
            x if is_large else self._disturb(x, terms, axes, scale)
            for x, is_large in zip(operands, is_spared, strict=True)
        ]

    def _convolve(
        self, op: ConvGeneral, x: np.ndarray, kernel: np.ndarray
    ) -> np.ndarray:
        """Return a convolution by Winograd's algorithm with errors in each of its
        steps.

        Errors go into the operands of each of its steps, which cancel in other places
        than those of a sum. The larger tiles, which have larger errors, stand for all.
        """
        from aotc.kernels.winograd.matrices import OUTPUTS
        from aotc.kernels.winograd.reference import Transforms, convolve

        tiles = Transforms.of(max(OUTPUTS))
        return convolve(x, kernel, op.padding, tiles, self._disturb)

    def _with_rounded_rows(self, op: DotGeneral, x: np.ndarray) -> np.ndarray:
        """Return rows with errors as large as rounding to i8 makes (`round_rows`)."""
        from aotc.kernels.planning.dequantized import ROUNDED
        from aotc.passes.round_rows import MOST

        moved = np.moveaxis(x, op.lhs_contract[0], -1)
        if moved.shape[-1] % ROUNDED:
            return x
        parts = moved.reshape(*moved.shape[:-1], -1, ROUNDED)
        steps = np.abs(parts).max(-1, keepdims=True) / MOST
        errors = self._rng.random(parts.shape, np.float32) - np.float32(0.5)
        found = (parts + errors * steps).reshape(moved.shape).astype(x.dtype)
        return np.moveaxis(found, -1, op.lhs_contract[0])

    def _disturb_beside(self, terms: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Return `y` plus the rounding errors of `terms`, which cancel in it."""
        moved: np.ndarray = (y + (self._disturb(terms) - terms)).astype(y.dtype)
        return moved

    def _settle_comparison(
        self, op: GraphOp, operands: Arrays, result: np.ndarray
    ) -> np.ndarray:
        """Return a comparison's result, flipped where rounding noise may decide it.

        It is the opposite of the first evaluation's where the gap of the operands is at
        most twice its spread.
        """
        turn = self._turns[op]
        self._turns[op] += 1
        return self._seen.comparisons.answer(op, turn, operands, result)

    def _disturb(
        self,
        array: np.ndarray,
        terms: float = 1.0,
        axes: Sequence[int] | None = None,
        scale: float = 1.0,
    ) -> np.ndarray:
        """Return an array of floats with random rounding errors added; others
        unchanged.

        Args:
            array: of any dtype; what are no floats has none.
            terms: of it that are added up to one result.
            axes: along which they are, where that is known.
            scale: of the errors.
        """
        if not is_float(array):
            return array
        return self._errors.added_to(array, terms, axes, scale)


def _is_argument(value: Value) -> bool:
    """Return whether a value is an entry argument, perhaps rearranged."""
    while not isinstance(value.owner, ir.Block):
        made = value.owner.opview
        if not isinstance(made, GraphOp) or not type(made).rearranges:
            return False
        value = made.operands[0]
    return is_entry(value.owner.owner.opview)


def noises() -> Iterator[Noise]:
    """Yield evaluators with different noise that share facts about one graph's ops."""
    seen = OpFacts()
    return (Noise(seed, seen) for seed in count())


def _terms(op: GraphOp, operands: Arrays, results: Arrays) -> float:
    """Estimate how many terms are summed for each element of an op's results."""
    sizes = [float(x.size) for x in operands if is_float(x)]
    made = float(max((x.size for x in results), default=1) or 1)
    if type(op).precision == LOW and len(sizes) > 1:  # products, as of matrices
        return float(np.sqrt(sizes[0] * sizes[1] / made))
    return max(sizes, default=1.0) / made


def _may_overflow(operands: Sequence[np.ndarray], extents: ArrayExtents) -> bool:
    """Return whether sums of products of these arrays' elements may overflow."""
    if not all(map(is_float, operands)):
        return False
    dtype = np.float64 if operands[0].dtype == np.float64 else np.float32
    bound = float(min(x.size for x in operands))  # no element has more terms
    for x in operands:
        is_plain = x.size and extents.is_finite(x)
        bound *= max(map(abs, extents.of(x))) if is_plain else largest_finite(x)
    return not bound < float(np.finfo(dtype).max)


def largest_finite(x: np.ndarray) -> float:
    """Return the largest magnitude of the finite elements of an array."""
    if not x.size:
        return 0.0
    ends = [float(np.fmin.reduce(x, None)), float(np.fmax.reduce(x, None))]
    if np.isfinite(ends).all():  # as a rule; one pass each, and no copy
        return max(map(abs, ends))
    finite = np.abs(x[np.isfinite(x)].astype(np.float64))
    return float(finite.max(initial=0.0))


def _overflows(operands: Arrays, results: Arrays, extents: ArrayExtents) -> bool:
    """Return whether an infinity in the results comes from large operands, not a
    pole.
    """
    floats = [x for x in results if is_float(x)]
    made = [np.isinf(x) for x in floats if not extents.is_finite(x)]
    if not any(each.any() for each in made):
        return False
    floats = [x for x in operands if is_float(x)]
    if not all(np.isfinite(x).all() for x in floats):
        return False
    poles = [x == 0 for x in floats]
    return any(
        (
            each & ~np.logical_or.reduce([p for p in poles if p.shape == each.shape])
        ).any()
        for each in made
    )


def _may_be_winograd(op: Operation) -> TypeGuard[ConvGeneral]:
    """Return whether some target may compute this convolution by Winograd's
    algorithm.
    """
    if not isinstance(op, ConvGeneral) or numerics_of(op) != RELAXED:
        return False
    from aotc.kernels.planning import winograd  # with all kernels

    return winograd.is_window_of_three(op) and not winograd.is_exact(op)


def _may_round_rows(op: Operation) -> TypeGuard[DotGeneral]:
    """Return whether some target may round the rows that this op multiplies to i8."""
    if not isinstance(op, DotGeneral) or numerics_of(op) != RELAXED:
        return False
    from aotc.passes.keep_quantized import is_dequantized  # with all kernels

    return len(op.lhs_contract) == 1 and is_dequantized(op.rhs)


def _flush(array: np.ndarray) -> np.ndarray:
    """Return an array with zeros for subnormal numbers; half floats have none.

    They are computed in f32, in which all of them are normal.
    """
    if not is_float(array) or array.dtype == np.float16:
        return array
    least, bits_of_least = _smallest_normal(array.dtype)
    flat = array.ravel(order="K")  # of a transposed one, too, without a copy
    bits = flat.view(f"u{flat.itemsize}")
    normal = 2 * bits_of_least  # without the sign
    for part in cached_parts(flat.size):  # until one is found
        sizes = bits[part] << 1
        sizes -= 1  # so 0 is the largest
        if np.minimum.reduce(sizes) < normal - 1:
            return np.where(np.abs(array) < least, np.zeros((), array.dtype), array)
    return array


@cache
def _smallest_normal(dtype: np.dtype) -> tuple[np.ndarray, int]:
    """Return the least positive normal number of a dtype, and its bit pattern."""
    least = np.array(ml_dtypes.finfo(dtype).smallest_normal, dtype)
    return least, int(least.view(f"u{least.itemsize}"))


def _is_exact(
    result: np.ndarray,
    operands: Sequence[np.ndarray],
    most: float = np.inf,
    briefly: bool = False,
) -> bool:
    """Return whether each element of a result is an integer or, up to sign, an
    operand's.

    Args:
        result: of an op.
        operands: of the op.
        most: up to where whole numbers are exact.
        briefly: look at a few numbers of each result only.
    """
    if not is_float(result):
        return True
    given = [y for y in operands if is_float(y)]
    # in its place, which is faster than to look for it
    alike = [y for y in given if y.shape == result.shape]
    some = _inexact(result.flat[:_SOME], [y.flat[:_SOME] for y in alike], most)
    if len(some) >= _FIRST and not (given and _are_among(some[:_FIRST], given)):
        return False
    x = _inexact(result, alike, most)
    if not x.size:
        return True
    if not given or not _are_among(x[:_FIRST], given):  # as a rule this decides
        return False
    sizes = np.concatenate([np.abs(y).ravel().astype(np.float64) for y in given])
    return briefly or bool(np.isin(np.abs(x).astype(np.float64), sizes).all())


def _inexact(
    result: np.ndarray, alike: Sequence[np.ndarray], most: float
) -> np.ndarray:
    """Return the finite elements that are no exact integers, nor equal, up to sign, to
    an element in the same place of an array in `alike`.
    """
    left: np.ndarray = np.isfinite(result)
    left &= (result != np.rint(result)) | (abs(result) > most)
    for y in alike:
        left &= (result != y) & (result != -y)
    found: np.ndarray = result[left]
    return found


def _is_whole(array: np.ndarray) -> bool:
    """Return whether all elements of an array are integers."""
    if not is_float(array):
        return True
    some = array.ravel(order="K")[:_SOME]  # as a rule this decides
    return all(bool((x == np.rint(x.astype(float))).all()) for x in (some, array))


def _are_among(x: np.ndarray, arrays: Sequence[object]) -> bool:
    """Return whether each number occurs, up to its sign, in one of the arrays."""
    return all(
        any(((y == number) | (y == -number)).any() for y in arrays) for number in x
    )


def is_float(array: np.ndarray) -> bool:
    """Return whether the elements of an array are floats."""
    return _is_float(array.dtype)


@cache
def _is_float(dtype: np.dtype) -> bool:
    """Return whether a NumPy dtype is a float."""
    return dtypes.is_float(dtypes.canonical_dtype(dtype))


def is_finite(x: np.ndarray) -> bool:
    """Return whether all elements of an array of floats are finite."""
    return not x.size or bool(np.isfinite(x.min()) and np.isfinite(x.max()))


def deviations(expected: np.ndarray, found: np.ndarray) -> np.ndarray:
    """Return the absolute difference of each element; NaN and infinity have rules.

    Infinitely, where it is a number in one and none, or another infinity, in the other:
    rounding leaves it open.

    Args:
        expected: a result without noise.
        found: the same with noise.

    Returns:
        An array of its shape, in f64.
    """
    x, y = found.astype(np.float64), expected.astype(np.float64)
    with np.errstate(invalid="ignore"):
        distance = np.abs(x - y)
    if is_finite(distance):
        return distance
    same = (x == y) | (np.isnan(x) & np.isnan(y))
    return np.where(same, 0, np.where(np.isnan(distance), np.inf, distance))
