"""Exported programs → `Imported`: which placeholder is a weight, a state, an input."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import sympy
import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import (
    ConstantArgument,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    TensorArgument,
    TokenArgument,
)
from torch.utils._pytree import TreeSpec

from aotc.complexes import Complex
from aotc.core.pytree import PyTree, flatten
from aotc.dialects.types import Shape, SymbolicDim
from aotc.importers.common.declared import Declared, require_declared_shapes
from aotc.importers.common.imported import Imported
from aotc.importers.common.padded import (
    count_of,
    data_dependent_sizes,
    is_data_dependent,
)
from aotc.importers.torch import nodes
from aotc.importers.torch.dropping import REFUSED, drawing_from, drops
from aotc.importers.torch.export_guards import ExportSizeGuard, Unkept, size_guards
from aotc.importers.torch.exporting import decompose, decompositions
from aotc.importers.torch.interpreter import evaluate
from aotc.importers.torch.original import of_program
from aotc.importers.torch.symbolic import AreKept, named_dims, never_kept, term_of
from aotc.importers.torch.tensors import (
    PARTS,
    array_of,
    declared_of,
    is_known,
    memory_of,
    name_of_dtype,
    numpy_of,
)
from aotc.importers.torch.trees import leaves_of, tree_of
from aotc.importers.torch.unbacked import symbols_of
from aotc.importers.torch.unsupported import note_decompositions, unsupported_ops
from aotc.tracing.array import Array
from aotc.tracing.conversion import lift
from aotc.tracing.dims import Dim as Named
from aotc.tracing.entry import Spec, State, Weights
from aotc.tracing.findings import OpFinding, grouped_findings
from aotc.tracing.source_locations import fail, relative_path
from aotc.tracing.survey import require_importable

# larger constants are stored with the weights instead of in the code
_LARGEST_CONSTANT = 64 << 10
_ZERO_POINTS = {"zero_point", "zero_points"}  # as quantised ops call them


def network_of(
    program: ExportedProgram, train: bool = False, are_kept: AreKept = never_kept
) -> Imported:
    """Return an exported program as a network: an entry function of weights and inputs.

    Args:
        program: what torch.export made.
        train: let it drop elements at random: then it takes a `key` with each call.
        are_kept: whether a size, by its name, has no less than 2 if it was traced so.

    Raises:
        InputError: something in it cannot be imported; all of it is named.
    """
    source, program = program, decompose(program)
    if program is not source:
        note_decompositions(source.graph_module, decompositions())
    guards = size_guards(program, _arguments(program))
    dropped = [] if train else grouped_findings(_dropout_obstacles(program))
    unkept = grouped_findings(_guard_obstacles(guards))
    require_importable([*import_obstacles(program), *dropped, *unkept])
    slots = list(_slots(program))
    weights = {slot.key: slot.value for slot in slots if slot.kind == "weight"}
    state = {slot.key: slot.value for slot in slots if slot.kind == "state"}
    kept = tuple(each for each in guards if isinstance(each, ExportSizeGuard))
    inputs = _inputs(program, kept, are_kept)
    key = "key" + "_" * ("key" in inputs) if train and _has_dropout(program) else None
    named = inputs if key is None else {**inputs, key: Spec((2,), "u32")}
    computed = of_program(source, program, dict(_arguments(source)))
    return Imported(
        _Network(
            program,
            slots,
            tuple(inputs),
            bool(weights),
            bool(state),
            kept,
            key,
        ),
        named,
        Weights(weights, copy=False) if weights else None,
        State(state) if state else None,
        # PyTorch would draw other numbers
        original=computed if key is None else None,
        buffers_in=frozenset(slot.key for slot in slots if slot.is_buffer),
    )


# ---- what cannot be imported --------------------------------------------------------

_STORED = {InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR}
_INPUTS = {InputKind.USER_INPUT, InputKind.TOKEN, *_STORED}
_ARGUMENTS = (TensorArgument, ConstantArgument, TokenArgument)
Obstacle = tuple[str, str, str, str]  # what, why, where and what to do
_UPDATES = {OutputKind.BUFFER_MUTATION, OutputKind.PARAMETER_MUTATION}


def import_obstacles(program: ExportedProgram) -> list[OpFinding]:
    """Return why an exported program cannot be imported: unsupported ops, inputs,
    outputs.
    """
    signature = program.graph_signature
    return [
        *unsupported_ops(program.graph_module),
        *grouped_findings(_input_obstacles(signature.input_specs)),
        *grouped_findings(_stored_obstacles(program)),
        *grouped_findings(_output_obstacles(signature.output_specs)),
        *grouped_findings(_padded_outputs(program)),
    ]


def _input_obstacles(specs: Sequence[InputSpec]) -> Iterator[Obstacle]:
    """Yield inputs that are no tensors or are varying numbers, as obstacles."""
    for spec in specs:
        if spec.kind not in _INPUTS:
            what = spec.kind.name.lower().replace("_", " ")
            yield what, "it is no tensor", spec.arg.name, "pass tensors only"
        elif not isinstance(spec.arg, _ARGUMENTS):
            advice = "give it as a tensor, or leave it fixed in dynamic_shapes"
            yield "input", "it is a number that varies", spec.arg.name, advice


def _stored_obstacles(program: ExportedProgram) -> Iterator[Obstacle]:
    """Yield stored tensors of unsupported layout or dtype, as obstacles."""
    for spec, tensor in _stored_tensors(program):
        what = spec.kind.name.lower()
        if tensor.layout is not torch.strided:
            yield what, f"its layout is {tensor.layout}", spec.target, "make it dense"
        elif not is_known(tensor.dtype):
            yield what, f"its dtype is {tensor.dtype}", spec.target, "convert it"


def _output_obstacles(specs: Sequence[OutputSpec]) -> Iterator[Obstacle]:
    """Yield writes to inputs, as obstacles."""
    for spec in specs:
        if spec.kind is OutputKind.USER_INPUT_MUTATION:
            advice = (
                "return a new tensor instead of writing to the input, or keep it in a "
                "buffer of the module, which becomes state"
            )
            yield "mutation", "the model writes to its input", spec.target, advice


def _padded_outputs(program: ExportedProgram) -> Iterator[Obstacle]:
    """Yield outputs of data-dependent shape, as obstacles."""
    (end,) = (node for node in program.graph.nodes if node.op == "output")
    for node in end.all_input_nodes:
        made = node.meta.get("val")
        if isinstance(made, torch.Tensor) and symbols_of(made):
            shape = _UNBACKED.sub("?", str(tuple(made.shape)))
            yield (
                "output",
                f"a result of the module has shape {shape}, which depends on values",
                nodes.shown_place(node),
                "return it at a fixed size with the count beside it: "
                "x.new_zeros(64, 3).index_copy(0, torch.arange(y.shape[0]), y), "
                "y.shape[0]; or the mask and x themselves",
            )


_UNBACKED = re.compile(r"\bu\d+\b")  # torch's symbols for what values decide


def _guard_obstacles(
    guards: Sequence[ExportSizeGuard | Unkept],
) -> Iterator[Obstacle]:
    """Yield guards that aotc cannot check, as obstacles."""
    for guard in guards:
        if isinstance(guard, Unkept):
            place = (
                f"{relative_path(guard.place[0])}:{guard.place[1]}"
                if guard.place
                else ""
            )
            reason = f"'{guard.text}' is no condition on sizes that aotc can check"
            yield "guard", reason, place, "give the sizes in it as numbers"


# ---- placeholders -------------------------------------------------------------------


@dataclass(frozen=True)
class _Slot:
    """The role of a graph placeholder: weight, state, input or constant.

    Args:
        kind: `weight`, `state`, `input` or `fixed`.
        key: of the weight or state, or the number of the input among the leaves.
        value: of the weight, the state when the model starts, or what is fixed.
        is_buffer: whether it is a weight that is no parameter.
    """

    kind: str
    key: Any = None
    value: Any = None
    is_buffer: bool = False


def _slots(program: ExportedProgram) -> Iterator[_Slot]:
    """Yield the role of each placeholder of the graph, in order."""
    signature = program.graph_signature
    updated = {s.target for s in signature.output_specs if s.kind in _UPDATES}
    stored = {spec.target: tensor for spec, tensor in _stored_tensors(program)}
    offsets = {*_uniform_zero_points(program)} - updated
    first: dict[object, str] = {}
    leaves = 0
    for spec in signature.input_specs:
        if spec.kind is InputKind.USER_INPUT:
            yield _input_slot(spec, leaves)
            leaves += 1
        elif spec.target not in stored:
            yield _Slot("fixed")
        elif spec.target in offsets:
            yield _Slot("fixed", value=array_of(stored[spec.target]))
        else:
            tensor = stored[spec.target]
            key = first.setdefault(memory_of(tensor), spec.target)
            yield _stored_slot(spec, key, tensor, key in updated)


def _input_slot(spec: InputSpec, number: int) -> _Slot:
    """Return the role of an argument's leaf: an input, or a fixed constant."""
    if isinstance(spec.arg, ConstantArgument):
        return _Slot("fixed", value=spec.arg.value)
    return _Slot("input", number)


