"""State that modules of PyTorch keep between calls, and detection of its changes.

Compiled code has the attributes, parameters and buffers of a module as they were when
it was exported. Python may change all of them, in the module itself or from another.
"""

from __future__ import annotations

import operator
import random
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import torch

from aotc.core.contents import ContentDigest, content_key, is_plain, parts_of


class Unobserved:
    """Base class of aotc's objects that StateSnapshot leaves out of a module's
    state.
    """


# of the registration of parameters, modules and hooks, which `_tables` looks into
_DERIVED = frozenset({"_flat_weights", "_flat_weight_refs"})  # of parameters, by RNNs
_MACHINERY = frozenset(vars(torch.nn.Module())) - {"training"} | _DERIVED | {"forward"}
_LAZY = torch.nn.parameter.UninitializedTensorMixin
_HOOKS = ("_forward_hooks", "_forward_pre_hooks")
_WRITTEN = (
    bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.device,
)  # fmt: skip
_FIXED = (
    *_WRITTEN, type, types.FunctionType, types.BuiltinFunctionType, types.ModuleType,
    torch.nn.Module, Unobserved,
)  # fmt: skip


class StateSnapshot:
    """A snapshot of a module's and its submodules' attributes, parameters and buffers.

    Args:
        module: that is looked at.
    """

    def __init__(self, module: torch.nn.Module) -> None:
        tables = [*_tables(module)]
        self._empty = [table for _, table in tables if not table]
        self._tables = [
            (path, table, dict(table), [*table.values()])
            for path, table in tables
            if table
        ]
        held = [
            (f"{path}.{key}".lstrip("."), value)
            for path, _, before, _ in self._tables
            for key, value in before.items()
            if key not in _MACHINERY
        ]
        self._tensors = [
            (path, value) for path, value in held if isinstance(value, torch.Tensor)
        ]
        self._mutable = [
            (path, value)
            for path, value in held
            if not isinstance(value, (torch.Tensor, *_FIXED))
        ]
        self._counted = [x for _, x in self._tensors if _counts_writes(x)]
        self._placed = [x for _, x in self._tensors if _has_memory(x)]
        self._quick = self._quick_now()
        self._versions = [_version(tensor) for _, tensor in self._tensors]
        self._contents = self._contents_now()

    def difference(self) -> str | None:
        """Return the path of the first attribute that has changed; None if none has."""
        for path, table, before, values in self._tables:
            is_same = len(table) == len(values)
            if is_same and all(map(operator.is_, table.values(), values)):
                continue
            if (found := _changed_key(table, before)) is not None:
                return f"{path}.{found}".lstrip(".")
        if any(self._empty):
            return "an attribute that it had not"
        if self._quick_now() != self._quick:
            return self._written_tensor()
        if not self._mutable:
            return None
        pairs = zip(self._mutable, self._contents_now(), self._contents, strict=True)
        return next((path for (path, _), now, then in pairs if now != then), None)

    def _quick_now(self) -> tuple[list[int], list[int]]:
        """Return tensors' version counters and addresses, which change with any
        write.
        """
        return (
            [tensor._version for tensor in self._counted],
            [tensor.data_ptr() for tensor in self._placed],
        )

    def _written_tensor(self) -> str | None:
        """Return the path of the first tensor that was written to; None if none was."""
        pairs = zip(self._tensors, self._versions, strict=True)
        return next((path for (path, x), then in pairs if _version(x) != then), None)

    def _contents_now(self) -> list[bytes]:
        """Return a digest of each mutable attribute's current contents."""
        found = _StateDigest()
        return [found.after(value) for _, value in self._mutable]


def _tables(module: torch.nn.Module) -> Iterator[tuple[str, dict[str, object]]]:
    """Yield the dicts that hold a module's and its submodules' state, with their
    paths.
    """
    for path, part in module.named_modules():
        yield path, vars(part)
        for name in ("_parameters", "_buffers", "_modules"):
            yield path, vars(part)[name]
        if part is not module:
            for name in _HOOKS:
                yield path, vars(part)[name]


