"""aotc.numpy computes what NumPy does, in the dtypes that its docstring promises."""

import inspect
import math

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import aotc.numpy as anp
from aotc import special
from aotc.core import dtypes
from aotc.errors import InputError

few = settings(max_examples=40, deadline=None)

FLOATS = st.integers(-40, 40).map(
    lambda n: n / 8
)  # exact in f32, ties and zeros included
shapes = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)
full_shapes = hnp.array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=4)


def floats(shape, low=-5.0):
    """Arrays of f32 that arithmetic is exact on."""
    elements = FLOATS.map(lambda x: np.float32(max(x, low)))
    return hnp.arrays(np.float32, shape, elements=elements)


def integers(shape, dtype=np.int32, low=-9, high=9):
    """Arrays of small integers."""
    return hnp.arrays(dtype, shape, elements=st.integers(low, high))


def same_as_numpy(ours, theirs, tolerance=2e-6, dtype=None):
    """Equal in shape and nearly in value; in `dtype`, or NumPy's if aotc has it."""
    theirs = np.asarray(theirs)
    wide = {"f64": "f32", "i64": "i32", "u64": "u32"}
    wanted = dtype or wide.get(dtypes.canonical_dtype(theirs.dtype)) or theirs.dtype
    assert ours.dtype == dtypes.canonical_dtype(wanted)
    assert ours.shape == theirs.shape
    np.testing.assert_allclose(
        np.asarray(ours), theirs, rtol=tolerance, atol=tolerance, equal_nan=True
    )


# ---- elementwise --------------------------------------------------------------------

UNARY = {
    "positive": -5, "negative": -5, "absolute": -5, "abs": -5, "fabs": -5, "sign": -5,
    "exp": -5, "exp2": -5, "expm1": -5, "log": 0.125, "log1p": -0.5, "log2": 0.125,
    "log10": 0.125, "sqrt": 0, "square": -5, "reciprocal": 0.125, "sin": -5, "cos": -5,
    "tan": -5, "sinh": -5, "cosh": -5, "tanh": -5, "floor": -5, "ceil": -5, "trunc": -5,
    "isnan": -5, "isinf": -5, "isfinite": -5, "logical_not": -5, "nan_to_num": -5,
}  # fmt: skip

BINARY = {
    "add", "subtract", "multiply", "maximum", "minimum", "equal", "not_equal",
    "less", "less_equal", "greater", "greater_equal", "logical_and", "logical_or",
    "logical_xor",
}  # fmt: skip


@pytest.mark.parametrize("name", UNARY)
@few
@given(data=st.data())
def test_unary_functions_agree_with_numpy(name, data):
    x = data.draw(floats(shapes, low=UNARY[name]))
    same_as_numpy(getattr(anp, name)(x), getattr(np, name)(x), 1e-5)


@pytest.mark.parametrize("name", sorted(BINARY))
@pytest.mark.parametrize("elements", [floats, integers])
@few
@given(data=st.data())
def test_binary_functions_broadcast_as_numpy_does(name, elements, data):
    both = data.draw(hnp.mutually_broadcastable_shapes(num_shapes=2, max_dims=3))
    x, y = (data.draw(elements(shape)) for shape in both.input_shapes)
    same_as_numpy(getattr(anp, name)(x, y), getattr(np, name)(x, y))


@few
@given(integers(full_shapes), integers(()), st.sampled_from(["i8", "i32", "u8", "u32"]))
def test_whole_division_agrees_with_numpy_where_the_divisor_is_not_zero(x, y, dtype):
    low = 0 if dtype[0] == "u" else -9
    x, y = (np.maximum(n, low).astype(dtypes.to_numpy(dtype)) for n in (x, y))
    if y != 0:
        same_as_numpy(anp.floor_divide(x, y), np.floor_divide(x, y), dtype=dtype)
        same_as_numpy(anp.remainder(x, y), np.remainder(x, y), dtype=dtype)


def test_whole_division_by_zero_gives_minus_one_and_the_dividend():
    x = np.array([7, -7, 0], "i4")
    same_as_numpy(anp.floor_divide(x, 0), np.array([-1, -1, -1], "i4"))
    same_as_numpy(anp.remainder(x, 0), x)


@few
@given(floats(full_shapes), FLOATS.filter(bool))
def test_float_remainder_has_the_sign_of_the_divisor(x, y):
    same_as_numpy(anp.floor_divide(x, y), np.floor_divide(x, np.float32(y)))
    same_as_numpy(anp.remainder(x, y), np.remainder(x, np.float32(y)))


@few
@given(integers(shapes), integers(()))
def test_division_of_integers_is_a_float(x, y):
    with np.errstate(all="ignore"):
        same_as_numpy(anp.divide(x, y), np.divide(x, y).astype("f4"))
        same_as_numpy(anp.divide(x, 2), (x / 2).astype("f4"))
        same_as_numpy(anp.divide(3, 2), np.float32(1.5))


