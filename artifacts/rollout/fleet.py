"""Many devices: read from files, folders and shipped names, and grouped by class.

A fleet file is JSON of schema `aotc.fleet/1`, or one JSON document a line (`.jsonl`):

    {"schema": "aotc.fleet/1", "devices": [
      {"name": "press-7", "count": 12, "labels": {"site": "ulm"}, "file": "press.json"},
      {"name": "kiosk", "count": 900, "device": "raspberry-pi-5"},
      {"name": "lab", "profile": {"schema": "aotc.device/1", ...}}]}

A profile by itself is a fleet of one device, and a folder is the fleet of its `.json`
and `.jsonl` files. Verdicts are reached once for each class of equal devices, which is
what makes large fleets quick.
"""

from __future__ import annotations

import errno
import json
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aotc.artifacts import strict_json
from aotc.artifacts.fields import Invalid, integer, listing, mapping, record, text
from aotc.artifacts.rollout import signatures
from aotc.artifacts.rollout.profiles import (
    DEVICE_SCHEMA,
    DOCTOR_SCHEMA,
    Assumptions,
    Profile,
    named_profile,
    read_profile,
)
from aotc.artifacts.trust import Trust
from aotc.errors import InputError

SCHEMA = "aotc.fleet/1"

# Without what no encoding holds, and what turns the direction of text around it.
_word = text(
    r"[^\x00-\x1f\x7f\ud800-\udfff\u200e\u200f\u202a-\u202e\u2066-\u2069]{1,200}",
    "a text of 1 to 200 characters",
)
_LARGEST = 1 << 30  # bytes of a file
_fleet = record({"schema": text(), "devices": listing(record({}))})
_row = record(
    {},
    {
        "name": _word,
        "count": integer(1),
        "labels": mapping(_word, _word),
        "device": _word,
        "file": _word,
    },
)


@dataclass(frozen=True)
class Device:
    """A row of a fleet: one device, or `count` equal ones.

    Args:
        name: what it is called, for people.
        profile: what it is.
        count: how many of them there are.
        labels: such as its site; policies may ask for coverage by label.
        where: the file that says so.
    """

    name: str
    profile: Profile
    count: int = 1
    labels: Mapping[str, str] = field(default_factory=dict)
    where: str = ""


@dataclass(frozen=True)
class DeviceClass:
    """Devices that are equal for all that compatibility depends on."""

    profile: Profile
    devices: tuple[Device, ...]

    @property
    def count(self) -> int:
        """How many devices it holds."""
        return sum(device.count for device in self.devices)

    @property
    def name(self) -> str:
        """Its first device's name, and how many rows share it."""
        names = list(dict.fromkeys(device.name for device in self.devices))
        return names[0] if len(names) == 1 else f"{names[0]} +{len(names) - 1}"


def classes(devices: Iterable[Device]) -> tuple[DeviceClass, ...]:
    """Group devices by profile, in the order in which profiles first appear."""
    groups: dict[Profile, list[Device]] = {}
    for device in devices:
        groups.setdefault(device.profile, []).append(device)
    return tuple(DeviceClass(p, tuple(group)) for p, group in groups.items())


def read_fleet(
    path: Path, assumptions: Assumptions, trust: Trust | None = None
) -> list[Device]:
    """The devices of a profile, a fleet file, or a folder of them.

    Args:
        path: the file or folder.
        assumptions: for what profiles do not state.
        trust: whose signature each file needs; None asks for none.

    Raises:
        InputError: `no-such-file`, `bad-fleet`, `bad-profile`, `unknown-device`,
            `empty-fleet`.
        VerificationError: what `signatures.verify` raises.
    """
    readers = [_Reader(file, assumptions, trust) for file in _files(path)]
    found = [(reader.file, list(reader.devices())) for reader in readers]
    # A fleet says how many there are of the profiles that lie beside it.
    named = {file for reader in readers for file in reader.named_files}
    devices = [
        device
        for file, devices in found
        if file.resolve() not in named
        for device in devices
    ]
    if not devices:
        raise InputError(
            "empty-fleet",
            "there is no device in it",
            where=str(path),
            hint="write a profile with `aotc doctor --format json > device.json`",
        )
    return devices


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    return sorted(
        file
        for file in path.rglob("*")
        if file.suffix.lower() in (".json", ".jsonl")
        and not any(part.startswith(".") for part in file.relative_to(path).parts)
    )


