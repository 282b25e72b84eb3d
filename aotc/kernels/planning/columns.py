"""Plan kernels of columns: the reductions that have one, and how they are cut up.

A kernel goes from the first row of a matrix to the last, so what is reduced over all
but the last axes, as in a batch norm and its derivative, is one matrix, which threads
could not share. `split-reductions` makes it a reduction of each of several matrices
(`inner_axes`), and one of what these give.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from operator import mul

from aotc.core.dtypes import is_float
from aotc.dialects.functions.walking import (
    backward_slice,
    defining_op,
    has_one_use,
    in_order,
    is_before,
    users_of,
)
from aotc.dialects.graph import GraphOp
from aotc.dialects.ops.normalization import Normalize
from aotc.dialects.ops.reduction import Reduction
from aotc.dialects.ops.selection import Cast
from aotc.dialects.types import Size, Tensor, ceil_divide, element_count
from aotc.kernels import grain
from aotc.kernels.machine import Machine
from aotc.kernels.planning.reductions import (
    MatrixBatch,
    is_in_memory,
    known_matrices,
    reduced_axes,
)
from aotc.kernels.planning.tile import split_evenly
from aotc.kernels.schedule import Schedule
from aotc.kernels.typical import IMAGES, typical_size
from aotc.mlir import Value

_SPARE = 6  # registers that are left to what makes the elements
_MOST_TOGETHER = 3  # reductions that one kernel computes
_MATRICES = 8  # that threads share evenly, at least
_ROWS = 16  # of a matrix, at least


@dataclass(frozen=True)
class ColumnTile(Schedule):
    """The schedule of a reduction along columns of matrices.

    Args:
        lanes: elements of a vector.
        vectors: of columns that are gone through side by side, at most.
        steps: rows that are read in one step, each with accumulators of its own.
        tiles: so many vectors of columns, that a workgroup computes.
        block: matrices of which a workgroup computes some columns.
    """

    lanes: int
    vectors: int
    steps: int
    tiles: int
    block: int

    @property
    def columns(self) -> int:
        """The number of columns of a tile."""
        return self.lanes * self.vectors


def plan(op: Reduction | Normalize, machine: Machine) -> ColumnTile | None:
    """Return the tile of a reduction along columns; None if it gets no kernel.

    All but the first axes are static, those that are reduced are beside each other, and
    elements are floats. Of a norm a kernel makes the statistics, if nothing reads more.
    """
    x, sizes = Tensor.of(op.x), MatrixBatch.of(op)
    if sizes is None or x.dtype not in machine.dtypes or 0 in x.shape:
        return None
    if isinstance(op, Normalize) and any(True for _ in op.y.uses):
        return None
    if not _is_worth(sizes, machine):
        return None
    if not is_in_memory(op.x, _columns(op), machine.dtypes):
        return None
    return choose_tile(sizes, machine)


def _is_worth(sizes: MatrixBatch, machine: Machine) -> bool:
    """Return whether matrices are large and wide enough for a kernel."""
    size = typical_size(sizes.count, IMAGES) * sizes.length * sizes.width
    is_large = size >= grain.elements(grain.LEAST)
    return is_large and machine.half_fills(sizes.width)


def inner_axes(op: Reduction | Normalize, machine: Machine) -> tuple[int, ...]:
    """Return the axes that a kernel reduces first when a reduction is split; () if not.

    Those of the longest run, but of the first axes of a tensor some that number the
    matrices, so that threads share them. None of them where the op is better computed
    at once.
    """
    x, axes = Tensor.of(op.x), reduced_axes(op)
    if not axes or x.dtype not in machine.dtypes or 0 in x.shape:
        return ()
    is_run = axes == tuple(range(axes[0], axes[-1] + 1))
    if is_run and axes[-1] == x.rank - 1:
        return ()  # rows
    found = max(_runs(axes, x), key=lambda run: _count(x, run), default=())
    if found and found[0] == 0:
        found = found[_numbering(found, x) :]
    if not found or (found == axes and isinstance(op, Reduction)):
        return ()
    length, width = _count(x, found), element_count(x.shape[found[-1] + 1 :])
    if not isinstance(width, int) or length < _ROWS:
        return ()
    count = element_count(x.shape[: found[0]])
    return found if _is_worth(MatrixBatch(count, length, width), machine) else ()


def _runs(axes: tuple[int, ...], x: Tensor) -> Iterator[tuple[int, ...]]:
    """Yield the runs of neighbouring axes, but for one that ends the tensor.

    All but the first one of a tensor are of static size.
    """
    run: tuple[int, ...] = ()
    for axis in axes:
        run = (*run, axis) if run and run[-1] == axis - 1 else (axis,)
        is_end = axis + 1 not in axes
        static = all(isinstance(x.shape[each], int) for each in run if each)
        if is_end and axis != x.rank - 1 and static:
            yield run


def _count(x: Tensor, axes: tuple[int, ...]) -> int:
    """Return the number of elements along some axes, in typical calls."""
    sizes = [typical_size(x.shape[axis], IMAGES) for axis in axes]
    return [*accumulate(sizes, mul, initial=1)][-1]


def _numbering(run: tuple[int, ...], x: Tensor) -> int:
    """Return how many of a run's first axes number the matrices that threads share."""
    for number in range(1, len(run)):
        if _count(x, run[:number]) >= _MATRICES:
            return number
    return len(run) - 1 if isinstance(x.shape[0], int) else 1


