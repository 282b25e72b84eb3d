"""Options of `aotc run` that belong to `--loop`, and their combination."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click

from aotc.cli.verb import FilePath, combine_options

_Function = TypeVar("_Function", bound=Callable[..., object])


@dataclass(frozen=True)
class LoopSettings:
    """The options of `--loop`; None stands for an option that was not given."""

    data: Path
    epochs: int | None
    steps: int | None
    batch_size: int | None
    seed: int | None
    checkpoint: Path | None
    every: int | None
    resume: Path | None
    allow_nan: bool
    validate: Path | None
    validate_entry: str | None
    validate_every: int | None
    validate_steps: int | None
    monitor: str | None
    patience: int | None
    best: Path | None
    metrics: Path | None = None


class OptionWording:
    """Wording by which error messages of `aotc.training` name options of `aotc run`."""

    def option(self, name: str, *values: object) -> str:
        """Return an option as typed on the command line: `--seed 0`, `--entry a |
        b`.
        """
        shown = " | ".join(str(value) for value in values if value is not True)
        words = "every" if name == "checkpoint_every" else name.replace("_", "-")
        return f"--{words} {shown}".rstrip()

    def constant(self, name: str) -> str:
        """Return `--input NAME=…`, as typed, for a constant input."""
        return f"--input {name}=VALUE"

    def load_state(self) -> str:
        """Return the option that loads a file of states."""
        return "--load-state"

    def find_nan(self, source: str, folder: Path | None) -> str:
        """Return the options that resume and search for NaN, as typed."""
        resume = f"--resume {folder} " if folder else ""
        return f"{resume}--find-nan {source}"


_COUNT = click.IntRange(min=1)
_FOLDER = FilePath(path_type=Path, file_okay=False)
_OPTIONS = (
    click.option(
        "--loop",
        "data",
        type=FilePath(path_type=Path),
        metavar="FILE",
        help="Call the entry with batches of the arrays in this .npz or .safetensors "
        "file, which are named like its inputs.",
    ),
    click.option("--epochs", type=_COUNT, help="Passes over the data. [default: 1]"),
    click.option("--steps", type=_COUNT, help="End after this step."),
    click.option(
        "--batch-size", type=_COUNT, help="Rows a step, if the entry takes any number."
    ),
    click.option(
        "--seed",
        type=click.IntRange(min=0),
        help="Seed of the order of the rows, new in each epoch. [default: 0]",
    ),
    click.option(
        "--checkpoint", type=_FOLDER, help="Keep states and position in this folder."
    ),
    click.option(
        "--every", type=_COUNT, help="Steps between checkpoints. [default: an epoch]"
    ),
    click.option(
        "--resume",
        type=_FOLDER,
        help="Go on from the checkpoint in this folder, and keep the next ones there "
        "unless --checkpoint names another.",
    ),
    click.option(
        "--validate",
        type=FilePath(path_type=Path),
        metavar="FILE",
        help="Measure the arrays in this file after each epoch, with another entry.",
    ),
    click.option(
        "--validate-entry", metavar="ENTRY", help="The entry that --validate calls."
    ),
    click.option(
        "--validate-every", type=_COUNT, help="Steps between. [default: an epoch]"
    ),
    click.option("--validate-steps", type=_COUNT, help="Only so many of its batches."),
    click.option(
        "--monitor",
        metavar="OUTPUT[:min|max]",
        help="The output of --validate-entry whose mean over the rows tells which "
        "states are the best. [default: its only one, min]",
    ),
    click.option(
        "--patience",
        type=_COUNT,
        help="End after so many validations without a better one.",
    ),
    click.option(
        "--best",
        type=FilePath(path_type=Path),
        help="Write the states of the best validation to this file.",
    ),
    click.option(
        "--allow-nan", is_flag=True, help="Go on when a metric is NaN or infinite."
    ),
)


_VALIDATION = (
    *("validate_entry", "validate_every", "validate_steps"),
    *("monitor", "patience", "best"),
)


def loop_options() -> Callable[[_Function], _Function]:
    """Return a decorator for the options of a loop, as one argument `loop`.

    `--metrics` is not among them: it is for other runs too (`metrics_option`).
    """
    fields = [name for name in LoopSettings.__annotations__ if name != "metrics"]
    return combine_options("loop", _OPTIONS, fields, _settings)


def _settings(parsed: Mapping[str, Any]) -> LoopSettings | None:
    """Return the loop that parsed options describe; None without `--loop`."""
    if parsed["data"] is None:
        for name, value in parsed.items():
            if value is not None and value is not False:
                raise click.UsageError(f"--{name.replace('_', '-')} needs --loop")
        return None
    if parsed["validate"] is None:
        for name in _VALIDATION:
            if parsed[name] is not None:
                option = name.replace("_", "-")
                raise click.UsageError(f"--{option} needs --validate")
    if parsed["every"] and not (parsed["checkpoint"] or parsed["resume"]):
        raise click.UsageError("--every needs --checkpoint")
    return LoopSettings(**parsed)
