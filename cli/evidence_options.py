"""The options of `aotc bench --traffic`, as one argument."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click

from aotc.cli.verb import FilePath, NumberRange, OutputFile, combine_options

_Function = TypeVar("_Function", bound=Callable[..., object])

_REQUESTS = 200


@dataclass(frozen=True)
class Replay:
    """The options of a replay of recorded traffic.

    Args:
        traffic: file of recorded traffic.
        models: names of execution models; None if none was given.
        against: peers, each perhaps with its file: `onnxruntime:model.onnx`.
        max_variants: how many buckets there may be; None for as many as in a build.
        requests: how many calls are made.
        bound: milliseconds within which calls have to end; None for the default.
        page: file for the HTML page.
    """

    traffic: Path
    models: tuple[str, ...] | None
    against: tuple[str, ...]
    max_variants: int | None
    requests: int
    bound: float | None
    page: Path | None


_OPTIONS: dict[str, Callable[[Any], Any]] = {
    "traffic": click.option(
        "--traffic",
        type=FilePath(path_type=Path, dir_okay=False),
        help="Replay this recorded traffic: a CSV file with a column for each size "
        "and perhaps one of counts. A SOURCE is built in several ways first.",
    ),
    "models": click.option(
        "--models",
        metavar="NAME,…",
        help="Execution models: static, buckets, powers, sizes, dynamic, jit, eager. "
        "[default: all that SOURCE has]",
    ),
    "against": click.option(
        "--against",
        metavar="PEER[:FILE],…",
        help="Peers that replay the same requests: onnxruntime, openvino, torch, "
        "torch-compile. They run SOURCE, or a FILE of the same model.",
    ),
    "max_variants": click.option(
        "--max-variants",
        type=int,
        help="How many buckets there may be; 8 by default.",
    ),
    "requests": click.option(
        "--requests",
        type=click.IntRange(1, 1_000_000),
        help=f"How many calls of the traffic to replay. [default: {_REQUESTS}]",
    ),
    "latency_bound": click.option(
        "--latency-bound",
        type=NumberRange(0, min_open=True),
        metavar="MS",
        help="How long calls may take that count for the goodput. [default: twice the "
        "slowest warm p99]",
    ),
    "html": click.option(
        "--html",
        type=OutputFile(),
        help="Write the figures and plots to this HTML page.",
    ),
}


def replay_options() -> Callable[[_Function], _Function]:
    """Return a decorator that passes `--traffic` and its options as `replay`; None
    without.
    """
    return combine_options("replay", [*_OPTIONS.values()], _OPTIONS, _replay)


def _replay(parsed: Mapping[str, Any]) -> Replay | None:
    """Return the replay that parsed options describe; None without `--traffic`."""
    if parsed["traffic"] is None:
        refuse_options("is of use with --traffic alone", parsed)
        return None
    models, against = parsed["models"], parsed["against"]
    return Replay(
        parsed["traffic"],
        None if models is None else names_in(models),
        () if against is None else names_in(against),
        parsed["max_variants"],
        parsed["requests"] or _REQUESTS,
        parsed["latency_bound"],
        parsed["html"],
    )


def names_in(text: str) -> tuple[str, ...]:
    """Split a comma-separated list of names."""
    return tuple(name.strip() for name in text.split(","))


def refuse_options(why: str, given: Mapping[str, object]) -> None:
    """Raise a usage error if any of the options in `given` was set."""
    for name, value in given.items():
        if value:
            raise click.UsageError(f"--{name.replace('_', '-')} {why}")
