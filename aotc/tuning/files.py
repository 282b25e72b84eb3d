"""Tuning files: measured schedules as JSON that can be committed.

    {"schema": "aotc.tuning/1", "toolchain": {"aotc": "0.1.0", …},
     "targets": {"x86_64-v4": {"machine": {"lanes": 16, …}, "schedules": [
        {"key": "contraction: …", "schedule": {"lanes": 16, "rows": 7, …},
         "microseconds": 812.5, "planned_microseconds": 903.1}]}}}

Rows are in the order of their keys, so that a change of the file is easy to read.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import version as installed_version
from pathlib import Path
from typing import Any

from aotc import __version__
from aotc.artifacts.fields import (
    Invalid,
    anything,
    integer,
    listing,
    mapping,
    number,
    record,
    text,
)
from aotc.artifacts.strict_json import parse
from aotc.core.writing import write_text
from aotc.errors import AotcError, InputError

SCHEMA = "aotc.tuning/1"

_sizes = mapping(text(), integer(0))
_model = mapping(text(), anything)  # whatever it is: equal, or another one
_row = record(
    {"key": text(), "schedule": _sizes},
    {"microseconds": number, "planned_microseconds": number},
)
_check = record(
    {
        "schema": text(SCHEMA, f"'{SCHEMA}'"),
        "toolchain": mapping(text(), text()),
        "targets": mapping(
            text(), record({"machine": _model, "schedules": listing(_row)})
        ),
    }
)


@dataclass(frozen=True)
class MeasuredSchedule:
    """A kernel's fastest schedule, with its time and that of the planned schedule.

    Args:
        schedule: the fastest one, or the planned one if no other was clearly faster.
        microseconds: of a call by it, at the least.
        planned_microseconds: by the schedule that the model of the machine chooses.
    """

    schedule: Mapping[str, int]
    microseconds: float
    planned_microseconds: float


@dataclass
class TargetTuning:
    """The measured schedules of a target by kernel key, and the machine model used."""

    machine: Mapping[str, Any]
    schedules: dict[str, MeasuredSchedule] = field(default_factory=dict)


@dataclass
class TuningFile:
    """A tuning file: the measured schedules of each target.

    Args:
        path: where it is, or will be.
        targets: what it holds for each target.
        sha256: of the file as it was read or written last; empty before.
    """

    path: Path
    targets: dict[str, TargetTuning] = field(default_factory=dict)
    sha256: str = ""

    @classmethod
    def read(cls, path: Path) -> TuningFile:
        """Read and parse the tuning file at a path.

        Raises:
            InputError: `no-such-file`, or `bad-tuning`: it is no tuning file.
        """
        try:
            content = path.read_bytes()
            data = parse(content)
            _check(data)
        except FileNotFoundError:
            raise InputError(
                "no-such-file",
                f"there is no tuning file '{path}'",
                hint="--tune measures schedules and writes it",
            ) from None
        except OSError as error:
            raise _bad_file(path, str(error)) from error
        except (Invalid, AotcError, ValueError) as error:
            raise _bad_file(path, getattr(error, "message", str(error))) from None
        targets = {
            name: TargetTuning(
                each["machine"],
                {row["key"]: _measured(row) for row in each["schedules"]},
            )
            for name, each in data["targets"].items()
        }
        return cls(path, targets, _digest(content))

    def to_json(self) -> dict[str, Any]:
        """Return the file as a document of the schema `aotc.tuning/1`."""
        return {
            "schema": SCHEMA,
            "toolchain": {
                "aotc": __version__,
                "iree-base-compiler": installed_version("iree-base-compiler"),
            },
            "targets": {
                name: {
                    "machine": dict(each.machine),
                    "schedules": [
                        {
                            "key": key,
                            "schedule": dict(found.schedule),
                            "microseconds": round(found.microseconds, 3),
                            "planned_microseconds": round(
                                found.planned_microseconds, 3
                            ),
                        }
                        for key, found in sorted(each.schedules.items())
                    ],
                }
                for name, each in sorted(self.targets.items())
            },
        }

    def write(self) -> None:
        """Write the file atomically, and update the digest.

        Raises:
            SetupError: `cannot-write`.
        """
        text = json.dumps(self.to_json(), indent=1) + "\n"
        write_text(self.path, text)
        self.sha256 = _digest(text.encode())

    def facts(self) -> dict[str, Any]:
        """Return what a program records of its tuning file; see `Program.tuning`."""
        return {
            "file": self.path.name,
            "sha256": self.sha256,
            "targets": {
                name: {
                    "machine": dict(each.machine),
                    "schedules": [
                        {"key": key, "schedule": dict(found.schedule)}
                        for key, found in sorted(each.schedules.items())
                    ],
                }
                for name, each in self.targets.items()
            },
        }


def _digest(content: bytes) -> str:
    """Return the SHA-256 of a file's content, in hexadecimal."""
    return hashlib.sha256(content).hexdigest()


def _measured(row: Mapping[str, Any]) -> MeasuredSchedule:
    """Return the measured schedule in a row of a tuning file."""
    times = (row.get(name, 0.0) for name in ("microseconds", "planned_microseconds"))
    return MeasuredSchedule(row["schedule"], *times)


def _bad_file(path: Path, why: str) -> InputError:
    """Return an error of code `bad-tuning` at the file."""
    return InputError(
        "bad-tuning",
        f"expected a tuning file: {why}",
        where=str(path),
        hint="--tune measures schedules and writes such a file",
    )