def _stored_tensors(
    program: ExportedProgram,
) -> Iterator[tuple[InputSpec, torch.Tensor]]:
    """Yield each parameter, buffer or constant that the graph reads, with its spec."""
    users = {n.name: n.users for n in program.graph.nodes if n.op == "placeholder"}
    for spec in program.graph_signature.input_specs:
        if spec.kind in _STORED and users[spec.arg.name]:
            held = spec.target in program.state_dict
            yield spec, (program.state_dict if held else program.constants)[spec.target]


def _uniform_zero_points(program: ExportedProgram) -> Iterator[str]:
    """Yield names of quantisation zero points with one value for all channels.

    What is known of it decides whether integers can be multiplied.
    """
    nodes_of = {n.name: n for n in program.graph.nodes if n.op == "placeholder"}
    for spec, tensor in _stored_tensors(program):
        node = nodes_of[spec.arg.name]
        roles = {
            role for reader in node.users for role in _parameter_names(node, reader)
        }
        is_small = 0 < tensor.nbytes <= _LARGEST_CONSTANT
        is_read = roles and roles <= _ZERO_POINTS and is_small
        if is_read and bool((tensor == tensor.flatten()[0]).all()):
            yield spec.target


def _parameter_names(node: torch.fx.Node, reader: torch.fx.Node) -> set[str]:
    """Return names of parameters by which `reader` takes `node`; {""} if unknown."""
    schema = getattr(reader.target, "_schema", None)
    named = [*reader.kwargs.items()]
    if schema is not None:
        named += zip((x.name for x in schema.arguments), reader.args, strict=False)
    return {name for name, value in named if value is node} or {""}


