"""Execution models: the same source, built to compute calls of many sizes in many ways.

`EXECUTION_MODELS` is the table: a new one is a row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypedDict, TypeVar

from aotc import importers, pipeline
from aotc.dialects.calls.specialization import MOST
from aotc.dialects.sizes.contracts import BUCKET, DYNAMIC, ERROR, PAD
from aotc.errors import InputError
from aotc.evidence.contenders import BuildCost, Contender
from aotc.evidence.entry_points import entry_point_of
from aotc.evidence.signature import Bounds, EntrySignature, choose_signature
from aotc.machine.target import Target
from aotc.pipeline.report import BuildReport, Reporter
from aotc.timing.messages import TimedBundle
from aotc.traffic import Traffic

T = TypeVar("T")


class BuildOptions(TypedDict, total=False):
    """Arguments of a build that choose which sizes have code of their own."""

    policies: Mapping[str, str]
    specialize: Sequence[Mapping[str, int]]
    buckets_from: Path
    max_variants: int | None


# why a model cannot be built in some way, though it can in others
_IMPOSSIBLE = ("too-many-specializations", "padding-forbidden", "no-function")


@dataclass(frozen=True)
class Case:
    """A model and recorded traffic, from which several execution models are built.

    Args:
        source: the model.
        signature: of the entry of which calls are made.
        traffic: recorded, with sizes that the entry takes.
        traffic_file: where it stands.
        max_variants: how many buckets there may be; None for as many as in a build.
        target: what to compile for; None for this machine.
        threads: to compute with; None for as many as the loader takes.
        folder: to build in.
        reporter: is told of the builds.
    """

    source: str
    signature: EntrySignature
    traffic: Traffic
    traffic_file: Path
    max_variants: int | None
    target: str | None
    threads: int | None
    folder: Path
    reporter: Reporter

    @property
    def contracts(self) -> tuple[Bounds, ...]:
        """The bounds of the sizes, in the order of the traffic."""
        return tuple(self.signature.symbols[name] for name in self.traffic.symbols)

    def policies(self, policy: str) -> dict[str, str]:
        """Return a dict from every symbol of the traffic to `policy`."""
        return dict.fromkeys(self.traffic.symbols, policy)

    def by_name(self, values: Iterable[T]) -> dict[str, T]:
        """Return a dict from the traffic's symbol names to values in the same order."""
        return dict(zip(self.traffic.symbols, values, strict=True))


# ---- the models ---------------------------------------------------------------------


def _dynamic(case: Case) -> BuildOptions:
    """Return options of a build with one code for any sizes."""
    return {"policies": case.policies(DYNAMIC)}


def _static(case: Case) -> BuildOptions:
    """Return options of one code, for the contract's largest sizes or else the
    traffic's.
    """
    largest = case.by_name(map(max, zip(*case.traffic.counts, strict=True)))
    bounds = case.by_name(case.contracts)
    free = {name: size for name, size in largest.items() if bounds[name].max is None}
    policies = {name: BUCKET if name in free else PAD for name in largest}
    return {"policies": policies, "specialize": [free] if free else []}


def _buckets(case: Case) -> BuildOptions:
    """Return options of a build with buckets chosen from the recorded traffic."""
    return {
        "policies": case.policies(DYNAMIC),
        "buckets_from": case.traffic_file,
        "max_variants": case.max_variants,
    }


def _powers(case: Case) -> BuildOptions:
    """Return options of a build with buckets at powers of two."""
    rows = {
        tuple(map(power_above, sizes, case.contracts)) for sizes in case.traffic.counts
    }
    _require_few("powers", len(rows))
    wanted = [case.by_name(row) for row in sorted(rows)]
    return {"policies": case.policies(BUCKET), "specialize": wanted}


