"""`aotc doctor`: what this machine has and lacks."""

from __future__ import annotations

import os
import re
import sys
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any

import click

from aotc import __version__
from aotc.cli import output
from aotc.cli.verb import OutputFile, format_option, sign_option, verb
from aotc.core import options
from aotc.core.json_values import JsonObject
from aotc.errors import AotcError, InputError
from aotc.machine import device

_RUNTIME = "iree-base-runtime"
HIDDEN = "[hidden]"


@verb(
    "aotc doctor",
    "aotc doctor --format json > device.json",
    "aotc doctor --format json -o device.json --sign device.key",
    needs_settings=False,
)
@click.option("-o", "--output", "file", type=OutputFile(), help="Write to this file.")
@sign_option(
    "Sign the file with this private key, in FILE.sig: a file, env:NAME or fd:N."
)
@format_option()
def doctor(file: Path | None, key: str | None, form: str) -> None:
    """Show versions, extras, hardware, drivers and settings of this machine.

    Attach the output to a bug report. The JSON is the profile of the device that
    `aotc compat --devices` reads.
    """
    if key and not (file and form == "json"):
        raise click.UsageError("--sign needs --output and --format json")
    document = profile()
    text = output.text_of(document, _render(document), form)
    if file is None:
        output.print_form(text, form)
        return
    _write(file, text + "\n", key)


def _write(file: Path, text: str, key: str | None) -> None:
    """Write the profile file, and first its signature file, if `key` is given."""
    from aotc.artifacts.rollout import signatures
    from aotc.artifacts.signers import read_signer
    from aotc.core.writing import atomic_write

    data = text.encode()
    if key:
        signature = file.with_name(file.name + signatures.SUFFIX)
        if Path(key).resolve() in (file.resolve(), signature.resolve()):
            raise click.UsageError(f"{key} is the key; write the profile elsewhere")
        with atomic_write(signature) as aside:
            aside.write_bytes(signatures.signature_of(data, read_signer(key)))
    with atomic_write(file) as aside:
        aside.write_bytes(data)


def profile() -> dict[str, object]:
    """Return the profile of this machine as JSON (schema ``aotc.doctor/1``)."""
    return {
        "schema": "aotc.doctor/1",
        "aotc": __version__,
        "python": sys.version.split()[0],
        "packages": _base_packages(),
        "extras": {extra: _packages(extra) for extra in _extras()},
        "device": device.probe(),
        "drivers": _drivers(),
        "options": {name: _setting(name) for name in options.OPTIONS},
        "unreadable_options": _unreadable_options(),
        "unknown_options": _unknown_options(),
        "development_key": _development_key(),
    }


def package_version(distribution: str) -> str | None:
    """Return the version of an installed distribution without importing it, or None."""
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def _extras() -> list[str]:
    """Return the names of aotc's optional extras, without `dev`."""
    names = metadata.metadata("aotc").get_all("Provides-Extra") or []
    return [str(name) for name in names if name != "dev"]


def _packages(extra: str) -> dict[str, str | None]:
    """Return versions of the distributions of an extra; "" is the base installation."""
    found = {}
    for requirement in metadata.requires("aotc") or []:
        needed_by = re.search(r"""extra == ["'](\w+)["']""", requirement)
        name = re.split(r"[^\w.-]", requirement, maxsplit=1)[0]
        if (needed_by.group(1) if needed_by else "") == extra and name != "aotc":
            found[name] = package_version(name)
    return found


def _setting(name: str) -> object:
    """Return the value of a setting: a placeholder if it may be a secret, None if
    invalid.
    """
    if name in _unreadable_options():
        return None
    value = options.get(name)
    if options.OPTIONS[name].is_secret and value and not os.path.isfile(value):
        return HIDDEN
    return value


def _base_packages() -> dict[str, str | None]:
    """Return versions of the required packages, and of IREE's runtime."""
    found = _packages("")
    if found.get(_RUNTIME) is None:
        with suppress(ModuleNotFoundError):
            from aotc.runtime import engine

            found[_RUNTIME] = engine.iree_version()
    return found


def _unreadable_options() -> dict[str, str]:
    """Return the settings with invalid values, each with the error."""
    found = {}
    for name in options.OPTIONS:
        try:
            options.get(name)
        except InputError as error:
            found[name] = error.message
    return found


def _unknown_options() -> list[str]:
    """Return AOTC_* variables of the environment that are no known settings."""
    return sorted(
        name
        for name in os.environ
        if name.startswith("AOTC_") and name not in options.OPTIONS
    )


