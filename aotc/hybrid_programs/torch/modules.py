"""PyTorch modules whose export fails: their parts are compiled, the rest stays torch's.

A module that torch.export takes is one region. Of one that it does not take, `forward`
remains Python, an island, and the modules that it calls are split in their turn.

calls      what a call is like, and its tensors as arrays
states     what modules keep from call to call, and whether it has changed
exporting  a module and a call → a traced program
parts      one module of a hybrid one: by which code, or by PyTorch
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from types import FrameType
from typing import NoReturn

import torch
from torch.utils import _pytree as torch_trees

from aotc.core.json_values import JsonObject
from aotc.errors import InputError
from aotc.hybrid_programs.boundaries import Boundary
from aotc.hybrid_programs.torch.exporting import copy_of
from aotc.hybrid_programs.torch.parts import ModulePart, PartSettings, refuse_pickling
from aotc.importers.torch.exporting import is_library
from aotc.machine.target import Target
from aotc.tracing.source_locations import is_own, relative_path

_FIXED_HINT = "change the module that it was made of, and call aotc.from_torch again"


class HybridModule(torch.nn.Module):  # type: ignore[misc]
    """A copy of a PyTorch module with its submodules compiled where possible; for
    inference.

    Its weights and its mode are fixed. A copy of it has nothing compiled at first.

    Args:
        module: which is copied.
        settings: how it is compiled.
    """

    def __init__(self, module: torch.nn.Module, settings: PartSettings) -> None:
        super().__init__()
        self.module = copy_of(module, {}).eval()
        self.training = False
        self._settings = settings
        self._parts = _parts_of(self.module, settings)

    def forward(self, *args: object, **kwargs: object) -> object:
        """Compute the module for CPU tensors that need no gradient.

        Raises:
            InputError: `bad-call`: a gradient is asked for; `recompile-storm`.
        """
        if torch.is_grad_enabled():
            leaves = torch_trees.tree_leaves((args, kwargs))
            if any(isinstance(x, torch.Tensor) and x.requires_grad for x in leaves):
                _refuse(
                    "bad-call",
                    "expected tensors that need no gradient, which compiled parts of a "
                    "module have not; got one with requires_grad",
                    "call it within torch.no_grad()",
                )
        with torch.no_grad():
            return self.module(*args, **kwargs)

    @property
    def boundaries(self) -> tuple[Boundary, ...]:
        """The boundaries of submodules whose `forward` PyTorch has computed in calls so
        far.
        """
        found = [each.boundary for each in self._parts]
        return tuple(each for each in found if each is not None)

    def report(self) -> JsonObject:
        """Return boundaries and compiled submodules: schema `aotc.hybrid-module/1`."""
        regions = [each.report() for each in self._parts]
        return {
            "schema": "aotc.hybrid-module/1",
            "graph_breaks": len(self.boundaries),
            "boundaries": [each.to_json() for each in self.boundaries],
            "regions": [each for each in regions if each is not None],
        }

    # ---- as a module of PyTorch

    def state_dict(self, *args: object, **kwargs: object) -> dict[str, object]:
        """Return the state dict of the inner module, under its own names."""
        found: dict[str, object] = self.module.state_dict(*args, **kwargs)
        return found

    def train(self, mode: bool = True) -> HybridModule:
        """Refuse training mode: raise an InputError, `inference-only`, if `mode` is
        True.
        """
        if mode:
            _refuse(
                "inference-only",
                "expected inference of a hybrid module; it cannot be in training mode",
                "train the module that it was made of; aotc.from_torch(module, args, "
                "train=True) compiles one that torch.export takes",
            )
        return self

    def _load_from_state_dict(self, *args: object, **kwargs: object) -> NoReturn:
        """Refuse to load other weights, as code is compiled for these."""
        _refuse(
            "fixed-weights",
            "expected a hybrid module to keep its weights, which code is made for; got "
            "others to load",
            _FIXED_HINT,
        )

    def _apply(self, fn: object, recurse: bool = True) -> NoReturn:
        """Refuse the changes of `to`, `half`, `cuda` and their like."""
        _refuse(
            "fixed-weights",
            "expected a hybrid module to keep its dtypes and devices, which code is "
            "made for; got a conversion (to, half, float, cuda, …)",
            _FIXED_HINT,
        )

    def __deepcopy__(self, memo: dict[int, object]) -> HybridModule:
        return HybridModule(self.module, self._settings)

    def __reduce__(self) -> NoReturn:
        refuse_pickling()


def _refuse(code: str, message: str, hint: str) -> NoReturn:
    """Raise an InputError at the user's line, behind frames of PyTorch."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        is_ours = is_own(frame.f_globals.get("__name__", ""))
        if not is_ours and not is_library(frame.f_code.co_filename):
            where = f"{relative_path(frame.f_code.co_filename)}:{frame.f_lineno}"
            raise InputError(code, message, where=where, hint=hint)
        frame = frame.f_back
    raise InputError(code, message, hint=hint)


def _parts_of(module: torch.nn.Module, settings: PartSettings) -> list[ModulePart]:
    """Replace `forward` of each submodule in Python by a ModulePart; return these
    parts.
    """
    return [
        ModulePart(each, f"{settings.owner}.{path}".rstrip("."), not path, settings)
        for path, each in module.named_modules()
        if _has_forward(each)
    ]


def _has_forward(module: torch.nn.Module) -> bool:
    """Return whether a module defines `forward` and is not TorchScript."""
    if isinstance(module, torch.jit.ScriptModule):
        return False
    kind = getattr(type(module), "forward", None)
    return "forward" in vars(module) or kind is not torch.nn.Module.forward


def hybrid_module(
    module: object,
    args: Sequence[object],
    kwargs: Mapping[str, object],
    *,
    target: str | None,
    threads: int | None,
    limits: tuple[int, int],
) -> HybridModule:
    """Return a hybrid copy of a module, called once if example arguments are given.

    Args:
        module: a `torch.nn.Module`.
        args: example arguments; none, and its first call finds what is compiled.
        kwargs: example keyword arguments.
        target: by its name; by default this machine.
        threads: as `aotc.load` takes them.
        limits: how many variants there may be of each part, and how many compilations.

    Raises:
        InputError: `bad-model`: it is no module, or cannot be copied; `bad-option`.
    """
    if not isinstance(module, torch.nn.Module):
        _refuse(
            "bad-model",
            f"expected a torch.nn.Module; got {type(module).__name__}",
            "breaks='error' takes what torch.export has made",
        )
    if min(limits) < 1:
        _refuse(
            "bad-option",
            f"expected max_variants and max_compiles of 1 or more; got {limits[0]} and "
            f"{limits[1]}",
            "leave them out for 8 and 32",
        )
    chosen = Target.named(target or "native")[0]
    settings = PartSettings(type(module).__name__, chosen, threads, *limits)
    made = HybridModule(module, settings)
    if args or kwargs:
        made(*args, **kwargs)
    return made
