"""Arguments of a running kernel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from aotc.dialects.functions.fusion import TARGET
from aotc.dialects.lowering import Lowering
from aotc.dialects.types import Size
from aotc.errors import CompileError
from aotc.kernels.cpu.vectors import index, scale
from aotc.kernels.machine import Machine
from aotc.mlir import Function, Value, arith


@dataclass(frozen=True)
class ScratchMemory:
    """Memory that a share of the workgroups has for itself; it begins undefined.

    Args:
        memory: that of all shares.
        begin: where that of this share begins.
    """

    memory: Value
    begin: Value


@dataclass(frozen=True)
class KernelArguments:
    """The arguments of a kernel.

    Args:
        memories: of the arguments of the region, and then of its results.
        symbols: the index value of each symbol of the region, as far as its types
            mention them.
        workgroup: the numbers of the workgroup, along two axes; for a family that
            `has_runs` the first of a run of workgroups, and the one after the last.
        machine: that runs it; None if that is not known.
        scratch: what the kernel's family asks for, see `KernelFamily.scratch`; None for
            none.
        write_inner: writes all workgroups of the kernel of another region, which this
            one runs.
    """

    memories: Sequence[Value]
    symbols: Sequence[Value]
    workgroup: tuple[Value, Value]
    machine: Machine | None = None
    scratch: ScratchMemory | None = None
    write_inner: Callable[[Function, KernelArguments], None] | None = None

    def write_region(self, function: Function, given: KernelArguments) -> None:
        """Write the kernel of a region that the kernel runs, for its own arguments."""
        assert self.write_inner is not None
        self.write_inner(function, given)

    @property
    def own(self) -> ScratchMemory:
        """The scratch of a kernel whose family asks for some."""
        assert self.scratch is not None
        return self.scratch

    @property
    def known_machine(self) -> Machine:
        """The machine of a kernel that is planned for its instructions.

        Raises:
            CompileError: `not-lowered`: the module of the region names no target.
        """
        if self.machine is None:
            raise CompileError(
                "not-lowered",
                "a kernel is cut up for the processor of a target, and its module "
                "names none",
                hint=f'give the module the attribute {TARGET} = "TARGET"',
            )
        return self.machine

    def operands_of(self, function: Function) -> dict[Value, Value]:
        """The memory of each argument of a region."""
        arguments = list(function.entry_block.arguments)
        return dict(zip(arguments, self.memories[: len(arguments)], strict=True))

    def results_of(self, function: Function) -> list[tuple[Value, Value]]:
        """The values that a region returns, each with the memory that it goes to."""
        block = function.entry_block
        *_, end = block.operations
        memories = self.memories[len(block.arguments) :]
        return list(zip(end.operands, memories, strict=True))

    def size(self, size: Size) -> Value:
        """The index value of a size, at the insertion point."""
        return Lowering([*self.symbols]).size(size)

    def divide(self, value: Value, size: Size) -> tuple[Value, Value]:
        """The quotient and the remainder."""
        if size == 1:
            return value, index(0)
        divisor = self.size(size)
        return arith.divui(value, divisor), arith.remui(value, divisor)

    def scale(self, base: Value, factor: Size) -> Value:
        """Return `base * factor`."""
        if isinstance(factor, int):
            return scale(base, factor)
        return arith.muli(base, self.size(factor))
