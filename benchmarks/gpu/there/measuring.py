"""Times calls, captures them, notes what they launch, and writes what is found."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

WARM_UP, LEAST, MOST = 5, 10, 5000


def measure(call, seconds):
    """Milliseconds of calls: the least, the median, and what 90 % and 99 % take."""
    for _ in range(WARM_UP):
        call()
    times, clock = [], time.perf_counter
    end = clock() + seconds
    while len(times) < LEAST or (len(times) < MOST and clock() < end):
        before = clock()
        call()
        times.append((clock() - before) * 1e3)
    times.sort()
    percentiles = {f"p{n}_ms": times[len(times) * n // 100] for n in (50, 90, 99)}
    return {"calls": len(times), "min_ms": times[0], **percentiles}


def captured(call):
    """Return a call as a CUDA graph of PyTorch's: a function that replays it."""
    import torch

    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(3):
            call()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    return graph.replay


def device_events(run):
    """Return the GPU's events of a function, by PyTorch's profiler, in no order."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    torch.zeros(1, device="cuda")
    with profile(activities=[ProfilerActivity.CUDA]) as found:
        run()
        torch.cuda.synchronize()
    return [each for each in found.events() if "CUDA" in str(each.device_type)]


def is_copy(event):
    """Return whether an event is a copy or a fill, and no kernel."""
    return event.name.lower().startswith(("memcpy", "memset"))


def write(out, document):
    """Replace a file by a document, as JSON."""
    aside = Path(f"{out}.part")
    aside.write_text(json.dumps(document), encoding="utf-8")
    os.replace(aside, out)
