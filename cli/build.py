"""`aotc build`: model in, signed bundle out."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from aotc.cli import output
from aotc.cli.progress import reporter
from aotc.cli.verb import (
    FilePath,
    MemorySize,
    OutputFile,
    format_option,
    quiet_option,
    require_check_option,
    sign_option,
    verb,
)
from aotc.core.numerics import LEVELS, MIXED
from aotc.core.options import SELF_CHECK_MODES
from aotc.core.writing import write_text
from aotc.machine.target import TARGETS, Target

if TYPE_CHECKING:
    from aotc.checks.parity import ComparisonOptions

_Function = TypeVar("_Function", bound=Callable[..., None])


def targets_option() -> Callable[[_Function], _Function]:
    """Return a decorator for the repeatable option `--target`, as argument
    `targets`.
    """
    return click.option(
        "-t",
        "--target",
        "targets",
        multiple=True,
        help="What to compile for, see `aotc targets`; by default AOTC_TARGETS, else "
        "cpu.",
        shell_complete=_complete_target,
        callback=_targets,
    )


def _complete_target(
    ctx: click.Context, param: click.Parameter, begun: str
) -> list[str]:
    """Return the target names that begin with `begun`, for shell completion."""
    return [name for name in ("cpu", "native", *TARGETS) if name.startswith(begun)]


def _targets(
    ctx: click.Context, param: click.Parameter, given: tuple[str, ...]
) -> tuple[Target, ...]:
    """Parse the values of `--target`; raise for a misspelt one before the pipeline is
    imported.
    """
    named = Target.listed(given)
    if not named:
        Target.default()  # refuses AOTC_TARGETS that name none
    return named


class _Level(click.Choice[str]):
    """Parameter type: a level of optimisation, such as `O2`."""

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> str:
        """Return a known level; raise a usage error for others, with an alternative to
        -O3.
        """
        if value == "3":
            self.fail(
                "there is no -O3: -O2, the default, is the highest level. What takes "
                "longer for the sake of speed is to measure schedules: "
                "--tuning FILE --tune",
                param,
                ctx,
            )
        return super().convert(value, param, ctx)


@verb(
    "aotc build model.py",
    "aotc build model.py:predict -o dist --name digits --version 1.0.0",
    "aotc build model.py --target x86_64-v3 --target cuda:sm_89",
    "aotc build model.py --sign release.key",
    "aotc build model.py --dump ir --verbose",
    "aotc build model.py --stop-after graph --readable",
    "aotc build model.py -O0 --dump ir",
    "aotc build model.py --certify-gradients",
    "aotc build resnet.onnx --parity",
    "aotc build resnet.onnx --io-layout nhwc",
    "aotc build resnet.onnx --quantize resnet-int8.json",
    "aotc build model.py --specialize batch=1 --specialize batch=64",
    "aotc build model.py --specialize batch=16 --policy batch=bucket",
    "aotc build model.py --buckets-from traffic.csv --max-variants 4",
    "aotc build model.py --peak-memory 512MB",
    "aotc build model.py --tuning tuning.json --tune 60",
)
@click.argument("source", metavar="SOURCE[:ENTRY]", type=FilePath())
@click.option(
    "-o",
    "--output",
    "folder",
    type=FilePath(path_type=Path, file_okay=False),
    default=".",
    help="Folder to write the bundle into; or, with a name that ends in .aotc, the "
    "bundle itself.",
)
@click.option("--entry", "entries", multiple=True, help="Build only this entry.")
@targets_option()
@click.option("--name", help="Name of the bundle, instead of the source's.")
@click.option("--version", help="Version of the bundle.")
@sign_option(
    "Sign with this private key: a file, env:NAME or fd:N; by default that of "
    "AOTC_SIGNING_KEY, else your development key."
)
@click.option("--no-sign", is_flag=True, help="Leave the bundle unsigned.")
@click.option("--force", is_flag=True, help="Replace a bundle that is there.")
@click.option(
    "--dump",
    type=FilePath(path_type=Path, file_okay=False),
    help="Write the IR of every stage into this folder.",
)
@click.option(
    "--stop-after",
    type=click.Choice(["graph", "optimized", "regions", "linalg", "variant", "vmfb"]),
    help="Stop there and print the IR of that stage; nothing is packed.",
)
@click.option("--readable", is_flag=True, help="Print that IR in the form for people.")
@click.option(
    "-O",
    "level",
    type=_Level(["0", "1", "2"]),
    callback=lambda _, __, level: level and int(level),
    help="How far to optimise: with the passes alone that a build cannot do without, "
    "with those that simplify, or with all, which is the default.",
)
@click.option(
    "--passes",
    help="Passes that lead to the stage 'optimized', with commas between, instead of "
    "the usual ones.",
)
@click.option(
    "--without",
    help="Passes and families of kernels to leave out, with commas between, such as "
    "recover-ops,rows: to find out what they do.",
)
@click.option(
    "--quantize",
    type=FilePath(path_type=Path, dir_okay=False),
    metavar="RECIPE",
    help="Give layers the precisions of this file, which `aotc quantize` has written.",
)
@click.option(
    "--quantize-data",
    type=FilePath(path_type=Path, dir_okay=False),
    metavar="FILE.npz",
    help="The calibration data of that recipe, where weights follow from it (gptq).",
)
@click.option(
    "--precision",
    type=click.Choice([*MIXED]),
    help="Compute products, and what follows from them, in bf16 or f16: of what "
    "entries differentiate, and of entries without derivatives. States stay f32; in "
    "f16 losses are scaled.",
)
@click.option(
    "--io-layout",
    type=click.Choice(["nhwc", "nchw"]),
    help="Take and return images in this layout, whatever that of SOURCE; channels "
    "stand last, or before the spatial axes, also of sequences and volumes.",
)
@click.option(
    "--specialize",
    "specialize",
    multiple=True,
    metavar="SIZES",
    help="Make code for calls of these sizes alone, such as batch=1,length=128, beside "
    "that for any. May be given again.",
)
@click.option(
    "--policy",
    "policies",
    multiple=True,
    metavar="NAME=POLICY",
    help="What becomes of calls whose size has no code of its own: dynamic (the code "
    "for any), error, pad (to the max of the size) or bucket (to the next size of "
    "--specialize). May be given again.",
)
@click.option(
    "--optimum",
    metavar="SIZES",
    help="The sizes that most calls have, such as batch=8,length=128, for which code "
    "for any size is scheduled.",
)
@click.option(
    "--buckets-from",
    type=FilePath(path_type=Path, dir_okay=False),
    metavar="TRAFFIC",
    help="Choose the sizes to pad calls to for this recorded traffic: a CSV file with "
    "a column for each size and perhaps one of counts.",
)
@click.option(
    "--max-variants",
    type=int,
    help="How many of these sizes there may be; 8 by default.",
)
@click.option(
    "--numerics",
    type=click.Choice(LEVELS),
    help="How far results may be from what the model writes: as far as the order of "
    "sums decides, or within a stated bound, by algorithms of fewer operations; by "
    "default strict.",
)
@click.option(
    "--tuning",
    type=FilePath(path_type=Path, dir_okay=False),
    help="Cut kernels up as this file of measured schedules says.",
)
@click.option(
    "--tune",
    type=float,
    is_flag=False,
    flag_value=120.0,
    metavar="[SECONDS]",
    help="Measure the schedules that the file of --tuning lacks, for so many seconds "
    "(120; of all targets together), and add them to it. What is being measured then "
    "is ended, which may take half a minute more. SOURCE comes before it.",
)
@click.option(
    "--certify-gradients",
    is_flag=True,
    help="Check every gradient on compiled code first; the figures go into the bundle.",
)
@click.option(
    "--peak-memory",
    type=MemorySize(),
    metavar="SIZE",
    help="What a call may take at most, such as 512MB: values are computed again.",
)
@click.option(
    "--parity",
    is_flag=True,
    help="Compare with the source first, as `aotc parity`; the figures go into the "
    "bundle.",
)
@click.option(
    "--self-check",
    type=click.Choice(SELF_CHECK_MODES),
    help="Compare the compiled entries with the reference evaluator before signing: "
    "for some 20 s, at all sizes, or not; by default AOTC_SELF_CHECK, else auto.",
)
@require_check_option(
    "Refuse to sign code for this target, or for all, that the self-check did not run; "
    "exits with 1 then."
)
@click.option(
    "--no-cache",
    "cache",
    flag_value=False,
    default=True,
    help="Compile everything, and keep nothing: see `aotc cache`.",
)
@click.option(
    "--report",
    type=OutputFile(),
    help="Write the build report to this JSON file.",
)
@click.option(
    "-v",
    "--verbose",
    is_flag=True,
    help="Print each stage and its time on a terminal, too.",
)
@quiet_option()
@format_option("text", "json", "github")
def build(
    source: str,
    folder: Path,
    entries: tuple[str, ...],
    targets: tuple[Target, ...],
    key: str | None,
    no_sign: bool,
    parity: bool,
    required: tuple[str, ...],
    specialize: tuple[str, ...],
    policies: tuple[str, ...],
    optimum: str | None,
    report: Path | None,
    verbose: bool,
    quiet: bool,
    form: str,
    **choices: Any,
) -> None:
    """Compile every entry of SOURCE to one signed bundle.

    SOURCE is a model, such as a Python file (`model.py:predict` builds the entry
    `predict` alone), or IR from a folder of --dump, which goes on from its stage.
    """
    if key and no_sign:
        raise click.UsageError("--sign and --no-sign exclude each other")
    if verbose and quiet:
        raise click.UsageError("--verbose and --quiet exclude each other")
    from aotc import pipeline
    from aotc.cli.sizes import assignments_by_name, read_sizes

    path, named = source_and_entries(source)
    result = pipeline.build(
        path,
        output=folder,
        entries=(*named, *entries),
        targets=targets,
        signing_key=key,
        sign=not no_sign,
        parity=_parity_plan() if parity else None,
        require_check=required,
        specialize=[read_sizes(each, "--specialize") for each in specialize],
        policies=assignments_by_name(policies, "--policy length=bucket"),
        optimum=read_sizes(optimum, "--optimum"),
        reporter=reporter(verbose=verbose, quiet=quiet),
        **choices,
    )
    document = {"schema": "aotc.build/1", **result.to_json()}
    if report:
        write_text(report, json.dumps(document, indent=2) + "\n")
    output.emit(document, result.to_text(), form)


def _parity_plan() -> ComparisonOptions:
    """Return the default options of a comparison with the source framework."""
    from aotc.checks.parity import ComparisonOptions

    return ComparisonOptions()


def source_and_entries(source: str) -> tuple[str, tuple[str, ...]]:
    """Split `model.py:predict` into the file and entry names; a drive letter is no
    entry.
    """
    path, colon, entry = source.rpartition(":")
    if colon and entry.isidentifier() and path.endswith((".py", ".mlir")):
        return path, (entry,)
    return source, ()
