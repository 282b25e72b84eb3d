"""Items of a self-check on several cores: found as if one came after the other."""

import os
import threading
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest

import aotc
from aotc.checks import blas_threads as blas
from aotc.checks import serve_reference, side_by_side
from aotc.checks.checked_entry import CheckedEntry
from aotc.checks.random_errors import RandomErrors
from aotc.checks.reference_messages import ReferenceSource
from aotc.checks.reference_process import ReferenceProcess
from aotc.checks.samples import check_items_of
from aotc.checks.self_check import StartedCheck
from aotc.checks.serve_reference import TrialServer
from aotc.checks.side_by_side import SideBySide
from aotc.checks.trials import EvaluatedTrial, trial_of
from aotc.checks.work import ArrayTooLarge, OverBudget, WorkBudget
from aotc.core import options
from aotc.passes import run_passes
from aotc.pipeline.report import Silent
from aotc.tracing.assembly import trace
from tests.checks.building import build

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


@pytest.fixture
def no_process(monkeypatch):
    """No process is started for items whose calls nobody evaluates."""
    stub = SimpleNamespace(trial_of=None, close=lambda: None)
    monkeypatch.setattr(side_by_side, "ReferenceProcess", lambda source: stub)


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
def test_findings_are_those_of_one_item_after_the_other(
    jobs, left, failing, no_process
):
    def compare(checked, item, work, evaluate):
        size = SIZES[checked.entry.name]
        work.take(size)
        work.count(size)  # with noise, which is refused to nobody
        if checked.entry.name == failing:
            raise ZeroDivisionError
        return checked.entry.name

    expected = found(partial(compare, evaluate=None), jobs, left)
    with options.override("AOTC_JOBS", "2"), SideBySide(compare) as compared:
        compared.start(jobs, WorkBudget(left, 100))
        assert found(compared.findings, jobs, left) == expected


@pytest.mark.parametrize("jobs_at_a_time", [1, 2])
def test_two_items_are_compared_at_a_time_if_as_many_jobs_may_run(
    jobs, jobs_at_a_time, no_process
):
    both = threading.Barrier(2)

    def compare(checked, item, work, _):
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


def test_products_in_a_process_beside_others_take_a_part_of_the_cores(
    jobs, monkeypatch
):
    library = blas._openblas()
    if library is None:
        pytest.skip("NumPy has another BLAS")
    code, name = library
    threads = getattr(code, name.format("get"))
    sources, seen = [], []

    def process(source):
        sources.append(source)
        return SimpleNamespace(trial_of=None, close=lambda: None)

    def evaluate(*given):
        seen.append(threads())
        return trial_of(*given)

    monkeypatch.setattr(side_by_side, "ReferenceProcess", process)
    monkeypatch.setattr(serve_reference, "trial_of", evaluate)
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    with options.override("AOTC_JOBS", "2"), SideBySide(lambda *_: None) as compared:
        compared.start(jobs, WorkBudget(100, 100))
    assert {source.blas_threads for source in sources} == {1}
    checked, item = jobs[0]
    with blas.blas_threads(2):
        before = threads()
        asked = checked.entry.name, type(checked), item, 1e9, 1e9
        TrialServer(sources[0]).answer(("evaluate", asked))
        assert seen == [1]
        assert threads() == before


def test_what_nobody_waits_for_any_more_ends(jobs, no_process):
    has_begun, has_ended = threading.Event(), threading.Event()

    def compare(checked, item, work, _):
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


def test_a_check_without_code_ends_at_once(jobs):
    checked, _ = jobs[0]
    with options.override("AOTC_JOBS", "2"), StartedCheck() as started:
        started.start(checked.program, full=False)
        tasks = list(started.compared._started.values())
    assert len(tasks) == 2 * len(jobs)  # of fixed sizes, called twice
    begun = [task.result(60) for task in tasks if not task.cancelled()]
    assert all(isinstance(outcome.found, BaseException) for outcome in begun)


TRAINING = """
import aotc
import aotc.numpy as np

state = aotc.State({"w": np.eye(512)})


@aotc.entry(x=aotc.Spec((4, 512), "f32"))
def step(state, x):
    def loss(w):
        return (np.tanh(x @ w) ** 2).sum()

    value, slope = aotc.value_and_grad(loss)(state["w"])
    return {"w": state["w"] - 0.1 * slope}, value
"""


def test_a_build_begins_its_check_before_there_is_code(tmp_path, monkeypatch):
    model, events, start = tmp_path / "model.py", [], StartedCheck.start
    model.write_text(TRAINING)

    class Stages(Silent):
        def stage(self, name):
            events.append(name)
            return super().stage(name)

    def note(self, program, *, full):
        start(self, program, full=full)
        events.append(len(self.compared._started))

    def built(**asked):
        events.clear()
        report = build(model, reporter=Stages(), force=True, **asked)
        return report, list(events)

    monkeypatch.setattr(StartedCheck, "start", note)
    cache = options.override("AOTC_CACHE", str(tmp_path / "cache"))
    with cache, options.override("AOTC_JOBS", "2"):
        report, begun = built()
        assert begun[:3] == ["graph", 2, "optimized"]
        assert any(row.checked for row in report.self_checks)
        again, known = built()
        assert again.self_check_reuse == "hit"
        assert 2 not in known
        assert 2 not in built(self_check="off", cache=False)[1]
    with options.override("AOTC_JOBS", "1"):
        other, alone = built(cache=False)
    assert alone[:3] == ["graph", 0, "optimized"]
    # figures are those of other sums, where BLAS has other threads
    assert [(row.checked, row.unchecked) for row in other.self_checks] == [
        (row.checked, row.unchecked) for row in report.self_checks
    ]


