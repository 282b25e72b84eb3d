"""Costs of a call besides the computation, for entries with 1 and 100 state arrays.

    pip install -e '.[compiler]' && python benchmarks/state_overhead.py

Each entry adds its input to every array of its state and returns one number. `entry` is
a call through `aotc.load`; `invoke` is IREE alone, with arguments and the list of
results made beforehand. The rest is Python: checks, the copy of the input, the result.
Medians and minima in µs, on one thread; the goal is at most 100 µs for 100 arrays.
"""

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np

MODEL = """
import aotc
import aotc.numpy as np

state = aotc.State({{f"leaf{{i}}": np.zeros({size}) for i in range({count})}})

@aotc.entry(x=aotc.Spec({size}))
def step(state, x):
    new = {{name: leaf + x for name, leaf in state.items()}}
    return new, new["leaf0"][0]
"""


def load(count, size):
    """Build and load a model whose state has `count` arrays of `size` elements."""
    import aotc
    from aotc.pipeline import build

    folder = Path(tempfile.mkdtemp())
    source = folder / "model.py"
    source.write_text(MODEL.format(count=count, size=size))
    return aotc.load(build(source, output=folder).bundle, threads=1)


def invocation(model, x):
    """Return a function that only invokes the compiled step."""
    import iree.runtime as rt

    step = model.step._run
    arguments = step.prepare([x])
    results = rt.VmVariantList(1)

    def call():
        step._invoke(step._function, arguments, results)

    return call


def measure(count, size, rounds):
    """Time a call and its bare invocation in turns; return medians and minima."""
    model = load(count, size)
    x = np.ones(size, np.float32)
    calls = {"entry": lambda: model.step(x=x), "invoke": invocation(model, x)}
    times = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            times[name].append((time.perf_counter() - start) * 1e6)
    row = {"state_arrays": count, "elements": size}
    for name, values in times.items():
        row[f"{name}_median_us"] = round(statistics.median(values), 1)
        row[f"{name}_min_us"] = round(min(values), 1)
    for kind in ("median_us", "min_us"):
        row[f"python_{kind}"] = round(row[f"entry_{kind}"] - row[f"invoke_{kind}"], 1)
    return row


def main():
    """Print a row per number of state arrays."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3000)
    parser.add_argument("--size", type=int, default=16)
    options = parser.parse_args()
    for count in (1, 100):
        print(json.dumps(measure(count, options.size, options.rounds)))


if __name__ == "__main__":
    main()
