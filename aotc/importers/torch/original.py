"""An exported program as PyTorch computes it, as a whole and node by node."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import ConstantArgument, InputKind
from torch.fx import Interpreter, Node
from torch.utils import _pytree

from aotc.core import dtypes
from aotc.core.pytree import PyTree, flatten
from aotc.importers.common.original import Inputs, Original
from aotc.importers.torch.tensors import numpy_of, tensor_of
from aotc.importers.torch.trees import leaves_of, tree_of


def of_program(
    source: ExportedProgram,
    program: ExportedProgram,
    forms: Mapping[str, _pytree.TreeSpec],
) -> Original:
    """Return an `Original` that runs an exported program in PyTorch, to compare with.

    Args:
        source: as it was exported.
        program: the same in the ops that are imported.
        forms: of its arguments, by name.
    """

    def run(inputs: Inputs) -> PyTree:
        args, kwargs = _pytree.tree_unflatten(
            _leaves(source, forms, inputs), source.call_spec.in_spec
        )
        # a call may write to buffers, which are the importer's arrays as well
        module = copy.deepcopy(source).module()
        with torch.no_grad():
            result = module(*args, **kwargs)
        leaves = map(_array, _pytree.tree_leaves(result))
        return tree_of(source.call_spec.out_spec, leaves)

    def steps(inputs: Inputs) -> dict[Node, object]:
        leaves = iter(_leaves(program, forms, inputs))
        recorder = _Recorder(program.graph_module)
        with torch.no_grad():
            recorder.run(*_placeholders(program, leaves))
        return recorder.values

    return Original(f"torch {torch.__version__}", run, steps, _example(source, forms))


class _Recorder(Interpreter):  # type: ignore[misc]
    """An fx interpreter that records the result of each node."""

    def __init__(self, module: torch.fx.GraphModule) -> None:
        super().__init__(module, garbage_collect_values=False)
        self.values: dict[Node, object] = {}

    def run_node(self, n: Node) -> object:
        """Run a node, and record its result as NumPy arrays."""
        result = super().run_node(n)
        self.values[n] = _pytree.tree_map(_array, result)
        return result


def _leaves(
    program: ExportedProgram, forms: Mapping[str, _pytree.TreeSpec], inputs: Inputs
) -> list[torch.Tensor]:
    """Return inputs flattened to tensors, with constants of the export filled in."""
    given: list[Any] = [
        leaf
        for n, form in forms.items()
        for leaf in (
            leaves_of(form, inputs[n]) if n in inputs else [None] * form.num_leaves
        )
    ]
    specs = [
        spec
        for spec in program.graph_signature.input_specs
        if spec.kind is InputKind.USER_INPUT
    ]
    return [
        spec.arg.value if isinstance(spec.arg, ConstantArgument) else tensor_of(leaf)
        for spec, leaf in zip(specs, given, strict=True)
    ]


def _placeholders(
    program: ExportedProgram, leaves: Iterator[torch.Tensor]
) -> Iterator[torch.Tensor]:
    """Yield the graph's arguments: stored tensors (cloned), then inputs."""
    for spec in program.graph_signature.input_specs:
        if spec.kind is InputKind.USER_INPUT:
            yield next(leaves)
        else:
            held = spec.target in program.state_dict
            stored = program.state_dict if held else program.constants
            yield stored[spec.target].clone()


def _example(
    source: ExportedProgram, forms: Mapping[str, _pytree.TreeSpec]
) -> Inputs | None:
    """Return the example inputs of the export by name; None if it has none."""
    if source.example_inputs is None:
        return None
    leaves = map(_array, _pytree.tree_leaves(source.example_inputs))
    trees = {name: tree_of(form, leaves) for name, form in forms.items()}
    return {name: tree for name, tree in trees.items() if _has_arrays(tree)}


def _has_arrays(tree: PyTree) -> bool:
    """Return whether a tree holds arrays, not only constants of the export."""
    return any(isinstance(leaf, np.ndarray) for leaf in flatten(tree)[0])


def _array(value: object) -> object:
    """Return a tensor as a NumPy array; integers as i64; other values as they are."""
    if isinstance(value, torch.Tensor):
        return numpy_of(value.clone())
    if isinstance(value, int) and not isinstance(value, bool):
        return dtypes.to_numpy("i64").type(value)
    return value
