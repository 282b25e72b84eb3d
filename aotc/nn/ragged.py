"""Products of rows in groups, each group with a matrix of its own."""

from __future__ import annotations

from aotc import control
from aotc import numpy as np
from aotc.dialects.types import Size
from aotc.nn.spatial import static_size
from aotc.tracing.array import Array
from aotc.tracing.conversion import ArrayLike, lift
from aotc.tracing.source_locations import fail

__all__ = ["ragged_dot"]

_BLOCK = 16  # rows that are multiplied at once


def ragged_dot(x: ArrayLike, kernels: ArrayLike, group_sizes: ArrayLike) -> Array:
    """`y[i] = x[i] @ kernels[g]` for rows that lie in order of their groups g.

    The rows of each group are cut into blocks, each of which takes one kernel, as in
    Gale et al., "MegaBlocks: efficient sparse training with mixture-of-experts", MLSys
    2023. There are never more than rows / 16 + groups of them.

    Args:
        x: rows, inputs.
        kernels: groups, inputs, outputs.
        group_sizes: how many rows each group has. Rows after the last group are zeros.

    Returns:
        rows, outputs.
    """
    x, kernels, sizes = lift(x), lift(kernels), np.astype(group_sizes, "i32")
    count = _group_count(x, kernels, sizes)
    ends = np.cumsum(sizes, 0)
    starts = np.subtract(ends, sizes)
    blocks = np.floor_divide(np.add(sizes, _BLOCK - 1), _BLOCK)
    last = np.cumsum(blocks, 0)
    first = np.subtract(last, blocks)
    total = x.shape[0] // _BLOCK + count

    def step(_: None, number: Array) -> tuple[None, Array]:
        group = np.minimum(np.searchsorted(last, number, "right"), count - 1)
        offset = np.multiply(np.subtract(number, first[group]), _BLOCK)
        row = np.add(starts[group], offset)
        return None, control.cond(
            np.less(number, last[-1]),
            lambda: _block(x, row) @ kernels[group],
            lambda: np.zeros((_BLOCK, kernels.shape[2]), x.dtype),
        )

    _, ys = control.scan(step, None, np.arange(total, dtype="i32"))
    return _rows(ys, starts, ends, first, x.shape[0])


def _group_count(x: Array, kernels: Array, sizes: Array) -> int:
    """Return the number of groups; fail if the shapes do not fit."""
    if x.ndim != 2 or kernels.ndim != 3 or sizes.type.shape != kernels.type.shape[:1]:
        fail(
            "shape-mismatch",
            "expected x as rows, inputs, kernels as groups, inputs, outputs, and one "
            f"size for each group; got {x.type}, {kernels.type} and {sizes.type}",
        )
    return static_size(sizes.shape[0], "list of group sizes")


def _block(x: Array, row: Array) -> Array:
    """Return `_BLOCK` rows of x from `row` on; the last row repeats beyond the end."""
    return np.take(x, np.add(np.arange(_BLOCK, dtype="i32"), row), 0, mode="clip")


def _rows(ys: Array, starts: Array, ends: Array, first: Array, rows: Size) -> Array:
    """Gather each row's result from the blocks `ys`; a group's begin at `first`."""
    number = np.arange(rows, dtype="i32")
    group = np.searchsorted(ends, number, "right")
    inside = np.less(number, ends[-1])
    group = np.minimum(group, starts.shape[0] - 1)
    place = np.add(
        np.multiply(first[group], _BLOCK), np.subtract(number, starts[group])
    )
    flat = np.reshape(ys, (-1, ys.shape[-1]))
    return np.where(np.expand_dims(inside, 1), np.take(flat, place, 0, mode="clip"), 0)
