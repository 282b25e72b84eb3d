"""Write rotations of pairs of features as IREE computes them at once.

    %r = graph.concatenate(graph.negate(%x1), %x0)        %x0, %x1: the halves of %x
    %y = graph.add(graph.multiply(%x, %c), graph.multiply(%r, %s))
    →
    %p = graph.reshape(%x) {shape = (…, 2, half)}
    %y = graph.add(graph.multiply(%p[…, 0:1, :], %a), graph.multiply(%p[…, 1:2, :], %b))

So are rotary position embeddings written (Su et al., "RoFormer", 2021), or each half by
itself: `concatenate(x0 c - x1 s, x1 c + x0 s)`. What is concatenated is computed by a
dispatch for each part and one that copies it. The tables %a and %b hold, for both
halves of the results, what the first and the second half of %x are multiplied by. They
are computed once if they are of weights, and are smaller than %x else.

Sums and products are the same. Features that are paired with their neighbours stay as
they are: IREE's code for vectors of two is slower than that for the parts.

Requires: transposes are where they stay (sink-transposes), which move past none of
these reshapes. Ensures: nothing is computed that was not before, but for the tables.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass, replace
from math import prod

from aotc.core import dtypes
from aotc.dialects.builder import Builder
from aotc.dialects.functions.functions import before, functions_of
from aotc.dialects.functions.fusion import unfused_functions
from aotc.dialects.functions.walking import defining_op, in_order, users_of
from aotc.dialects.ops.binary import Add, Multiply, Subtract
from aotc.dialects.ops.shape import Broadcast, varying_axes
from aotc.dialects.ops.slicing import Concatenate, Slice
from aotc.dialects.ops.unary import Negate
from aotc.dialects.patterns.values import made_by
from aotc.dialects.sizes.symbols import contracts_of, known_contracts
from aotc.dialects.types import Size, Tensor, bounds, element_count
from aotc.dialects.weight_values import weight_values
from aotc.mlir import Function, Operation, Value
from aotc.passes.base import Pass, Unit
from aotc.passes.properties import CALLS_INLINED

_TERMS = 2  # of each half of a result
_FEWEST = 4  # elements beside each other in a half: fewer make no vector
_REPEATS = 2  # a table that a call computes is repeated so often, at least


class RotatePairs(Pass):
    """Rewrite rotary embeddings of every function as two products and one sum."""

    name = "rotate-pairs"
    level = 2
    keeps_graph = True
    requires = (CALLS_INLINED,)

    def run(self, unit: Unit) -> bool:
        """Rewrite the unit's module in place; return whether anything changed."""
        changed = False
        for function in unfused_functions(functions_of(unit.module)):
            with known_contracts(contracts_of(function)):
                changed |= _rewrite(function)
        return changed


def _rewrite(function: Function) -> bool:
    """Rewrite the rotations in a function; return whether there were any."""
    weights = weight_values(function)
    changed = False
    for op in [*function.entry_block.operations]:
        found = _rotation_of(op, weights)
        if found is None or not found.is_worth_it(weights):
            continue
        with before(op):
            value = found.write(Builder())
        op.results[0].replace_all_uses_with(value)
        weights -= {*op.results, *found.inside}  # new values may have their addresses
        op.operation.erase()
        for each in reversed(in_order([value.owner for value in found.inside])):
            each.operation.erase()
        changed = True
    return changed


# ---- what a rotation is --------------------------------------------------------------


@dataclass(frozen=True)
class _AxisSlice:
    """A slice of a value along one axis, from `start`."""

    source: Value
    start: Size


@dataclass(frozen=True)
class _RotationFactor:
    """The table by which a half of the value is multiplied, with a sign.

    Args:
        table: of the size of a half along the axis, or of both, or of size 1.
        start: of the half of a table of both.
        sign: 1 or -1, to be multiplied by as well.
    """

    table: Value
    start: Size
    sign: int


