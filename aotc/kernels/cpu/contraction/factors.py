"""How the elements of both operands are multiplied, and added to the sums.

Floats are multiplied as f32, one term at a time. Where an instruction of the processor
adds the products of several terms to each sum (`machine.Mma`), these are beside each
other in memory: in a packed operand, [panel][depth / terms][column][terms].
"""

from __future__ import annotations

from dataclasses import dataclass

from aotc.dialects.lowering.scalars import constant
from aotc.dialects.types import lowered_element
from aotc.dtypes import UNSIGNED, bits
from aotc.kernels.cpu import vectors
from aotc.kernels.geometry import Geometry
from aotc.kernels.machine import Mma, multiplier_of
from aotc.kernels.planning.tile import Tile
from aotc.mlir import Type, Value, arith


@dataclass(frozen=True)
class Factors:
    """Reads operands and multiplies them, at the insertion point.

    Args:
        sources: dtypes of the left operand and of the right one.
        lanes: of a vector of sums.
        mma: what multiplies them.
    """

    sources: tuple[str, str]
    lanes: int
    mma: Mma

    @classmethod
    def of(cls, geometry: Geometry, tile: Tile) -> Factors:
        """Those of a kernel."""
        sources = geometry.dtype, geometry.right_dtype
        return cls(sources, tile.lanes, multiplier_of(*sources, tile.lanes, tile.terms))

    @property
    def terms(self) -> int:
        """How many neighbouring terms of a sum one instruction multiplies."""
        return self.mma.terms

    @property
    def lanes_of_factor(self) -> int:
        """How many elements that are multiplied a vector holds."""
        return 32 * self.lanes // bits(self.mma.factor)

    @property
    def element(self) -> Type:
        """The type that elements are multiplied in."""
        return lowered_element(self.mma.factor)

    @property
    def zero(self) -> Value:
        """A vector of sums before anything is added."""
        kind = vectors.vector_type(self.lanes, lowered_element(self.mma.sums))
        return constant(kind, 0)

    @property
    def _is_f32(self) -> bool:
        """Whether vectors are loaded as f32, whatever memory holds."""
        return self.mma.factor == "f32"

    def rows(self, memory: Value, at: Value, count: int) -> Value:
        """Return elements of the left operand beside each other, to be multiplied."""
        if self._is_f32:
            return vectors.load(memory, at, count)
        x = self._extend(vectors.load_as_is(memory, at, count), count, self.sources[0])
        # with the offset the instruction takes bytes as unsigned ones
        return arith.addi(x, self.offsets(count)) if self.mma.offset else x

    def offsets(self, count: int) -> Value:
        """Return a vector that has the offset of rows in so many lanes."""
        signed = self.mma.offset - (1 << bits(self.mma.factor))
        return constant(vectors.vector_type(count, self.element), signed)

    def columns(self, memory: Value, at: Value, count: int) -> Value:
        """A vector of a panel, of which `count` columns are there."""
        if self._is_f32:
            return vectors.load(memory, at, self.lanes, count)
        lanes = self.terms * self.lanes
        x = vectors.load_as_is(memory, at, lanes)
        return self._extend(x, lanes, self.sources[1])

    def repeat(self, memory: Value, at: Value) -> Value:
        """What a row has for some terms, in all lanes; those of several are widened."""
        if self.terms > 1:
            return vectors.repeat_run(memory, at, self.terms, self.lanes)
        x = vectors.repeat(vectors.load_element(memory, at), self.lanes)
        return x if self._is_f32 else self._extend(x, self.lanes, self.sources[0])

    def multiply_add(self, x: Value, y: Value, total: Value) -> Value:
        """`total` and the products of `x` and `y`."""
        name = self.mma.intrinsic
        if not name:
            return vectors.multiply_add(x, y, total)
        if self.mma.adds:
            return vectors.call_intrinsic(name, [total, x, y], total.type)
        products = vectors.call_intrinsic(name, [x, y], total.type)
        return arith.addi(products, total)

    def _extend(self, x: Value, count: int, source: str) -> Value:
        """Integers in the type that they are multiplied in."""
        kind = vectors.vector_type(count, self.element)
        if x.type == kind:
            return x
        extend = arith.extui if source in UNSIGNED else arith.extsi
        return extend(kind, x)
