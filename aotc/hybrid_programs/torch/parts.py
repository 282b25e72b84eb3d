"""A module inside a hybrid one: the code that computes a call, or PyTorch."""

from __future__ import annotations

import copy
import inspect
import threading
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NoReturn

import torch
from torch.utils import _pytree as torch_trees

from aotc.core.json_values import JsonObject
from aotc.core.pytree import PyTree
from aotc.errors import AotcError, CompileError, InputError
from aotc.hybrid_programs.boundaries import Boundary
from aotc.hybrid_programs.torch.calls import signature_of
from aotc.hybrid_programs.torch.exporting import ModuleSpecialization, ModuleTracer
from aotc.hybrid_programs.torch.states import StateSnapshot, Unobserved
from aotc.just_in_time.compiling import compile_program
from aotc.just_in_time.shapes import Sizes
from aotc.just_in_time.signature import CallSignature
from aotc.just_in_time.variants import CodeVariant, VariantCache
from aotc.machine.target import Target

_EXPORTING = threading.Lock()  # torch.export changes tables of the whole process
_ATTEMPTS = 3  # shapes of one form of calls that are tried, before all are an island


@dataclass(frozen=True)
class PartSettings:
    """The options of compiling the submodules of one hybrid module.

    Args:
        owner: the name of that module.
        target: to compile for.
        threads: as `aotc.load` takes them.
        max_variants: as for `aotc.jit`, of each part.
        max_compiles: likewise.
    """

    owner: str
    target: Target
    threads: int | None
    max_variants: int
    max_compiles: int


