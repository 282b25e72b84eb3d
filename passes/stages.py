"""The stages of a build that are passes, in order: the one list of what runs when.

Whoever lowers a program, wholly or in part, takes the passes from here.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from aotc.passes import load
from aotc.passes.base import Pass


@dataclass(frozen=True)
class PassStage:
    """Some passes that lead to a stage.

    Args:
        name: of the stage, after which its IR can be looked at and gone on with.
        names: of the passes.
        per_target: whether they run for each target by itself.
    """

    name: str
    names: tuple[str, ...]
    per_target: bool = False

    @property
    def passes(self) -> tuple[Pass, ...]:
        """The passes."""
        return tuple(map(load, self.names))


PASS_STAGES = (
    PassStage(
        "optimized",
        ("autodiff", "inline", "simplify", "cse", "simplify", "relax-order"),
    ),
    PassStage(
        "linalg",
        (
            "decompose",
            "simplify",
            "cse",
            "record-intermediates",
            "lower-to-linalg",
            "cse",
            "advance-updates",
        ),
    ),
    PassStage("variant", ("update-in-place", "control-to-blocks"), per_target=True),
)


@cache
def all_passes() -> tuple[Pass, ...]:
    """The passes of a build, from the graph to what the compiler gets."""
    return tuple(each for stage in PASS_STAGES for each in stage.passes)


def passes_between(after: str | None, before: str | None) -> tuple[Pass, ...]:
    """Those of a build between two passes, given by name: their first, in either case.

    Args:
        after: the pass that has run; None at the start.
        before: the pass that is not to run; None for all the rest.
    """
    names = [each.name for each in all_passes()]
    first = 0 if after is None else names.index(after) + 1
    end = len(names) if before is None else names.index(before)
    return all_passes()[first:end]
