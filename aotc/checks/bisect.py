"""Location of the first divergence of a compiled model: the stage, and the op.

A build is a chain: the framework, the imported graph, the graph after each pass, and
the compiled code. The outputs at each link are compared with those of the framework;
the first that differ tell the stage. Within it,

- of an import, what the framework and the importer compute for each node is compared;
- of compilation, an entry that also returns what its ops compute is compiled, and
  compared with the reference evaluator; parts of it, where there are many;
- where all of these are right, the entry is compiled without each of the passes that
  follow lowering (`late_passes`).
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from aotc import reference
from aotc.backend import CompiledVariant, compile_units
from aotc.checks.judging import ComparisonRule
from aotc.checks.late_passes import (
    LOWERING,
    SECONDS,
    graph_passes,
    late_passes,
    wrong_pass,
)
from aotc.checks.process import (
    DIED,
    CompiledProcess,
    DidNotEnd,
    code_of,
    export_at,
)
from aotc.checks.rounding import Noise
from aotc.core.json_values import JsonObject
from aotc.dialects.builder import Builder
from aotc.dialects.functions.entries import Entry
from aotc.dialects.functions.functions import (
    callee_of,
    copy_module,
    functions_of,
    keep_only,
    signature,
)
from aotc.dialects.graph import GraphOp, where_of
from aotc.dialects.types import Tensor
from aotc.errors import AotcError, CompileError
from aotc.mlir import Function, Module, Operation, Value, func, ir
from aotc.passes import run_passes
from aotc.passes.base import Unit
from aotc.passes.rematerialize import Rematerialize
from aotc.programs.program import Program
from aotc.tracing.survey import watch_nodes

# a module, an entry of it, and its arguments
EntryCall: TypeAlias = tuple[Module, Entry, Sequence[np.ndarray]]

_AT_ONCE = 64  # values that a compiled entry returns besides its results
_TOO_MANY = "binding count"  # in what IREE says of a dispatch with too many tensors
_ALIGNMENT = 64  # of the parts of a block of memory, in elements


@dataclass(frozen=True)
class Divergence:
    """The first pass, op or imported node whose results differ from the expected ones.

    Args:
        stage: `import`, `compile`, or the name of a pass.
        op: the first op there that differs; None if none does by itself.
        where: its line or node.
        error: of what it gives, relative to its largest value; None if the code dies.
    """

    stage: str
    op: str | None = None
    where: str | None = None
    error: float | None = None

    def to_json(self) -> JsonObject:
        """Return the divergence as part of an `aotc.parity/1` document."""
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
        error = "it dies" if self.error is None else f"{self.error:.1e}"
        return f"first differs after: {self.stage}, in {self.op}{at} ({error})"


def first_divergence(
    program: Program,
    graph: Module,
    entry: Entry,
    variant: CompiledVariant,
    values: Sequence[np.ndarray],
    expected: Sequence[np.ndarray],
    rule: ComparisonRule,
) -> Divergence:
    """Find the first stage and op where an entry's results differ from `expected`.

    Args:
        program: what was compiled.
        graph: a copy of its module in which all derivatives are written.
        entry: of it.
        variant: that is compared.
        values: all its arguments.
        expected: the outputs of the framework.
        rule: that says what is wrong.
    """
    noisy = partial(_noisy, graph, entry, values)

    def is_wrong(module: Module, entry: Entry, values: Sequence[np.ndarray]) -> bool:
        found = reference_outputs(module, entry, values)
        return any(e is not None for e in rule.errors(found, expected, noisy))

    if is_wrong(graph, entry, values):
        network = program.networks.get(entry.name)
        ports = zip(entry.arguments, values, strict=True)
        inputs = [value for port, value in ports if port.kind == "input"]
        return _import_divergence(network, entry.input_tree.unflatten(inputs), rule)
    with graph.context, ir.Location.unknown():
        unit = Unit(Program(graph, program.parameters)).fork(variant.target)
        ports = zip(entry.arguments, values, strict=True)
        given = {(port.kind, port.name): value for port, value in ports}
        call: EntryCall = unit.module, entry, values
        for each in graph_passes(variant):
            (record,) = run_passes(unit, (each,), silently=True)
            if record.changed:
                call = _call_after_passes(unit.program, entry.name, given)
                if is_wrong(*call):
                    return Divergence(str(each))
        module, lowered, arrays = call
        first = _CodeBisection(module, lowered, variant, arrays, rule).first()
        if first.op is None:
            blamed = wrong_pass(program, graph, entry, variant, values, rule)
            return first if blamed is None else Divergence(str(blamed))
        return first


def _call_after_passes(
    program: Program, name: str, original_arguments: Mapping[tuple[str, str], object]
) -> EntryCall:
    """Return module, entry and arguments that repeat a call after passes have run.

    Args:
        program: after the passes, which may have made other weights of the original.
        name: of the entry.
        original_arguments: those of the entry before the passes, by kind and name.
    """
    entry = program.entry(name)
    made = {("weight", name): array for name, array in program.parameters.items()}
    known = {**made, **original_arguments}
    values = [np.asarray(known[port.kind, port.name]) for port in entry.arguments]
    return program.module, entry, values


def locate_divergence(
    program: Program,
    graph: Module,
    entry: Entry,
    variant: CompiledVariant,
    values: Sequence[np.ndarray],
    expected: Sequence[np.ndarray],
    rule: ComparisonRule,
) -> tuple[str | None, str]:
    """Return the source line where an entry begins to differ, and a sentence for
    messages.

    Takes what `first_divergence` takes, and raises nothing: the failure itself is to
    be said.
    """
    try:
        first = first_divergence(program, graph, entry, variant, values, expected, rule)
    except AotcError as error:
        return None, f"where it begins was not found: {error.message}"
    return first.where, str(first)


def arguments(program: Program, entry: Entry, arrays: Sequence[Any]) -> list[Any]:
    """Return all arguments of an entry: stored values, and `arrays` for the inputs."""
    inputs = iter(arrays)
    return [
        program.parameters[port.name] if port.kind != "input" else next(inputs)
        for port in entry.arguments
    ]


def reference_outputs(
    module: Module,
    entry: Entry,
    values: Sequence[np.ndarray],
    with_op: reference.EvaluateOp | None = None,
) -> list[np.ndarray]:
    """Return the outputs of an entry, computed by the reference evaluator."""
    results = reference.evaluate(module, entry.name, values, with_op=with_op)
    ports = zip(entry.results, results, strict=True)
    return [array for port, array in ports if port.kind == "output"]


def _noisy(
    module: Module, entry: Entry, values: Sequence[np.ndarray], noise: Noise
) -> list[np.ndarray]:
    """Return the outputs of an entry by the reference evaluator with rounding noise."""
    return reference_outputs(module, entry, values, noise)


# ---- the import ---------------------------------------------------------------------


def _import_divergence(
    network: Any, inputs: object, rule: ComparisonRule
) -> Divergence:
    """Find the first imported node whose result differs from the framework's own;
    without a node if there is none.
    """
    if network is None or network.original is None or network.original.steps is None:
        return Divergence("import")
    theirs = network.original.steps(inputs)
    found: list[Divergence] = []

    def look(node: Hashable, op: str, place: str, results: object) -> None:
        if found or node not in theirs:
            return
        for x, y in zip(_arrays(results), _arrays(theirs[node]), strict=False):
            (error,) = rule.errors([x], [y], None)
            if error is not None:
                found.append(Divergence("import", op, place, error))
                return

    with watch_nodes(look):
        network.compute(inputs)
    return found[0] if found else Divergence("import")


def _arrays(results: object) -> list[Any]:
    """Return the arrays among a node's results, as NumPy arrays."""
    if isinstance(results, (list, tuple)):
        return [array for each in results for array in _arrays(each)]
    data = getattr(results, "_data", results)
    return [data] if hasattr(data, "dtype") and hasattr(data, "shape") else []