@few
@given(
    floats(shapes, low=0.125), st.sampled_from([0, 1, 2, 3, 5, -1, -2, 0.5, 1.5, 3.0])
)
def test_powers_with_python_exponents(x, exponent):
    same_as_numpy(anp.power(x, exponent), np.power(x, np.float32(exponent)), 1e-5)


@few
@given(integers(shapes, high=3), st.integers(0, 5))
def test_powers_of_integers_stay_integers(x, exponent):
    same_as_numpy(x_power := anp.power(x, exponent), np.power(x, exponent), dtype="i32")
    assert x_power.dtype == "i32"


def test_powers_of_arrays_and_of_large_exponents():
    x = np.array([0.5, 1.5, 2.0], "f4")
    same_as_numpy(anp.power(x, x), np.power(x, x))
    same_as_numpy(anp.power(2.0, x), np.power(np.float32(2), x))
    same_as_numpy(anp.power(x, 20), x ** np.float32(20))


@few
@given(floats(shapes), FLOATS, FLOATS)
def test_clip_takes_either_bound(x, low, high):
    low, high = min(low, high), max(low, high)
    same_as_numpy(anp.clip(x, low, high), np.clip(x, np.float32(low), np.float32(high)))
    same_as_numpy(anp.clip(x, a_min=low), np.clip(x, np.float32(low), None))
    same_as_numpy(anp.clip(x, a_max=high), np.clip(x, None, np.float32(high)))
    same_as_numpy(anp.clip(x), x)


@few
@given(integers(shapes, np.uint8, 0, 200), st.integers(0, 7))
def test_bits_agree_with_numpy(x, n):
    y = np.uint8(n)
    for name in (
        "bitwise_and",
        "bitwise_or",
        "bitwise_xor",
        "left_shift",
        "right_shift",
    ):
        same_as_numpy(getattr(anp, name)(x, y), getattr(np, name)(x, y))
    same_as_numpy(anp.invert(x), np.invert(x))


def test_functions_that_numpy_has_elsewhere():
    x = np.array([-1.5, 0.0, 0.25], "f4")
    same_as_numpy(special.erf(x), np.array([math.erf(v) for v in x], "f4"))
    same_as_numpy(anp.rsqrt(x + 2), 1 / np.sqrt(x + 2))
    same_as_numpy(anp.logaddexp(x, 100 * x), np.logaddexp(x, 100 * x))
    same_as_numpy(
        anp.nan_to_num(np.array([np.nan, 1], "f4"), nan=7), np.array([7, 1], "f4")
    )


@few
@given(data=st.data())
def test_where_takes_a_truth_and_two_alternatives(data):
    three = data.draw(hnp.mutually_broadcastable_shapes(num_shapes=3, max_dims=3))
    condition, x, y = (data.draw(floats(shape)) for shape in three.input_shapes)
    same_as_numpy(anp.where(condition, x, y), np.where(condition, x, y))


def test_bool_adds_as_or_and_multiplies_as_and():
    x, y = np.array([True, False, True]), np.array([True, True, False])
    same_as_numpy(anp.add(x, y), x | y)
    same_as_numpy(anp.multiply(x, y), x & y)


def test_unsigned_numbers_have_a_sign_and_negate_by_wrapping():
    x = np.array([0, 1, 200], "u1")
    same_as_numpy(anp.sign(x), np.sign(x))
    same_as_numpy(anp.negative(x), np.negative(x))
    same_as_numpy(anp.abs(x), x)


# ---- weak numbers -------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i1", "i4", "i8", "u1", "u4"])
def test_python_numbers_take_the_dtype_of_the_array(dtype):
    x = anp.asarray(np.array([1, 2, 3], dtype))
    numbers = [True, 2, np.int64(2), np.bool_(True)]
    numbers += [1.5, np.sqrt(2.0)] if dtype[0] == "f" else []
    for number in numbers:
        for result in (x + number, number + x, x * number, number - x):
            assert result.dtype == x.dtype
        assert (x > number).dtype == "bool"


def test_numbers_among_themselves_are_f32_i32_or_bool():
    assert anp.add(1.5, True).dtype == "f32"
    assert anp.add(1, True).dtype == "i32"
    assert anp.add(True, False).dtype == "bool"
    assert anp.asarray([1.5, 2]).dtype == "f32"
    assert anp.asarray([[1], [2]]).dtype == "i32"
    assert anp.asarray([True]).dtype == "bool"
    assert anp.asarray(np.sqrt(2.0)).dtype == "f32"
    assert anp.exp(1).dtype == "f32"


