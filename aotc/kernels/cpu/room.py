"""Memory for what lies between the parts of a kernel: scratch, or the stack."""

from __future__ import annotations

from aotc.dialects.types import Tensor, element_count, lowered_element, static_size
from aotc.kernels.cpu import vectors
from aotc.kernels.cpu.arguments import KernelArguments, ScratchMemory
from aotc.kernels.cpu.vectors import index
from aotc.kernels.planning.nests import is_in_scratch
from aotc.mlir import Value, arith


class Room:
    """A bump allocator of a kernel's temporaries, in scratch memory or on the stack.

    Args:
        given: the arguments of the kernel, with its scratch.
    """

    def __init__(self, given: KernelArguments) -> None:
        self._given = given
        self._at: Value | int = 0 if given.scratch is None else given.scratch.begin

    def take(self, value: Value, count: int = 1) -> tuple[Value, Value]:
        """Allocate memory for `count` copies of a value; return (memref, offset)."""
        if not is_in_scratch(value):
            elements = static_size(element_count(Tensor.of(value).shape))
            element = lowered_element(Tensor.of(value).dtype)
            return vectors.allocate(max(1, count * elements), element), index(0)
        assert not isinstance(self._at, int)
        begin = self._at
        size = self._given.size(element_count(Tensor.of(value).shape))
        self._at = arith.addi(begin, vectors.scale(size, count))
        return self._given.own.memory, begin

    @property
    def rest(self) -> ScratchMemory | None:
        """The scratch memory that is still free; None if the kernel has none."""
        if self._given.scratch is None or isinstance(self._at, int):
            return None
        return ScratchMemory(self._given.scratch.memory, self._at)
