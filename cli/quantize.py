"""`aotc quantize`: a model in, the same in narrower precisions out, and a recipe."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from aotc.cli import output
from aotc.cli.build import source_and_entries
from aotc.cli.progress import reporter
from aotc.cli.verb import FilePath, OutputFile, format_option, quiet_option, verb
from aotc.errors import InputError
from aotc.machine.target import Target

# as in `aotc.quantization`, which is imported on use: a test compares them
RECIPES = (
    *("int8", "int8-dynamic", "int8-weights", "int4-g32", "bf16", "f16"),
    "mixed",
)
METHODS = ("smoothquant", "equalize", "awq", "gptq", "bias-correction")
CALIBRATIONS = ("min-max", "percentile", "mean-square", "entropy")


class Quality(click.ParamType):  # type: ignore[type-arg]
    """Parameter type: the quality that may be lost, such as `0.5%` or `0.005`."""

    name = "quality"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Parse the quality; raise a usage error for other texts."""
        from aotc.artifacts.precision import lost_share

        try:
            return lost_share(str(value))
        except ValueError as error:
            self.fail(str(error))


def _target(
    ctx: click.Context, param: click.Parameter, given: str | None
) -> Target | None:
    """Parse `--target`; by default return the best target of this machine, or None."""
    if given is not None:
        return Target.named(given)[-1]
    with suppress(InputError):  # no level of a processor that there are targets for
        return Target.named("native")[0]
    return None


@verb(
    "aotc quantize model.py --recipe int8 --data calibration.npz",
    "aotc quantize resnet.onnx --recipe mixed --data calibration.npz --quality 0.5%",
    "aotc quantize model.py:predict --recipe int8 --data train.npz --held-out test.npz",
    "aotc quantize bert.onnx --recipe int8 --data tokens.npz --method smoothquant",
    "aotc quantize gpt.pt2 --recipe int4-g32 -o gpt4.mlir && aotc build gpt4.mlir",
    "aotc quantize model.py:predict --recipe int8 --ranges trained.safetensors",
    "aotc build resnet.onnx --quantize resnet-int8.json",
)
@click.argument("source", metavar="SOURCE[:ENTRY]", type=FilePath())
@click.option(
    "--recipe",
    type=click.Choice(RECIPES),
    required=True,
    help="Which precisions layers are given: docs/precision.md.",
)
@click.option("--entry", "entries", multiple=True, help="Quantise only this entry.")
@click.option(
    "--data",
    type=FilePath(path_type=Path, dir_okay=False),
    metavar="FILE.npz",
    help="Calibration data: an array for each input, samples along its first axis.",
)
@click.option(
    "--held-out",
    type=FilePath(path_type=Path, dir_okay=False),
    metavar="FILE.npz",
    help="Data to measure on; by default that of --data.",
)
@click.option(
    "--ranges",
    type=FilePath(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="What quantisation-aware training has found, instead of a calibration: a file "
    "of the ranges of aotc.quantization_aware, or of a state that has them.",
)
@click.option(
    "--state",
    "states",
    type=FilePath(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Take states as a training has saved them (--save-state) for weights; of "
    "entries that only read them.",
)
@click.option(
    "--quality",
    type=Quality(),
    metavar="LOST",
    help="What may be lost by the metric, such as 0.5%: layers stay wider where it "
    "would be more.",
)
@click.option(
    "--metric",
    default="auto",
    show_default=True,
    help="What is lost: top1, kl, cosine, disagreement, or FILE.py:FUNCTION.",
)
@click.option(
    "--calibration",
    type=click.Choice(CALIBRATIONS),
    default="mean-square",
    show_default=True,
    help="How the range of an input is chosen.",
)
@click.option(
    "--percentile",
    type=click.FloatRange(50, 100),
    help="What of the inputs is within the range, for --calibration percentile: 99.99 "
    "by default.",
)
@click.option(
    "--method",
    "methods",
    type=click.Choice(METHODS),
    multiple=True,
    help="What is done besides, for the layers that it is for: docs/precision.md. May "
    "be given again.",
)
@click.option(
    "-t",
    "--target",
    callback=_target,
    help="Whose model says how long layers take at best; by default this machine's.",
)
@click.option(
    "-o",
    "--output",
    "program",
    type=OutputFile(".mlir", only=True),
    help="The program to write; parameters (.irpa) and recipe (.json) are put beside "
    "it. By default SOURCE-RECIPE.mlir here.",
)
@quiet_option()
@format_option()
def quantize(
    source: str,
    recipe: str,
    entries: tuple[str, ...],
    data: Path | None,
    held_out: Path | None,
    ranges: Path | None,
    states: Path | None,
    target: Target | None,
    metric: str,
    program: Path | None,
    quiet: bool,
    form: str,
    **choices: Any,
) -> None:
    """Give products and convolutions of SOURCE narrower precisions.

    It writes the quantised program, which all verbs take, and a recipe, by which
    `aotc build SOURCE --quantize RECIPE` makes that program again, to the same bytes.
    SOURCE is a model of any frontend, or IR of the stage graph.
    """
    from aotc.quantization.calibration import QuantizationOptions
    from aotc.quantization.metrics import LossMetric
    from aotc.quantization.models import QuantizedFiles, quantize_model

    path, named = source_and_entries(source)
    choice = QuantizationOptions(recipe, metric=LossMetric.from_name(metric), **choices)
    files = QuantizedFiles(program or Path(f"{Path(path).stem}-{recipe}.mlir"))
    progress = reporter(quiet=quiet)
    with progress.stage("quantize"):
        report = quantize_model(
            Path(path),
            choice,
            files,
            entries=(*named, *entries),
            data=data,
            held_out=held_out,
            ranges=ranges,
            states=states,
            target=target,
            tell=progress.step,
        )
    document = {"schema": "aotc.quantize/1", **report.to_json()}
    output.emit(document, report.to_text(), form)
