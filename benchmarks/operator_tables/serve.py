"""One system with all cases, told by its standard input what to run.

    python -m operator_tables.serve aotc|eager|packed THREADS CLOCK BUNDLE

A line of input is a case and a number of calls; the answer is a line of JSON: the
seconds of these calls, after one that is not counted, or null where the system has no
such call. `NAME FILE.npy` writes the result instead.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from inference.clocks import seconds_of_calls

from .cases import all_cases, arrays
from .limits import CLOCKS

Call = Callable[[], Any]
CASES = {case.name: case for case in all_cases()}


def aotc_calls(bundle: str, threads: int) -> Callable[[str], Call]:
    """Return a function by case that calls the bundle's entry on device inputs."""
    import aotc

    model = aotc.load(bundle, allow_unsigned=True, threads=threads)

    @lru_cache(1)
    def call_of(name: str) -> Call:
        x, _, other = arrays(CASES[name])
        function = model.entry(name)._run  # PyTorch does not copy its inputs either
        prepared = function.prepare([x] if other is None else [x, other])
        return lambda: function.invoke(prepared)[0]

    return call_of


def torch_calls(kind: str, threads: int) -> Callable[[str], Call | None]:
    """Return a function by case that calls PyTorch, `eager` or `packed`."""
    import torch

    from . import torch_calls as calls

    torch.set_num_threads(threads)
    torch.set_grad_enabled(False)

    @lru_cache(1)
    def call_of(name: str) -> Call | None:
        return getattr(calls, kind)(CASES[name])

    return call_of


def seconds(call: Call, count: int, clock: str) -> list[float]:
    """Return the seconds of each of several calls, after a warm-up call."""
    call()
    return seconds_of_calls(call, count, CLOCKS[clock])


def save(call: Call, file: str) -> None:
    """Write the result of a call as channels-last array."""
    found = call()
    if hasattr(found, "is_mkldnn"):
        found = found.to_dense() if found.is_mkldnn else found
        found = found.permute(0, 2, 3, 1) if found.dim() == 4 else found
    np.save(file, np.asarray(found))


def main() -> None:
    """Answer commands until the input ends."""
    replies = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what libraries print is no reply
    kind, threads, clock, bundle = sys.argv[1:]
    make = aotc_calls if kind == "aotc" else torch_calls
    call_of = make(bundle if kind == "aotc" else kind, int(threads))
    for line in sys.stdin:
        name, wanted = line.rstrip("\n").split("\t")
        call = call_of(name)
        answer = None
        if call is not None and wanted.isdigit():
            answer = seconds(call, int(wanted), clock)
        elif call is not None:
            answer = save(call, wanted)
        print(json.dumps(answer), file=replies)


if __name__ == "__main__":
    main()
