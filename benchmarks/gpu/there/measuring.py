"""Times calls, captures them, notes what they launch, and writes what is found."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

WARM_UP, LEAST, MOST = 5, 10, 5000


def measure(call, seconds):
    """Time calls for some seconds; return least, p50, p90 and p99 in milliseconds."""
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
    """Capture a call in a CUDA graph of PyTorch; return a function that replays it."""
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
    """Return the GPU events of a function from PyTorch's profiler, unordered."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    torch.zeros(1, device="cuda")
    with profile(activities=[ProfilerActivity.CUDA]) as found:
        run()
        torch.cuda.synchronize()
    return [each for each in found.events() if "CUDA" in str(each.device_type)]


def is_copy(event):
    """Return whether a profiler event is a copy or fill, and no kernel."""
    return event.name.lower().startswith(("memcpy", "memset"))


def write(out, document):
    """Write a JSON document to a file, replacing it atomically."""
    aside = Path(f"{out}.part")
    aside.write_text(json.dumps(document), encoding="utf-8")
    os.replace(aside, out)
