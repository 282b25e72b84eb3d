"""PyTorch modules whose export fails: their parts are compiled, the rest stays torch's.

A module that torch.export takes is one region. Of one that it does not take, `forward`
remains Python, an island, and the modules that it calls are split in their turn.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree as torch_trees

from aotc.errors import AotcError, InputError
from aotc.hybrid_programs.boundaries import Boundary
from aotc.importers.torch import from_torch
from aotc.just_in_time.compiling import compile_program
from aotc.program import Title
from aotc.runtime.model import Entry
from aotc.target import Target

_PLAIN = (bool, int, float, str, type(None))


class HybridModule(torch.nn.Module):  # type: ignore[misc]
    """A module of which what can be compiled is compiled; for inference.

    Args:
        module: which is copied.
        target: to compile for.
        threads: as `aotc.load` takes them.
    """

    def __init__(
        self, module: torch.nn.Module, target: Target, threads: int | None
    ) -> None:
        super().__init__()
        name = type(module).__name__
        self._whole = _Part(copy.deepcopy(module).eval(), name, name, target, threads)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The result, of tensors on the processor that need no gradient.

        Raises:
            InputError: `bad-call`: a gradient is asked for.
        """
        leaves = torch_trees.tree_leaves((args, kwargs))
        tensors = [each for each in leaves if isinstance(each, torch.Tensor)]
        if torch.is_grad_enabled() and any(each.requires_grad for each in tensors):
            raise InputError(
                "bad-call",
                "expected tensors that need no gradient, which compiled parts of a "
                "module have not; got one with requires_grad",
                hint="call it within torch.no_grad()",
            )
        with torch.no_grad():
            return self._whole(*args, **kwargs)

    @property
    def boundaries(self) -> tuple[Boundary, ...]:
        """The modules whose `forward` is Python, of those that calls have reached."""
        parts = [each for each in self.modules() if isinstance(each, _Part)]
        return tuple(each.boundary for each in parts if each.boundary is not None)

    def report(self) -> dict[str, Any]:
        """Boundaries and compiled modules: schema `aotc.hybrid-module/1`."""
        parts = [each for each in self.modules() if isinstance(each, _Part)]
        return {
            "schema": "aotc.hybrid-module/1",
            "graph_breaks": len(self.boundaries),
            "boundaries": [each.to_json() for each in self.boundaries],
            "regions": [
                {"module": each.path, "variants": len(each.entries)}
                for each in parts
                if each.entries
            ],
        }


