"""The kernels of a program whose schedule can be measured, with all that may be tried.

Each schedule is a function of its own, called by an entry whose inputs are what the
kernel reads: a packed weight as it is packed for that schedule.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from aotc.dialects.functions.entries import Entry
from aotc.dialects.functions.function_table import index_functions
from aotc.dialects.functions.functions import (
    call,
    copy_module,
    define,
    find,
    functions_of,
    signature,
)
from aotc.dialects.functions.fusion import Fused
from aotc.dialects.types import Tensor, element_count
from aotc.kernels.capabilities import Capabilities
from aotc.kernels.facts import facts_of
from aotc.mlir import Module, ir
from aotc.passes.base import Unit
from aotc.passes.fuse_regions import FuseRegions
from aotc.passes.outlining import Outlining, define_region
from aotc.passes.regions import Region
from aotc.programs.program import Program


@dataclass(frozen=True)
class Proposal:
    """A kernel with the schedules that are to be timed, each a function of the module.

    Args:
        key: of the kernel, in a tuning file.
        schedules: the first is the one that the model of the machine chooses.
        functions: of the module, that compute it by each of them.
        flops: of a call, with those of equal kernels.
    """

    key: str
    schedules: Sequence[dict[str, int]]
    functions: Sequence[str]
    flops: int


def propose(
    unit: Unit,
    fusing: FuseRegions,
    capabilities: Capabilities,
    known: Collection[str],
) -> list[Proposal]:
    """Return the kernels with several possible schedules, the most flops first.

    Kernels whose sizes a call decides are left to the model, and so are those that can
    be cut up in one way only.

    Args:
        unit: of the stage `optimized`; of no more use afterwards but for its functions.
        fusing: what forms the regions of the build.
        capabilities: of the target.
        known: keys of kernels that need no measurement.
    """
    found: dict[str, list[Proposal]] = {}
    outlining = Outlining()
    with index_functions(unit.module):
        for region in fusing.regions(unit, capabilities):
            key = region.key()
            if key in found:
                found[key].append(found[key][0])
            elif key not in known and _is_static(region):
                schedules = capabilities.candidates(region.fused, region.anchor)
                if len(schedules) > 1:
                    found[key] = [_proposal(key, region, schedules)]
            outlining.outline(region, region.fused)
    return sorted(
        (_merge_equal(each) for each in found.values()), key=lambda x: -x.flops
    )


def _merge_equal(equal: Sequence[Proposal]) -> Proposal:
    """Return the first of equal kernels, with the flops of all."""
    first = equal[0]
    flops = first.flops * len(equal)
    return Proposal(first.key, first.schedules, first.functions, flops)


def _is_static(region: Region) -> bool:
    """Return whether all operands and results of a region have static sizes."""
    values = [*region.operands(), *region.results()]
    return all(isinstance(element_count(Tensor.of(x).shape), int) for x in values)


def _proposal(
    key: str, region: Region, schedules: Sequence[dict[str, int]]
) -> Proposal:
    """Return a kernel's proposal; define a function in the module for each schedule."""
    with ir.InsertionPoint(region.last), region.anchor.location:
        names = [
            define_region(region, Fused(region.fused.kernel, schedule))[0]
            for schedule in schedules
        ]
        kernel = region.capabilities.planned_kernel(find(names[0]))
        assert kernel is not None
        flops = facts_of(kernel, region.capabilities.machine)["flops"]
    return Proposal(key, schedules, names, flops)


def program_of(unit: Unit, proposals: Sequence[Proposal]) -> Program:
    """Return a program with an entry for each schedule's function, and nothing else."""
    names = [name for each in proposals for name in each.functions]
    module = copy_module(unit.module)
    entries = [_define_entry(module, name) for name in names]
    kept = {*names, *(entry.name for entry in entries)}
    for name, function in functions_of(module).items():
        if name not in kept:
            function.operation.erase()
    program = Program.of_functions(module, entries)
    program.target = str(unit.target)
    return program


def entry_name(function: str) -> str:
    """Return the name of the entry that wraps a function."""
    return f"measured.{function}"


def _define_entry(module: Module, name: str) -> Entry:
    """Define a public function that calls another and returns its results, as
    an entry.
    """
    function = functions_of(module)[name]
    taken, made = signature(function)
    with ir.InsertionPoint(function.entry_block), function.location:
        wrapper = define(entry_name(name), taken, lambda values: call(name, values))
    functions_of(module)[wrapper].attributes["sym_visibility"] = ir.StringAttr.get(
        "public"
    )
    return Entry.flat(wrapper, taken, made)
