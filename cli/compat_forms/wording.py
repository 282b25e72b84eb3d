"""Wording that all forms share: of a cell, of a coverage, of a cure."""

from __future__ import annotations

from collections.abc import Iterator

from aotc.artifacts.checked import NOT_CHECKED
from aotc.artifacts.precision import NOT_PRECISE
from aotc.cli import output
from aotc.core.json_values import JsonObject

Document = JsonObject
Cell = JsonObject

_LISTED = 20  # names of devices

VERDICTS = {
    "optimal": "optimal",
    "supported_prefer_recompile": "runs, rebuild it",
    "not_applicable": "unknown",
    "unsupported": "does not run",
}


def rows_of(document: Document) -> dict[int, list[Cell]]:
    """Return the cells of the matrix by device class index, in the order of the
    artifacts.
    """
    rows: dict[int, list[Cell]] = {}
    for cell in document["cells"]:
        rows.setdefault(cell["class"], []).append(cell)
    return rows


def device_of(device_class: JsonObject) -> str:
    """Return the title of a device class: `press ×120`, `rk3588 and 4 alike`."""
    names = {device["name"] for device in device_class["devices"]}
    name: str = device_class["name"]
    return (
        name
        if device_class["count"] == len(names)
        else f"{name} ×{device_class['count']}"
    )


def devices_of(document: Document) -> list[str]:
    """Return the title of every device class, by its index."""
    return [device_of(each) for each in document["classes"]]


def members_of(device_class: JsonObject) -> str:
    """Return up to 20 device names of a class as text; empty for a single name."""
    names = list(dict.fromkeys(device["name"] for device in device_class["devices"]))
    more = [f"and {len(names) - _LISTED} more"] if len(names) > _LISTED else []
    return ", ".join(names[:_LISTED] + more) if len(names) > 1 else ""


def summary_of(cell: Cell) -> str:
    """Return a cell's verdict in a few words."""
    if cell["variant"] is None:
        return VERDICTS[cell["verdict"]]
    notes = [cell["variant"]]
    if cell["verdict"] != "optimal":
        notes.append(VERDICTS[cell["verdict"]])
    if cell["fallback"]:
        notes.append("on the processor instead")
    if cell["memory"]["exceed"]:
        notes.append("memory")
    if cell["imprecise"]:
        notes.append("not precise")
    if cell["unchecked"]:
        notes.append("not checked")
    return ", ".join(notes)


def cells_to_explain(document: Document) -> Iterator[tuple[str, str, Cell]]:
    """Yield (artifact title, devices, cell) for cells whose verdict needs reasons."""
    devices = devices_of(document)
    for cell in document["cells"]:
        if not cell["accepted"] or cell["fallback"] or cell["verdict"] != "optimal":
            artifact = document["artifacts"][cell["artifact"]]["title"]
            yield artifact, devices[cell["class"]], cell


def lines_of(cell: Cell) -> Iterator[str]:
    """Yield the reasons for a cell's verdict: missing code, mismatches, checks,
    memory.
    """
    if cell["missing_target"]:
        yield f"there is no code for its accelerator, such as {cell['missing_target']}"
    for reason in cell["reasons"]:
        yield f"{reason['variant']}: {reason['message']} [{reason['code']}]"
    yield from (f"{each} [{NOT_CHECKED}]" for each in cell["unchecked"])
    yield from (f"{each} [{NOT_PRECISE}]" for each in cell["imprecise"])
    for entry in cell["memory"]["exceed"]:
        yield f"{entry}: {_memory(cell['memory'], entry)} [memory]"


def _memory(memory: JsonObject, entry: str) -> str:
    """Return text on the memory that an entry needs and the device has."""
    needed, there = memory["needed"][entry], output.size(memory["available_bytes"])
    sizes = ", ".join(f"{name}={size}" for name, size in needed["sizes"].items())
    at = f" at {sizes}" if sizes else ""
    return f"needs {output.size(needed['bytes'])} of memory{at}, there are {there}"


def coverage_of(document: Document, coverage: JsonObject) -> str:
    """Return text on a coverage: `digits 1.0.0 on site=ulm: 1200 of 1300 devices (92.31
    %)`.
    """
    title = _title_of(document, coverage["artifact"])
    place = f" on {coverage['label']}" if coverage["label"] else ""
    # rounded down: what is not all is not 100 %
    share = 10_000 * coverage["covered"] // coverage["total"] / 100
    return (
        f"{title}{place}: {coverage['covered']} of {coverage['total']} devices "
        f"({share:g} %)"
    )


def _title_of(document: Document, number: int | None) -> str:
    """Return the title of an artifact, or `any bundle` for None."""
    title: str = document["artifacts"][number]["title"] if number is not None else ""
    return title or "any bundle"


def policy_of(document: Document) -> str:
    """Return the requirements of the policy in words."""
    policy = document["policy"]
    parts = [
        f"{100 * policy['min_coverage']:.10g} % of the devices",
        policy["require"],
    ]
    if policy["checked"]:
        parts.append("checked code")
    if policy["precision"]:
        parts.append(policy["precision"])
    if policy["per_label"]:
        parts.append(f"for each {', '.join(policy['per_label'])}")
    if not policy["fallback"]:
        parts.append("no fallback to the processor")
    if policy["any_artifact"]:
        parts.append("any of the bundles is enough")
    return ", ".join(parts)


def cure_lines(document: Document, artifact: int | None = None) -> Iterator[str]:
    """Yield the fewest targets that would satisfy the policy, as lines; none without
    `--cure`.
    """
    for cure in document["cure"] or ():
        if artifact is not None and cure["artifact"] not in (None, artifact):
            continue
        title = _title_of(document, cure["artifact"])
        yield f"{title}: {_targets_of(cure)}"
        if not cure["reaches_coverage"]:
            yield "  no targets reach the coverage that is asked for"
        for number in cure["left_out_classes"]:
            device = device_of(document["classes"][number])
            yield f"  left out, as the coverage is reached without: {device}"
        if cure["add"]:
            added = " ".join(f"--target {target}" for target in cure["add"])
            yield f"  beside its variants: {added}"
        for number in cure["other_runtime_classes"]:
            device = device_of(document["classes"][number])
            yield f"  first, the IREE runtime must be another on {device}"
        for number in cure["uncovered_classes"]:
            device = device_of(document["classes"][number])
            yield f"  no target (vmvx apart) runs on {device}"


def _targets_of(cure: JsonObject) -> str:
    """Return the options `--target …` of a cure, or why there are none."""
    if cure["targets"]:
        return " ".join(f"--target {target}" for target in cure["targets"])
    if cure["left_out_classes"]:
        return "no target is needed for the coverage that is asked for"
    return "no target (vmvx apart) covers a device"