@dataclass(frozen=True)
class _Rotation:
    """A matched rotation: each half of the result sums the value's halves times tables.

    Args:
        kind: of the result.
        axis: along which there are two halves.
        whole: the part of a value that has both.
        factors: for each half of the result, of the first half and of the second.
        inside: the values between, that nothing else reads.
    """

    kind: Tensor
    axis: int
    whole: _AxisSlice
    factors: Sequence[Sequence[_RotationFactor]]
    inside: Sequence[Value]

    def is_worth_it(self, weights: Container[Value]) -> bool:
        """Return whether the tables cost less than the rotation saves."""
        tables = [each.table for row in self.factors for each in row]
        if all(table in weights for table in tables):
            return True
        sizes = [
            bounds(size)[0]
            for axis, size in enumerate(self.kind.shape)
            if axis != self.axis and all(_is_repeated(x, axis) for x in tables)
        ]
        return prod(sizes) >= _REPEATS

    def write(self, b: Builder) -> Value:
        """Emit the rewritten rotation; return its result."""
        axis, shape = self.axis, self.kind.shape
        wide = (*shape[:axis], 2, _half(self.kind, axis), *shape[axis + 1 :])
        whole = b.part(self.whole.source, axis, self.whole.start, shape[axis])
        pairs = b.reshape(whole, shape=wide)
        products = []
        for number in (0, 1):
            table = self._table(b, [row[number] for row in self.factors])
            given = b.part(pairs, axis, number, 1), table
            axes = tuple(range(len(wide)))
            products.append(
                b.multiply(*[b.broadcast(x, shape=wide, axes=axes) for x in given])
            )
        return b.reshape(b.add(*products), shape=shape)

    def _table(self, b: Builder, factors: Sequence[_RotationFactor]) -> Value:
        """Emit the factors of one half of the value, stacked for both halves of the
        result.
        """
        parts = [self._narrow_table(b, each) for each in factors]
        shapes = [Tensor.of(part).shape for part in parts]
        common = tuple(n if m == 1 else m for n, m in zip(*shapes, strict=True))
        axis, axes = self.axis, tuple(range(len(common)))
        rows = [
            b.reshape(
                b.broadcast(part, shape=common, axes=axes),
                shape=(*common[:axis], 1, *common[axis:]),
            )
            for part in parts
        ]
        return b.concatenate(*rows, axis=axis)

    def _narrow_table(self, b: Builder, factor: _RotationFactor) -> Value:
        """Emit the half of a table that a factor uses, without broadcast axes."""
        table, half = factor.table, _half(self.kind, self.axis)
        op = made_by(table, Broadcast)
        if op is not None:
            varying = varying_axes(op)
            sizes = (n if a in varying else 1 for a, n in enumerate(op.shape))
            table = b.reshape(op.x, shape=tuple(sizes))
        if Tensor.of(table).shape[self.axis] == 2 * half:
            table = b.part(table, self.axis, factor.start, half)
        return table if factor.sign == 1 else b.negate(table)


def _half(kind: Tensor, axis: int) -> int:
    """Return half the static size of an axis."""
    size = kind.shape[axis]
    assert isinstance(size, int)
    return size // 2


def _is_repeated(table: Value, axis: int) -> bool:
    """Return whether a table is constant along an axis (broadcast)."""
    op = made_by(table, Broadcast)
    return op is not None and axis not in varying_axes(op)


_Term = tuple[_AxisSlice, _RotationFactor]

# ---- how it is found -----------------------------------------------------------------


