"""Passes over IREE's own IR, between its phases, in one list.

They are what the stage `vmfb` does besides IREE. As passes of other stages they are
noted in the report of a build, and a dump has the IR after each.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aotc.worker.empty_work import leave_out_empty_work
from aotc.worker.long_sums import split_long_sums
from aotc.worker.recordings import (
    hold_hidden_numbers,
    keep_recordings,
)
from aotc.worker.references import separate_references
from aotc.worker.workspaces import keep_workspaces

if TYPE_CHECKING:
    from iree.compiler import ir


class HardwareKind(Enum):
    """The kinds of hardware by which passes over IREE's IR are chosen."""

    CPU = "processors"
    GPU = "GPUs, whose memory is not the host's"


@dataclass(frozen=True)
class Rewrite:
    """A pass of aotc's over a module in IREE's IR, with the phase that it follows.

    Args:
        name: of it.
        after: the phase of IREE's that it comes after.
        on: what it runs for.
        run: changes the module as the job says, and returns whether it has.
    """

    name: str
    after: str
    on: tuple[HardwareKind, ...]
    run: Callable[[ir.Module, Mapping[str, Any]], bool]


_POOLED = 64 << 20  # bytes: what local-task keeps itself

REWRITES = (
    Rewrite(
        "split-long-sums",
        after="global-optimization",
        on=(HardwareKind.CPU,),  # threads of a GPU add up parts of a sum as it is
        run=lambda module, job: split_long_sums(module, job["sum_block"]),
    ),
    Rewrite(
        "hold-hidden-numbers",
        after="global-optimization",
        on=(HardwareKind.GPU,),
        run=lambda module, job: hold_hidden_numbers(module),
    ),
    Rewrite(
        "keep-workspaces",
        after="stream",
        on=(HardwareKind.CPU, HardwareKind.GPU),
        run=lambda module, job: keep_workspaces(
            module, _POOLED if job["is_mapped"] else 0
        ),
    ),
    Rewrite(
        "keep-recordings",
        after="hal",
        on=(HardwareKind.GPU,),
        run=lambda module, job: keep_recordings(module),
    ),
    Rewrite(
        "leave-out-empty-work",
        after="hal",
        on=(HardwareKind.GPU,),
        run=lambda module, job: leave_out_empty_work(module),
    ),
    Rewrite(
        "separate-references",
        after="end",
        on=(HardwareKind.CPU, HardwareKind.GPU),
        run=lambda module, job: separate_references(module),
    ),
)


def rewrites_for(kind: HardwareKind) -> list[Rewrite]:
    """Return the passes for modules that run on a kind of hardware."""
    return [each for each in REWRITES if kind in each.on]


@dataclass(frozen=True)
class Runner:
    """Runs the passes of a compilation job, and records their times.

    Args:
        job: as the worker is told it.
        records: name, wall time and whether it changed anything, of each that ran.
    """

    job: Mapping[str, Any]
    records: list[dict[str, Any]] = field(default_factory=list)

    def run(self, after: str, module: ir.Module) -> None:
        """Run the passes that follow an IREE phase on a module, in place."""
        kind = HardwareKind.CPU if self.job["is_mapped"] else HardwareKind.GPU
        for each in rewrites_for(kind):
            if each.after == after:
                start = time.perf_counter()
                changed = each.run(module, self.job)
                seconds = time.perf_counter() - start
                record = {"name": each.name, "seconds": seconds, "changed": changed}
                self.records.append(record)
                self._dump(each.name, module)

    def _dump(self, name: str, module: ir.Module) -> None:
        """Write the module to the dump folder, if the job names one."""
        if self.job["dump"] is not None:
            folder = Path(self.job["dump"])
            folder.mkdir(exist_ok=True)
            file = folder / f"{len(self.records):02d}-{name}.mlir"
            file.write_text(f"{module}\n", encoding="utf-8")