def test_lists_of_numbers_act_like_numbers():
    x = anp.ones(3, "f16")
    assert (x + [1.5, 2, 3]).dtype == "f16"
    assert (x * (1, 2, 3)).dtype == "f16"


def test_numpy_arrays_keep_their_dtype():
    assert anp.asarray(np.zeros(3)).dtype == "f64"
    assert anp.asarray(np.float32(1)).dtype == "f32"
    assert anp.asarray([np.zeros(2, "f2")]).dtype == "f16"


@pytest.mark.parametrize(
    ("x", "y", "conversion"),
    [
        (np.zeros(3), np.zeros(3, "f4"), "float32"),
        (np.zeros(3, "f4"), np.zeros(3), "float32"),
        (np.zeros(3, "i4"), np.zeros(3, "f4"), "float32"),
        (np.zeros(3, "i4"), 1.5, "float32"),
        (np.zeros(3, "f2"), np.zeros(3, "f4"), "float32"),
        (np.zeros(3, "i8"), np.zeros(3, "i4"), "int32"),
        (np.zeros(3, "?"), 2, "int32"),
    ],
)
def test_arrays_of_different_dtypes_do_not_mix_and_the_hint_converts(x, y, conversion):
    with pytest.raises(InputError) as caught:
        anp.add(x, y)
    assert caught.value.code == "dtype-mismatch"
    assert f".astype('{conversion}')" in caught.value.hint
    converted = [part.astype(conversion) if np.ndim(part) else part for part in (x, y)]
    assert anp.add(*converted).dtype == dtypes.canonical_dtype(conversion)


@pytest.mark.parametrize(("dtype", "number"), [("u1", 300), ("i4", 2**40), ("u4", -1)])
def test_a_number_out_of_the_range_of_the_dtype_is_refused(dtype, number):
    with pytest.raises(InputError, match="out of the range"):
        anp.add(np.zeros(2, dtype), number)


def test_a_large_number_needs_its_dtype_named():
    with pytest.raises(InputError, match="out of the range") as caught:
        anp.asarray(2**40)
    assert caught.value.hint == "give the dtype: aotc.numpy.asarray(number, 'i64')"
    assert anp.asarray(2**40, "i64").item() == 2**40


def test_a_float_out_of_range_is_infinite():
    assert (anp.ones(1, "f16") * -1e9).tolist() == [-math.inf]


def test_what_is_no_array_is_refused_by_name():
    for thing in ("text", None, {"a": 1}, object()):
        with pytest.raises(InputError, match=type(thing).__name__):
            anp.add(np.zeros(2, "f4"), thing)


def test_lists_that_are_no_arrays_say_why():
    x = anp.ones(2)
    for wrong, message in (
        ([x, x], "a list of arrays"),
        ([[1], [1, 2]], "inhomogeneous"),
        ([1, 2**70], "out of the range of i32"),
        ([2**63], "out of the range of i32"),
        ([1, "a"], "got list"),
    ):
        with pytest.raises(InputError, match=message):
            anp.add(anp.ones(2, "i32"), wrong)
    assert anp.asarray([]).dtype == "f32"
    assert anp.asarray([x, x]).shape == (2, 2)


def test_numpy_operators_on_mixed_operands_are_ours():
    x, y = np.array([1, 2], "f4"), anp.asarray([3.0, 4.0])
    same_as_numpy(x + y, [4.0, 6.0])
    same_as_numpy(x @ y, 11.0)
    same_as_numpy(x < y, [True, True])
    same_as_numpy(np.float64(2) * y, [6.0, 8.0])
    same_as_numpy(np.float32(2) ** y, [8.0, 16.0])
    with pytest.raises(InputError, match="do not mix"):
        np.zeros(2) + y


def test_numpy_functions_take_concrete_arrays():
    x = anp.asarray([3.0, 4.0])
    assert np.hypot(*x) == 5
    assert np.mean(x) == 3.5
    assert np.concatenate([x, x]).shape == (4,)
    assert np.allclose(x, [3, 4])


# ---- reductions ---------------------------------------------------------------------


@st.composite
def reductions(draw, elements=floats):
    """An array and an axis argument for it: an int, a tuple or None."""
    x = draw(elements(full_shapes))
    axes = st.integers(-x.ndim, x.ndim - 1)
    several = st.lists(axes, unique_by=lambda a: a % x.ndim, max_size=x.ndim)
    return x, draw(st.none() | axes | several.map(tuple))


REDUCTIONS = ["sum", "prod", "max", "min", "amax", "amin", "mean", "var", "std"]


@pytest.mark.parametrize("name", REDUCTIONS)
@few
@given(reductions(), st.booleans())
def test_reductions_agree_with_numpy(name, case, keepdims):
    x, axis = case
    ours = getattr(anp, name)(x, axis, keepdims=keepdims)
    same_as_numpy(ours, getattr(np, name)(x, axis, keepdims=keepdims), 1e-4)


