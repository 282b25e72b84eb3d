"""How the elements of both operands are multiplied, and added to the sums.

Floats are multiplied as f32, one term at a time. Where an instruction of the processor
adds the products of several terms to each sum (`machine.Mma`), these are beside each
other in memory: in a packed operand, [panel][depth / terms][column][terms].
"""

from __future__ import annotations

from dataclasses import dataclass

from aotc.dialects.lowering.scalars import constant
from aotc.dialects.types import lowered_element
from aotc.kernels.cpu import vectors
from aotc.kernels.geometry import Geometry
from aotc.kernels.machine import Mma, multiplier_of
from aotc.kernels.planning.tile import Tile
from aotc.mlir import Type, Value, arith


@dataclass(frozen=True)
class Factors:
    """Reads operands and multiplies them, at the insertion point.

    Args:
        source: dtype of the operands.
        lanes: of a vector of sums.
        mma: what multiplies them.
    """

    source: str
    lanes: int
    mma: Mma

    @classmethod
    def of(cls, geometry: Geometry, tile: Tile) -> Factors:
        """Those of a kernel."""
        mma = multiplier_of(geometry.dtype, tile.lanes, tile.terms)
        return cls(geometry.dtype, tile.lanes, mma)

    @property
    def terms(self) -> int:
        """How many neighbouring terms of a sum one instruction multiplies."""
        return self.mma.terms

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

    def load(self, memory: Value, at: Value, count: int) -> Value:
        """Elements beside each other, in the type that they are multiplied in."""
        if self._is_f32:
            return vectors.load(memory, at, count)
        return self._extend(vectors.load_as_is(memory, at, count), count)

    def columns(self, memory: Value, at: Value, count: int) -> Value:
        """A vector of a panel, of which `count` columns are there."""
        if self._is_f32:
            return vectors.load(memory, at, self.lanes, count)
        return self.load(memory, at, self.terms * self.lanes)

    def repeat(self, memory: Value, at: Value) -> Value:
        """What a row has for some terms, in all lanes."""
        if self.terms > 1:
            return vectors.repeat_run(memory, at, self.terms, self.lanes)
        x = vectors.repeat(vectors.load_element(memory, at), self.lanes)
        return x if self._is_f32 else self._extend(x, self.lanes)

    def multiply_add(self, x: Value, y: Value, total: Value) -> Value:
        """`total` and the products of `x` and `y`."""
        name = self.mma.intrinsic
        if not name:
            return vectors.multiply_add(x, y, total)
        if self.mma.adds:
            return vectors.call_intrinsic(name, [total, x, y], total.type)
        products = vectors.call_intrinsic(name, [x, y], total.type)
        return arith.addi(products, total)

    def _extend(self, x: Value, count: int) -> Value:
        """Integers in the type that they are multiplied in."""
        kind = vectors.vector_type(count, self.element)
        if x.type == kind:
            return x
        extend = arith.extui if self.source == "u8" else arith.extsi
        return extend(kind, x)
