"""The families of kernels, as one table: what each computes, and who writes it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from aotc.dialects.fusion import Fused
from aotc.dialects.graph import GraphOp
from aotc.kernels.contraction import Contraction
from aotc.kernels.epilogue import Epilogue
from aotc.kernels.geometry import geometry_of
from aotc.kernels.tile import Tile, block_count
from aotc.mlir import Function, Value

Workgroup = tuple[Value, Value]
Write = Callable[[Fused, Function, Sequence[Value], Workgroup], tuple[int, int]]


def write(
    fused: Fused, function: Function, memories: Sequence[Value], workgroup: Workgroup
) -> tuple[int, int]:
    """Write the kernel of a region at the insertion point.

    Args:
        fused: how it is computed.
        function: the region.
        memories: of its arguments, then of its results.
        workgroup: the numbers of a workgroup.

    Returns:
        How many workgroups there are.
    """
    return _WRITERS[fused.kernel](fused, function, memories, workgroup)


def anchor_of(function: Function) -> GraphOp:
    """The op of a region that its kernel is made for."""
    return next(
        op
        for op in function.entry_block.operations
        if isinstance(op, GraphOp) and geometry_of(op) is not None
    )


def _write_contraction(
    fused: Fused, function: Function, memories: Sequence[Value], workgroup: Workgroup
) -> tuple[int, int]:
    arguments = list(function.entry_block.arguments)
    *_, end = function.entry_block.operations
    anchor, tile = anchor_of(function), Tile.of_plain(fused.tile)
    geometry = geometry_of(anchor)
    assert geometry is not None
    taken, results = memories[: len(arguments)], memories[len(arguments) :]
    known = dict(zip(arguments[2:], taken[2:], strict=True))
    epilogue = Epilogue(anchor.results[0], known, tile.lanes)
    Contraction(
        geometry, tile, taken[0], taken[1], results, list(end.operands), epilogue
    ).write(*workgroup)
    return tile.panels(geometry.features), block_count(geometry, tile)


_WRITERS: dict[str, Write] = {"contraction": _write_contraction}
