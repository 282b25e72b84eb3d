"""Time calls of one entry of a bundle, and count what they launch.

    python times.py BUNDLE VARIANT ENTRY SIZES SECONDS OUT PUBLIC_KEY

SIZES are JSON. What is found is written to OUT as JSON, in parts: a later part may end
the process. `call` is what a caller of the loaded model waits for, inputs and results
on the host; `invocation` is the code alone, with inputs on the device and results left
there. Launches are counted by the profiler of PyTorch, where there is one: it notes
what any code of the process launches.
"""

from __future__ import annotations

import json
import sys
import time
import warnings

import iree.runtime as iree
from measuring import device_events, is_copy, measure, write

from aotc.runtime import load
from aotc.timing.inputs import arrays_for

PROFILED = 5


def main():
    """Measure as the command line says."""
    path, variant, name, sizes, seconds, out, key = sys.argv[1:]
    warnings.simplefilter("ignore")
    start = time.perf_counter()
    model = load(path, trust=key, target=variant, fallback=False)
    facts = {"load_ms": (time.perf_counter() - start) * 1e3}
    entry = model.entry(name)
    arrays = arrays_for(entry.spec, json.loads(sizes), {}, 0)
    leaves = [arrays[leaf.name] for leaf in entry.spec.inputs]
    start = time.perf_counter()
    entry.call_flat(leaves)
    facts["first_call_ms"] = (time.perf_counter() - start) * 1e3
    write(out, facts)
    facts["call"] = measure(lambda: entry.call_flat(leaves), float(seconds))
    write(out, facts)
    invoke = invocation(entry.function, leaves, len(entry.spec.outputs))
    facts["invocation"] = measure(invoke, float(seconds))
    write(out, facts)
    if model.variant.backend == "cuda":
        facts["launches"] = launches(invoke)
        write(out, facts)


def invocation(function, leaves, outputs):
    """Return a function that invokes the code on arguments already on the GPU."""
    prepared = function.prepare(leaves)
    invoke, export = function._invoke, prepared.plan.export

    def run():
        invoke(export, prepared.arguments, iree.VmVariantList(outputs))

    return run


def launches(run):
    """Count the kernels and copies of a call by PyTorch's profiler, or return the
    error.
    """
    try:
        events = device_events(lambda: [run() for _ in range(PROFILED)])
    except Exception as error:  # of a library that need not be there
        return {"error": f"{type(error).__name__}: {error}"[:300]}
    copies = list(filter(is_copy, events))
    kernels = [e for e in events if e not in copies]
    return {
        "kernels": len(kernels) / PROFILED,
        "copies": len(copies) / PROFILED,
        "kernel_us": sum(device_us(e) for e in kernels) / PROFILED,
        "longest": longest(kernels),
    }


def kernel_times(run):
    """Return the kernels of a call in order, with microseconds, by PyTorch's
    profiler.
    """
    try:
        events = device_events(run)
    except Exception as error:  # of a library that need not be there
        return {"error": f"{type(error).__name__}: {error}"[:300]}
    events.sort(key=lambda e: e.time_range.start)
    span = events[-1].time_range.end - events[0].time_range.start if events else 0
    return {
        "total_us": sum(map(device_us, events)),
        "span_us": span,
        "each": [[e.name[:80], device_us(e)] for e in events],
    }


def longest(kernels):
    """Return the five kernel names with the most time per call."""
    times = {}
    for event in kernels:
        times[event.name] = times.get(event.name, 0.0) + device_us(event) / PROFILED
    ranked = sorted(times.items(), key=lambda pair: -pair[1])[:5]
    return [{"name": name[:120], "us": us} for name, us in ranked]


def device_us(event):
    """Return an event's microseconds on the GPU, in any release of PyTorch."""
    for name in ("device_time_total", "cuda_time_total"):
        if value := getattr(event, name, 0):
            return value
    return event.time_range.elapsed_us()


if __name__ == "__main__":
    main()
