"""aotc.numpy moves, makes, joins, indexes and multiplies arrays as NumPy does."""

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import aotc.numpy as anp
from aotc.core import dtypes
from tests.aotc.numbering import numbered
from tests.comparing import same_elements
from tests.refusals import refused_here

few = settings(max_examples=60, deadline=None)
shapes = hnp.array_shapes(min_dims=1, max_dims=4, min_side=1, max_side=5)


# ---- shapes -------------------------------------------------------------------------


@few
@given(shapes, st.data())
def test_reshape_resolves_one_unknown_size(shape, data):
    x = numbered(shape)
    sizes = list(data.draw(st.permutations(shape)))
    sizes[data.draw(st.integers(0, len(sizes) - 1))] = -1
    same_elements(anp.reshape(x, sizes), x.reshape(sizes))
    same_elements(anp.reshape(x, -1), x.reshape(-1))


def test_reshape_refuses_what_does_not_divide():
    x = numbered((2, 3))
    for wrong in ((4, -1), (-1, -1), (5,), (0, -1)):
        refused_here("shape-mismatch", anp.reshape, x, wrong)


@few
@given(shapes, st.data())
def test_transpose_takes_any_order_and_negative_axes(shape, data):
    x = numbered(shape)
    order = data.draw(st.permutations(range(x.ndim)))
    mixed = [a - x.ndim if data.draw(st.booleans()) else a for a in order]
    same_elements(anp.transpose(x, mixed), x.transpose(mixed))
    same_elements(anp.transpose(x), x.T)


@few
@given(shapes, st.data())
def test_axes_move_as_in_numpy(shape, data):
    x = numbered(shape)
    axis = st.integers(-x.ndim, x.ndim - 1)
    one, two = data.draw(axis), data.draw(axis)
    same_elements(anp.swapaxes(x, one, two), np.swapaxes(x, one, two))
    same_elements(anp.moveaxis(x, one, two), np.moveaxis(x, one, two))
    several = data.draw(st.lists(axis, unique_by=lambda a: a % x.ndim))
    places = data.draw(st.permutations(several))
    same_elements(anp.moveaxis(x, several, places), np.moveaxis(x, several, places))


@few
@given(shapes, st.data())
def test_axes_of_size_one_come_and_go(shape, data):
    x = numbered(shape)
    axis = data.draw(st.integers(-x.ndim - 1, x.ndim))
    same_elements(anp.expand_dims(x, axis), np.expand_dims(x, axis))
    same_elements(anp.expand_dims(x, (0, -1)), np.expand_dims(x, (0, -1)))
    wide = np.expand_dims(x, axis)
    same_elements(anp.squeeze(wide, axis), np.squeeze(wide, axis))
    same_elements(anp.squeeze(wide), np.squeeze(wide))


def test_squeeze_refuses_other_sizes():
    refused_here("shape-mismatch", anp.squeeze, numbered((2, 1)), 0)


@few
@given(hnp.mutually_broadcastable_shapes(num_shapes=2))
def test_broadcasting_agrees_with_numpy(both):
    x, y = map(numbered, both.input_shapes)
    same_elements(
        anp.broadcast_to(x, both.result_shape), np.broadcast_to(x, both.result_shape)
    )
    assert anp.broadcast_shapes(x.shape, y.shape) == both.result_shape
    for ours, theirs in zip(
        anp.broadcast_arrays(x, y), np.broadcast_arrays(x, y), strict=True
    ):
        same_elements(ours, theirs)


def test_broadcasting_names_the_sizes_that_differ():
    error = refused_here("shape-mismatch", anp.add, numbered((2, 3)), numbered((4,)))
    assert "sizes 3 and 4" in error.message
    refused_here("shape-mismatch", anp.broadcast_to, numbered((2, 3)), (3,))


@few
@given(shapes, st.data())
def test_flip_roll_repeat_and_tile(shape, data):
    x = numbered(shape)
    axis = data.draw(st.none() | st.integers(-x.ndim, x.ndim - 1))
    count = data.draw(st.integers(0, 3))
    shift = data.draw(st.integers(-6, 6))
    same_elements(anp.flip(x, axis), np.flip(x, axis))
    same_elements(anp.roll(x, shift, axis), np.roll(x, shift, axis))
    same_elements(anp.repeat(x, count, axis), np.repeat(x, count, axis))
    reps = data.draw(st.lists(st.integers(0, 2), min_size=1, max_size=5))
    same_elements(anp.tile(x, reps), np.tile(x, reps))
    if axis is not None:
        same_elements(anp.diff(x, 2, axis), np.diff(x, 2, axis))


@few
@given(shapes, st.data())
def test_pad_surrounds_with_a_constant(shape, data):
    x = numbered(shape)
    widths = data.draw(st.lists(st.tuples(*[st.integers(0, 2)] * 2), min_size=x.ndim,
                                max_size=x.ndim))  # fmt: skip
    for width in (widths, 1, (0, 2)):
        same_elements(
            anp.pad(x, width, constant_values=3),
            np.pad(x, width, constant_values=3),
        )
    same_elements(anp.pad(x > 1, 1), np.pad(x > 1, 1))


