"""The planned memory of an entry, beside what the device's allocator counts."""

import json
import subprocess
import sys

import pytest

from aotc.pipeline import build

MODEL = """
import numpy
import aotc
import aotc.numpy as np
from aotc import control

square = numpy.ones((512, 512), "f4")
params = aotc.State({"a": square, "b": square})


def loss(params, x):
    return np.square(np.tanh(x @ params["a"]) @ params["b"]).mean()


@aotc.entry(params=params, x=aotc.Spec((1024, 512), "f32"))
def step(params, x):
    value, grads = aotc.value_and_grad(loss)(params, x)
    return {name: params[name] - 0.1 * grads[name] for name in params}, value


def total(x):
    def body(h, _):
        h = np.tanh(h * 1.5)
        return h, h

    return control.scan(body, x, None, length=12)[1].sum()


@aotc.entry(x=aotc.Spec((256, 1024), "f32"))
def through_a_loop(x):
    return aotc.grad(total)(x)


@aotc.entry(x=aotc.Spec((aotc.Dim("n", max=2048), 512), "f32"))
def of_any_size(x):
    return np.sin(x) @ np.cos(x).T


@aotc.entry(x=aotc.Spec((aotc.Dim("m", max=2000, multiple_of=64), 512), "f32"))
def of_multiples(x):
    return np.sin(x) @ np.cos(x).T


@aotc.entry(x=aotc.Spec(("rows", 4), "f32"))
def without_limit(x):
    return x + 1


@aotc.entry(x=aotc.Spec((4,), "f32"))
def until_small(x):
    return control.while_loop(lambda x: x.sum() > 1, lambda x: x / 2, x)
"""

MEASURE = """
import sys, numpy, aotc
from aotc.runtime import engine

path, entry, *shape = sys.argv[1:]
model = aotc.load(path, threads=1, allow_unsigned=True)
call = model.entry(entry)
x = numpy.ones([int(n) for n in shape], "f4")
for _ in range(3):
    result = None
    result = call(x=x)
device = engine.device("llvm-cpu", 1)
print(device.allocator.statistics["device_bytes_peak"])
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    folder = tmp_path_factory.mktemp("memory")
    (folder / "sizes.py").write_text(MODEL)
    return build(folder / "sizes.py", output=folder, sign=False)


@pytest.mark.parametrize(
    ("entry", "shape"),
    [
        ("step", (1024, 512)),
        ("through_a_loop", (256, 1024)),
        ("of_any_size", (2048, 512)),
        ("of_multiples", (1984, 512)),
    ],
)
def test_no_call_takes_more_memory_than_planned(built, entry, shape):
    plan = built.variants[0].memory[entry]
    arguments = [str(built.bundle), entry, *map(str, shape)]
    measured = int(subprocess.check_output([sys.executable, "-c", MEASURE, *arguments]))
    assert 0.9 * plan.peak_bytes <= measured <= plan.peak_bytes


def test_a_plan_is_for_the_largest_sizes_that_are_allowed(built):
    assert built.variants[0].memory["of_any_size"].sizes == {"n": 2048}
    assert built.variants[0].memory["of_multiples"].sizes == {"m": 1984}


def test_memory_that_no_bound_is_known_of_has_no_plan(built):
    assert not {"without_limit", "until_small"} & set(built.variants[0].memory)


def test_the_manifest_states_the_plans(built):
    manifest = json.loads((built.bundle / "manifest.json").read_text())
    plan = built.variants[0].memory["step"]
    assert manifest["variants"][0]["memory"]["step"] == {
        "sizes": {},
        "resident_bytes": plan.resident_bytes,
        "peak_bytes": plan.peak_bytes,
    }
