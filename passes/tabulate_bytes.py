"""Look up functions of one byte in tables that the build computes.

    %1 = graph.multiply(graph.cast(%q), %s)
    %2 = graph.logistic(%1)                       →    %4 = graph.lookup(%q)
    %3 = graph.divide(%2, %s)
    %4 = graph.cast(graph.round_even(%3))

Between two tensors of bytes lie elementwise ops of one tensor and numbers that are
known when the model is built: a sigmoid or a gelu of a quantised network, also where
its parts are quantised themselves. There are 256 results, which the reference evaluator
computes. So they are the same on every target, where exponentials and error functions
of floats differ in their last digits, and bytes by a step.

Where each byte comes out as it went in, nothing is left of the ops but movement between
them, which may lie there in this case alone:

    %1 = graph.multiply(graph.cast(%q), %s)
    %2 = graph.transpose(%1)                      →    %4 = graph.transpose(%q)
    %3 = graph.divide(%2, %s)
    %4 = graph.cast(graph.round_even(%3))

Exporters quantise the results of ops that only move elements with the scale and the
zero point of their operands.

Ops that round alike on all targets are left to floats where the bytes were just made of
floats, in registers.

A softmax of bytes that ends with bytes looks up the powers of e of differences of two
bytes (`aotc.passes.quantized.softmax`):

    %1 = graph.multiply(graph.cast(%q), %s)
    %2 = graph.softmax(%1)                        →    %2 = graph.byte_softmax(%q)
    %3 = graph.divide(%2, %t)
    %4 = graph.cast(graph.round_even(%3))

Requires: the arrays of the weights, where scales are weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from aotc.core import dtypes
from aotc.dialects.builder import Builder
from aotc.dialects.functions.functions import before, functions_of
from aotc.dialects.functions.fusion import unfused_functions
from aotc.dialects.functions.walking import defining_op
from aotc.dialects.graph import GraphOp, evaluate
from aotc.dialects.ops.contraction import BYTES
from aotc.dialects.ops.indexing import Gather
from aotc.dialects.ops.normalization import Softmax
from aotc.dialects.types import Tensor
from aotc.dialects.weight_values import weight_values
from aotc.mlir import Function, Operation, Value
from aotc.passes.base import Pass, Unit
from aotc.passes.properties import CALLS_INLINED
from aotc.passes.quantized.numbers import (
    Numbers,
    is_quantization,
    known_number,
    numbers_of_weights,
)
from aotc.passes.quantized.reading import ends_with_bytes, moves
from aotc.passes.quantized.softmax import even_step, is_rounded_coarsely

Array = np.ndarray
_BYTES = 256


class TabulateBytes(Pass):
    """Replace chains of elementwise ops on bytes by lookup tables of 256 entries."""

    name = "tabulate-bytes"
    level = 2
    keeps_graph = True
    requires = (CALLS_INLINED,)

    def run(self, unit: Unit) -> bool:
        """Rewrite the unit's module in place; return whether anything changed."""
        numbers = numbers_of_weights(unit.program)
        functions = unfused_functions(functions_of(unit.module))
        return any([_change(each, numbers) for each in functions])


def _change(function: Function, numbers: Numbers) -> bool:
    """Tabulate the byte-to-byte functions of one function; return whether any were."""
    weights, images = weight_values(function), _Images(numbers)
    for argument in function.entry_block.arguments:
        images.add_source(argument)
    replaced: list[Any] = []
    for op in [*function.entry_block.operations]:
        images.add(op)
        if isinstance(op, Softmax) and op.y not in weights:
            with before(op):
                shares = images.shares(op)
            if shares is not None:
                op.y.replace_all_uses_with(shares)
                replaced.append(op)
        if is_quantization(op) and op.results[0] not in weights:
            with before(op):
                found = images.replacement(op.results[0])
            if found is not None:
                op.results[0].replace_all_uses_with(found)
                replaced.append(op)
    for op in reversed(replaced):
        _erase_unread(op)
    has_parts = _tabulate_parts(function, numbers)
    return bool(replaced) or has_parts


