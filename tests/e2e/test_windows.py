"""A call that writes a window of a state writes all of it, and nothing else."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

import aotc
from aotc.machine.target import Target
from aotc.pipeline import build

MODEL = Path(__file__).parent / "windows_model.py"


@pytest.fixture(scope="module")
def windows():
    spec = importlib.util.spec_from_file_location("windows_model", MODEL)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.WINDOWS


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    targets = [*Target.named("native"), Target.parse("vmvx")]
    asked = {"targets": targets, "sign": False, "self_check": "off"}
    return build(MODEL, output=tmp_path_factory.mktemp("windows"), **asked).bundle


@pytest.mark.parametrize("target", ["native", "vmvx"])
@pytest.mark.parametrize("threads", [1, 2])
def test_windows_of_any_size_are_written_whole(bundle, windows, target, threads):
    options = {"allow_unsigned": True, "threads": threads, "target": target}
    model = aotc.load(bundle, **options)
    expected = {name: np.zeros(have, kind) for name, (kind, have, _) in windows.items()}
    rng = np.random.default_rng(3)
    # negative starts count from the end; all are moved so that the window fits
    for place in (0, 7, 10_000, -5, -20_000):
        starts, parts = {}, {}
        for name, (kind, have, part) in windows.items():
            starts[name] = np.full(len(have), place, "i4")
            parts[name] = rng.integers(1, 100, part).astype(kind)
            counted = [place + n if place < 0 else place for n in have]
            first = [
                min(max(start, 0), n - m)
                for start, n, m in zip(counted, have, part, strict=True)
            ]
            window = tuple(slice(a, a + m) for a, m in zip(first, part, strict=True))
            expected[name][window] = parts[name]
        model.write(starts=starts, parts=parts)
        found = model.read_state()
        for name, array in expected.items():
            np.testing.assert_array_equal(found[name], array, err_msg=name)