def _stored_slot(
    spec: InputSpec, key: str, tensor: torch.Tensor, updated: bool
) -> _Slot:
    """Return the role of a stored tensor: a state, a small constant, or a weight."""
    if updated:
        return _Slot("state", key, numpy_of(tensor))
    persistent = spec.kind is InputKind.PARAMETER or spec.persistent
    if persistent or tensor.nbytes > _LARGEST_CONSTANT:
        trained = spec.kind is InputKind.PARAMETER and tensor.is_floating_point()
        return _Slot("weight", key, numpy_of(tensor), not trained)
    return _Slot("fixed", value=array_of(tensor))


def _inputs(
    program: ExportedProgram, guards: Sequence[ExportSizeGuard], are_kept: AreKept
) -> dict[str, Any]:
    """Return the Specs of each argument by its name in `forward`."""
    fakes = {n.name: n.meta.get("val") for n in program.graph.nodes}
    specs = [
        spec.arg
        for spec in program.graph_signature.input_specs
        if spec.kind is InputKind.USER_INPUT
    ]
    tensors = {a.name: fakes[a.name] for a in specs if isinstance(a, TensorArgument)}
    multiples = {
        (specs[number].name, axis): step
        for (number, axis), step in filter(None, (each.multiple() for each in guards))
    }
    dims = named_dims(program, tensors, multiples, are_kept)
    leaves = iter([_spec_of(tensors.get(arg.name), dims) for arg in specs])
    trees = {name: tree_of(form, leaves) for name, form in _arguments(program)}
    # a flag, say, is the one that the module was exported with
    return {name: tree for name, tree in trees.items() if flatten(tree)[0]}


def _spec_of(
    tensor: torch.Tensor | None, dims: Mapping[sympy.Symbol, Named]
) -> Spec | Complex | None:
    """Return a tensor's Spec, a pair for complex dtypes; None for a constant
    argument.
    """
    if tensor is None:
        return None
    dtype = name_of_dtype(tensor.dtype)
    spec: Any = Spec(
        tuple(term_of(size, dims) for size in tensor.shape), PARTS.get(dtype, dtype)
    )
    return Complex(spec, spec) if dtype in PARTS else spec


def _arguments(program: ExportedProgram) -> list[tuple[str, TreeSpec]]:
    """Return name and TreeSpec of each argument of `forward` in the export."""
    positional, keywords = program.call_spec.in_spec.children()
    names = program.module_call_graph[0].signature.forward_arg_names or []
    count = positional.num_children
    given = [names[i] if i < len(names) else f"arg{i}" for i in range(count)]
    forms = [*positional.children(), *keywords.children()]
    return list(zip([*given, *keywords.context], forms, strict=True))


def _dropout_obstacles(program: ExportedProgram) -> Iterator[Obstacle]:
    """Yield dropout ops as obstacles: they need a random key."""
    for node in filter(drops, nodes.calls(program.graph_module)):
        yield str(node.target), REFUSED[0], nodes.shown_place(node), REFUSED[1]


def _has_dropout(program: ExportedProgram) -> bool:
    """Return whether a program has dropout that is active."""
    return any(map(drops, nodes.calls(program.graph_module)))


_VARIES = object()  # what is no flag


