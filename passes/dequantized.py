"""Dequantised operands: their integers, zero point, scale, and movement."""

from __future__ import annotations

from dataclasses import dataclass, replace

from aotc.core.dtypes import INTEGERS
from aotc.dialects.builder import Builder
from aotc.dialects.functions.walking import defining_op
from aotc.dialects.lowering.conversion import integer_bounds
from aotc.dialects.ops.binary import Multiply, Subtract
from aotc.dialects.ops.contraction import BYTES
from aotc.dialects.ops.padding import Pad
from aotc.dialects.ops.selection import Cast
from aotc.dialects.ops.shape import Broadcast, Reshape, Transpose, varying_axes
from aotc.dialects.ops.windows import Windows
from aotc.dialects.patterns.values import made_by, splat_of
from aotc.dialects.types import Tensor
from aotc.mlir import Value
from aotc.passes.quantized.ranges import keeps_values, may_wrap, value_range

_Move = Transpose | Reshape | Windows | Pad


@dataclass(frozen=True)
class Dequantized:
    """A value that is `(integers - zero) * scale`, followed by data movement ops.

    Args:
        integers: of i8 or u8.
        zero: what is subtracted, of their shape; None for nothing.
        scale: of their shape; None for 1, of values that are integers, too.
        moves: what follows, in order.
    """

    integers: Value
    zero: Value | None
    scale: Value | None = None
    moves: tuple[_Move, ...] = ()

    def moved(self, value: Value, around: float | None = None) -> Value:
        """Apply the recorded movement ops to a value shaped like the integers; return
        the result.

        Args:
            value: before the steps.
            around: what padding is; by default what is subtracted.
        """
        for op in self.moves:
            attributes = type(op).attributes_of(op)
            if isinstance(op, Pad):
                attributes["value"] = float(self.offset or 0 if around is None else 0)
            value = type(op).build(value, **attributes)
        return value

    def difference(self, b: Builder, dtype: str) -> Value:
        """Emit `integers - zero` in a wider dtype, then the movement ops; return the
        result.
        """
        found, offset = b.cast(self.integers, dtype=dtype), self.offset
        if offset is not None:
            found = b.subtract(found, b.full_like(found, offset)) if offset else found
        elif self.zero is not None:
            found = b.subtract(found, b.cast(self.zero, dtype=dtype))
        return self.moved(found, around=0)

    @property
    def kind(self) -> Tensor:
        """The tensor type of the integers after the movement ops."""
        kind = Tensor.of(self.integers)
        last = self.moves[-1:]
        return Tensor.of(last[0].y).with_dtype(kind.dtype) if last else kind

    @property
    def offset(self) -> int | None:
        """The zero point, if it is one known integer; else None."""
        number = 0.0 if self.zero is None else splat_of(_unmoved(self.zero))
        return None if number is None else int(number)

    @property
    def has_own_zero(self) -> bool:
        """Return whether the zero point fits the integers' dtype, so that differences
        are below 256.
        """
        if self.zero is None or self.offset is not None:
            least, greatest = integer_bounds(self.kind.dtype)
            return least <= (self.offset or 0) <= greatest
        low, high = value_range(_unmoved(self.zero))
        least, greatest = integer_bounds(self.kind.dtype)
        return least <= low <= high <= greatest

    @property
    def is_padded(self) -> bool:
        """Return whether the movement ops contain padding."""
        return any(isinstance(op, Pad) for op in self.moves)

    @property
    def has_one_zero(self) -> bool:
        """Return whether all elements have the same zero point."""
        if self.zero is None or self.offset is not None:
            return True
        return not _varying_axes(self.zero)

    def varying_axes(self, of: Value | None) -> set[int]:
        """Return the axes, after movement, along which the scale or zero `of`
        varies.
        """
        axes = set() if of is None else _varying_axes(of)
        for op in self.moves:
            if isinstance(op, Transpose):
                axes = {at for at, axis in enumerate(op.permutation) if axis in axes}
            elif axes:
                axes = {*range(Tensor.of(op.y).rank)}
        return axes


def as_dequantized(value: Value) -> Dequantized | None:
    """Match a value as dequantised integers; None if it has no such form."""
    op = defining_op(value)
    if isinstance(op, _Move) and not (isinstance(op, Pad) and op.value):
        found = as_dequantized(op.x)
        return None if found is None else replace(found, moves=(*found.moves, op))
    if Tensor.of(value).dtype == "i16":
        integers = _integers(value)
        return None if integers is None else Dequantized(*integers)
    scaled = made_by(value, Multiply)
    if scaled is None:
        return None
    for steps, scale in (scaled.operands, reversed(list(scaled.operands))):
        cast = made_by(steps, Cast)
        if cast is not None and Tensor.of(steps).dtype == "f32":
            integers = _integers(cast.x)
            if integers is not None:
                return Dequantized(*integers, scale)
    return None


def _integers(value: Value) -> tuple[Value, Value | None] | None:
    """Match `value` as bytes less a zero point, or as plain bytes; return both parts,
    or None.
    """
    difference = made_by(value, Subtract)
    zero = None
    if difference is not None:
        if Tensor.of(value).dtype not in INTEGERS or may_wrap(difference):
            return None
        value, zero = difference.operands
    while Tensor.of(value).dtype not in BYTES:
        cast = made_by(value, Cast)
        if cast is None or Tensor.of(cast.x).dtype not in (*BYTES, "i16", "i32"):
            return None
        value = cast.x
    return value, zero


def _unmoved(value: Value) -> Value:
    """Strip reshapes, broadcasts, transposes and exact casts; return the source
    value.
    """
    op = defining_op(value)
    while isinstance(op, (Reshape, Broadcast, Transpose)) or (
        isinstance(op, Cast) and keeps_values(op)
    ):
        value = op.x
        op = defining_op(value)
    return value


def _varying_axes(value: Value) -> set[int]:
    """Return the axes of a value along which its elements may differ: none of a
    splat.
    """
    if splat_of(value) is not None:
        return set()
    repeated = made_by(value, Broadcast)
    rank = Tensor.of(value).rank
    return {*range(rank)} if repeated is None else {*varying_axes(repeated)}
