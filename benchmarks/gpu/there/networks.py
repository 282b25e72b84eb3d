"""Run and time whole networks: aotc's bundles, or with --peers PyTorch's.

    python networks.py FOLDER OUT [--peers [--compiled]] [--only NAME,…]
        [--target ID] [--in-all SECONDS]

FOLDER is what `prepare` makes of them: an archive each, unpacked one at a time. For
each network, results are compared with those of PyTorch on a processor: those of one
call, or the losses of a few steps of training. A call is timed with inputs and results
on the device, and with both on the host; the kernels that it launches are noted by
PyTorch's profiler, where there is one. OUT, JSON, is written anew after each network.
With --in-all no network is begun after so many seconds; those that are left are told.
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
from seconds import TRAINED
from text import NO_TIME

SUFFIX = ".tar.xz"


def arrays_of(folder, row):
    """Return a network's inputs by name, and samples of the expected results."""
    stored = np.load(folder / "arrays.npz")
    inputs = {
        name: bits_to(stored[f"in_{name}"], dtype)
        for name, dtype in row["inputs"].items()
    }
    count = sum(name.startswith("out_") for name in stored.files)
    return inputs, [stored[f"out_{n}"] for n in range(count)]


def bits_to(array, dtype):
    """Return an array of 16-bit patterns as bf16."""
    if dtype != "bfloat16":
        return array
    import ml_dtypes

    return array.view(ml_dtypes.bfloat16)


def error(found, expected):
    """Return the largest difference over the root mean square."""
    x = np.asarray(found).astype(np.float32).reshape(-1)
    x = x[:: max(1, x.size // (1 << 13))]
    if x.shape != expected.shape or not np.isfinite(x).all():
        return float("inf")
    scale = np.sqrt(np.mean(np.square(expected, dtype=np.float64)))
    return float(np.abs(x - expected).max() / scale)


def ours(folder, row, seconds, target=None):
    """Load and time aotc's bundle of a network; return its figures and error."""
    from times import invocation, kernel_times

    from aotc.runtime import load

    inputs, expected = arrays_of(folder, row)
    start = time.perf_counter()
    bundle = folder / row["bundle"]
    key = folder / "networks.pub"
    model = load(bundle, trust=key, target=target, fallback=False)
    facts = {"load_ms": (time.perf_counter() - start) * 1e3}
    (name,) = model.entries
    entry = model.entry(name)
    leaves = [inputs[leaf.name] for leaf in entry.spec.inputs]
    start = time.perf_counter()
    results = entry.call_flat(leaves)
    facts["first_call_ms"] = (time.perf_counter() - start) * 1e3
    facts["variant"] = model.variant.id
    results = [*results]
    for _ in range(row["calls"] - 1):
        results += entry.call_flat(leaves)
    if len(results) != len(expected):
        raise ValueError(f"{len(results)} results, expected {len(expected)}")
    facts["error"] = max(map(error, results, expected))
    invoke = invocation(entry.function, leaves, len(entry.spec.outputs))
    facts["invocation"] = measure(invoke, seconds)
    facts["call"] = measure(lambda: entry.call_flat(leaves), seconds)
    facts["kernels"] = kernel_times(invoke)
    return facts


def in_torch(folder, row, seconds, is_compiled):
    """Time a network in PyTorch: eagerly or compiled, and as a CUDA graph."""
    import torch

    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    is_trained = row["name"].startswith(TRAINED)
    call, on_gpu = _step(row) if is_trained else _network(row)
    facts = {}

    def settled(call):
        def run():
            call()
            torch.cuda.synchronize()

        return run

    start, name = time.perf_counter(), "eager"
    with torch.set_grad_enabled(is_trained):
        if is_compiled:
            call, name = torch.compile(call), "compiled"
        call(**on_gpu)
        torch.cuda.synchronize()
        facts[f"{name}_first_s"] = time.perf_counter() - start
        facts[name] = measure(settled(lambda: call(**on_gpu)), seconds)
        whole = captured(lambda: call(**on_gpu))
        facts[f"{name}_graph"] = measure(settled(whole), seconds)
    return facts


def _network(row):
    """Return a PyTorch network on the GPU, and its inputs."""
    import models_zoo
    import torch

    module = models_zoo.module(row["name"]).cuda()
    given = models_zoo.inputs(row["name"], row["batch"])
    if row["dtype"] == "bf16":
        module = module.to(torch.bfloat16)
        wide = {k: x for k, x in given.items() if x.is_floating_point()}
        given |= {k: x.to(torch.bfloat16) for k, x in wide.items()}
    if row["name"] == "resnet50":
        module = module.to(memory_format=torch.channels_last)
    return module, {k: x.cuda() for k, x in given.items()}


def _step(row):
    """Return a PyTorch training step that a CUDA graph can capture, and its inputs."""
    import models_zoo
    from models_zoo import training

    name = row["name"].removeprefix(TRAINED)
    module = training.module(name).cuda()
    given = models_zoo.inputs(name, row["batch"])
    given["labels"] = training.labels(name, row["batch"])
    options = (
        {"capturable": True} if training.TRAININGS[name].peer[0] == "AdamW" else {}
    )
    step = training.torch_step(name, module, **options)
    return step, {k: x.cuda() for k, x in given.items()}


def main():
    """Measure as the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--peers", action="store_true")
    parser.add_argument("--compiled", action="store_true", help="with --peers")
    parser.add_argument("--only", default="")
    parser.add_argument("--target", help="id of the variant; the best by default")
    parser.add_argument("--seconds", type=float, default=0.5, help="of a figure")
    parser.add_argument("--in-all", type=float, default=float("inf"))
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    end = time.monotonic() + asked.in_all
    wanted = [name for name in asked.only.split(",") if name]
    found = []
    for archive in archives(asked.folder):
        name = archive.name.removesuffix(SUFFIX)
        if wanted and name not in wanted:
            continue
        if time.monotonic() > end:
            found.append({"name": name, "failed": NO_TIME})
        else:
            found.append(one(archive, name, asked))
        print(json.dumps(line(found[-1])), flush=True)
        write(asked.out, {"rows": found})


def archives(folder):
    """Return the network archives of a folder, training steps first."""
    found = sorted(folder.glob(f"*{SUFFIX}"))
    return sorted(found, key=lambda each: not each.name.startswith("train-"))


def one(archive, name, asked):
    """Unpack and measure one network; return its figures, or the failure."""
    row = {}
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        try:
            with tarfile.open(archive) as packed:
                packed.extractall(folder, filter="data")
            row = json.loads((folder / "row.json").read_text(encoding="utf-8"))
            if asked.peers:
                facts = in_torch(folder, row, asked.seconds, asked.compiled)
            else:
                facts = ours(folder, row, asked.seconds, asked.target)
        except Exception as failure:
            facts = {"failed": f"{type(failure).__name__}: {failure}"[:400]}
    return {**row, **facts, "name": name}


def line(row):
    """Return a network's main figures, as a dict for one line."""
    told = {"name": row["name"]}
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
