"""State at every entry how many devices compute a call of it together.

    func @step … graph.all_reduce(%g) {axis_name = "data", axis_size = 4}
    →
    func @step … attributes {graph.devices = {axis = "data", count = 4}}

The manifest says so to whoever starts the processes. Axes of one device are left out:
their collectives are identities.
"""

from __future__ import annotations

from aotc.artifacts.manifest import DeviceAxis
from aotc.dialects.calls.callees import reachable_functions
from aotc.dialects.functions.entries import entries_of, write_devices
from aotc.dialects.functions.functions import functions_of
from aotc.dialects.graph import where_of
from aotc.dialects.ops.collective import OverDevices
from aotc.errors import CompileError
from aotc.mlir import Function, Operation, ir
from aotc.passes.base import Pass, Unit
from aotc.passes.properties import IS_GRAPH


class RecordDevices(Pass):
    """Record on every entry how many devices run it together, and along which axis."""

    name = "record-devices"
    level = 0
    keeps_graph = True
    requires = (IS_GRAPH,)

    def run(self, unit: Unit) -> bool:
        """Rewrite the unit's module in place; return whether an entry runs on several
        devices.
        """
        known: OverDevices | None = None
        changed = False
        functions = functions_of(unit.module)
        for entry in entries_of(unit.module):
            ops = ops_over_devices(functions, entry.name)
            for op in ops:
                known = known or op
                _require_same_axis(known, op)
            if ops:
                devices = DeviceAxis(ops[0].axis_name, ops[0].axis_size)
                write_devices(functions[entry.name], devices)
                changed = True
        return changed


def ops_over_devices(functions: dict[str, Function], entry: str) -> list[OverDevices]:
    """Return the ops that involve several devices, in an entry and its callees."""
    found: list[OverDevices] = []

    def visit(op: Operation) -> ir.WalkResult:
        if isinstance(op.opview, OverDevices) and op.opview.axis_size > 1:
            found.append(op.opview)
        return ir.WalkResult.ADVANCE

    for name in reachable_functions(functions, entry):
        functions[name].operation.walk(visit)
    return found


def _require_same_axis(known: OverDevices, op: OverDevices) -> None:
    """Raise if two ops use different device axes: device grids are not supported.

    Raises:
        CompileError: `several-axes`.
    """
    axes = [f"'{x.axis_name}' ({x.axis_size} devices)" for x in (known, op)]
    if axes[0] != axes[1]:
        raise CompileError(
            "several-axes",
            f"expected the collectives of all entries along one axis; got {axes[0]} "
            f"and {axes[1]}",
            where=where_of(op),
            hint="give all collectives one aotc.collectives.Axis; compiled code has "
            "devices along a single one",
        )
