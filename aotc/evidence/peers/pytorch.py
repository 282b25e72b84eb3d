"""PyTorch on a file of torch.export: op by op, or by torch.compile."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import torch
from torch.export.graph_signature import ConstantArgument, InputKind
from torch.utils import _pytree

from aotc.core import dtypes
from aotc.core.pytree import PyTree
from aotc.evidence.messages import ANY, EAGER
from aotc.evidence.peers.engine import Array, PeerInput

if TYPE_CHECKING:
    from torch.export import ExportedProgram
    from torch.export.graph_signature import ArgumentSpec

# positional and by name
Arguments: TypeAlias = tuple[Sequence[object], Mapping[str, object]]
_VARIES = object()  # what no constant is


class Torch:
    """An exported PyTorch program, whose ops are executed eagerly."""

    version: str = torch.__version__
    path = EAGER

    def __init__(self, file: Path, threads: int) -> None:
        torch.set_num_threads(threads)
        program = torch.export.load(file)
        self._form = program.call_spec.in_spec
        self._constants = [*_constants(program)]
        self._module = self.make_callable(program.module())
        self.inputs = tuple(_ports(program))
        self.outputs = tuple(_output_names(program.call_spec.out_spec))

    @property
    def compiles(self) -> int:
        """The number of compilations: none."""
        return 0

    def make_callable(self, module: torch.nn.Module) -> Callable[..., PyTree]:
        """Return the callable to time: the module itself."""
        called: Callable[..., PyTree] = module
        return called

    def prepare(self, arrays: Sequence[Array]) -> Arguments:
        """Return positional and keyword arguments: tensors in the arrays' memory."""
        tensors = map(torch.from_numpy, arrays)
        leaves = [next(tensors) if x is _VARIES else x for x in self._constants]
        given: Arguments = _pytree.tree_unflatten(leaves, self._form)
        return given

    def call(self, prepared: Arguments) -> list[Array]:
        """Call the module; return the tensors of its result as a list."""
        args, kwargs = prepared
        with torch.inference_mode():
            result = self._module(*args, **kwargs)
        return [leaf.numpy() for leaf in _pytree.tree_leaves(result)]


class TorchCompile(Torch):
    """An exported program compiled by torch.compile for symbolic sizes; needs C++."""

    path = ANY

    @property
    def compiles(self) -> int:
        """The number of graphs compiled so far."""
        from torch._dynamo.utils import counters

        return int(counters["stats"]["unique_graphs"])

    def make_callable(self, module: torch.nn.Module) -> Callable[..., PyTree]:
        """Compile the module with weights frozen into the code and compile caches
        disabled.
        """
        from torch._inductor import config

        config.freezing = True
        config.force_disable_caches = True
        compiled: Callable[..., PyTree] = torch.compile(module, dynamic=True)
        return compiled


def _given(program: ExportedProgram) -> Iterator[ArgumentSpec]:
    """Yield the argument specs of the user's inputs, in order."""
    for spec in program.graph_signature.input_specs:
        if spec.kind is InputKind.USER_INPUT:
            yield spec.arg


def _constants(program: ExportedProgram) -> Iterator[object]:
    """Yield the constant value of each argument, or `_VARIES` for tensors."""
    for arg in _given(program):
        yield arg.value if isinstance(arg, ConstantArgument) else _VARIES


def _ports(program: ExportedProgram) -> Iterator[PeerInput]:
    """Yield each tensor argument as a `PeerInput`."""
    nodes = {node.name: node for node in program.graph.nodes}
    for arg in _given(program):
        if not isinstance(arg, ConstantArgument):
            yield _port(arg.name, nodes[arg.name].meta["val"])


def _port(name: str, value: object) -> PeerInput:
    """Return an argument as a `PeerInput`, from its example value."""
    if not isinstance(value, torch.Tensor):
        return PeerInput(name, type(value).__name__, ())
    sizes = (size if isinstance(size, int) else None for size in value.shape)
    dtype = str(value.dtype).removeprefix("torch.")
    known = dtype in {str(dtypes.to_numpy(n)) for n in dtypes.NAMES if n != "bf16"}
    return PeerInput(
        name, dtypes.canonical_dtype(dtype) if known else dtype, tuple(sizes)
    )


def _output_names(form: _pytree.TreeSpec) -> Iterator[str]:
    """Yield the key of each result in a dict of tensors; empty for other results."""
    tree = _pytree.tree_unflatten([*range(form.num_leaves)], form)
    for path, _ in _pytree.tree_flatten_with_path(tree)[0]:
        is_key = len(path) == 1 and isinstance(path[0], _pytree.MappingKey)
        yield str(path[0].key) if is_key else ""