class _Reader:
    """Reads one file; rows that say the same share one profile.

    `named_files` are those that its rows refer to.
    """

    def __init__(
        self, file: Path, assumptions: Assumptions, trust: Trust | None
    ) -> None:
        self.file = file
        self.named_files: set[Path] = set()
        self._trust = trust
        self._assumptions = assumptions
        self._profiles: dict[str, Profile] = {}
        self._of_files: dict[Path, Profile] = {}

    def devices(self) -> Iterator[Device]:
        """All devices of the file."""
        for where, document in self._documents():
            schema = document.get("schema") if isinstance(document, dict) else None
            if schema == SCHEMA:
                yield from self._rows(document, where)
            elif schema in (DEVICE_SCHEMA, DOCTOR_SCHEMA):
                profile = self._profile(document, where)
                yield Device(self.file.stem, profile, where=where)
            elif self.file.suffix == ".jsonl":
                yield self._device(document, where)
            else:
                raise _bad(
                    where,
                    f"expected a schema of {SCHEMA}, {DOCTOR_SCHEMA} or "
                    f"{DEVICE_SCHEMA}, got {str(schema)[:60]!r}",
                )

    def _documents(self) -> Iterator[tuple[str, Any]]:
        """Each JSON document of the file, and where it stands."""
        data = self._read(self.file)
        if self.file.suffix != ".jsonl":
            yield str(self.file), _parsed(data, str(self.file))
            return
        for number, line in enumerate(data.splitlines(), 1):
            if line.strip():
                where = f"{self.file}:{number}"
                yield where, _parsed(line, where)

    def _read(self, file: Path) -> bytes:
        data = _bytes_of(file)
        if self._trust is not None:
            signatures.verify(file, data, self._trust)
        return data

    def _rows(self, document: Any, where: str) -> Iterator[Device]:
        try:
            _fleet(document)
        except Invalid as error:
            raise _bad(where, str(error)) from None
        for number, row in enumerate(document["devices"]):
            yield self._device(row, f"{where}: $.devices[{number}]")

    def _device(self, row: Any, where: str) -> Device:
        try:
            _row(row)
        except Invalid as error:
            raise _bad(where, str(error)) from None
        given = [key for key in ("profile", "device", "file") if key in row]
        if len(given) != 1:
            raise _bad(
                where,
                "expected one of `profile`, `device` and `file`, got "
                f"{' and '.join(given) or 'none'}",
            )
        name = row.get("name") or row.get("device")
        if name is None:
            name = Path(row["file"]).stem if "file" in row else Path(where).name
        return Device(
            name,
            self._source(given[0], row[given[0]], where),
            row.get("count", 1),
            row.get("labels", {}),
            where,
        )

    def _source(self, kind: str, value: Any, where: str) -> Profile:
        if kind == "device":
            return named_profile(value, self._assumptions, where)
        if kind == "file":
            file = (self.file.parent / value).resolve()
            if file not in self._of_files:
                document = _parsed(self._read(file), str(file))
                self._of_files[file] = self._profile(document, str(file))
                self.named_files.add(file)
            return self._of_files[file]
        return self._profile(value, where)

    def _profile(self, document: Any, where: str) -> Profile:
        key = json.dumps(document)
        if key not in self._profiles:
            profile = read_profile(document, self._assumptions, where)
            self._profiles[key] = profile
        return self._profiles[key]


def _bytes_of(file: Path) -> bytes:
    try:
        if not stat.S_ISREG(file.stat().st_mode):
            raise OSError(errno.EINVAL, "it is no regular file")
        with file.open("rb") as stream:
            data = stream.read(_LARGEST + 1)
        if len(data) > _LARGEST:
            raise OSError(errno.EFBIG, f"it has more than {_LARGEST} bytes")
        return data
    except OSError as error:
        raise InputError(
            "no-such-file" if isinstance(error, FileNotFoundError) else "bad-file",
            f"cannot read it: {error.strerror}",
            where=str(file),
            hint="give a profile, a fleet file, or a folder of them",
        ) from None


def _parsed(data: bytes, where: str) -> Any:
    try:
        return strict_json.parse(data, _LARGEST)
    except ValueError as error:
        raise _bad(where, str(error)) from None


def _bad(where: str, message: str) -> InputError:
    return InputError(
        "bad-fleet",
        f"this is no fleet of devices: {message}",
        where=where,
        hint="see docs/rollout.md for the format",
    )