@pytest.mark.parametrize("name", ["any", "all", "count_nonzero"])
@few
@given(reductions(), st.booleans())
def test_logical_reductions_agree_with_numpy(name, case, keepdims):
    x, axis = case
    for values in (x, x > 0):
        ours = getattr(anp, name)(values, axis, keepdims=keepdims)
        same_as_numpy(ours, getattr(np, name)(values, axis, keepdims=keepdims))


@pytest.mark.parametrize("name", ["argmax", "argmin"])
@pytest.mark.parametrize("elements", [floats, integers])
@few
@given(data=st.data(), keepdims=st.booleans())
def test_positions_of_extremes_are_the_first_and_i32(name, elements, data, keepdims):
    x = data.draw(elements(full_shapes))
    axis = data.draw(st.none() | st.integers(-x.ndim, x.ndim - 1))
    theirs = getattr(np, name)(x, axis, keepdims=keepdims)
    same_as_numpy(getattr(anp, name)(x, axis, keepdims=keepdims), theirs, dtype="i32")


def test_sums_keep_the_dtype_and_count_bools_in_i32():
    assert anp.sum(np.ones(3, "i1")).dtype == "i8"
    assert anp.sum(np.ones(3, "f2")).dtype == "f16"
    assert anp.sum(np.ones(3, "i1"), dtype="i32").dtype == "i32"
    same_as_numpy(anp.sum(np.array([True, True])), np.array(2, "i4"))


def test_means_are_floats():
    same_as_numpy(anp.mean(np.array([1, 2], "i4")), np.float32(1.5))
    same_as_numpy(
        anp.var(np.array([1.0, 2, 4], "f4"), ddof=1), np.var([1.0, 2, 4], ddof=1)
    )
    assert anp.mean(np.ones(3, "i4"), dtype="f16").dtype == "f16"


@pytest.mark.parametrize("axis", [2, -3, (0, 0), (0, -2)])
def test_bad_axes_are_refused(axis):
    with pytest.raises(InputError) as caught:
        anp.sum(np.zeros((2, 3), "f4"), axis)
    assert caught.value.code == "bad-axis"


# ---- the surface --------------------------------------------------------------------


def _positional(function):
    """The parameters that can be given by position."""
    parameters = inspect.signature(function).parameters.values()
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [p.name for p in parameters if p.kind in kinds]


def test_parameters_are_named_and_ordered_as_numpys():
    in_c = {  # whose signatures NumPy does not tell, or spells otherwise
        "arange": ["start", "stop", "step", "dtype"],
        "asarray": ["a", "dtype"],
        "concatenate": ["arrays", "axis"],
        "dot": ["a", "b"],
        "einsum": ["subscripts"],
        "inner": ["a", "b"],
        "vdot": ["a", "b"],
        "where": ["condition", "x", "y"],
        "zeros": ["shape", "dtype"],
    }
    for name in set(anp.__all__) & set(dir(np)) - {"array"}:
        ours, theirs = getattr(anp, name), getattr(np, name)
        if not inspect.isfunction(ours) or isinstance(theirs, np.ufunc):
            continue
        known = in_c[name] if name in in_c else _positional(theirs)
        assert _positional(ours) == known[: len(_positional(ours))], name


def test_a_function_that_is_missing_is_an_attribute_error_with_close_names():
    with pytest.raises(AttributeError, match="aotc.numpy has no 'packbits'"):
        _ = anp.packbits
    with pytest.raises(AttributeError, match="did you mean .*transpose"):
        _ = anp.transposed
    assert not hasattr(anp, "fft")


def test_numpy_dtype_names_are_dtypes():
    for name in ("float32", "float16", "int32", "uint8", "bool_"):
        assert anp.zeros(1, getattr(anp, name)).dtype == dtypes.canonical_dtype(
            getattr(np, name)
        )


def test_methods_are_the_functions():
    x = anp.asarray(np.arange(6, dtype="f4").reshape(2, 3))
    same_as_numpy(x.reshape(3, 2), np.arange(6.0).reshape(3, 2))
    same_as_numpy(x.reshape((3, -1)), np.arange(6.0).reshape(3, 2))
    assert x.transpose(1, 0).shape == x.transpose((1, 0)).shape == x.T.shape == (3, 2)
    assert x.sum().item() == 15
    assert x.mean(0).shape == (3,)
    assert x.flatten().shape == x.ravel().shape == (6,)
    assert (-x).min().item() == -5
    assert abs(-x).max().item() == 5
    assert len(x) == 2
    assert x.size == 6
    assert [row.tolist() for row in x] == x.tolist()
