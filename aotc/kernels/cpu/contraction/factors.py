"""Multiplication of both operands' elements, and addition to the sums.

Floats are multiplied as f32, one term at a time. Where an instruction of the processor
adds the products of several terms to each sum (`machine.Mma`), these are beside each
other in memory: in a packed operand, [panel][depth / terms][column][terms].
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from aotc.core.dtypes import UNSIGNED, bits
from aotc.dialects.lowering.scalars import constant
from aotc.dialects.types import lowered_element
from aotc.kernels.cpu import vectors
from aotc.kernels.geometry import ConvolutionGeometry
from aotc.kernels.machine import FMA, Machine, Mma
from aotc.kernels.planning.tile import ContractionTile, multiplier
from aotc.mlir import Type, Value, arith, ir


@dataclass(frozen=True)
class Factors:
    """An emitter of loads of both operands, and of multiply-adds, for one dtype pair.

    Args:
        sources: dtypes of the left operand and of the right one.
        lanes: of a vector of sums.
        mma: what multiplies them.
    """

    sources: tuple[str, str]
    lanes: int
    mma: Mma

    @classmethod
    def of(
        cls,
        geometry: ConvolutionGeometry,
        tile: ContractionTile,
        machine: Machine | None,
    ) -> Factors:
        """Return a kernel's loads and multiply-adds, in f32 for an unknown machine."""
        mma = FMA if machine is None else multiplier(geometry, machine, tile.terms)
        return cls((geometry.dtype, geometry.right_dtype), tile.lanes, mma)

    @property
    def terms(self) -> int:
        """The number of neighbouring terms that one instruction adds to each sum."""
        return self.mma.terms

    @property
    def lanes_of_factor(self) -> int:
        """The number of elements in a vector, of the dtype multiplied in."""
        return 32 * self.lanes // bits(self.mma.factor)

    @property
    def element(self) -> Type:
        """The element type that both operands are multiplied in."""
        return lowered_element(self.mma.factor)

    @property
    def zero(self) -> Value:
        """A vector of zero sums."""
        kind = vectors.vector_type(self.lanes, lowered_element(self.mma.sums))
        return constant(kind, 0)

    @property
    def _is_f32(self) -> bool:
        """Return whether operands are multiplied as f32, whatever memory holds."""
        return self.mma.factor == "f32"

    def rows(self, memory: Value, at: Value, count: int) -> Value:
        """Emit the load of contiguous left elements, in the dtype multiplied in."""
        if self._is_f32:
            return vectors.load(memory, at, count)
        x = self._extend(vectors.load_as_is(memory, at, count), count, self.sources[0])
        # with the offset the instruction takes bytes as unsigned ones
        return arith.addi(x, self.offsets(count)) if self.mma.offset else x

    def offsets(self, count: int) -> Value:
        """Emit a constant vector of the offset added to left elements."""
        size = bits(self.mma.factor)
        number = self.mma.offset
        if number >> (size - 1) > 0:  # as it is written of a type without a sign
            number -= 1 << size
        return constant(vectors.vector_type(count, self.element), number)

    def columns(self, memory: Value, at: Value, count: int) -> Value:
        """Emit the load of a vector of panel columns, in the dtype multiplied in."""
        if self._is_f32:
            return vectors.load(memory, at, self.lanes, count)
        lanes = self.run_lanes
        x = vectors.load_as_is(memory, at, lanes)
        return self._extend(x, lanes, self.sources[1])

    def columns_of(self, memory: Value, places: Sequence[Value], count: int) -> Value:
        """Emit the load of unpacked columns, the terms of each interleaved.

        Args:
            memory: that holds them.
            places: of the columns of each term that is multiplied at a time.
            count: of the columns that are there.
        """
        if self.terms == 1:
            (at,) = places
            return self.columns(memory, at, count)
        found = [vectors.load_as_is(memory, at, self.lanes, count) for at in places]
        return vectors.interleave(found)

    @property
    def run_lanes(self) -> int:
        """The number of elements of either operand that an instruction multiplies."""
        return self.terms * self.lanes // self.mma.rows

    def repeat(self, memory: Value, places: Sequence[Value]) -> Value:
        """Emit the load of some rows' terms, repeated for all columns of a vector.

        Args:
            memory: that holds them; those of several terms are widened.
            places: where those of each row are.
        """
        if self.terms > 1:
            times = self.lanes // self.mma.rows // len(places)
            runs = [vectors.repeat_run(memory, at, self.terms, times) for at in places]
            return vectors.concatenate(runs)
        (at,) = places
        x = vectors.repeat(vectors.load_element(memory, at), self.lanes)
        return x if self._is_f32 else self._extend(x, self.lanes, self.sources[0])

    def multiply_add(self, x: Value, y: Value, total: Value) -> Value:
        """Emit `total` plus the products of `x` and `y`."""
        name = self.mma.intrinsic
        if not name and self._is_f32:
            return vectors.multiply_add(x, y, total)
        if self.mma.adds and name:
            return vectors.call_intrinsic(name, [total, x, y], total.type)
        return arith.addi(self._products(x, y, total.type), total)

    def _products(self, x: Value, y: Value, kind: Type) -> Value:
        """Emit products of integers, neighbours added, in the type of sums."""
        name, pairs = self.mma.intrinsic, self.mma.pairs
        if not name:
            return arith.muli(arith.extsi(kind, x), arith.extsi(kind, y))
        if not pairs:
            return vectors.call_intrinsic(name, [x, y], kind)
        half = ir.IntegerType.get_signless(bits(self.mma.sums) // 2)
        narrow = vectors.vector_type(2 * self.lanes, half)
        found = [vectors.call_intrinsic(name, [x, y], narrow)]
        if self.mma.ones:
            found.append(constant(narrow, 1))
        return vectors.call_intrinsic(pairs, found, kind)

    def _extend(self, x: Value, count: int, source: str) -> Value:
        """Emit the extension of integers to the dtype multiplied in."""
        kind = vectors.vector_type(count, self.element)
        if x.type == kind:
            return x
        extend = arith.extui if source in UNSIGNED else arith.extsi
        return extend(kind, x)
