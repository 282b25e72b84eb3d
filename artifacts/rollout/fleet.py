"""Fleets of devices, read from files and folders.

A fleet file is JSON of schema `aotc.fleet/1`, or one JSON document a line (`.jsonl`):

    {"schema": "aotc.fleet/1", "devices": [
      {"name": "press-7", "count": 12, "labels": {"site": "ulm"}, "file": "press.json"},
      {"name": "kiosk", "count": 900, "device": "raspberry-pi-5"},
      {"name": "lab", "profile": {"schema": "aotc.device/1", ...}}]}

A profile by itself is a fleet of one device, and a folder is the fleet of its `.json`
and `.jsonl` files and of those in the folders below.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from aotc.artifacts import strict_json
from aotc.artifacts.fields import Invalid, integer, listing, mapping, record, text
from aotc.artifacts.rollout import signatures
from aotc.artifacts.rollout.device_classes import FleetDevice
from aotc.artifacts.rollout.profiles import (
    DEVICE_SCHEMA,
    DOCTOR_SCHEMA,
    Assumptions,
    DeviceProfile,
    named_profile,
    profile_key,
    read_profile,
)
from aotc.artifacts.rollout.regular_files import read_regular
from aotc.artifacts.trust import Trust
from aotc.core.json_values import JsonObject
from aotc.errors import InputError
from aotc.errors.system import cannot_read

SCHEMA = "aotc.fleet/1"

# What no encoding holds, and what turns the direction of text around it.
_UNFIT = r"\x00-\x1f\x7f\ud800-\udfff\u200e\u200f\u202a-\u202e\u2066-\u2069"
_word = text(rf"[^{_UNFIT}]{{1,200}}", "a text of 1 to 200 characters")
# `site=ulm` names a label and its value
_label = text(rf"[^{_UNFIT}=]{{1,200}}", "a text of 1 to 200 characters without `=`")
_LARGEST = 1 << 30  # bytes of a file
_fleet = record({"schema": text(), "devices": listing(record({}))})
_ROW = {
    "name": _word,
    "count": integer(1),
    "labels": mapping(_label, _word),
    "device": _word,
    "file": _word,
    "profile": record({}),
}
_row = record({}, _ROW)


def read_fleet(
    paths: Sequence[Path], assumptions: Assumptions, trust: Trust | None = None
) -> list[FleetDevice]:
    """Read the devices described by profiles, fleet files, and folders of them.

    A file that is named twice counts once, and so does a profile that a fleet refers
    to: the fleet says how many there are.

    Args:
        paths: the files and folders.
        assumptions: for what profiles do not state.
        trust: whose signature each file needs; None asks for none.

    Raises:
        InputError: `no-such-file`, `bad-file`, `bad-fleet`, `bad-profile`,
            `unknown-device`, `empty-fleet`.
        VerificationError: what `signatures.verify` raises.
    """
    profiles = _Profiles(assumptions, trust)
    found: dict[Path, list[FleetDevice]] = {}
    for path in paths:
        files = {_resolve(file): file for file in _files(path)}
        for place, file in files.items():
            if place not in found:
                found[place] = list(_FleetReader(file, profiles).devices())
        if not any(found[place] for place in files):
            raise InputError(
                "empty-fleet",
                "there is no device in it",
                where=str(path),
                hint="write a profile with `aotc doctor --format json > device.json`",
            )
    return [
        device
        for file, devices in found.items()
        if file not in profiles.of_files
        for device in devices
    ]


def _files(path: Path) -> list[Path]:
    """Return `path`, or all JSON files of a folder and its subfolders, except hidden
    ones.
    """
    if not path.is_dir():
        return [path]
    found: list[Path] = []
    visited = set()
    for folder, below, names in os.walk(path, onerror=_refuse, followlinks=True):
        identity = os.path.realpath(folder)
        if identity in visited:  # by a link, which may lead into a circle
            below.clear()
            continue
        visited.add(identity)
        below[:] = sorted(name for name in below if not name.startswith("."))
        found += [
            Path(folder, name)
            for name in sorted(names)
            if not name.startswith(".") and name.lower().endswith((".json", ".jsonl"))
        ]
    return found


def _refuse(error: OSError) -> None:
    """Raise for a folder that cannot be read, instead of treating it as empty."""
    raise cannot_read(Path(error.filename), error, "a folder of devices")


class _Profiles:
    """Reader of device profiles that parses each distinct one once.

    `of_files` are those of the files that rows refer to.
    """

    def __init__(self, assumptions: Assumptions, trust: Trust | None) -> None:
        self.of_files: dict[Path, DeviceProfile] = {}
        self._assumptions = assumptions
        self._trust = trust
        self._known: dict[bytes, DeviceProfile] = {}
        self._named: dict[str, DeviceProfile] = {}

    def of_document(self, document: Any, where: str) -> DeviceProfile:
        """Return the profile in a JSON document."""
        key = profile_key(document)
        if key not in self._known:
            self._known[key] = read_profile(document, self._assumptions, where)
        return self._known[key]

    def of_file(self, file: Path) -> DeviceProfile:
        """Return the profile in a file."""
        place = _resolve(file)
        if place not in self.of_files:
            document = _parse(self.read(file), str(file))
            self.of_files[place] = self.of_document(document, str(file))
        return self.of_files[place]

    def of_name(self, name: str, where: str) -> DeviceProfile:
        """Return the profile of a device in the shipped table."""
        if name not in self._named:
            self._named[name] = named_profile(name, self._assumptions, where)
        return self._named[name]

    def read(self, file: Path) -> bytes:
        """Return the content of a file, after verifying its signature if required."""
        data = _read_bytes(file)
        if self._trust is not None:
            signatures.verify(file, data, self._trust)
        return data


class _FleetReader:
    """Reader of the devices of one file."""

    def __init__(self, file: Path, profiles: _Profiles) -> None:
        self._file = file
        self._by_line = file.suffix.lower() == ".jsonl"
        self._profiles = profiles

    def devices(self) -> Iterator[FleetDevice]:
        """Yield all devices of the file, which is a fleet, a profile, or lines of
        these.
        """
        for where, document in self._documents():
            schema = document.get("schema") if isinstance(document, dict) else None
            if schema == SCHEMA:
                yield from self._devices_of_fleet(document, where)
            elif schema in (DEVICE_SCHEMA, DOCTOR_SCHEMA):
                profile = self._profiles.of_document(document, where)
                name = _place(where) if self._by_line else _printable(self._file.stem)
                yield FleetDevice(name, profile, where=_printable(where))
            elif self._by_line:
                yield self._device(document, where)
            else:
                raise _bad_fleet(
                    where,
                    f"expected a schema of {SCHEMA}, {DOCTOR_SCHEMA} or "
                    f"{DEVICE_SCHEMA}, got {str(schema)[:60]!r}",
                )

    def _documents(self) -> Iterator[tuple[str, Any]]:
        """Yield (position for messages, parsed JSON document) for each document of the
        file.
        """
        data = self._profiles.read(self._file)
        if not self._by_line:
            yield str(self._file), _parse(data, str(self._file))
            return
        for number, line in enumerate(io.BytesIO(data), 1):
            if not line.isspace():
                where = f"{self._file}:{number}"
                yield where, _parse(line, where)

    def _devices_of_fleet(
        self, document: JsonObject, where: str
    ) -> Iterator[FleetDevice]:
        """Validate a fleet document; yield a FleetDevice for each of its rows."""
        try:
            _fleet(document)
        except Invalid as error:
            raise _bad_fleet(where, f"it {error}") from None
        for number, row in enumerate(document["devices"]):
            yield self._device(row, f"{where}: $.devices[{number}]")

    def _device(self, row: Any, where: str) -> FleetDevice:
        """Return the device that one row of a fleet describes."""
        kind = _kind_of(row, where)
        name = row.get("name") or row.get("device")
        if name is None:
            name = (
                _printable(Path(row["file"]).stem) if kind == "file" else _place(where)
            )
        return FleetDevice(
            name,
            self._profile(kind, row[kind], where),
            row.get("count", 1),
            row.get("labels", {}),
            _printable(where),
        )

    def _profile(self, kind: str, value: Any, where: str) -> DeviceProfile:
        """Return a row's profile: by a device's name, in a file, or in the row itself,
        as `kind` says.
        """
        if kind == "device":
            return self._profiles.of_name(value, where)
        if kind == "file":
            return self._profiles.of_file(self._file.parent / value)
        return self._profiles.of_document(value, where)


def _kind_of(row: JsonObject, where: str) -> str:
    """Return which of `profile`, `device` or `file` a row has; raise for malformed
    rows.
    """
    try:
        _row(row)
        _require_known(row)
    except Invalid as error:
        raise _bad_fleet(where, str(error)) from None
    given = [key for key in ("profile", "device", "file") if key in row]
    if len(given) != 1:
        raise _bad_fleet(
            where,
            "expected one of `profile`, `device` and `file`, got "
            f"{' and '.join(given) or 'none'}",
        )
    return given[0]


def _require_known(row: Mapping[str, object]) -> None:
    """Raise for unknown fields: a misspelt `count` would silently count one device."""
    if not row.keys() <= _ROW.keys():
        name = next(name for name in row if name not in _ROW)
        raise Invalid(f"there is no such field; fields: {', '.join(_ROW)}").below(
            f".{name}"
        )


def _printable(name: str) -> str:
    """Return a file's name with unprintable characters replaced."""
    return re.sub(f"[{_UNFIT}]", "\ufffd", name)