def _tabulate_parts(function: Function, numbers: Numbers) -> bool:
    """Tabulate approximated functions of bytes whose results are later quantised."""
    weights, images = weight_values(function), _Images(numbers)
    known: dict[Value, bool] = {}
    for argument in function.entry_block.arguments:
        images.add_source(argument)
    found: list[tuple[GraphOp, _Image]] = []
    for op in [*function.entry_block.operations]:
        images.add(op)
        if isinstance(op, GraphOp) and type(op).is_approximated:
            y = op.results[0]
            image = None if y in weights else images.of(y)
            if image is not None and ends_with_bytes(y, known):
                found.append((op, image))
    for op, image in found:
        with before(op):
            entries = image.entries(op.results[0])
        op.results[0].replace_all_uses_with(entries)
    for op, _ in reversed(found):
        _erase_unread(op)
    return bool(found)


@dataclass(frozen=True)
class _Image:
    """A tensor whose elements are each a function of one byte: the function's table.

    Args:
        source: the tensor of bytes.
        table: the result for each byte, from 0 to 255 by its bits; behind these for
            each movement that may read along an axis without elements, which gives 0,
            the result for that.
        moves: what movement between them gives, in order.
        is_approximated: whether targets only come near to it.
    """

    source: Value
    table: Array
    moves: tuple[Value, ...] = ()
    is_approximated: bool = False

    @property
    def is_worth_a_table(self) -> bool:
        """Return whether a lookup pays: targets would differ, or the bytes come from
        memory.

        A table takes a third of a nanosecond for a byte, floats one to three on AVX2
        and 0.6 to 1.3 on AVX-512. Bytes that a kernel makes of floats it has in
        registers, where ops that round alike take no more than a table does.
        """
        made = defining_op(self.source)
        in_registers = made is not None and is_quantization(made)
        return self.is_approximated or not in_registers

    @property
    def number(self) -> float | None:
        """The number that all elements equal; None if they depend on the bytes.

        IREE finds that of a table, too, and then has the build call the kernel that
        reads it, which its compiler cannot ("no executable loader registered").
        """
        first = self.table[0]
        return float(first) if (self.table == first).all() else None

    @property
    def changes_nothing(self) -> bool:
        """Return whether the table is the identity on bytes."""
        every = np.zeros(len(self.table), self.table.dtype)
        every[:_BYTES] = _every_byte(Tensor.of(self.source).dtype)
        dtype = dtypes.canonical_dtype(self.table.dtype)
        is_same_kind = dtype == Tensor.of(self.source).dtype
        return is_same_kind and bool((self.table == every).all())

    def moved(self, op: GraphOp) -> _Image:
        """Return the image (bytes and table) behind an op that only moves its
        elements.
        """
        zeros = [np.zeros(1, self.table.dtype)] if _may_read_nothing(op) else []
        table = np.concatenate([self.table, *zeros])
        return replace(self, table=table, moves=(*self.moves, op.results[0]))

    def entries(self, like: Value) -> Value:
        """Emit the elements: a lookup in the table, or a constant of the type of
        `like`.
        """
        if self.number is not None:
            constant: Value = Builder().full(Tensor.of(like), self.number)
            return constant
        found: Value = Builder().lookup(self.move(), table=self.table)
        return found

    def move(self) -> Value:
        """Emit the recorded movement ops on the bytes; return the result."""
        value = self.source
        for each in self.moves:
            op = defining_op(each)
            assert isinstance(op, GraphOp)
            value = op.rebuild(value, *[*op.operands][1:])
        return value


