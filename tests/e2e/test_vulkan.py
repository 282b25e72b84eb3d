"""Built for Vulkan and run there, if a machine has it (Mesa's llvmpipe is enough)."""

from pathlib import Path

import numpy as np
import pytest

import aotc
from aotc.errors import SetupError
from aotc.pipeline import build
from aotc.runtime import engine
from aotc.target import Target

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