def test_padding_by_an_integer_that_no_f64_is_keeps_it():
    x, value = np.array([1, -2], "i8"), 2**53 + 1
    wanted = np.pad(x, 1, constant_values=value)
    same_elements(anp.pad(x, 1, constant_values=value), wanted)


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        ("f4", np.array(5)),
        ("f4", np.float64("nan")),
        ("f8", np.float32("nan")),
        ("f4", np.array(-np.inf)),
        ("f8", 0.1),
        ("i4", np.array(2.5)),
        ("bool", np.bool_(True)),
        ("bool", 0.5),
    ],
)
def test_padding_is_cast_to_the_dtype(dtype, value):
    x = numbered((2, 3)).astype(dtype)
    wanted = np.pad(x, 1, constant_values=value)
    same_elements(anp.pad(x, 1, constant_values=value), wanted)


@pytest.mark.parametrize("dtype", ["u8", "i8", "i32", "u32", "i64"])
@pytest.mark.parametrize("value", [300.7, -5.5, 1e19, -np.inf, np.nan])
def test_padding_of_integers_saturates_as_casts_do(dtype, value):
    x = numbered((3,)).astype(dtypes.to_numpy(dtype))
    found = np.asarray(anp.pad(x, 1, constant_values=value))
    wanted = np.asarray(anp.astype(np.full(1, value), dtype))
    np.testing.assert_array_equal(found, [wanted[0], *x, wanted[0]])


@pytest.mark.parametrize("dtype", ["bool", "i1", "f4"])
def test_padding_may_be_by_a_number_that_the_model_computes(dtype):
    x = numbered((2, 3)).astype(dtype)
    found = anp.pad(x, ((1, 0), (2, 1)), constant_values=anp.max(x))
    same_elements(found, np.pad(x, ((1, 0), (2, 1)), constant_values=x.max()))


@few
@given(shapes, st.data())
def test_pad_repeats_the_array_itself(shape, data):
    x = numbered(shape)
    width = st.integers(0, 7)
    widths = [data.draw(st.tuples(width, width)) for _ in shape]
    for mode in ("edge", "reflect", "symmetric", "wrap"):
        same_elements(anp.pad(x, widths, mode), np.pad(x, widths, mode))


def test_constant_padding_of_negative_width_cuts_off():
    x = numbered((4, 5))
    same_elements(anp.pad(x, ((-1, 1), (2, -3))), np.pad(x[1:, :2], ((0, 1), (2, 0))))


def test_pad_refuses_what_it_cannot_do():
    x = numbered((3, 2))
    assert (
        "reflect" in refused_here("bad-padding", anp.pad, x, 1, "linear_ramp").message
    )
    refused_here("bad-padding", anp.pad, x, -1, "edge")
    refused_here("bad-padding", anp.pad, x, ((-2, -2), (0, 0)))
    refused_here("bad-padding", anp.pad, x, (1, 2, 3))
    refused_here("bad-padding", anp.pad, x, 1.5)
    refused_here("bad-argument", anp.pad, x, 1, constant_values=[1, 2])
    refused_here("bad-argument", anp.pad, x, 1, constant_values=np.zeros((2, 1, 1)))
    refused_here("dtype-mismatch", anp.pad, x.astype("i1"), 1, constant_values=300)
    refused_here("bad-padding", anp.pad, numbered((0,)), 1, "edge")


# ---- joining and splitting ----------------------------------------------------------


@few
@given(shapes, st.data())
def test_concatenate_and_stack(shape, data):
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    count = data.draw(st.integers(1, 5))
    parts = [numbered(shape) + 100 * n for n in range(count)]
    same_elements(anp.concatenate(parts, axis), np.concatenate(parts, axis))
    same_elements(anp.concatenate(parts, axis=None), np.concatenate(parts, axis=None))
    same_elements(anp.stack(parts, axis), np.stack(parts, axis))
    same_elements(anp.hstack(parts), np.hstack(parts))
    same_elements(anp.vstack(parts), np.vstack(parts))


def test_joining_refuses_nothing_and_other_shapes_and_dtypes():
    refused_here("shape-mismatch", anp.concatenate, [])
    refused_here("shape-mismatch", anp.stack, [])
    refused_here("shape-mismatch", anp.stack, [numbered(2), numbered(3)])
    refused_here(
        "shape-mismatch", anp.concatenate, [numbered((2, 2)), numbered((2, 3))]
    )
    refused_here("dtype-mismatch", anp.concatenate, [numbered(2), numbered(2, "f8")])


@few
@given(shapes, st.data())
def test_split_makes_equal_parts_or_cuts_at_indices(shape, data):
    x = numbered(shape)
    axis = data.draw(st.integers(-x.ndim, x.ndim - 1))
    sections = data.draw(
        st.sampled_from([n for n in range(1, 6) if x.shape[axis] % n == 0])
    )
    cuts = sorted(data.draw(st.lists(st.integers(0, 6), max_size=3)))
    for how in (sections, cuts):
        ours, theirs = anp.split(x, how, axis), np.split(x, how, axis)
        assert len(ours) == len(theirs)
        for one, other in zip(ours, theirs, strict=True):
            same_elements(one, other)


