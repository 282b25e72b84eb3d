"""What aotc.numpy finds, interpolates and correlates is what NumPy does."""

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import aotc
import aotc.numpy as anp
from aotc.errors import InputError
from aotc.tracing.assembly import trace
from tests.comparing import same

few = settings(max_examples=40, deadline=None)
rng = np.random.default_rng(0)
sparse = hnp.arrays(
    np.float32,
    hnp.array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=5),
    elements=st.sampled_from([0.0, -0.0, 1.0, 2.0, -2.0, np.inf, np.nan]).map(
        np.float32
    ),
)
small = hnp.arrays(np.int32, st.integers(1, 12), elements=st.integers(-3, 3))


def resized(found, size, fill):
    """What NumPy finds, cut or filled to `size`."""
    found = np.asarray(found)[:size]
    return np.concatenate([found, np.full(size - len(found), fill, found.dtype)])


# ---- what is found ------------------------------------------------------------------


@few
@given(sparse, st.integers(0, 40))
def test_positions_agree_with_numpy_cut_or_filled(x, size):
    places = np.nonzero(x)
    for ours, theirs in zip(
        anp.nonzero(x, size=size, fill_value=-1), places, strict=True
    ):
        assert ours.dtype == "i32"
        same(ours, resized(theirs, size, -1))
    same(anp.flatnonzero(x, size=size), resized(np.flatnonzero(x), size, 0))
    rows = np.stack([resized(axis, size, 0) for axis in places], 1)
    same(anp.argwhere(x, size=size), rows)
    same(anp.extract(x, x, size=size, fill_value=7.0), resized(x[x != 0.0], size, 7.0))


@few
@given(sparse, st.integers(0, 7), st.data())
def test_parts_agree_with_numpy_cut_or_filled(x, size, data):
    axis = data.draw(st.sampled_from([None, *range(-x.ndim, x.ndim)]))
    length = x.size if axis is None else x.shape[axis]
    mask = data.draw(hnp.arrays(bool, st.integers(0, length)))
    parts = np.moveaxis(x, axis, 0) if axis is not None else x.ravel()
    kept = parts[: len(mask)][mask][:size]
    missing = np.full((size - len(kept), *kept.shape[1:]), 7.0)
    wanted = np.concatenate([kept, missing])
    ours = anp.compress(mask, x, axis, size=size, fill_value=7.0)
    same(ours, np.moveaxis(wanted, 0, axis or 0))
    same(anp.compress(mask, x, axis), np.compress(mask, x, axis))


def test_positions_of_a_condition_alone():
    x = np.array([[0, 3], [5, 0]])
    for ours, theirs in zip(anp.where(x, size=3), ([0, 1, 0], [1, 0, 0]), strict=True):
        assert ours.tolist() == theirs


def test_nothing_is_found_in_an_array_without_elements():
    x = np.zeros((0, 2), "f4")
    assert anp.nonzero(x, size=2, fill_value=-1)[1].tolist() == [-1, -1]
    assert anp.extract(x, x, size=2, fill_value=3.0).tolist() == [3.0, 3.0]
    assert anp.unique(x, size=2, fill_value=3.0).tolist() == [3.0, 3.0]
    assert anp.compress([], x, 0, size=1, fill_value=3.0).tolist() == [[3.0, 3.0]]


def test_what_is_missing_may_be_filled_for_each_axis():
    rows, columns = anp.nonzero(np.eye(2), size=3, fill_value=(8, 9))
    assert (rows.tolist(), columns.tolist()) == ([0, 1, 8], [0, 1, 9])


@few
@given(sparse, st.integers(1, 40), st.booleans())
def test_distinct_elements_agree_with_numpy_cut_or_filled(x, size, equal_nan):
    flags = {"return_index": True, "return_inverse": True, "return_counts": True}
    ours = anp.unique(x, **flags, equal_nan=equal_nan, size=size, fill_value=9.0)
    values, index, inverse, counts = np.unique(x, **flags, equal_nan=equal_nan)
    same(ours[0], resized(values, size, 9.0))
    known = min(size, len(values))
    same(ours[1][:known], index[:known])
    same(ours[2], inverse.reshape(x.shape))
    same(ours[3], resized(counts, size, 0))


