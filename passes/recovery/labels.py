"""Values in an expression, with a label for each axis: that of the whole it runs along.

`SplatValues` reads them as products of factors and sums of terms.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from aotc.dialects.ops.binary import Add, Binary, Divide, Multiply, Power, Subtract
from aotc.dialects.ops.reduction import Reduction
from aotc.dialects.ops.shape import Broadcast, Reshape
from aotc.dialects.ops.unary import Negate, Unary
from aotc.dialects.patterns.values import made_by, splat_of
from aotc.dialects.types import Tensor
from aotc.mlir import Value, ir

Labels = tuple[int | None, ...]


@dataclass(frozen=True)
class LabelledValue:
    """A value in a matched expression; labels map its axes to those of the expression.

    Args:
        value: what is read.
        labels: for each of its axes, the axis of the whole expression that it runs
            along; ~i for axis i of what is reduced along it; None for one of size 1.
        is_inverse: whether the expression is divided by it.
        inside: the values between the whole expression and this one.
    """

    value: Value
    labels: Labels
    is_inverse: bool = False
    inside: tuple[Value, ...] = ()

    @staticmethod
    def of_root(value: Value) -> LabelledValue:
        """Return the expression's result, each axis labelled by its own number."""
        return LabelledValue(value, tuple(range(Tensor.of(value).rank)))

    def below(self, value: Value, labels: Labels | None = None) -> LabelledValue:
        """Return an operand of this value's op as a labelled value."""
        inside = (*self.inside, self.value)
        own = self.labels if labels is None else labels
        return LabelledValue(value, own, self.is_inverse, inside)

    @property
    def op(self) -> Any:
        """The op that computes the value, as its op class; None for an argument."""
        owner = self.value.owner
        return None if isinstance(owner, ir.Block) else owner.opview

    @property
    def op_name(self) -> str:
        """The op's name without the `graph.` prefix; empty for an argument."""
        op = self.op
        return "" if op is None else op.operation.name.removeprefix("graph.")

    def is_aligned(self) -> bool:
        """Return whether each axis is, in place, an axis of the whole expression or of
        size 1.
        """
        return all(
            size == 1 or label in (axis, ~axis)
            for axis, (size, label) in enumerate(
                zip(Tensor.of(self.value).shape, self.labels, strict=True)
            )
        )

    def without_repeats(self) -> LabelledValue | None:
        """Return the operand of a broadcast or expanding reshape, relabelled; else
        None.
        """
        op: Any = _repetition(self.value)
        if op is None:
            return None
        kept = type(op).kept_axes(op, 0)
        sizes = enumerate(Tensor.of(op.x).shape)
        labels = (None if n == 1 else self.labels[kept[axis]] for axis, n in sizes)
        return self.below(op.x, tuple(labels))

    def operands(self) -> list[LabelledValue]:
        """Return the labelled operands of an elementwise op or reduction; [] of another
        op.
        """
        op = self.op
        if isinstance(op, (Unary, Binary)):
            return [self.below(value) for value in op.operands]
        if isinstance(op, Reduction):
            kept = iter(self.labels)
            rank = Tensor.of(op.x).rank
            labels = [~i if i in op.axes else next(kept) for i in range(rank)]
            return [self.below(op.x, tuple(labels))]
        return []


def _repetition(value: Value) -> Any:
    """Return the broadcast or expanding reshape that makes a value; else None."""
    op: Any = made_by(value, Broadcast) or made_by(value, Reshape)
    return op if op is not None and type(op).is_merged(op) else None


