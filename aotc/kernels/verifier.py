"""Verification that regions in IR that was read can have their kernels.

A build states schedules that fit; what an editor has made of them may not, and must not
become a kernel that reads past the end of an operand.
"""

from __future__ import annotations

from collections.abc import Iterator

from aotc.dialects.functions.function_table import name_of
from aotc.dialects.functions.functions import functions_of
from aotc.dialects.functions.fusion import Fused, fused_of
from aotc.dialects.graph import GraphOp
from aotc.dialects.sizes.symbols import contracts_of, known_contracts
from aotc.errors import InputError
from aotc.kernels.capabilities import Capabilities, NoTargetKernels
from aotc.mlir import Function, Module


def impossible_regions(
    module: Module, capabilities: Capabilities | NoTargetKernels
) -> Iterator[str]:
    """Yield messages on the regions of a module whose kernels the target cannot have.

    Raises:
        KeyError, TypeError, ValueError: an attribute is malformed.
    """
    for function in functions_of(module).values():
        fused = fused_of(function)
        if fused is not None:
            with known_contracts(contracts_of(function)):
                why = _why_impossible(function, fused, capabilities)
            if why:
                yield f"'{name_of(function)}' (graph.fused): {why}"


def _why_impossible(
    function: Function, fused: Fused, capabilities: Capabilities | NoTargetKernels
) -> str:
    """Return the reason why a region cannot have its stated kernel; "" if it can."""
    if isinstance(capabilities, NoTargetKernels):
        return f"there are no kernels for its target (graph.target): {capabilities.why}"
    families = capabilities.families
    family = families.get(fused.kernel)
    if family is None:
        known = ", ".join(families)
        return f"expected a family of kernels, one of {known}; got '{fused.kernel}'"
    anchors = family.anchors_in(function)
    if not anchors:
        return f"it has no op that kernels of the family '{fused.kernel}' compute"
    try:
        schedule = family.schedule_of(fused)
    except InputError as error:
        return error.message
    if len(anchors) > 1 and family.why_not_joined is not None:
        why = family.why_not_joined(anchors, schedule, capabilities.machine)
    else:
        why = _why_no_schedule(family.anchor_in(function), fused, capabilities)
    return why or family.why_misread(function, family.anchor_in(function), schedule)


def _why_no_schedule(anchor: GraphOp, fused: Fused, capabilities: Capabilities) -> str:
    """Return the reason why an op's kernel cannot have its schedule; "" if it can."""
    known = _schedules(anchor, fused.kernel, capabilities)
    if fused.tile in known:
        return ""
    such_as = f", such as {known[0]}" if known else ""
    return (
        f"expected one of the {len(known)} schedules that its kernel can have"
        f"{such_as}; got {fused.tile}"
    )


def _schedules(
    anchor: GraphOp, name: str, capabilities: Capabilities
) -> list[dict[str, int]]:
    """Return the schedules that a build may choose for an op, tuned ones included."""
    found: list[dict[str, int]] = []
    family = capabilities.families[name]
    for plan in (family.plan, family.plan_unpacked):
        planned = None if plan is None else plan(anchor, capabilities.machine)
        if planned is not None:
            first = Fused(name, planned.to_plain())
            for each in (first, family.fetch_ahead(anchor, first)):
                known = capabilities.candidates(each, anchor)
                found += (schedule for schedule in known if schedule not in found)
    return found
