"""The package of a hybrid program: its bundle, and the Python between its regions."""

from __future__ import annotations

import hashlib
from os.path import isfile
from pathlib import Path
from typing import TYPE_CHECKING

from aotc.core.json_values import JsonObject
from aotc.errors import VerificationError
from aotc.errors.system import cannot_read

if TYPE_CHECKING:
    from aotc.artifacts.manifest import Manifest

MODULE = "__init__.py"


def bundle_in(path: Path) -> Path | None:
    """Return the path of the bundle at `path`, or in a hybrid program's package; else
    None.
    """
    # of `os.path`, which says no where a path cannot be one
    if isfile(path / "manifest.json"):
        return path
    if not isfile(path / MODULE):
        return None
    found = sorted(path.glob("*.aotc"))
    return found[0] if len(found) == 1 else None


def check_module(package: Path, manifest: Manifest) -> None:
    """Raise if the Python of a hybrid program's package differs from its bundle's
    manifest.

    Raises:
        VerificationError: `digest-mismatch`, or `module-unlisted`: the manifest has
            no digest of it.
    """
    file = package / MODULE
    expected = manifest.data.get("hybrid", {}).get("module_sha256")
    if expected is None:
        raise VerificationError(
            "module-unlisted",
            f"the signed manifest of the bundle has no digest of {MODULE}",
            where=str(file),
            hint="export the package again, or name the bundle inside to verify it "
            "alone",
        )
    try:
        got = hashlib.sha256(file.read_bytes()).hexdigest()
    except OSError as error:
        raise cannot_read(file, error) from error
    if got != expected:
        raise VerificationError(
            "digest-mismatch",
            f"{MODULE} was changed after signing: expected sha256 {expected}, got "
            f"{got}",
            where=str(file),
            hint="do not import it: it is not the Python that belongs to this bundle",
        )


def boundary_lines(hybrid: JsonObject) -> list[str]:
    """Return lines on each Python boundary of a hybrid program: its reason, and costs
    of calls.

    Args:
        hybrid: the field of the manifest.
    """
    return [line for each in hybrid["boundaries"] for line in _lines(each)]


def _lines(boundary: JsonObject) -> list[str]:
    """Return the two lines on one boundary."""
    calls = boundary["calls"]
    moved = ", ".join(
        f"{boundary[name] / max(calls, 1):.0f} bytes {way}"
        for name, way in (("bytes_in", "in"), ("bytes_out", "out"))
    )
    waits = boundary["synchronizations"] / max(calls, 1)
    return [
        f"{boundary['place']}: {boundary['operation']}",
        f"    {boundary['reason']}; {calls} calls were measured, of each {moved}, "
        f"{waits:.2g} synchronizations",
    ]
