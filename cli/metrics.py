"""Metrics of a loop: one JSON object a step, in a file that a resumed run goes on with.

    {"step": 1, "epoch": 1, "seconds": 0.01, "metrics": {"loss": 2.33}}

Steps and epochs count from 1; seconds from the start, breaks of resumed runs left out.
A run that is resumed without the file counts its own seconds only.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from aotc.artifacts.writing import cannot_write
from aotc.cli.arrays import Array, numbers, spelled
from aotc.errors import InputError


def scalars(outputs: Mapping[str, Array]) -> dict[str, Any]:
    """What an entry measures: its outputs without dimensions, as Python numbers."""
    return {name: numbers(array) for name, array in outputs.items() if not array.shape}


def not_finite(metrics: Mapping[str, Any]) -> str | None:
    """The first of the metrics that is not a number or infinite."""
    for name, value in metrics.items():
        if isinstance(value, float) and not math.isfinite(value):
            return name
    return None


class Log:
    """Writes records; without a file it does nothing.

    Args:
        file: to add the records to.
        seconds: what the steps took whose records are there already.
    """

    def __init__(self, file: BinaryIO | None, seconds: float = 0.0) -> None:
        self._file = file
        self.seconds = seconds

    def write(self, record: Mapping[str, Any]) -> None:
        """Add a line, at once, for whoever follows the file."""
        if self._file:
            self._file.write(json.dumps(spelled(record)).encode() + b"\n")
            self._file.flush()

    def step(
        self, step: int, epoch: int, seconds: float, metrics: Mapping[str, Any]
    ) -> None:
        """Add what was measured in a step; steps and epochs count from 1."""
        self.write(
            {
                "step": step,
                "epoch": epoch,
                "seconds": round(seconds, 6),
                "metrics": metrics,
            }
        )

    def sync(self) -> None:
        """Wait until the records are on the disk."""
        if self._file:
            os.fsync(self._file.fileno())


@contextmanager
def opened(path: Path | None, resumed_at: int | None) -> Iterator[Log]:
    """The log at `path`: a new one, or what a resumed run has of it up to its step.

    Raises:
        InputError: `output-exists`, `bad-metrics` or `cannot-write`.
    """
    if path is None:
        yield Log(None)
        return
    # A device may have no end to read to, a pipe waits for another process.
    if path.exists() and not path.is_file():
        raise cannot_write(path, "metrics go into a regular file")
    try:
        with open(path, "a+b") as file:
            size, seconds = _kept(file, path, resumed_at)
            file.truncate(size)
            yield Log(file, seconds)
    except OSError as error:
        raise cannot_write(path, error.strerror or str(error)) from error


def _kept(file: BinaryIO, path: Path, resumed_at: int | None) -> tuple[int, float]:
    """How many bytes of an earlier run's records stay, and what its steps took."""
    file.seek(0)
    size, seconds = 0, 0.0
    for line in file:
        if resumed_at is None:
            raise InputError(
                "output-exists",
                "the metrics of another run are here",
                where=str(path),
                hint="choose another file, remove it, or go on with --resume",
            )
        found = _time(line)
        if found is None and line.endswith(b"\n"):
            raise InputError(
                "bad-metrics", "expected the metrics of a loop", where=str(path)
            )
        if found is None or found[0] > resumed_at:  # a torn line, or to be done again
            break
        size, seconds = size + len(line), found[1]
    return size, seconds


def _time(line: bytes) -> tuple[int, float] | None:
    """The step of a record, and the seconds until then."""
    try:
        record = json.loads(line)
        return int(record["step"]), float(record["seconds"])
    except (ValueError, TypeError, KeyError):
        return None
