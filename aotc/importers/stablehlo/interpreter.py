"""The walk over a StableHLO module that calls a function of `ops` for each op."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from aotc.errors import AotcError
from aotc.importers.common.declared import require_declared, undeclared_shapes
from aotc.importers.stablehlo.known_sizes import computed_sizes
from aotc.importers.stablehlo.operation import Op, Region
from aotc.importers.stablehlo.ops import OPS
from aotc.importers.stablehlo.values import Value, zeros_of
from aotc.mlir import ir
from aotc.tracing.source_locations import at_location, fail, user_place
from aotc.tracing.survey import import_node

Environment = ChainMap[ir.Value, Value]

RETURNS = ("func.return", "stablehlo.return")


class StableHloInterpreter:
    """Interprets functions of a StableHLO module, on traced or concrete values.

    Args:
        module: of StableHLO, CHLO and func; verified.
        weights: what constants of the module were turned into, by the constant's op.
    """

    def __init__(
        self, module: ir.Module, weights: Mapping[ir.Value, Value] | None = None
    ) -> None:
        self.functions = functions_of(module)
        self.weights = weights or {}

    def call(self, name: str, operands: Sequence[Value]) -> list[Value]:
        """Run the function `name` on operands, and return its results."""
        return self._run(
            self.functions[name].regions[0].blocks[0], operands, ChainMap()
        )

    def _run(
        self, block: ir.Block, operands: Sequence[Value], outer: Environment
    ) -> list[Value]:
        """Run a block on operands, and return what its terminator returns."""
        values = outer.new_child(dict(zip(block.arguments, operands, strict=True)))
        for each in block.operations:
            operation = each.operation
            inputs = [values[operand] for operand in operation.operands]
            if operation.name in RETURNS:
                return inputs
            results = self._results(operation, inputs, values)
            values.update(zip(operation.results, results, strict=True))
        return []

    def _results(
        self, op: ir.Operation, operands: list[Value], values: Environment
    ) -> list[Value]:
        """Return an op's results; under `aotc explain`, placeholders if it fails."""
        if op.name == "stablehlo.constant" and op.results[0] in self.weights:
            return [self.weights[op.results[0]]]
        if op.name in ("func.call", "call"):
            return self.call(Op(op).text("callee"), operands)
        regions = [self._region(region, values) for region in op.regions]
        node = Op(op, regions, self.call, values)

        def run() -> list[Value]:
            results = _evaluate_op(node, operands)
            pairs = zip(node.kinds, results, strict=True)
            for number, (kind, result) in enumerate(pairs):
                if kind is not None:
                    what = f"result {number} of {op.name}"
                    require_declared(what, kind.shape, result)
            return results

        def zeros() -> list[Value]:
            return [zeros_of(result.type) for result in op.results]

        with at_op(node):
            # objects for operations do not last, those for values do
            key = op.results[0] if len(op.results) else node.place
            return import_node(key, op.name, run, zeros)

    def _region(self, region: ir.Region, values: Environment) -> Region:
        """Return a region as a function of its block arguments."""

        def run(*operands: Value) -> list[Value]:
            with undeclared_shapes():  # a region may be run for all elements at once
                return self._run(region.blocks[0], operands, values)

        return run


def _evaluate_op(node: Op, operands: list[Value]) -> list[Value]:
    """Return an op's results, by size arithmetic if possible, else by its function in
    `OPS`.
    """
    found: Any = computed_sizes(node, operands) if len(node.op.results) == 1 else None
    if found is None and node.name not in OPS:
        fail("unsupported-ops", f"aotc does not import {node.name}")
    if found is None:
        found = OPS[node.name](node, *operands)
    # a Complex is a tuple as well, but one value
    return list(found) if type(found) in (tuple, list) else [found]


def functions_of(module: ir.Module) -> dict[str, ir.Operation]:
    """Return the functions of a module that have a body, by name."""
    functions = {}
    for each in module.body.operations:
        if each.operation.name == "func.func" and list(each.operation.regions[0]):
            name = ir.StringAttr(each.operation.attributes["sym_name"]).value
            functions[str(name)] = each.operation
    return functions


def nested_operations(operation: ir.Operation) -> Iterator[ir.Operation]:
    """Yield the ops nested in an op, in pre-order."""
    for region in operation.regions:
        for block in region.blocks:
            for each in block.operations:
                yield each.operation
                yield from nested_operations(each.operation)


@contextmanager
def at_op(op: Op) -> Iterator[None]:
    """Locate errors and emitted ops within this block at a StableHLO op."""
    place, path = op.place
    try:
        with at_location(place or user_place(), path or op.name):
            yield
    except AotcError as error:
        error.call = error.call or op.name
        raise
