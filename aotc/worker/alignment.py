"""Kernels for GPUs that may be given unaligned memory.

IREE lets a dispatch read a part of a tensor in place, and write where a part of another
lies, whatever the offset: a slice, a concatenation or an update of rows is no copy
then. Its own code expects that. Kernels that were compiled before expect multiples of
16 bytes, as all memory of tensors of their own begins at, and a GPU faults at others.
"""

from __future__ import annotations

from math import gcd
from typing import TYPE_CHECKING

from aotc.worker.ops import ops_in

if TYPE_CHECKING:
    from iree.compiler import ir

_BYTES = 16
_ANY = 0  # what zero is a multiple of: all numbers

# ops whose results are memory of their own, which devices and IREE's plan of memory
# begin at multiples of 64 bytes at least
_OWN = {
    "stream.resource.alloc",
    "stream.resource.alloca",
    "stream.resource.constants",
    "stream.tensor.import",
    "stream.cmd.parameter.load",
    "stream.file.constant",
    "stream.resource.map",
}
# ops that give on what they are given first
_FORWARDING = {
    "stream.timepoint.await",
    "stream.timepoint.barrier",
    "stream.resource.transients",
    "stream.resource.retain",
    "util.optimization_barrier",
}


def unaligned_kernels(module: ir.Module) -> list[str]:
    """Return the names of executables that may be given memory not aligned to 16 bytes.

    Args:
        module: as IREE has it after its phase `stream`; executables in it are compiled.
    """
    compiled = {
        _symbol(op) for op in module.body if op.operation.name == _COMPILED_EXECUTABLE
    }
    memory, found = _AlignmentAnalysis(module), dict[str, None]()
    for op in ops_in(module.operation, "stream.cmd.dispatch"):
        names = {str(each.value[0]) for each in op.attributes["entry_points"]}
        if names & compiled and not memory.is_aligned_for(op):
            found.update(dict.fromkeys(sorted(names & compiled)))
    return [*found]


_COMPILED_EXECUTABLE = "hal.executable.source"


def _symbol(op: ir.Operation) -> str:
    """Return the symbol name that an op defines."""
    return str(op.attributes["sym_name"].value)


class _AlignmentAnalysis:
    """An analysis of the alignment of memory resources in IREE's stream dialect.

    Args:
        module: whose functions use it.
    """

    def __init__(self, module: ir.Module) -> None:
        self._stores: dict[str, list[ir.Value]] = {}
        self._known: dict[ir.Value, bool] = {}
        for op in ops_in(module.operation, "util.global.store"):
            name = str(op.attributes["global"].value)
            self._stores.setdefault(name, []).append(op.operands[0])

    def is_aligned_for(self, dispatch: ir.Operation) -> bool:
        """Return whether all operands of a dispatch begin at multiples of 16 bytes."""
        workload, numbers, count, sizes, _, _ = _segments(dispatch)
        first = workload + numbers
        resources = [*dispatch.operands][first : first + count]
        at = first + count + sizes
        offsets = [*dispatch.operands][at : at + count]
        return all(map(self.begins_at_multiple, resources)) and all(
            _is_multiple(factor_of(each)) for each in offsets
        )

    def begins_at_multiple(self, resource: ir.Value) -> bool:
        """Return whether a resource is known to begin at a multiple of 16 bytes;
        cached.
        """
        if resource not in self._known:
            self._known[resource] = True  # what a loop gives back to itself
            self._known[resource] = self._begins(resource)
        return self._known[resource]

    def _begins(self, resource: ir.Value) -> bool:
        """Return whether the op that makes a resource begins it at a multiple of 16
        bytes.
        """
        block_or_op = resource.owner
        if not hasattr(block_or_op, "name"):
            return self._argument_begins(resource, block_or_op)
        op = block_or_op
        if op.name in _OWN:
            return True
        if op.name == "stream.resource.subview":
            offset = op.operands[2]
            return self.begins_at_multiple(op.operands[0]) and _is_multiple(
                factor_of(offset)
            )
        if op.name == "util.global.load":
            stored = self._stores.get(str(op.attributes["global"].value), [])
            return bool(stored) and all(map(self.begins_at_multiple, stored))
        if op.name in _FORWARDING:
            number = next(n for n, x in enumerate(op.results) if x == resource)
            resources = [x for x in op.operands if x.type == resource.type]
            return len(resources) > number and all(
                map(self.begins_at_multiple, resources)
            )
        return False

    def _argument_begins(self, resource: ir.Value, block: ir.Block) -> bool:
        """Return whether the operand behind a block argument begins at such a
        multiple.
        """
        op = block.owner
        if op.name != "stream.cmd.execute":
            return False
        number = next(n for n, x in enumerate(block.arguments) if x == resource)
        captured = [x for x in op.operands if "!stream.resource" in str(x.type)]
        return self.begins_at_multiple(captured[number])


def _segments(op: ir.Operation) -> list[int]:
    """Return the sizes of an op's operand segments."""
    return [int(count) for count in op.attributes["operandSegmentSizes"]]


def _is_multiple(factor: int) -> bool:
    """Return whether a factor is a multiple of 16."""
    return factor % _BYTES == 0


def factor_of(number: ir.Value) -> int:
    """Return a known factor of an index value: 1 if none is known, 0 for zero."""
    op = number.owner
    if not hasattr(op, "name"):
        return 1
    if op.name == "arith.constant":
        return abs(int(op.attributes["value"].value))
    if op.name == "util.align":
        return abs(int(factor_of(op.operands[1])))
    if op.name == "arith.muli":
        left, right = map(factor_of, op.operands)
        return left * right
    if op.name in ("arith.addi", "arith.subi"):
        left, right = map(factor_of, op.operands)
        return gcd(left, right)
    return 1