def test_distinct_elements_are_filled_with_the_least():
    assert anp.unique([3, 1, 3], size=4).tolist() == [1, 3, 1, 1]
    assert anp.unique(np.array([True, True]), size=2).tolist() == [True, True]


@few
@given(small, small)
def test_sets_agree_with_numpy_filled(x, y):
    for name in ("union1d", "intersect1d", "setdiff1d"):
        ours = getattr(anp, name)(x, y, size=10, fill_value=99)
        same(ours, resized(getattr(np, name)(x, y), 10, 99))


# ---- divisors -----------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["i1", "u1", "i4", "u4", "i8", "u8"])
def test_common_divisors_agree_with_numpy(dtype):
    info = np.iinfo(dtype)
    x = rng.integers(info.min, info.max, 200, dtype, endpoint=True)
    y = rng.integers(info.min, info.max, 200, dtype, endpoint=True)
    x[:4], y[:4] = [0, 0, info.min, info.max], [0, 6, info.min, info.max - 1]
    same(anp.gcd(x, y), np.gcd(x, y))
    few = (x % 11, y % 11)
    same(anp.lcm(*few), np.lcm(*few))


def test_neighbours_in_fibonaccis_sequence_need_all_steps():
    numbers = [1, 1]
    while numbers[-1] + numbers[-2] < 2**31:
        numbers.append(numbers[-1] + numbers[-2])
    assert anp.gcd(*numbers[-2:]).item() == 1


# ---- from point to point ------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 2, 9])
def test_interpolation_agrees_with_numpy(count):
    points = np.sort(rng.normal(size=count))
    points[-1:] = points[-2:-1] if count > 2 else points[-1:]  # a jump
    values = rng.normal(size=count)
    # of a single point NumPy makes a number even for NaN
    hard = [np.nan if count > 1 else 0.0, points[0]]
    x = np.append(rng.normal(size=28), hard).reshape(5, 6)
    same(anp.interp(x, points, values), np.interp(x, points, values), 1e-12)
    ends = {"left": -5.0, "right": 5.0}
    same(
        anp.interp(x, points, values, **ends),
        np.interp(x, points, values, **ends),
        1e-12,
    )
    turned = points[::-1]
    same(
        anp.interp(x, turned, values, period=1.5),
        np.interp(x, turned, values, period=1.5),
        1e-12,
    )


def test_unwrapped_angles_agree_with_numpy():
    x = rng.uniform(-10, 10, (3, 8, 2))
    x[0, :4, 0] = [0, np.pi, 0, -np.pi]
    for axis in (0, 1, -1):
        same(anp.unwrap(x, axis=axis), np.unwrap(x, axis=axis), 1e-12)
    same(anp.unwrap(x, 5.0), np.unwrap(x, 5.0), 1e-12)
    same(anp.unwrap(x, period=3), np.unwrap(x, period=3), 1e-12)


# ---- variables together -------------------------------------------------------------


def test_covariances_and_correlations_agree_with_numpy():
    x, y = rng.normal(size=(3, 7)), rng.normal(size=(2, 7))
    for how in ({}, {"rowvar": False}, {"bias": True}, {"ddof": 3}):
        same(anp.cov(x, **how), np.cov(x, **how), 1e-12)
    same(anp.cov(x, y), np.cov(x, y), 1e-12)
    same(anp.cov(x[0], y[1]), np.cov(x[0], y[1]), 1e-12)
    same(anp.cov(x[0]), np.cov(x[0]), 1e-12)
    same(anp.corrcoef(x, y), np.corrcoef(x, y), 1e-12)
    same(anp.corrcoef(x[0]), np.corrcoef(x[0]))


def test_products_of_vectors_agree_with_numpy():
    x, y = rng.normal(size=(5, 1, 3, 4)), rng.normal(size=(2, 3, 4))
    for axis in (-1, -2):
        same(anp.vecdot(x, y, axis=axis), (x * y).sum(axis), 1e-12)
    same(
        anp.matvec(x, y[:, 0]), np.einsum("abij,bj->abi", x[:, [0, 0]], y[:, 0]), 1e-12
    )
    same(
        anp.vecmat(y[:, :, 0], x),
        np.einsum("bi,abij->abj", y[:, :, 0], x[:, [0, 0]]),
        1e-12,
    )


# ---- small things -------------------------------------------------------------------