class ModulePart(Unobserved):
    """A replacement of a submodule's `forward`: compiled code, or PyTorch's own.

    A call is computed by code for calls of its kind, which is made for the first one.
    Of a kind that cannot be compiled the module's own `forward` computes calls, in
    which the modules that it calls are parts in their turn.

    Args:
        module: whose `forward` this becomes. All else of it stays as it is.
        path: of the module in the whole.
        is_whole: whether it is the whole.
        settings: how it is compiled.
    """

    def __init__(
        self, module: torch.nn.Module, path: str, is_whole: bool, settings: PartSettings
    ) -> None:
        self.path = path
        self.notes: list[str] = []
        self.__wrapped__ = module.forward  # for inspect.signature
        self._given_forward = vars(module).get("forward")
        self._module, self._settings = module, settings
        self._names = _positional_names(module.forward)
        self._trace = ModuleTracer(module, settings.owner, path, is_whole)
        limits = settings.max_variants, settings.max_compiles
        self._variants = VariantCache(path, settings.target.id, *limits, _ATTEMPTS)
        self._state: StateSnapshot | None = None  # that all code was made for
        self._change: str | None = None  # of it, since then
        self._boundary: Boundary | None = None
        self._is_island = False
        self._lock = threading.RLock()
        vars(module)["forward"] = self

    def __call__(self, *args: object, **kwargs: object) -> object:
        """Compute `forward` by compiled code, or by PyTorch where there is none."""
        if torch.is_grad_enabled():
            return self._by_torch(args, kwargs, None, "gradients are enabled")
        named = dict(sorted(kwargs.items()))
        call = variant = None
        reason = ""
        try:
            call = signature_of(self._names, args, named)
            variant = self._variant_for(call, args, named)
        except (InputError, CompileError) as error:
            if error.code in ("recompile-storm", "self-check"):
                raise
            reason = _reason(error)
        if variant is None:
            return self._by_torch(args, kwargs, call, self._change or reason)
        traced = variant.specialization
        assert isinstance(traced, ModuleSpecialization)
        return traced.compute(variant, args, named)

    @property
    def boundary(self) -> Boundary | None:
        """The Boundary of the calls that PyTorch has computed; None without any."""
        return self._boundary if self._is_island else None

    def report(self) -> JsonObject | None:
        """Return the statistics of the compiled code as JSON; None without any."""
        found = self._variants
        if not found.compiles + found.cached:
            return None
        return {
            "module": self.path,
            "compiles": found.compiles,
            "from_cache": found.cached,
            "evictions": found.evictions,
            "variants": [each.to_json() for each in found.items],
            "notes": [*self.notes],
        }

    def __deepcopy__(self, memo: dict[int, object]) -> object:
        """Return the original `forward`, bound to the copy of the module."""
        if self._given_forward is not None:
            return copy.deepcopy(self._given_forward, memo)
        copied = memo.get(id(self._module), self._module)
        return types.MethodType(type(self._module).forward, copied)

    def __reduce__(self) -> NoReturn:
        refuse_pickling()

    # ---- which code

    def _variant_for(
        self,
        call: CallSignature,
        args: tuple[object, ...],
        kwargs: Mapping[str, object],
    ) -> CodeVariant | None:
        """Return the compiled variant for a call, made if there is none; None for
        islands.

        Raises:
            InputError: it cannot be made; `recompile-storm`: it was too often.
            CompileError: likewise.
        """
        if self._has_changed():
            return None
        variant = self._variants.find(call, tuple)
        if variant is not None or self._variants.refusal(call) is not None:
            return variant
        with self._lock:
            variant = self._variants.find(call, tuple)  # of another thread
            return variant or self._compile(call, args, kwargs)

    def _has_changed(self) -> bool:
        """Return whether the module's state has changed; if so, drop its compiled code
        for good.
        """
        if self._change is None and self._state is not None:
            name = self._state.difference()
            if name is not None:
                with self._lock:
                    self._change = f"'{name}' has changed since it was compiled"
                    self._variants.items = []
        return self._change is not None

    def _compile(
        self,
        call: CallSignature,
        args: tuple[object, ...],
        kwargs: Mapping[str, object],
    ) -> CodeVariant:
        """Export and compile the module for a call; store and return the variant."""
        self._note_miss(call)
        state = self._state or StateSnapshot(self._module)
        traced = self._trace_for(call, args, kwargs)
        made = compile_program(
            traced.program, self._settings.target, self._settings.threads
        )
        variant = CodeVariant(traced, made)
        self._variants.note_shapes(call)
        self._variants.add(variant)
        self._state = state
        return variant

    def _note_miss(self, call: CallSignature) -> None:
        """Count a cache miss; raise `recompile-storm` after too many."""
        try:
            self._variants.note_miss(call)
        except InputError as error:
            error.hint = (
                "make what varies a tensor, not a number or text that code is made "
                "for; or raise max_compiles"
            )
            raise

    def _trace_for(
        self,
        call: CallSignature,
        args: tuple[object, ...],
        kwargs: Mapping[str, object],
    ) -> ModuleSpecialization:
        """Export the module for a call, for symbolic sizes where that is possible."""
        sizes = self._variants.symbolic_sizes(call, call.names)
        with _EXPORTING:
            if sizes and _are_traceable(sizes, call):
                try:
                    return self._trace(call, args, kwargs, sizes)
                except InputError as error:
                    note = f"code for each size of its own: {_reason(error)}"
            else:
                note = None
            traced = self._trace(call, args, kwargs)
        if note is not None:
            self._variants.require_exact(call)
            self.notes.append(note)
        return traced

    # ---- islands

    def _by_torch(
        self,
        args: tuple[object, ...],
        kwargs: Mapping[str, object],
        call: CallSignature | None,
        reason: str,
    ) -> object:
        """Compute a call by the module's own `forward`, counted and timed as an island.

        Where that raises, too, the call is wrong, and says nothing of others.

        Args:
            args: of the call.
            kwargs: likewise.
            call: what it is like; None for one that is never compiled.
            reason: why code does not compute it.
        """
        with self._lock:
            if self._boundary is None:
                kind = type(self._module).__name__
                owner = self._settings.owner
                self._boundary = Boundary(owner, self.path, kind, reason)
        with self._boundary.crossing(_dense((args, dict(kwargs)))) as returned:
            found = self.__wrapped__(*args, **kwargs)
            returned += _dense(found)
        if not self._is_island or call is not None:
            self._note_island(call, reason)
        return found

    def _note_island(self, call: CallSignature | None, reason: str) -> None:
        """Mark the module as an island, and this call's signature as not compilable."""
        with self._lock:
            if not self._is_island and self._boundary is not None:
                self._boundary.reason = reason  # not that of a call that has failed
            self._is_island = True
            if call is not None and self._variants.refusal(call) is None:
                self._variants.refuse(call, reason)


def _positional_names(forward: Callable[..., object]) -> tuple[str, ...]:
    """Return the names of the parameters that can be given by position."""
    try:
        parameters = inspect.signature(forward).parameters.values()
    except (TypeError, ValueError):  # of a function that is not Python's
        return ()
    kinds = inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD
    return tuple(each.name for each in parameters if each.kind in kinds)


def _are_traceable(sizes: Sizes, call: CallSignature) -> bool:
    """Return whether torch.export can trace sizes as symbols: all are 2 or more."""
    return all(
        isinstance(size, int) or given >= 2
        for spec, shape in zip(sizes, call.shapes, strict=True)
        for size, given in zip(spec, shape, strict=True)
    )


def _dense(tree: PyTree) -> list[torch.Tensor]:
    """Return the dense (strided) tensors in a tree."""
    leaves = torch_trees.tree_leaves(tree)
    tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
    return [tensor for tensor in tensors if tensor.layout is torch.strided]


def _reason(error: AotcError) -> str:
    """Return the first line of an error's message, with the second if it ends in a
    colon.
    """
    first, *rest = error.message.splitlines()
    return f"{first} {rest[0].strip()}" if first.endswith(":") and rest else first


def refuse_pickling() -> NoReturn:
    """Raise the error for pickling a hybrid module: it has code and memory of this
    process.
    """
    raise InputError(
        "not-picklable",
        "a hybrid module cannot be sent to another process: it holds code and memory "
        "of this one",
        hint="send the module that it was made of, and call aotc.from_torch there",
    )
