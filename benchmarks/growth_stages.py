"""Steps of a build before IREE's compiler, which are measured one by one.

The passes are those of `aotc.passes.stages`, for a target with kernels: a pass that is
added there is measured without an edit here.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from math import inf
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from iree.compiler.api import Session

from aotc import importers
from aotc.backend import target_flags
from aotc.backend.crossing import crossing
from aotc.checks.checked_entry import CheckedEntry
from aotc.checks.samples import call_sequence_of, check_items_of
from aotc.checks.work import WorkBudget
from aotc.dialects.limits import require_supported
from aotc.dialects.lowering.summation import BLOCK
from aotc.kernels.listing import kernels_listed
from aotc.machine.target import Target
from aotc.mlir import Module
from aotc.passes import run_passes, verify
from aotc.passes.base import Pass, Unit
from aotc.passes.stages import PASS_STAGES
from aotc.pipeline.forms import text_of
from aotc.worker.__main__ import (
    inline_kernels,
    is_process_flag,
    load_module,
    run_phases,
)
from aotc.worker.rewrites import REWRITES, Rewrite

MODEL = Path(__file__).with_name("growth_model.py")
TARGET = Target.parse("x86_64-v3")  # one with kernels, whatever machine this is

# kind → ops that a step adds to the graph
OPS_OF_STEP = {
    "chain": 17,
    "residual": 16,
    "branching": 10,
    "differentiated": 65,
    "reducing": 117,
    "training": 44,
    "looping": 6,
    "unrolled": 19,
    "calling": 24,
    "nesting": 3,
    "enclosing": 9,
    "deciding": 14,
    "sharing": 3,
    "decoding": 22,
    "convolving": 17,
}


def size_of(kind: str, ops: int) -> int:
    """Return the number of model steps for a graph of about `ops` ops."""
    return max(1, round(ops / OPS_OF_STEP[kind]))


@dataclass(frozen=True)
class Step:
    """One step of a build, such as a pass, to be run in order.

    Args:
        name: unique among the steps.
        run: does it, when the steps before are done.
        pass_: the pass that it runs; None where it runs none.
        place: of the pass: the stage, and how many others of that come before it.
    """

    name: str
    run: Callable[[], Any]
    pass_: Pass | None = None
    place: tuple[str, int] = ("", 0)


class GrowingBuild:
    """A build of growth_model.py up to IREE's compiler, as a list of steps.

    Args:
        kind: of the graph.
        size: how many steps the graph has.
        batch: of the inputs: a number, or a name for any.
    """

    def __init__(self, kind: str, size: int, batch: str) -> None:
        os.environ.update(GROWTH_KIND=kind, GROWTH_STEPS=str(size), GROWTH_BATCH=batch)
        self.unit: Unit

    @property
    def module(self) -> Module:
        """The module in its current state."""
        return self.unit.module

    def steps(self, runs: Callable[[Pass], Pass] = lambda each: each) -> Iterator[Step]:
        """Yield what the build does, in order; each is to be run before the next.

        Args:
            runs: gives what is run in the place of a pass.
        """
        yield Step("tracing", self._trace)
        for stage in PASS_STAGES:
            if stage.per_target and self.unit.target is None:
                yield Step("text for people", lambda: text_of(self.module, True))
                yield Step("limits", lambda: require_supported(self.module, [TARGET]))
                yield Step("fork", self._fork)
            for number, each in enumerate(stage.passes()):
                name = f"{stage.name} {number}: {each.name}"
                given = runs(each)
                run = partial(self._run_pass, given)
                yield Step(name, run, each, (stage.name, number))
                if each.name == "autodiff":
                    yield Step("reference", self._evaluate)
            name = f"verification of {stage.name}"
            yield Step(name, lambda: verify(self.module))
        yield Step("crossing", lambda: crossing(self.unit.program))
        yield Step("kernels listed", self._list_kernels)

    def rewrites(
        self, runs: Callable[[Rewrite], Rewrite] = lambda each: each
    ) -> Iterator[Step]:
        """Yield the passes over IREE's own IR, after all steps have run.

        IREE's phases between them, which the worker runs, are no steps.

        Args:
            runs: gives what is run in the place of a pass.
        """
        flags = [x for x in target_flags(TARGET) if not is_process_flag(x)]
        session, last = Session(), "start"
        session.set_flags(*flags)
        with TemporaryDirectory() as name:
            folder = Path(name)
            graph, frame = crossing(self.unit.program)
            (folder / "graph.mlirbc").write_bytes(graph)
            (folder / "frame.mlir").write_text(frame, encoding="utf-8")
            module, kernels = load_module(session, folder)
        invocation = session.invocation()
        invocation.enable_console_diagnostics()
        invocation.import_module(module.operation)
        for each in REWRITES:
            if each.after != last:
                if last == "stream":
                    inline_kernels(module, kernels)
                if not run_phases(invocation, module, last, each.after):
                    raise AssertionError(f"IREE fails before {each.after}")
            last = each.after
            job = {"sum_block": BLOCK, "is_mapped": True}
            yield Step(f"vmfb: {each.name}", partial(runs(each).run, module, job))

    def _trace(self) -> None:
        """Trace the model into the unit."""
        self.unit = Unit(importers.load(MODEL, ()))

    def _fork(self) -> None:
        """Fork the unit for the target."""
        self.unit = self.unit.fork(TARGET)

    def _run_pass(self, given: Pass) -> None:
        """Run one pass on the unit."""
        run_passes(self.unit, [given], silently=True, verified=False)

    def _evaluate(self) -> None:
        """Compute the first call of the self-check by the reference evaluator."""
        program = self.unit.program
        for entry in program.entries:
            item = check_items_of(program, self.module, entry)[0]
            calls = call_sequence_of(program, self.module, entry, item, seed=0)
            checked = CheckedEntry(program, self.module, entry)
            for _ in checked.reference_results(calls, WorkBudget(inf, inf)):
                pass

    def _list_kernels(self) -> None:
        """List the kernels of the module."""
        kernels_listed(self.module, TARGET, tuple(self.unit.program.passes))
