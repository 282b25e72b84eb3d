"""Built for Vulkan and run there, if a machine has it (Mesa's llvmpipe is enough)."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import aotc
from aotc.artifacts.manifest import Manifest
from aotc.core.dtypes import to_numpy
from aotc.errors import SetupError
from aotc.machine.target import Target
from aotc.pipeline import build
from aotc.runtime import engine

MODEL = Path(__file__).parents[1] / "golden/format-1/model.py"


@pytest.fixture(scope="module")
def model(tmp_path_factory, home):
    """Weights, a symbolic size, and two states that lie in the same memory."""
    try:
        engine.device("vulkan-spirv", 1)
    except SetupError:
        pytest.skip("there is no Vulkan here")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AOTC_HOME", str(home))
        folder = tmp_path_factory.mktemp("vulkan")
        report = build(MODEL, targets=[Target.parse("vulkan")], output=folder)
        return aotc.load(report.bundle, target="vulkan")


def test_later_calls_give_their_own_results(model):
    w = np.arange(12, dtype=np.float32).reshape(4, 3)
    kept = []
    for rows in (3, 3, 3, 5):
        x = np.full((rows, 4), len(kept) + 1, np.float32)
        kept.append((x, model.predict(x=x)))
    for x, found in kept:
        np.testing.assert_allclose(found, x @ w)


def test_states_are_updated_read_and_written_again_and_again(model):
    ones = np.ones(3, np.float32)
    for count in (1, 2, 3):
        np.testing.assert_array_equal(model.train_step(x=ones), count * ones)
        state = model.read_state()
        assert state["count"] == count
        np.testing.assert_array_equal(state["total"], count * ones)
    model.write_state({"total": 5 * ones, "count": np.int32(9)})
    assert model.read_state()["count"] == 9
    np.testing.assert_array_equal(model.train_step(x=ones), 6 * ones)
    assert model.read_state()["count"] == 10


NARROW = ("f16", "bf16", "i8", "u8", "i16", "u16", "bool")
_ENTRIES = """
import aotc
import aotc.numpy as np


def entries(dtype):
    def kept(x):
        return np.flip(x, 0), np.astype(x, "f32"), np.astype(x, "f32") > 2

    def made(x):
        return np.astype(x, dtype)

    kept.__name__, made.__name__ = f"kept_{dtype}", f"made_{dtype}"
    given = {kept: dtype, made: "f32"}
    return {f.__name__: aotc.entry(x=aotc.Spec(("n",), given[f]))(f) for f in given}


for dtype in DTYPES:
    globals().update(entries(dtype))
"""


@pytest.fixture(scope="module")
def narrow(tmp_path_factory):
    """The folder of a bundle whose entries move numbers of 8 and 16 bits."""
    folder = tmp_path_factory.mktemp("narrow")
    source = folder / "narrow.py"
    source.write_text(_ENTRIES.replace("DTYPES", repr(NARROW)))
    targets = [Target.parse("vulkan")]
    options = {"sign": False, "self_check": "off"}
    return build(source, targets=targets, output=folder, **options).bundle


def test_code_for_narrow_numbers_says_what_it_asks_of_a_device(narrow):
    """IREE's own baseline has none of these features, and wrote f16 as f32."""
    manifest = Manifest(json.loads((narrow / "manifest.json").read_bytes()))
    (variant,) = manifest.variants.values()
    used = set(variant.target["vulkan_features"])
    assert {"storageBuffer16BitAccess", "storageBuffer8BitAccess"} <= used


def test_arrays_of_narrow_numbers_are_right_to_their_last_byte(narrow):
    try:
        engine.device("vulkan-spirv", 1)
    except SetupError:
        pytest.skip("there is no Vulkan here")
    model = aotc.load(narrow, target="vulkan", allow_unsigned=True)
    for dtype in NARROW:
        for count in (1, 2, 3, 5, 8, 33):
            wide = (np.arange(count) % 4).astype(np.float32)
            x = wide.astype(to_numpy(dtype))
            results = model.entry(f"kept_{dtype}")(x=x)
            expected = x[::-1], x.astype(np.float32), x.astype(np.float32) > 2
            for found, right in zip(results, expected, strict=True):
                np.testing.assert_array_equal(found, right, f"{dtype}, {count}")
            made = model.entry(f"made_{dtype}")(x=wide)
            np.testing.assert_array_equal(made, x, f"{dtype}, {count}")


