"""aotc.numpy reads and changes elements at positions as NumPy (and JAX's `at`) does."""

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import aotc.numpy as anp
from aotc import reference
from aotc.tracing.assembly import trace
from aotc.tracing.entry import Spec, entry
from tests.aotc.numbering import numbered
from tests.comparing import same_elements
from tests.refusals import refused_here

few = settings(max_examples=60, deadline=None)
shapes = hnp.array_shapes(min_dims=1, max_dims=4, min_side=1, max_side=5)


def positions(limit, **options):
    """Arrays of positions on an axis of size `limit`."""
    return hnp.arrays(
        st.sampled_from(["i1", "i4", "i8"]),
        hnp.array_shapes(max_dims=2, max_side=3, **options),
        elements=st.integers(-limit, limit - 1),
    )


# ---- reading ------------------------------------------------------------------------


@few
@given(shapes, st.data())
def test_basic_indexing_agrees_with_numpy(shape, data):
    x = numbered(shape)
    key = data.draw(hnp.basic_indices(shape, allow_newaxis=True, allow_ellipsis=True))
    same_elements(anp.asarray(x)[key], x[key])


@few
@given(shapes, st.data())
def test_one_array_of_positions_indexes_with_slices(shape, data):
    x = numbered(shape)
    axis = data.draw(st.integers(0, x.ndim - 1))
    limit = x.shape[axis]
    indices = data.draw(positions(limit, min_dims=0))
    before = (slice(None),) * axis
    after = (slice(None, None, -1),) * (x.ndim - axis - 1)
    key = (*before, indices, *after)
    same_elements(anp.asarray(x)[key], x[key])
    same_elements(anp.take(x, indices, axis), np.take(x, indices, axis))
    same_elements(anp.take(x, indices % limit), np.take(x, indices % limit))


P, Q = np.array([0, 2, -1]), np.array([[1], [0]], "i1")
M, N = np.array([True, False, True]), numbered((3, 4)) % 3 == 1
KEYS = {
    "list": np.s_[:, [0, -1]],
    "empty list": np.s_[:, [], 0],
    "two arrays": np.s_[:, P, Q],
    "after a number": np.s_[0, P],
    "apart from a number": np.s_[0, :, P],
    "apart from an array": np.s_[Q, :, :, P],
    "apart by a new axis": np.s_[:, P, None, Q],
    "after dots": np.s_[..., P, Q],
    "around dots": np.s_[:, P, ..., Q],
    "before a new axis": np.s_[None, :, P, None],
    "with steps": np.s_[:, ::-1, ::2, P],
    "of every axis": np.s_[1, P, Q, 2],
    "mask": np.s_[:, M],
    "mask of two axes": np.s_[:, N],
    "mask after dots": np.s_[..., N, 1:3],
    "mask and array": np.s_[1, M, P[:2]],
    "mask of all": numbered((2, 3, 4, 5)) % 7 < 2,
}
CUTS = {
    "number": np.s_[1],
    "slice": np.s_[:, 1:3],
    "backwards": np.s_[..., ::-2],
    "stepped": np.s_[:, 1:3, ::2, 3],
    "nothing": np.s_[:, 3:3],
    "new axis": np.s_[None, 0, None, 2:0:-1],
    "all": np.s_[...],
}


@pytest.mark.parametrize("key", KEYS.values(), ids=KEYS)
def test_arrays_and_masks_index_as_in_numpy(key):
    x = numbered((2, 3, 4, 5))
    same_elements(anp.asarray(x)[key], x[key])
    same_elements(anp.asarray(x).at[key].get(), x[key])


def test_known_positions_out_of_bounds_are_refused_and_clipped_if_asked():
    x = numbered(4)
    refused_here("bad-index", lambda: anp.asarray(x)[4])
    refused_here("bad-index", lambda: anp.asarray(x)[-5])
    refused_here("bad-index", lambda: anp.asarray(x).at[[1, 4]].set(0))
    assert "index 7" in refused_here("bad-index", anp.take, x, [0, 7]).message
    same_elements(anp.take(x, [-3, 7], mode="clip"), np.take(x, [-3, 7], mode="clip"))
    same_elements(anp.take(x, [-9, 7], mode="wrap"), np.take(x, [-9, 7], mode="wrap"))


@pytest.mark.parametrize("mode", ["clip", "wrap"])
def test_numbers_of_no_choice_are_clipped_or_wrap(mode):
    numbers, choices = np.array([-3, 0, 1, 5]), [numbered(4), -numbered(4)]
    wanted = np.choose(numbers, choices, mode=mode)
    same_elements(anp.choose(numbers, choices, mode=mode), wanted)
    refused_here("bad-index", anp.choose, numbers, choices)


