"""`aotc parity`: does the compiled model compute what its source does?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from aotc.cli import output
from aotc.cli.arrays import load_array
from aotc.cli.build import source_and_entries, targets_option
from aotc.cli.progress import reporter
from aotc.cli.sizes import read_sizes, split_assignment
from aotc.cli.verb import FilePath, NumberRange, format_option, quiet_option, verb
from aotc.machine.target import Target

if TYPE_CHECKING:
    from aotc.checks.parity import ComparisonOptions


@verb(
    "aotc parity model.pt2",
    "aotc parity resnet.onnx --target cpu --sizes batch=4 --bisect",
    "aotc parity bert.onnx --input input_ids=@ids.npy --samples 1",
    "aotc parity model.py:predict --format json -o dist",
)
@click.argument("source", metavar="SOURCE[:ENTRY]", type=FilePath())
@targets_option()
@click.option("--seed", default=0, show_default=True, help="Of random inputs.")
@click.option(
    "--samples",
    type=click.IntRange(1),
    default=2,
    show_default=True,
    help="How many calls to compare; their sizes differ.",
)
@click.option("--sizes", metavar="NAME=N,…", help="Sizes instead of those chosen.")
@click.option(
    "--input",
    "inputs",
    multiple=True,
    metavar="NAME=@FILE",
    help="An array for an input, instead of a random one.",
)
@click.option(
    "--tolerance",
    type=NumberRange(0),
    help="Largest error of floats, relative to the largest value.",
)
@click.option("--bisect", is_flag=True, help="Find the first op that differs.")
@click.option(
    "-o",
    "--output",
    "folder",
    type=FilePath(path_type=Path, file_okay=False),
    help="Write the bundle into this folder, with the figures in its manifest.",
)
@click.option("--force", is_flag=True, help="Replace a bundle that is there.")
@quiet_option()
@format_option()
@click.pass_context
def parity(
    context: click.Context,
    /,
    source: str,
    targets: tuple[Target, ...],
    bisect: bool,
    folder: Path | None,
    force: bool,
    quiet: bool,
    form: str,
    **choices: Any,
) -> None:
    """Compare the compiled SOURCE with the framework it comes from, on random inputs.

    PyTorch runs .pt2 files and modules, ONNX Runtime (or the reference evaluator of
    onnx) .onnx files, JAX its exports and functions; entries in Python are compared
    with aotc's reference evaluator. The exit code is 1 if an output differs.
    """
    from aotc import pipeline
    from aotc.artifacts.leftovers import temporary_folder
    from aotc.checks.parity import ParityMismatch

    path, entries = source_and_entries(source)
    with temporary_folder() as scratch:
        try:
            found = pipeline.build(
                path,
                output=folder or scratch,
                entries=entries,
                targets=targets,
                force=force,
                sign=folder is not None,
                parity=_plan(bisect, **choices),
                reporter=reporter(quiet=quiet),
            ).parities
        except ParityMismatch as error:
            found = list(error.parities)
    passed = all(each.passed for each in found)
    document = {
        "schema": "aotc.parity/1",
        "passed": passed,
        "parity": [each.to_json() for each in found],
    }
    output.emit(document, "\n".join(map(str, found)), form)
    context.exit(0 if passed else 1)


def _plan(
    bisect: bool,
    seed: int,
    samples: int,
    sizes: str | None,
    inputs: tuple[str, ...],
    tolerance: float | None,
) -> ComparisonOptions:
    """Return the options of a comparison, from those of the command line."""
    from aotc.checks.parity import ComparisonOptions, InputOptions

    named = dict(split_assignment(text, "--input x=@x.npy") for text in inputs)
    choice = InputOptions(
        seed,
        samples,
        read_sizes(sizes),
        {name: load_array(text.removeprefix("@")) for name, text in named.items()},
    )
    return ComparisonOptions(choice, tolerance, bisect)
