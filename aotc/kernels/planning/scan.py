"""Plan loops that are one kernel: scans all of whose steps compute by kernels.

The region of such a loop is a call of a scan and nothing else, and the body of that is
calls of regions, and reshapes (`fuse-loops` makes it so). One workgroup runs all steps:
what is carried, and what lies between kernels, stays in the caches of a core, and no
step costs a dispatch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from aotc.dialects.control import Scan, control_of
from aotc.dialects.functions.function_table import Functions, table_of
from aotc.dialects.functions.functions import callee_of, signature
from aotc.dialects.functions.fusion import fused_of
from aotc.dialects.graph import GraphOp
from aotc.dialects.movement.nests import COPY
from aotc.dialects.types import Size, Tensor, element_count, symbols_of
from aotc.kernels.machine import Machine
from aotc.kernels.planning import nests
from aotc.kernels.planning.nests import can_be_on_stack, is_in_scratch
from aotc.kernels.schedule import Schedule
from aotc.kernels.term_builder import term_of
from aotc.mlir import Function, Operation, Value, func

_OF_OWN_MEMORY = ("winograd", "chain")


@dataclass(frozen=True)
class ScanLoop:
    """A scan (loop with carried values) whose steps are calls of regions.

    Args:
        call: of it, in a region.
        functions: of the module.
    """

    call: func.CallOp
    functions: Functions

    @classmethod
    def of(cls, call: Operation) -> ScanLoop:
        """Return the loop that a call in a region runs."""
        opview = call.operation.opview
        assert isinstance(opview, func.CallOp)
        module = opview.operation.parent.operation.parent.opview
        return cls(opview, table_of(module))

    @cached_property
    def scan(self) -> Scan:
        """The declaration of the loop: its length, body and carried values."""
        control = control_of(self.functions[callee_of(self.call)])
        assert isinstance(control, Scan)
        return control

    @cached_property
    def body(self) -> Function:
        """The function that computes a step."""
        return self.functions[self.scan.functions[0]]

    @property
    def ops(self) -> list[Operation]:
        """The ops of the body, in order, without its return."""
        *ops, _ = self.body.entry_block.operations
        return list(ops)

    @property
    def returned(self) -> list[Value]:
        """The values that the body returns."""
        *_, end = self.body.entry_block.operations
        return list(end.operands)

    def regions(self) -> Iterator[tuple[func.CallOp, Function]]:
        """Yield the calls of the body, each with the region that it calls, in order."""
        for op in self.ops:
            if isinstance(op, func.CallOp):
                yield op, self.functions[callee_of(op)]

    def home(self, value: Value) -> int | None:
        """Return the index of the body's first result that is this value, or None."""
        return self._homes.get(value)

    @cached_property
    def _homes(self) -> dict[Value, int]:
        """The index of the body's first result that is each returned value."""
        numbered = [*enumerate(self.returned)]
        return {value: number for number, value in reversed(numbered)}

    def between(self) -> list[Value]:
        """Return the values that regions pass to each other within a step, in order."""
        made = (value for call, _ in self.regions() for value in call.results)
        return [value for value in made if self.home(value) is None]

    def carried(self) -> list[Value]:
        """Return the arguments of the body that carry values between steps."""
        return [*self.body.entry_block.arguments][: self.scan.carries]

    @cached_property
    def updated_in_place(self) -> frozenset[int]:
        """The numbers of carried values whose new elements are written over the old
        ones.
        """
        return frozenset(filter(self._is_updated_in_place, range(self.scan.carries)))

    def _is_updated_in_place(self, number: int) -> bool:
        """Return whether a step reads a carried value only to write its next there.

        So it adds to the gradient of a weight: the kernel that reads an element writes
        the one that takes its place, once.
        """
        old, new = self.carried()[number], self.returned[number]
        readers = [use.owner.opview for use in old.uses]
        if len(readers) != 1 or self.home(new) != number:
            return False
        (call,) = readers
        if not isinstance(call, func.CallOp) or new not in [*call.results]:
            return False
        operand, result = [*call.operands].index(old), [*call.results].index(new)
        return _can_write_over(self.functions[callee_of(call)], operand, result)


