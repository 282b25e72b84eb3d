"""The answer of `aotc compat` in each of its forms: pure functions of the document.

The document has the schema `aotc.compat/1` (`aotc.artifacts.rollout.report`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib import import_module


def render(document: Mapping[str, object], form: str) -> str:
    """Return a compatibility document as text in one of the forms (html, junit, …)."""
    if form == "json":
        return json.dumps(document, indent=2)
    text: str = import_module(f"{__name__}.{form}").render(document)
    return text
