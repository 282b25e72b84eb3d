"""The scheduling policy of threads that call."""

import os

import numpy as np
import pytest

from aotc.runtime.scheduling import without_wakeup_preemption

pytestmark = pytest.mark.skipif(
    not hasattr(os, "SCHED_BATCH"), reason="the policy is one of Linux"
)


@pytest.fixture(autouse=True)
def usual_policy():
    before = os.sched_getscheduler(0)
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    yield
    os.sched_setscheduler(0, before, os.sched_param(0))


def test_a_call_does_not_preempt_who_wakes_it_and_leaves_the_policy_as_it_was():
    policy = without_wakeup_preemption(lambda: os.sched_getscheduler(0))
    assert policy() == os.SCHED_BATCH
    assert os.sched_getscheduler(0) == os.SCHED_OTHER


def test_a_call_that_fails_leaves_the_policy_as_it_was():
    def fail():
        raise RuntimeError("in the call")

    with pytest.raises(RuntimeError, match="in the call"):
        without_wakeup_preemption(fail)()
    assert os.sched_getscheduler(0) == os.SCHED_OTHER


def test_a_policy_that_the_caller_has_chosen_stays():
    os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
    policy = without_wakeup_preemption(lambda: os.sched_getscheduler(0))
    assert policy() == os.SCHED_BATCH
    assert os.sched_getscheduler(0) == os.SCHED_BATCH


def test_a_call_is_made_where_a_sandbox_forbids_to_change_the_policy(monkeypatch):
    def refuse(*_):
        raise PermissionError

    monkeypatch.setattr(os, "sched_setscheduler", refuse)
    assert without_wakeup_preemption(lambda: 7)() == 7
    monkeypatch.undo()


def test_only_calls_that_a_pool_computes_change_it(bundle, signer, monkeypatch):
    changes = []
    monkeypatch.setattr(os, "sched_setscheduler", lambda *args: changes.append(args))
    from aotc import runtime

    model = runtime.load(bundle, trust=signer.public_pem, threads=1)
    model.echo(x=np.ones(4, np.float32))
    assert not changes
    monkeypatch.undo()
