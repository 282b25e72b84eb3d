"""Families of kernels for CPUs: the ops that each takes, and its planning."""

from __future__ import annotations

from typing import Any

from aotc.core.numerics import RELAXED
from aotc.dialects.ops.attention import Attention
from aotc.dialects.ops.attention_gradient import AttentionGradient
from aotc.dialects.ops.binary import Binary
from aotc.dialects.ops.contraction import DotGeneral
from aotc.dialects.ops.convolution import ConvGeneral
from aotc.dialects.ops.normalization import Normalize
from aotc.dialects.ops.ordering import Argsort
from aotc.dialects.ops.pooling import MaxPool, SumPool
from aotc.dialects.ops.selection import Cast, Clamp, Select
from aotc.dialects.ops.shape import Transpose
from aotc.dialects.ops.slicing import Concatenate
from aotc.dialects.ops.unary import Unary
from aotc.kernels import packing
from aotc.kernels.elementwise import (
    ALIKE,
    BY_ROWS,
    FLOATS,
    NARROW,
    OF_COLUMNS,
    OF_NUMBERS,
)
from aotc.kernels.family import KernelFamily, Packing
from aotc.kernels.planning import (
    attention,
    chain,
    columns,
    contraction,
    decoder,
    depthwise,
    joined,
    movement,
    nests,
    quantization,
    repeated,
    rows,
    scan,
    sorting,
    transposing,
    updates,
    winograd,
)
from aotc.kernels.planning.tile import ContractionTile
from aotc.kernels.schedule import Schedule
from aotc.kernels.winograd import packing as winograd_packing


def _chain_packing(schedule: chain.ChainSchedule) -> Packing | None:
    """Return the weight packing of a chain's last convolution; None if it has none."""
    return _panel_packing(schedule.project)


def _panel_packing(tile: ContractionTile | None) -> Packing | None:
    """Return the packing of a right operand into column panels; None if not packed."""
    if tile is None or not tile.packed:
        return None
    blocks = Packing(
        lambda b, op, part: packing.pack_blocks(b, op, part, tile),
        lambda b, op, packed, kind: packing.unpack_blocks(b, op, packed, tile, kind),
    )
    return Packing(
        lambda b, op, right: packing.pack(b, op, tile, right),
        lambda b, op, packed, kind: packing.unpack(b, op, packed, tile, kind),
        blocks=blocks if tile.dequantizes else None,
    )


def _winograd_packing(tile: winograd.WinogradTile) -> Packing:
    """Return the packing that transforms a convolution's weights for Winograd tiles."""
    return Packing(
        lambda b, op, _: winograd_packing.pack(b, op, tile),
        lambda b, op, packed, _: winograd_packing.unpack(b, op, packed, tile),
        growth=winograd_packing.growth(tile),
    )


