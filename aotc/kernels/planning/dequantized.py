"""Products by weights that are dequantised: how they are cut up, and which cannot be.

    graph.dot_general(%x, graph.dequantize(%q, %scale, %offset))

The kernel reads integers, [panel][term][column], or of fewer than 8 bits [panel][word]
[column] (`aotc.kernels.bit_planes`); and scales and offsets, [panel][block][column].
Where these are dequantised in turn, it reads their integers and what scales those, of
some blocks each. Where instructions multiply bytes by fours, four terms of a column lie
together, [panel][terms by 4][column][term]. The panels do not depend on how many rows
there are, so that all products by a weight read one packing of it.

Where the blocks are along its columns, as where a gradient goes back through a product,
scales and offsets are [block][term].
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from aotc.dialects.graph import GraphOp
from aotc.dialects.ops.contraction import DotGeneral
from aotc.dialects.ops.quantization import Dequantize
from aotc.dialects.ops.selection import Cast
from aotc.dialects.patterns.values import made_by, splat_of
from aotc.dialects.plain import attribute_of
from aotc.dialects.types import Tensor
from aotc.kernels.bit_planes import in_planes, run_length
from aotc.kernels.geometry import ConvolutionGeometry, geometry_of, known_geometry
from aotc.kernels.machine import STACK_BYTES, Machine
from aotc.kernels.packing import packed_blocks_shape
from aotc.kernels.planning.tile import (
    ContractionTile,
    choose_tile,
    widths_of,
    with_blocks,
)
from aotc.mlir import Value, ir

TERMS = 4  # of a column, which instructions multiply bytes of at a time
ROUNDED = 32  # terms of a row that are rounded by one scale
_IS_ROUNDED = "graph.rounded"  # an attribute of a product, see `state_rounded`
_SUMS = 12  # of integers, and as many of floats, that registers hold of rounded rows
_FEWER_SUMS = 8  # where there are 16 registers: some of the floats lie in memory
_LEAST_BLOCKS = 8  # of a row that is rounded
_LEAST_TOGETHER = 16  # terms with one scale of a rounded row and one of the weight
_LEAST_ROUNDED = 4  # rows, below which bytes take longer to read than to multiply
_ROWS = ("bf16",)  # that kernels of all processors widen as they read them
_COLUMNS = 32  # of a panel, where vectors are long
COLUMNS_OF_BLOCKS = 16  # of which blocks have a multiple, as vectors have them
_VECTORS = 4  # of a panel, where they are short
# the same of fewer bits where there are few registers: a row has four sums of each
_FEWER_VECTORS, _PLENTY = 2, 28


def table_of(op: GraphOp) -> Dequantize | None:
    """Return the op that dequantises a product's second operand; None if none does."""
    return made_by(op.operands[1], Dequantize) if isinstance(op, DotGeneral) else None


def blocks_of(op: GraphOp) -> list[Value]:
    """Return the scales and offsets in memory of a product's dequantised operand.

    Of those that are dequantised, what they are made of.
    """
    table = table_of(op)
    return [] if table is None else parts_of(table)


def parts_of(table: Dequantize) -> list[Value]:
    """Return the values in memory that make a dequantisation's scale and offset."""
    found: list[Value] = []
    for part in (table.scale, table.offset):
        nested = made_by(part, Dequantize)
        if nested is not None:
            found += [nested.q, *parts_of(nested)]
        elif Tensor.of(part).rank:
            found.append(part)
    return found


