"""Findings as SARIF 2.1.0, which code hosts show at the lines they are about.

https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from aotc import __version__

if TYPE_CHECKING:
    from aotc.explain import Explanation, OpFinding

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_LEVELS = {
    "unsupported": "error",
    "approximated": "warning",
    "decomposed": "note",
    "without-kernel": "note",
    "not-padded": "note",
}
_PLACE = re.compile(r"(?P<file>[^:]+):(?P<line>\d+)(?: \((?P<path>.*)\))?")

# of files that have lines; in others a number counts nodes
_TEXT = (".py", ".mlir")


def sarif(explanation: Explanation) -> dict[str, Any]:
    """Return findings as a SARIF log: one result for each place of each finding."""
    results = [
        _result(finding, place)
        for finding in explanation.findings
        for place in finding.places
    ]
    return log(results)


def log(results: list[dict[str, object]]) -> dict[str, Any]:
    """Return a SARIF log of one run of aotc with the given results."""
    codes = dict.fromkeys(result["ruleId"] for result in results)
    driver = {
        "name": "aotc",
        "version": __version__,
        "rules": [{"id": code} for code in codes],
    }
    return {
        "$schema": _SCHEMA,
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "results": results}],
    }


def _result(finding: OpFinding, place: str) -> dict[str, object]:
    """Return the SARIF result for a finding at one place."""
    advice = f" ({finding.help})" if finding.help else ""
    return {
        "ruleId": finding.code,
        "level": _LEVELS[finding.kind],
        "message": {"text": f"{finding.op}: {finding.reason}{advice}"},
        "locations": [_location(place)],
    }


def _location(place: str) -> dict[str, object]:
    """Return the SARIF location of a place: a line of a file, or a node's name."""
    parts = _PLACE.fullmatch(place)
    if parts is None:
        return {"logicalLocations": [{"fullyQualifiedName": place}]}
    file, line, path = parts["file"], int(parts["line"]), parts["path"]
    where: dict[str, Any] = {"artifactLocation": {"uri": quote(file)}}
    if file.endswith(_TEXT):
        where["region"] = {"startLine": line}
    found: dict[str, Any] = {"physicalLocation": where}
    if path:
        found["logicalLocations"] = [{"fullyQualifiedName": path}]
    return found
