"""Separate tensors that would be written over a part that they share.

    %a = tensor.concat dim(0) %s, %x          %a = tensor.concat dim(0) %s, %x
    %b = tensor.concat dim(0) %s, %y    →     %t = call @iree.barrier(%s)
                                              %b = tensor.concat dim(0) %t, %y

Note [shared updates]: IREE 3.13 copies parts one after the other, over the tensor that
has those before, and merges equal copies. Two tensors that begin alike are then two
updates of one, which has to be copied for one of them; where one dispatch computes the
parts, it writes them to their places itself, and the copy comes after that or is
forgotten. So it is, too, where something else reads a tensor of parts that another part
is written over. All is computed, stored in the wrong places, and no word is said (CPU
and VMVX). Behind a barrier the tensor is another one.

Ensures: no two concatenations of a block begin with
the same part, and no slice is inserted into parts that something else reads, too.
"""

from collections.abc import Iterator

from aotc.dialects import iree_text
from aotc.dialects.functions.function_table import index_functions
from aotc.dialects.functions.functions import functions_of
from aotc.dialects.functions.walking import control_regions
from aotc.mlir import Block, Function, Operation, Value, ir
from aotc.passes.base import Pass, Unit
from aotc.passes.properties import LOWERED

_VIEWS = ("tensor.expand_shape", "tensor.collapse_shape", "tensor.cast")


class SeparateUpdates(Pass):
    """Put barriers before tensors that IREE would overwrite though something else reads
    them.
    """

    name = "separate-updates"
    level = 0
    keeps_graph = False
    requires = (LOWERED,)

    def run(self, unit: Unit) -> bool:
        """Rewrite the unit's module in place; return whether anything changed."""
        shared = [
            found
            for function in functions_of(unit.module).values()
            if not function.is_external
            for block in _blocks_of(function)
            for found in _shared_updates(block)
        ]
        with index_functions(unit.module):
            for op, number in shared:
                with ir.InsertionPoint(op), op.location:
                    behind = iree_text.optimization_barrier(op.operands[number])
                op.operands[number] = behind
        return bool(shared)


def _blocks_of(function: Function) -> Iterator[Block]:
    """Yield the blocks of a function, and those of control flow nested in it."""
    rest = [block for region in control_regions(function) for block in region]
    while rest:
        block = rest.pop()
        yield block
        for op in block.operations:
            rest += [nested for region in control_regions(op) for nested in region]


def _shared_updates(block: Block) -> Iterator[tuple[Operation, int]]:
    """Yield ops, each with the index of its operand that is overwritten and read
    elsewhere.
    """
    begun = set[tuple[object, ...]]()
    for op in block.operations:
        if op.operation.name == "tensor.concat":
            whole = op.results[0].type, op.attributes["dim"]
            beginning = (*whole, *_source(op.operands[0]))
            if beginning in begun:
                yield op.operation, 0
            begun.add(beginning)
        elif _inserts_into_shared_concat(op.operation):
            yield op.operation, 1


def _inserts_into_shared_concat(op: Operation) -> bool:
    """Return whether an op inserts a slice into a concatenation with other uses."""
    if op.name != "tensor.insert_slice":
        return False
    return _is_assembled(op.operands[1]) and _has_other_uses(op.operands[1])


def _source(value: Value) -> tuple[Value, ir.Type]:
    """Return the tensor that a value is a view of, and the value's own type."""
    kind = value.type
    while not isinstance(value.owner, ir.Block) and value.owner.name in _VIEWS:
        value = value.owner.operands[0]
    return value, kind


def _is_assembled(value: Value) -> bool:
    """Return whether a value is made by `tensor.concat` or `tensor.insert_slice`."""
    names = ("tensor.concat", "tensor.insert_slice")
    return not isinstance(value.owner, ir.Block) and value.owner.name in names


def _has_other_uses(value: Value) -> bool:
    """Return whether a value with a use has a second one."""
    uses = iter(value.uses)
    next(uses)
    return next(uses, None) is not None