def _rotation_of(op: Operation, weights: Container[Value]) -> _Rotation | None:
    """Match `op` as the end of a rotation whose inner values have no other uses; else
    None.
    """
    axis = _axis_of(op)
    if axis is None:
        return None
    root = op.results[0]
    kind = Tensor.of(root)
    size = kind.shape[axis]
    if not isinstance(size, int) or size % 2 or not dtypes.is_float(kind.dtype):
        return None
    beside = element_count((size // 2, *kind.shape[axis + 1 :]))
    if bounds(beside)[0] < _FEWEST:
        return None
    reader = _RotationReader(axis, size // 2, weights)
    rows = [reader.terms(_AxisSlice(root, start)) for start in (0, size // 2)]
    whole = _whole(rows[0], size // 2)
    if whole is None or not reader.is_closed(root):
        return None
    parts = whole, replace(whole, start=whole.start + size // 2)
    if any(len(row) != _TERMS or {x for x, _ in row} != {*parts} for row in rows):
        return None
    factors = [[dict(row)[part] for part in parts] for row in rows]
    return _Rotation(kind, axis, whole, factors, [*reader.inside])


def _axis_of(op: Operation) -> int | None:
    """Return the axis along which `op` may concatenate two halves of a rotation; else
    None.
    """
    if isinstance(op.opview, Concatenate):
        return op.opview.axis
    if not isinstance(op.opview, Add | Subtract):
        return None
    products = [made_by(value, Multiply) for value in op.operands]
    factors = [value for each in products if each for value in each.operands]
    joined = [made_by(value, Concatenate) for value in factors]
    axes: list[int] = [each.axis for each in joined if each is not None]
    return axes[0] if axes else None


def _whole(terms: Sequence[_Term], half: int) -> _AxisSlice | None:
    """Return the slice that two adjacent halves form; None if they are not adjacent."""
    parts = [part for part, _ in terms]
    for first in parts:
        if replace(first, start=first.start + half) in parts:
            return first
    return None


class _RotationReader:
    """Decomposes a half of a result into sums of value slices times tables.

    Args:
        axis: along which there are two halves.
        half: the size of one.
        weights: values that are known when a model is built.

    Attributes:
        inside: the values that were looked through.
    """

    def __init__(self, axis: int, half: int, weights: Container[Value]) -> None:
        self._axis, self._half, self._weights = axis, half, weights
        self.inside: dict[Value, None] = {}

    def terms(self, half: _AxisSlice) -> list[_Term]:
        """Decompose a half of the result into at most two terms; return [] if it is not
        such.
        """
        rest, found = [(half, 1)], list[_Term]()
        while rest:
            part, sign = rest.pop()
            op = defining_op(part.source)
            self.inside[part.source] = None
            if isinstance(op, Negate):
                rest.append((replace(part, source=op.x), -sign))
            elif isinstance(op, Add | Subtract):
                other = sign if isinstance(op, Add) else -sign
                rest.append((replace(part, source=op.rhs), other))
                rest.append((replace(part, source=op.lhs), sign))
            elif (inner := self._joined(part)) is not None:
                rest.append((inner, sign))
            elif (term := self._product(op, part, sign)) is not None:
                found.append(term)
            else:
                return []
            # nor is the end of a long one looked for
            if len(rest) + len(found) > _TERMS:
                return []
        return found

    def _product(self, op: object, part: _AxisSlice, sign: int) -> _Term | None:
        """Match a product of a slice and a table, as one term; else None."""
        if not isinstance(op, Multiply):
            return None
        for x, table in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
            if table in self._weights or made_by(table, Broadcast) is not None:
                found, own = self._origin(replace(part, source=x))
                return found, _RotationFactor(table, part.start, sign * own)
        return None

    def _origin(self, part: _AxisSlice) -> tuple[_AxisSlice, int]:
        """Trace a slice through negations, concatenations and slices; return source and
        sign.
        """
        negated = made_by(part.source, Negate)
        inner = replace(part, source=negated.x) if negated else self._joined(part)
        if inner is not None:
            self.inside[part.source] = None
            found, sign = self._origin(inner)
            return found, -sign if negated else sign
        op = made_by(part.source, Slice)
        if op is None or set(op.strides) != {1}:
            return part, 1
        pairs = enumerate(zip(op.sizes, Tensor.of(op.x).shape, strict=True))
        if any(size != n for axis, (size, n) in pairs if axis != self._axis):
            return part, 1
        return _AxisSlice(op.x, op.start[self._axis] + part.start), 1

    def _joined(self, part: _AxisSlice) -> _AxisSlice | None:
        """Return the operand of a two-half concatenation that a slice equals; else
        None.
        """
        op = made_by(part.source, Concatenate)
        if op is None or op.axis != self._axis:
            return None
        if any(Tensor.of(x).shape[op.axis] != self._half for x in op.operands):
            return None
        return _AxisSlice(op.rhs if part.start else op.lhs, 0)

    def is_closed(self, root: Value) -> bool:
        """Take `root` out of `inside`; return whether nothing else reads the values
        inside.

        Takes the result from what lies inside.
        """
        self.inside.pop(root, None)
        return not users_of(self.inside, {*self.inside, root})
