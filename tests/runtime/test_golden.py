"""Bundles and files of states of earlier releases of aotc are read for ever."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from aotc import runtime
from aotc.artifacts.pack import read_bundle

FORMAT_1 = Path(__file__).parent.parent / "golden" / "format-1"
W = np.arange(12, dtype=np.float32).reshape(4, 3)


@pytest.fixture
def bundle(tmp_path):
    """A copy: what a checkout links or caches is not what a device has."""
    return shutil.copytree(FORMAT_1 / "bundle", tmp_path / "golden-1.0.0.aotc")


def test_verifies_a_bundle_of_format_1(bundle):
    opened = read_bundle(bundle, FORMAT_1 / "signer.pem")
    opened.check()
    assert "signature_form" not in opened.manifest.data
    assert list(opened.manifest.entry_points) == ["predict", "train_step"]


@pytest.mark.parametrize("target", ["x86_64-v2", "vmvx"])
def test_runs_a_bundle_of_format_1(bundle, target):
    from aotc.machine import processor

    if processor.arch() not in target and target != "vmvx":
        pytest.skip("made for another processor")
    model = runtime.load(
        bundle, trust=FORMAT_1 / "signer.pem", threads=1, target=target
    )
    x = np.arange(20, dtype=np.float32).reshape(5, 4)
    np.testing.assert_allclose(model.predict(x=x), x @ W)
    model.load_state(FORMAT_1 / "state.safetensors")
    ones = np.ones(3, np.float32)
    np.testing.assert_array_equal(model.train_step(x=ones), 2 * ones)
    assert model.read_state()["count"] == 2
