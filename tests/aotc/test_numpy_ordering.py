"""What aotc.numpy sorts, ranks, searches and counts is what NumPy does."""

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import aotc.numpy as anp
from aotc.errors import InputError
from tests.comparing import same

few = settings(max_examples=40, deadline=None)

HARD = [0.0, -0.0, 1.0, 1.5, -2.0, np.inf, -np.inf, np.nan]
SHAPES = hnp.array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=5)
hard = hnp.arrays(np.float32, SHAPES, elements=st.sampled_from(HARD).map(np.float32))
plain = hnp.arrays(np.float32, SHAPES, elements=st.integers(-4, 4).map(np.float32))


@few
@given(hard, st.data())
def test_sorting_agrees_with_numpy_on_ties_infinities_and_nan(x, data):
    axis = data.draw(st.sampled_from([None, *range(-x.ndim, x.ndim)]))
    same(anp.sort(x, axis), np.sort(x, axis))
    order = np.argsort(x, axis, stable=True)
    same(anp.argsort(x, axis), order)
    same(anp.argpartition(x, 0, axis), order)


@few
@given(hard)
def test_descending_order_keeps_the_order_of_equal_elements(x):
    order = np.asarray(anp.argsort(x, -1, descending=True))
    ordered = np.take_along_axis(np.nan_to_num(x, nan=np.inf, posinf=9), order, -1)
    same(anp.sort(x, -1, descending=True), np.take_along_axis(x, order, -1))
    assert (ordered[..., :-1] >= ordered[..., 1:]).all()
    ties = ordered[..., :-1] == ordered[..., 1:]
    assert (order[..., :-1] < order[..., 1:])[ties].all()


@pytest.mark.parametrize("dtype", ["i1", "u1", "i4", "u4", "i8", "u8", "?"])
def test_integers_sort_from_the_least_to_the_greatest(dtype):
    info = None if dtype == "?" else np.iinfo(dtype)
    x = np.array([1, 0] if info is None else [1, info.max, 2, info.min, 7], dtype)
    same(anp.sort(x), np.sort(x))
    same(anp.argsort(x, descending=True), np.argsort(x)[::-1])


@few
@given(plain, st.booleans(), st.data())
def test_top_k_gives_the_first_of_the_order(x, largest, data):
    k = data.draw(st.integers(0, x.shape[0]))
    found = anp.top_k(x, k, axis=0, largest=largest)
    order = np.argsort(-x if largest else x, 0, stable=True)[:k]
    same(found.indices, order)
    same(found.values, np.take_along_axis(x, order, 0))


@few
@given(plain.filter(lambda x: x.ndim > 1))
def test_lexsort_agrees_with_numpy(x):
    same(anp.lexsort(x), np.lexsort(x))


# ---- order statistics ---------------------------------------------------------------

METHODS = ["linear", "lower", "higher", "midpoint", "nearest"]


@few
@given(plain, st.sampled_from(METHODS), st.booleans(), st.data())
def test_quantiles_agree_with_numpy(x, method, keepdims, data):
    axis = data.draw(st.sampled_from([None, 0, -1, tuple(range(x.ndim))]))
    for q in (0.5, [0.0, 0.25, 1.0]):
        wanted = np.quantile(x, q, axis, method=method, keepdims=keepdims)
        same(anp.quantile(x, q, axis, method=method, keepdims=keepdims), wanted, 1e-6)
    same(anp.median(x, axis), np.median(x, axis), 1e-6)
    same(anp.percentile(x, 30.0, axis), np.percentile(x, 30.0, axis), 1e-4)


@pytest.mark.filterwarnings("ignore:All-NaN")
def test_quantiles_with_nan_are_nan_unless_it_is_left_out():
    x = np.array([[1, np.nan, 3, 2], [4, 1, 2, 9], [np.nan] * 4], "f")
    same(anp.median(x, 1), np.median(x, 1))
    same(anp.nanmedian(x, 1), np.nanmedian(x, 1))
    same(anp.nanquantile(x, [0.2, 0.9], 1), np.nanquantile(x, [0.2, 0.9], 1), 1e-6)
    same(anp.nanpercentile(x, 75, 1), np.nanpercentile(x, 75, 1), 1e-6)


