"""aotc.special computes SciPy's functions; expected values are identities or tables."""

import math
from statistics import NormalDist

import numpy as np
import pytest

import aotc
from aotc import reference, special
from aotc.errors import InputError
from aotc.passes import run_passes
from aotc.tracing.assembly import trace

X = np.array([-30.0, -7.5, -2.5, -1e-3, 0.0, 0.3, 1.0, 2.0, 5.5, 30.0])
EULER = 0.5772156649015329


def close(ours, theirs, tolerance=1e-13):
    """Equal infinities and NaNs, and nearly equal f64 values."""
    assert ours.dtype == "f64"
    np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance)


def test_error_functions_are_those_of_c_and_invert_each_other():
    close(special.erf(X), [math.erf(x) for x in X])
    close(special.erfc(X), [math.erfc(x) for x in X])
    small = X[(abs(X) < 3)]
    close(special.erfinv(special.erf(small)), small, 1e-11)
    close(special.erfinv(np.array([1.0, -1, 1.1])), [math.inf, -math.inf, math.nan])


def test_the_normal_distribution_keeps_its_tails():
    normal = NormalDist()
    close(special.ndtr(X), [math.erfc(-x / math.sqrt(2)) / 2 for x in X])
    p = np.array([0.01, 0.5, 0.9])
    close(special.ndtri(p), [normal.inv_cdf(v) for v in p])
    near = [math.log(math.erfc(-x / math.sqrt(2)) / 2) for x in X]
    close(special.log_ndtr(X), near)
    for x in (-1e3, -1e5):
        # Mills: between 1/x - 1/x**3 and 1/x times the density
        bell = -x * x / 2 - math.log(-x) - math.log(2 * math.pi) / 2
        found = special.log_ndtr(np.array(x)).item()
        assert found == pytest.approx(bell - 1 / x**2, rel=1e-14)
    close(special.log_ndtr(np.array([-math.inf, math.inf])), [-math.inf, 0])


def test_modified_bessel_functions_are_their_power_series():
    for order, plain, scaled in (
        (0, special.i0, special.i0e),
        (1, special.i1, special.i1e),
    ):
        series = [
            math.fsum(
                (x / 2) ** (2 * k + order)
                / math.factorial(k)
                / math.factorial(k + order)
                for k in range(80)
            )
            for x in X
        ]
        close(plain(X), series)
        close(scaled(X), np.exp(-abs(X)) * series)


def test_gamma_functions_satisfy_their_recurrences():
    x = np.array([0.2, 1.0, 1.5, 2.0, 3.7, 12.0, 100.0, -0.5, -3.3])
    close(special.gammaln(x), [math.lgamma(v) for v in x])
    for n in range(4):
        step = math.factorial(n) * (-1.0) ** n / x ** (n + 1)
        next_ = np.asarray(special.polygamma(n, x + 1))
        close(special.polygamma(n, x), next_ - step)
    close(special.digamma(np.array([1.0, 0.5])), [-EULER, -EULER - 2 * math.log(2)])
    close(special.polygamma(1, np.array([1.0])), [math.pi**2 / 6])
    close(
        special.polygamma(3, np.array([1.0, 0.5])), np.array([1, 15]) * math.pi**4 / 15
    )
    poles = np.array([0.0, -1.0])
    close(special.gammaln(poles), [math.inf] * 2)
    close(special.digamma(poles), [math.nan] * 2)
    close(special.betaln(np.array([2.0]), 3.0), [-math.log(12)])


def test_logarithms_meet_zeros_as_entropies_need_it():
    zero, inf, nan = 0.0, math.inf, math.nan
    x = np.array([zero, zero, zero, zero, 2, 2, nan])
    y = np.array([zero, -1, inf, nan, zero, 3, 1])
    close(special.xlogy(x, y), [0, 0, 0, nan, -inf, 2 * math.log(3), nan])
    close(special.xlog1py(x, y - 1), [0, 0, 0, nan, -inf, 2 * math.log(3), nan])
    p = np.array([zero, 1, 0.5, -1, nan])
    close(special.entr(p), [0, 0, math.log(2) / 2, -inf, nan])
    close(special.logit(np.array([0, 0.5, 1.0])), [-inf, 0, inf])
    close(special.expit(np.array([-1000.0, 0, 1000])), [0, 0.5, 1])


def test_half_precision_is_computed_in_f32():
    x = np.array([-9.0, -3.0, 0.5, 3.0], "f2")
    for function in (special.ndtr, special.log_ndtr, special.gammaln, special.digamma):
        ours = np.asarray(function(x))
        theirs = np.asarray(function(x.astype("f4"))).astype("f2")
        np.testing.assert_array_equal(ours, theirs)


def test_numbers_and_integers_become_f32():
    assert special.erf(1).dtype == "f32"
    assert special.xlogy(np.arange(3), 2).dtype == "f32"
    with pytest.raises(InputError, match="expected an order n"):
        special.polygamma(-1, 1.0)


def slope(function, x):
    """The derivative of `function` at x, in f64."""

    @aotc.entry(x=aotc.Spec((), "f64"))
    def entry(x):
        return aotc.grad(function)(x)

    program = trace([entry], {})
    run_passes(program.module, ["autodiff", "inline"])
    return reference.evaluate(program.module, "entry", [np.float64(x)])[0].item()


@pytest.mark.parametrize(
    ("function", "x", "expected"),
    [
        (lambda p: special.xlogy(p, p), 0, 0),
        (lambda p: special.xlogy(p, 2.0), 0, math.log(2)),
        (special.entr, 1, -1), (special.logit, 0.5, 4),
        (special.log_ndtr, -1e4, 1e4 + 1e-4), (special.log_ndtr, 100, 0),
        (special.log_ndtr, 0, math.sqrt(2 / math.pi)), (special.ndtr, -100, 0),
        (special.erfinv, 0, math.sqrt(math.pi) / 2), (special.erfinv, 1, math.inf),
        (special.ndtri, 0.5, math.sqrt(2 * math.pi)), (special.gammaln, 1, -EULER),
        (special.gammaln, 1e300, math.log(1e300)), (special.digamma, 1, math.pi**2 / 6),
    ],
)  # fmt: skip
def test_slopes_are_right_where_formulas_have_trouble(function, x, expected):
    assert slope(function, x) == pytest.approx(expected, rel=1e-9, abs=1e-100)
