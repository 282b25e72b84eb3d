"""A module of PyTorch and a call of it → a traced program for calls of that kind.

What is exported is a copy, so that Python in `forward` changes the copy alone. It has
the parameters and buffers of the module, and not its hooks, which stay Python's.
"""

from __future__ import annotations

import copy
import functools
import hashlib
import logging
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeGuard
from unittest import mock

import numpy as np
import torch
from torch.export.graph_signature import (
    ArgumentSpec,
    ConstantArgument,
    OutputKind,
    SymBoolArgument,
    SymFloatArgument,
    SymIntArgument,
)
from torch.utils import _pytree as torch_trees

from aotc.core.pytree import PyTree, flatten
from aotc.errors import InputError
from aotc.errors.system import raise_system_error
from aotc.hybrid_programs.torch.calls import arrays_of
from aotc.hybrid_programs.torch.states import (
    RandomNumbers,
    StateSnapshot,
    obstacle_inside,
)
from aotc.importers.common.imported import Imported
from aotc.importers.torch.export_guards import ExportSizeGuard
from aotc.importers.torch.exporting import export_program
from aotc.importers.torch.network import network_of
from aotc.importers.torch.tensors import tensor_of
from aotc.importers.torch.trees import leaves_of
from aotc.just_in_time.shapes import Sizes
from aotc.just_in_time.signature import CallSignature
from aotc.just_in_time.tracing import TracedSpecialization
from aotc.just_in_time.variants import CodeVariant
from aotc.programs.program import Title
from aotc.tracing.dims import Dim, DimTerm
from aotc.tracing.entry import Spec
from aotc.tracing.source_locations import fail

Shape = tuple[int | Dim, ...]

_ENTRY = "main"
_PYTHON = {SymIntArgument: int, SymFloatArgument: float, SymBoolArgument: bool}


@dataclass(frozen=True)
class ModuleSpecialization(TracedSpecialization):
    """A traced module for calls of one signature, with the form of its results.

    Args:
        results: of torch.export: what each leaf of the result is.
        result_form: of torch: the containers of the result.
    """

    results: tuple[ArgumentSpec, ...]
    result_form: torch_trees.TreeSpec

    def compute(
        self,
        variant: CodeVariant,
        args: tuple[object, ...],
        kwargs: Mapping[str, object],
    ) -> object:
        """Compute a call by a compiled variant; return its result as torch's
        tensors.
        """
        found = variant.run(arrays_of(args, kwargs))
        leaves = leaves_of(self.result_form, found)
        pairs = zip(self.results, leaves, strict=True)
        return torch_trees.tree_unflatten(
            [_result(result, leaf) for result, leaf in pairs], self.result_form
        )


def _result(
    result: ArgumentSpec, leaf: np.ndarray
) -> torch.Tensor | bool | int | float | str | None:
    """Return a result leaf as torch returns it: a constant, a Python number or a
    tensor.
    """
    if isinstance(result, ConstantArgument):
        return result.value
    if type(result) in _PYTHON:
        return _PYTHON[type(result)](leaf)
    return tensor_of(leaf)


@dataclass(frozen=True)
class ModuleTracer:
    """A callable that traces one module by torch.export for given arguments.

    Args:
        module: that is copied.
        owner: the name of the whole.
        path: of the module in it.
        copies_views: whether results may be new tensors where PyTorch's are views.
    """

    module: torch.nn.Module
    owner: str
    path: str
    copies_views: bool

    def __call__(
        self,
        call: CallSignature,
        args: tuple[object, ...],
        kwargs: Mapping[str, object],
        sizes: Sizes | None = None,
    ) -> ModuleSpecialization:
        """Export and trace the module for arguments like these.

        Args:
            call: what it is like.
            args: of the call.
            kwargs: likewise.
            sizes: with the axes that vary; None if none does.

        Raises:
            InputError: it cannot be exported, imported, or not for all of such sizes.
        """
        program = self._export(args, kwargs, sizes)
        network = network_of(program)
        _require_pure(network)
        if not self.copies_views:
            _require_new_results(program, args, kwargs)
        leaves = _leaf_sizes(network, args, kwargs)
        if sizes is not None:
            _require_any_size(network, leaves)
        made = network.program(_ENTRY)
        made.title = Title(self.owner, "1.0.0")
        made.source = {"kind": "torch", "file": self.path, "sha256": _digest(program)}
        results = program.graph_signature.output_specs
        return ModuleSpecialization(
            _ENTRY,
            call.form,
            tuple(shape for shape in leaves if shape is not None),
            None,
            made,
            tuple(x.arg for x in results if x.kind is OutputKind.USER_OUTPUT),
            program.call_spec.out_spec,
        )

    def _export(
        self,
        args: tuple[object, ...],
        kwargs: Mapping[str, object],
        sizes: Sizes | None,
    ) -> torch.export.ExportedProgram:
        """Export a copy of the module; refuse one whose forward changes state."""
        if (reason := obstacle_inside(self.module)) is not None:
            raise InputError("bad-model", reason)
        copied = _copy_sharing_tensors(self.module)
        changes = _note_changes(copied)
        shapes = _dynamic_shapes(copied, args, kwargs, sizes)
        with _quiet_export():
            program = export_program(copied, args, kwargs, shapes)
        if changes:
            raise InputError("bad-model", f"its forward changes {changes[0]}")
        return program