class _Part(torch.nn.Module):  # type: ignore[misc]
    """One module of a hybrid one: compiled for each kind of call, or an island.

    Args:
        module: to compute, which may get parts in place of its modules.
        owner: the name of the whole.
        path: of the module in it.
        target: to compile for.
        threads: as `aotc.load` takes them.
    """

    def __init__(
        self,
        module: torch.nn.Module,
        owner: str,
        path: str,
        target: Target,
        threads: int | None,
    ) -> None:
        super().__init__()
        self.module, self.path = module, path
        self.entries: dict[Hashable, tuple[Entry, list[str]]] = {}
        self.boundary: Boundary | None = None
        self._owner, self._target, self._threads = owner, target, threads

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The result of the module."""
        if self.boundary is None:
            key = _kind_of(args, kwargs)
            try:
                if key not in self.entries:
                    self.entries[key] = self._compiled(args, kwargs)
            except InputError as error:
                self._split(error)
            else:
                return self._computed(*self.entries[key], args, kwargs)
        assert self.boundary is not None
        tensors = torch_trees.tree_leaves((args, kwargs))
        with self.boundary.crossing(tensors) as returned:
            found = self.module(*args, **kwargs)
            returned += torch_trees.tree_leaves(found)
        return found

    def _compiled(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> tuple[Entry, list[str]]:
        """Code for calls like this one, and the names of the inputs.

        Raises:
            InputError: the module cannot be compiled.
        """
        network = from_torch(self.module, args, kwargs)
        if len(network.inputs) != len(_arrays_of(args, kwargs)):
            raise InputError("bad-model", "its arguments are not tensors alone")
        program = network.program()
        program.title = Title(self._owner, "1.0.0")
        digest = hashlib.sha256(repr(self.module).encode()).hexdigest()
        program.source = {"kind": "torch", "file": self.path, "sha256": digest}
        made = compile_program(program, self._target, self._threads)
        return made.model.entry("main"), [*network.inputs]

    def _computed(
        self, entry: Entry, names: list[str], args: Any, kwargs: Mapping[str, Any]
    ) -> Any:
        given = dict(zip(names, _arrays_of(args, kwargs), strict=True))
        return torch_trees.tree_map_only(np.ndarray, _as_tensor, entry(**given))

    def _split(self, error: AotcError) -> None:
        """Leave the module to torch, and split what it calls."""
        self.entries.clear()
        reason = error.message.partition("\n")[0]
        kind = type(self.module).__name__
        self.boundary = Boundary(self._owner, self.path, kind, reason)
        for name, child in self.module.named_children():
            path = f"{self.path}.{name}"
            if isinstance(child, (torch.nn.ModuleList, torch.nn.ModuleDict)):
                self._split_container(child, path)
            else:
                setattr(self.module, name, self._part(child, path))

    def _split_container(self, container: Any, path: str) -> None:
        """Parts in place of the modules of a list or dict, which is not called."""
        is_list = isinstance(container, torch.nn.ModuleList)
        for key in [*range(len(container))] if is_list else [*container]:
            container[key] = self._part(container[key], f"{path}.{key}")

    def _part(self, module: torch.nn.Module, path: str) -> _Part:
        return _Part(module, self._owner, path, self._target, self._threads)


def _kind_of(args: Any, kwargs: Any) -> Hashable:
    """What calls share that one code computes.

    Raises:
        InputError: `bad-call`: an argument is no tensor, number or text.
    """
    leaves, structure = torch_trees.tree_flatten((args, kwargs))
    return str(structure), tuple(map(_kind_of_leaf, leaves))


def _kind_of_leaf(leaf: Any) -> Hashable:
    if isinstance(leaf, torch.Tensor):
        return leaf.dtype, tuple(leaf.shape)
    return type(leaf), repr(leaf) if isinstance(leaf, _PLAIN) else id(leaf)


def _arrays_of(args: Any, kwargs: Mapping[str, Any]) -> list[Any]:
    """The arguments that have tensors, as trees of arrays."""
    found = []
    for each in (*args, *kwargs.values()):
        leaves = torch_trees.tree_leaves(each)
        if any(isinstance(leaf, torch.Tensor) for leaf in leaves):
            found.append(torch_trees.tree_map_only(torch.Tensor, _as_array, each))
    return found


def _as_array(tensor: torch.Tensor) -> Any:
    if tensor.dtype == torch.bfloat16:
        import ml_dtypes

        return tensor.detach().cpu().view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    return tensor.detach().cpu().numpy()


def _as_tensor(array: Any) -> torch.Tensor:
    if array.dtype.name == "bfloat16":
        return torch.from_numpy(array.view(np.int16).copy()).view(torch.bfloat16)
    return torch.from_numpy(array.copy())  # of results that cannot be written to


def hybrid_module(
    module: Any,
    args: Any,
    kwargs: Mapping[str, Any],
    target: str | None,
    threads: int | None,
) -> HybridModule:
    """A module that compiles what it can, called once with example arguments.

    Args:
        module: a `torch.nn.Module`.
        args: example arguments; none, and its first call finds what is compiled.
        kwargs: example keyword arguments.
        target: by its name; by default this machine.
        threads: as `aotc.load` takes them.

    Raises:
        InputError: `bad-model`: it is no module.
    """
    if not isinstance(module, torch.nn.Module):
        raise InputError(
            "bad-model", f"expected a torch.nn.Module; got {type(module).__name__}"
        )
    made = HybridModule(module, Target.named(target or "native")[0], threads)
    if args or kwargs:
        made(*args, **kwargs)
    return made
