"""The families of kernels, as one table: what each computes, and who writes it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from aotc.dialects.fusion import Fused
from aotc.dialects.graph import GraphOp
from aotc.dialects.ops.attention import Attention
from aotc.dialects.ops.contraction import DotGeneral
from aotc.dialects.ops.convolution import ConvGeneral
from aotc.dialects.ops.pooling import MaxPool, SumPool
from aotc.kernels import attention, contraction, depthwise
from aotc.kernels.attention import decoder
from aotc.kernels.machine import Machine
from aotc.mlir import Function, Value

Schedule = Mapping[str, int]
Workgroup = tuple[Value, Value]


@dataclass(frozen=True)
class Family:
    """Kernels for some ops.

    Args:
        anchors: the ops.
        plan: how such an op is cut up for a machine; None where there is no kernel for
            it, or where what IREE makes of it is as good.
        write: writes the kernel of a region at the insertion point, given the region,
            its anchor, the schedule, the memory of its arguments and then of its
            results, and the numbers of a workgroup; returns how many workgroups there
            are.
        packs: whether the second operand of the anchor is to be a weight, which is
            packed (`aotc.kernels.packing`).
        has_epilogue: whether it computes the elementwise ops that follow, too
            (`aotc.kernels.epilogue`).
    """

    anchors: tuple[type[GraphOp], ...]
    plan: Callable[[GraphOp, Machine], Schedule | None]
    write: Callable[
        [Function, GraphOp, Schedule, Sequence[Value], Workgroup], tuple[int, int]
    ]
    packs: bool = False
    has_epilogue: bool = False


# of those that compute one op, the first with a plan for it is taken
FAMILIES = {
    "contraction": Family(
        anchors=(DotGeneral, ConvGeneral),
        plan=contraction.plan,
        write=contraction.write,
        packs=True,
        has_epilogue=True,
    ),
    "decoder": Family(anchors=(Attention,), plan=decoder.plan, write=decoder.write),
    "attention": Family(
        anchors=(Attention,), plan=attention.plan, write=attention.write
    ),
    "depthwise": Family(
        anchors=(ConvGeneral,),
        plan=depthwise.plan,
        write=depthwise.write,
        has_epilogue=True,
    ),
    "pooling": Family(
        anchors=(MaxPool, SumPool),
        plan=depthwise.plan,
        write=depthwise.write,
        has_epilogue=True,
    ),
}


def choose(op: GraphOp, machine: Machine) -> Fused | None:
    """The kernel for an op on a machine, if there is one."""
    for name, family in FAMILIES.items():
        if isinstance(op, family.anchors):
            schedule = family.plan(op, machine)
            if schedule is not None:
                return Fused(name, dict(schedule))
    return None


def write(
    fused: Fused, function: Function, memories: Sequence[Value], workgroup: Workgroup
) -> tuple[int, int]:
    """Write the kernel of a region at the insertion point; see `Family.write`."""
    family = FAMILIES[fused.kernel]
    anchor = next(
        op for op in function.entry_block.operations if isinstance(op, family.anchors)
    )
    return family.write(function, anchor, fused.tile, memories, workgroup)