@contextmanager
def _quiet_export() -> Iterator[None]:
    """Silence, within the `with` block, what torch prints of errors that it raises
    anyway.
    """
    logger = logging.getLogger("torch._subclasses.fake_tensor")
    before = logger.disabled
    logger.disabled = True
    try:
        with (
            mock.patch("torch.export._trace.print", _ignore, create=True),
            warnings.catch_warnings(),
        ):
            # such a forward stays PyTorch's
            warnings.filterwarnings("ignore", "The tensor attributes? .* assigned")
            yield
    finally:
        logger.disabled = before


def _ignore(*_: object, **__: object) -> None:
    """Print nothing."""


def _digest(program: torch.export.ExportedProgram) -> str:
    """Return the sha256 of the exported graph, weights and constants."""
    found = hashlib.sha256(program.graph_module.code.encode())
    for name, value in sorted({**program.state_dict, **program.constants}.items()):
        found.update(name.encode())
        if isinstance(value, torch.Tensor):
            plain = value.detach().resolve_conj().resolve_neg()
            flat = plain.contiguous().reshape(-1)
            found.update(memoryview(flat.view(torch.uint8).numpy()))
    return found.hexdigest()


def _copy_sharing_tensors(module: torch.nn.Module) -> torch.nn.Module:
    """Return a copy with the same parameters and buffers, and without hooks of its
    own.
    """
    shared = [*module.parameters(), *module.buffers()]
    copied = copy_of(module, {id(tensor): tensor for tensor in shared})
    for name in ("_forward_hooks", "_forward_pre_hooks"):
        vars(copied)[name].clear()
    return copied


def copy_of(
    module: torch.nn.Module, shared: dict[int, torch.Tensor]
) -> torch.nn.Module:
    """Return a deep copy of a module that shares the objects in `shared` with it.

    Args:
        module: that is left as it is.
        shared: what the copy has in common with it, by identity.

    Raises:
        InputError: `bad-model`: something in it cannot be copied.
    """
    try:
        return copy.deepcopy(module, shared)
    except Exception as error:  # whatever objects in it raise
        raise_system_error(error)
        fail(
            "bad-model",
            f"expected a module that can be copied; copy.deepcopy refuses it: {error}",
            "keep what cannot be copied outside of the module, or give it a "
            "__deepcopy__",
        )


def _note_changes(module: torch.nn.Module) -> list[str]:
    """Wrap `forward` to record the names of state that it changes; return their list.

    Returns:
        A list for what there is. It is written to during a trace, after which
        torch.export puts attributes back.
    """
    changes: list[str] = []
    original = module.forward

    @functools.wraps(original)
    def forward(*args: object, **kwargs: object) -> object:
        state, numbers = StateSnapshot(module), RandomNumbers()
        leaves, form = torch_trees.tree_flatten((args, kwargs))
        try:
            result = original(*args, **kwargs)
        finally:
            has_drawn = numbers.restore()
        if (name := state.difference()) is not None:
            changes.append(f"'{name}'")
        if has_drawn:
            changes.append("a generator of random numbers")
        now, form_now = torch_trees.tree_flatten((args, kwargs))
        if form_now != form or any(
            a is not b for a, b in zip(now, leaves, strict=True)
        ):
            changes.append("a container that is an argument")
        return result

    vars(module)["forward"] = forward
    return changes


def _dynamic_shapes(
    module: torch.nn.Module,
    args: tuple[object, ...],
    kwargs: Mapping[str, object],
    sizes: Sizes | None,
) -> PyTree:
    """Return which axes vary, as torch.export's dynamic_shapes; None if none does."""
    if sizes is None:
        return None
    leaves = torch_trees.tree_leaves((args, dict(kwargs)))
    tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
    axes: dict[int, dict[int, object]] = {}
    for tensor, shape in zip(tensors, sizes, strict=True):
        auto = torch.export.Dim.AUTO
        varying = {i: auto for i, size in enumerate(shape) if not isinstance(size, int)}
        axes.setdefault(id(tensor), {}).update(varying)
    collected = torch.export.ShapesCollection()
    for tensor in {id(tensor): tensor for tensor in tensors}.values():
        if varying := axes[id(tensor)]:
            collected[tensor] = varying
    return collected.dynamic_shapes(module, args, dict(kwargs))


