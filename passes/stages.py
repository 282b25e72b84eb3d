"""The stages of a build that are passes, in order, in one list.

Whoever lowers a program, wholly or in part, takes the passes from here. They, and the
kernels, are imported on use: a build that the cache knows runs none.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from functools import cache

from aotc.errors import InputError
from aotc.passes import PASSES, class_of, load, split_names
from aotc.passes.base import Pass
from aotc.programs.program import LEVELS


@dataclass(frozen=True)
class PassStage:
    """A named stage of a build: the sequence of passes that produces its IR.

    Args:
        name: of the stage, after which its IR can be looked at and gone on with.
        names: of the passes.
        per_target: whether they run for each target by itself.
        needs_target: whether they cannot run for none.
    """

    name: str
    names: tuple[str, ...]
    per_target: bool = False
    needs_target: bool = False

    def passes(
        self, level: int = LEVELS[-1], without: Collection[str] = ()
    ) -> tuple[Pass, ...]:
        """Return the stage's passes at an optimisation level, except those left out.

        Args:
            level: of optimisation.
            without: passes and families of kernels, see `parse_without`.
        """
        return _choose(map(load, self.names), level, without)


PASS_STAGES = (
    PassStage(
        "optimized",
        (
            "recover-attention",
            "autodiff",
            "inline",
            "specialize",
            "simplify",
            "cse",
            "recover-ops",
            "pad-entries",
            "move-bytes",
            "tabulate-bytes",
            "sink-transposes",
            "simplify",
            "sink-reshapes",
            "integer-products",
            "integer-sums",
            "keep-quantized",
            "fold-scales",
            "scale-weights",
            "scale-sums",
            "rotate-pairs",
            "hoist-invariants",
            "join-steps",
            "simplify",
            "cse",
            "share-steps",
            "relax-order",
            "fold-parameters",
            "advance-collectives",
            "record-devices",
        ),
    ),
    PassStage(
        "regions",
        (
            "drop-general",
            "compose-ops",
            "split-products",
            "round-rows",
            "split-reductions",
            "fuse-regions",
            "join-products",
            "join-updates",
            "widen-scales",
            "gather-packed",
            "hoist-invariants",
            "prune",
            "fold-parameters",
            "delay-dequantization",
            "decompose",
            "simplify",
            "cse",
            "fuse-loops",
            "record-intermediates",
        ),
        per_target=True,
    ),
    PassStage(
        "linalg",
        (
            "lower-to-linalg",
            "share-kernels",
            "cse",
            "delay-exchanges",
            "separate-updates",
            "advance-updates",
        ),
        per_target=True,
    ),
    PassStage(
        "variant",
        ("update-in-place", "control-to-blocks"),
        per_target=True,
        needs_target=True,
    ),
)


# the stages whose IR can be looked at, changed and gone on with
IR_STAGES = ("graph", *(stage.name for stage in PASS_STAGES))

_TARGETLESS = {stage.name: stage for stage in PASS_STAGES if not stage.needs_target}


def optional_parts() -> list[str]:
    """Return the names that `--without` takes: optional passes and kernel families."""
    from aotc.kernels.capabilities import family_names

    passes = (each for each in all_passes() if each.level > 0)
    return [*dict.fromkeys(each.name for each in passes), *family_names()]


def parse_without(text: str) -> tuple[str, ...]:
    """Parse `--without`: the names of passes and kernel families to leave out.

    Args:
        text: with commas between, such as `recover-ops,rows`.

    Raises:
        InputError: `bad-option`: one of them is none that a build can do without.
    """
    names = tuple(dict.fromkeys(split_names(text)))
    known = optional_parts() if names else []
    for name in names:
        if name not in known:
            raise InputError(
                "bad-option",
                "expected passes that a build can do without, or families of kernels, "
                f"for --without; got '{name}', {_why_kept(name)}",
                hint=f"there are {', '.join(known)}",
            )
    return names


def _why_kept(name: str) -> str:
    """Return why `--without` does not accept a name, for the error message."""
    if name in {each.name for each in all_passes()}:
        return "a pass that every level has: no code can be made of IR without it"
    if name in PASSES:
        return "a pass that a build runs only if an option of its own asks for it"
    if any(stage.name == name for stage in PASS_STAGES):
        return "a stage, which is of several passes"
    return "which is neither"


def parse(
    text: str, level: int = LEVELS[-1], without: Collection[str] = ()
) -> list[Pass]:
    """Parse a list of passes; a stage's name stands for all of its passes.

    Args:
        text: with commas between, such as `optimized,linalg` or `autodiff,cse`.
        level: of optimisation, for those of stages.
        without: what is left out, of stages.

    Raises:
        InputError: `unknown-pass`, `bad-pass-option`; `bad-option`: a stage that is
            for a target.
    """
    found: list[Pass] = []
    for each in split_names(text):
        is_stage = each in _TARGETLESS
        found += _TARGETLESS[each].passes(level, without) if is_stage else [_load(each)]
    return found


def _load(name: str) -> Pass:
    """Load one pass by name; raise for a stage that needs a target."""
    if any(stage.name == name for stage in PASS_STAGES):
        raise InputError(
            "bad-option",
            f"expected a stage that does not need a target; got '{name}'",
            hint=f"stages: {', '.join(_TARGETLESS)}; the IR of each target is what "
            f"`aotc build --stop-after {name}` gives",
        )
    return load(name)


def last_stage(text: str) -> str | None:
    """Return the stage that a list of passes ends with; None if a pass ends it."""
    names = split_names(text)
    return names[-1] if names and names[-1] in _TARGETLESS else None


def parse_graph_passes(
    text: str, level: int = LEVELS[-1], without: Collection[str] = ()
) -> list[Pass]:
    """Parse a list of passes, as `parse`, and raise for any that lowers the graph.

    Raises:
        InputError: `unknown-pass`, `bad-pass-option`; `bad-option`: one of them is not
            for the graph.
    """
    lowering = [
        each
        for each in split_names(text)
        if not all(p.keeps_graph for p in parse(each))
    ]
    if lowering:
        known = ", ".join(name for name in PASSES if class_of(name).keeps_graph)
        raise InputError(
            "bad-option",
            "expected passes of the graph for --passes, which lead to the stage "
            f"'optimized'; got '{lowering[0]}', which is for lowered IR",
            hint=f"passes of the graph: {known}; `aotc opt` runs any pass on IR that a "
            "build has dumped",
        )
    return parse(text, level, without)


@cache
def all_passes(
    level: int = LEVELS[-1], without: tuple[str, ...] = ()
) -> tuple[Pass, ...]:
    """Return the passes of a whole build in order, at an optimisation level.

    Args:
        level: of optimisation; by default all of them.
        without: what is left out.
    """
    return tuple(each for stage in PASS_STAGES for each in stage.passes(level, without))


def passes_between(
    after: str | None,
    before: str | None,
    level: int = LEVELS[-1],
    without: Collection[str] = (),
) -> tuple[Pass, ...]:
    """Return the passes of a build after one named pass and before another.

    Args:
        after: the pass that has run; None at the start.
        before: the pass that is not to run; None for all the rest.
        level: of optimisation; by default all of them.
        without: what is left out.
    """
    names = [each.name for each in all_passes()]
    first = 0 if after is None else names.index(after) + 1
    end = len(names) if before is None else names.index(before)
    return _choose(all_passes()[first:end], level, without)


def _choose(
    passes: Iterable[Pass], level: int, without: Collection[str]
) -> tuple[Pass, ...]:
    """Return the passes at an optimisation level, without those left out."""
    from aotc.kernels.capabilities import family_names
    from aotc.passes.compose_ops import ComposeOps
    from aotc.passes.fuse_loops import FuseLoops
    from aotc.passes.fuse_regions import FuseRegions
    from aotc.passes.join_updates import JoinUpdates

    families = "+".join(name for name in family_names() if name in without)
    return tuple(
        replace(each, without=families)
        if isinstance(each, ComposeOps | FuseRegions | FuseLoops | JoinUpdates)
        else each
        for each in passes
        if each.level <= level and each.name not in without
    )