# ---- the code -----------------------------------------------------------------------


@dataclass
class _CodeBisection:
    """Bisects compiled code for the first op whose result differs from the
    reference.
    """

    module: Module
    entry: Entry
    variant: CompiledVariant
    values: Sequence[np.ndarray]
    rule: ComparisonRule
    _packs: bool = False  # arguments together

    def first(self) -> Divergence:
        """Find the first op whose compiled result is wrong, or whose code kills the
        process.
        """
        places = self._result_numbers()
        low, high, error = 0, len(places), None
        dead: int | None = None  # by this place the code has died
        while low < high:
            tried = _probe_points(low, high)
            errors = self._errors([places[i] for i in tried])
            if errors is None:
                dead = high
                if high - low == 1:
                    return self._divergence_at(places[low], None)
                high = (low + high) // 2
                continue
            wrong = next((i for i, each in enumerate(errors) if each is not None), None)
            if wrong is None:
                if dead is None:
                    break
                low, high, dead = high, dead, None  # it does so further on
                continue
            low, high = (tried[wrong - 1] + 1 if wrong else low), tried[wrong]
            error, dead = errors[wrong], None
        return (
            Divergence("compile")
            if error is None
            else self._divergence_at(places[high], error)
        )

    def _result_numbers(self) -> list[tuple[int, int]]:
        """Return (op number, result number) of all results of graph ops and calls."""
        return [
            (number, index)
            for number, op in enumerate(_ops(self.module, self.entry))
            if isinstance(op, (GraphOp, func.CallOp))
            for index in range(len(op.results))
        ]

    def _errors(
        self, result_numbers: Sequence[tuple[int, int]]
    ) -> list[float | None] | None:
        """Return the error of each of these op results, None if right; None for all if
        the code dies.
        """
        values_at = partial(
            _values_at, self.module, self.entry, self.values, result_numbers
        )
        try:
            found = self._compiled_values(result_numbers)
        except CompileError as error:
            if error.code != DIED:
                raise
            return None
        except DidNotEnd:
            return None
        return self.rule.errors(found, values_at(None), values_at)

    def _compiled_values(
        self, result_numbers: Sequence[tuple[int, int]]
    ) -> list[np.ndarray]:
        """Compile the entry to return these op results, run it, and return their
        arrays.

        A kernel that updates states finds them in one block of memory, and values on
        the way in another; here they are arguments and results of their own, and may be
        more than IREE binds to a dispatch. Then arguments are put together, and each
        half of the results is computed by itself.
        """
        given = self.module, self.entry, self.variant, self.values
        halves = [result_numbers]
        found: list[np.ndarray] = []
        while halves:
            part = halves.pop(0)
            try:
                found += _compiled_values(*given, part, packs=self._packs)
            except AotcError as error:
                if _TOO_MANY not in error.message or (self._packs and len(part) < 2):
                    raise
                middle = len(part) // 2 if self._packs else 0
                halves[:0] = [half for half in (part[:middle], part[middle:]) if half]
                self._packs = True
        return found

    def _divergence_at(
        self, result_number: tuple[int, int], error: float | None
    ) -> Divergence:
        """Return the divergence at an op, given by (op number, result number)."""
        op = _ops(self.module, self.entry)[result_number[0]]
        return Divergence("compile", _title(op), where_of(op), error)


