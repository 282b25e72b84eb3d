"""Lookups of rows in the words that a kernel reads of a table of few bits.

    %y = graph.gather(%q, %i)                 %p = words(%q)
    %p = words(%q)                       →    %r = graph.gather(%p, %i / C, %i % C)
    %z = call @contraction(%x, %p)            %y = integers(%r)
                                              %z = call @contraction(%x, %p)

The table of a decoder whose head it is, too, is stored once: a row of it is a column of
a panel, [panel][word][column], and its words are what `bit_planes` brings apart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aotc.dialects.builder import Builder
from aotc.dialects.functions.functions import before, callee_of
from aotc.dialects.functions.fusion import fused_of
from aotc.dialects.functions.walking import copy_value
from aotc.dialects.graph import GraphOp
from aotc.dialects.ops.contraction import BYTES, DotGeneral, contracted_axes
from aotc.dialects.ops.indexing import Gather, IndexMap
from aotc.dialects.types import Tensor
from aotc.kernels.bit_planes import unpack_rows
from aotc.kernels.capabilities import Capabilities
from aotc.kernels.packing import packed_shape
from aotc.kernels.planning.tile import ContractionTile
from aotc.mlir import Function, Value, func


def read_from_words(
    tables: Sequence[Value],
    functions: Mapping[str, Function],
    capabilities: Capabilities,
) -> bool:
    """Rewrite gathers of a bit-packed weight to read its packed words; return whether
    any did.

    Args:
        tables: what the weight is in each entry.
        functions: of the module, by name.
        capabilities: of the target.
    """
    reads = [_reads_of(table, functions, capabilities) for table in tables]
    known = [each for each in reads if each is not None]
    tiles = {(each.tile.columns, each.tile.bits) for each in known}
    if len(known) < len(reads) or len(tiles) != 1:
        return False
    if not all(_can_read_words(gather) for each in known for gather in each.gathers):
        return False
    for each in known:
        for gather in each.gathers:
            each.rewrite(gather)
    return any(each.gathers for each in known)


@dataclass(frozen=True)
class _TableReaders:
    """The readers of an embedding table in an entry: gathers, and a kernel's packed
    words.

    Args:
        table: integers, [row][term].
        gathers: of its rows.
        packed: its words, which a kernel reads.
        tile: of that kernel.
    """

    table: Value
    gathers: list[Gather]
    packed: Value
    tile: ContractionTile

    def rewrite(self, gather: Gather) -> None:
        """Replace a gather of table rows by one from its packed words, unpacked
        after.
        """
        at, (index,), b = IndexMap.of(gather), gather.indices, Builder()
        rows: Any = Tensor.of(self.table).shape[0]
        (kept,) = at.kept
        with before(gather):
            least = b.maximum(index, b.full_like(index, 0))
            inside = b.minimum(least, b.full_like(index, rows - 1))
            columns = b.full_like(index, self.tile.columns)
            panel = b.divide(inside, columns)
            column = b.subtract(inside, b.multiply(panel, columns))
            packed = copy_value(self.packed, {self.table: self.table})
            words = b.gather(
                packed,
                panel,
                column,
                axes=(0, 2),
                along=at.along,
                kept=(kept, kept + 1),
                mode=at.mode,
            )
            *outer, count, size = Tensor.of(words).shape
            read = b.to_shape(words, (*outer, count * size))
            found = unpack_rows(b, read, self.tile.bits)
        gather.y.replace_all_uses_with(found)
        gather.operation.erase()


def _reads_of(
    table: Value, functions: Mapping[str, Function], capabilities: Capabilities
) -> _TableReaders | None:
    """Return the readers of a byte table: gathers, and kernels of one tile, for which
    the first stands; None if there are others.
    """
    is_looked_up = any(isinstance(use.owner.opview, Gather) for use in table.uses)
    if Tensor.of(table).dtype not in BYTES or not is_looked_up:
        return None
    gathers, calls = list[Gather](), dict[Value, func.CallOp]()
    rest, seen = [table], {table}
    while rest:
        value = rest.pop()
        for use in value.uses:
            op = use.owner.opview
            if isinstance(op, Gather) and value == table and table not in op.indices:
                gathers.append(op)
            elif isinstance(op, func.CallOp) and value != table:
                calls[value] = op
            elif isinstance(op, GraphOp) and not isinstance(op, Gather):
                if len(op.results) != 1:
                    return None
                made = op.results[0]
                if made not in seen:
                    seen.add(made)
                    rest.append(made)
            else:
                return None
    tiles = [
        _tile_of(call, value, table, functions[callee_of(call)], capabilities)
        for value, call in calls.items()
    ]
    if not tiles or None in tiles or len({(x.columns, x.bits) for x in tiles if x}) > 1:
        return None
    packed, tile = next(iter(calls)), tiles[0]
    return None if tile is None else _TableReaders(table, gathers, packed, tile)


def _tile_of(
    call: func.CallOp,
    packed: Value,
    table: Value,
    function: Function,
    capabilities: Capabilities,
) -> ContractionTile | None:
    """Return the tile of a called kernel that reads the table as bit-packed rows, or
    None.
    """
    fused = fused_of(function)
    if fused is None:
        return None
    family = capabilities.family_of(fused)
    tile, anchors = family.schedule_of(fused), family.anchors_in(function)
    if (
        not isinstance(tile, ContractionTile)
        or not tile.has_planes
        or len(anchors) != 1
    ):
        return None
    (anchor,) = anchors
    if not isinstance(anchor, DotGeneral) or contracted_axes(anchor)[1] != (1,):
        return None
    is_same = Tensor.of(anchor.rhs).shape == Tensor.of(table).shape
    is_read = call.operands[1] == packed
    shape = Tensor.of(packed).shape
    return tile if is_same and is_read and shape == packed_shape(anchor, tile) else None


def _can_read_words(gather: Gather) -> bool:
    """Return whether a gather selects whole rows by one clipped i32 or i64 index."""
    at, (index, *others) = IndexMap.of(gather), gather.indices
    is_plain = at.mode == "clip" and not others and not at.shared_axes
    is_of_rows = at.axes == (0,) and at.kept == (at.rank - 1,)
    return is_plain and is_of_rows and Tensor.of(index).dtype in ("i32", "i64")
