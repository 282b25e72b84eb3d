"""Run and time whole networks: aotc's bundles, or with --peers PyTorch's.

    python networks.py ARCHIVE OUT [--peers [--compiled]] [--only NAME,…]

ARCHIVE is what `prepare` makes of them. For each network, results are compared with
those of PyTorch on a processor, and a call is timed with inputs and results on the
device, and with both on the host; the kernels that it launches are noted by PyTorch's
profiler, where there is one. OUT, JSON, is written anew after each network.
"""

from __future__ import annotations

import argparse
import json
import tarfile
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
from measuring import captured, measure, write


def arrays_of(folder, row):
    """The inputs of a network by name, and samples of the results expected."""
    stored = np.load(folder / row["arrays"])
    inputs = {
        name: bits_to(stored[f"in_{name}"], dtype)
        for name, dtype in row["inputs"].items()
    }
    count = sum(name.startswith("out_") for name in stored.files)
    return inputs, [stored[f"out_{n}"] for n in range(count)]


def bits_to(array, dtype):
    """An array of bits as one of bf16."""
    if dtype != "bfloat16":
        return array
    import ml_dtypes

    return array.view(ml_dtypes.bfloat16)


def error(found, expected):
    """The largest difference over the root of the mean square."""
    x = np.asarray(found).astype(np.float32).reshape(-1)
    x = x[:: max(1, x.size // (1 << 13))]
    if x.shape != expected.shape or not np.isfinite(x).all():
        return float("inf")
    scale = np.sqrt(np.mean(np.square(expected, dtype=np.float64)))
    return float(np.abs(x - expected).max() / scale)


def ours(folder, row, seconds):
    """Measure aotc's bundle of a network."""
    from times import invocation, kernel_times

    from aotc.runtime import load

    inputs, expected = arrays_of(folder, row)
    start = time.perf_counter()
    bundle = folder / row["bundle"]
    model = load(bundle, trust=folder / "networks.pub", fallback=False)
    facts = {"load_ms": (time.perf_counter() - start) * 1e3}
    (name,) = model.entries
    entry = model.entry(name)
    leaves = [inputs[leaf.name] for leaf in entry.spec.inputs]
    start = time.perf_counter()
    results = entry.call_flat(leaves)
    facts["first_call_ms"] = (time.perf_counter() - start) * 1e3
    facts["variant"] = model.variant.id
    facts["error"] = max(map(error, results, expected))
    invoke = invocation(entry.function, leaves, len(entry.spec.outputs))
    facts["invocation"] = measure(invoke, seconds)
    facts["call"] = measure(lambda: entry.call_flat(leaves), seconds)
    facts["kernels"] = kernel_times(invoke)
    return facts


def in_torch(folder, row, seconds, is_compiled):
    """Measure a network in PyTorch: eagerly or compiled, and as a CUDA graph."""
    import models_zoo
    import torch

    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    module = models_zoo.module(row["name"]).cuda()
    given = models_zoo.inputs(row["name"], row["batch"])
    if row["dtype"] == "bf16":
        module = module.to(torch.bfloat16)
        wide = {k: x for k, x in given.items() if x.is_floating_point()}
        given |= {k: x.to(torch.bfloat16) for k, x in wide.items()}
    on_gpu = {k: x.cuda() for k, x in given.items()}
    if row["name"] == "resnet50":
        module = module.to(memory_format=torch.channels_last)
    facts = {}

    def settled(call):
        def run():
            call()
            torch.cuda.synchronize()

        return run

    with torch.no_grad():
        start, call, name = time.perf_counter(), module, "eager"
        if is_compiled:
            call, name = torch.compile(module), "compiled"
        call(**on_gpu)
        torch.cuda.synchronize()
        facts[f"{name}_first_s"] = time.perf_counter() - start
        facts[name] = measure(settled(lambda: call(**on_gpu)), seconds)
        whole = captured(lambda: call(**on_gpu))
        facts[f"{name}_graph"] = measure(settled(whole), seconds)
    return facts


def main():
    """Measure as the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("archive", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--peers", action="store_true")
    parser.add_argument("--compiled", action="store_true", help="with --peers")
    parser.add_argument("--only", default="")
    parser.add_argument("--seconds", type=float, default=0.5)
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    wanted = [name for name in asked.only.split(",") if name]
    found = []
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        with tarfile.open(asked.archive) as packed:
            packed.extractall(folder, filter="data")
        document = json.loads((folder / "networks.json").read_text(encoding="utf-8"))
        for row in document["rows"]:
            title = f"{row['name']}-{row['dtype']}"
            if wanted and title not in wanted and row["name"] not in wanted:
                continue
            try:
                if asked.peers:
                    facts = in_torch(folder, row, asked.seconds, asked.compiled)
                else:
                    facts = ours(folder, row, asked.seconds)
            except Exception as failure:  # one that fails leaves the others
                facts = {"failed": f"{type(failure).__name__}: {failure}"[:400]}
            found.append({**row, **facts})
            print(json.dumps(line(found[-1])), flush=True)
            write(asked.out, found)


def line(row):
    """The figures of a network that fit on a line."""
    told = {"name": f"{row['name']}-{row['dtype']}"}
    for key, value in row.items():
        if isinstance(value, dict) and "p50_ms" in value:
            told[key] = round(value["p50_ms"], 3)
        elif key in ("error", "failed", "load_ms", "first_call_ms"):
            told[key] = value
    if "total_us" in row.get("kernels", {}):
        told["kernels_us"] = row["kernels"]["total_us"]
    return told


if __name__ == "__main__":
    main()