@dataclass
class SplatValues:
    """Finds numbers that values repeat; decomposes values into factors and terms.

    Args:
        weights: the numbers of weights with one element.
    """

    weights: Mapping[Value, float]

    def find(self, value: Value) -> float | None:
        """Return the number in every element of a value; None if it is not known."""
        while (op := made_by(value, Broadcast) or made_by(value, Reshape)) is not None:
            value = op.x
        if value in self.weights:
            return self.weights[value]
        return splat_of(value)

    def head(self, value: Value) -> str:
        """Return the op name behind a value's broadcasts, without `graph.`; "" for an
        argument.
        """
        while (op := _repetition(value)) is not None:
            value = op.x
        owner = value.owner
        if isinstance(owner, ir.Block):
            return ""
        return str(owner.name).removeprefix("graph.")

    def factors(
        self, read: LabelledValue, count: int
    ) -> Iterator[tuple[float, tuple[LabelledValue, ...]]]:
        """Yield decompositions of a value into a number times exactly `count`
        values.
        """
        number = self.find(read.value)
        if number is not None:
            if count == 0 and not (read.is_inverse and number == 0):
                yield (1 / number if read.is_inverse else number), ()
            return
        if count == 0:
            return
        if count == 1:
            yield 1.0, (read,)
        if (inner := read.without_repeats()) is not None:
            yield from self.factors(inner, count)
        elif not read.is_inverse:
            yield from self._factors_of_op(read, count)

    def _factors_of_op(
        self, labelled: LabelledValue, count: int
    ) -> Iterator[tuple[float, tuple[LabelledValue, ...]]]:
        """Yield decompositions of the op that makes a value: a number times `count`
        values.
        """
        op, operands = labelled.op, labelled.operands()
        if isinstance(op, Negate):
            for number, found in self.factors(operands[0], count):
                yield -number, found
        elif isinstance(op, Power) and self.find(operands[1].value) == count in (2, 3):
            yield 1.0, (operands[0],) * count
        elif isinstance(op, Multiply | Divide):
            one, other = operands
            other = replace(other, is_inverse=isinstance(op, Divide))
            for left in self._shares(one, other, count):
                for first, some in self.factors(one, left):
                    for second, more in self.factors(other, count - left):
                        yield first * second, (*some, *more)

    def _shares(
        self, one: LabelledValue, other: LabelledValue, count: int
    ) -> Iterator[int]:
        """Yield how many of `count` values to look for in the first of two operands.

        None or all only beside a number: who looked for that last would follow a long
        chain of sums to its end first.
        """
        for left in range(count + 1):
            alone = {0: one, count: other}.get(left)
            if alone is None or self.find(alone.value) is not None:
                yield left

    def terms(
        self, read: LabelledValue, count: int, sign: int = 1
    ) -> Iterator[tuple[float, tuple[tuple[int, LabelledValue], ...]]]:
        """Yield decompositions of `sign` times a value into a number plus `count`
        signed values.
        """
        number = self.find(read.value)
        if number is not None:
            if count == 0:
                yield sign * number, ()
            return
        if count == 0:
            return
        if count == 1:
            yield 0.0, ((sign, read),)
        if (inner := read.without_repeats()) is not None:
            yield from self.terms(inner, count, sign)
            return
        yield from self._terms_of_op(read, count, sign)

    def _terms_of_op(
        self, labelled: LabelledValue, count: int, sign: int
    ) -> Iterator[tuple[float, tuple[tuple[int, LabelledValue], ...]]]:
        """Yield decompositions of the op that makes a value: a number plus `count`
        values.
        """
        op, operands = labelled.op, labelled.operands()
        if isinstance(op, Negate):
            yield from self.terms(operands[0], count, -sign)
        elif isinstance(op, Add | Subtract):
            one, other = operands
            other_sign = sign if isinstance(op, Add) else -sign
            for left in self._shares(one, other, count):
                for first, some in self.terms(one, left, sign):
                    for second, more in self.terms(other, count - left, other_sign):
                        yield first + second, (*some, *more)


class RememberedSplats(SplatValues):
    """`SplatValues` with memoization, for a graph that does not change meanwhile.

    Patterns are matched with an op one after the other, and read the same values. The
    graph must not change meanwhile.
    """

    def __init__(self, weights: Mapping[Value, float]) -> None:
        super().__init__(weights)
        self._numbers: dict[Value, float | None] = {}
        self._heads: dict[Value, str] = {}
        self._factors: dict[Any, Any] = {}
        self._terms: dict[Any, Any] = {}

    def find(self, value: Value) -> float | None:
        """Return the number in every element of a value, memoized; None if it is not
        known.
        """
        if value not in self._numbers:
            self._numbers[value] = super().find(value)
        return self._numbers[value]

    def head(self, value: Value) -> str:
        """Return the op name behind a value's broadcasts, memoized; "" for an
        argument.
        """
        if value not in self._heads:
            self._heads[value] = super().head(value)
        return self._heads[value]

    def factors(
        self, read: LabelledValue, count: int
    ) -> Iterator[tuple[float, tuple[LabelledValue, ...]]]:
        """Yield decompositions into a number times exactly `count` values, memoized."""
        key = read, count
        if key not in self._factors:
            self._factors[key] = [*super().factors(read, count)]
        return iter(self._factors[key])

    def terms(
        self, read: LabelledValue, count: int, sign: int = 1
    ) -> Iterator[tuple[float, tuple[tuple[int, LabelledValue], ...]]]:
        """Yield decompositions into a number plus `count` signed values, memoized."""
        key = read, count, sign
        if key not in self._terms:
            self._terms[key] = [*super().terms(read, count, sign)]
        return iter(self._terms[key])
