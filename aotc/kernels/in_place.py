"""Calls of kernels that write results where they have read operands.

    %p1, %m1 = call @iree.updates.kernel.dispatch(%g, %p, %m, %shares)
    →
    %p1, %m1 = call @iree.updates.in_place.kernel.dispatch(%g, %p, %m, %x, %shares)

The dispatch is tied to %p and %m: IREE gives the results no memory. It waits for %x,
which the kernel does not look at. A kernel that several entries call, or one for
several states, stays as it is for those that do not write in place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from aotc.dialects import iree_text
from aotc.dialects.functions.function_table import erase, name_of, note_symbol
from aotc.dialects.functions.functions import functions_of
from aotc.dialects.iree_text import bodies
from aotc.dialects.plain import attribute_of, plain_of
from aotc.kernels.lowered import (
    CALL,
    KERNEL,
    LAUNCH,
    LoweredKernel,
    called_kernel,
    dispatched_kernel,
    kernel_in,
)
from aotc.mlir import Module, Operation, Value, func, ir

_ENDING = ".kernel"


def tensors_of(call: Operation) -> list[Value]:
    """Return the tensor operands of a kernel call, without its numbers."""
    return [x for x in call.operands if isinstance(x.type, ir.RankedTensorType)]


@dataclass
class InPlaceKernels:
    """Kernels of a lowered module whose results may overwrite their operands.

    Args:
        module: of them; calls go through the table of its functions.
        holders: the modules that hold them, by the kernel's name.
        kernels: what is stated of them, by the same.
    """

    module: Module
    holders: dict[str, Operation]
    kernels: dict[str, LoweredKernel]
    _made: dict[tuple[str, tuple[int, ...], int], Operation] = field(
        default_factory=dict
    )

    @classmethod
    def of(cls, module: Module) -> InPlaceKernels:
        """Find the kernels of a lowered module whose results may overwrite operands."""
        found = (op for op in module.body.operations if KERNEL in op.attributes)
        kernels = {name_of(op): (op, kernel_in(op)) for op in found}
        apt = {name: each for name, each in kernels.items() if each[1].parts}
        holders: dict[str, Operation] = {name: each[0] for name, each in apt.items()}
        return cls(module, holders, {name: each[1] for name, each in apt.items()})

    def kernel_of(self, op: Operation) -> LoweredKernel | None:
        """Return the kernel that an op calls if it may write in place; else None."""
        return self.kernels.get(called_kernel(op) or "")

    def call(
        self, call: func.CallOp, tied: Sequence[int], awaited: Sequence[Value]
    ) -> list[Value]:
        """Emit a call of a kernel's in-place variant instead; return the results.

        Args:
            call: of the kernel, in the place of which this is; it stays.
            tied: the number of the operand that each result is written over, or -1.
            awaited: what is to be computed before, too.

        Returns:
            The results.
        """
        name = called_kernel(call)
        assert name is not None
        kernel = self.kernels[name]
        own = name_of(self._holder_of(name, tuple(tied), len(awaited)))
        given, count = [*call.operands], len(tensors_of(call))
        tensors, numbers = [*given[:count], *awaited], given[count:]
        launch, results = kernel.launch, [x.type for x in call.results]
        body = bodies.dispatch(
            own,
            [x.type for x in tensors],
            kernel.symbols if launch is None else launch.numbers,
            results,
            function="" if launch is None else launch.function,
            number="index" if launch is None else "i32",
            tied=tied,
        )
        operands = [*tensors, *numbers]
        types = [x.type for x in operands]
        callee = iree_text.declare(f"{own}{CALL}", types, results, body)
        return iree_text.call_declared(callee, operands)

    def _holder_of(self, name: str, tied: tuple[int, ...], awaited: int) -> Operation:
        """Return the module of a kernel's in-place variant, made on first use."""
        key = name, tied, awaited
        if key not in self._made:
            number = sum(1 for each, *_ in self._made if each == name)
            base = f"{name.removesuffix(_ENDING)}.in_place"
            own = f"{base}_{number}{_ENDING}" if number else f"{base}{_ENDING}"
            self._made[key] = _clone_in_place(self.holders[name], own, tied, awaited)
        return self._made[key]

    def erase_uncalled(self) -> None:
        """Erase the kernels that no call dispatches, and their declarations."""
        called = set[str | None]()

        def visit(op: Operation) -> ir.WalkResult:
            called.add(called_kernel(op.opview))
            return ir.WalkResult.ADVANCE

        functions = functions_of(self.module)
        for function in functions.values():
            if not function.is_external:
                function.operation.walk(visit)
        names = self.holders.keys() - called
        for name, function in functions.items():
            if function.is_external and dispatched_kernel(name) in names:
                erase(function)
        for name in sorted(names):
            self.holders.pop(name).erase()


def _clone_in_place(
    holder: Operation, name: str, tied: Sequence[int], awaited: int
) -> Operation:
    """Clone a kernel's module before it, renamed, as an in-place variant."""
    with ir.InsertionPoint(holder):
        made: Operation = holder.operation.clone()
    which = LAUNCH if LAUNCH in holder.attributes else KERNEL
    facts: dict[str, Any] = {"tied": [*tied], "awaited": awaited}
    made.attributes[which] = attribute_of({**plain_of(made.attributes[which]), **facts})
    made.attributes["sym_name"] = ir.StringAttr.get(name)
    for op in made.regions[0].blocks[0].operations:
        if name_of(op) == name_of(holder):
            op.attributes["sym_name"] = ir.StringAttr.get(name)
    note_symbol(made)
    return made
