"""Warn of attributes of a module that `forward` changes, which no call keeps.

An exported program updates buffers. What else an object of the module holds is what it
was when the module was exported: torch.export sets attributes back, and tells of
assigned tensors alone, not of numbers, lists that grow, and objects such as a cache.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch

from aotc.tracing.effects import warn_once
from aotc.tracing.source_locations import user_place

_DEEPEST = 6  # objects and containers within each other
_LONGEST = 1024  # containers whose parts are looked at
_NUMBERS = (bool, int, float)
_OF_TORCH = frozenset(vars(torch.nn.Module()))  # which every module has
_LIBRARIES = ("torch", "builtins", "numpy")


@contextmanager
def watch_attributes(model: object) -> Iterator[None]:
    """Warn of module attributes (not buffers) that an export in this block changes."""
    if not isinstance(model, torch.nn.Module):
        yield
        return
    before = _attributes(model)
    changed = set[str]()

    def compare(
        *_: object,
    ) -> None:  # torch sets attributes back when forward is traced
        changed.update(_changed(before, _attributes(model)))

    hook = model.register_forward_hook(compare)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "The tensor attributes? .* assigned")
            yield
    finally:
        hook.remove()
    place = user_place()
    if changed and place is not None:
        warn_once(
            f"forward changes {_join_names(sorted(changed))} once, when the module is "
            "exported; every call finds the value from before that. Keep what calls "
            "change in a buffer (register_buffer), which becomes state",
            place,
        )


def _changed(
    before: Mapping[str, object], after: Mapping[str, object]
) -> Iterator[str]:
    """Yield the paths of attributes with another value after the export than before."""
    for path, old in before.items():
        new = after.get(path, old)
        if isinstance(new, torch.Tensor) or isinstance(old, torch.Tensor):
            if new is not old:
                yield path
        elif new is not None and old is not None and new != old:
            yield path


def _attributes(model: torch.nn.Module) -> dict[str, object]:
    """Return the tensors, numbers and empty or long containers of a module, by path."""
    found: dict[str, object] = {}
    seen = set[int]()
    for name, part in model.named_modules():
        for key, value in vars(part).items():
            if key not in _OF_TORCH:
                path = f"self.{name}.{key}" if name else f"self.{key}"
                found.update(_leaves(path, value, seen, _DEEPEST))
    return found


def _leaves(
    path: str, value: object, seen: set[int], depth: int
) -> Iterator[tuple[str, object]]:
    """Yield the tensors and numbers that an attribute holds, with their paths."""
    if value is None or isinstance(value, (torch.Tensor, *_NUMBERS)):
        yield path, value
        return
    parts = _parts(path, value)
    if not parts or id(value) in seen or not depth:
        return
    seen.add(id(value))
    if isinstance(value, list):
        yield f"the length of {path}", len(value)
    for name, part in parts.items():
        yield from _leaves(name, part, seen, depth - 1)


def _parts(path: str, value: object) -> dict[str, object]:
    """Return the elements of a container, or the attributes of a user's object, by
    path.
    """
    if isinstance(value, (dict, list, tuple)) and len(value) > _LONGEST:
        return {path: None}
    if isinstance(value, dict):
        return {f"{path}[{key!r}]": part for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return {f"{path}[{i}]": part for i, part in enumerate(value)} or {path: None}
    kind = type(value)
    library = kind.__module__.partition(".")[0] in _LIBRARIES
    if library or isinstance(value, (type, torch.nn.Module)):
        return {}
    return {f"{path}.{key}": x for key, x in getattr(value, "__dict__", {}).items()}


def _join_names(names: list[str]) -> str:
    """Return names joined for a sentence; of more than three, a count of the rest."""
    shown, rest = names[:3], len(names) - 3
    if rest > 0:
        return f"{', '.join(shown)} and {rest} more"
    return " and ".join(filter(None, [", ".join(shown[:-1]), shown[-1]]))
