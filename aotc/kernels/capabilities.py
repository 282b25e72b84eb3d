"""Capabilities of targets: the table of kernels that passes ask for fusion.

A target has kernels if there is a row for its backend here and a model of its
processor, which they are planned for. The row has the families that the emitter of the
backend writes: `aotc.kernels.cpu`, or `aotc.kernels.gpu`. What a kernel takes is said
by its family: its anchors, the elementwise ops before and after them, what operands of
these may be (`aotc.kernels.operands`), and in which dtypes; sizes, by the plan of the
family.

Passes ask this table, and no family or emitter.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf
from typing import Any

from aotc.core.dtypes import is_float
from aotc.core.installation import has_triton, install_command
from aotc.core.numerics import STRICT, allows
from aotc.dialects.functions.fusion import Fused
from aotc.dialects.graph import GraphOp
from aotc.dialects.ops.contraction import DotGeneral
from aotc.dialects.ops.normalization import Normalize
from aotc.dialects.ops.reduction import Reduction
from aotc.dialects.sizes.contracts import Contract
from aotc.dialects.types import Tensor
from aotc.kernels.families import FAMILIES
from aotc.kernels.family import KernelFamily, PlannedKernel
from aotc.kernels.gpu import families as gpu_families
from aotc.kernels.gpu.composing import is_better_composed
from aotc.kernels.gpu.machines import gpu_of
from aotc.kernels.machine import machine_of
from aotc.kernels.planning import columns, contraction
from aotc.machine.target import Target
from aotc.mlir import Function, Value

WITHOUT_TRITON = (
    "kernels of GPUs are compiled by the package 'triton', which is not installed"
)


@dataclass(frozen=True)
class Emitted:
    """The kernels that a backend's code emitter (CPU or GPU) can write.

    Args:
        families: that it has kernels of; of those that compute one op, the first with a
            plan for it is taken.
        machine_of: the model of the processor of a target; None if there is none.
        most_tensors: that a kernel reads and writes, on processors beside the operands
            of its anchor.
        why_none: why there is no model for a target, in words.
        why_unwritten: why a region has no kernel, though its anchor by itself has one;
            "" if it has.
        on_gpus: whether they run on GPUs: the machine is a `Gpu`, and no threads of the
            loader share their work.
        part_count: in how many parts a reduction is computed, which are then added up.
        inner_axes: the axes of a reduction, or of a norm, that a kernel reduces first;
            over the others what it gives is combined.
        numbers_products: whether a product over images is computed for each image.
        is_better_composed: whether no kernel computes an op as fast as those of the
            ops that it is made of do.
        pack_factors: lets a product read weights in fewer bytes, if there are some for
            it, given what weights alone decide.
        factor_orders: the orders of axes in which operands of a product are read
            faster, by the number of the operand.
    """

    families: Mapping[str, KernelFamily[Any, Any]]
    machine_of: Callable[[Target], Any]
    most_tensors: int
    why_none: str
    why_unwritten: Callable[[Function], str] = lambda region: ""
    on_gpus: bool = False
    part_count: Callable[[GraphOp, Any], int] = lambda op, machine: 1
    inner_axes: Callable[[Any, Any], tuple[int, ...]] = lambda op, machine: ()
    numbers_products: Callable[[DotGeneral, Any], bool] = lambda op, machine: False
    is_better_composed: Callable[[GraphOp, Any], bool] = lambda op, machine: False
    pack_factors: Callable[[GraphOp, Container[Value]], None] = lambda *_: None
    factor_orders: Callable[..., Mapping[int, tuple[int, ...]]] = lambda *_, **__: {}


_GPUS = Emitted(
    gpu_families.FAMILIES,
    gpu_of,
    most_tensors=16,
    why_none="kernels are planned by a model of the chip",
    why_unwritten=gpu_families.why_unwritten,
    on_gpus=True,
    part_count=gpu_families.part_count,
    is_better_composed=is_better_composed,
    pack_factors=gpu_families.pack_factors,
    factor_orders=gpu_families.factor_orders,
)
BACKENDS = {
    "llvm-cpu": Emitted(
        FAMILIES,
        machine_of,
        most_tensors=12,
        why_none="kernels need multiply-adds of vectors",
        inner_axes=columns.inner_axes,
        numbers_products=contraction.numbers_products,
        factor_orders=contraction.factor_orders,
    ),
    "cuda": _GPUS,
    "rocm": _GPUS,
}


def family_names() -> list[str]:
    """Return the names of the kernel families of all backends."""
    emitted = (name for each in BACKENDS.values() for name in each.families)
    return [*dict.fromkeys(emitted)]


@dataclass(frozen=True)
class Capabilities:
    """Kernels available for one target: a backend's emitter and a processor model.

    Args:
        machine: the model of its processor: a `Machine`, or a `Gpu`.
        emitted: what its emitter writes.
    """

    machine: Any
    emitted: Emitted

    @property
    def families(self) -> Mapping[str, KernelFamily[Any, Any]]:
        """The kernel families of the target's backend, by name."""
        return self.emitted.families

    @property
    def kept_bytes(self) -> float:
        """Bytes of weights kept in the last-level cache between calls; inf on GPUs."""
        return inf if self.emitted.on_gpus else float(self.machine.third_cache)

    @property
    def joins_products(self) -> bool:
        """Return whether some kernel computes several products of one operand."""
        return any(each.most_joined > 1 for each in self.families.values())

    def part_count(self, op: GraphOp) -> int:
        """Return into how many partial sums a reduction is split; 1 for no split."""
        return self.emitted.part_count(op, self.machine)

    def inner_axes(self, op: Reduction | Normalize) -> tuple[int, ...]:
        """Return the axes that a reduction in two kernels reduces first; () for one."""
        return self.emitted.inner_axes(op, self.machine)

    def numbers_products(self, op: DotGeneral) -> bool:
        """Return whether a product that sums over images is split by images."""
        return self.emitted.numbers_products(op, self.machine)

    def is_better_composed(self, op: GraphOp) -> bool:
        """Return whether an op is faster decomposed than by a kernel of its own."""
        return self.emitted.is_better_composed(op, self.machine)

    def factor_orders(
        self, op: DotGeneral, numerics: str, *, by_weight: bool
    ) -> Mapping[int, tuple[int, ...]]:
        """Map operand numbers to axis orders in which a product reads them faster.

        Args:
            op: a product.
            numerics: what results may be.
            by_weight: whether the build transposes the right one, and no call.
        """
        given = op, self.machine, numerics
        return self.emitted.factor_orders(*given, by_weight=by_weight)

    def is_cheap(self, op: GraphOp) -> bool:
        """Return whether an op has few instructions in GPU tiles; False on CPUs."""
        lifts = (each.lifts for each in self.families.values() if each.lifts)
        return not type(op).is_approximated and any(lift(op) for lift in lifts)

    def family_of(self, fused: Fused) -> KernelFamily[Any, Any]:
        """Return the kernel family that a region's `Fused` attribute names."""
        return self.families[fused.kernel]

    def multiplies(self, op: DotGeneral) -> bool:
        """Return whether the processor can multiply a product's operand dtypes."""
        left, right = (Tensor.of(value).dtype for value in op.operands)
        if is_float(left):
            return left in self.machine.dtypes
        return bool(self.machine.multipliers_of(left, right))

    def families_for(
        self, kind: type[GraphOp]
    ) -> list[tuple[str, KernelFamily[Any, Any]]]:
        """Return the (name, family) pairs of which ops of class `kind` are anchors."""
        if kind not in self._families_for:
            self._families_for[kind] = [
                (name, family)
                for name, family in self.families.items()
                if issubclass(kind, family.anchors) and not family.is_formed_apart
            ]
        return self._families_for[kind]

    @cached_property
    def _families_for(self) -> dict[type, list[tuple[str, KernelFamily[Any, Any]]]]:
        """The cache of `families_for`, by op class."""
        return {}  # by class: most ops are anchors of none, and each is asked about

    def planned_kernel(self, function: Function) -> PlannedKernel[Any, Any] | None:
        """Return the kernel planned for a fused region; None for other functions."""
        return PlannedKernel.of(function, self.families)

    def candidates(self, fused: Fused, anchor: GraphOp) -> list[dict[str, int]]:
        """Return the schedules that a kernel can have, as dicts, the planned first."""
        family = self.family_of(fused)
        schedule = family.schedule_of(fused)
        found = family.candidates(anchor, self.machine, schedule)
        return [each.to_plain() for each in found]

    def plan_alike(
        self,
        anchors: Sequence[tuple[GraphOp, Fused]],
        contracts: Sequence[Sequence[Contract]],
    ) -> list[Fused]:
        """Re-plan kernels of ops by one weight to share a packing; return `Fused`s.

        Args:
            anchors: the ops, and their kernels, which are of one family.
            contracts: of the symbols of each.
        """
        family = self.family_of(anchors[0][1])
        assert family.alike is not None
        schedules = [family.schedule_of(fused) for _, fused in anchors]
        ops = [op for op, _ in anchors]
        found = family.alike(ops, schedules, contracts, self.machine)
        pairs = zip(anchors, found, strict=True)
        return [Fused(fused.kernel, each.to_plain()) for (_, fused), each in pairs]

    def choose(
        self,
        op: GraphOp,
        *,
        by_weight: bool,
        without: Container[str] = (),
        numerics: str = STRICT,
    ) -> Fused | None:
        """Return the family and schedule for an op; None if no kernel computes it.

        Args:
            op: that is to be computed.
            by_weight: whether its second operand is a weight, which the build can bring
                into any order.
            without: families that are left out.
            numerics: what results may be, see `aotc.core.numerics`.
        """
        for name, family in self.families_for(type(op)):
            if name in without:
                continue
            if allows(numerics, family.numerics) or family.is_exact(op):
                plan = family.plan if by_weight else family.plan_unpacked or family.plan
                schedule = plan(op, self.machine)
                if schedule is not None:
                    return Fused(name, schedule.to_plain())
        return None


@dataclass(frozen=True)
class NoTargetKernels:
    """The reason why there are no kernels for a target.

    Args:
        why: in words, for whoever asks what a target lacks.
        cure: what gives it some, if anything does.
    """

    why: str
    cure: str = ""


def capabilities_of(target: Target | None) -> Capabilities | NoTargetKernels:
    """Return the kernels available for a target, or the reason why it has none."""
    if target is None:
        return NoTargetKernels("no target is chosen yet")
    emitted = BACKENDS.get(target.backend)
    if emitted is None:
        why = f"there are kernels for processors, CUDA and ROCm, and none for {target}"
        return NoTargetKernels(why)
    machine = emitted.machine_of(target)
    if machine is None:
        return NoTargetKernels(f"{emitted.why_none}, which {target} does not have")
    if emitted.on_gpus and not has_triton():
        return NoTargetKernels(WITHOUT_TRITON, install_command("gpu"))
    return Capabilities(machine, emitted)