@dataclass
class _Images:
    """The values known to be elementwise functions of one byte tensor each.

    Args:
        numbers: weights that are one number.
    """

    numbers: Numbers
    _found: dict[Value, _Image] = field(default_factory=dict)  # bytes are their own
    _made: dict[Value, _Image] = field(default_factory=dict)  # of bytes: of others

    def add_source(self, value: Value) -> None:
        """Record a value of bytes as the source of later images, which are tables over
        it.
        """
        dtype = Tensor.of(value).dtype
        if dtype in BYTES:
            self._found[value] = _Image(value, _every_byte(dtype))

    def add(self, op: Operation) -> None:
        """Record an op's results as images, if they are; byte results become
        sources.
        """
        image = None
        if isinstance(op, GraphOp) and len(op.results) == 1:
            image = self._image(op)
        for value in op.results:
            self.add_source(value)
            if image is not None:
                known = self._made if value in self._found else self._found
                known[value] = image

    def replacement(self, value: Value) -> Value | None:
        """Emit a lookup, constant or movement that equals a byte value; None if none
        pays.

        Args:
            value: the bytes, which were added.
        """
        image = self._made.get(value)
        if image is None:
            return None
        if image.number is not None:
            return image.entries(value)
        if image.changes_nothing:
            moved = image.move()
            self.add_source(moved)
            return moved
        image = self._from_the_first(image)
        if image.moves or not image.is_worth_a_table:
            return None
        found: Value = Builder().lookup(image.source, table=image.table)
        self.add_source(found)
        self._made[found] = image
        return found

    def of(self, value: Value) -> _Image | None:
        """Return a value's image (bytes and table), if the table has 256 entries; else
        None.
        """
        image = self._found.get(value)
        is_whole = image is not None and len(image.table) == _BYTES
        return image if is_whole else None

    def shares(self, op: Softmax) -> Value | None:
        """Emit a softmax of bytes that equals the float softmax `op`; None if it does
        not fit.
        """
        image = self._found.get(op.x)
        if image is None or not is_rounded_coarsely(op.y, self.numbers):
            return None
        step = even_step(image.table, Tensor.of(image.source).dtype)
        if step is None:
            return None
        found: Value = Builder().byte_softmax(image.move(), step=step, axis=op.axis)
        return found

    def _from_the_first(self, image: _Image) -> _Image:
        """Return an image as a table over the earliest bytes that it is a function
        of.
        """
        while not image.moves and (first := self._made.get(image.source)) is not None:
            if first.moves:
                break
            image = _Image(
                first.source,
                image.table[first.table.view(np.uint8)],
                is_approximated=image.is_approximated or first.is_approximated,
            )
        return image

    def _image(self, op: GraphOp) -> _Image | None:
        """Return an op's result as a table over one tensor of bytes, by evaluation;
        else None.
        """
        if moves(op):
            of = self._found.get(op.operands[0])
            return None if of is None else of.moved(op)
        read = {x: self._found[x] for x in op.operands if x in self._found}
        sources = {(each.source, each.moves) for each in read.values()}
        if len(sources) > 1:
            read = {x: self._from_the_first(image) for x, image in read.items()}
            sources = {(each.source, each.moves) for each in read.values()}
        if len(sources) != 1 or not _is_elementwise(op, [*read]):
            return None
        given: list[Array] = []
        for x in op.operands:
            number = None if x in read else known_number(x, self.numbers)
            if number is None and x not in read:
                return None
            given.append(read[x].table if number is None else number)
        with np.errstate(all="ignore"):
            (table,) = evaluate(op, given, [])
        is_approximated = type(op).is_approximated or any(
            each.is_approximated for each in read.values()
        )
        source, moved = sources.pop()
        return _Image(source, np.asarray(table), moved, is_approximated)


def _every_byte(dtype: str) -> Array:
    """Return all 256 values of a byte dtype, ordered by bit pattern."""
    return np.arange(_BYTES).astype(np.uint8).view(dtypes.to_numpy(dtype))


def _is_elementwise(op: GraphOp, read: Sequence[Value]) -> bool:
    """Return whether an op is elementwise on the values in `read`, of its result's
    shape.
    """
    shape = Tensor.of(op.results[0]).shape
    is_same = all(Tensor.of(value).shape == shape for value in read)
    return is_same and type(op).on_scalars and not type(op).rearranges


def _may_read_nothing(op: GraphOp) -> bool:
    """Return whether an op gathers along axes that may be empty in some call."""
    if not isinstance(op, Gather):
        return False
    shape = Tensor.of(op.x).shape
    return not all(isinstance(shape[axis], int) and shape[axis] for axis in op.axes)


def _erase_unread(op: Operation) -> None:
    """Erase an op without uses, and the ops that only it used."""
    rest: list[Operation] = [op]
    while rest:
        found = rest.pop()
        if any(next(iter(x.uses), None) is not None for x in found.results):
            continue
        made = [defining_op(x) for x in found.operands]
        found.operation.erase()
        for each in made:
            if isinstance(each, GraphOp) and (type(each).on_scalars or moves(each)):
                rest += [] if each in rest else [each]
