"""What a certificate asks of the functions of a module."""

from __future__ import annotations

from typing import Any, NamedTuple

from aotc.dialects.control import While, control_of
from aotc.dialects.functions import functions_of
from aotc.dialects.transform import Checkpoint, CustomVjp, custom_of
from aotc.passes.inline import reached


class Modes(NamedTuple):
    """Which derivatives a function has."""

    reverse: bool
    forward: bool


def modes_of(module: Any, name: str) -> Modes:
    """The modes that all that a function reaches has rules for."""
    known = functions_of(module)
    functions = [known[each] for each in reached(known, name)]
    return Modes(
        reverse=not any(_is_open_ended(control_of(f)) for f in functions),
        forward=not any(isinstance(custom_of(f), CustomVjp) for f in functions),
    )


def _is_open_ended(control: Any) -> bool:
    return isinstance(control, While) and control.max_steps is None


def has_checkpoints(module: Any, name: str) -> bool:
    """Whether anything that a function reaches is computed again for derivatives."""
    known = functions_of(module)
    return any(
        isinstance(custom_of(known[each]), Checkpoint) for each in reached(known, name)
    )
