"""Calls of IREE's CUDA driver, counted by a library in the place of NVIDIA's.

Its memory is the host's, and its kernels do nothing: what they compute is not looked
at.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from aotc.core.installation import has_triton
from aotc.pipeline import build

SOURCE = Path(__file__).with_name("cuda_stand_in.c")
MODEL = """
import numpy
import aotc
import aotc.numpy as np
from aotc import nn, optim

state = aotc.State({"w": numpy.ones((64, 64), "f4")})
optimizer = optim.adam(1e-3)
params = {f"p{n}": numpy.ones((64, 8 + n), "f4") for n in range(6)}
learned = aotc.State({"params": params, "moments": optimizer.init(params)})


@aotc.entry(x=aotc.Spec((64, 64)))
def step(state, x):
    y = nn.softmax(x @ state["w"]) @ state["w"]
    return {"w": state["w"] + y}, np.sum(y)


@aotc.entry(x=aotc.Spec(("n", 64)))
def scores(x):
    return nn.softmax(x @ x.T)


@aotc.entry(x=aotc.Spec((64, 64)))
def train(learned, x):
    def loss(params):
        return sum(np.mean(np.square(x @ p)) for p in params.values())

    value, grads = aotc.value_and_grad(loss)(learned["params"])
    moved, moments = optimizer.update(grads, learned["moments"], learned["params"])
    params = optim.apply_updates(learned["params"], moved)
    return {"params": params, "moments": moments}, value
"""
CALLS = """
import ctypes, json, sys
import numpy
import aotc

NAMES = "launches", "nodes", "graphs", "graph launches", "allocations"


def counts():
    found = (ctypes.c_long * len(NAMES))()
    ctypes.CDLL("libcuda.so").counts(found)
    return numpy.array(found)


model = aotc.load(sys.argv[1], target="cuda-sm_80", allow_unsigned=True, fallback=False)
told = {}
for name, rows in ("step", 64), ("scores", 5), ("train", 64):
    call, x = model.entry(name), numpy.ones((rows, 64), "f4")
    for _ in range(3):
        call(x=x)
    before = counts()
    for _ in range(2):
        call(x=x)
    told[name] = dict(zip(NAMES, ((counts() - before) / 2).tolist()))
print(json.dumps(told))
"""


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    """Return a folder with a library in the place of NVIDIA's driver."""
    if sys.platform != "linux" or not shutil.which("cc"):
        pytest.skip("needs Linux and a C compiler")
    folder = tmp_path_factory.mktemp("driver")
    library = folder / "libcuda.so"
    flags = "-std=gnu11", "-O1", "-w", "-shared", "-fPIC", "-pthread"
    subprocess.run(["cc", *flags, SOURCE, "-o", library], check=True)
    (folder / "libcuda.so.1").symlink_to(library)
    return folder


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bundle")
    source = folder / "model.py"
    source.write_text(MODEL)
    made = build(
        source, targets=["cuda:sm_80"], output=folder, sign=False, self_check="off"
    )
    return made.bundle


def counted(driver, bundle, flags=""):
    """Return what a warm call of each entry makes the driver do."""
    environment = {**os.environ, "LD_LIBRARY_PATH": str(driver)}
    environment["IREE_PY_RUNTIME_FLAGS"] = flags
    done = subprocess.run(
        [sys.executable, "-c", CALLS, str(bundle)],
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.skipif(not has_triton(), reason="IREE computes the updates without triton")
def test_a_warm_call_launches_its_kernels_and_keeps_its_memory(driver, bundle):
    manifest = json.loads((bundle / "manifest.json").read_text())
    (variant,) = manifest["variants"]
    # of six parameters with Adam, which IREE's driver would refuse in one launch
    families = [row["family"] for row in variant["kernels"]["regions"]]
    assert families.count("updates") >= 3
    dispatches = variant["statistics"]["dispatches"]
    found = counted(driver, bundle)
    assert sum(each["launches"] for each in found.values()) == dispatches
    for each in found.values():
        # but for results, which come of the pools of the driver
        assert each["allocations"] == 0
        assert each["graphs"] == each["nodes"] == 0


def test_with_cuda_graphs_kernels_are_launched_all_the_same(driver, bundle):
    """IREE 3.13 makes graphs of copies of an input and a result alone, each anew."""
    found = counted(driver, bundle, "--cuda_use_streams=false")
    by_streams = counted(driver, bundle)
    for name, each in found.items():
        assert each["launches"] == by_streams[name]["launches"] > 0
        assert each["graphs"] == each["graph launches"] == each["nodes"] == 2
