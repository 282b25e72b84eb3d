"""`aotc run --metrics FILE`: figures of a run, in the form that the file's name says.

| ending          | what is written                                                |
|-----------------|----------------------------------------------------------------|
| `.prom`         | aotc's counters, as OpenMetrics text, when the run ends        |
| `.json`         | the same as a document of the schema `aotc.counters/1`         |
| another, `.jsonl` | the scalar outputs of each step of `--loop`, as they come    |
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click

from aotc.cli.verb import OutputFile, combine_options
from aotc.core.writing import write_text
from aotc.errors import SetupError

_Function = TypeVar("_Function", bound=Callable[..., object])
_COUNTERS = {".prom", ".json"}  # endings of files of counters


@dataclass(frozen=True)
class MetricsFiles:
    """The output files of `--metrics`: steps of a loop, and runtime counters.

    Args:
        steps: for what each step of a loop measures.
        counters: for what aotc counts.
    """

    steps: Path | None
    counters: tuple[Path, ...]

    def write_counters(self) -> None:
        """Write the current counters to their files, each replaced atomically.

        Raises:
            SetupError: `cannot-write`.
        """
        from aotc.counting import counters

        for path in self.counters:
            if path.suffix == ".json":
                write_text(path, json.dumps(counters.to_json(), indent=2) + "\n")
            else:
                write_text(path, counters.to_openmetrics())

    @contextmanager
    def written_at_the_end(self) -> Iterator[None]:
        """Context manager: write the counters after the block, even if it fails.

        Raises:
            SetupError: `cannot-write`, unless the block has failed by itself.
        """
        try:
            yield
        except BaseException:
            with suppress(SetupError):
                self.write_counters()
            raise
        self.write_counters()


def metrics_option() -> Callable[[_Function], _Function]:
    """Return a decorator for the repeatable option `--metrics`, as argument
    `metrics`.
    """
    option = click.option(
        "--metrics",
        "metrics",
        multiple=True,
        type=OutputFile(),
        metavar="FILE",
        help="Write figures of the run to this file, by its ending: .jsonl takes the "
        "scalar outputs of each step of --loop; .prom takes aotc's counters (calls, "
        "latencies, bytes, …) at the end, as OpenMetrics text; .json takes the same as "
        "JSON. May be given again.",
    )
    return combine_options("metrics", [option], ["metrics"], _files)


def _files(parsed: Mapping[str, Any]) -> MetricsFiles:
    """Sort the given files into one for steps, and those for counters."""
    counters = tuple(each for each in parsed["metrics"] if each.suffix in _COUNTERS)
    steps = [each for each in parsed["metrics"] if each.suffix not in _COUNTERS]
    if len(steps) > 1:
        raise click.UsageError(
            "--metrics takes one file for the steps of a loop, and files for counters "
            f"end in .prom or .json; got {' and '.join(map(str, steps))}"
        )
    return MetricsFiles(steps[0] if steps else None, counters)