@pytest.mark.parametrize("method", METHODS)
def test_quantiles_of_doubles_keep_their_digits(method):
    x = np.random.default_rng(0).normal(size=9)
    same(anp.quantile(x, 0.1, method=method), np.quantile(x, 0.1, method=method), 1e-15)
    ours = anp.percentile(x, [10, 95], method=method)
    same(ours, np.percentile(x, [10, 95], method=method), 1e-15)
    same(anp.median(x), np.median(x), 0)
    same(anp.nanmedian(x), np.median(x), 0)


# ---- searching and counting ---------------------------------------------------------


@pytest.mark.parametrize("size", [0, 1, 7, 300])
@pytest.mark.parametrize("side", ["left", "right"])
def test_searching_agrees_with_numpy_however_large_the_table(size, side):
    rng = np.random.default_rng(size)
    table = np.sort(rng.integers(-50, 50, size).astype("f"))
    values = np.append(rng.integers(-60, 60, 23), [np.nan]).astype("f").reshape(4, 6)
    same(anp.searchsorted(table, values, side), np.searchsorted(table, values, side))


def test_a_table_with_rows_is_searched_row_by_row():
    rng = np.random.default_rng(0)
    for size in (5, 300):
        table = np.sort(rng.standard_normal((3, size)).astype("f"), -1)
        values = rng.standard_normal((3, 4)).astype("f")
        rows = [np.searchsorted(t, v) for t, v in zip(table, values, strict=True)]
        same(anp.searchsorted(table, values), np.stack(rows))


def test_bins_agree_with_numpy():
    x = np.array([0.2, 6.4, 3.0, 1.6, 10.0, -1.0], "f")
    edges = np.array([0.0, 1.0, 2.5, 4.0, 10.0], "f")
    for right in (False, True):
        same(anp.digitize(x, edges, right), np.digitize(x, edges, right))
    for bins, span in [(5, None), (4, (0.0, 8.0)), (edges, None)]:
        for density in (False, True):
            ours = anp.histogram(x, bins, span, density)
            theirs = np.histogram(x, bins, span, density)
            same(ours[0], theirs[0], 1e-6)
            same(ours[1], theirs[1], 1e-6)
    wide = x.astype("f8")
    ours = anp.histogram(wide, 4, (0.0, 8.0), density=True)
    same(ours[0], np.histogram(wide, 4, (0.0, 8.0), density=True)[0], 1e-15)
    weights = np.arange(6, dtype="f")
    same(
        anp.histogram(x, edges, weights=weights)[0],
        np.histogram(x, edges, weights=weights)[0],
    )


def test_counts_agree_with_numpy():
    x, weights = np.array([3, 0, 3, 5], "i4"), np.array([0.5, 1.0, 2.0, 4.0], "f")
    same(anp.bincount(x), np.bincount(x))
    same(anp.bincount(x, minlength=9), np.bincount(x, minlength=9))
    same(anp.bincount(x, weights), np.bincount(x, weights))
    same(anp.bincount(x, length=4), np.bincount(x)[:4])
    same(anp.isin(x, [3, 4]), np.isin(x, [3, 4]))
    same(anp.isin(x, [3, 4], invert=True), np.isin(x, [3, 4], invert=True))


X = np.ones((2, 3), "f")
BAD = {
    "axis": lambda: anp.sort(X, 2),
    "axis of the order": lambda: anp.argsort(X, -3),
    "k too large": lambda: anp.top_k(X, 4),
    "k negative": lambda: anp.top_k(X, -1),
    "kth": lambda: anp.partition(X, 3),
    "keys": lambda: anp.lexsort([X, X[0]]),
    "side": lambda: anp.searchsorted(X[0], X, "middle"),
    "rows": lambda: anp.searchsorted(X, X[0]),
    "bins": lambda: anp.digitize(X, X),
    "quantile": lambda: anp.quantile(X, 1.5),
    "method": lambda: anp.quantile(X, 0.5, method="mode"),
    "nothing": lambda: anp.median(X[:0]),
    "counts of floats": lambda: anp.bincount(X[0]),
    "negative counts": lambda: anp.bincount(np.array([-1])),
    "weights": lambda: anp.bincount(np.array([1]), weights=X[0]),
    "number of bins": lambda: anp.histogram(X, 0),
    "edges": lambda: anp.histogram(X, X),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_refused_with_what_was_expected(name):
    with pytest.raises(InputError, match="expected|out of"):
        BAD[name]()