def plan(op: Operation, machine: Machine) -> Schedule | None:
    """Return the (empty) schedule of a loop; None if it cannot be one kernel."""
    loop = ScanLoop.of(op)
    return Schedule() if why_no_kernel(loop) == "" else None


def why_no_kernel(loop: ScanLoop) -> str:
    """Return why a loop cannot be one kernel; "" if it can."""
    why = _why_no_step(loop)
    if why:
        return why
    kinds = [Tensor.of(x) for x in (*loop.call.operands, *loop.call.results)]
    if any(kind.dtype == "bool" for kind in kinds):
        return "it takes or returns bool, which code does not know the memory of"
    own = [*loop.between(), *loop.carried()]
    if not can_be_on_stack(x for x in own if not is_in_scratch(x)):
        return "too much in other dtypes than f32 lies between the ops of a step"
    inside = [
        kind
        for _, function in loop.regions()
        for side in signature(function)
        for kind in side
    ]
    needed = {*symbols_of(loop.scan.length), *_symbols_in(inside)}
    if not needed <= _symbols_in(kinds):
        return "nothing that it takes has the size of its steps"
    return ""


def _why_no_step(loop: ScanLoop) -> str:
    """Return why a loop's body cannot be computed by kernels; "" if it can."""
    for op in loop.ops:
        if isinstance(op, GraphOp) and type(op).keeps_order:
            continue
        if not isinstance(op, func.CallOp):
            return f"a step computes {op.operation.name}, of which there is no region"
        fused = fused_of(loop.functions[callee_of(op)])
        if fused is None:
            return f"a step calls '{callee_of(op)}', which is no region"
        if fused.kernel in _OF_OWN_MEMORY:
            return f"a step has a kernel of the family '{fused.kernel}'"
    return ""


def _can_write_over(region: Function, operand: int, result: int) -> bool:
    """Return whether a kernel may write a result over an operand.

    It may, if it reads an element of that for the one alone that it writes there; a
    product of rows that a call decides computes some of them twice.
    """
    fused = fused_of(region)
    term = None if fused is None else term_of(region)
    if fused is None or term is None or fused.kernel not in ("contraction", "nests"):
        return False
    old, new = term.arguments[operand], term.results[result]
    if fused.kernel == "contraction" and symbols_of(Tensor.of(new).elements):
        return False
    return all(
        statement.value == new
        and statement.nest.combine == COPY
        and statement.nest.place is None
        and read.view is not None
        and read.view.is_identity
        for statement in term.statements
        for read in statement.reads()
        if read.source == old
    )


def _symbols_in(kinds: Iterable[Tensor]) -> set[int]:
    """Return the positions of the symbols in some types' shapes."""
    return {n for kind in kinds for size in kind.shape for n in symbols_of(size)}


def workgroups(op: Operation, schedule: Schedule) -> tuple[Size, Size]:
    """Return one workgroup along each axis, which runs all steps."""
    return 1, 1


def scratch_elements(op: Operation, schedule: Schedule) -> Size:
    """Return how many f32 scratch elements a loop takes, with its regions.

    Carried values that are not updated in place twice: as a step reads them, and as it
    leaves them.
    """
    loop = ScanLoop.of(op)
    own = loop.between()
    for number, value in enumerate(loop.carried()):
        own += [] if number in loop.updated_in_place else [value, value]
    sizes = [element_count(Tensor.of(x).shape) for x in own if is_in_scratch(x)]
    for _, region in loop.regions():
        sizes.append(_scratch_of(region))
    return sum(sizes, start=0)


def _scratch_of(region: Function) -> Size:
    """Return how many f32 scratch elements the kernel of a region takes."""
    fused = fused_of(region)
    assert fused is not None
    last: Any = [*region.entry_block.operations][-2]
    if fused.kernel == "scan":
        return scratch_elements(last, Schedule())
    if fused.kernel == "nests":
        schedule = nests.NestSchedule.of_plain(fused.tile)
        return nests.scratch_elements(last, schedule)
    return 0


def inner(op: Operation) -> tuple[Size, list[Function]]:
    """Return the number of steps of a loop, and the regions that each calls."""
    loop = ScanLoop.of(op)
    return loop.scan.length, [function for _, function in loop.regions()]