@pytest.mark.parametrize("count", [0, 1, 2, 7, 8])
def test_windows_agree_with_numpy(count):
    for name in ("hanning", "hamming", "blackman", "bartlett"):
        same(getattr(anp, name)(count, dtype="f64"), getattr(np, name)(count))
    same(anp.kaiser(count, 8.6), np.kaiser(count, 8.6).astype("f4"))


def test_limits_of_dtypes_are_known_by_their_names():
    assert anp.finfo("f16").max == 65504
    assert anp.finfo(anp.bfloat16).bits == 16
    assert anp.finfo(float).eps == 2**-23
    assert (anp.iinfo("i8").min, anp.iinfo(anp.uint32).max) == (-128, 2**32 - 1)


def test_arrays_are_taken_apart_and_compared():
    x = np.arange(6.0).reshape(2, 3)
    for axis in (0, 1, -1):
        parts = np.moveaxis(x, axis, 0)
        for ours, theirs in zip(anp.unstack(x, axis=axis), parts, strict=True):
            same(ours, theirs)
    assert anp.array_equal(x, x).item()
    assert not anp.array_equal(x, x[:1]).item()
    with_nan = np.where(x > 3, np.nan, x)
    assert not anp.array_equal(with_nan, with_nan).item()
    assert anp.array_equal(with_nan, with_nan, equal_nan=True).item()
    same(anp.asarray(x)[anp.ix_([1, 0], [2, 0])], x[np.ix_([1, 0], [2, 0])])
    for name in ("tril_indices_from", "triu_indices_from"):
        for ours, theirs in zip(
            getattr(anp, name)(x, 1), getattr(np, name)(x, 1), strict=True
        ):
            same(ours, theirs)
    assert len(anp.diag_indices_from(np.zeros((2, 2, 2)))) == 3
    same(anp.empty_like(x), np.zeros((2, 3)))


# ---- what is refused ----------------------------------------------------------------

X = np.ones((2, 3), "f")
BAD = {
    "no size": lambda: anp.nonzero(X),
    "no size of a set": lambda: anp.unique(X),
    "negative size": lambda: anp.flatnonzero(X, size=-1),
    "a scalar": lambda: anp.nonzero(1.0, size=1),
    "fills": lambda: anp.nonzero(X, size=1, fill_value=(1, 2, 3)),
    "conditions": lambda: anp.extract(X[0], X, size=1),
    "nothing": lambda: anp.unique(X[:0], size=1),
    "one of two": lambda: anp.where(X, X, size=1),
    "a long condition": lambda: anp.compress([1, 1, 1], X, 0, size=1),
    "axes of a condition": lambda: anp.compress(X, X, size=1),
    "divisors of floats": lambda: anp.gcd(X, X),
    "points": lambda: anp.interp(X, X, X),
    "values": lambda: anp.interp(X, X[0], X[0][:2]),
    "no points": lambda: anp.interp(X, X[0][:0], X[0][:0]),
    "period": lambda: anp.interp(X, X[0], X[0], period=0),
    "period of angles": lambda: anp.unwrap(X, period=-1.0),
    "axis": lambda: anp.unwrap(X, axis=2),
    "axes of variables": lambda: anp.cov(X[None]),
    "observations": lambda: anp.cov(X, X.T),
    "window": lambda: anp.hanning(-1),
    "float dtype": lambda: anp.finfo("i32"),
    "integer dtype": lambda: anp.iinfo("f32"),
    "a number of vectors": lambda: anp.matvec(X, 1.0),
    "sides": lambda: anp.diag_indices_from(X),
    "no matrix": lambda: anp.tril_indices_from(X[0]),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_refused_with_what_was_expected(name):
    with pytest.raises(InputError, match=r"expected|out of"):
        BAD[name]()


def test_a_missing_size_says_why_it_is_needed():
    with pytest.raises(InputError, match="only their values decide") as caught:
        anp.unique(X)
    assert "the most that you expect" in caught.value.hint


def test_a_mask_that_the_model_computes_is_refused_with_what_to_write():
    @aotc.entry(x=aotc.Spec(("n",)))
    def entry(x):
        return x[x > 0]

    with pytest.raises(InputError, match="only values decide") as caught:
        trace([entry], {})
    assert "size=" in caught.value.hint
    assert "aotc.numpy.where" in caught.value.hint