def test_split_refuses_parts_of_different_sizes():
    refused_here("shape-mismatch", anp.split, numbered(5), 2)
    refused_here("shape-mismatch", anp.split, numbered(5), 0)


# ---- making -------------------------------------------------------------------------


@few
@given(st.integers(-5, 5), st.integers(-5, 9), st.integers(1, 3) | st.integers(-3, -1))
def test_arange_counts_as_numpy_does(start, stop, step):
    same_elements(anp.arange(start, stop, step), np.arange(start, stop, step))
    same_elements(anp.arange(stop), np.arange(stop))
    same_elements(anp.arange(start, stop, step / 4), np.arange(start, stop, step / 4))
    assert anp.arange(start, stop).dtype == "i32"
    assert anp.arange(0.0, 2.0).dtype == "f32"
    assert anp.arange(3, dtype="f32").dtype == "f32"


@few
@given(st.integers(0, 4), st.integers(0, 4), st.integers(-3, 3))
def test_diagonals_and_triangles(n, m, k):
    same_elements(anp.eye(n, m, k), np.eye(n, m, k))
    same_elements(anp.tri(n, m, k), np.tri(n, m, k))
    x = np.ones((2, n, m), "f4")
    same_elements(anp.tril(x, k), np.tril(x, k))
    same_elements(anp.triu(x, k), np.triu(x, k))
    assert anp.eye(n).shape == (n, n)


@pytest.mark.parametrize("dtype", [None, "f16", np.int32, "bool", float])
def test_constants_take_shape_value_and_dtype(dtype):
    assert anp.full((2, 3), True, dtype).shape == (2, 3)
    for name in ("zeros", "ones"):
        made = getattr(anp, name)((2,), dtype or "f32")
        like = getattr(anp, f"{name}_like")(made)
        assert made.dtype == like.dtype == dtypes.canonical_dtype(dtype or "f32")
        assert made.tolist() == getattr(np, name)(2).tolist() == like.tolist()
    assert anp.zeros(3).dtype == "f32"
    assert anp.full((), 7).dtype == "i32"
    assert anp.full_like(np.ones(2, "i1"), 7).tolist() == [7, 7]


def test_linspace_includes_both_ends():
    same_elements(anp.linspace(0, 1, 5), np.linspace(0, 1, 5))


def test_nested_lists_of_arrays_are_stacked():
    x = anp.asarray([1.0, 2.0])
    same_elements(anp.asarray([[x, x], [x, x]]), np.ones((2, 2, 1)) * [1, 2])
    same_elements(anp.array([x[0], 3]), [1, 3])


# ---- products -----------------------------------------------------------------------

MATMUL = [
    ((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 4)), ((2, 3), (3, 4)), ((5, 2, 3), (3, 4)),
    ((2, 3), (5, 3, 4)), ((5, 2, 3), (5, 3, 4)), ((1, 2, 3), (5, 3, 4)),
    ((6, 1, 2, 3), (5, 3, 4)), ((3,), (5, 3, 4)), ((5, 2, 3), (3,)), ((0, 3), (3, 2)),
]  # fmt: skip


@pytest.mark.parametrize(("left", "right"), MATMUL)
def test_matmul_agrees_with_numpy_for_all_ranks(left, right):
    x, y = numbered(left), numbered(right) - 3
    same_elements(anp.matmul(x, y), np.matmul(x, y))
    same_elements(anp.asarray(x) @ y, x @ y)


def test_matmul_names_the_sizes_that_differ():
    error = refused_here(
        "shape-mismatch", anp.matmul, numbered((2, 3)), numbered((2, 3))
    )
    assert "sizes 3 and 2" in error.message
    refused_here("shape-mismatch", anp.matmul, numbered((2, 3)), np.float32(1))
    refused_here("dtype-mismatch", anp.matmul, numbered((2, 2)), numbered((2, 2), "f8"))


def test_other_products_agree_with_numpy():
    x, y = numbered((2, 3, 4)), numbered((5, 4, 3))
    same_elements(anp.dot(x, y), np.dot(x, y))
    same_elements(anp.dot(x, 2.0), np.dot(x, 2.0))
    same_elements(anp.inner(x, x[0]), np.inner(x, x[0]))
    same_elements(anp.outer(x, x[0]), np.outer(x, x[0]))
    same_elements(anp.vdot(x, x), np.vdot(x, x))
    same_elements(
        anp.tensordot(x, y, ([2, 1], [1, 2])), np.tensordot(x, y, ([2, 1], [1, 2]))
    )
    same_elements(anp.tensordot(x, y, (-1, 1)), np.tensordot(x, y, (-1, 1)))
    same_elements(anp.tensordot(x, x[0], 2), np.tensordot(x, x[0], 2))
    same_elements(anp.tensordot(x[0, 0], x[0, 0], 0), np.tensordot(x[0, 0], x[0, 0], 0))
