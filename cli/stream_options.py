"""Options of `aotc run` that belong to `--stream`, and their combination."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click

from aotc.cli.verb import FilePath, NumberRange, combine_options

_Function = TypeVar("_Function", bound=Callable[..., object])
_DEPTH = 8


@dataclass(frozen=True)
class StreamSettings:
    """The options of `--stream`; None stands for an option that was not given.

    Args:
        source: a file, or `-` for standard input.
        depth: items in work at a time.
        latency: seconds that an item waits for others of its batch.
        max_rows: of a batch.
        keep_going: whether items that fail are told in their place.
    """

    source: Path
    depth: int | None
    latency: float | None
    max_rows: int | None
    keep_going: bool

    @property
    def arguments(self) -> dict[str, Any]:
        """The keyword arguments for `aotc.stream`."""
        depth = self.depth or _DEPTH
        return {"depth": depth, "latency": self.latency, "max_rows": self.max_rows}


_OPTIONS = (
    click.option(
        "--stream",
        "source",
        type=FilePath(
            path_type=Path, exists=True, readable=True, dir_okay=False, allow_dash=True
        ),
        metavar="FILE",
        help="Call the entry for each item of this file, - for standard input, and "
        "write each result to standard output as it comes, in the same form: JSON "
        "Lines with an object of inputs in each, or .npy records one after the other.",
    ),
    click.option(
        "--depth",
        type=click.IntRange(min=1),
        help=f"Items of the stream in work at a time. [default: {_DEPTH}]",
    ),
    click.option(
        "--latency",
        type=NumberRange(0, 3600),
        metavar="SECONDS",
        help="Put items together into batches; none waits longer than this for others.",
    ),
    click.option(
        "--max-rows",
        type=click.IntRange(min=1),
        help="Rows of such a batch. [default: the most that the entry takes]",
    ),
    click.option(
        "--keep-going",
        is_flag=True,
        help="Write the error of an item that fails in its place (JSON Lines), go on, "
        "and exit with 1 at the end.",
    ),
)


def stream_options() -> Callable[[_Function], _Function]:
    """Return a decorator for the options of a stream, as one argument `stream`."""
    names = tuple(StreamSettings.__annotations__)
    return combine_options("stream", _OPTIONS, names, _settings)


def _settings(parsed: Mapping[str, Any]) -> StreamSettings | None:
    """Return the stream that parsed options describe; None without `--stream`."""
    if parsed["source"] is None:
        for name, value in parsed.items():
            if value is not None and value is not False:
                raise click.UsageError(f"--{name.replace('_', '-')} needs --stream")
        return None
    if parsed["max_rows"] is not None and parsed["latency"] is None:
        raise click.UsageError("--max-rows needs --latency, which asks for batches")
    return StreamSettings(**parsed)