def _place(where: str) -> str:
    """Return a position without its folder: `fleet.jsonl:17`."""
    return _printable(Path(where).name)


def _resolve(file: Path) -> Path:
    """Return the absolute path of a file without links; unchanged for a circle of
    links.
    """
    try:
        return file.resolve()
    except (OSError, RuntimeError):  # a circle of links, which reading it tells
        return file


def _read_bytes(file: Path) -> bytes:
    """Read a regular file; raise an input error if it is none."""
    try:
        return read_regular(file, _LARGEST)
    except OSError as error:
        raise InputError(
            "no-such-file" if isinstance(error, FileNotFoundError) else "bad-file",
            f"cannot read it: {error.strerror}",
            where=str(file),
            hint="give a profile, a fleet file, or a folder of them",
        ) from None


def _parse(data: bytes, where: str) -> Any:
    """Parse JSON strictly; raise `bad-fleet` with the position."""
    try:
        return strict_json.parse(data, _LARGEST)
    except ValueError as error:
        raise _bad_fleet(where, str(error)) from None


def _bad_fleet(where: str, message: str) -> InputError:
    """Return the error for a malformed fleet file."""
    return InputError(
        "bad-fleet",
        f"this is no fleet of devices: {message}",
        where=where,
        hint="see docs/rollout.md for the format",
    )
