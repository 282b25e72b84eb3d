"""Plans of attentions of many queries, and of their gradients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from aotc.dialects.ops.attention import Attention
from aotc.dialects.ops.attention_gradient import AttentionGradient
from aotc.dialects.types import Size, SymbolicDim, Tensor, ceil_divide
from aotc.kernels.machine import STACK_BYTES, Machine
from aotc.kernels.planning.tile import most_rows, split_evenly
from aotc.kernels.schedule import Schedule
from aotc.kernels.typical import ATTENDED, typical_size

SCRATCH = STACK_BYTES // 4  # f32 elements of a kernel
_MOST_KEYS = 128  # of a block: their scores and the queries fit into the first cache
_LEAST_KEYS = 16  # of a block, unless there are fewer
_QUERIES = 32  # of a workgroup, at most
_MOST_WIDTH = 4  # vectors of weighted sums in registers
_FEWEST = 4  # the share of lanes that have a query is no less than one in so many

Attends = Attention | AttentionGradient


@dataclass(frozen=True)
class AttentionSizes:
    """The sizes of an attention, and the strides between its queries.

    How many batches, queries and positions there are may be what a call decides. Where
    heads share keys and have one query each, the heads that share them are taken for
    queries of one head.

    Args:
        batch: batches.
        length: queries of a head.
        heads: heads.
        depth: elements of a query and a key.
        positions: keys and values of a head.
        shared: heads of keys and values.
        width: elements of a value.
        row_step: from one query of a head to the next, in queries in memory.
        head_step: from the first query of a head to that of the next.
        is_narrow: whether results hold fewer bits than the sums that they are made of,
            which lie in memory of the workgroup then.
        is_gradient: whether they are those of a gradient.
    """

    batch: Size
    length: Size
    heads: int
    depth: int
    positions: Size
    shared: int
    width: int
    row_step: int
    head_step: int
    is_narrow: bool = False
    is_gradient: bool = False

    @classmethod
    def of(cls, op: Attends) -> AttentionSizes:
        """Return the sizes of an attention, or of a gradient's attention."""
        query: Any = Tensor.of(op.query).shape
        value: Any = Tensor.of(op.value).shape
        batch, length, heads, depth = query
        _, positions, shared, width = value
        steps = heads, 1
        if length == 1 and not op.causal:
            length, heads, steps = heads // shared, shared, (1, heads // shared)
        is_narrow = Tensor.of(op.results[0]).dtype != "f32"
        sizes = batch, length, heads, depth, positions, shared, width
        return cls(*sizes, *steps, is_narrow, isinstance(op, AttentionGradient))

    @property
    def scratch(self) -> tuple[int, int]:
        """The stack elements of a query: (always, and for each key of a block)."""
        if self.is_gradient:  # itself and its cotangent; a weight and a slope
            return self.depth + self.width, 2
        return 1 + self.depth + (self.width if self.is_narrow else 0), 1

    @property
    def typical(self) -> tuple[int, int]:
        """The typical numbers of queries and positions, for which tiles are chosen."""
        return typical_size(self.length, ATTENDED), typical_size(
            self.positions, ATTENDED
        )


def has_kernel_types(op: Attends, machine: Machine) -> bool:
    """Return whether an attention has dtypes and static sizes that kernels allow.

    Sizes are static but for the numbers of batches, queries and positions, and
    somebody reads the weighted sums, or one of the cotangents.
    """
    types = [Tensor.of(value) for value in (*op.operands, *op.results)]
    if not all(x.dtype in machine.dtypes and 0 not in x.shape for x in types):
        return False
    parts = [*Tensor.of(op.query).shape[2:], *Tensor.of(op.value).shape[2:]]
    if any(isinstance(size, SymbolicDim) for size in parts):
        return False
    made = [op.y] if isinstance(op, Attention) else [*op.results]
    return any(True for value in made for _ in value.uses)


@dataclass(frozen=True)
class BiasStrides:
    """The strides between elements of the bias along each axis.

    0 where one element serves the whole axis.
    """

    batch: Size
    head: Size
    query: Size
    position: Size


def bias_strides(op: Attends) -> BiasStrides:
    """Return the strides of an attention's bias; zeros where it has none."""
    bias, key = Tensor.of(op.bias), Tensor.of(op.key)
    if bias.rank == 0:
        return BiasStrides(0, 0, 0, 0)
    found: list[Size] = []
    stride: Size = 1
    wanted = (*Tensor.of(op.logsum).shape, key.shape[1])
    for size, want in zip(reversed(bias.shape), reversed(wanted), strict=True):
        found.append(stride if size == want else 0)
        stride *= size
    position, query, head, batch = found
    sizes = AttentionSizes.of(op)
    if sizes.length != Tensor.of(op.query).shape[1]:  # queries are heads
        query, head = head, head * sizes.head_step
    return BiasStrides(batch, head, query, position)


