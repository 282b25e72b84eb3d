"""`aotc bench`: how long calls of a bundle take on this machine."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from aotc.cli import output
from aotc.cli.evidence_options import Replay, replay_options
from aotc.cli.progress import still_reporter
from aotc.cli.verb import (
    FilePath,
    NumberRange,
    format_option,
    trust,
    trust_option,
    variant_options,
    verb,
)
from aotc.errors import InputError

if TYPE_CHECKING:
    from aotc.artifacts.manifest import EntryPoint, Manifest
    from aotc.timing.messages import Budget, TimedBundle

_SECONDS = 5.0


@verb(
    "aotc bench digits-1.0.0.aotc predict",
    "aotc bench bert-1.0.0.aotc --sizes batch=8,length=128 --threads 4",
    "aotc bench gpt-1.0.0.aotc decode --input tokens=@tokens.npy --calls 200",
    "aotc bench new.aotc predict --compare old.aotc --at-most 1.05",
    "aotc bench digits-1.0.0.aotc predict --profile --threads 1",
    "aotc bench model.py --traffic traffic.csv --html evidence.html",
    "aotc bench model.py score --traffic traffic.csv --compare buckets,dynamic",
    "aotc bench model.onnx --traffic traffic.csv --against onnxruntime,openvino",
)
@click.argument("bundle", metavar="BUNDLE|SOURCE", type=FilePath())
@click.argument("entry", required=False)
@click.option(
    "--sizes",
    metavar="NAME=N,…",
    help="Symbolic sizes. [default: the optimum of the model, or the least]",
)
@click.option(
    "-i",
    "--input",
    "inputs",
    multiple=True,
    metavar="NAME=VALUE",
    help="An input instead of a random one: @file.npy, @file.npz:key, or JSON.",
)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True,
              help="Of random inputs.")  # fmt: skip
@click.option(
    "--load-state",
    "states",
    type=FilePath(),
    help="Begin with the states in this .safetensors file.",
)
@click.option(
    "--seconds",
    type=NumberRange(0, 86400, min_open=True),
    help=f"How long to call each bundle. [default: {_SECONDS:g}]",
)
@click.option("--calls", type=click.IntRange(1), help="How many calls, instead.")
@click.option(
    "--compare",
    "others",
    multiple=True,
    metavar="BUNDLE|NAME,…",
    type=FilePath(),
    help="Call this bundle too, in turn, and tell the ratio. May be given again. With "
    "--traffic and a SOURCE: execution models, as --models.",
)
@click.option(
    "--at-most",
    "limit",
    type=NumberRange(0, min_open=True),
    metavar="RATIO",
    help="Exit with 1 if the median is more than this times that of another bundle.",
)
@click.option(
    "--profile", is_flag=True, help="Tell the time of each dispatch (on processors)."
)
@replay_options()
@trust_option()
@click.option("--allow-unsigned", is_flag=True, help="Run a bundle without signature.")
@variant_options()
@format_option()
@click.pass_context
def bench(
    context: click.Context,
    /,
    bundle: str,
    entry: str | None,
    replay: Replay | None,
    form: str,
    **choices: Any,
) -> None:
    """Verify BUNDLE and measure how long calls of ENTRY take, in a fresh process.

    A call is what a caller waits for: inputs are checked and copied, and results are
    there. ENTRY may be left out if there is one. Inputs are random numbers unless
    --input gives them. States begin as in the bundle and are not saved.

    With --compare the bundles take turns, each in a process of its own with the same
    inputs. A ratio above 1 says that BUNDLE takes longer than the other.

    With --traffic, recorded traffic is replayed on them, or on a SOURCE (a model such
    as model.py or resnet.onnx), which is built under several execution models
    (--compare or --models). Peers replay the same requests beside them (--against).
    """
    if choices["target"] and not choices["fallback"]:
        raise click.UsageError("--target and --no-fallback exclude each other")
    if replay is not None:
        from aotc.cli.evidence import tell_evidence

        tell_evidence(bundle, entry, replay, form, **choices)
        return
    context.exit(0 if _time_calls(bundle, entry, form, **choices) else 1)


def _time_calls(
    bundle: str,
    entry: str | None,
    form: str,
    /,
    sizes: str | None,
    inputs: tuple[str, ...],
    seed: int,
    seconds: float | None,
    calls: int | None,
    others: tuple[str, ...],
    limit: float | None,
    profile: bool,
    keys: tuple[str, ...],
    **choices: Any,
) -> bool:
    """Measure repeated calls of an entry and print the report; return whether it meets
    the limit.
    """
    budget = _budget(seconds, calls)
    if limit is not None and not others:
        raise click.UsageError("--at-most needs --compare: it is a ratio to another")
    for other in others:
        if not os.path.exists(other) and not other.endswith(".aotc"):
            raise click.UsageError(
                f"--compare expects a bundle; got {other!r}, which is none (execution "
                "models of a SOURCE are compared with --traffic)"
            )
    if profile and (others or choices["states"]):
        raise click.UsageError("--profile excludes --compare and --load-state")
    from aotc.cli.bench_report import BenchReport
    from aotc.timing import machine
    from aotc.timing.dispatches import profile_of
    from aotc.timing.rounds import measure

    manifest = _manifest(bundle, keys, choices["allow_unsigned"])
    point = _choose(manifest, entry)
    for other in others:
        _choose(_manifest(other, keys, choices["allow_unsigned"]), point.name)
    subject = _subject(bundle, manifest, point, sizes, inputs, seed)
    subject = replace(subject, keys=keys, **choices)
    before = machine.description()
    subjects = [subject, *(replace(subject, bundle=other) for other in others)]
    shown = still_reporter()
    with shown.stage("calls"):
        measured = measure(subjects, budget, shown.step)
    found = profile_of(measured[0]) if profile else None
    report = BenchReport(point, before, measured, limit, seed, found)
    for warning in report.warnings:
        click.echo(f"warning: {output.escape_control_characters(warning)}", err=True)
    output.emit(report.to_json(), report.to_text(), form)
    return report.passed


def _budget(seconds: float | None, calls: int | None) -> Budget:
    """Return the budget of a measurement: calls or seconds; raise if both are given."""
    from aotc.timing.messages import Budget

    if seconds is not None and calls is not None:
        raise click.UsageError("--seconds and --calls exclude each other")
    return Budget(calls) if calls else Budget(seconds=seconds or _SECONDS)


def _manifest(bundle: str, keys: tuple[str, ...], allow_unsigned: bool) -> Manifest:
    """Return the manifest of a bundle after verifying its signature."""
    from aotc.artifacts.pack import read_bundle, retry_if_replaced

    return retry_if_replaced(
        bundle, lambda: read_bundle(bundle, trust(keys), allow_unsigned)
    ).manifest


def _choose(manifest: Manifest, entry: str | None) -> EntryPoint:
    """Return the entry point called `entry`, or the bundle's only one."""
    from aotc.training.entries import choose, require_one_device

    try:
        point = choose(manifest, entry, None)
    except InputError as error:
        entries = " | ".join(manifest.entry_points)
        error.hint = f"the entry comes after the bundle: aotc bench BUNDLE {entries}"
        raise
    require_one_device(
        point,
        ", to measure its calls",
        "of a step, aotc run --loop … --metrics m.jsonl writes the seconds",
    )
    return point


def _subject(
    bundle: str,
    manifest: Manifest,
    point: EntryPoint,
    sizes: str | None,
    inputs: tuple[str, ...],
    seed: int,
) -> TimedBundle:
    """Return a `TimedBundle` of the bundle's entry, with drawn or given inputs."""
    from aotc.cli.arrays import read_some_inputs
    from aotc.cli.sizes import read_sizes
    from aotc.errors.system import translate_system_errors
    from aotc.timing.inputs import arrays_for, sizes_for
    from aotc.timing.messages import TimedBundle

    given = read_some_inputs(inputs, point.inputs)
    with translate_system_errors():
        chosen = sizes_for(manifest, point, read_sizes(sizes), given)
        arrays = arrays_for(point, chosen, given, seed)
    return TimedBundle(bundle, point.name, arrays, tuple(given))