def _changed_key(table: dict[str, object], before: dict[str, object]) -> str | None:
    """Return the first key whose value differs from a former copy of a dict; None if
    none.
    """
    for key in (*before, *table):
        if key in _DERIVED:
            continue
        if key not in before or key not in table:
            return str(key)
        old, new = before[key], table[key]
        is_equal = is_plain(old) and content_key(old) == content_key(new)
        if new is not old and not is_equal:
            return str(key)
    return None


def _version(tensor: torch.Tensor) -> tuple[int, int]:
    """Return a tensor's version counter and its address; 0 for what it lacks."""
    count = tensor._version if _counts_writes(tensor) else 0
    return count, tensor.data_ptr() if _has_memory(tensor) else 0


def _counts_writes(tensor: torch.Tensor) -> bool:
    """Return whether a tensor has a version counter: not in inference or lazy ones."""
    return not isinstance(tensor, _LAZY) and not tensor.is_inference()


def _has_memory(tensor: torch.Tensor) -> bool:
    """Return whether a tensor has one block of memory: neither traced nor sparse."""
    is_plain = type(tensor) in (torch.Tensor, torch.nn.Parameter)
    return is_plain and tensor.layout is torch.strided


class _StateDigest(ContentDigest):
    """A content digest of objects, all they refer to, and their identities."""

    def after(self, value: object) -> bytes:
        """Add a value to the digest; return the digest of all values so far."""
        self.value(value)
        return self.digest()

    def value(self, value: object) -> None:
        """Add a tensor by its version, a plain value by itself, and others by their
        contents.
        """
        if isinstance(value, torch.Tensor):
            self.note(id(value), *_version(value))
        elif isinstance(value, _WRITTEN):
            self.note(type(value), value)
        else:
            self.note(id(value))
            if not isinstance(value, _FIXED) or isinstance(value, torch.nn.Module):
                super().value(value)

    def other(self, value: object) -> None:
        """Add the elements and attributes of an object to the digest."""
        for part in parts_of(value) or _hidden_parts(value):
            self.value(part)
        for key, part in getattr(value, "__dict__", {}).items():
            if key not in _DERIVED and key != "forward":
                self.value(part)


def _hidden_parts(value: object) -> Iterable[object]:
    """Return an object's state that attributes do not show, such as an array's
    bytes.
    """
    found = (parts(value) for kinds, parts in _PARTS if isinstance(value, kinds))
    return next(found, ())


_PARTS: tuple[tuple[type, Callable[[Any], Iterable[object]]], ...] = (
    (np.ndarray, lambda value: (value.tobytes(),)),
    (random.Random, lambda value: (repr(value.getstate()),)),
    (np.random.Generator, lambda value: (repr(value.bit_generator.state),)),
    (torch.Generator, lambda value: (value.get_state().numpy().tobytes(),)),
    (types.MethodType, lambda value: (value.__self__,)),
)


def obstacle_inside(module: torch.nn.Module) -> str | None:
    """Return why tracing would miss effects of submodules, or None."""
    for part in module.modules():
        if isinstance(part, torch.jit.ScriptModule):
            return "modules in it are TorchScript's"
        if part is not module and any(vars(part)[name] for name in _HOOKS):
            return "modules in it have hooks, which Python calls"
    return None


class RandomNumbers:
    """Saved states of Python's and NumPy's random number generators."""

    def __init__(self) -> None:
        self._python = random.getstate()
        self._numpy = np.random.get_state(legacy=False)

    def restore(self) -> bool:
        """Restore the saved states; return whether the generators were used since."""
        now = RandomNumbers()
        random.setstate(self._python)
        np.random.set_state(self._numpy)
        return repr(vars(now)) != repr(vars(self))
