"""Products by weights that are dequantised: how they are cut up, and which cannot be.

    graph.dot_general(%x, graph.dequantize(%q, %scale, %offset))

The kernel reads integers, [panel][term][column], or of 4 bits [panel][terms by 8]
[column] with byte t of a column's four the terms t (its lower half) and 4 + t; and
scales and offsets, [panel][block][column]. The panels do not depend on how many rows
there are, so that all products by a weight read one packing of it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from aotc.dialects.graph import GraphOp
from aotc.dialects.ops.contraction import DotGeneral, contracted_axes
from aotc.dialects.ops.quantization import Dequantize
from aotc.dialects.patterns.values import made_by, splat_of
from aotc.dialects.types import Tensor
from aotc.kernels.geometry import Geometry
from aotc.kernels.machine import Machine
from aotc.kernels.packing import packed_blocks_shape
from aotc.kernels.planning.tile import Tile, choose_tile
from aotc.mlir import Value, ir

NIBBLES = 8  # that a word of 32 bits holds
_COLUMNS = 32  # of a panel, where vectors are long
_VECTORS = 4  # of a panel, where they are short
# the same of 4 bits where there are few registers: one row has four sums of each
_FEWER_VECTORS, _PLENTY = 2, 28


def table_of(op: GraphOp) -> Dequantize | None:
    """Return what dequantises the second operand of a product, if that is made so."""
    return made_by(op.operands[1], Dequantize) if isinstance(op, DotGeneral) else None


def plan(op: GraphOp, geometry: Geometry | None, machine: Machine) -> Tile | None:
    """Return the tile for a product by a dequantised weight; None if it is no such."""
    table = table_of(op)
    if table is None or geometry is None or why_not(op, table, geometry):
        return None
    shape: Any = Tensor.of(table.q).shape
    blocks: Any = Tensor.of(table.scale).shape
    vectors = max(1, min(_VECTORS, _COLUMNS // machine.lanes))
    if table.bits == 4 and machine.registers < _PLENTY:
        vectors = min(vectors, _FEWER_VECTORS)
    vectors = min(vectors, -(-geometry.features // machine.lanes))
    tile = choose_tile(geometry.typical, machine, 1, vectors)
    return replace(
        tile,
        terms=NIBBLES if table.bits == 4 else 1,
        group=shape[table.axis] // blocks[table.axis],
        bits=table.bits,
    )


def why_not(op: GraphOp, table: Dequantize, geometry: Geometry) -> str:
    """Return why a kernel cannot read the integers of a product; "" if it can."""
    assert isinstance(op, DotGeneral)
    kind, rows = Tensor.of(table.q), Tensor.of(op.lhs)
    if rows.dtype != "f32" or Tensor.of(op.y).dtype != "f32":
        return f"its rows are {rows.dtype}, not f32"
    if contracted_axes(op)[1] != (table.axis,) or geometry.layout is None:
        return "its blocks are not along the one axis that is summed up"
    layout = geometry.layout
    if geometry.products != 1 or len(layout.sums) != 1 or layout.depth != 1:
        return "its rows are not at one distance, or their terms not beside each other"
    size: Any = kind.shape[table.axis]
    blocks: Any = Tensor.of(table.scale).shape[table.axis]
    group = size // blocks
    is_offset = Tensor.of(table.offset).rank > 0
    if not is_offset and splat_of(table.offset) != 0:
        return "its offset is one number"
    if table.bits not in (4, 8) or (table.bits == 4 and group % NIBBLES):
        return f"it has {table.bits} bits in blocks of {group}"
    return ""


def argument_behind(value: Value) -> Value | None:
    """Return the argument of a region that a value is unpacked of; None for none."""
    while not isinstance(value.owner, ir.Block):
        if len(value.owner.operands) != 1:
            return None
        (value,) = value.owner.operands
    return value


def why_misread(anchor: GraphOp, tile: Tile) -> str:
    """Return why a kernel would misread the blocks of a region; "" if it would not."""
    table = table_of(anchor)
    if table is None:
        return "expected its second operand to be dequantised"
    parts = [table.scale]
    parts += [table.offset] if Tensor.of(table.offset).rank else []
    for part in parts:
        argument = argument_behind(part)
        expected = packed_blocks_shape(anchor, tile, Tensor.of(part))
        if argument is None or Tensor.of(argument).shape != expected:
            return f"expected scales and offsets of the shape {expected}"
    return ""
