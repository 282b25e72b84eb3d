"""Linux scheduling of a thread that waits for IREE's thread pool.

Note [a caller that is woken too early]: the worker that ends a call wakes the calling
thread before it marks the call as completed (IREE 3.13, the timepoint callback of
`iree_async_semaphore_multi_wait`), and the caller spins until that mark is there. Where
the worker is bound to the core on which the caller wakes, the caller preempts it and
spins in its place until the next tick of the scheduler, 1 to 4 ms: MobileNetV2 with two
threads took 1.9 ms in the median and 6.2 at p90. A thread of the policy SCHED_BATCH
does not preempt the one that wakes it; else it is scheduled like any other, with its
nice value. (SCHED_IDLE does the same on an idle machine, but where other programs keep
the cores busy such a caller hardly ever gets one.) To change to it and back needs no
privilege. Real-time policies are left as they are: a way back to them would need one.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

_P = ParamSpec("_P")
_R = TypeVar("_R")


def without_wakeup_preemption(call: Callable[_P, _R]) -> Callable[_P, _R]:
    """Wrap `call` to run with a scheduling policy that does not preempt its waker.

    See Note [a caller that is woken too early]. On systems without such a policy it is
    `call` itself.
    """
    if not hasattr(os, "SCHED_BATCH"):
        return call

    @wraps(call)
    def called(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        is_changed = _leave_usual_policy()
        try:
            return call(*args, **kwargs)
        finally:
            if is_changed:
                os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))

    return called


def _leave_usual_policy() -> bool:
    """Change this thread from SCHED_OTHER to SCHED_BATCH; return whether it was
    changed.

    A sandbox may forbid it: then calls are made as they are.
    """
    try:
        if os.sched_getscheduler(0) != os.SCHED_OTHER:
            return False
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
    except OSError:
        return False
    return True
