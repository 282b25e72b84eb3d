"""Functions of complex numbers are NumPy's, on both sides of their branch cuts."""

import iree.runtime as iree
import numpy as np
import pytest

import aotc
import aotc.numpy as anp
from aotc import complexes, reference
from aotc.backend import compile_targets
from aotc.complexes import Complex
from aotc.machine.target import Target
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


# ---- infinities, NaN and sizes near the limits of the dtype --------------------------

INF, NAN = np.inf, np.nan
SPECIAL = [
    *(complex(NAN, 1), complex(1, NAN), complex(NAN, NAN)),
    *(complex(INF, 1), complex(-INF, 0), complex(INF, NAN), complex(NAN, -INF)),
    *(complex(1, -INF), complex(INF, INF), complex(-INF, INF)),
]
EXTREME = [3e38 + 3e38j, -3e38 + 1e20j, 1e20, 1e20j, -1e30j, 1e-30 - 1e-30j, 1e-40j]


def assert_parts_close(ours, theirs, message=""):
    """Parts are close, or the same infinity, or both NaN."""
    for part in (np.real, np.imag):
        with np.errstate(over="ignore"):
            expected = part(theirs).astype("f4")
        np.testing.assert_allclose(part(ours), expected, 2e-6, 3e-45, err_msg=message)


