"""Functions of `aotc.numpy` that read and write at positions."""

from __future__ import annotations

from collections.abc import Sequence

from aotc.core import dtypes
from aotc.dialects.types import Shape, Size
from aotc.numpy.axes import one_axis
from aotc.numpy.broadcasting import broadcast_shapes, broadcast_to, common
from aotc.numpy.elementwise import less, maximum, where
from aotc.numpy.positions import Maps, gather_at, integers, nonnegative_positions, read
from aotc.tracing.array import Array
from aotc.tracing.conversion import ArrayLike, astype, lift, one_dtype
from aotc.tracing.source_locations import fail
from aotc.tracing.tracing import emit

__all__ = ["choose", "put_along_axis", "select", "take", "take_along_axis"]

_MODES = ("raise", "clip", "wrap", "fill")


def take(
    a: ArrayLike,
    indices: ArrayLike,
    axis: int | None = None,
    *,
    mode: str = "raise",
    fill_value: ArrayLike | None = None,
) -> Array:
    """`a` at `indices` along `axis`; negative ones count from the end.

    Args:
        a: the array; without an axis its elements in a row.
        indices: integers of any shape, which replaces the axis.
        axis: the axis that is indexed.
        mode: what becomes of indices out of bounds. "raise" refuses those that are
            known and clips those that the model computes; "clip" takes the nearest
            element, also for negative ones; "wrap" starts again at the other end;
            "fill" gives `fill_value`.
        fill_value: NaN for floats and 0 for the others, if it is not given.
    """
    x, number = (lift(a), axis) if axis is not None else (_flat(a), 0)
    number = one_axis(x, number)
    positions = integers(indices)
    _require_mode(mode, _MODES)
    if mode == "clip":
        return _take_clipped(x, positions, number)
    return gather_at(x, [positions], [number], number, mode, fill_value)


def _require_mode(mode: str, known: Sequence[str]) -> None:
    """Raise unless `mode` is one of the known ones."""
    if mode not in known:
        words = ", ".join(map(repr, known))
        fail("bad-index", f"expected a mode out of {words}; got {mode!r}")


def _take_clipped(x: Array, positions: Array, axis: int) -> Array:
    """Take elements at indices clamped to the axis; negative ones become 0."""
    after = axis + positions.ndim
    kept = (*range(axis), *range(after, after + x.ndim - axis - 1))
    maps = {"axes": (axis,), "along": tuple(range(axis, after)), "kept": kept}
    return read(x, [positions], maps, "clip", None)


def _flat(a: ArrayLike) -> Array:
    """Return an array flattened to one axis."""
    x = lift(a)
    return emit("reshape", x, shape=(x.size,))


# ---- one index per element ----------------------------------------------------------


def take_along_axis(
    arr: ArrayLike,
    indices: ArrayLike,
    axis: int | None = -1,
    *,
    mode: str = "raise",
    fill_value: ArrayLike | None = None,
) -> Array:
    """Return the elements of `arr` at `indices` along `axis`; other axes correspond.

    Both have the same number of axes, and sizes that broadcast but along `axis`. Modes
    are those of `take`; negative indices always count from the end.
    """
    _require_mode(mode, _MODES)
    x, positions, number = _along(arr, indices, axis)
    wanted = broadcast_shapes(
        _shape_without(x.shape, number), _shape_without(positions.shape, number)
    )
    x = broadcast_to(x, _shape_with(wanted, number, x.shape[number]))
    positions = nonnegative_positions(x, number, positions, mode)
    positions, maps = _along_maps(x, positions, number)
    return read(x, [positions], maps, mode, fill_value)


def put_along_axis(
    arr: ArrayLike,
    indices: ArrayLike,
    values: ArrayLike,
    axis: int | None,
    *,
    mode: str = "drop",
) -> Array:
    """Return `arr` with `values` written at `indices` along `axis`.

    A new array: arrays in a model are not assigned to. Of several values for one
    element the last counts. Mode "drop" leaves out what is out of bounds and refuses
    it where it is known; "clip" writes to the nearest element.
    """
    _require_mode(mode, ("drop", "clip"))
    flat, positions, number = _along(arr, indices, axis)
    shape = _shape_with(
        _shape_without(flat.shape, number), number, positions.shape[number]
    )
    x, updates = one_dtype(flat, values)
    positions = nonnegative_positions(
        x, number, positions, "raise" if mode == "drop" else mode
    )
    positions, maps = _along_maps(x, positions, number)
    y = emit("scatter", x, broadcast_to(updates, shape), positions, **maps, mode=mode)
    return emit("reshape", y, shape=lift(arr).shape) if axis is None else y