@pytest.mark.parametrize("dtype", ["i1", "u1"])
def test_there_may_be_more_choices_than_a_narrow_dtype_counts(dtype):
    numbers = np.array([0, 1, 127], dtype)
    choices = [np.full(3, float(n), "f4") for n in range(300)]
    for mode in ("clip", "wrap", "fill", "raise"):
        same_elements(anp.choose(numbers, choices, mode=mode), [0.0, 1.0, 127.0])


def test_computed_numbers_of_no_choice_are_clipped_or_filled():
    @entry(numbers=Spec((4,), "i32"), x=Spec((4,)))
    def chosen(numbers, x):
        choices = [x, -x]
        return anp.choose(numbers, choices), anp.choose(numbers, choices, mode="fill")

    numbers, x = np.array([-3, 0, 1, 5], "i4"), np.array([1, 2, 3, 4], "f4")
    module = trace([chosen], {}).module
    clipped, filled = reference.evaluate(module, "chosen", [numbers, x])
    np.testing.assert_array_equal(clipped, [1, 2, -3, -4])
    np.testing.assert_array_equal(filled, [np.nan, 2, -3, np.nan])


def test_positions_out_of_bounds_give_nan_or_zero_or_what_is_asked():
    x, wanted = numbered(4), [-5, -1, 4]
    same_elements(anp.take(x, wanted, mode="fill"), [np.nan, 3, np.nan])
    same_elements(anp.take(x, wanted, mode="fill", fill_value=-7), [-7, 3, -7])
    same_elements(anp.take(x.astype("i4"), wanted, mode="fill"), [0, 3, 0])
    same_elements(anp.asarray(x).at[wanted].get(mode="fill", fill_value=9), [9, 3, 9])
    same_elements(anp.asarray(x).at[wanted].get(mode="clip"), [0, 3, 3])


def test_keys_that_select_by_value_are_refused():
    x = anp.asarray(numbered((3, 4)))
    refused_here("bad-index", lambda: x[0, 0, 0])
    refused_here("bad-index", lambda: x[..., ...])
    refused_here("bad-index", lambda: x[True])
    refused_here("bad-index", lambda: x[1.5])
    refused_here("bad-index", lambda: x[np.array([0.5])])
    refused_here("shape-mismatch", lambda: x[[0, 1], [0, 1, 2]])
    error = refused_here("bad-index", lambda: x[np.ones(4, bool)])
    assert "mask of the shape [3]" in error.message
    assert "got [4]" in error.message


def test_a_mask_that_the_model_computes_is_refused():
    @entry(x=Spec((3,)))
    def select(x):
        return x[x > 0]

    error = refused_here("bad-index", trace, [select], {})
    assert "mask" in error.message
    assert "where" in error.hint


def test_positions_that_the_model_computes_are_clipped_filled_or_dropped():
    @entry(x=Spec((4,)), at=Spec((3,), "i64"), one=Spec((), "u8"))
    def read_and_write(x, at, one):
        filled = anp.take(x, at, mode="fill", fill_value=-1)
        return x[at], filled, x.at[at].set(7.0), x[one], x.at[one].add(1.0)

    program = trace([read_and_write], {})
    at = np.array([-1, 4, -5])
    arrays = [numbered(4), at, np.array(200, "u1")]
    results = reference.evaluate(program.module, "read_and_write", arrays)
    wanted = [3, 3, 0], [3, -1, -1], [0, 1, 2, 7], 3, [0, 1, 2, 3]
    for got, want in zip(results, wanted, strict=True):
        same_elements(got, np.array(want))


# ---- changing -----------------------------------------------------------------------

UFUNCS = {
    "add": np.add,
    "multiply": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
}


@pytest.mark.parametrize("key", [*KEYS.values(), *CUTS.values()], ids=[*KEYS, *CUTS])
def test_every_key_can_be_changed(key):
    x = numbered((2, 3, 4, 5)) / 8
    new = np.random.default_rng(0).permutation(x[key].ravel()).reshape(x[key].shape) - 1
    expected = x.copy()
    expected[key] = new
    same_elements(anp.asarray(x).at[key].set(new), expected)
    for name, ufunc in UFUNCS.items():
        expected = x.copy()
        ufunc.at(expected, key, new)
        same_elements(getattr(anp.asarray(x).at[key], name)(new), expected)


def test_updates_of_one_element_are_all_made_and_the_last_one_is_set():
    x = anp.asarray(numbered(3))
    same_elements(x.at[[1, 1, 0]].add(1.0), [1, 3, 2])
    same_elements(x.at[[1, 1, 0]].set([5.0, 6.0, 7.0]), [7, 6, 2])
    same_elements(x.at[[1, 5, -9]].set([5.0, 6.0, 7.0], mode="drop"), [0, 5, 2])
    same_elements(x.at[[1, 5, -9]].set([5.0, 6.0, 7.0], mode="clip"), [7, 5, 6])


