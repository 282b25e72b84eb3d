"""Threads share the workgroups of a kernel evenly, and a small dispatch not at all."""

import pytest

from aotc.dialects import context
from aotc.dialects.functions.functions import functions_of
from aotc.dialects.plain import plain_of
from aotc.importers import load
from aotc.kernels.cpu.sharing import run_count_value, share_count_value
from aotc.kernels.cpu.vectors import index
from aotc.kernels.shared_work import SHARED_WORK
from aotc.kernels.sharing import run_count, share_count
from aotc.machine.target import Target
from aotc.mlir import func, ir, passmanager
from aotc.passes import run_passes
from aotc.passes.base import Unit
from aotc.passes.stages import PASS_STAGES

WORK = 300_000
LARGE = 1 << 40


def _claims(shares, threads):
    """The shares of each claim that a thread of IREE's makes."""
    size = 1 if shares < 8 * threads else 8
    return [min(size, shares - first) for first in range(0, shares, size)]


def _busiest(shares, threads):
    """How many shares the busiest thread computes, if all take equally long."""
    loads = [0] * threads
    for claim in _claims(shares, threads):
        loads[loads.index(min(loads))] += claim
    return max(loads)


COUNTS = {share_count(LARGE, workgroups) for workgroups in range(1, 1000)}


@pytest.mark.parametrize("threads", [2, 4, 8, 16, 32, 64])
def test_threads_compute_equally_many_shares(threads):
    assert max(COUNTS) >= 64
    for shares in COUNTS:
        assert _busiest(shares, threads) == max(1, shares // threads)


def test_a_small_dispatch_stays_on_one_thread():
    assert share_count(2 * WORK - 1, 1000) == 1
    assert share_count(2 * WORK, 1000) == 2


@pytest.mark.parametrize("workgroups", [1, 2, 3, 9, 39, 63, 100, 500])
def test_every_share_has_a_workgroup(workgroups):
    assert workgroups // 4 < share_count(LARGE, workgroups) <= workgroups


@pytest.mark.parametrize("workgroups", [0, 1, 2, 3, 9, 39, 127, 128, 500])
def test_runs_that_repeat_work_are_few(workgroups):
    """About two workgroups each, and no more than there is scratch for."""
    assert 1 <= run_count(LARGE, workgroups) <= min(64, max(1, -(-workgroups // 2)))
    assert run_count(2 * WORK - 1, workgroups) == 1


def _folded(work, workgroups, count=share_count_value):
    """What `count` gives for constants, by MLIR's folding."""
    with context(), ir.Location.unknown():
        module, kind = ir.Module.create(), ir.IndexType.get()
        with ir.InsertionPoint(module.body):
            function = func.FuncOp("count", ([], [kind]))
        with ir.InsertionPoint(function.add_entry_block()):
            func.ReturnOp([count(index(work), index(workgroups))])
        manager = passmanager.PassManager.parse("builtin.module(canonicalize)")
        manager.run(module.operation)
        constant, _ = function.entry_block.operations
        return ir.IntegerAttr(constant.attributes["value"]).value


def test_a_call_counts_shares_as_the_build_does():
    works = [0, WORK, 3 * WORK, 20 * WORK, LARGE]
    for work in works:
        for workgroups in (0, 1, 2, 7, 20, 64, 1000):
            assert _folded(work, workgroups) == share_count(work, workgroups)
            found = _folded(work, workgroups, run_count_value)
            assert found == run_count(work, workgroups)


MODEL = """
import numpy
import aotc
from aotc import control, numpy as np
w = aotc.Weights(numpy.full((256, 256), 0.1, "f4"))
x = aotc.Spec((1, 256))

@aotc.entry(x=x)
def product(w, x):
    return x @ w

@aotc.entry(x=aotc.Spec((32, 1, 256)))
def loop(w, x):
    return control.scan(lambda h, row: (np.tanh(h @ w + row), None), x[0], x)[0]

@aotc.entry(x=x)
def small(x):
    return np.tanh(x) * 2.0

@aotc.entry(x=x)
def ends_by_a_condition(w, x):
    return control.while_loop(lambda y: y.sum() < 9.0, lambda y: y @ w, x)

@aotc.entry(x=x)
def branches(w, x):
    return control.cond(x.sum() > 0, lambda: x @ w, lambda: x)

@aotc.entry(x=aotc.Spec(("n", 256)))
def of_any_size(w, x):
    return x @ w

@aotc.entry(x=x)
def sorted(x):
    return np.sort(x)
"""


def _stated(unit):
    """The work that threads can share, by the names of entries that state some."""
    return {
        name: plain_of(function.attributes[SHARED_WORK])
        for name, function in functions_of(unit.module).items()
        if SHARED_WORK in function.attributes
    }


def test_entries_state_the_work_that_threads_can_share(tmp_path):
    file = tmp_path / "model.py"
    file.write_text(MODEL)
    unit = Unit(load(file)).fork(Target.parse("x86_64-v3"))
    for stage in PASS_STAGES[:2]:
        passes = [each for each in stage.passes() if each.name != "fuse-loops"]
        run_passes(unit, passes)
    stated = _stated(unit)
    operations, read = 2 * 256 * 256, 4 * (256 * 256 + 2 * 256)
    work = operations + 2 * read
    assert stated["product"] == {"work": work, "turns": 0}
    loop = stated["loop"]
    assert loop["turns"] == 2
    assert 32 * work < loop["work"] < 33 * work  # a step adds a row, and its tanh
    assert stated["small"] == {"work": 0, "turns": 0}
    assert stated.keys() == {"product", "loop", "small"}
    run_passes(unit, ("fuse-loops",))
    assert _stated(unit)["loop"] == {"work": 0, "turns": 0}  # one core runs it
