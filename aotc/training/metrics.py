"""Metrics of a loop: one JSON object a step, in a file that a resumed run goes on with.

    {"step": 1, "epoch": 1, "seconds": 0.01, "metrics": {"loss": 2.33}}

Steps and epochs count from 1; seconds from the start, breaks of resumed runs left out.
A run that is resumed without the file counts its own seconds only. A validation after
a step has a record of its own, with `validation` in the place of `metrics`.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from io import FileIO
from pathlib import Path
from typing import BinaryIO

from aotc.core.json_values import JsonObject, json_value, python_numbers
from aotc.errors import InputError
from aotc.errors.system import cannot_write
from aotc.training import wording
from aotc.training.entries import Array
from aotc.training.history import Validated


def scalars(outputs: Mapping[str, Array]) -> JsonObject:
    """Return an entry's scalar outputs (its metrics) as Python numbers by name."""
    return {
        name: python_numbers(array)
        for name, array in outputs.items()
        if not array.shape
    }


def not_finite(metrics: Mapping[str, object]) -> str | None:
    """Return the name of the first metric that is NaN or infinite; None if all are
    finite.
    """
    for name, value in metrics.items():
        if isinstance(value, float) and not math.isfinite(value):
            return name
    return None


class MetricsLog:
    """Writes metrics as JSON lines to a file; does nothing without a file.

    Args:
        file: to add the records to, without a buffer: each is there at once, for
            whoever follows the file, and none is left to write when the file is closed.
        seconds: what the steps took whose records are there already.
    """

    def __init__(self, file: FileIO | None, seconds: float = 0.0) -> None:
        self._file = file
        self.seconds = seconds

    def write(self, record: Mapping[str, object]) -> None:
        """Write one record as a JSON line.

        Raises:
            SetupError: `cannot-write`.
        """
        if self._file:
            left = memoryview(json.dumps(json_value(record)).encode() + b"\n")
            with _writing(str(self._file.name)):
                while left:
                    left = left[self._file.write(left) :]

    def step(self, step: int, epoch: int, seconds: float, metrics: JsonObject) -> None:
        """Write the metrics of a step; steps and epochs count from 1."""
        self.write(
            {
                "step": step,
                "epoch": epoch,
                "seconds": round(seconds, 6),
                "metrics": metrics,
            }
        )

    def validation(self, found: Validated, seconds: float) -> None:
        """Write the means of a validation."""
        self.write(
            {
                "step": found.step,
                "epoch": found.epoch,
                "seconds": round(seconds, 6),
                "validation": found.means,
            }
        )

    def sync(self) -> None:
        """Wait until the records are on disk."""
        if self._file:
            with _writing(str(self._file.name)):
                os.fsync(self._file.fileno())


@contextmanager
def open_log(
    file: str | os.PathLike[str] | None, resumed_at: int | None
) -> Iterator[MetricsLog]:
    """Open a metrics file; for a resumed run, drop records after its step.

    Args:
        file: None for a log that writes nothing.
        resumed_at: the step that a resumed run goes on after; None for a new run.

    Raises:
        InputError: `output-exists` or `bad-metrics`.
        SetupError: `cannot-write`.
    """
    if file is None:
        yield MetricsLog(None)
        return
    path = Path(file)
    # A device may have no end to read to, a pipe waits for another process.
    if path.exists() and not path.is_file():
        raise InputError(
            "bad-metrics", "metrics go into a regular file", where=str(path)
        )
    with ExitStack() as stack:
        with _writing(str(path)):
            with open(path, "a+b") as earlier:
                size, seconds = _earlier_run(earlier, path, resumed_at)
                earlier.truncate(size)
            stream = stack.enter_context(FileIO(path, "a"))
        yield MetricsLog(stream, seconds)


@contextmanager
def _writing(path: str) -> Iterator[None]:
    """Turn `OSError` within the context into an error about the metrics file."""
    try:
        yield
    except OSError as error:
        raise cannot_write(path, error, "the metrics") from error


def _earlier_run(
    file: BinaryIO, path: Path, resumed_at: int | None
) -> tuple[int, float]:
    """Return how many bytes of an earlier run's records to keep, and their last
    time.
    """
    file.seek(0)
    size, seconds = 0, 0.0
    for line in file:
        if resumed_at is None:
            raise InputError(
                "output-exists",
                "the metrics of another run are here",
                where=str(path),
                hint="choose another file, remove it, or go on with "
                + wording.current().option("resume"),
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
    """Return step and seconds of a JSON record; None if the line is none."""
    try:
        record = json.loads(line)
        return int(record["step"]), float(record["seconds"])
    except (ValueError, TypeError, KeyError):
        return None
