"""The ops of a StableHLO module's `main` as nodes to split."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from aotc.hybrid_programs.graphs.pieces import GraphNode
from aotc.importers.stablehlo.contracts import global_constants
from aotc.importers.stablehlo.copying import TOKEN, inline_calls_of_main, read_values
from aotc.importers.stablehlo.interpreter import functions_of
from aotc.importers.stablehlo.operation import Op
from aotc.importers.stablehlo.unsupported import reason_against
from aotc.mlir import ir

# cheaper to compute again in each piece than to hand over, if their operands are such
_REPEATED = ("stablehlo.constant", "stablehlo.iota", "stablehlo.broadcast_in_dim")
_LONGEST_SHAPE = 64  # elements of a tensor that may be about sizes
_CHECK = "shape_assertion"


class MainFunction:
    """The main function of a StableHLO module, its calls inlined; its values are
    numbered.

    Args:
        module: which is changed.
        name: of the function.

    Attributes:
        arguments, results: numbers of what it is given and returns, without tokens.
        tokens: numbers of values that only order effects.
        repeated: of those that each piece computes by itself.
        sizes: of those that follow from the sizes of arguments alone.
        operations: that compute something, as `nodes`.
    """

    def __init__(self, module: ir.Module, name: str) -> None:
        inline_calls_of_main(module, name)
        self.module = module
        function = functions_of(module)[name]
        block = function.regions[0].blocks[0]
        *operations, last = [each.operation for each in block.operations]
        self.values = [*block.arguments, *(r for op in operations for r in op.results)]
        self._numbers = {value: number for number, value in enumerate(self.values)}
        self.tokens = {n for n, x in enumerate(self.values) if str(x.type) == TOKEN}
        self.all_arguments = [self._numbers[x] for x in block.arguments]
        self.arguments = [n for n in self.all_arguments if n not in self.tokens]
        returned = [self._numbers[x] for x in last.operands]
        self.results = [n for n in returned if n not in self.tokens]
        self.repeated = self._find_repeated(operations, {*returned})
        self.sizes = self._find_sizes(operations, global_constants(function))
        self.operations = self._used(operations, {*returned})
        functions = functions_of(module)
        self.nodes = [
            self._node(each, reason_against(each, functions))
            for each in self.operations
        ]
        self._makers = {
            value: number
            for number, node in enumerate(self.nodes)
            for value in node.makes
        }

    def number(self, value: ir.Value) -> int | None:
        """Return the number of an MLIR value; None for one within a region of an op."""
        return self._numbers.get(value)

    def maker(self, value: ir.Value) -> int | None:
        """Return the number of the node that computes an MLIR value; None if no node
        does.
        """
        return self._makers.get(self._numbers.get(value, -1))

    def should_copy(self, value: ir.Value) -> bool:
        """Return whether each piece has a value itself: a token, or cheap to
        recompute.
        """
        number = self.number(value)
        return number in self.repeated or number in self.tokens

    def _reads(self, operation: ir.Operation) -> set[int]:
        """Return the numbers of the values that an operation and its regions read."""
        return {self._numbers[x] for x in read_values(operation) if x in self._numbers}

    def _makes(self, operation: ir.Operation) -> tuple[int, ...]:
        """Return the numbers of an operation's results."""
        return tuple(self._numbers[x] for x in operation.results)

    def _node(self, operation: ir.Operation, reason: str) -> GraphNode[int]:
        """Return the GraphNode of an operation, with the reason why it is not
        imported.
        """
        op = Op(operation)
        title = op.name
        if op.name == "stablehlo.custom_call":
            title = f"custom_call @{op.text('call_target_name')}"
        reads = frozenset(self._reads(operation) - self.repeated)
        return GraphNode(reads, self._makes(operation), title, op.where, reason)

    def _find_repeated(
        self, operations: Iterable[ir.Operation], returned: set[int]
    ) -> frozenset[int]:
        """Return the numbers of the cheap values that each piece recomputes, such as
        constants.
        """
        found = set[int]()
        for each in operations:
            makes = {*self._makes(each)}
            is_cheap = each.name in _REPEATED and not makes & returned
            if is_cheap and self._reads(each) <= found:
                found |= makes
        return frozenset(found)

    def _find_sizes(
        self, operations: Iterable[ir.Operation], variables: Sequence[str]
    ) -> frozenset[int]:
        """Return the numbers of short integer tensors computed from sizes alone."""
        pairs = zip(self.all_arguments, variables, strict=True)
        found = {number for number, title in pairs if title}
        for each in operations:
            reads = self._reads(each)
            is_size = each.name == "stablehlo.get_dimension_size"
            is_computed = reads & found and reads <= found | self.repeated
            if is_size or (is_computed and all(map(_may_be_shape, each.results))):
                found |= {*self._makes(each)}
        return frozenset(found)

    def _used(
        self, operations: Sequence[ir.Operation], wanted: set[int]
    ) -> list[ir.Operation]:
        """Return the operations that a result or effect needs, without the recomputed
        ones.
        """
        functions, kept = functions_of(self.module), list[ir.Operation]()
        for each in reversed(operations):
            makes = {*self._makes(each)}
            if makes and makes <= self.repeated:
                continue
            is_check = Op(each).text("call_target_name") == _CHECK
            if makes & wanted or is_check or reason_against(each, functions):
                kept.append(each)
                wanted |= self._reads(each)
        return kept[::-1]


def _may_be_shape(value: ir.Value) -> bool:
    """Return whether a value is an integer or bool tensor of at most 64 elements."""
    if (
        not isinstance(value.type, ir.RankedTensorType)
        or not value.type.has_static_shape
    ):
        return False
    count = 1
    for size in value.type.shape:
        count *= size
    is_integer = isinstance(value.type.element_type, ir.IntegerType)
    return is_integer and count <= _LONGEST_SHAPE