# of those that compute one op, the first with a plan for it is taken
FAMILIES: dict[str, KernelFamily[Any, Any]] = {
    "winograd": KernelFamily(
        anchors=(ConvGeneral,),
        schedule=winograd.WinogradTile,
        plan=winograd.plan,
        workgroups=winograd.workgroups,
        plan_unpacked=winograd.plan_unpacked,
        epilogue=BY_ROWS,
        packing=_winograd_packing,
        scratch=winograd.scratch_elements,
        cycles=winograd.cycles_of,
        stored=lambda op: NARROW,
        numerics=RELAXED,
        is_exact=winograd.is_exact,
    ),
    "chain": KernelFamily(
        anchors=(ConvGeneral,),
        schedule=chain.ChainSchedule,
        plan=chain.plan,
        workgroups=chain.workgroups,
        plan_unpacked=lambda op, machine: None,
        epilogue=BY_ROWS,
        candidates=chain.candidates,
        packing=_chain_packing,
        scratch=chain.scratch_elements,
        why_misread=chain.why_misread,
        prologue=ALIKE,
        ops_before=chain.ops_before,
        is_never_alone=True,
        has_runs=True,
    ),
    "contraction": KernelFamily(
        anchors=(DotGeneral, ConvGeneral),
        schedule=ContractionTile,
        plan=contraction.plan,
        workgroups=contraction.workgroups,
        plan_unpacked=contraction.plan_unpacked,
        epilogue=OF_COLUMNS,
        floats=FLOATS,
        stored=lambda op: NARROW,
        second_columns=contraction.second_columns,
        column_axes=contraction.column_axes,
        candidates=contraction.candidates,
        views=contraction.views,
        most_joined=4,  # of more, results would wait long for their readers
        packing=_panel_packing,
        fetching=contraction.plan_fetching,
        alike=contraction.plan_alike,
        cycles=contraction.cycles_of,
        why_not_joined=joined.why_not_joined,
        why_misread=contraction.why_misread,
    ),
    "decoder": KernelFamily(
        anchors=(Attention,),
        schedule=decoder.DecoderTile,
        floats=FLOATS,
        plan=decoder.plan,
        workgroups=decoder.workgroups,
        views=decoder.caches_by_heads,
        prologue=BY_ROWS,
        computed=decoder.computed_operands,
        repeats=True,
        widened=NARROW,
        all_results=True,
    ),
    "attention": KernelFamily(
        anchors=(Attention,),
        schedule=attention.AttentionTile,
        floats=FLOATS,
        plan=attention.plan,
        workgroups=attention.workgroups,
        all_results=True,
    ),
    "attention_gradient": KernelFamily(
        anchors=(AttentionGradient,),
        schedule=attention.AttentionTile,
        floats=FLOATS,
        plan=attention.plan_gradient,
        workgroups=attention.workgroups_of_gradient,
        all_results=True,
    ),
    "depthwise": KernelFamily(
        anchors=(ConvGeneral,),
        schedule=depthwise.Sweep,
        floats=FLOATS,
        stored=lambda op: NARROW,
        widened=NARROW,
        prologue=ALIKE,
        computed=depthwise.computed_operands,
        repeats=True,
        plan=depthwise.plan,
        workgroups=depthwise.workgroups,
        epilogue=BY_ROWS,
        views=depthwise.views,
        candidates=depthwise.candidates,
    ),
    "pooling": KernelFamily(
        anchors=(MaxPool, SumPool),
        schedule=depthwise.Sweep,
        floats=FLOATS,
        stored=lambda op: NARROW,
        widened=NARROW,
        prologue=ALIKE,
        repeats=True,
        plan=depthwise.plan,
        workgroups=depthwise.workgroups,
        epilogue=BY_ROWS,
        candidates=depthwise.candidates,
    ),
    "rows": KernelFamily(
        anchors=rows.ANCHORS,
        schedule=rows.RowTile,
        floats=FLOATS,
        plan=rows.plan,
        workgroups=rows.workgroups,
        epilogue=BY_ROWS,
        stored=lambda op: NARROW,
        widened=NARROW,
        column_axes=rows.column_axes,
        prologue=ALIKE,
        prologue_axes=rows.row_axes,
        all_results=True,
    ),
    "columns": KernelFamily(
        anchors=(*rows.REDUCTIONS, Normalize),
        schedule=columns.ColumnTile,
        floats=FLOATS,
        all_results=True,
        ops_before=columns.ops_before,
        computed=columns.operands_made_elementwise,
        plan=columns.plan,
        workgroups=columns.workgroups,
        epilogue=BY_ROWS,
        stored=lambda op: NARROW,
        widened=NARROW,
        column_axes=columns.column_axes,
        prologue=ALIKE,
        prologue_axes=columns.column_axes,
    ),
    "sort": KernelFamily(
        anchors=(Argsort,),
        schedule=Schedule,
        plan=sorting.plan,
        workgroups=sorting.workgroups,
    ),
    "movement": KernelFamily(
        anchors=(Concatenate,),
        schedule=movement.MovementBlocks,
        floats=FLOATS,
        plan=movement.plan,
        workgroups=movement.workgroups,
        prologue=ALIKE,
        prologue_axes=movement.row_axes,
        is_part=movement.is_inner,
        source=movement.source,
        why_misread=movement.why_misread,
        leaves_states=False,
    ),
    "quantization": KernelFamily(
        anchors=(Cast,),
        schedule=movement.MovementBlocks,
        floats=FLOATS,
        stored=lambda op: NARROW,
        widened=NARROW,
        plan=quantization.plan,
        workgroups=quantization.workgroups,
        prologue=BY_ROWS,
        is_last=True,
    ),
    "elementwise": KernelFamily(
        anchors=repeated.ANCHORS,
        schedule=movement.MovementBlocks,
        floats=FLOATS,
        plan=repeated.plan,
        workgroups=repeated.workgroups,
        prologue=BY_ROWS,
        computed=repeated.operands_made_elementwise,
        views=repeated.views,
        knows_constants=True,
        leaves_states=False,
        is_last=True,
    ),
    "transpose": KernelFamily(
        anchors=(Transpose,),
        schedule=movement.MovementBlocks,
        floats=FLOATS,
        plan=transposing.plan,
        workgroups=transposing.workgroups,
        prologue=OF_NUMBERS,
        why_misread=transposing.why_misread,
        leaves_states=False,
        is_last=True,
    ),
    "nests": KernelFamily(
        anchors=(),
        schedule=nests.NestSchedule,
        plan=nests.plan,
        workgroups=nests.workgroups,
        scratch=nests.scratch_elements,
        is_never_alone=True,
    ),
    "scan": KernelFamily(
        anchors=(),
        schedule=Schedule,
        plan=scan.plan,
        workgroups=scan.workgroups,
        scratch=scan.scratch_elements,
        inner=scan.inner,
        is_never_alone=True,
    ),
    "updates": KernelFamily(
        anchors=(Unary, Binary, Select, Clamp, Cast),
        schedule=updates.UpdateBlocks,
        floats=FLOATS,
        masks=True,
        plan=updates.plan,
        workgroups=updates.workgroups,
        epilogue=OF_NUMBERS,
        memory_parts=updates.memory_parts,
        why_misread=updates.why_misread,
        is_formed_apart=True,
    ),
}
