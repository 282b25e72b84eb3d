"""States that calls write a window of: of one tile of a dispatch, and of several."""

import numpy

import aotc
import aotc.numpy as np

# name → dtype, shape of the state, shape of the window
WINDOWS = {
    "rows": ("f4", (300, 64), (128, 64)),
    "row": ("f4", (300, 64), (1, 64)),
    "heads": ("f4", (4, 300, 16), (4, 130, 16)),
    "corner": ("f4", (70, 90, 33), (65, 66, 31)),
    "line": ("f4", (20_000,), (9_001,)),
    "bytes": ("i1", (500, 70), (257, 70)),
    "all": ("f4", (130, 80), (130, 80)),
}

state = aotc.State(
    {
        **{name: numpy.zeros(have, kind) for name, (kind, have, _) in WINDOWS.items()},
        "calls": numpy.zeros((), "i4"),
    }
)


@aotc.entry(
    starts={
        name: aotc.Spec((len(have),), "i32") for name, (_, have, _) in WINDOWS.items()
    },
    parts={
        name: aotc.Spec(part, numpy.dtype(kind))
        for name, (kind, _, part) in WINDOWS.items()
    },
)
def write(state, starts, parts):
    written = {
        name: np.dynamic_update_slice(state[name], parts[name], starts[name])
        for name in WINDOWS
    }
    return {**written, "calls": state["calls"] + 1}, state["calls"]