def _probe_points(low: int, high: int) -> list[int]:
    """Return about `_AT_ONCE` evenly spaced numbers of range(low, high), and its
    last.
    """
    step = max(1, (high - low) // _AT_ONCE)
    return sorted({*range(low, high, step), high - 1})


def _ops(module: Module, entry: Entry) -> list[Operation]:
    """Return the ops of an entry's block in the module, its return among them."""
    return list(functions_of(module)[entry.name].entry_block.operations)


def _title(op: Any) -> str:
    """Return `graph.sin`, or `scan` and the like for calls of control flow."""
    if isinstance(op, func.CallOp):
        return callee_of(op).rpartition(".")[2]
    return f"graph.{type(op)._op_name}"


def _values_at(
    module: Module,
    entry: Entry,
    values: Sequence[np.ndarray],
    result_numbers: Sequence[tuple[int, int]],
    with_op: reference.EvaluateOp | None,
) -> list[np.ndarray]:
    """Evaluate an entry by the reference evaluator; return the arrays of inner op
    results, given by (op number, result number).
    """
    ops = _ops(module, entry)
    wanted = [ops[number].results[index] for number, index in result_numbers]
    kept, found = set(wanted), dict[Value, np.ndarray]()

    def keep(op: Operation, _: list[np.ndarray], results: list[np.ndarray]) -> None:
        pairs = zip(op.results, results, strict=True)
        found.update({value: x for value, x in pairs if value in kept})

    reference.evaluate(module, entry.name, values, keep, with_op=with_op)
    return [found[value] for value in wanted]


def _compiled_values(
    module: Module,
    entry: Entry,
    variant: CompiledVariant,
    values: Sequence[np.ndarray],
    result_numbers: Sequence[tuple[int, int]],
    *,
    packs: bool,
) -> list[np.ndarray]:
    """Compile and run an entry that returns inner op results; return their arrays.

    Args:
        module: that the entry is in.
        entry: of it.
        variant: that is compared.
        values: the arguments of the entry.
        result_numbers: op and result number of each value to return.
        packs: whether arguments of fixed sizes are put together.
    """
    module = copy_module(module)
    keep_only(module, [entry.name])
    function = functions_of(module)[entry.name]
    ops = list(function.entry_block.operations)
    _return_only(
        function, [ops[number].results[index] for number, index in result_numbers]
    )
    symbols = reference.bind_symbols(signature(function)[0], values)
    if packs:
        values = _pack_arguments(function, values)
    inputs, outputs = signature(function)
    flat = Entry.flat(entry.name, inputs, outputs)
    unit = Unit(Program.of_functions(module, [flat])).fork(variant.target)
    late = [  # a budget is that of the entry with its own results
        each
        for each in late_passes(variant, entry)
        if not isinstance(each, Rematerialize)
    ]
    run_passes(unit, (LOWERING, *late), silently=True)
    (compiled,) = compile_units([unit])
    code = code_of(compiled, [export_at(entry.name, inputs, outputs, symbols)])
    with CompiledProcess(code, SECONDS) as process:
        return process.call(entry.name, values)[0]


def _pack_arguments(
    function: Function, values: Sequence[np.ndarray]
) -> list[np.ndarray]:
    """Pack a function's fixed-size arguments into one per dtype; return all values to
    call it with.

    The new ones come after those that stay. Returns the values of all.
    """
    block, build = function.entry_block, Builder()
    kinds = [Tensor.of(argument) for argument in block.arguments]
    packed: dict[str, list[int]] = {}
    for number, kind in enumerate(kinds):
        if all(isinstance(size, int) for size in kind.shape):
            packed.setdefault(kind.dtype, []).append(number)
    found = list(values)
    for dtype, numbers in packed.items():
        ends = np.cumsum(
            [-(-found[n].size // _ALIGNMENT) * _ALIGNMENT for n in numbers]
        )
        begins = [0, *ends[:-1].tolist()]
        whole = np.zeros(int(ends[-1]), found[numbers[0]].dtype)
        packed_type = Tensor(whole.shape, dtype).to_mlir()
        argument = block.add_argument(packed_type, function.location)
        with ir.InsertionPoint.at_block_begin(block), function.location:
            for n, begin in zip(numbers, begins, strict=True):
                size = found[n].size
                whole[begin : begin + size] = np.ravel(found[n])
                part = build.slice(
                    argument, start=(begin,), sizes=(size,), strides=(1,)
                )
                value = build.reshape(part, shape=kinds[n].shape)
                block.arguments[n].replace_all_uses_with(value)
        found.append(whole)
    for number in sorted((n for each in packed.values() for n in each), reverse=True):
        block.erase_argument(number)
        del found[number]
    _update_function_type(function)
    return found


def _return_only(function: Function, results: Sequence[Value]) -> None:
    """Rewrite a function to return these values instead of its results."""
    block = function.entry_block
    block.operations[len(block.operations) - 1].operation.erase()
    with ir.InsertionPoint(block):
        func.ReturnOp(results)
    _update_function_type(function)


def _update_function_type(function: Function) -> None:
    """Set a function's type attribute from its block arguments and returned values."""
    *_, end = function.entry_block.operations
    arguments = [value.type for value in function.entry_block.arguments]
    whole = ir.FunctionType.get(arguments, [value.type for value in end.operands])
    function.attributes["function_type"] = ir.TypeAttr.get(whole)
    for name in ("arg_attrs", "res_attrs"):
        if name in function.attributes:
            del function.attributes[name]