def build_and_load(folder, text, target):
    """Return the loaded model of a text; skip the test without a Vulkan device."""
    try:
        engine.device("vulkan-spirv", 1)
    except SetupError:
        pytest.skip("there is no Vulkan here")
    source = folder / "model.py"
    source.write_text(text)
    options = {"sign": False, "self_check": "off"}
    report = build(source, targets=[target], output=folder, **options)
    return aotc.load(report.bundle, target="vulkan", allow_unsigned=True)


EMPTY = """
import aotc
import aotc.numpy as np

x = aotc.Spec((aotc.Dim("n", min=0, max=64), 8), "f32")


@aotc.entry(x=x)
def sums(x):
    return np.sum(x, axis=1), np.sum(x, axis=0), np.transpose(x) @ x


@aotc.entry(x=x)
def parts(x):
    return np.exp(x)[1:], np.concatenate([x, np.ones((2, 8), "f32")], axis=0)
"""


def test_sizes_of_0_are_sizes_as_any_other(tmp_path):
    """IREE asks GPUs for no memory, no workgroups and empty bindings then."""
    model = build_and_load(tmp_path, EMPTY, Target.parse("vulkan"))
    for rows in (0, 1, 5, 0):
        x = np.linspace(-1, 1, rows * 8, dtype=np.float32).reshape(rows, 8)
        known = [x.sum(1), x.sum(0), x.T @ x]
        known += [np.exp(x)[1:], np.concatenate([x, np.ones((2, 8), np.float32)])]
        found = [*model.sums(x=x), *model.parts(x=x)]
        for one, other in zip(found, known, strict=True):
            np.testing.assert_allclose(one, other, atol=1e-5, strict=True)


_SORTED = """
import aotc
import aotc.numpy as np


@aotc.entry(x=aotc.Spec((3, "n")))
def ordered(x):
    return np.sort(x, 1), np.argsort(x, 1)
"""


def test_rows_of_several_blocks_are_sorted(tmp_path):
    model = build_and_load(tmp_path, _SORTED, Target.parse("vulkan"))
    for size in (32, 33, 64, 191):
        x = np.random.default_rng(size).normal(size=(3, size)).astype("f4")
        values, positions = model.ordered(x=x)
        np.testing.assert_array_equal(values, np.sort(x, 1))
        np.testing.assert_array_equal(positions, np.argsort(x, 1))


MOVING = """
import numpy
import aotc
import aotc.numpy as np

first = aotc.State({"w": numpy.ones((8, 4), "f4"), "count": numpy.int32(0)})
second = aotc.State({"w": numpy.ones((8, 4), "f4"), "count": numpy.int32(5)})


def stepped(state, x):
    w = state["w"] + np.sum(np.tanh(x @ state["w"]))
    count = state["count"].astype("f32")
    return {"w": w, "count": state["count"] + 1}, np.sum(w) * count


@aotc.entry(x=aotc.Spec((16, 8)))
def one(first, x):
    return stepped(first, x)


@aotc.entry(x=aotc.Spec((16, 8)))
def other(second, x):
    return stepped(second, x)


@aotc.entry(x=aotc.Spec(("n", 8)))
def sums(x):
    return np.sum(np.exp(x), axis=0)
"""


def test_launches_that_are_kept_are_those_of_the_numbers_of_a_call(tmp_path):
    """As on CUDA: a state lies elsewhere after a call, and sizes change."""
    vulkan = Target.parse("vulkan")
    flags = (*vulkan.flags, "--iree-hal-force-indirect-command-buffers")
    model = build_and_load(tmp_path, MOVING, replace(vulkan, flags=flags))
    x = np.linspace(-0.1, 0.1, 16 * 8, dtype=np.float32).reshape(16, 8)
    for step, count in ((model.one, 0), (model.other, 5)):
        w = np.ones((8, 4), np.float32)
        for number in range(3):
            w = w + np.tanh(x @ w).sum()
            found = step(x=x)
            np.testing.assert_allclose(found, w.sum() * (count + number), rtol=1e-5)
    for rows in (3, 3, 5, 3):
        found = model.sums(x=x[:rows])
        np.testing.assert_allclose(found, np.exp(x[:rows]).sum(0), rtol=1e-5)