def test_no_process_starts_for_little(monkeypatch):
    @aotc.entry(x=aotc.Spec((4,), "f32"))
    def small(x):
        return x * 2

    monkeypatch.setattr(side_by_side, "ReferenceProcess", None)
    with options.override("AOTC_JOBS", "2"), StartedCheck() as started:
        started.start(trace([small], {}), full=False)
        assert not started.compared._started


# ---- in another process -------------------------------------------------------------


@pytest.fixture(scope="module")
def stepping():
    """An entry that updates a state, and amplifies rounding."""
    state = aotc.State({"w": np.linspace(0.1, 0.9, 50, dtype="f4")})

    @aotc.entry(state=state, x=aotc.Spec(("n", 50), "f32"))
    def step(state, x):
        def loss(w):
            for _ in range(8):
                w = 3.9 * w * (1 - w)
            return (x @ w).mean()

        value, slope = aotc.value_and_grad(loss)(state["w"])
        return {"w": state["w"] - 1e-3 * slope}, value

    program = trace([step], {})
    source = ReferenceSource.of(program, 1)  # derivatives are written there
    run_passes(program.module, ("autodiff",))
    (entry,) = program.entry_points
    return CheckedEntry(program, program.module, entry), source


@pytest.fixture
def process(stepping):
    made = ReferenceProcess(stepping[1])
    yield made
    made.close()


def judged(trial, error):
    """The verdicts on results that are off by so much, or the reason for none."""
    found = [[x * x.dtype.type(1 + error) for x in call] for _, call in trial.expected]
    return trial.judge(found)


@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize("error", [0.0, 2e-5, 0.3])
def test_a_trial_in_another_process_is_the_same(stepping, process, number, error):
    checked, _ = stepping
    item = check_items_of(checked.program, checked.graph, checked.entry)[number]
    own, other = WorkBudget.usual(), WorkBudget.usual()
    trial, remote = trial_of(checked, item, own), process.trial_of(checked, item, other)
    assert remote.item == trial.item
    pairs = zip(trial.calls.inputs, remote.calls.inputs, strict=True)
    assert all(
        np.array_equal(x, y) for call in pairs for x, y in zip(*call, strict=True)
    )
    assert trial.calls.states.keys() == remote.calls.states.keys()
    for name, array in trial.calls.states.items():
        np.testing.assert_array_equal(remote.calls.states[name], array)
    assert (own.taken, own.needed) == (other.taken, other.needed)
    for _ in range(2):  # of two targets, one after the other
        expected = judged(trial, error)
        assert judged(remote, error) == expected
    assert (own.taken, own.needed) == (other.taken, other.needed)
    assert (trial.rounding.runs > 0) == (error > 0)  # so noise was asked for
    assert all(each.passed for row in expected for each in row) == (error < 0.1)


def test_reasons_against_a_trial_come_from_another_process(stepping, process):
    checked, _ = stepping
    item = check_items_of(checked.program, checked.graph, checked.entry)[0]
    for left, most, kind in ((1e4, 1e9, OverBudget), (1e9, 10, ArrayTooLarge)):
        reasons = []
        for evaluate in (trial_of, process.trial_of):
            with pytest.raises(OverBudget) as refused:
                evaluate(checked, item, WorkBudget(left, most))
            reasons.append((type(refused.value), str(refused.value)))
        assert reasons == 2 * [(kind, reasons[0][1])]


def test_evaluations_ahead_are_counted_when_they_are_used(stepping):
    checked, source = stepping
    item = check_items_of(checked.program, checked.graph, checked.entry)[0]
    asked = checked.entry.name, type(checked), item, 1e9, 1e9
    server = TrialServer(source)
    taken = server.answer(("evaluate", asked)).taken
    while server.work_ahead():
        pass
    assert server._trial.rounding.evaluations > 0
    results = [call for _, call in server.answer(("expected", ())).found]
    assert server.answer(("judge", (results,))).taken == taken
    wrong = [[x * x.dtype.type(2) for x in call] for call in results]
    assert server.answer(("judge", (wrong,))).taken > taken


def test_a_process_that_dies_for_memory_has_the_item_compared_again(jobs):
    def compare(checked, item, work, evaluate):
        if evaluate is not trial_of:
            evaluate.__self__._child._process.kill()
        return evaluate(checked, item, work)

    with options.override("AOTC_JOBS", "2"), SideBySide(compare) as compared:
        compared.start(jobs, WorkBudget(1e9, 1e9))
        for checked, item in jobs:
            found = compared.findings(checked, item, WorkBudget(1e9, 1e9))
            assert isinstance(found, EvaluatedTrial)


def test_a_process_that_fails_otherwise_is_no_finding(jobs, monkeypatch):
    monkeypatch.setattr(ReferenceSource, "of", lambda program, threads: None)
    with (
        options.override("AOTC_JOBS", "2"),
        SideBySide(lambda *given: given[-1](*given[:-1])) as compared,
    ):
        compared.start(jobs, WorkBudget(1e9, 1e9))
        with pytest.raises(RuntimeError, match="the process that runs the reference"):
            compared.findings(*jobs[0], WorkBudget(1e9, 1e9))


# ---- random errors ------------------------------------------------------------------


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