def _render(document: JsonObject) -> str:
    """Return the profile as a table for people."""
    facts = document["device"]
    cpu, caches = facts["cpu"], facts["cpu"]["caches"]
    rows = [
        ("aotc", document["aotc"]),
        ("python", document["python"]),
        ("packages", _versions(document["packages"])),
        *((f"[{name}]", _extra(found)) for name, found in document["extras"].items()),
        ("system", f"{facts['os']['name']} {facts['os']['release']} {facts['arch']}"),
        ("cpu", f"{cpu['model'] or 'unknown'}, {cpu['level']}"),
        ("cores", f"{cpu['cores_physical']}, {cpu['cores_logical']} threads"),
        ("caches", ", ".join(f"{k} {_bytes(v)}" for k, v in caches.items())),
        ("memory", _bytes(facts["memory"]["total_bytes"])),
        ("cuda", _cuda(facts["cuda"])),
        ("vulkan", _vulkan(facts["vulkan"])),
        ("rocm", _rocm(facts["rocm"])),
        ("drivers", ", ".join(document["drivers"] or ["none"])),
        ("key", document["development_key"] or "none yet"),
    ]
    settings = [
        (name, _value(document, name), options.OPTIONS[name].help)
        for name in document["options"]
    ]
    parts = [
        _columns(rows),
        output.table(("SETTING", "VALUE", "WHAT IT DOES"), settings),
    ]
    unreadable = document["unreadable_options"]
    if unreadable:
        parts.append("\n".join(f"error: {reason}" for reason in unreadable.values()))
    if document["unknown_options"]:
        parts.append(f"unknown settings: {', '.join(document['unknown_options'])}")
    return "\n\n".join(parts)


def _value(document: JsonObject, name: str) -> object:
    """Return the displayed value of a setting: `unreadable`, `unset`, or as it is."""
    if name in document["unreadable_options"]:
        return "unreadable"
    value = document["options"][name]
    return "unset" if value is None else value


def _columns(rows: list[tuple[str, str]]) -> str:
    """Return name-value pairs as aligned lines."""
    return "\n".join(f"{name:<12}{value}" for name, value in rows)


def _versions(versions: dict[str, str | None]) -> str:
    """Return package versions as one line."""
    return ", ".join(
        f"{name} {version or 'missing'}" for name, version in versions.items()
    )


def _extra(versions: dict[str, str | None]) -> str:
    """Return an extra's versions as one line, or which packages it lacks."""
    if all(versions.values()):
        return _versions(versions)
    missing = [name for name, version in versions.items() if version is None]
    return f"not installed: {', '.join(missing)}"


def _bytes(count: int | None) -> str:
    """Format a number of bytes; `unknown` for None."""
    return "unknown" if count is None else output.size(count)


def _cuda(facts: dict[str, Any] | None) -> str:
    """Return CUDA's version and devices as one line."""
    if facts is None:
        return "no driver"
    version = f"CUDA {facts['driver_api'] // 1000}.{facts['driver_api'] % 1000 // 10}"
    devices = ", ".join(f"{d['name']} {d['sm']}" for d in facts["devices"])
    return f"{version}: {devices or 'no usable GPU'}"


def _vulkan(facts: dict[str, Any] | None) -> str:
    """Return Vulkan's version and devices as one line."""
    if facts is None:
        return "no driver"
    devices = ", ".join(f"{d['name']} {d['api']}" for d in facts["devices"])
    return f"{facts['api']}: {devices or 'no usable GPU'}"


def _rocm(facts: dict[str, Any] | None) -> str:
    """Return ROCm's devices as one line."""
    if facts is None:
        return "no driver"
    devices = ", ".join(f"{d['name']} {d['gfx']}" for d in facts["devices"])
    return devices or "no usable GPU"


def _drivers() -> list[str] | None:
    """Return the IREE drivers that work on this machine; None without IREE's
    runtime.
    """
    from aotc.artifacts.backends import BACKENDS

    try:
        from aotc.runtime import engine
    except ModuleNotFoundError:
        return None
    return sorted(engine.host(set(BACKENDS)).drivers)


def _development_key() -> str | None:
    """Return the development key's id, None if there is none, or an error as text."""
    from aotc.artifacts.trust import Trust

    try:
        return next(iter(Trust.default().keys), None)
    except (AotcError, OSError) as error:
        return str(error)
