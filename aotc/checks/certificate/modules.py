"""Queries of certificates on the functions of a module."""

from __future__ import annotations

from typing import NamedTuple

from aotc.dialects.calls.callees import reachable_functions, rules_of
from aotc.dialects.calls.custom import Checkpoint, custom_of
from aotc.dialects.functions.functions import functions_of
from aotc.dialects.graph import Reason
from aotc.mlir import Module


class Modes(NamedTuple):
    """Flags: whether a function has reverse-mode and forward-mode rules."""

    reverse: bool
    forward: bool


def modes_of(module: Module, name: str) -> Modes:
    """Return the modes for which every function that `name` calls has rules."""
    known = functions_of(module)
    reachable = (rules_of(known[each]) for each in reachable_functions(known, name))
    rules = [each for each in reachable if each is not None]
    return Modes(
        reverse=not any(isinstance(each.vjp, Reason) for each in rules),
        forward=not any(isinstance(each.jvp, Reason) for each in rules),
    )


def has_checkpoints(module: Module, name: str) -> bool:
    """Return whether a function calls a checkpoint, which derivatives recompute."""
    known = functions_of(module)
    return any(
        isinstance(custom_of(known[each]), Checkpoint)
        for each in reachable_functions(known, name)
    )
