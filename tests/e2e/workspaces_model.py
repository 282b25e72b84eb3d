"""Entries that hold more at a time than IREE's pool keeps between calls.

A model file, which the test beside it builds.
"""

import aotc
import aotc.numpy as np
from aotc import debug, nn

_ROWS, _COLUMNS = 4096, 1024  # 16 MiB
_n = aotc.Dim("n", min=0)
_x = aotc.Spec((_ROWS, _COLUMNS), "f32")

# by a name that the module might take for its memory
workspace = aotc.State([np.zeros(_ROWS)])


def _sums(x, count):
    """Sums of values that are all in memory when the last of them is known."""
    parts = [nn.softmax(x)]
    for _ in range(count - 1):
        parts.append(nn.softmax(parts[-1] * 3.0))
    first, *rest = [np.sum(part * parts[-1], 1) for part in parts]
    for each in rest:
        first = first + each
    return first


@aotc.entry(x=_x)
def five(x):
    return _sums(x, 5)


@aotc.entry(x=_x)
def six(x):
    return _sums(x, 6)


@aotc.entry(x=_x)
def in_turn(x):
    """Has such values three times, one after the other."""
    first = debug.barrier(_sums(x, 5))
    second = debug.barrier(_sums(x * first[:, None], 6))
    return _sums(x * second[:, None], 5)


@aotc.entry(x=_x)
def two(x):
    """Compute two results that the pool keeps."""
    return _sums(x, 2)


@aotc.entry(x=aotc.Spec((_n, _COLUMNS), "f32"))
def any_rows(x):
    return _sums(x, 5)


@aotc.entry(x=_x)
def add(workspace, x):
    """Changes a state, and returns nothing."""
    return [workspace[0] + _sums(x, 5)]


@aotc.entry(x=aotc.Spec((3,), "f32"))
def excessive(x):
    """Needs 4 TiB."""
    return np.cumsum(np.broadcast_to(x[0], (2**40,)))[3]
