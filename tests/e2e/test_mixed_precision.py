"""A build in mixed precision trains, and says in its manifest what it computes in."""

import numpy as np
import pytest

import aotc
from aotc.artifacts.precision import lines_of
from aotc.errors import InputError
from aotc.pipeline import build

MODEL = """
import aotc
import numpy
from aotc import numpy as np

w = numpy.linspace(-1, 1, 24, dtype="f4").reshape(8, 3)
state = aotc.State({"w": w})


@aotc.entry(x=aotc.Spec((16, 8)), y=aotc.Spec((16, 3)))
def step(state, x, y):
    loss = lambda w: np.mean((np.tanh(x @ w) - y) ** 2)
    value, slope = aotc.value_and_grad(loss)(state["w"])
    return {"w": state["w"] - 0.5 * slope}, value
"""


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    path = tmp_path_factory.mktemp("mixed") / "model.py"
    path.write_text(MODEL)
    return path


def test_a_bundle_trains_in_f16_and_says_so(source, tmp_path):
    report = build(
        source, output=tmp_path, precision="mixed:f16", require_check=["all"]
    )
    model = aotc.load(report.bundle)
    assert model.manifest.data["precision"]["mixed"] == "f16"
    assert lines_of(model.manifest.data) == ["mixed: products in f16, states in f32"]
    assert [x["name"] for x in model.manifest.data["states"]] == [
        "state",
        "step_loss_scale",
    ]
    x = np.linspace(-2, 2, 128, dtype="f4").reshape(16, 8)
    y = np.full((16, 3), 0.25, "f4")
    losses = [float(model.step(x=x, y=y)) for _ in range(10)]
    assert losses[-1] < 0.5 * losses[0]


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        ({"precision": "mixed:f8"}, "bad-option"),
        ({"precision": "mixed:bf16", "quantize": "recipe.json"}, "bad-option"),
    ],
)
def test_what_cannot_be_is_refused_before_any_work(source, asked, code):
    with pytest.raises(InputError) as refused:
        build(source, **asked)
    assert refused.value.code == code
