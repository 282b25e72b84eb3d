"""Look up what functions of one byte give, in tables that the build computes.

    %1 = graph.multiply(graph.cast(%q), %s)
    %2 = graph.logistic(%1)                       →    %4 = graph.lookup(%q)
    %3 = graph.divide(%2, %s)
    %4 = graph.cast(graph.round_even(%3))

Between two tensors of bytes lie elementwise ops of one tensor and numbers that are
known when the model is built: a sigmoid or a gelu of a quantised network, also where
its parts are quantised themselves. There are 256 results, which the reference evaluator
computes. So they are the same on every target, where exponentials and error functions
of floats differ in their last digits, and bytes by a step.

Ops that round alike on all targets are left to floats where the bytes were just made of
floats, in registers.

Requires: the arrays of the weights, where scales are weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from aotc import dtypes
from aotc.dialects.builder import Builder
from aotc.dialects.functions import before, functions_of
from aotc.dialects.fusion import has_unfused_body
from aotc.dialects.graph import GraphOp, evaluate
from aotc.dialects.ops.contraction import BYTES
from aotc.dialects.types import Tensor
from aotc.dialects.walking import defining_op
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

Array = np.ndarray[Any, Any]


class TabulateBytes(Pass):
    """Replace functions of one byte by tables."""

    name = "tabulate-bytes"
    level = 2
    keeps_graph = True
    requires = (CALLS_INLINED,)

    def run(self, unit: Unit) -> bool:
        """Whether anything changed."""
        numbers = numbers_of_weights(unit.program)
        functions = functions_of(unit.module).values()
        return any([_change(x, numbers) for x in functions if has_unfused_body(x)])


def _change(function: Function, numbers: Numbers) -> bool:
    weights, images = weight_values(function), _Images(numbers)
    for argument in function.entry_block.arguments:
        images.add_source(argument)
    replaced: list[Any] = []
    for op in [*function.entry_block.operations]:
        images.add(op)
        image = images.of(op.results[0]) if is_quantization(op) else None
        if image is not None and image.is_worth_a_table and image.source not in weights:
            with before(op):
                table = image.table
                found = Builder().lookup(image.source, table=table)
            op.results[0].replace_all_uses_with(found)
            images.alias(found, op.results[0])
            replaced.append(op)
    for op in reversed(replaced):
        _erase_unread(op)
    return bool(replaced)


@dataclass(frozen=True)
class _Image:
    """What elements of a tensor are, for each byte that they are computed of.

    Args:
        source: the tensor of bytes.
        table: the result for each byte, from 0 to 255 by its bits.
        is_approximated: whether targets only come near to it.
    """

    source: Value
    table: Array
    is_approximated: bool

    @property
    def is_worth_a_table(self) -> bool:
        """Whether targets differ otherwise, or the bytes are read from memory anyway.

        A table takes a third of a nanosecond for a byte, floats one to three on AVX2
        and 0.6 to 1.3 on AVX-512. Bytes that a kernel makes of floats it has in
        registers, where ops that round alike take no more than a table does.
        """
        made = defining_op(self.source)
        in_registers = made is not None and is_quantization(made)
        return self.is_approximated or not in_registers


@dataclass
class _Images:
    """The tensors that are computed of one tensor of bytes each, element by element.

    Args:
        numbers: weights that are one number.
    """

    numbers: Numbers
    _found: dict[Value, _Image] = field(default_factory=dict)

    def of(self, value: Value) -> _Image | None:
        """Return what a tensor is, if it is computed so."""
        return self._found.get(value)

    def alias(self, value: Value, other: Value) -> None:
        """Take one value for another one."""
        self._found[value] = self._found[other]

    def add_source(self, value: Value) -> None:
        """Take a tensor of bytes for a source."""
        dtype = Tensor.of(value).dtype
        if dtype in BYTES:
            every = np.arange(256).astype(np.uint8).view(dtypes.to_numpy(dtype))
            self._found[value] = _Image(value, every, is_approximated=False)

    def add(self, op: Operation) -> None:
        """Find what an op computes; bytes that are computed otherwise are a source."""
        if isinstance(op, GraphOp) and len(op.results) == 1:
            image = self._image(op)
            if image is not None:
                self._found[op.results[0]] = image
                return
        for value in op.results:
            self.add_source(value)

    def _image(self, op: GraphOp) -> _Image | None:
        read = {x: self._found[x] for x in op.operands if x in self._found}
        sources = {each.source for each in read.values()}
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
        return _Image(sources.pop(), np.asarray(table), is_approximated)


def _is_elementwise(op: GraphOp, read: Sequence[Value]) -> bool:
    """Return whether an op makes each element of those of some operands there."""
    shape = Tensor.of(op.results[0]).shape
    is_same = all(Tensor.of(value).shape == shape for value in read)
    return is_same and type(op).on_scalars and not type(op).rearranges


def _erase_unread(op: Operation) -> None:
    """Erase an op that nothing reads, and the elementwise ops that only it read."""
    rest: list[Operation] = [op]
    while rest:
        found = rest.pop()
        if any(next(iter(x.uses), None) is not None for x in found.results):
            continue
        made = [defining_op(x) for x in found.operands]
        found.operation.erase()
        for each in made:
            if isinstance(each, GraphOp) and type(each).on_scalars:
                rest += [] if each in rest else [each]
