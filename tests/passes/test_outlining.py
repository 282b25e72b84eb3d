"""Regions become calls: where the calls stand, and what comes after them."""

import numpy as np

import aotc
from aotc import debug, nn
from aotc import numpy as anp
from aotc.dialects.functions.functions import functions_of
from aotc.machine.target import Target
from aotc.mlir import func
from aotc.passes import run_passes
from aotc.passes.base import Unit
from aotc.passes.outlining import Outlining
from aotc.passes.stages import passes_between
from aotc.reference import evaluate
from aotc.tracing.assembly import trace
from benchmarks.growth_stages import GrowingBuild


def test_nothing_is_moved_behind_the_regions_of_a_derivative(monkeypatch):
    moved = []
    find = Outlining.readers_between

    def note(*given):
        found = find(*given)
        moved.extend(found)
        return found

    monkeypatch.setattr(Outlining, "readers_between", note)
    for step in GrowingBuild("training", 4, "4").steps():
        step.run()
        if step.name.endswith("fuse-regions"):
            break
    assert not moved


def test_what_reads_a_region_comes_after_it_with_its_effects_in_order():
    @aotc.entry(x=aotc.Spec((64, 64)), w=aotc.Spec((64, 64)))
    def f(x, w):
        product = x @ w
        debug.print("first {}", anp.max(product * 2.0))
        sums = anp.cumsum(
            x, axis=0
        )  # of no region, and an operand of that of `product`
        debug.print("second {}", anp.max(sums))
        return nn.relu(product + sums)

    unit = Unit(trace([f], {}))
    run_passes(unit, passes_between(None, "split-products"), silently=True)
    x, w = np.random.default_rng(3).normal(size=(2, 64, 64)).astype("f4") / 8
    before = evaluate(unit.module, "f", [x, w])
    unit = unit.fork(Target.parse("x86_64-v3"))
    run_passes(unit, passes_between("split-products", "join-products"), silently=True)
    ops = [*functions_of(unit.module)["f"].entry_block.operations]
    marks = [
        op.format.split()[0] if op.operation.name == "graph.print" else "call"
        for op in ops
        if op.operation.name == "graph.print" or isinstance(op, func.CallOp)
    ]
    assert marks[-3:] == ["call", "first", "second"]
    assert ops.index(next(op for op in ops if op.operation.name == "graph.cumsum")) < (
        ops.index([op for op in ops if isinstance(op, func.CallOp)][-1])
    )
    np.testing.assert_allclose(evaluate(unit.module, "f", [x, w])[0], before[0])
