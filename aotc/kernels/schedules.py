"""Schedules that were measured: which kernel of a build they are for, and if they fit.

A key says all that the time of a kernel depends on, for one target:

    contraction: dot_general(f32[9, 16], f32[16, 8]) lhs_contract = [1], …; add, gelu
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from aotc.dialects.functions.fusion import Fused
from aotc.dialects.graph import GraphOp, where_of
from aotc.dialects.types import Tensor
from aotc.errors import InputError
from aotc.kernels.capabilities import Capabilities
from aotc.kernels.family import KernelFamily
from aotc.mlir import Value


def key_of(
    fused: Fused,
    family: KernelFamily[Any, Any],
    anchor: GraphOp,
    others: Sequence[GraphOp],
    views: Iterable[Value],
) -> str:
    """Return the key of a kernel in tuning files: op, types and fused ops, as text.

    Args:
        fused: whether its right operand is packed, and the like.
        family: of the kernel.
        anchor: the op that it is for.
        others: the ops that it computes besides.
        views: what it reads through.
    """
    said = []
    if fused.tile.get("packed", 1) == 0:
        said.append("right operand as it lies")
    if fused.tile.get("ahead"):
        said.append("fetched ahead")
    said += [f"reads {Tensor.of(value)}" for value in views]
    text = ", ".join([f"{fused.kernel}: {_text_of(anchor)}", *said])
    # others that are anchors as well may differ where the anchor does not
    kinds = family.anchors
    names = [_text_of(op) if isinstance(op, kinds) else _name_of(op) for op in others]
    return "; ".join(filter(None, [text, ", ".join(names)]))


def _text_of(op: GraphOp) -> str:
    """Return an op's name, operand types and attributes as text."""
    attributes = op.operation.attributes
    types = ", ".join(str(Tensor.of(value)) for value in op.operands)
    said = ", ".join(f"{name} = {attributes[name]}" for name in sorted(attributes))
    return f"{_name_of(op)}({types}) {said}"


def _name_of(op: GraphOp) -> str:
    """Return the name of a graph op without its dialect's prefix."""
    return op.operation.name.removeprefix("graph.")


@dataclass(frozen=True)
class TuningUse:
    """A count of the tuning file's schedules that a build used and did not use.

    Args:
        target: of the build.
        used: kernels that have a schedule of it.
        unknown: of its schedules, those for kernels that the build does not have.
    """

    target: str
    used: int
    unknown: int

    def to_json(self) -> dict[str, Any]:
        """Return the counts as the build report holds them."""
        return asdict(self)

    def __str__(self) -> str:
        """Return the counts as a line of text for the user."""
        unknown = f", {self.unknown} for kernels that it lacks" if self.unknown else ""
        return f"{self.target}: {self.used} measured schedules{unknown}"


@dataclass
class TunedSchedules:
    """The measured schedules of a tuning file for one target; notes which are used."""

    capabilities: Capabilities
    schedules: Mapping[str, Mapping[str, int]]
    _met: set[str] = field(default_factory=set)

    def choose(
        self, fused: Fused, anchor: GraphOp, key_of_kernel: Callable[[], str]
    ) -> Fused:
        """Return a kernel with its measured schedule, noted as used, or else as it is.

        Args:
            fused: the kernel, as the model has it.
            anchor: the op that it is for.
            key_of_kernel: gives what a tuning file calls it.

        Raises:
            InputError: `bad-tuning`: the schedule is none that the kernel can have.
        """
        if not self.schedules:
            return fused
        key = key_of_kernel()
        wanted = self.schedules.get(key)
        if wanted is None:
            return fused
        self._met.add(key)
        known = self.capabilities.candidates(fused, anchor)
        if wanted not in known:
            raise InputError(
                "bad-tuning",
                f"expected one of the {len(known)} schedules of the kernel '{key}', "
                f"such as {known[0]}; got {dict(wanted)}",
                where=where_of(anchor),
                hint="the file was edited, or made by another version of aotc: take "
                "the row out of it, or make it again with --tune",
            )
        return Fused(fused.kernel, dict(wanted))

    def use(self, target: str) -> TuningUse:
        """Return how many of the schedules `choose` has used so far."""
        return TuningUse(target, len(self._met), len(self.schedules) - len(self._met))


def tuned_schedules(
    tuning: Mapping[str, Any] | None, target: str, capabilities: Capabilities
) -> TunedSchedules:
    """Return a tuning file's measured schedules for a target; none without a file.

    Raises:
        InputError: `bad-tuning`: they were measured for another model of the machine.
    """
    machine = capabilities.machine
    rows = (tuning or {}).get("targets", {}).get(target)
    if rows is None:
        return TunedSchedules(capabilities, {})
    if rows["machine"] != machine.to_plain():
        raise InputError(
            "bad-tuning",
            f"expected schedules for the model {machine.to_plain()} of {target}; got "
            f"those for {rows['machine']}",
            hint="make the file again with --tune",
        )
    schedules = {row["key"]: row["schedule"] for row in rows["schedules"]}
    return TunedSchedules(capabilities, schedules)