def plan(
    op: GraphOp, geometry: ConvolutionGeometry | None, machine: Machine
) -> ContractionTile | None:
    """Return the tile for a product by a dequantised weight; None if it is no such."""
    table = table_of(op)
    if table is None or geometry is None or why_not(op, table, geometry):
        return None
    vectors = max(1, min(_VECTORS, _COLUMNS // machine.lanes))
    if in_planes(table.bits) and machine.registers < _PLENTY:
        vectors = min(vectors, _FEWER_VECTORS)
    vectors = min(vectors, -(-geometry.features // machine.lanes))
    chosen = choose_tile(geometry.typical, machine, 1, vectors)
    block = _block_of(table)
    if _is_across(op, table):
        terms = _terms_of(table.bits, geometry.depth, machine)
        return replace(chosen, terms=terms, bits=table.bits, across=block)
    terms = _terms_of(table.bits, block, machine)
    own = replace(chosen, terms=terms, bits=table.bits, group=block)
    return _for_rows(op, own, machine)


def _block_of(table: Dequantize) -> int:
    """Return how many integers along a dequantisation's axis share one scale."""
    sizes: Any = [Tensor.of(x).shape[table.axis] for x in (table.q, table.scale)]
    return int(sizes[0] // sizes[1])


def _is_across(op: GraphOp, table: Dequantize) -> bool:
    """Return whether a weight's quantisation blocks go along its columns."""
    assert isinstance(op, DotGeneral)
    return table.axis not in op.rhs_contract


def has_dots(machine: Machine) -> bool:
    """Return whether the machine has dot products of four unsigned by signed bytes.

    And whether its vectors hold the terms of a row that share a scale.
    """
    multipliers = machine.multipliers_of("u8", "i8")
    is_long = machine.lanes * TERMS >= ROUNDED
    return is_long and any(
        mma.terms == TERMS and mma.adds and not mma.offset for mma in multipliers
    )


def may_round(op: GraphOp, machine: Machine) -> bool:
    """Return whether rounding its rows to bytes makes a dequantised product faster."""
    if rounded_rows(op) is not None:
        return False
    table, geometry = table_of(op), geometry_of(op)
    if table is None or geometry is None or not has_dots(machine):
        return False
    is_beside = geometry.left_steps[0] in (0, geometry.depth)  # 0 of one row
    if why_not(op, table, geometry) or not is_beside or _is_across(op, table):
        return False
    size: Any = Tensor.of(table.q).shape[table.axis]
    few, many = sorted((_block_of(table), ROUNDED))
    if many % few or few < _LEAST_TOGETHER or size < _LEAST_BLOCKS * ROUNDED:
        return False
    rows: Any = geometry.typical.rows
    # floats of integers in planes take longer to make than those are to read
    return bool(in_planes(table.bits) or rows >= _LEAST_ROUNDED)


def scaled_together(group: int) -> int:
    """Return how many terms share both a row's scale and a weight's scale.

    Args:
        group: terms that share one of the weight.
    """
    return min(group, ROUNDED)


def state_rounded(op: DotGeneral) -> None:
    """Set the attribute that says a product's rows are dequantised bytes.

    Others that are dequantised, such as those of a table, have any blocks and bits.
    """
    op.operation.attributes[_IS_ROUNDED] = attribute_of(True)


def rounded_rows(op: GraphOp) -> Dequantize | None:
    """Return the op that dequantises a product's rounded rows; None if not rounded."""
    is_stated = _IS_ROUNDED in op.operation.attributes
    return made_by(op.operands[0], Dequantize) if is_stated else None


def views(op: GraphOp) -> Mapping[Value, Value]:
    """Map a product's rows to the integers they are widened or dequantised from; {} if
    the kernel reads the rows themselves.
    """
    rounded = rounded_rows(op)
    if rounded is not None:
        return {rounded.y: rounded.q}
    widened = made_by(op.operands[0], Cast) if table_of(op) is not None else None
    is_read = widened is not None and Tensor.of(widened.x).dtype in _ROWS
    return {widened.y: widened.x} if widened is not None and is_read else {}


def _terms_of(bits: int, group: int, machine: Machine) -> int:
    """Return how many integers of a column are contiguous in the packed weight."""
    if in_planes(bits):
        return run_length(bits)
    return TERMS if has_dots(machine) and group % TERMS == 0 else 1


def _for_rows(op: GraphOp, tile: ContractionTile, machine: Machine) -> ContractionTile:
    """Return the tile with as many rounded rows as registers hold sums of."""
    if rounded_rows(op) is None:
        return tile
    most = _SUMS if machine.registers > 16 else _FEWER_SUMS
    geometry = known_geometry(op)
    blocks = geometry.depth // scaled_together(tile.group)
    held = STACK_BYTES // 8 // blocks  # rows whose blocks have their sums on the stack
    rows = max(1, min(tile.rows, most // tile.vectors, held))
    return with_blocks(geometry.typical, replace(tile, rows=rows, block=1, products=1))


def plan_joined(
    op: GraphOp,
    geometry: ConvolutionGeometry,
    tiles: Sequence[ContractionTile],
    machine: Machine,
    *,
    interleaved: bool,
) -> ContractionTile | None:
    """Return the tile for products of one left operand in one kernel; None if none.

    Their panels stay as they are, so all numbers of rows read the same ones.

    Args:
        op: the first of them.
        geometry: of one product with the features of all.
        tiles: the tile of each of them alone.
        machine: that computes them.
        interleaved: whether a panel has the same columns of all of them.
    """
    one, *_ = tiles
    if one.across or any(tile.columns != one.columns for tile in tiles):
        return None
    vectors = one.vectors * len(tiles) if interleaved else one.vectors
    if vectors not in widths_of(geometry.typical, machine):
        return None
    tile = choose_tile(geometry.typical, machine, 1, vectors)
    tile = replace(tile, terms=one.terms, group=one.group, bits=one.bits)
    return _for_rows(op, tile, machine)


def why_not(op: GraphOp, table: Dequantize, geometry: ConvolutionGeometry) -> str:
    """Return why a kernel cannot read a product's dequantised weight; "" if it can."""
    assert isinstance(op, DotGeneral)
    rows = Tensor.of(op.lhs)
    if rows.dtype != "f32" or Tensor.of(op.y).dtype != "f32":
        return f"its rows are {rows.dtype}, not f32"
    if len(op.rhs_contract) != 1 or geometry.layout is None:
        return "more than one of its axes is summed up"
    layout = geometry.layout
    if geometry.products != 1 or len(layout.sums) != 1 or layout.depth != 1:
        return "its rows are not at one distance, or their terms not beside each other"
    if _is_across(op, table):
        return _why_not_across(table, geometry)
    group = _block_of(table)
    if _has_one_offset(table):
        return "its offset is one number"
    nested = [made_by(part, Dequantize) for part in (table.scale, table.offset)]
    if not all(each is None or _is_plain(each, table.axis) for each in nested):
        return "its scales or offsets have offsets, or scales of scales"
    if _fills_runs(table.bits, group):
        return ""
    return f"it has {table.bits} bits in blocks of {group}"


def _fills_runs(bits: int, terms: int) -> bool:
    """Return whether `terms` integers of a column fill whole runs of bit planes."""
    return bits == 8 or (in_planes(bits) and terms % run_length(bits) == 0)


def _why_not_across(table: Dequantize, geometry: ConvolutionGeometry) -> str:
    """Return why a kernel cannot read blocks along columns; "" if it can.

    No vector has columns of two blocks, and the last run has all of its terms.
    """
    if Tensor.of(table.q).rank != 2 or not _has_one_axis(table):
        return (
            "its blocks are neither along the axis summed up nor along the only other"
        )
    block, blocks = _block_of(table), Tensor.of(table.scale).shape[table.axis]
    if blocks != 1 and block % COLUMNS_OF_BLOCKS:
        return f"its columns have blocks of {block}, no multiple of {COLUMNS_OF_BLOCKS}"
    if _fills_runs(table.bits, geometry.depth):
        return ""
    return f"{geometry.depth} terms of {table.bits} bits fill no run"


def _has_one_axis(table: Dequantize) -> bool:
    """Return whether quantised scales are bytes with scales along the same axis."""
    nested = [made_by(part, Dequantize) for part in (table.scale, table.offset)]
    return all(
        each is None
        or ((each.axis, each.bits) == (table.axis, 8) and _has_one_axis(each))
        for each in nested
    )


def _has_one_offset(table: Dequantize) -> bool:
    """Return whether a dequantisation subtracts one number that is not 0."""
    return not Tensor.of(table.offset).rank and splat_of(table.offset) != 0


def _is_plain(part: Dequantize, axis: int) -> bool:
    """Return whether scales are dequantised bytes along `axis`, without offsets."""
    is_one = made_by(part.scale, Dequantize) is None
    has_none = not Tensor.of(part.offset).rank and not _has_one_offset(part)
    return is_one and has_none and (part.axis, part.bits) == (axis, 8)


def argument_behind(value: Value) -> Value | None:
    """Return the region argument that a value is unpacked from; None if none."""
    while not isinstance(value.owner, ir.Block):
        if len(value.owner.operands) != 1:
            return None
        (value,) = value.owner.operands
    return value


def why_misread(anchor: GraphOp, tile: ContractionTile, panels: int) -> str:
    """Return why a kernel would misread scales and offsets of a region; "" if not.

    Args:
        anchor: a product of the region.
        tile: of the region.
        panels: that all its products have.
    """
    if table_of(anchor) is None:
        return "expected its second operand to be dequantised"
    for part in blocks_of(anchor):
        argument = argument_behind(part)
        expected = packed_blocks_shape(anchor, tile, Tensor.of(part))
        if not tile.across:
            expected = (panels, *expected[1:])
        if argument is None or Tensor.of(argument).shape != expected:
            return f"expected scales and offsets of the shape {expected}"
    return ""
