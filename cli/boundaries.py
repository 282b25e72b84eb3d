"""Where Python stands between the compiled regions of a hybrid program, as text."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any


def bundle_in(path: Path) -> Path | None:
    """The bundle that a path is or, of a hybrid program's package, has; else None."""
    if (path / "manifest.json").is_file():
        return path
    if not (path / "__init__.py").is_file():
        return None
    found = sorted(path.glob("*.aotc"))
    return found[0] if len(found) == 1 else None


def boundary_lines(hybrid: Mapping[str, Any]) -> list[str]:
    """A line or two for each boundary, with the means of the calls that were measured.

    Args:
        hybrid: the field of the manifest.
    """
    return [line for each in hybrid["boundaries"] for line in _lines(each)]


def _lines(boundary: Mapping[str, Any]) -> list[str]:
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
