"""Reads the JSON files of this folder."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

_FOLDER = Path(__file__).parent


@cache
def rows(name: str) -> tuple[dict[str, Any], ...]:
    """Return the rows of the table in the file `name`; callers must not change them."""
    return tuple(document(name)["rows"])


def document(name: str) -> dict[str, Any]:
    """Return the whole table file: `schema`, perhaps the `command` that wrote it, and
    `rows`.
    """
    found: dict[str, Any] = json.loads((_FOLDER / name).read_text(encoding="utf-8"))
    return found
