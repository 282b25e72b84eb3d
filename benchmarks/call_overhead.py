"""One warm call through `aotc.load` against the same .vmfb invoked directly.

    pip install -e '.[compiler]' && python benchmarks/call_overhead.py

Both run `predict` of the digits model on the same inputs in one process, in turn, with
one device and one VM each. The direct call pushes a buffer, invokes and maps the
result: as little as iree.runtime allows. One row per batch and thread count: medians
and minima in µs, and the ratio of aotc to direct (the goal is at most 1.3).
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

DIGITS = Path(__file__).parent.parent / "examples" / "digits"


def build():
    """Build the digits bundle with its predict entry; return its path."""
    from aotc.pipeline import build

    folder = tempfile.mkdtemp()
    return build(DIGITS / "model.py", entries=("predict",), output=Path(folder)).bundle


def direct(bundle, model, driver):
    """Return a function that calls `predict` of the same variant by iree.runtime
    alone.
    """
    import iree.runtime as rt

    instance = rt.VmInstance()
    device = rt.get_device(driver)
    index = rt.ParameterIndex()
    for weights in model.manifest.weights:
        if not weights.required_by or model.variant.id in weights.required_by:
            index.load(str(bundle / weights.file))
    parameters = rt.create_io_parameters_module(
        instance, index.create_provider("model")
    )
    module = rt.VmModule.mmap(instance, str(bundle / model.variant.file))
    context = rt.VmContext(
        instance, [parameters, rt.create_hal_module(instance, device), module]
    )
    function = module.lookup_function("predict")
    allocator = device.allocator

    def call(x):
        arguments, results = rt.VmVariantList(1), rt.VmVariantList(1)
        view = allocator.allocate_buffer_copy(
            memory_type=rt.MemoryType.DEVICE_LOCAL,
            allowed_usage=rt.BufferUsage.DEFAULT,
            device=device,
            buffer=x,
            element_type=rt.HalElementType.FLOAT_32,
        )
        arguments.push_ref(view)
        context.invoke(function, arguments, results)
        result = results.get_as_object(0, rt.HalBufferView)
        return rt.DeviceArray(device, result, implicit_host_transfer=True).to_host()

    return call


def measure(bundle, batch, threads, rounds):
    """Time calls by aotc and by iree.runtime in turns; return a row of medians and
    minima.
    """
    import iree.runtime as rt

    import aotc

    if threads > 1:
        rt.flags.parse_flags(f"--task_topology_group_count={threads}")
    model = aotc.load(bundle, threads=threads)
    raw = direct(bundle, model, "local-sync" if threads == 1 else "local-task")
    x = np.load(DIGITS / "test_x.npy")[:batch].copy()
    calls = {"aotc": lambda: model.predict(x=x), "direct": lambda: raw(x)}
    assert np.array_equal(calls["aotc"](), calls["direct"]())
    times = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            times[name].append((time.perf_counter() - start) * 1e6)
    row = {"batch": batch, "threads": threads}
    for name, values in times.items():
        row |= {
            f"{name}_median_us": statistics.median(values),
            f"{name}_min_us": min(values),
        }
    row["median_ratio"] = row["aotc_median_us"] / row["direct_median_us"]
    row["min_ratio"] = row["aotc_min_us"] / row["direct_min_us"]
    return row


def main():
    """One process per thread count, because IREE fixes it once per process."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3000)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--bundle", type=Path)
    options = parser.parse_args()
    bundle = options.bundle or build()
    if options.threads is None:
        for threads in (1, 2):
            command = [sys.executable, __file__, "--threads", str(threads)]
            command += ["--bundle", str(bundle), "--rounds", str(options.rounds)]
            subprocess.run(command, check=True)
        return
    for batch in (1, 64):
        print(json.dumps(measure(bundle, batch, options.threads, options.rounds)))


if __name__ == "__main__":
    main()
