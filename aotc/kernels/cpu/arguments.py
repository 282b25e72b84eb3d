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
    """A slice of scratch memory private to one share of the workgroups, uninitialised.

    Args:
        memory: that of all shares.
        begin: where that of this share begins.
    """

    memory: Value
    begin: Value


@dataclass(frozen=True)
class KernelArguments:
    """The IR values and context with which a kernel's body is written.

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

    def write_region(self, function: Function, arguments: KernelArguments) -> None:
        """Emit the kernel of another region inline, with `arguments` as its own."""
        assert self.write_inner is not None
        self.write_inner(function, arguments)

    @property
    def own(self) -> ScratchMemory:
        """The scratch memory of this share; the kernel's family must ask for some."""
        assert self.scratch is not None
        return self.scratch

    @property
    def known_machine(self) -> Machine:
        """The CPU model for which the kernel was planned; raise if unknown.

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
        """Return a region's arguments, each mapped to the memory that holds it."""
        arguments = list(function.entry_block.arguments)
        return dict(zip(arguments, self.memories[: len(arguments)], strict=True))

    def results_of(self, function: Function) -> list[tuple[Value, Value]]:
        """Return (value, memory) pairs: where a region's results are written."""
        block = function.entry_block
        *_, end = block.operations
        memories = self.memories[len(block.arguments) :]
        return list(zip(end.operands, memories, strict=True))

    def size(self, size: Size) -> Value:
        """Emit a size, static or symbolic, as an index value."""
        return Lowering([*self.symbols]).size(size)

    def divide(self, value: Value, size: Size) -> tuple[Value, Value]:
        """Emit the quotient and the remainder of an index value by a size."""
        if size == 1:
            return value, index(0)
        divisor = self.size(size)
        return arith.divui(value, divisor), arith.remui(value, divisor)

    def scale(self, base: Value, factor: Size) -> Value:
        """Emit `base * factor`, the factor static or symbolic."""
        if isinstance(factor, int):
            return scale(base, factor)
        return arith.muli(base, self.size(factor))
