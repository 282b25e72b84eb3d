"""`aotc run`: call one entry of a bundle, once or in a loop over data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from aotc.cli import output, ranks
from aotc.cli.interrupts import CommandInterrupted
from aotc.cli.loop_options import loop_options
from aotc.cli.metrics_option import MetricsFiles, metrics_option
from aotc.cli.stream_options import stream_options
from aotc.cli.verb import (
    ARGUMENTS,
    FilePath,
    OutputFile,
    format_option,
    trust,
    trust_option,
    variant_options,
    verb,
)
from aotc.core import options
from aotc.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from signal import Signals

    from aotc.artifacts.manifest import EntryPoint, Leaf
    from aotc.cli.arrays import Array
    from aotc.cli.loop_options import LoopSettings
    from aotc.cli.stream_options import StreamSettings
    from aotc.runtime import DeviceModels, Model


@verb(
    "aotc run digits-1.0.0.aotc --input x=@images.npy",
    "aotc run digits-1.0.0.aotc --input x=@data.npz:images --output out.npz",
    "python camera.py | aotc run digits-1.0.0.aotc --input x=@-",
    "aotc run adder-1.0.0.aotc --entry add --input a=1.5 --input b=[1,2,3]",
    "aotc run digits-1.0.0.aotc --loop data.npz --epochs 5 --save-state s.safetensors",
    "aotc run digits-1.0.0.aotc --loop data.npz --steps 900 --checkpoint ck --every 50",
    "aotc run digits-1.0.0.aotc --loop data.npz --resume ck --find-nan model.py",
    "aotc run digits-1.0.0.aotc --loop x.npz --entry predict --batch-size 64 -o p.npz",
    "aotc run digits-1.0.0.aotc --entry predict --stream - < in.jsonl > out.jsonl",
)
@click.argument("bundle", type=FilePath())
@click.option("--entry", help="Entry to call; needed if there are several.")
@click.option(
    "-i",
    "--input",
    "inputs",
    multiple=True,
    metavar="NAME=VALUE",
    help="@file.npy, @file.npz:key, @- for standard input, or a JSON number or list.",
)
@click.option(
    "-o",
    "--output",
    "file",
    type=OutputFile(".npz"),
    help="Write the outputs to this .npz file instead of printing them.",
)
@click.option(
    "--load-state",
    type=FilePath(path_type=Path),
    help="Begin with the states in this .safetensors file.",
)
@click.option(
    "--save-state",
    type=OutputFile(".safetensors"),
    help="Write the states to this .safetensors file at the end.",
)
@loop_options()
@stream_options()
@metrics_option()
@trust_option()
@click.option("--allow-unsigned", is_flag=True, help="Run a bundle without signature.")
@click.option(
    "--find-nan",
    type=FilePath(path_type=Path),
    metavar="MODEL",
    help="When an output or state is not finite, name the op that made the first such "
    "number; MODEL is the file that the bundle was built from, or IR of its graph.",
)
@variant_options()
@click.option(
    "--ranks",
    "count",
    type=click.IntRange(1, 256),
    help="Compute in so many processes, which divide the devices of the entry among "
    "them.",
)
@format_option()
def run(
    bundle: str,
    entry: str | None,
    inputs: tuple[str, ...],
    file: Path | None,
    load_state: Path | None,
    save_state: Path | None,
    loop: LoopSettings | None,
    stream: StreamSettings | None,
    metrics: MetricsFiles,
    find_nan: Path | None,
    keys: tuple[str, ...],
    target: str | None,
    count: int | None,
    form: str,
    **choices: Any,
) -> None:
    """Verify BUNDLE, call one of its entries and show the outputs.

    State that an entry updates lasts until the command ends, unless --save-state keeps
    it. With --loop the entry, by default the one that trains, is called with one batch
    of the data after the other. An entry that updates no state takes the rows once and
    in their order, and --output gets its results for all of them. With --stream it is
    called with one item of a file, or of standard input, after the other.

    An entry with collectives takes several devices, each computed by a thread of this
    process, or of one of --ranks. Of one call, an input with an axis more than the
    entry takes has a part for each device, and outputs have such an axis.

    With AOTC_EAGER=1, BUNDLE may be a model.py: the entry is executed op by op, not
    compiled, so that its prints and breakpoints see values.
    """
    if Path(bundle).suffix == ".py" and options.get("AOTC_EAGER"):
        _require_no_bundle_options(
            loop, stream, load_state, save_state, find_nan, target
        )
        document, text = _execute(Path(bundle), entry, inputs, file)
        output.emit(document, text, form)
        return
    _require_compatible(loop, load_state, find_nan, target, choices["fallback"])
    _require_plain_stream(stream, loop, file, find_nan, form)
    kept = (loop.checkpoint or loop.resume) if loop else None
    ranks.start(count, click.get_current_context().meta[ARGUMENTS], kept)
    loop = _with_metrics(loop, metrics)
    with metrics.written_at_the_end():
        models = _load(bundle, keys, target, choices)
        model = models.first
        point = _choose(model, entry, loop)
        only = {"--stream": stream, "--find-nan": find_nan}
        ranks.require_fit(models, point, only)
        model = _prepare(models, load_state, save_state, find_nan)
        if stream:
            _run_stream(model, point, inputs, stream, metrics, save_state)
            return
        of = models if point.devices else model
        document, text, stopped = _compute(of, point, inputs, loop, file)
        if find_nan:
            text += "\nall outputs and states are finite"
        if save_state and point.devices and not loop:  # a loop has compared them
            ranks.require_equal_states(models)
        if save_state and ranks.writes_answer(models):
            model.save_state(save_state)
            text += f"\nwrote the states to {save_state}"
    if ranks.writes_answer(models):
        document["state_file"] = str(save_state) if save_state else None
        output.emit(document | _variant(model), text, form)
    if stopped:
        steps = document["steps"]
        raise CommandInterrupted(
            f"stopped by {stopped.name} after step {steps}", stopped
        )


def _compute(
    model: Model | DeviceModels,
    point: EntryPoint,
    inputs: tuple[str, ...],
    loop: LoopSettings | None,
    file: Path | None,
) -> tuple[dict[str, Any], str, Signals | None]:
    """Call an entry once or in a loop; return the answer (JSON, text) and a stopping
    signal.
    """
    from aotc.runtime import DeviceModels

    if loop:
        return _run_loop(model, point, inputs, loop, file)
    if isinstance(model, DeviceModels):
        return *_call_devices(model, point, inputs, file), None
    return *_call_once(model, point, inputs, file), None


def _with_metrics(
    loop: LoopSettings | None, metrics: MetricsFiles
) -> LoopSettings | None:
    """Return the loop settings with the metrics file; raise for that file without a
    loop.
    """
    if metrics.steps is None:
        return loop
    if loop is None:
        raise click.UsageError(
            f"--metrics {metrics.steps} needs --loop, whose steps go there; files for "
            "counters end in .prom or .json"
        )
    return replace(loop, metrics=metrics.steps)


def _load(
    bundle: str, keys: tuple[str, ...], target: str | None, choices: Mapping[str, Any]
) -> DeviceModels:
    """Verify and load the bundle: a model for each device of this process."""
    from aotc import runtime

    return runtime.load_devices(bundle, trust=trust(keys), target=target, **choices)


def _prepare(
    models: DeviceModels,
    load_state: Path | None,
    save_state: Path | None,
    find_nan: Path | None,
) -> Model:
    """Load the initial states; return the first device's model, with NaN checks if
    asked for.
    """
    from aotc.cli.nan_search import require_finite_calls
    from aotc.training.checkpoints import require_any_state

    model = models.first
    if save_state:
        require_any_state(model)
    if load_state:
        models.load_state(load_state)
    return require_finite_calls(model, find_nan) if find_nan else model


def _require_no_bundle_options(*asked: object) -> None:
    """Raise a usage error if options that need a bundle are given for a model.py."""
    if any(asked):
        raise click.UsageError(
            "with AOTC_EAGER a model.py is called once: --loop, --stream, "
            "--load-state, --save-state, --find-nan and --target need a bundle"
        )


def _execute(
    model: Path, entry: str | None, inputs: tuple[str, ...], file: Path | None
) -> tuple[dict[str, Any], str]:
    """Run an entry of a model.py eagerly; return the answer as JSON and text."""
    from aotc.cli import arrays
    from aotc.pipeline.executing import execute_source

    name, found = execute_source(
        model, entry, lambda leaves: arrays.read_inputs(inputs, leaves)
    )
    leaves = [leaf for leaf, _ in found]
    return _answer(name, leaves, [array for _, array in found], file)


def _require_compatible(
    loop: LoopSettings | None,
    load_state: Path | None,
    find_nan: Path | None,
    target: str | None,
    fallback: bool,
) -> None:
    """Raise a usage error for options that exclude each other."""
    if target and not fallback:
        raise click.UsageError(
            "--target and --no-fallback exclude each other: nothing falls back where "
            "the variant is named"
        )
    if loop and loop.resume and load_state:
        raise click.UsageError("--resume and --load-state exclude each other")
    if loop and loop.allow_nan and find_nan:
        raise click.UsageError("--find-nan and --allow-nan exclude each other")


def _require_plain_stream(
    stream: StreamSettings | None,
    loop: LoopSettings | None,
    file: Path | None,
    find_nan: Path | None,
    form: str,
) -> None:
    """Raise a usage error for options that exclude `--stream`."""
    if stream is None:
        return
    others = {
        "--loop": loop,
        "--output": file,
        "--find-nan": find_nan,
        "--format json": form == "json",
    }
    for option, said in others.items():
        if said:
            raise click.UsageError(
                f"{option} and --stream exclude each other: results of a stream go to "
                "standard output, each as it comes, in the form of its items"
            )


def _variant(model: Model) -> dict[str, Any]:
    """Return the variant that ran, and better ones that could not, with reasons, as
    JSON.
    """
    return {
        "variant": model.variant.id,
        "fallback": model.selection.fallback,
        "passed_over": [
            {
                "variant": judgement.variant.id,
                "reasons": list(map(str, judgement.mismatches)),
            }
            for judgement in model.selection.passed_over
        ],
    }


def _choose(model: Model, entry: str | None, loop: LoopSettings | None) -> EntryPoint:
    """Return the entry called `entry`, or the only one; in a loop, the one that
    trains.
    """
    from aotc.cli.loop_options import OptionWording
    from aotc.training.entries import choose
    from aotc.training.wording import use_wording

    with use_wording(OptionWording()):
        return choose(model.manifest, entry, "train-step" if loop else None)


def _batching_hint(
    error: InputError, model: Model, point: EntryPoint, given: Sequence[Array]
) -> str | None:
    """Return a hint for a shape error with too many rows: run them in batches; else
    None.
    """
    rows = {leaf.name: leaf.shape[0] for leaf in point.inputs if leaf.shape}
    sizes = set(rows.values())
    symbol = model.manifest.symbols.get(str(sizes.pop())) if len(sizes) == 1 else None
    if error.code != "shape-contract" or symbol is None or symbol.max is None:
        return None
    if all(not array.shape or len(array) <= symbol.max for array in given):
        return None
    size = symbol.max - symbol.max % symbol.multiple_of
    return (
        f"run all rows in batches: --loop data.npz --batch-size {size}, with "
        f"{', '.join(rows)} in data.npz instead of --input"
    )


def _call_once(
    model: Model,
    point: EntryPoint,
    inputs: tuple[str, ...],
    file: Path | None,
) -> tuple[dict[str, Any], str]:
    """Call the entry once; return the answer as JSON and text."""
    from aotc.cli import arrays

    given = arrays.read_inputs(inputs, point.inputs)
    try:
        leaves = model.entry(point.name).call_flat(given)
    except InputError as error:
        error.hint = _batching_hint(error, model, point, given) or error.hint
        raise
    return _answer(point.name, point.outputs, leaves, file)


def _call_devices(
    models: DeviceModels,
    point: EntryPoint,
    inputs: tuple[str, ...],
    file: Path | None,
) -> tuple[dict[str, Any], str]:
    """Call an entry of several devices once; return the answer as JSON and text."""
    leaves, values = ranks.call(models, point, inputs)
    return _answer(
        point.name, leaves, values, file if ranks.writes_answer(models) else None
    )


def _answer(
    entry: str, outputs: Sequence[Leaf], values: Sequence[Array], file: Path | None
) -> tuple[dict[str, Any], str]:
    """Return a call's outputs as JSON and text; also write them to `file`, if any."""
    from aotc.cli import arrays

    named = dict(zip([leaf.name for leaf in outputs], values, strict=True))
    if file:
        arrays.write_npz(file, named)
        text = f"wrote {', '.join(named)} to {file}"
    else:
        text = arrays.render(named, outputs)
    document = {
        "schema": "aotc.run/1",
        "entry": entry,
        "file": str(file) if file else None,
        "outputs": None if file else arrays.to_json(named, outputs),
    }
    return document, text


def _run_loop(
    model: Model | DeviceModels,
    point: EntryPoint,
    inputs: tuple[str, ...],
    settings: LoopSettings,
    file: Path | None,
) -> tuple[dict[str, Any], str, Signals | None]:
    """Run the entry over data; return the answer, and the signal that stopped it."""
    from aotc.cli import arrays, loop

    constants = arrays.read_some_inputs(inputs, point.inputs)
    result = loop.run(model, point, constants, settings, file)
    document = {"schema": "aotc.loop/1", **result.to_json()}
    return document, result.to_text(), result.stopped


def _run_stream(
    model: Model,
    point: EntryPoint,
    inputs: tuple[str, ...],
    settings: StreamSettings,
    metrics: MetricsFiles,
    save_state: Path | None,
) -> None:
    """Call the entry for each item of a stream; save the states at its end."""
    from aotc.cli import arrays, streaming

    constants = arrays.read_some_inputs(inputs, point.inputs)
    streaming.run(model, point, constants, settings, metrics.write_counters)
    if save_state:
        model.save_state(save_state)
