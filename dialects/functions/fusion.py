"""Fusion regions: functions that are one step of the compiled program when called.

    func.func private @dense(%x, %w, %b) attributes {graph.fused = {
        kernel = "contraction", tile = {…}}} {…}
    %y = call @dense(%x, %w, %b)

The function has its meaning in ops of the graph, like any other. The attribute says
which kernel computes it, and how that is cut up for the target.
"""

from dataclasses import dataclass
from typing import Any

from aotc.dialects.functions.function_table import Functions
from aotc.dialects.plain import attribute_of, plain_of
from aotc.mlir import Function

FUSED = "graph.fused"
TARGET = "graph.target"  # of a module: what its regions are for


@dataclass(frozen=True)
class Fused:
    """The kernel family and tile that compute a fusion region.

    Args:
        kernel: the family of kernels, of `aotc.kernels`.
        tile: the schedule, as that family reads it.
    """

    kernel: str
    tile: dict[str, Any]


def is_region(function: Function) -> bool:
    """Return whether a function is a fusion region, computed by one kernel."""
    return FUSED in function.attributes


def fused_of(function: Function) -> Fused | None:
    """Return the kernel and tile of a fusion region; None for other functions."""
    if not is_region(function):
        return None
    return Fused(**plain_of(function.attributes[FUSED]))


def has_unfused_body(function: Function) -> bool:
    """Return whether a function has a body and is no fusion region."""
    return not function.is_external and not is_region(function)


def unfused_functions(functions: Functions) -> list[Function]:
    """Return the functions that have a body and are no fusion regions, in order."""
    return [each for each in functions.values() if has_unfused_body(each)]


def mark_fused(function: Function, fused: Fused) -> None:
    """Mark a function as a fusion region, by an attribute with kernel and tile."""
    function.attributes[FUSED] = attribute_of(
        {"kernel": fused.kernel, "tile": fused.tile}
    )


def target_of(region: Function) -> str | None:
    """Return the target that the module of a fusion region is for; None if not set."""
    attributes = region.operation.parent.attributes
    return str(plain_of(attributes[TARGET])) if TARGET in attributes else None