def _along(
    arr: ArrayLike, indices: ArrayLike, axis: int | None
) -> tuple[Array, Array, int]:
    """Return array, indices and axis of `take_along_axis`, checked; None flattens."""
    x, positions = (lift(arr), integers(indices))
    if axis is None:
        x, axis = _flat(x), 0
    number = one_axis(x, axis)
    if positions.ndim != x.ndim:
        fail(
            "shape-mismatch",
            f"expected indices with as many axes as {x.type}; got {positions.type}",
        )
    return x, positions, number


def _along_maps(x: Array, positions: Array, axis: int) -> tuple[Array, Maps]:
    """Return indices without broadcast axes, and the axis maps of the gather op."""
    others = [n for n in range(x.ndim) if n != axis]
    along = [
        n
        for n, size in enumerate(positions.type.shape)
        if n == axis or size != 1 or x.type.shape[n] == 1
    ]
    if len(along) != x.ndim:
        sizes = tuple(positions.shape[n] for n in along)
        positions = emit("reshape", positions, shape=sizes)
    return positions, {"axes": (axis,), "along": tuple(along), "kept": tuple(others)}


def _shape_without(shape: Shape, axis: int) -> Shape:
    """Return a shape without an axis."""
    return tuple(size for number, size in enumerate(shape) if number != axis)


def _shape_with(shape: Shape, axis: int, size: Size) -> Shape:
    """Return a shape with a size inserted at an axis."""
    return (*shape[:axis], size, *shape[axis:])


# ---- choices ------------------------------------------------------------------------


def choose(a: ArrayLike, choices: Sequence[ArrayLike], *, mode: str = "raise") -> Array:
    """Select each element from the choice that `a` has the number of; all broadcast.

    Args:
        a: integers from 0.
        choices: the arrays to choose from.
        mode: what becomes of numbers of no choice, as in `take`. Negative ones do not
            count from the end: those of "clip", and computed ones of "raise", are 0.
    """
    if not len(choices):
        fail("shape-mismatch", "expected at least one choice; got none")
    numbers, arrays = integers(a), common(*choices)
    if mode == "raise" and (numbers._data is not None and (numbers._data < 0).any()):
        fail("bad-index", "expected numbers of choices, from 0; got negative ones")
    if dtypes.bits(numbers.dtype) < 32:  # there may be more choices than it counts
        numbers = astype(numbers, "i32")
    if mode == "fill":
        numbers = where(less(numbers, 0), len(arrays), numbers)
    elif mode != "wrap":
        numbers = maximum(numbers, 0)
    shape = broadcast_shapes(numbers.shape, arrays[0].shape)
    rows = [emit("reshape", broadcast_to(x, shape), shape=(1, *shape)) for x in arrays]
    whole = rows[0]
    for row in rows[1:]:
        whole = emit("concatenate", whole, row, axis=0)
    index = emit("reshape", broadcast_to(numbers, shape), shape=(1, *shape))
    chosen = take_along_axis(whole, index, 0, mode=mode)
    return emit("reshape", chosen, shape=shape)


def select(
    condlist: Sequence[ArrayLike],
    choicelist: Sequence[ArrayLike],
    default: ArrayLike = 0,
) -> Array:
    """Select each element from the choice of the first condition that holds, or
    `default`.
    """
    if len(condlist) != len(choicelist) or not len(condlist):
        fail(
            "shape-mismatch",
            f"expected a choice for each condition; got {len(condlist)} conditions and "
            f"{len(choicelist)} choices",
        )
    *choices, y = one_dtype(*choicelist, default)
    for condition, choice in reversed(list(zip(condlist, choices, strict=True))):
        y = where(condition, choice, y)
    return y
