"""Plans of attentions of few queries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from aotc.dialects.graph import GraphOp
from aotc.dialects.ops.attention import Attention
from aotc.dialects.ops.shape import Transpose
from aotc.dialects.patterns.values import made_by
from aotc.dialects.types import Size, SymbolicDim
from aotc.kernels.machine import Machine
from aotc.kernels.planning.attention import (
    SCRATCH,
    AttentionSizes,
    has_kernel_types,
)
from aotc.kernels.schedule import Schedule
from aotc.mlir import Value

_KEYS = 32  # of a block: what is read of hidden positions is less than that
_MOST_WIDTH = 8  # vectors of weighted sums in registers
_QUERIES = 8  # of a head of keys, also where a vector has fewer lanes


@dataclass(frozen=True)
class DecoderTile(Schedule):
    """The schedule of an attention of few queries (decoding).

    Args:
        lanes: elements of a vector.
        keys: of a block.
        width: vectors of weighted sums that are in registers.
    """

    lanes: int
    keys: int
    width: int


def plan(op: Attention, machine: Machine) -> DecoderTile | None:
    """Return the tile for an attention of few queries; None for others.

    No more queries share a head of keys than a vector has lanes, or 8: for more, the
    other form has fewer operations. None is causal: of one query, that would hide
    all positions but the first. A call may decide how many positions there are.
    """
    if op.causal or not has_kernel_types(op, machine):
        return None
    sizes, lanes = AttentionSizes.of(op), machine.lanes
    if isinstance(sizes.length, SymbolicDim) or sizes.length > max(lanes, _QUERIES):
        return None
    _, positions = sizes.typical
    tile = DecoderTile(
        lanes=lanes,
        keys=min(_KEYS, positions),
        width=min(_MOST_WIDTH, -(-sizes.width // lanes)),
    )
    scratch = sizes.length * _scratch_of(sizes, tile)
    return tile if scratch <= SCRATCH else None


def workgroups(op: Attention, tile: DecoderTile) -> tuple[Size, Size]:
    """Return the numbers of workgroups: heads of all batches, and 1."""
    sizes = AttentionSizes.of(op)
    return sizes.batch * sizes.heads, 1


def round_up(count: int, lanes: int) -> int:
    """Return a count rounded up to a multiple of `lanes`."""
    return -(-count // lanes) * lanes


def _scratch_of(sizes: AttentionSizes, tile: DecoderTile) -> int:
    """Return the stack elements of a query: itself, its weights and three vectors.

    And its sums, where results are narrower.
    """
    rows = round_up(sizes.depth, tile.lanes) + round_up(tile.keys, tile.lanes)
    return rows + 3 * tile.lanes + (sizes.width if sizes.is_narrow else 0)


def computed_operands(op: Attention) -> list[Value]:
    """Return the keys and values of an attention that a prologue may compute."""
    return [x for x in (op.key, op.value) if x not in (op.query, op.bias)]


def caches_by_heads(op: GraphOp) -> Mapping[Value, Value]:
    """Return the head-major caches behind transposed keys and values, by operand.

    None of them that is another operand as well, which is read by positions.

    Returns:
        The cache of each.
    """
    assert isinstance(op, Attention)
    makers = {value: made_by(value, Transpose) for value in computed_operands(op)}
    return {
        value: maker.x
        for value, maker in makers.items()
        if maker is not None and tuple(maker.permutation) == (0, 2, 1, 3)
    }