@dataclass(frozen=True)
class AttentionTile(Schedule):
    """The schedule of an attention, or of a gradient.

    Args:
        lanes: elements of a vector.
        vectors: of queries that one workgroup has, or one block of them.
        rows: keys, at most, of which the scores, or the sums, are in registers.
        keys: of a block.
        width: vectors of weighted sums that are in registers.
        queries: that they are of, at most.
    """

    lanes: int
    vectors: int
    rows: int
    keys: int
    width: int
    queries: int

    @property
    def columns(self) -> int:
        """The number of queries of a workgroup, or of a block of a workgroup's."""
        return self.lanes * self.vectors


def choose_tile(op: Attends, machine: Machine) -> AttentionTile | None:
    """Return the tile for an attention on a machine; None if its heads are too deep."""
    sizes, lanes = AttentionSizes.of(op), machine.lanes
    count = _choose_vectors(sizes, lanes)
    most, (_, positions) = _most_keys(sizes, count * lanes), sizes.typical
    is_dynamic = isinstance(sizes.positions, SymbolicDim)
    if is_dynamic:
        most = most // lanes * lanes  # the bias of whole vectors of keys is transposed
    if most < min(_LEAST_KEYS, positions):
        return None
    keys = most if is_dynamic else max(split_evenly(positions, most))
    widest = max(sizes.width, sizes.depth) if sizes.is_gradient else sizes.width
    width = min(_MOST_WIDTH, -(-widest // lanes))
    held = max(count, width) if sizes.is_gradient else count
    return AttentionTile(
        lanes=lanes,
        vectors=count,
        rows=most_rows(held, sizes.shared * sizes.depth, machine),
        keys=keys,
        width=width,
        queries=most_rows(width, 1, machine),
    )


def _choose_vectors(sizes: AttentionSizes, lanes: int) -> int:
    """Return how many vectors of queries leave the fewest lanes of a block empty."""
    length, _ = sizes.typical
    needed = -(-length // lanes)
    most = min(needed, _QUERIES // lanes)
    while most > 1 and _most_keys(sizes, most * lanes) < _LEAST_KEYS:
        most -= 1
    counts = range(most, min(most, 2) - 1, -1)
    return min(counts, key=lambda n: (-(-needed // n) * n, -n))


def _most_keys(sizes: AttentionSizes, columns: int) -> int:
    """Return how many keys of a block fit the scratch memory beside the queries."""
    own, each = sizes.scratch
    return min(_MOST_KEYS, (SCRATCH // columns - own) // each)


def plan(op: Attention, machine: Machine) -> AttentionTile | None:
    """Return the tile for an attention of many queries; None if it gets no kernel.

    The transposed queries and the scores of a block are on the stack, and so are the
    sums that narrower results are made of, so heads are at most some hundred elements
    deep. A bias does not vary with the query alone. Of a few queries most lanes would
    be empty: see `decoder`.
    """
    return _plan(op, machine)


def workgroups(op: Attention, tile: AttentionTile) -> tuple[Size, Size]:
    """Return the numbers of workgroups: heads of all batches, and blocks of queries."""
    sizes = AttentionSizes.of(op)
    return sizes.batch * sizes.heads, ceil_divide(sizes.length, tile.columns)


def plan_gradient(op: AttentionGradient, machine: Machine) -> AttentionTile | None:
    """Return the tile for an attention's gradient; None if products are better.

    That is where an attention of the same sizes has no kernel, or heads are more than
    some hundred elements deep; where the cotangent of the bias is read, which may be as
    large as the scores; and where there is one head, which one thread would compute:
    threads share the rows of a product.
    """
    sizes = AttentionSizes.of(op)
    if sizes.batch * sizes.shared == 1 or any(True for _ in op.dbias.uses):
        return None
    return _plan(op, machine)


def workgroups_of_gradient(
    op: AttentionGradient, tile: AttentionTile
) -> tuple[Size, Size]:
    """Return the numbers of workgroups: key heads of all batches, and 1."""
    sizes = AttentionSizes.of(op)
    return sizes.batch * sizes.shared, 1


def _plan(op: Attends, machine: Machine) -> AttentionTile | None:
    """Return the tile for an attention or its gradient; None if it gets no kernel."""
    if not has_kernel_types(op, machine):
        return None
    strides = bias_strides(op)
    if strides.query != 0 and strides.position == 0:
        return None
    length, _ = AttentionSizes.of(op).typical
    if _FEWEST * length < machine.lanes:
        return None
    return choose_tile(op, machine)
