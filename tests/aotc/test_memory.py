"""The planned memory of an entry, beside what the device's allocator counts."""

import json
import re
import subprocess
import sys

import pytest

from aotc.cli.main import main
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


few = aotc.Dim("few", min=2, max=512)


@aotc.entry(x=aotc.Spec((few, 16)), y=aotc.Spec((600 - few, 512)))
def that_shrink(x, y):
    return x.sum() + (np.sin(y) @ np.cos(y).T).mean()


@aotc.entry(x=aotc.Spec((few, 64)), y=aotc.Spec((600 - few, 64)))
def largest_between(x, y):
    return np.sin(x) @ np.cos(y).T


@aotc.entry(x=aotc.Spec((aotc.Dim("b", specialize=(64, 200), policy="bucket"), 512)))
def padded(x):
    return np.sin(x) @ np.cos(x).T


@aotc.entry(x=aotc.Spec((aotc.Dim("s", specialize=(300,)), 512)))
def of_some_size(x):
    return np.sin(x) @ np.cos(x).T


@aotc.entry(x=aotc.Spec(("rows", 4), "f32"))
def without_limit(x):
    return x + 1


@aotc.entry(x=aotc.Spec((4,), "f32"))
def until_small(x):
    return control.while_loop(lambda x: x.sum() > 1, lambda x: x / 2, x)
"""

MEASURE = """
import json, sys, numpy, aotc
from aotc.runtime import engine

path, entry, calls = sys.argv[1:]
model = aotc.load(path, threads=1, allow_unsigned=True)
call = model.entry(entry)
for shapes in json.loads(calls):
    given = {name: numpy.ones(shape, "f4") for name, shape in shapes.items()}
    for _ in range(3):
        result = None
        result = call(**given)
device = engine.device("llvm-cpu", 1)
print(device.allocator.statistics["device_bytes_peak"])
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    folder = tmp_path_factory.mktemp("memory")
    (folder / "sizes.py").write_text(MODEL)
    asked = {"sign": False, "self_check": "off"}
    return build(folder / "sizes.py", output=folder, **asked)


def measured(built, entry, *calls):
    """The most bytes that calls take, each given by the shapes of its inputs."""
    arguments = [str(built.bundle), entry, json.dumps(calls)]
    return int(subprocess.check_output([sys.executable, "-c", MEASURE, *arguments]))


@pytest.mark.parametrize(
    ("entry", "code", "shape"),
    [
        ("step", "step", (1024, 512)),
        ("through_a_loop", "through_a_loop", (256, 1024)),
        ("of_any_size", "of_any_size", (2048, 512)),
        ("of_multiples", "of_multiples", (1984, 512)),
        ("of_some_size", "of_some_size__s_300", (300, 512)),
        ("padded", "padded__b_64_padded", (50, 512)),
        ("padded", "padded__b_200_padded", (200, 512)),
    ],
)
def test_no_call_takes_more_memory_than_planned(built, entry, code, shape):
    plan = built.variants[0].memory[code]
    assert plan.bound == "exact"
    found = measured(built, entry, {"x": shape})
    assert 0.9 * plan.peak_bytes <= found <= plan.peak_bytes


def of_few(few, columns):
    """The inputs of an entry whose second one shrinks."""
    return {"x": (few, columns[0]), "y": (600 - few, columns[1])}


def test_what_shrinks_with_a_size_needs_most_at_the_least(built):
    plan = built.variants[0].memory["that_shrink"]
    assert plan.sizes == {"few": 2}
    sizes = (2, 100, 512)
    found = measured(built, "that_shrink", *(of_few(n, (16, 512)) for n in sizes))
    assert 0.9 * plan.peak_bytes <= found <= plan.peak_bytes


def test_a_peak_between_the_least_and_the_greatest_size_is_bounded(built):
    plan = built.variants[0].memory["largest_between"]
    assert plan.bound == "upper"
    at_ends, between = (
        measured(built, "largest_between", *(of_few(n, (64, 64)) for n in sizes))
        for sizes in ((2, 512), (300,))
    )
    assert at_ends < between <= plan.peak_bytes


def test_a_plan_is_for_the_largest_sizes_that_are_allowed(built):
    assert built.variants[0].memory["of_any_size"].sizes == {"n": 2048}
    assert built.variants[0].memory["of_multiples"].sizes == {"m": 1984}


def test_memory_that_no_bound_is_known_of_has_no_plan(built):
    variant = built.variants[0]
    assert not {"without_limit", "until_small"} & set(variant.memory)
    assert variant.memory_unknown == {
        "of_some_size": {"why": "sizes without a limit", "unlimited": ["s"]},
        "until_small": {
            "why": "it depends on what the entry computes",
            "unlimited": [],
        },
        "without_limit": {"why": "sizes without a limit", "unlimited": ["rows"]},
    }


def test_the_manifest_states_the_plans(built):
    manifest = json.loads((built.bundle / "manifest.json").read_text())
    plan = built.variants[0].memory["step"]
    assert manifest["variants"][0]["memory"]["step"] == {
        "sizes": {},
        "resident_bytes": plan.resident_bytes,
        "peak_bytes": plan.peak_bytes,
        "bound": "exact",
    }
    assert "without_limit" in manifest["variants"][0]["memory_unknown"]


def test_each_code_of_each_entry_has_its_most_memory_in_what_is_inspected(
    built, capsys
):
    assert main(["inspect", str(built.bundle), "--format", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)["profiles"]
    found = {(row["entry"], row["code"]): row["peak_bytes"] for row in rows}
    plans = built.variants[0].memory
    assert found["padded", "b up to 64"] == plans["padded__b_64_padded"].peak_bytes
    assert found["of_some_size", "s 300"] == plans["of_some_size__s_300"].peak_bytes
    assert found["of_some_size", "any sizes"] is None
    assert ("padded", "any sizes") not in found
    assert main(["inspect", str(built.bundle)]) == 0
    text = capsys.readouterr().out
    assert re.search(r"of_some_size +any sizes +no limit: s$", text, re.MULTILINE)
    assert re.search(r"largest_between +any sizes .* at most \d", text)
    assert re.search(r"until_small +any sizes +unknown: it depends on what", text)
