"""SARIF: a result for each reason that keeps an artifact from devices."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from urllib.parse import quote

from aotc.artifacts.checked import NOT_CHECKED
from aotc.artifacts.precision import NOT_PRECISE
from aotc.cli.compat_forms.wording import (
    Cell,
    Document,
    cure_lines,
    devices_of,
    summary_of,
)
from aotc.cli.sarif import log
from aotc.core.json_values import JsonObject


def render(document: Document) -> str:
    """Return a compatibility document as a SARIF log."""
    devices = devices_of(document)
    results = [
        result
        for cell in document["cells"]
        if not cell["accepted"]
        for result in _results(document, cell, devices[cell["class"]])
    ]
    results += [_cure(document, number) for number in _artifacts_of_cures(document)]
    return json.dumps(log(results), indent=2)


def _artifacts_of_cures(document: Document) -> Iterator[int]:
    """Yield the artifact index of each cure; 0 for a cure of all artifacts together."""
    for cure in document["cure"] or ():
        yield cure["artifact"] or 0


def _cure(document: Document, number: int) -> dict[str, object]:
    """Return the SARIF note on the fewest targets to add to an artifact."""
    artifact = document["artifacts"][number]
    lines = "\n".join(cure_lines(document, number))
    return {
        "ruleId": "cure",
        "level": "note",
        "message": {"text": f"the fewest targets for this fleet: {lines}"},
        "locations": [{"physicalLocation": _file(artifact)}],
    }


def _file(artifact: JsonObject) -> dict[str, object]:
    """Return the SARIF location of an artifact's file."""
    return {"artifactLocation": {"uri": quote(os.fsencode(artifact["path"]))}}


def _results(
    document: Document, cell: Cell, device: str
) -> Iterator[dict[str, object]]:
    """Yield a SARIF result for each reason code of a cell; one on the policy if it has
    none.
    """
    artifact = document["artifacts"][cell["artifact"]]
    reasons: dict[str, list[str]] = {}
    for reason in cell["reasons"]:
        text = f"{reason['variant']}: {reason['message']}"
        reasons.setdefault(reason["code"], []).append(text)
    if cell["memory"]["exceed"]:
        reasons["memory"] = [
            f"needs more memory: {', '.join(cell['memory']['exceed'])}"
        ]
    if cell["unchecked"]:
        reasons[NOT_CHECKED] = cell["unchecked"]
    if cell["imprecise"]:
        reasons[NOT_PRECISE] = cell["imprecise"]
    for code, texts in (reasons or {"policy": [summary_of(cell)]}).items():
        words = "; ".join([*texts, *cell["advice"]])
        yield {
            "ruleId": code,
            "level": "warning" if document["passed"] else "error",
            "message": {"text": f"{artifact['title']} on {device}: {words}"},
            "locations": [
                {
                    "physicalLocation": _file(artifact),
                    "logicalLocations": [{"fullyQualifiedName": device}],
                }
            ],
        }
