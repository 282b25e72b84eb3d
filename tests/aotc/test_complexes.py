"""Functions of complex numbers are NumPy's, on both sides of their branch cuts."""

import numpy as np
import pytest

import aotc
import aotc.numpy as anp
from aotc import complexes, reference
from aotc.complexes import Complex
from aotc.passes import run_passes
from aotc.tracing.assembly import trace

UNARY = [
    *("arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctanh"),
    *("cos", "cosh", "sin", "sinh", "tan", "tanh"),
    *("exp", "exp2", "expm1", "log", "log10", "log1p", "log2"),
    *("sign", "sqrt", "square"),
]
# whole parts, so that both sides of cuts and the points where they end are among them
PARTS = np.array([-3.0, -2.0, -1.0, -0.5, -0.0, 0.0, 0.25, 1.0, 2.0])
REAL, IMAG = np.meshgrid(PARTS, PARTS)
FEW = np.array([0.3 + 0.4j, -1.5 + 0.2j, 2.0 - 1.0j, -0.1 - 3.0j, 1e-4 + 1e-5j])
ON_AXES = np.array([0.5, 2, -0.5, -2, 0.5j, -0.5j])


def pair(z, dtype="f8"):
    return Complex(*(anp.asarray(part.astype(dtype)) for part in (z.real, z.imag)))


def joined(real, imag, dtype="c16"):
    """NumPy's complex numbers of parts: a sum would lose the sign of a zero."""
    z = np.empty(np.broadcast_shapes(real.shape, imag.shape), dtype)
    z.real, z.imag = real, imag
    return z


def array(z):
    return joined(np.asarray(z.real), np.asarray(z.imag))


def of_numpy(name, z):
    if name == "sign":
        return np.where(z == 0, z, z / np.where(z == 0, 1, abs(z)))
    return getattr(np, name)(z)


@pytest.mark.parametrize("name", UNARY)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_functions_are_those_of_numpy_on_both_sides_of_their_cuts(name):
    points = joined(REAL, IMAG)
    for dtype, slack in (("f4", 1e-6), ("f8", 1e-14)):
        z = pair(points, dtype)
        ours, theirs = array(getattr(complexes, name)(z)), of_numpy(name, points)
        finite = np.isfinite(theirs)
        assert np.isfinite(ours[finite]).all()
        apart = abs(ours - theirs)[finite] / np.maximum(1, abs(theirs[finite]))
        assert apart.max() < slack, (name, points[finite][apart.argmax()])


@pytest.mark.parametrize("name", ["arctanh", "log1p", "expm1", "sqrt", "arctan"])
def test_small_results_and_points_near_a_pole_keep_their_digits(name):
    near = [1e-5 + 2e-5j, -1e-6 + 1e-6j, -0.9999 + 1e-5j, 0.9999 - 1e-4j, -1 + 1e-4j]
    z = (np.array(near) * (1j if name == "arctan" else 1)).astype("c8")
    ours = array(getattr(complexes, name)(pair(z, "f4")))
    theirs = getattr(np, name)(z.astype("c16"))
    np.testing.assert_allclose(ours, theirs, rtol=2e-6, atol=0)


def test_powers_and_roots_are_those_of_numpy():
    z = np.append(FEW, 0)
    p = pair(z)
    for n in (0, 1, 2, 3, 7, -1, -3, 2.0, 0.5, 1.5 - 1j, 100):
        some = slice(None, -1) if np.real(n) < 0 else slice(None)
        ours = array(complexes.power(p, n))[some]
        np.testing.assert_allclose(ours, z[some] ** n, rtol=1e-12, atol=1e-300)
    np.testing.assert_allclose(array(complexes.power(p, p))[:-1], (z**z)[:-1])
    assert array(complexes.power(p, p))[-1] == 1
    assert array(complexes.power(pair(np.array([1j])), 2)).tolist() == [-1]
    few = pair(FEW)
    roots = array(complexes.cbrt(few))
    np.testing.assert_allclose(roots**3, FEW)
    assert (abs(np.angle(roots)) <= np.pi / 3).all()
    np.testing.assert_allclose(array(complexes.rsqrt(few)) ** 2, 1 / FEW)


@pytest.mark.parametrize("exponent", [np.inf, -np.inf, np.nan])
def test_a_power_with_an_exponent_that_is_not_finite_is_computed_as_one_of_an_array(
    exponent,
):
    z = pair(np.append(FEW, 0))
    ours = array(complexes.power(z, exponent))
    np.testing.assert_array_equal(ours, array(complexes.power(z, np.array(exponent))))
    assert np.isnan(ours[:-1]).all()


def test_the_logistic_function_does_not_overflow():
    z = np.array([-200 + 1j, -1 + 3j, 0, 2 - 0.5j, 200 + 1j])
    ours = array(complexes.expit(pair(z, "f4")))
    np.testing.assert_allclose(ours, 1 / (1 + np.exp(-z)), rtol=1e-5, atol=1e-38)


def test_the_angle_of_two_complex_numbers_continues_that_of_reals():
    y, x = FEW, FEW[::-1] + 1
    ours = array(complexes.arctan2(pair(y), pair(x)))
    np.testing.assert_allclose(np.tan(ours), y / x)
    real = array(complexes.arctan2(pair(np.array([-1 + 0j])), pair(np.array([2 + 0j]))))
    np.testing.assert_allclose(real, np.arctan2(-1, 2))


def test_numbers_are_equal_where_both_parts_are():
    z, w = pair(np.array([1 + 1j, 1, 1j])), pair(np.array([1 + 1j, 1 + 1j, 1 + 1j]))
    assert np.asarray(complexes.equal(z, w)).tolist() == [True, False, False]
    assert np.asarray(complexes.not_equal(z, w)).tolist() == [False, True, True]


HOLOMORPHIC = [name for name in UNARY if name != "sign"]


def test_derivatives_are_those_of_the_functions_at_a_size_that_varies():
    @aotc.entry(re=aotc.Spec(("n",), "f64"), im=aotc.Spec(("n",), "f64"))
    def entry(re, im):
        z = Complex(re, im)
        along = Complex(anp.full_like(re, 2.0), anp.full_like(im, -1.0))
        return [
            aotc.jvp(getattr(complexes, name), (z,), (along,))[1]
            for name in HOLOMORPHIC
        ]

    module = trace([entry], {}).module
    run_passes(module, ["autodiff", "inline"])
    for z in (FEW[:4], ON_AXES, FEW[:0]):
        found = reference.evaluate(module, "entry", [z.real.copy(), z.imag.copy()])
        parts = zip(HOLOMORPHIC, found[::2], found[1::2], strict=True)
        for name, real, imag in parts:
            function, step = getattr(np, name), 1e-6
            slope = (function(z + step) - function(z - step)) / (2 * step)
            ours, theirs = joined(real, imag), slope * (2 - 1j)
            np.testing.assert_allclose(ours, theirs, 1e-5, 1e-6, err_msg=name)
