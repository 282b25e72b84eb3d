"""`aotc run`: call one entry of a bundle."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from aotc.cli import output
from aotc.cli.verb import OutputFile, format_option, trust, trust_option, verb
from aotc.errors import InputError

if TYPE_CHECKING:
    from aotc.artifacts.manifest import EntryPoint, Manifest


@verb(
    "aotc run digits-1.aotc --input x=@images.npy",
    "aotc run digits-1.aotc --input x=@data.npz:images --output out.npz",
    "aotc run adder-1.aotc --entry add --input a=1.5 --input b=[1,2,3]",
)
@click.argument("bundle", type=click.Path())
@click.option("--entry", help="Entry to call; needed if there are several.")
@click.option(
    "-i",
    "--input",
    "inputs",
    multiple=True,
    metavar="NAME=VALUE",
    help="@file.npy, @file.npz:key, or a JSON number or list.",
)
@click.option(
    "-o",
    "--output",
    "file",
    type=OutputFile(),
    help="Write the outputs to this .npz file instead of printing them.",
)
@trust_option()
@click.option("--allow-unsigned", is_flag=True, help="Run a bundle without signature.")
@click.option("--target", help="Use this variant, not the best one for the machine.")
@click.option("--threads", type=click.IntRange(min=1), help="Threads to compute with.")
@format_option()
def run(
    bundle: str,
    entry: str | None,
    inputs: tuple[str, ...],
    file: Path | None,
    keys: tuple[str, ...],
    target: str | None,
    form: str,
    **choices: Any,
) -> None:
    """Verify BUNDLE, call one of its entries and show the outputs.

    State that an entry updates lasts until the command ends.
    """
    from aotc import runtime
    from aotc.cli import arrays

    model = runtime.load(bundle, trust=trust(keys), target=target, **choices)
    point = _choose(model.manifest, entry)
    outputs = _call(model, point, arrays.read_inputs(inputs, point.inputs))
    if file:
        arrays.write_npz(file, outputs)
        text = f"wrote {', '.join(outputs)} to {file}"
    else:
        text = arrays.render(outputs, point.outputs)
    document = {
        "schema": "aotc.run/1",
        "entry": point.name,
        "file": str(file) if file else None,
        "outputs": None if file else arrays.to_json(outputs, point.outputs),
    }
    output.emit(document, text, form)


def _choose(manifest: Manifest, name: str | None) -> EntryPoint:
    entries = manifest.entry_points
    if name is None and len(entries) == 1:
        return next(iter(entries.values()))
    if name in entries:
        return entries[name]
    said = f"there is no entry {name!r}" if name else "the bundle has several entries"
    raise InputError("unknown-entry", said, hint=f"--entry {' | '.join(entries)}")


def _call(model: Any, point: EntryPoint, leaves: list[Any]) -> dict[str, Any]:
    """Call with the leaves in the form of the entry's arguments; outputs by name."""
    import numpy as np

    from aotc.artifacts import trees

    arguments = trees.builder(point.arguments)(leaves)
    result = model.entry(point.name)(**arguments)
    flat: dict[int, Any] = {}
    _flatten(point.result, result, flat)
    return {leaf.name: np.asarray(flat[i]) for i, leaf in enumerate(point.outputs)}


def _flatten(tree: Any, value: Any, into: dict[int, Any]) -> None:
    """Collect the leaves of `value`, which has the form of `tree`, by their index."""
    if isinstance(tree, int):
        into[tree] = value
    elif tree is not None:
        ((kind, body),) = tree.items()
        for key, child in body.items() if kind == "dict" else enumerate(body):
            _flatten(child, value[key], into)