def test_masks_and_integers_can_be_set():
    same_elements(anp.asarray([True, False]).at[1].set(True), [True, True])
    same_elements(anp.asarray([1, 2], "u8").at[[0]].max(9), [9, 2])
    refused_here("dtype-mismatch", lambda: anp.asarray([True, False]).at[[1]].add(True))


def test_changes_refuse_unknown_modes_and_values_that_do_not_fit():
    x = anp.asarray(numbered((3, 4)))
    assert (
        "'raise'" in refused_here("bad-index", x.at[0].set, 1.0, mode="raise").message
    )
    refused_here("bad-index", x.at[0].get, mode="nearest")
    refused_here("bad-index", anp.take, x, [0], 0, mode="nearest")
    refused_here("shape-mismatch", x.at[0].set, numbered(3))
    refused_here("shape-mismatch", x.at[[0, 1]].add, numbered((3, 4)))
    refused_here("dtype-mismatch", x.at[0].set, numbered(4, "i4"))


# ---- along an axis ------------------------------------------------------------------


@few
@given(shapes, st.data())
def test_take_and_put_along_axis_agree_with_numpy(shape, data):
    x = numbered(shape)
    axis = data.draw(st.integers(-x.ndim, x.ndim - 1))
    sizes = [data.draw(st.sampled_from([1, n])) for n in shape]
    sizes[axis] = data.draw(st.integers(1, shape[axis]))
    limit = shape[axis]
    ids = np.random.default_rng(limit).random((*sizes, limit)).argsort(-1)[..., 0]
    same_elements(anp.take_along_axis(x, ids, axis), np.take_along_axis(x, ids, axis))
    expected = x.copy()
    np.put_along_axis(expected, ids - limit, -1, axis)
    same_elements(anp.put_along_axis(x, ids - limit, -1, axis), expected)


def test_without_an_axis_elements_are_in_a_row():
    x = numbered((2, 3))
    same_elements(anp.take_along_axis(x, [5, 0], None), [5, 0])
    same_elements(anp.put_along_axis(x, [5, 0], 9, None), [[9, 1, 2], [3, 4, 9]])
    same_elements(
        anp.take_along_axis(x, np.array([[3], [0]]), mode="fill"), [[np.nan], [3]]
    )


def test_along_an_axis_refuses_other_ranks_shapes_and_positions():
    x = numbered((2, 3))
    refused_here("shape-mismatch", anp.take_along_axis, x, [0], 1)
    refused_here("shape-mismatch", anp.take_along_axis, x, np.zeros((3, 1), int), 1)
    refused_here("bad-index", anp.take_along_axis, x, np.full((2, 1), 3), 1)
    refused_here("bad-index", anp.take_along_axis, x, np.zeros((2, 1)), 1)
    refused_here("bad-axis", anp.take_along_axis, x, np.zeros((2, 1), int), 2)
    refused_here("bad-index", anp.put_along_axis, x, np.full((2, 1), 3), 1.0, 1)


def test_choose_select_and_compress_agree_with_numpy():
    x, number = numbered((2, 3)), np.array([1, 0, 1])
    same_elements(anp.choose(number, [x, -x]), np.choose(number, [x, -x]))
    same_elements(
        anp.select([x > 4, x > 1], [x, -x], 7.0), np.select([x > 4, x > 1], [x, -x], 7)
    )
    same_elements(anp.compress([True, False, True], x, 1), np.compress([1, 0, 1], x, 1))
    same_elements(anp.compress([False, True], x), np.compress([0, 1], x))
    refused_here("bad-index", anp.choose, [2, 0, 0], [x, -x])
    refused_here("shape-mismatch", anp.select, [x > 1], [])
    refused_here("bad-index", anp.compress, [[True]], x)


# ---- slices that move to fit --------------------------------------------------------


def test_dynamic_slices_are_moved_to_fit():
    x = numbered((4, 5))
    same_elements(anp.dynamic_slice(x, [3, 1], (2, 2)), x[2:4, 1:3])
    same_elements(anp.dynamic_slice(x, (anp.asarray(1), 0), (2, 5)), x[1:3])
    updated = anp.dynamic_update_slice(x, -np.ones((2, 2), "f4"), [0, 4])
    expected = x.copy()
    expected[0:2, 3:5] = -1
    same_elements(updated, expected)


def test_dynamic_slices_that_cannot_fit_are_refused():
    x = numbered((4, 5))
    assert (
        "[5, 1]"
        in refused_here("bad-slice", anp.dynamic_slice, x, [0, 0], (5, 1)).message
    )
    refused_here("bad-slice", anp.dynamic_slice, x, [0, 0], (-1, 1))
    refused_here("shape-mismatch", anp.dynamic_slice, x, [0], (1, 1))
    refused_here("dtype-mismatch", anp.dynamic_slice, x, [0.0, 0.0], (1, 1))
    refused_here("bad-slice", anp.dynamic_update_slice, x, numbered((4, 6)), [0, 0])