@pytest.mark.parametrize(
    "points", [SPECIAL, EXTREME, [0j]], ids=["special", "extreme", "zero"]
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_absolute_values_and_logarithms_hold_at_every_size(points):
    z = np.array(points).astype("c8").astype("c16")
    size = np.asarray(complexes.absolute(pair(z, "f4")))
    assert_parts_close(size, np.hypot(z.real, z.imag), "absolute")
    for name in ("log", "log2", "log10"):
        ours = array(getattr(complexes, name)(pair(z, "f4")))
        turn = np.arctan2(z.imag, z.real)  # of C99, by parts
        base = {"log": 1, "log2": np.log(2), "log10": np.log(10)}[name]
        theirs = joined(np.log(np.hypot(z.real, z.imag)) / base, turn / base)
        assert_parts_close(ours, theirs, name)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_square_roots_and_log1p_hold_at_every_size():
    for name in ("sqrt", "log1p"):
        # the root of an infinity beside NaN is not that of C99
        z = np.array([p for p in SPECIAL + EXTREME if not np.isnan(p)] + [0, 1e20 + 1])
        z = z.astype("c8").astype("c16")
        ours = array(getattr(complexes, name)(pair(z, "f4")))
        theirs = getattr(np, name)(z)
        if name == "log1p":  # NumPy's has no digits at small sizes
            theirs = np.where(abs(z) < 1e-20, z, theirs)
        assert_parts_close(ours, theirs, name)
        assert np.isnan(array(getattr(complexes, name)(pair(np.array([NAN]))))).all()


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_quotients_hold_where_the_square_of_a_divisor_does_not():
    tops = [1e20 + 1e20j, 1e-20 - 1e-20j, 1, 1, 1 + 2j, 1e30 - 1e30j, 1, 1, 2 - 1j, 0]
    ends = [1e20 + 1e20j, 1e-20 - 1e-22j, 1e-25, 1e25j, 1e-30 + 1e-30j, 1e30j, INF, 0]
    z, w = np.array(tops, "c8"), np.array([*ends, complex(0, -INF), 1e-30], "c8")
    theirs = z.astype("c16") / w.astype("c16")
    assert_parts_close(array(pair(z, "f4") / pair(w, "f4")), theirs)
    # parts by a real divisor
    w = np.array([1e-30, 1e30, 3.0] * 3 + [INF], "f4")
    ours = array(pair(z, "f4") / anp.asarray(w))
    assert_parts_close(ours, z.astype("c16") / w.astype("f8"))
    assert_parts_close(array(1.0 / pair(np.array([1e-25j]), "f4")), np.array([-1e25j]))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_results_for_real_and_imaginary_numbers_are_so_though_they_are_infinite():
    x = np.array([1000, 1e30, INF, -1000, -INF, 0], "f4")
    for zero in (0.0, -0.0):
        for name in ("exp", "exp2"):
            z = pair(joined(x, np.array(zero)), "f4")
            ours = array(getattr(complexes, name)(z))
            np.testing.assert_array_equal(ours.real, np.asarray(getattr(anp, name)(x)))
            np.testing.assert_array_equal(ours.imag, 0.0)
            assert (np.signbit(ours.imag) == np.signbit(zero)).all()
        on_axis = pair(joined(np.array(zero), x), "f4")
        assert not array(complexes.sin(on_axis)).real.any()
        assert not array(complexes.cos(on_axis)).imag.any()
        assert not array(complexes.sinh(pair(joined(x[:2], np.array(zero))))).imag.any()


def test_derivatives_are_finite_at_zero_and_at_extreme_sizes():
    @aotc.entry(re=aotc.Spec(("n",)), im=aotc.Spec(("n",)))
    def entry(re, im):
        z, along = Complex(re, im), Complex(anp.ones_like(re), anp.zeros_like(im))
        return [
            aotc.jvp(complexes.absolute, (z,), (along,))[1],
            aotc.jvp(complexes.exp, (z * 0.0,), (Complex(im + 1 - im, re),))[1],
            aotc.jvp(lambda z: (z + z) / (z + 1e-30), (z,), (along,))[1],
            aotc.jvp(lambda z: complexes.log(z + 1e-30), (z,), (along,))[1],
        ]

    module = trace([entry], {}).module
    run_passes(module, ["autodiff", "inline"])
    z = np.array([0, 1e20, 1e20j, -1e20 + 1e20j, 0.6 + 0.8j], "c8")
    found = reference.evaluate(module, "entry", [z.real.copy(), z.imag.copy()])
    assert all(np.isfinite(part).all() for part in found)
    away = np.divide(z, abs(z), out=np.zeros_like(z), where=z != 0)
    np.testing.assert_allclose(found[0], away.real, 1e-6, 1e-6)
    # the exponential's at 0 is 1, along the imaginary part as well
    np.testing.assert_allclose(found[2], z.real)
    np.testing.assert_allclose(found[-2][-1], (1 / z[-1]).real, 1e-6)
    np.testing.assert_allclose(found[-2][0], 1e30, 1e-6)


def test_compiled_results_at_extremes_are_those_of_the_reference():
    # without the subnormal number, of which the compiled real logarithm is infinite
    z = np.array([*SPECIAL, *EXTREME[:-1], 0, 1000, -1000, 1000j, 1 + 2j]).astype("c8")

    @aotc.entry(re=aotc.Spec(("n",)), im=aotc.Spec(("n",)))
    def entry(re, im):
        z = Complex(re, im)
        # sines of angles beyond what floats tell apart are not compared
        turn = anp.where(anp.abs(im) < 2000.0, im, 0.0)
        names = ("absolute", "log", "log1p", "log2", "sqrt")
        return [
            *(getattr(complexes, name)(z) for name in names),
            *(complexes.exp(Complex(re, turn)), complexes.sin(Complex(turn, re))),
            *(z / Complex(re[::-1], im[::-1]), 1.0 / z),
        ]

    program = trace([entry], {})
    inputs = [z.real.copy(), z.imag.copy()]
    wanted = reference.evaluate(program.module, "entry", inputs)
    run_passes(program.module, ["simplify", "cse", "decompose", "lower-to-linalg"])
    (compiled,) = compile_targets(program, [Target.parse("cpu")])
    config = iree.Config("local-sync")
    code = iree.VmModule.copy_buffer(config.vm_instance, compiled.vmfb)
    found = iree.load_vm_module(code, config).entry(*inputs)
    names = [port.name for port in program.entries[0].results]
    for name, one, other in zip(names, found, wanted, strict=True):
        np.testing.assert_allclose(np.asarray(one), other, 1e-5, 1e-37, err_msg=name)
