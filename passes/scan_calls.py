"""Calls of scans, as passes change them: a step may be given more, and return more."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from aotc.dialects.control import Scan, control_of
from aotc.dialects.functions.function_table import Functions, index_functions
from aotc.dialects.functions.functions import callee_of, define, is_private, signature
from aotc.dialects.functions.walking import backward_slice, clone, walk
from aotc.dialects.types import Tensor
from aotc.mlir import Function, Operation, Value, func
from aotc.passes.base import Unit

_GROWTH = 4  # gates of an LSTM


@dataclass
class ScanCall:
    """A call of a scan, with its body function; `replace` updates it in place.

    Args:
        call: of it; another one, once it is replaced.
        scan: what it does.
        body: the function of a step.
    """

    call: func.CallOp
    scan: Scan
    body: Function

    @classmethod
    def of(cls, call: func.CallOp, functions: Functions) -> ScanCall:
        """Return a call that is known to be of a scan, with its attributes and body."""
        scan = control_of(functions[callee_of(call)])
        assert isinstance(scan, Scan)
        return cls(call, scan, functions[scan.functions[0]])

    @property
    def arguments(self) -> list[Value]:
        """The arguments of the scan's body: carried, scanned, captured."""
        return list(self.body.entry_block.arguments)

    @property
    def scanned(self) -> list[Value]:
        """The body arguments that are elements of the scanned sequences."""
        return self.arguments[self.scan.carries : self.scan.first_capture]

    @property
    def returned(self) -> list[Value]:
        """The values that the scan's body returns: carried, then stacked."""
        *_, end = self.body.entry_block.operations
        return list(end.operands)

    def whole(self, argument: Value) -> Value:
        """Return the call's operand for an argument of the scan's body."""
        return self.call.operands[self.arguments.index(argument)]

    def replace(self, results: Sequence[Value], call: Operation) -> None:
        """Use `results` in place of the call's results, erase it, and remember the new
        call.
        """
        for old, new in zip(self.call.results, results, strict=True):
            old.replace_all_uses_with(new)
        self.call.operation.erase()
        self.call = call.opview


def can_stack(loop: ScanCall, values: Sequence[Value]) -> bool:
    """Return whether a step's values are at most `_GROWTH` times its scanned
    elements.
    """
    return _elements(values) <= _GROWTH * _elements(loop.scanned)


def _elements(values: Sequence[Value]) -> int:
    """Return how many elements values have; sizes that a call decides count as one."""
    return sum(
        math.prod(n for n in Tensor.of(x).shape if isinstance(n, int)) for x in values
    )


def change_scans(unit: Unit, change: Callable[[func.CallOp, Functions], bool]) -> bool:
    """Apply `change` to all scan calls, those in nested bodies first; return whether
    any did.

    Args:
        unit: whose functions they are in.
        change: changes the call of a scan, given the functions of the module; returns
            whether it did.

    Returns:
        Whether any has changed.
    """

    def change_in(function: Function) -> bool:
        changed = False
        for op in [] if function.is_external else [*function.entry_block.operations]:
            if not isinstance(op, func.CallOp):
                continue
            control = control_of(functions[callee_of(op)])
            if control is not None:
                changed |= any([change_in(functions[x]) for x in control.functions])
            if isinstance(control, Scan):
                changed |= change(op, functions)
        return changed

    with index_functions(unit.module) as functions:
        entries = [each for each in functions.values() if not is_private(each)]
        return any([change_in(each) for each in entries])


def define_scanning(loop: ScanCall, moving: Sequence[Value]) -> str:
    """Define a copy of the body in which some values are scanned inputs; return its
    name.

    What is read by none then is not computed.
    """
    kinds, _ = signature(loop.body)
    first = loop.scan.first_capture
    kinds[first:first] = [Tensor.of(value) for value in moving]
    needed = {*backward_slice(loop.returned, lambda value: value not in moving)}

    def body(arguments: list[Value]) -> list[Value]:
        last = first + len(moving)
        given = dict(zip(moving, arguments[first:last], strict=True))

        def visit(op: Operation, operands: list[Value]) -> list[Value]:
            known = [given[value] for value in op.results if value in given]
            if not known and not any(value in needed for value in op.results):
                return [arguments[0]] * len(op.results)  # stands for what none reads
            return known or clone(op, operands)

        own = [*arguments[:first], *arguments[last:]]
        return walk(loop.body.entry_block, own, visit)

    return define(loop.scan.functions[0], kinds, body)


def define_returning(loop: ScanCall, more: Sequence[Value]) -> str:
    """Define a copy of the body that also returns some values to stack; return its
    name.
    """
    kinds, _ = signature(loop.body)

    def body(arguments: list[Value]) -> list[Value]:
        copies = dict(zip(loop.arguments, arguments, strict=True))

        def visit(op: Operation, operands: list[Value]) -> list[Value]:
            made = clone(op, operands)
            copies.update(zip(op.results, made, strict=True))
            return made

        found = walk(loop.body.entry_block, arguments, visit)
        return [*found, *(copies[value] for value in more)]

    return define(loop.scan.functions[0], kinds, body)
