"""Blocks of a dequantised weight: their scales or offsets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from aotc.dialects.ops.quantization import Dequantize
from aotc.dialects.patterns.values import made_by
from aotc.dialects.types import Tensor
from aotc.kernels.cpu import vectors
from aotc.kernels.cpu.vectors import Values, add, index, scale
from aotc.kernels.machine import LINE_BYTES, PREFETCH_BYTES, STREAM_CACHE
from aotc.kernels.planning.dequantized import argument_behind
from aotc.kernels.planning.tile import ContractionTile
from aotc.mlir import Value, arith, ir


@dataclass(frozen=True)
class BlockScaleReader:
    """An emitter of loads of a packed weight's scales or offsets, by block.

    Args:
        tile: how the weight is cut up.
        memory: of floats, or of bytes.
        factors: that of what scales bytes; None for floats.
        together: blocks that share such a number.
        is_signed: whether bytes are.
    """

    tile: ContractionTile
    memory: Value
    factors: Value | None = None
    together: int = 1
    is_signed: bool = False

    @classmethod
    def of(
        cls, part: Value, memories: Mapping[Value, Value], tile: ContractionTile
    ) -> BlockScaleReader | None:
        """Return the reader of a weight's scales or offsets; None for one number.

        Args:
            part: the operand.
            memories: of the arguments of the region.
            tile: how the weight is cut up.
        """
        nested = made_by(part, Dequantize)
        if nested is None:
            argument = argument_behind(part)
            return None if argument is None else cls(tile, memories[argument])
        arguments = [argument_behind(x) for x in (nested.q, nested.scale)]
        memory, factors = (memories[x] for x in arguments if x is not None)
        sizes: Any = [Tensor.of(x).shape[nested.axis] for x in nested.operands[:2]]
        is_signed = Tensor.of(nested.q).dtype == "i8"
        return cls(tile, memory, factors, sizes[0] // sizes[1], is_signed)

    def load(self, panel_begin: Value, number: Value, count: int) -> Values:
        """Emit the loads of a block's scales or offsets, as f32 vectors of columns.

        Args:
            panel_begin: where it begins, in integers of the weight.
            number: of the block.
            count: of the vectors.
        """
        found = self._load(self.memory, self._place(panel_begin, number), count)
        if self.factors is None:
            return found
        group = arith.divui(number, index(self.together))
        at = self._place(panel_begin, group, self.together)
        factors = self._load(self.factors, at, count)
        floats = map(self._as_floats, found)
        return [*map(arith.mulf, floats, factors)]

    def fetch(self, right: Value, number: Value, count: int) -> None:
        """Emit the prefetch of scales that are read some blocks later."""
        if not self.tile.ahead:
            return
        size = self.memory.type.element_type.width // 8
        ahead = PREFETCH_BYTES // 4 // size  # blocks have fewer bytes than terms
        at = add(self._place(right, number), ahead)
        for place in range(0, count * self.tile.lanes, LINE_BYTES // size):
            vectors.prefetch(self.memory, add(at, place), STREAM_CACHE)

    def _place(self, right: Value, number: Value, together: int = 1) -> Value:
        """Emit the offset of a block's scales, or of those that scale these."""
        first = arith.divui(right, index(self.tile.group * together))
        return add(first, scale(number, self.tile.columns))

    def _load(self, memory: Value, at: Value, count: int) -> Values:
        """Emit the loads of `count` vectors of columns."""
        lanes = self.tile.lanes
        return [vectors.load(memory, add(at, n * lanes), lanes) for n in range(count)]

    def _as_floats(self, x: Value) -> Value:
        """Emit the conversion of bytes to f32."""
        lanes = self.tile.lanes
        kind = vectors.vector_type(lanes, ir.IntegerType.get_signless(32))
        wide = arith.extsi(kind, x) if self.is_signed else arith.extui(kind, x)
        return arith.sitofp(vectors.vector_type(lanes), wide)