def choose_tile(sizes: MatrixBatch, machine: Machine) -> ColumnTile:
    """Return the tile of a reduction along columns on a machine."""
    needed = -(-sizes.width // machine.lanes)
    count = max(split_evenly(needed, vectors_of(1, machine)))
    work = sizes.length * count * machine.lanes
    tiles, wanted = -(-needed // count), -(-grain.elements(grain.COLUMNS) // work)
    matrices = typical_size(sizes.count, IMAGES)
    return ColumnTile(
        lanes=machine.lanes,
        vectors=count,
        steps=min(sizes.length, -(-machine.under_way // count)),
        tiles=max(split_evenly(tiles, min(tiles, wanted))),
        block=max(split_evenly(matrices, max(1, min(matrices, wanted // tiles)))),
    )


def vectors_of(count: int, machine: Machine) -> int:
    """Return how many vectors of columns fit the registers, for `count` reductions."""
    return max(1, (machine.registers - _SPARE) // count)


def workgroups(op: Reduction | Normalize, tile: ColumnTile) -> tuple[Size, Size]:
    """Return the numbers of workgroups: parts of the columns, blocks of matrices."""
    sizes = known_matrices(op)
    parts = ceil_divide(sizes.width, tile.columns * tile.tiles)
    return parts, ceil_divide(sizes.count, tile.block)


def column_axes(op: GraphOp) -> int:
    """Return how many of an operand's last axes are not reduced: the columns."""
    return len(_columns(op))


def _columns(op: GraphOp) -> range:
    """Return the axes behind the reduced ones."""
    return range(max(reduced_axes(op)) + 1, Tensor.of(op.operands[0]).rank)


# ---- reductions of what is read once ------------------------------------------------


def ops_before(op: Reduction | Normalize) -> list[Reduction]:
    """Return earlier reductions that a reduction's kernel computes too, in order.

    They are over the same axes, of what is made of the same tensor, and none needs
    what another one gives.
    """
    if not isinstance(op, Reduction):
        return []
    sources = _sources(op)
    found = list[Reduction]()
    for other in in_order(_reductions_of(sources, op)):
        is_free = not any(_needs(other, each) for each in found)
        if is_free and len(found) < _MOST_TOGETHER - 1 and not _needs(op, other):
            found.append(other)
    return found


def operands_made_elementwise(op: Reduction | Normalize) -> list[Value]:
    """Return the operands of a kernel's reductions, which a prologue may compute."""
    return list(dict.fromkeys(each.operands[0] for each in (op, *ops_before(op))))


def _sources(op: Reduction) -> list[Value]:
    """Return the tensors, of its operand's shape, that a reduction is computed from."""
    shape = Tensor.of(op.x).shape

    def goes_on(value: Value) -> bool:
        made = defining_op(value)
        if not has_one_use(value) or not isinstance(made, GraphOp):
            return False
        return bool(type(made).on_scalars)

    behind = (op.x, *backward_slice([op.x], goes_on))
    return [value for value in dict.fromkeys(behind) if Tensor.of(value).shape == shape]


def _reductions_of(sources: list[Value], op: Reduction) -> list[Reduction]:
    """Return earlier reductions like `op` whose operands derive from `sources`."""
    found, known, rest = list[Reduction](), set(sources), [*sources]
    while rest:
        for user in users_of([rest.pop()]):
            if not isinstance(user, GraphOp) or not is_before(user, op):
                continue
            if isinstance(user, Reduction):
                is_alike = type(user) is type(op) and user.axes == op.axes
                if is_alike and Tensor.of(user.x) == Tensor.of(op.x):
                    found.append(user)
                continue
            if not type(user).on_vectors and not _is_of_floats(user):
                continue
            (value,) = user.results
            if has_one_use(value) and value not in known:
                known.add(value)
                rest.append(value)
    return found


def _is_of_floats(op: GraphOp) -> bool:
    """Return whether an op is a cast between float dtypes."""
    return isinstance(op, Cast) and all(
        is_float(Tensor.of(x).dtype) for x in (op.x, op.y)
    )


def _needs(op: GraphOp, other: GraphOp) -> bool:
    """Return whether an op depends on the result of an earlier op."""

    def is_after(value: Value) -> bool:
        made = defining_op(value)
        return made is not None and other.operation.is_before_in_block(made.operation)

    return other.results[0] in backward_slice([*op.operands], is_after)