def _fixed_leaves(program: ExportedProgram) -> Iterator[object]:
    """Yield, for each argument leaf, the constant it is fixed to, or `_VARIES`."""
    for spec in program.graph_signature.input_specs:
        if spec.kind is InputKind.USER_INPUT:
            constant = isinstance(spec.arg, ConstantArgument)
            yield spec.arg.value if constant else _VARIES


# ---- the network --------------------------------------------------------------------


@dataclass(frozen=True)
class _Network:
    """An exported program as a Python function of traced arrays."""

    program: ExportedProgram
    slots: Sequence[_Slot]
    inputs: tuple[str, ...]
    has_weights: bool
    has_state: bool
    guards: tuple[ExportSizeGuard, ...] = ()
    key: str | None = None

    def __call__(self, *args: PyTree, **kwargs: PyTree) -> PyTree:
        """Return the network's results for (weights, state, inputs…); see
        `Imported`.
        """
        remaining = list(args)
        weights: Any = remaining.pop(0) if self.has_weights and remaining else {}
        state: Any = remaining.pop(0) if self.has_state and remaining else {}
        inputs = self.inputs if self.key is None else (*self.inputs, self.key)
        every = [name for name, _ in _arguments(self.program)]
        whole = len(remaining) + len(kwargs) > len(inputs)  # flags are given as well
        given = dict(zip(every if whole else inputs, remaining, strict=False)) | kwargs
        known = set(inputs) <= set(given) <= {*inputs, *every}
        if not known or len(remaining) > len(given):
            stored = ["weights"] * self.has_weights + ["state"] * self.has_state
            named = [f"{len(args)} by position", *kwargs]
            fail(
                "bad-call",
                f"expected ({', '.join([*stored, *inputs])}); got {', '.join(named)}",
            )
        leaves = self._leaves(given)
        for guard in self.guards:
            guard.require(leaves)
        sources = {"weight": weights, "state": state, "input": leaves}
        values = [
            slot.value if slot.kind == "fixed" else _lift(sources[slot.kind][slot.key])
            for slot in self.slots
        ]
        settled = {guard.node for guard in self.guards}
        key = None if self.key is None else lift(given[self.key])
        declared = require_declared_shapes(self._declared(values))
        with drawing_from(key), data_dependent_sizes(), declared:
            results = evaluate(self.program.graph_module, values, settled)
            return self._pack_results(state, results)

    def _declared(
        self, values: Sequence[Array | Complex]
    ) -> Iterator[tuple[Declared, Shape]]:
        """Yield the shape that torch states for each array, and the shape it has."""
        nodes = [n for n in self.program.graph.nodes if n.op == "placeholder"]
        for node, slot, value in zip(nodes, self.slots, values, strict=True):
            made = node.meta.get("val")
            if slot.kind != "fixed" and isinstance(made, torch.Tensor):
                yield declared_of(made), value.shape

    def _leaves(self, given: Mapping[str, PyTree]) -> list[Any]:
        """Return the argument leaves, flattened; refuse constants other than the
        exported.
        """
        fixed: list[Any] = list(_fixed_leaves(self.program))
        leaves: list[Any] = []
        for name, form in _arguments(self.program):
            if name not in given:
                leaves += [None] * form.num_leaves
                continue
            for leaf in leaves_of(form, given[name]):
                wanted = fixed[len(leaves)]
                if wanted is not _VARIES and not np.array_equal(leaf, wanted):
                    fail(
                        "bad-call",
                        f"the module was exported for {name}={wanted!r}; got {leaf!r}",
                        "import it a second time for another one",
                    )
                leaves.append(leaf)
        return leaves

    def _pack_results(
        self, state: Mapping[str, object], results: Sequence[object]
    ) -> PyTree:
        """Return results in torch's containers; (new state, result) if there is a
        state.
        """
        new, leaves = dict(state), []
        specs = self.program.graph_signature.output_specs
        for spec, value in zip(specs, results, strict=True):
            if spec.kind in _UPDATES:
                new[spec.target] = value
            elif spec.kind is not OutputKind.TOKEN:
                leaves.append(_as_output(value))
        result = tree_of(self.program.call_spec.out_spec, iter(leaves))
        return (new, result) if self.has_state else result


def _lift(value: object) -> Array | Complex:
    """Return an array, or a complex pair, lifted for tracing."""
    return value.map(lift) if isinstance(value, Complex) else lift(value)


def _as_output(value: Any) -> Array | Complex | None:
    """Return a result as an array; numbers and sizes get PyTorch's dtypes."""
    if value is None or isinstance(value, Complex):
        return value
    if is_data_dependent(value):
        return count_of(value)
    whole = isinstance(value, int | SymbolicDim) and not isinstance(value, bool)
    return lift(value, "i64" if whole else None)
