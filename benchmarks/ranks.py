"""Times of several processes: an exchange by size, and a step of training.

    pip install -e '.[compiler]' && python benchmarks/ranks.py

The step is that of an MLP (256 rows, 512-1024-1024-10, Adam), once as an entry of one
device, and once as one of two that divide the rows, in threads of one process and in
two processes. Each row has the quickest of several rounds in milliseconds of time, and
the processor time of rank 0; other work on the machine changes the first more.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

SOURCE = """
import numpy
import aotc
import aotc.numpy as np
from aotc import collectives, nn, optim

aotc.bundle(name="ranks", version="1.0.0")
rng = numpy.random.default_rng(0)
sizes = (512, 1024, 1024, 10)
params = [
    (rng.standard_normal(pair) / pair[0] ** 0.5).astype("f4")
    for pair in zip(sizes, sizes[1:])
]
optimizer = optim.adam(1e-3)
devices = collectives.Axis("data", 2)


def train(state, x, labels, mean):
    def loss(params):
        hidden = x
        for kernel in params[:-1]:
            hidden = nn.relu(hidden @ kernel)
        return nn.cross_entropy(hidden @ params[-1], labels).mean()

    value, grads = mean(aotc.value_and_grad(loss)(state["params"]))
    updates, moments = optimizer.update(grads, state["moments"], state["params"])
    new = optim.apply_updates(state["params"], updates)
    return {"params": new, "moments": moments}, value


alone = aotc.State({"params": params, "moments": optimizer.init(params)})
shared = aotc.State({"params": params, "moments": optimizer.init(params)})


@aotc.entry(x=aotc.Spec((256, 512)), labels=aotc.Spec((256,), "i32"))
def one(alone, x, labels):
    return train(alone, x, labels, lambda tree: tree)


@aotc.entry(x=aotc.Spec((128, 512)), labels=aotc.Spec((128,), "i32"))
def two(shared, x, labels):
    return train(
        shared, x, labels, lambda tree: collectives.all_reduce(tree, devices, "mean")
    )
"""


def build(folder):
    """Build the training step's bundle; return its path."""
    from aotc.machine.target import Target
    from aotc.pipeline import build

    source = folder / "model.py"
    source.write_text(SOURCE, encoding="utf-8")
    asked = {"targets": Target.named("native"), "self_check": "off"}
    return build(source, output=folder, **asked).bundle


def quickest(work, rounds=5, calls=5):
    """Return the least milliseconds of a call, by wall clock and processor time."""
    work()
    found = []
    for _ in range(rounds):
        began = time.perf_counter(), time.process_time()
        for _ in range(calls):
            work()
        ended = time.perf_counter(), time.process_time()
        found.append([(b - a) * 1e3 / calls for a, b in zip(began, ended, strict=True)])
    return [round(min(column), 2) for column in zip(*found, strict=True)]


def measure(bundle):
    """Time steps and collectives in this rank; return rows by name from rank 0."""
    from aotc import parallel, runtime

    group, found = parallel.current(), {}
    if group.size > 1:
        for size in (1, 1 << 10, 1 << 18, 1 << 22):
            x = np.ones(size, "f4")
            name = f"all_reduce of {4 * size} bytes"
            found[name] = quickest(lambda x=x: group.all_reduce(x))
    models = runtime.load_devices(bundle)
    rng = np.random.default_rng(0)
    x = rng.standard_normal((256, 512)).astype("f4")
    labels = rng.integers(0, 10, 256).astype("i4")
    if group.size == 1:
        one = models.first.entry("one")
        found["step of one device"] = quickest(lambda: one(x=x, labels=labels))
    parts = [
        [x[n * 128 : (n + 1) * 128], labels[n * 128 : (n + 1) * 128]]
        for n in models.devices.numbers
    ]
    name = f"step of two devices, {group.size} process{'es' * (group.size > 1)}"
    found[name] = quickest(lambda: models.call("two", parts))
    return found if group.rank == 0 else {}


def main():
    """Print a row for each measurement."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bundle", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.bundle:
        print("\n".join(json.dumps(row) for row in measure(options.bundle).items()))
        return
    from aotc.parallel.launching import run_ranks

    with tempfile.TemporaryDirectory() as folder:
        os.environ["AOTC_HOME"] = folder
        bundle = build(Path(folder))
        for count in (1, 2):
            os.environ["AOTC_THREADS"] = str(2 // count)
            command = [sys.executable, __file__, "--bundle", str(bundle)]
            for each in run_ranks(command, count)[1:]:
                print(each.errors, end="", file=sys.stderr)


if __name__ == "__main__":
    main()
