"""`pad` rules: an op on tensors of a bucket's sizes, of which a call fills a part.

    pad(p, op, operands) -> its results in the sizes of the bucket, or None

Every tensor of a call lies in the first elements, along each axis, of a padded one.
What comes after them is arbitrary, NaN perhaps. A rule writes the op for such operands
so that this is true of its results. What the sizes of the call are, the symbols of the
function still say. None says that the rule has no such form for this use of the op: it
is computed on operands cut to the sizes of the call then, and its results are padded.

Most ops need no more than `HARMLESS` (elements do not meet), `harmless_but_along` (they
meet along some axes, which must not be padded) or `hiding` (what comes after is
replaced by a value that changes nothing, such as 0 in a sum).
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from aotc.dialects.attributes import Sizes
from aotc.dialects.builder import Builder
from aotc.dialects.graph import GraphOp
from aotc.dialects.sizes.affine import constant, substitute
from aotc.dialects.sizes.contracts import Contract
from aotc.dialects.sizes.symbols import known_contracts
from aotc.dialects.types import (
    Shape,
    Size,
    Tensor,
    bounds,
    shape_map,
    shape_of_map,
    size_of,
    symbols_of,
)
from aotc.mlir import AffineExpr, Value, ir

AxesOf = Callable[[Any], Sequence[int]]  # of an op: axes of its first operand
PadRule = Callable[["BucketPadding", Any, Sequence[Value]], Any]


class BucketPadding:
    """Padding of tensors from a call's sizes to those of a bucket, for `pad` rules.

    Args:
        symbols: of the function, whose sizes are those of the call.
        sizes: of the bucket, by the names of the symbols that are padded.
    """

    def __init__(self, symbols: Sequence[Contract], sizes: Mapping[str, int]) -> None:
        self.b = Builder()
        self.symbols = tuple(symbols)
        self._padded = {
            number for number, each in enumerate(symbols) if each.name in sizes
        }
        self._terms = [
            constant(sizes[each.name] // each.multiple_of)
            if each.name in sizes
            else ir.AffineSymbolExpr.get(number)
            for number, each in enumerate(symbols)
        ]

    def known(self) -> AbstractContextManager[None]:
        """Return a context manager in which the call's contracts are known."""
        return known_contracts(self.symbols)

    def is_padded(self, size: Size) -> bool:
        """Return whether a size of the call may be less than the bucket's."""
        return not self._padded.isdisjoint(symbols_of(size))

    def axes(self, kind: Tensor, axes: Sequence[int] | None = None) -> tuple[int, ...]:
        """Return those of `axes`, by default of all, that are padded."""
        chosen = range(kind.rank) if axes is None else axes
        return tuple(axis for axis in chosen if self.is_padded(kind.shape[axis]))

    def shape(self, exact: Sequence[Size]) -> Shape:
        """Return the bucket's sizes for a shape of the call."""
        sizes: list[AffineExpr] = [
            substitute(expr, self._terms) for expr in shape_map(tuple(exact)).results
        ]
        return shape_of_map(shape_map(tuple(map(size_of, sizes))))

    def has_room(self, exact: Tensor) -> bool:
        """Return whether a tensor of any call provably fits into the bucket's sizes."""
        pairs = zip(exact.shape, self.shape(exact.shape), strict=True)
        return all(bounds(padded - size)[0] >= 0 for size, padded in pairs)

    def type(self, exact: Tensor) -> Tensor:
        """Return a type with the bucket's sizes; the call's own if it may be larger."""
        has_room = self.has_room(exact)
        return exact.with_shape(self.shape(exact.shape)) if has_room else exact

    def pad(self, x: Value) -> Value:
        """Emit a tensor of the call padded with zeros to the bucket's sizes."""
        return self.b.pad_to(x, self.shape(Tensor.of(x).shape))

    def cut(self, x: Value, exact: Tensor) -> Value:
        """Emit the slice of a padded tensor that holds the call's elements."""
        return self.b.cut_to(x, exact.shape)

    def hide(self, x: Value, exact: Tensor, axes: Sequence[int], value: float) -> Value:
        """Emit a padded tensor with `value` in the place of padding along `axes`.

        Args:
            x: the padded tensor.
            exact: its type in the call.
            axes: to look at; those that are not padded have nothing to hide.
            value: of its dtype.
        """
        inside = self.inside(exact, axes)
        return (
            x
            if inside is None
            else self.b.select(inside, x, self.b.full_like(x, value))
        )

    def inside(self, exact: Tensor, axes: Sequence[int]) -> Value | None:
        """Emit a mask of the call's elements along `axes`; return None if all are."""
        b, shape, found = self.b, self.shape(exact.shape), None
        for axis in self.axes(exact, axes):
            dtype = "i32" if bounds(shape[axis])[1] < 2**31 else "i64"
            line = Tensor((shape[axis],), dtype)
            end = b.number(line, exact.shape[axis])
            positions = b.iota(shape=line.shape, axis=0, dtype=dtype)
            mask = b.compare(positions, end, direction="lt")
            mask = b.broadcast(mask, shape=shape, axes=(axis,))
            found = mask if found is None else b.bitwise_and(found, mask)
        return found

    def build(self, op: GraphOp, operands: Sequence[Value], **changed: Any) -> Any:
        """Emit the op on padded operands, with the bucket's sizes as attributes.

        Args:
            op: in the sizes of the call.
            operands: for it.
            changed: attributes that are others.
        """
        sizes = (name for name, codec in op.codecs.items() if codec is Sizes)
        padded = {name: self.shape(getattr(op, name)) for name in sizes}
        return op.rebuild(*operands, **(padded | changed))


def _build_padded(p: BucketPadding, op: GraphOp, operands: Sequence[Value]) -> Any:
    """Emit the op on padded operands, as its elements are independent."""
    return p.build(op, operands)


HARMLESS = staticmethod(_build_padded)


def harmless_but_along(axes: AxesOf) -> Any:
    """Return the `pad` rule of an op whose elements meet along `axes` only.

    Args:
        axes: which ones, for an op.
    """

    def pad(p: BucketPadding, op: Any, operands: Sequence[Value]) -> Any:
        """Emit the op; return None if one of its axes is padded."""
        if p.axes(Tensor.of(op.operands[0]), axes(op)):
            return None
        return p.build(op, operands)

    return staticmethod(pad)


def hiding(value: Callable[[str], float], axes: AxesOf) -> Any:
    """Return the `pad` rule of an op that padding by a neutral value does not change.

    Args:
        value: for a dtype.
        axes: of the only operand, along which it is put after the call's elements.
    """

    def pad(p: BucketPadding, op: Any, operands: Sequence[Value]) -> Any:
        """Emit the op with padding replaced by the value."""
        (x,) = operands
        exact = Tensor.of(op.operands[0])
        return p.build(op, [p.hide(x, exact, axes(op), value(exact.dtype))])

    return staticmethod(pad)


def along_axes(op: Any) -> Sequence[int]:
    """Return the attribute `axes` of an op."""
    axes: Sequence[int] = op.axes
    return axes


def along_axis(op: Any) -> Sequence[int]:
    """Return the attribute `axis` of an op, as a tuple."""
    return (op.axis,)
