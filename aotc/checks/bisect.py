"""Where a compiled model begins to differ: the stage, and the op.

A build is a chain: the framework, the imported graph, the graph after each pass, and
the compiled code. The outputs at each link are compared with those of the framework;
the first that differ tell the stage. Within it,

- of an import, what the framework and the importer compute for each node is compared;
- of compilation, an entry that also returns what its ops compute is compiled, and
  compared with the reference evaluator; parts of it, where there are many.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from aotc import reference
from aotc.artifacts.manifest import Leaf
from aotc.backend import compile_targets
from aotc.dialects.functions import copied, functions_of, keep_only, signature
from aotc.dialects.graph import GraphOp, where_of
from aotc.dialects.types import Tensor, evaluate_size
from aotc.frontends.program import Entry, Program
from aotc.frontends.survey import watched
from aotc.mlir import func, ir
from aotc.checks.differences import compare
from aotc.passes import run_passes
from aotc.runtime import engine
from aotc.runtime.contract import Contract
from aotc.runtime.function import Function
from aotc.runtime.loader import start
from aotc.target import Target

LOWERING = ("lower-to-linalg", "cse")  # the passes before it are on graphs
_AT_ONCE = 64  # values that a compiled entry returns besides its results


@dataclass(frozen=True)
class Divergence:
    """The first place where results differ.

    Args:
        stage: `import`, `compile`, or the name of a pass.
        op: the first op there that differs; None if none does by itself.
        where: its line or node.
        error: of what it gives, relative to its largest value.
    """

    stage: str
    op: str | None = None
    where: str | None = None
    error: float | None = None

    def to_json(self) -> dict[str, Any]:
        """As part of `aotc.parity/1`."""
        return {
            "stage": self.stage,
            "op": self.op,
            "where": self.where,
            "error": self.error,
        }

    def __str__(self) -> str:
        if self.op is None:
            return f"first differs after: {self.stage}; no single op does by itself"
        at = f" at {self.where}" if self.where else ""
        return f"first differs after: {self.stage}, in {self.op}{at} ({self.error:.1e})"


def diverging(
    program: Program,
    graph: Any,
    entry: Entry,
    target: Target,
    values: Sequence[Any],
    expected: Sequence[Any],
    tolerance: float | None,
    passes: Sequence[str],
) -> Divergence:
    """The first place where an entry differs from `expected`.

    Args:
        program: what was compiled.
        graph: a copy of its module in which all derivatives are written.
        entry: of it.
        target: that it was compiled for.
        values: all its arguments.
        expected: the outputs of the framework.
        tolerance: for floats, instead of those of their dtypes.
        passes: all those of a build, in order.
    """
    if not _agrees(graph, entry, values, expected, tolerance):
        network = program.networks.get(entry.name)
        ports = zip(entry.arguments, values, strict=True)
        inputs = [value for port, value in ports if port.kind == "input"]
        return _in_import(network, entry.input_tree.unflatten(inputs), tolerance)
    with graph.context, ir.Location.unknown():
        module = copied(graph)
        for name in passes[: passes.index(LOWERING[0])]:
            run_passes(module, (name,))
            if not _agrees(module, entry, values, expected, tolerance):
                return Divergence(name)
        return _in_code(module, entry, target, values, tolerance)


def arguments(program: Program, entry: Entry, arrays: Sequence[Any]) -> list[Any]:
    """All arguments of an entry: stored values, and `arrays` for the inputs."""
    inputs = iter(arrays)
    return [
        program.parameters[port.name] if port.kind != "input" else next(inputs)
        for port in entry.arguments
    ]


def evaluated(module: Any, entry: Entry, values: Sequence[Any]) -> list[Any]:
    """The outputs of an entry by the reference evaluator."""
    results = reference.evaluate(module, entry.name, values)
    ports = zip(entry.results, results, strict=True)
    return [array for port, array in ports if port.kind == "output"]


def _agrees(
    module: Any,
    entry: Entry,
    values: Sequence[Any],
    expected: Sequence[Any],
    tolerance: float | None,
) -> bool:
    pairs = zip(evaluated(module, entry, values), expected, strict=True)
    return all(compare("", x, y, tolerance).passed for x, y in pairs)


# ---- the import ---------------------------------------------------------------------


def _in_import(network: Any, inputs: Any, tolerance: float | None) -> Divergence:
    """The first node that the importer computes otherwise than the framework."""
    if network is None or network.original is None or network.original.steps is None:
        return Divergence("import")
    theirs = network.original.steps(inputs)
    found: list[Divergence] = []

    def look(node: Hashable, op: str, place: str, results: Any) -> None:
        if found or node not in theirs:
            return
        for x, y in zip(_arrays(results), _arrays(theirs[node]), strict=False):
            apart = compare("", x, y, tolerance)
            if not apart.passed:
                found.append(Divergence("import", op, place, apart.error))
                return

    with watched(look):
        network.computed(inputs)
    return found[0] if found else Divergence("import")


def _arrays(results: Any) -> list[Any]:
    """What of a node's results is arrays, as NumPy's."""
    if isinstance(results, (list, tuple)):
        return [array for each in results for array in _arrays(each)]
    data = getattr(results, "_data", results)
    return [data] if hasattr(data, "dtype") and hasattr(data, "shape") else []


# ---- the code -----------------------------------------------------------------------


def _in_code(
    module: Any,
    entry: Entry,
    target: Target,
    values: Sequence[Any],
    tolerance: float | None,
) -> Divergence:
    """The first op whose compiled result is not that of the reference."""
    truth: dict[Any, Any] = {}

    def keep(op: Any, _: Any, results: list[Any]) -> None:
        if isinstance(op, GraphOp):
            truth.update(zip(op.results, results, strict=True))

    reference.evaluate(module, entry.name, values, keep)
    block = functions_of(module)[entry.name].entry_block
    places = [
        (number, index)
        for number, op in enumerate(block.operations)
        for index, result in enumerate(op.results)
        if result in truth
    ]
    ops = list(block.operations)
    low, high, error = 0, len(places), None
    while low < high:
        tried = sorted({*range(low, high, max(1, (high - low) // _AT_ONCE)), high - 1})
        chosen = [places[i] for i in tried]
        found = _compiled(module, entry, target, values, chosen)
        apart = [
            compare("", x, truth[ops[number].results[index]], tolerance)
            for x, (number, index) in zip(found, chosen, strict=True)
        ]
        wrong = next((i for i, each in enumerate(apart) if not each.passed), None)
        if wrong is None:
            return Divergence("compile")
        low, high = (tried[wrong - 1] + 1 if wrong else low), tried[wrong]
        error = apart[wrong].error
    op = ops[places[high][0]]
    return Divergence("compile", f"graph.{type(op)._op_name}", where_of(op), error)


def _compiled(
    module: Any,
    entry: Entry,
    target: Target,
    values: Sequence[Any],
    places: Sequence[tuple[int, int]],
) -> list[Any]:
    """What ops of an entry give, compiled; by their number and that of the result."""
    module = copied(module)
    keep_only(module, [entry.name])
    function = functions_of(module)[entry.name]
    ops = list(function.entry_block.operations)
    _return_only(function, [ops[number].results[index] for number, index in places])
    inputs, outputs = signature(function)
    symbols = reference.bind_symbols(inputs, values)
    run_passes(module, LOWERING)
    program = Program(module, [Entry.flat(entry.name, inputs, outputs)])
    (variant,) = compile_targets(program, [target])
    backend = variant.target.backend
    code = start(variant.vmfb, backend, engine.device(backend, None))
    taken, returned = (
        [_leaf(f"x{i}", kind, symbols) for i, kind in enumerate(kinds)]
        for kinds in (inputs, outputs)
    )
    contract = Contract(entry.name, taken, {})
    call = Function(code, entry.name, entry.name, contract, returned, True)
    return list(call(values))


def _return_only(function: Any, results: Sequence[Any]) -> None:
    """Return these values instead of the results."""
    block = function.entry_block
    block.operations[len(block.operations) - 1].operation.erase()
    with ir.InsertionPoint(block):
        func.ReturnOp(results)
    whole = ir.FunctionType.get(
        [value.type for value in block.arguments], [value.type for value in results]
    )
    function.attributes["function_type"] = ir.TypeAttr.get(whole)
    if "res_attrs" in function.attributes:
        del function.attributes["res_attrs"]


def _leaf(name: str, kind: Tensor, symbols: Sequence[int]) -> Leaf:
    shape = tuple(evaluate_size(size, symbols) for size in kind.shape)
    return Leaf(name, kind.dtype, shape)