def _leaf_sizes(
    network: Imported, args: tuple[object, ...], kwargs: Mapping[str, object]
) -> list[Shape | None]:
    """Return the shape that code takes of each argument leaf; None for leaves that are
    no tensors.

    Raises:
        InputError: the network has not the inputs that a call has.
    """
    forms = [*map(torch_trees.tree_flatten, (*args, *kwargs.values()))]
    given = [any(isinstance(x, torch.Tensor) for x in leaves) for leaves, _ in forms]
    if sum(given) != len(network.inputs):
        raise InputError("bad-model", "its arguments are not tensors alone")
    trees, found = iter(network.inputs.values()), list[Shape | None]()
    for (leaves, form), is_input in zip(forms, given, strict=True):
        specs = leaves_of(form, next(trees)) if is_input else [None] * len(leaves)
        # of complex numbers, both parts have the same
        found += (_sizes_of(next(iter(flatten(x)[0]), None)) for x in specs)
    return found


def _sizes_of(spec: Spec | None) -> Shape | None:
    """Return a Spec's shape; its Dims without limits get a minimum of 2."""
    if spec is None:
        return None
    return tuple(map(_size_of, spec.shape))


def _size_of(size: int | DimTerm) -> int | Dim:
    """Return a size as an int or a Dim; a Dim without limits gets a minimum of 2."""
    if isinstance(size, int):
        return size
    if not isinstance(size, Dim):
        raise InputError("bad-model", f"it holds for some sizes only: {size}")
    return Dim(size.name, min=2) if _is_any(size) else size


def _is_any(size: object) -> TypeGuard[Dim]:
    """Return whether a size is a Dim without limits of its own."""
    if not isinstance(size, Dim):
        return False
    return size.min <= 2 and size.max is None and size.multiple_of == 1


def _require_pure(network: Imported) -> None:
    """Refuse a network whose forward updates buffers."""
    if network.state is not None:
        names = ", ".join(f"'{name}'" for name in network.state.tree)
        raise InputError("bad-model", f"its forward updates {names}")


def _require_new_results(
    program: torch.export.ExportedProgram,
    args: tuple[object, ...],
    kwargs: Mapping[str, object],
) -> None:
    """Refuse results that share memory with arguments, weights or one another.

    What is written to one of them later would be missing in the other.
    """
    with torch.no_grad():
        found = program.module()(*args, **kwargs)
    leaves = torch_trees.tree_leaves((args, dict(kwargs)))
    given = {*map(_memory_of, leaves)}
    kept = {
        *map(_memory_of, (*program.state_dict.values(), *program.constants.values()))
    }
    for place in filter(None, map(_memory_of, torch_trees.tree_leaves(found))):
        if place in given:
            raise InputError("bad-model", "its result is an argument, or a view of one")
        if place in kept:
            raise InputError(
                "bad-model", "results are views of one another, or of weights"
            )
        kept.add(place)


def _memory_of(leaf: object) -> int:
    """Return the address of a tensor's storage; 0 for other leaves."""
    if not isinstance(leaf, torch.Tensor):
        return 0
    return int(leaf.untyped_storage().data_ptr())


def _require_any_size(network: Imported, leaves: Sequence[Shape | None]) -> None:
    """Refuse a trace that holds only under conditions on sizes, which `aotc.jit` cannot
    guard.
    """
    guards = getattr(network.function, "guards", ())
    unmet = [str(each.condition.text) for each in guards if not _is_met(each, leaves)]
    varying = [size for shape in leaves for size in shape or ()]
    unmet += [str(x) for x in varying if not isinstance(x, int) and not _is_any(x)]
    if unmet:
        raise InputError("bad-model", f"it holds for some sizes only: {unmet[0]}")


def _is_met(guard: ExportSizeGuard, leaves: Sequence[Shape | None]) -> bool:
    """Return whether a guard only says that two sizes are equal which share a Dim."""
    if re.fullmatch(r"\w+ == \w+", guard.condition.text) is None:
        return False
    found = [
        shape[axis]
        for number, axis in guard.sizes.values()
        if (shape := leaves[number]) is not None
    ]
    return len(found) == 2 and bool(found[0] == found[1])
