"""Items of a self-check on several cores: found as if one came after the other."""

import os
import threading

import numpy as np
import pytest

import aotc
from aotc.checks import blas_threads as blas
from aotc.checks.checked_entry import CheckedEntry
from aotc.checks.random_errors import RandomErrors
from aotc.checks.samples import check_items_of
from aotc.checks.side_by_side import SideBySide
from aotc.checks.work import OverBudget, WorkBudget
from aotc.core import options
from aotc.tracing.assembly import trace

SIZES = {"first": 4, "second": 6, "third": 5}  # of the work of an item of each entry


def entry(name):
    def double(x):
        return x * 2

    double.__name__ = name
    return aotc.entry(x=aotc.Spec((512, 512), "f32"))(double)


@pytest.fixture(scope="module")
def jobs():
    program = trace([entry(name) for name in SIZES], {})
    checked_entries = [
        CheckedEntry(program, program.module, each) for each in program.entry_points
    ]
    return [
        (checked, check_items_of(program, program.module, checked.entry)[0])
        for checked in checked_entries
    ]


def found(compared, jobs, left):
    """The findings, or the refusal, of each item, and the work that is left."""
    work, rows = WorkBudget(left, 100), []
    for checked, item in jobs:
        try:
            rows.append(compared(checked, item, work.part(0.6 * work.left)))
        except OverBudget as refusal:
            rows.append(str(refusal))
        except ZeroDivisionError:
            rows.append("failed")
    return rows, work.left


@pytest.mark.parametrize("left", [5, 7, 10, 15, 100])
@pytest.mark.parametrize("failing", ["", "second"])
def test_findings_are_those_of_one_item_after_the_other(jobs, left, failing):
    def compare(checked, item, work):
        size = SIZES[checked.entry.name]
        work.take(size)
        work.count(size)  # with noise, which is refused to nobody
        if checked.entry.name == failing:
            raise ZeroDivisionError
        return checked.entry.name

    expected = found(compare, jobs, left)
    with options.override("AOTC_JOBS", "2"), SideBySide(compare) as compared:
        compared.start(jobs, WorkBudget(left, 100))
        assert found(compared.findings, jobs, left) == expected


@pytest.mark.parametrize("jobs_at_a_time", [1, 2])
def test_two_items_are_compared_at_a_time_if_as_many_jobs_may_run(jobs, jobs_at_a_time):
    both = threading.Barrier(2)

    def compare(checked, item, work):
        if jobs_at_a_time == 2 and checked.entry.name != "third":
            both.wait(60)
        return threading.current_thread() is threading.main_thread()

    with (
        options.override("AOTC_JOBS", str(jobs_at_a_time)),
        SideBySide(compare) as compared,
    ):
        compared.start(jobs, WorkBudget(100, 100))
        rows, _ = found(compared.findings, jobs, 100)
    assert rows == [jobs_at_a_time == 1] * len(jobs)


def test_products_of_items_side_by_side_share_the_cores(jobs, monkeypatch):
    library = blas._openblas()
    if library is None:
        pytest.skip("NumPy has another BLAS")
    code, name = library
    threads = getattr(code, name.format("get"))
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    seen = []
    with blas.blas_threads(2), options.override("AOTC_JOBS", "2"):
        before = threads()
        with SideBySide(lambda *_: seen.append(threads())) as compared:
            compared.start(jobs, WorkBudget(100, 100))
        assert set(seen) == {1}
        assert threads() == before


def test_what_nobody_waits_for_any_more_ends(jobs):
    has_begun, has_ended = threading.Event(), threading.Event()

    def compare(checked, item, work):
        has_begun.set()
        try:
            while True:  # as evaluations with noise count themselves
                work.count(0)
        finally:
            has_ended.set()

    def interrupted():
        with SideBySide(compare) as compared:
            compared.start(jobs, WorkBudget(100, 100))
            assert has_begun.wait(60)
            raise KeyboardInterrupt

    with options.override("AOTC_JOBS", "2"), pytest.raises(KeyboardInterrupt):
        interrupted()
    assert has_ended.wait(60)


@pytest.mark.parametrize("terms", [1.0, 64.0])
@pytest.mark.parametrize("dtype", ["f4", "f8", "f2"])
def test_errors_do_not_depend_on_how_an_array_lies_or_is_cut(dtype, terms):
    x = np.random.default_rng(0).normal(size=(300, 333)).astype(dtype)
    found = RandomErrors(1).added_to(x, terms)
    other = RandomErrors(1).added_to(np.asfortranarray(x), terms)
    np.testing.assert_array_equal(found, other)
    if terms == 1.0:  # each element has a number of its own, in their order
        first = RandomErrors(1).added_to(x[:7], terms)
        np.testing.assert_array_equal(found[:7], first)
    moved = np.abs(found.astype("f8") - x) / np.maximum(np.abs(x), np.finfo(dtype).tiny)
    assert 0 < moved.max() < 200 * np.finfo(dtype).eps
