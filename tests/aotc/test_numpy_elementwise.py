"""Elementwise functions of aotc.numpy equal NumPy's, at edges of their domains too."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import aotc
import aotc.numpy as anp
from aotc import reference
from aotc.core import dtypes
from aotc.errors import InputError
from aotc.passes import run_passes
from aotc.tracing.assembly import trace

few = settings(max_examples=200, deadline=None)

EDGES = [
    math.inf, -math.inf, math.nan, -0.0, 0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 3.0,
    1e-8, -1e-8, 1 + 1e-6, 0.999, 60.0, -60.0, 88.9, -88.9, 1e30, -1e30,
]  # fmt: skip

UNARY = [
    "sin", "cos", "tan", "arcsin", "arccos", "arctan", "sinh", "cosh", "tanh",
    "arcsinh", "arccosh", "arctanh", "exp", "exp2", "expm1", "log", "log2", "log10",
    "log1p", "sqrt", "cbrt", "sinc", "deg2rad", "rad2deg", "degrees", "radians",
    "floor", "ceil", "trunc", "fix", "rint", "round", "around", "signbit", "isinf",
    "isposinf", "isneginf", "isfinite", "isnan", "nan_to_num", "sign", "square",
]  # fmt: skip

BINARY = [
    "arctan2", "hypot", "logaddexp", "logaddexp2", "copysign", "fmax", "fmin", "fmod",
    "remainder", "mod", "floor_divide", "heaviside", "float_power", "power", "isclose",
    "nextafter",
]  # fmt: skip


def same_kind(ours, theirs, tolerance):
    """Equal infinities and NaNs, and values within `tolerance`."""
    ours, theirs = np.asarray(ours), np.asarray(theirs)
    assert ours.shape == theirs.shape
    if ours.dtype != bool:
        assert ours.dtype.kind == theirs.dtype.kind
    np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", UNARY)
@pytest.mark.parametrize(("dtype", "tolerance"), [("f4", 1e-6), ("f8", 1e-14)])
def test_unary_functions_agree_with_numpy_at_the_edges(name, dtype, tolerance):
    x = np.array(EDGES, dtype)
    with np.errstate(all="ignore"):
        same_kind(getattr(anp, name)(x), getattr(np, name)(x), tolerance)


@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize(("dtype", "tolerance"), [("f4", 1e-6), ("f8", 1e-14)])
def test_binary_functions_agree_with_numpy_at_the_edges(name, dtype, tolerance):
    x, y = np.meshgrid(*[np.array(EDGES, dtype)] * 2)
    with np.errstate(all="ignore"):
        theirs = getattr(np, name)(x, y)
        ours = getattr(anp, name)(x, y)
        # NumPy's float_power is always f64
        same_kind(ours, theirs.astype(np.asarray(ours).dtype), tolerance)


@pytest.mark.parametrize("name", [n for n in UNARY if "is" not in n and n != "signbit"])
def test_integers_give_what_numpy_gives_in_the_dtypes_of_aotc(name):
    x = np.array([0, 1, 2, 5], "i4")
    with np.errstate(all="ignore"):
        ours, theirs = getattr(anp, name)(x), getattr(np, name)(x)
    same_kind(ours, np.asarray(theirs).astype(np.asarray(ours).dtype), 1e-5)
    whole = name in ("floor", "ceil", "trunc", "fix", "round", "around", "sign")
    whole = whole or name in ("square", "nan_to_num")
    assert ours.dtype == ("i32" if whole else "f32")
    assert getattr(anp, name)(1).dtype == ours.dtype


def test_rounding_keeps_the_sign_of_zeros():
    x = np.array([-0.7, -0.0, 0.0, 0.3])
    for name in ("trunc", "fix", "rint", "round"):
        ours, theirs = getattr(anp, name)(x), getattr(np, name)(x)
        assert np.signbit(np.asarray(ours)).tolist() == np.signbit(theirs).tolist()


def test_the_names_of_the_array_api_are_numpys_functions():
    for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh"):
        assert getattr(anp, f"a{name}") is getattr(anp, f"arc{name}")
    assert anp.atan2 is anp.arctan2
    assert anp.pow is anp.power
    assert anp.bitwise_left_shift is anp.left_shift


# ---- division -----------------------------------------------------------------------

anything = st.floats(width=32)


@few
@given(anything, anything)
def test_remainders_and_quotients_of_floats_are_exactly_numpys(x, y):
    x, y = np.float32(x), np.float32(y)
    with np.errstate(all="ignore"):
        for name in ("fmod", "remainder", "floor_divide"):
            ours, theirs = getattr(anp, name)(x, y), getattr(np, name)(x, y)
            np.testing.assert_array_equal(np.asarray(ours), theirs, name)


def test_a_tenth_divides_one_nine_times():
    for dtype in ("f4", "f8"):
        quotient, rest = anp.divmod(np.ones((), dtype), np.array(0.1, dtype))
        assert quotient.item() == np.floor_divide(dtypes.to_numpy("f64").type(1), 0.1)
        assert rest.item() == np.ones((), dtype) % np.array(0.1, dtype)


def test_fmod_of_integers_has_the_sign_of_the_dividend():
    x, y = np.array([7, -7, 7, -7, 5], "i4"), np.array([2, 2, -2, -2, 0], "i4")
    assert anp.fmod(x, y).tolist() == [1, -1, 1, -1, 5]
    assert anp.remainder(x, y).tolist() == [1, 1, -1, -1, 5]


def test_remainders_have_slopes_one_and_minus_the_quotient():
    for x, y in ((5.3, 2.0), (-5.3, 2.0), (5.3, -2.0), (4.0, 2.0)):
        assert slope(lambda a, y=y: anp.remainder(a, y), x) == 1
        at = slope(lambda b, x=x: anp.remainder(x, b), y)
        assert at == -math.floor(x / y)
        assert slope(lambda a, y=y: anp.floor_divide(a, y), x) == 0


# ---- integers -----------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "i4", "u4", "i8", "u8"])
def test_bits_are_counted_as_numpy_and_python_count_them(dtype):
    info = np.iinfo(dtype)
    x = np.array([info.min, info.max, 0, 1, 2, 3, 77, info.max // 3], dtype)
    same_kind(anp.bitwise_count(x), np.bitwise_count(x), 0)
    mask = (1 << info.bits) - 1
    zeros = [info.bits - (int(v) & mask).bit_length() for v in x]
    assert anp.count_leading_zeros(x).tolist() == zeros
    assert anp.count_leading_zeros(x).dtype == dtypes.canonical_dtype(x.dtype)


@pytest.mark.parametrize("dtype", ["i1", "u1", "i4", "u8"])
def test_integers_have_powers_that_wrap_and_negative_ones_that_vanish(dtype):
    x, y = np.array([3, 2, 0, 1, 7], dtype), np.array([4, 9, 0, 3, 2], dtype)
    same_kind(anp.power(x, y), np.power(x, y), 0)
    if dtype[0] == "i":
        base = np.array([2, -1, -1, 1, 0], dtype)
        negative = np.array([-1, -3, -2, -5, -1], dtype)
        assert anp.power(base, negative).tolist() == [0, -1, 1, 1, 0]


def test_whole_numbers_round_to_tens_with_ties_to_even():
    x = np.array([0, 4, 5, 6, 15, 25, 35, -5, -15, -26, 149], "i4")
    same_kind(anp.round(x, -1), np.round(x, -1), 0)
    same_kind(anp.round(x, 2), x, 0)
    with pytest.raises(InputError, match="numbers to round"):
        anp.round(np.array([True]), -1)


@few
@given(st.floats(-1e4, 1e4, width=32), st.integers(-3, 3))
def test_rounding_to_decimals_agrees_with_numpy(x, decimals):
    same_kind(
        anp.round(np.float32(x), decimals), np.round(np.float32(x), decimals), 1e-6
    )


# ---- parts of floats ----------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_floats_come_apart_and_together_as_in_numpy(dtype):
    info = np.finfo(dtype)
    with np.errstate(over="ignore"):
        edges = np.array(EDGES).astype(dtype)
    extremes = [info.max, -info.max, info.tiny, info.smallest_subnormal]
    x = np.concatenate([edges, np.array(extremes, dtype)])
    m, n = anp.frexp(x)
    np.testing.assert_array_equal(np.asarray(m), np.frexp(x)[0])
    np.testing.assert_array_equal(np.asarray(n), np.frexp(x)[1])
    np.testing.assert_array_equal(np.asarray(anp.ldexp(m, n)), x)
    fraction, whole = anp.modf(x)
    np.testing.assert_array_equal(np.asarray(fraction), np.modf(x)[0])
    np.testing.assert_array_equal(np.asarray(whole), np.modf(x)[1])
    for towards in (0, -math.inf, math.inf):
        with np.errstate(all="ignore"):
            next_ = np.nextafter(x, np.array(towards, dtype))
        np.testing.assert_array_equal(np.asarray(anp.nextafter(x, towards)), next_)


@pytest.mark.parametrize("exponents", ["i1", "u1", "i4", "u4", "i8", "u8"])
def test_ldexp_takes_exponents_of_every_integer_dtype(exponents):
    n = np.array([0, 1, 5, 127], exponents)
    same_kind(
        anp.ldexp(np.float32(1.5), n), np.ldexp(np.float32(1.5), n.astype("i4")), 0
    )
    if exponents[0] == "i":
        assert anp.ldexp(np.float32(1), np.array(-126, exponents)).item() == 2.0**-126


def test_bits_are_read_as_another_dtype_of_equal_width():
    x = np.array([1.0, -0.0, math.nan], "f4")
    same_kind(anp.bitcast(x, "u32"), x.view("u4"), 0)
    same_kind(anp.bitcast(anp.bitcast(x, np.int32), "f32"), x, 0)
    with pytest.raises(InputError, match="expected a dtype of 32 bits"):
        anp.bitcast(x, "i64")
    with pytest.raises(InputError, match="expected integers"):
        anp.bitwise_count(x)
    with pytest.raises(InputError, match="expected integer exponents"):
        anp.ldexp(x, x)


def test_numbers_for_nan_and_infinities_can_be_chosen():
    x = np.array([math.nan, math.inf, -math.inf, 2.0], "f4")
    same_kind(
        anp.nan_to_num(x, nan=1, posinf=5, neginf=-5),
        np.nan_to_num(x, nan=1, posinf=5, neginf=-5), 0,
    )  # fmt: skip
    assert anp.isclose(x, x).tolist() == [False, True, True, True]
    assert anp.isclose(x, x, equal_nan=True).tolist() == [True] * 4
    assert anp.allclose(x, x, equal_nan=True).item()
    assert not anp.allclose(x, x).item()
    assert anp.clip(x, min=0, max=1).tolist()[1:] == [1, 0, 1]


# ---- slopes at difficult points -----------------------------------------------------


def evaluated(function, x):
    """What `function`, which may differentiate, gives for x in f64."""

    @aotc.entry(x=aotc.Spec((), "f64"))
    def entry(x):
        return function(x)

    program = trace([entry], {})
    run_passes(program.module, ["autodiff", "inline"])
    return reference.evaluate(program.module, "entry", [np.float64(x)])[0].item()


def slope(function, x):
    """The derivative of `function` at x."""
    return evaluated(aotc.grad(function), x)


def bend(function, x):
    """The second derivative."""
    return evaluated(aotc.grad(aotc.grad(function)), x)


@pytest.mark.parametrize(
    ("function", "x", "expected"),
    [
        (anp.arcsin, 1, math.inf), (anp.arcsin, -1, math.inf), (anp.arcsin, 0, 1),
        (anp.arccos, 1, -math.inf), (anp.arccos, -1, -math.inf), (anp.arccos, 0, -1),
        (anp.arctan, 1e200, 0), (anp.arctan, 0, 1), (anp.arccosh, 1, math.inf),
        (anp.arcsinh, 0, 1), (anp.arcsinh, 1e300, 0), (anp.arctanh, 1, math.inf),
        (anp.sinh, 0, 1), (anp.sinh, 1000, math.inf), (anp.cosh, -1000, -math.inf),
        (anp.cosh, 0, 0), (anp.sinc, 0, 0), (anp.sinc, 0.002, -0.006579710291635),
        (anp.tanh, 1000, 0), (anp.exp2, 3, 8 * math.log(2)), (anp.cbrt, -8, 1 / 12),
        (anp.cbrt, 0, math.inf), (anp.log2, 2, 0.5 / math.log(2)),
        (lambda x: anp.hypot(x, x), 0, 0), (lambda x: anp.hypot(x, 0), 3e-300, 1),
        (lambda x: anp.arctan2(x, x), 0, 0), (lambda x: anp.arctan2(x, -1), 0, -1),
        (lambda x: anp.arctan2(x, 1e-200), 0, 1e200),
        (lambda x: anp.logaddexp(x, 0), 0, 0.5),
        (lambda x: anp.logaddexp(x, 0), -math.inf, 0),
        (lambda x: anp.logaddexp(x, 0), -1000, 0), (lambda x: anp.power(x, x), 0, 0),
        (lambda x: anp.power(x, np.float64(2) * anp.ones_like(x)), 0, 0),
        (lambda x: anp.power(x, anp.ones_like(x)), 0, 1),
        (lambda x: anp.power(x, 0.5 * anp.ones_like(x)), 0, math.inf),
        (lambda x: anp.power(x, anp.zeros_like(x)), 0, 0),
        (lambda x: anp.fmax(x, math.nan), 2, 1), (lambda x: anp.modf(x)[0], 2.5, 1),
        (lambda x: anp.copysign(x, -1), 2, -1), (lambda x: anp.ldexp(x, 5), 2, 32),
        (lambda x: anp.frexp(x)[0], 6, 1 / 8), (lambda x: anp.nan_to_num(x), 2, 1),
        (anp.abs, 0, 0), (anp.rint, 0.3, 0),
    ],
)  # fmt: skip
def test_slopes_are_right_where_formulas_have_trouble(function, x, expected):
    assert slope(function, x) == pytest.approx(expected, rel=1e-9, abs=1e-100)


@pytest.mark.parametrize(
    ("function", "x", "expected"),
    [
        (lambda x: anp.logaddexp(x, 0), 0, 0.25), (anp.sinc, 0, -(math.pi**2) / 3),
        (anp.cosh, 0, 1), (anp.sinh, 0, 0), (anp.arcsinh, 0, 0), (anp.arctan, 1, -0.5),
        (lambda x: anp.power(x, np.float64(2) * anp.ones_like(x)), 0, 2),
    ],
)  # fmt: skip
def test_second_derivatives_are_right_there_too(function, x, expected):
    assert bend(function, x) == pytest.approx(expected, abs=1e-12)
