"""Threads share the workgroups of a kernel evenly, and a small dispatch not at all."""

import pytest

from aotc.dialects import context
from aotc.kernels.sharing import share_count, share_count_value
from aotc.kernels.vectors import index
from aotc.mlir import func, ir, passmanager

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


def _folded(work, workgroups):
    """What `share_count_value` gives for constants, by MLIR's folding."""
    with context(), ir.Location.unknown():
        module, kind = ir.Module.create(), ir.IndexType.get()
        with ir.InsertionPoint(module.body):
            function = func.FuncOp("count", ([], [kind]))
        with ir.InsertionPoint(function.add_entry_block()):
            func.ReturnOp([share_count_value(index(work), index(workgroups))])
        manager = passmanager.PassManager.parse("builtin.module(canonicalize)")
        manager.run(module.operation)
        constant, _ = function.entry_block.operations
        return ir.IntegerAttr(constant.attributes["value"]).value


def test_a_call_counts_shares_as_the_build_does():
    works = [0, WORK, 3 * WORK, 20 * WORK, LARGE]
    for work in works:
        for workgroups in (0, 1, 2, 7, 20, 64, 1000):
            assert _folded(work, workgroups) == share_count(work, workgroups)
