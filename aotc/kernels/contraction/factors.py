"""How the elements of both operands are multiplied, and added to the sums.

Floats are multiplied as f32, one term at a time. What a processor multiplies in pairs
lies so in memory: an instruction adds the products of two terms to each sum, which are
beside each other in a packed operand, [panel][depth / 2][column][2].
"""

from __future__ import annotations

from dataclasses import dataclass

from aotc import dtypes
from aotc.dialects.types import lowered_element
from aotc.kernels import vectors
from aotc.kernels.geometry import Geometry
from aotc.kernels.machine import factor_of
from aotc.kernels.tile import Tile
from aotc.mlir import Type, Value, arith, ir

# by dtype and lanes of the sums: LLVM's name of the instruction
_INTRINSICS = {
    ("bf16", 16): "llvm.x86.avx512bf16.dpbf16ps.512",
    ("i16", 16): "llvm.x86.avx512.pmaddw.d.512",
    ("i16", 8): "llvm.x86.avx2.pmadd.wd",
}


@dataclass(frozen=True)
class Factors:
    """Reads operands and multiplies them, at the insertion point.

    Args:
        source: dtype of the operands.
        lanes: of a vector of sums.
        terms: that are multiplied at a time, 1 or 2.
    """

    source: str
    lanes: int
    terms: int

    @classmethod
    def of(cls, geometry: Geometry, tile: Tile) -> Factors:
        """Those of a kernel."""
        return cls(geometry.dtype, tile.lanes, tile.terms)

    @property
    def element(self) -> Type:
        """The type that elements are multiplied in."""
        return lowered_element("f32" if self.terms == 1 else factor_of(self.source))

    @property
    def zero(self) -> Value:
        """A vector of sums before anything is added."""
        is_integer = not dtypes.is_float(self.source)
        element = ir.IntegerType.get_signless(32) if is_integer else ir.F32Type.get()
        return vectors.zeros(self.lanes, element)

    def load(self, memory: Value, at: Value, count: int) -> Value:
        """Elements beside each other, in the type that they are multiplied in."""
        if self.terms == 1:
            return vectors.load(memory, at, count)
        x = vectors.load_as_is(memory, at, count)
        if self.source not in ("i8", "u8"):
            return x
        extend = arith.extui if self.source == "u8" else arith.extsi
        return extend(vectors.vector_type(count, self.element), x)

    def columns(self, memory: Value, at: Value, count: int) -> Value:
        """A vector of a panel, of which `count` columns are there."""
        if self.terms == 1:
            return vectors.load(memory, at, self.lanes, count)
        return self.load(memory, at, self.terms * self.lanes)

    def repeat(self, memory: Value, at: Value) -> Value:
        """What a row has for some terms, in all lanes."""
        if self.terms == 1:
            return vectors.repeat(vectors.load_element(memory, at), self.lanes)
        return vectors.repeat_pair(memory, at, self.lanes)

    def multiply_add(self, x: Value, y: Value, total: Value) -> Value:
        """`total` and the products of `x` and `y`."""
        if self.terms == 1:
            return vectors.multiply_add(x, y, total)
        name = _INTRINSICS[factor_of(self.source), self.lanes]
        if self.source == "bf16":
            return vectors.call_intrinsic(name, [total, x, y], total.type)
        products = vectors.call_intrinsic(name, [x, y], total.type)
        return arith.addi(products, total)
