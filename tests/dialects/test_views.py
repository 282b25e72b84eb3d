"""Views compose as the movements of NumPy do."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from aotc.dialects import context
from aotc.dialects.movement.views import Stride, StridedLoop, View, common_loops
from aotc.dialects.types import SymbolicDim

SHAPES = [(2, 3, 4), (6, 4), (1, 5), (12,), (2, 1, 6, 1), (1,), (4, 2, 2, 3)]


def _moves(shape: tuple[int, ...]) -> st.SearchStrategy[Any]:
    """A movement of an array of a shape: its name and arguments."""
    rank = len(shape)
    count = int(np.prod(shape))
    axes = st.lists(st.integers(0, rank - 1), unique=True).map(sorted)
    low_and_high = st.tuples(*[st.tuples(st.integers(0, 2), st.integers(0, 2))] * rank)
    cuts = [
        st.integers(0, n - 1).flatmap(
            lambda first, n=n: st.tuples(
                st.just(first), st.integers(1, n - first), st.integers(1, 3)
            )
        )
        for n in shape
    ]
    shapes = [
        each
        for each in [*SHAPES, (count,), (*shape, 1), (1, *shape), shape[::-1]]
        if np.prod(each) == count
    ]
    return st.one_of(
        st.permutations(range(rank)).map(lambda order: ("transpose", order)),
        st.sampled_from(shapes).map(lambda shape: ("reshape", shape)),
        axes.map(lambda axes: ("reverse", axes)),
        low_and_high.map(lambda pads: ("pad", pads)),
        st.tuples(*cuts).map(lambda found: ("slice", found)),
        st.integers(0, rank).map(lambda axis: ("broadcast", axis)),
        st.just(("windows", 2)),
    )


def _move(x: np.ndarray, view: View, name: str, how: Any) -> tuple[np.ndarray, Any]:
    """An array and its view, moved; no view where there is none."""
    if name == "transpose":
        return np.transpose(x, how), view.transpose(how)
    if name == "reshape":
        return np.reshape(x, how), view.reshape(how)
    if name == "reverse":
        return np.flip(x, how), view.reverse(how)
    if name == "pad":
        low, high = zip(*how, strict=True)
        return np.pad(x, how, constant_values=-7), view.pad(low, high, -7)
    if name == "slice":
        start, most, strides = zip(*how, strict=True)
        sizes = tuple(-(-n // s) for n, s in zip(most, strides, strict=True))
        cut = [
            slice(a, a + n * s, s)
            for a, n, s in zip(start, sizes, strides, strict=True)
        ]
        return x[tuple(cut)], view.slice(start, sizes, strides)
    if name == "broadcast":
        shape = (*x.shape[:how], 3, *x.shape[how:])
        shape = tuple(3 if n == 1 else n for n in shape)
        axes = [axis for axis in range(len(shape)) if axis != how]
        wide = np.broadcast_to(np.expand_dims(x, how), shape)
        return wide, view.broadcast(shape, axes)
    if x.ndim < 3 or min(x.shape[1:-1]) < 2:
        return x, view
    inner = tuple(range(1, x.ndim - 1))
    found = np.lib.stride_tricks.sliding_window_view(x, (2,) * len(inner), inner)
    found = np.moveaxis(found, x.ndim - 1, -1)
    ones = (1,) * len(inner)
    counts = found.shape[1 : 1 + len(inner)]
    return found, view.windows(counts, (2,) * len(inner), ones, ones)


@settings(max_examples=400, deadline=None)
@given(st.data())
def test_views_of_views_hold_what_numpy_moves_there(data: st.DataObject) -> None:
    shape = data.draw(st.sampled_from(SHAPES))
    source = np.arange(int(np.prod(shape))).reshape(shape)
    start = source if data.draw(st.booleans()) else source.reshape(-1)
    view = View.identity(shape)
    if start is not source:
        view = view.flat()
    x: np.ndarray = source
    for _ in range(data.draw(st.integers(1, 5))):
        moved, found = _move(x, view, *data.draw(_moves(x.shape)))
        if found is None or moved.size > 4096:
            continue
        if found.fill is not None and start is not source:
            continue
        x, view = moved, found
        assert view.shape == x.shape
        np.testing.assert_array_equal(view.read(start), x)
    if view.fill is None:
        np.testing.assert_array_equal(view.flat().read(source.reshape(-1)), x)


def test_strides_merge_within_an_axis_and_in_memory_across_axes() -> None:
    view = View.identity((2, 3, 4)).reshape((24,))
    assert view is not None
    assert len(view.axes[0]) == 3
    assert view.flat().axes == ((Stride(24, 0, 1),),)
    assert View.identity((2, 3, 4)).reshape((4, 6)) is None
    assert View.of_memory((2, 3, 4)).reshape((4, 6)) is not None


def test_axes_of_symbolic_sizes_split_where_the_contracts_prove_it() -> None:
    with context():
        n = SymbolicDim.symbol(0)
        memory = View.of_memory((n, 3, 4))
        assert memory.axes == (
            (Stride(n, 0, 12),),
            (Stride(3, 0, 4),),
            (Stride(4, 0, 1),),
        )
        flat = memory.reshape((n * 12,))
        assert flat is not None
        assert flat.reshape((n, 3, 4)) == memory
        assert flat.reshape((3, n, 4)) is not None
        assert View.of_memory((4, n)).axes[0] == (Stride(4, 0, n),)


def test_products_of_sizes_are_the_same_in_any_order_of_their_symbols() -> None:
    with context():
        a, b, c = map(SymbolicDim.symbol, range(3))
        pairs = View.identity((a, b, c)).reshape((a * b, c))
        assert pairs is not None
        flat = pairs.transpose((1, 0)).reshape((c * a * b,))
        assert flat is not None
        assert not flat.broadcast((c * a * b, 5), (0,)).axes[0][0].repeats
        for one in ((a * b, c), (c, a * b), (b * c, a), (a, c * b)):
            split = View.identity((a * b * c, 4)).split_axis(0, one)
            assert split is not None
            assert split.reshape((a * b * c, 4)) == View.identity((a * b * c, 4))
            assert split.reshape((c * b * a, 4)) == View.identity((a * b * c, 4))
            (loop,) = common_loops([split.flat(), split.flat()], [(0, 1, 2)] * 2)
            assert loop.size == a * b * c * 4


def test_padding_is_no_view_where_other_elements_lie() -> None:
    cut = View.identity((6,)).slice((1,), (4,), (1,))
    assert cut is not None
    assert cut.pad((1,), (0,), 0.0) is None
    split = View.identity((6,)).reshape((2, 3))
    assert split is not None
    assert split.pad((0, 1), (0, 0), 0.0) is None


def test_loops_over_two_operands_are_as_few_as_both_allow() -> None:
    left = View.of_memory((2, 3, 4))
    right = View.of_memory((4, 2, 3)).transpose((1, 2, 0))
    assert common_loops([left, right], [(0, 1), (0, 1)]) == [StridedLoop(6, (4, 1))]
    assert common_loops([left, right], [(0, 1, 2)] * 2) == [
        StridedLoop(6, (4, 1)),
        StridedLoop(4, (1, 6)),
    ]
