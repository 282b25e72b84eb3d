"""The kernels of a program for a target, as its manifest lists them.

All of it stands in the IR, so that a build that goes on from a file lists the same:
`graph.kernel` says what a kernel is, calls and their lines are those of the entries,
`graph.without_kernel` at an entry says what of it has none, and `graph.shared_work`
what threads can share of it.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping, Sequence

from aotc.core.json_values import JsonObject
from aotc.dialects import iree_text
from aotc.dialects.calls.callees import calls_in
from aotc.dialects.functions.entries import entries_of
from aotc.dialects.functions.functions import callee_of, functions_of
from aotc.dialects.graph import where_of
from aotc.dialects.plain import attribute_of, plain_of
from aotc.kernels.capabilities import Capabilities, NoTargetKernels, capabilities_of
from aotc.kernels.lowered import kernels_of
from aotc.kernels.refusal import refusals_in
from aotc.kernels.shared_work import SHARED_WORK
from aotc.machine.target import Target
from aotc.mlir import Function, Module, func

WITHOUT = "graph.without_kernel"

_MOST_PLACES = 8  # that a row lists
_DISPATCHED = re.compile(r'flow\.dispatch @"([^"]+)"::')


def note_refusals(
    module: Module,
    capabilities: Capabilities,
    left_out: Container[str] = (),
    *,
    folds_weights: bool = False,
) -> None:
    """Set an attribute on each entry that lists its ops without kernel, and why.

    Args:
        module: with its regions.
        capabilities: of the target that they are for.
        left_out: families of kernels that no region was formed for.
        folds_weights: whether the build computes what is of weights alone.
    """
    functions = functions_of(module)
    found = refusals_in(module, capabilities, left_out, folds_weights=folds_weights)
    for name, refusals in found.items():
        places: dict[tuple[str, str], list[str]] = {}
        for each in refusals:
            places.setdefault((each.op, each.why), []).append(each.where)
        rows = [
            {"op": op, "why": why, "count": len(where), **_places(where)}
            for (op, why), where in places.items()
        ]
        functions[name].attributes[WITHOUT] = attribute_of(rows)


def kernels_listed(
    module: Module, target: Target, passes: Sequence[str]
) -> dict[str, object]:
    """Return the `kernels` field of a target's variant in the manifest of a program.

    Args:
        module: lowered.
        target: that it is for.
        passes: that it went through.
    """
    capabilities = capabilities_of(target)
    if isinstance(capabilities, NoTargetKernels):
        return {"none": capabilities.why, "regions": []}
    machine = capabilities.machine
    if not any(each.partition("{")[0] == "fuse-regions" for each in passes):
        why = "the pass fuse-regions, which forms regions, is left out (-O2 has it)"
        return {"none": why, "regions": []}
    functions = functions_of(module)
    entries = {entry.name: functions[entry.name] for entry in entries_of(module)}
    called = {name: _calls(function, functions) for name, function in entries.items()}
    regions = []
    for kernel in kernels_of(module):
        places = {name: found.get(kernel.name, []) for name, found in called.items()}
        calls = {
            name: {"calls": len(found), **_places(found)}
            for name, found in places.items()
            if found
        }
        regions.append({"name": kernel.name, **kernel.facts, "entries": calls})
    without = [
        {"entry": name, **row}
        for name, function in entries.items()
        if WITHOUT in function.attributes
        for row in plain_of(function.attributes[WITHOUT])
    ]
    shared = {
        name: plain_of(function.attributes[SHARED_WORK])
        for name, function in entries.items()
        if SHARED_WORK in function.attributes
    }
    return {
        "chip" if capabilities.emitted.on_gpus else "machine": machine.manifest_facts(),
        "regions": regions,
        "without": without,
        "shared_work": shared,
    }


def without_uncompiled(
    kernels: JsonObject, refused: Mapping[str, Mapping[str, str]]
) -> JsonObject:
    """Return a manifest's `kernels` with uncompiled regions listed as without kernel.

    Args:
        kernels: the field, see `kernels_listed`.
        refused: why regions have no code, by name of the kernel, and the digest of its
            text.
    """
    rows = kernels["regions"]
    uncompiled = [
        {
            "entry": entry,
            "op": ", ".join(row["ops"]),
            "why": f"its kernel is not compiled: {refused[row['name']]['why']}",
            "count": calls["calls"],
            "places": calls["places"],
            "more": calls["more"],
            "text": refused[row["name"]]["text"],
        }
        for row in rows
        if row["name"] in refused
        for entry, calls in row["entries"].items()
    ]
    if not uncompiled:
        return kernels
    regions = [row for row in rows if row["name"] not in refused]
    return {
        **kernels,
        "regions": regions,
        "without": [*kernels["without"], *uncompiled],
    }


def _calls(
    function: Function, functions: dict[str, func.FuncOp]
) -> dict[str, list[str]]:
    """Return, by kernel name, the source lines of an entry's calls of each kernel."""
    found: dict[str, list[str]] = {}
    for call in calls_in(function):
        text = iree_text.body_of(functions[callee_of(call)])
        dispatched = _DISPATCHED.search(text or "")
        if dispatched:
            found.setdefault(dispatched[1], []).append(where_of(call) or "")
    return found


def _places(lines: Iterable[str]) -> JsonObject:
    """Return {"places": the first distinct source lines, "more": how many are left}."""
    places = [each for each in dict.fromkeys(lines) if each]
    return {"places": places[:_MOST_PLACES], "more": len(places[_MOST_PLACES:])}
