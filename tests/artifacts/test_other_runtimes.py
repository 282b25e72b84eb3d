"""What `compat` says of other releases of IREE's runtime is what happens under them."""

import pickle
import shutil
from pathlib import Path

import numpy as np
import pytest

from aotc.artifacts.pack import read_bundle
from aotc.machine import processor
from aotc.runtime import engine
from benchmarks.compat import trials, wheels

GOLDEN = Path(__file__).parents[1] / "golden/format-1"


@pytest.fixture
def subject(tmp_path):
    """The golden bundle, and calls of its entries."""
    bundle = shutil.copytree(GOLDEN / "bundle", tmp_path / "golden-1.0.0.aotc")
    signer = GOLDEN / "signer.pem"
    calls = tmp_path / "calls"
    x = np.arange(20, dtype=np.float32).reshape(5, 4)
    ones = np.ones(3, np.float32)
    calls.write_bytes(pickle.dumps([("predict", [x]), ("train_step", [ones])]))
    manifest = read_bundle(bundle, signer).manifest
    return trials.Subject(bundle, manifest, calls, signer)


def test_the_sweep_makes_its_calls_under_the_installed_runtime(subject, tmp_path):
    variant = subject.manifest.variants["vmvx"]
    kind, found = trials.run(subject, variant, tmp_path)
    assert (kind, found[0]) == ("results", engine.iree_version())
    (predicted,), (total, *states) = found[1]
    assert predicted.shape == (5, 3)
    np.testing.assert_array_equal(total, np.ones(3))
    assert [state.tolist() for state in states] == [1, [1, 1, 1]]


@pytest.mark.slow
@pytest.mark.skipif(processor.arch() != "x86_64", reason="its bundle is for x86-64")
def test_verdicts_agree_with_every_release_on_the_index(subject, tmp_path):
    releases = wheels.releases()
    found = list(trials.outcomes([subject], releases, tmp_path))
    assert len(found) == 2 * len(releases)
    assert [each for each in found if each.is_contradiction] == []
    assert {each.truth for each in found} == {"right", "refused"}