def power_above(size: int, bounds: Bounds) -> int:
    """Return the next power of two times `multiple_of`, at most the contract's max."""
    step = bounds.multiple_of
    power = step << (-(-size // step) - 1).bit_length() if size else 0
    return power if bounds.max is None else min(power, bounds.max // step * step)


def _sizes(case: Case) -> BuildOptions:
    """Return options of a build with a code for each recorded combination of sizes."""
    _require_few("sizes", len(case.traffic.counts))
    wanted = [case.by_name(row) for row in sorted(case.traffic.counts)]
    return {"policies": case.policies(ERROR), "specialize": wanted}


def _require_few(model: str, count: int) -> None:
    """Raise if an execution model would need more than `MOST` compiled codes."""
    if count > MOST:
        raise InputError(
            "too-many-specializations",
            f"expected traffic for which the execution model {model!r} makes at most "
            f"{MOST} codes, each of which is compiled; it would make {count}",
            hint="name other models: --models static,buckets,dynamic",
        )


def _build_bundle(
    options_of: Callable[[Case], BuildOptions], name: str, case: Case
) -> Contender:
    """Build the source by the options of one execution model, in a new folder; return
    its contender.
    """
    options = options_of(case)
    folder = case.folder / name
    folder.mkdir()
    with case.reporter.stage(name):
        report = pipeline.build(
            case.source,
            output=folder,
            entries=(case.signature.entry,),
            targets=Target.named(case.target or "native"),
            own_sizes=False,
            sign=False,
            cache=False,
            reporter=case.reporter,
            **options,
        )
    subject = TimedBundle(
        str(report.bundle),
        case.signature.entry,
        allow_unsigned=True,  # it was built here, in a folder that is ours alone
        threads=case.threads,
    )
    return Contender(name, subject, _build_of(report))


def _build_of(report: BuildReport) -> BuildCost:
    """Return the time and op counts of a build report."""
    seconds = sum(n for stage, n in report.stages.items() if stage != "self-check")
    ops = report.graph_ops
    return BuildCost(seconds, ops.get("graph"), ops.get("optimized"))


def _call_function(name: str, case: Case) -> Contender:
    """Return a contender that calls the model.py's own function, by jit or eagerly."""
    if Path(case.source).suffix != ".py":
        raise InputError(
            "no-function",
            f"expected a model.py for the execution model {name!r}, which calls its "
            "functions; got another source",
            where=case.source,
            hint="--models static,buckets,dynamic",
        )
    subject = TimedBundle(case.source, case.signature.entry, threads=case.threads)
    return Contender(name, subject, player=name)


# name → what makes the contender of that name
EXECUTION_MODELS: dict[str, Callable[[str, Case], Contender]] = {
    "static": partial(_build_bundle, _static),
    "buckets": partial(_build_bundle, _buckets),
    "powers": partial(_build_bundle, _powers),
    "sizes": partial(_build_bundle, _sizes),
    "dynamic": partial(_build_bundle, _dynamic),
    "jit": _call_function,
    "eager": _call_function,
}


# ---- what is asked for --------------------------------------------------------------


def source_entry(source: str, entry: str | None, traffic: Traffic) -> EntrySignature:
    """Return the signature of the source's entry that takes the traffic's sizes.

    Args:
        source: the model.
        entry: the name of the entry, if one was given.
        traffic: recorded.

    Raises:
        InputError: the model cannot be imported; `unknown-entry`; `unknown-size`.
    """
    program = importers.load(Path(source))
    found = [
        EntrySignature(
            each.name,
            {symbol.name: symbol for symbol in each.symbols},
            [guard.condition for guard in each.guards],
            entry_point_of(each).inputs,
            each.updates,
        )
        for each in program.entry_points
    ]
    return choose_signature(found, entry, traffic, source)


def build_contenders(
    case: Case, names: Sequence[str] | None
) -> tuple[tuple[Contender, ...], tuple[str, ...]]:
    """Build a model by each execution model; return the contenders and who was left
    out.

    Args:
        case: what to build.
        names: of execution models; None for all that can be built.

    Returns:
        The contenders, and why others were left out that were not named.

    Raises:
        InputError: `unknown-execution-model`; `too-many-specializations` or
            `padding-forbidden`, of a model that was named.
        AotcError: as builds raise it.
    """
    for name in names or ():
        _require_known(name)
    contenders, left_out = [], []
    for name in dict.fromkeys(names or EXECUTION_MODELS):
        try:
            contenders.append(EXECUTION_MODELS[name](name, case))
        except InputError as error:
            if names is not None or error.code not in _IMPOSSIBLE:
                raise
            left_out.append(f"{name} is left out: {error.message}")
    return tuple(contenders), tuple(left_out)


def _require_known(name: str) -> None:
    """Raise if no execution model has this name."""
    if name not in EXECUTION_MODELS:
        raise InputError(
            "unknown-execution-model",
            f"expected execution models of {', '.join(EXECUTION_MODELS)}; got {name!r}",
            hint="--models buckets,dynamic",
        )
