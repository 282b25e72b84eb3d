"""The search: quality holds, with few bytes, and the whole program is measured."""

import numpy as np
import pytest

from aotc.dialects import context
from aotc.dialects.graph import Evaluator
from aotc.mlir import ir
from aotc.quantization.calibration import QuantizationOptions, calibrate
from aotc.quantization.data import Data
from aotc.quantization.layers import layers_of, prepare
from aotc.quantization.measuring import MeasuredLoss, calls_of, run
from aotc.quantization.metrics import LossMetric
from aotc.quantization.precisions import PRECISIONS
from aotc.quantization.rewrite import rewrite
from aotc.quantization.search import choose
from aotc.quantization.shared_prefix import SharedPrefix
from tests.quantization.models import load, quantized

MODEL = """
import numpy
import aotc
from aotc import nn

rng = numpy.random.default_rng(5)
small = (1 - 0.999 * (numpy.arange(32) == 0)).astype("f")
layers = [rng.normal(size=(32, 32)).astype("f") / 6 for _ in range(6)]
layers[2][0] *= 300
weights = aotc.Weights({f"w{n}": each for n, each in enumerate(layers)})

@aotc.entry(x=aotc.Spec(("batch", 32), "f32"))
def predict(weights, x):
    for n in range(6):
        x = nn.relu(x @ weights[f"w{n}"])
        if n == 1:
            x = x * small
    return x
"""


@pytest.fixture
def model(tmp_path):
    """A network of which one layer has a row of large weights that matter little."""
    path = tmp_path / "network.py"
    path.write_text(MODEL)
    return load(path)


@pytest.fixture(scope="module")
def data():
    """Inputs of it."""
    x = np.random.default_rng(6).standard_normal((64, 32)).astype("f")
    return Data({"x": x}, "data")


def test_quality_holds_with_the_fewest_bytes(model, data):
    choice = QuantizationOptions("int4-g32", quality=0.02, metric=LossMetric("cosine"))
    found = quantized(model, choice, data)
    quality = found.recipe.quality
    assert quality["lost"] <= quality["asked"] == 0.02
    rows = found.report.rows
    precisions = [row.plan.precision for row in rows]
    assert precisions.index("f32") == 2, "the layer that must stay wide"
    assert sorted(precisions) == ["f32", *["int4-g32"] * 3, *["int8-weights"] * 2]
    assert all({"int4-g32", "int8-weights"} == {*row.sensitivity} for row in rows)
    assert found.report.evaluations < 40
    assert "alone: int4-g32" in found.report.to_text()


def test_what_cannot_hold_stays_as_it_is(model, data):
    choice = QuantizationOptions("int4-g32", quality=0.0, metric=LossMetric("cosine"))
    found = quantized(model, choice, data)
    assert {plan.precision for plan in found.recipe.layers} == {"f32"}
    assert found.recipe.quality["lost"] == 0


LOOP = """

@aotc.entry(x=aotc.Spec(("batch", 32), "f32"))
def repeat(weights, x):
    return control.fori_loop(0, 3, lambda i, y: nn.relu(y), x @ weights["w0"])
"""


@pytest.mark.parametrize("most_bytes", [2**30, 100_000, 0])
def test_programs_that_begin_alike_compute_only_what_follows(
    tmp_path, data, monkeypatch, most_bytes
):
    """Outputs are those of the whole program, to the last bit; also of loops."""
    path, counts = tmp_path / "network.py", []
    path.write_text(MODEL.replace("import nn", "import control, nn") + LOOP)
    program = load(path)
    evaluate = Evaluator.__call__
    monkeypatch.setattr(
        Evaluator, "__call__", lambda *given: counts.append(1) or evaluate(*given)
    )

    def made_of(plans):
        made = program.copy()
        given = (
            layers_of(made),
            plans,
            calibration.rounded_weights(plans),
            calibration.grids,
        )
        rewrite(made, *given)
        return made

    with context(), ir.Location.unknown():
        prepare(program)
        layers, calls = layers_of(program), calls_of(program, data)
        choice = QuantizationOptions("mixed", methods=("gptq",))
        calibration = calibrate(program, layers, choice, calls, lambda text: None)
        prefix = SharedPrefix(calls, most_bytes)
        for rung in (-1, 0):  # what all begin with
            base = [row[rung] for row in calibration.rungs]
            prefix.keep(made_of(base))
            for number, row in enumerate(calibration.rungs):
                for plan in row:
                    made = made_of([*base[:number], plan, *base[number + 1 :]])
                    whole, found = run(made, calls), prefix.run(made)
                    assert {*found} == {"predict", "repeat"}
                    for name, outputs in whole.items():
                        np.testing.assert_array_equal(found[name], outputs)
        counts.clear()
        run(made, calls)
        of_whole = len(counts)
        counts.clear()
        prefix.run(made)
    assert len(counts) < of_whole / 2 or not most_bytes


class _Layer:
    def __init__(self, name, size):
        self.name, self.shape, self.summed = name, (size, 32), (0,)


class _Plan:
    def __init__(self, precision):
        self.precision, self.kind = precision, PRECISIONS[precision]


@pytest.mark.parametrize("seed", range(20))
def test_search_is_near_the_best_choice_of_all(seed):
    """Of five layers at three precisions, losses that add up to within a tenth."""
    rng = np.random.default_rng(seed)
    layers = [_Layer(f"l{n}", 32 * int(rng.integers(1, 20))) for n in range(5)]
    ladder = [_Plan(name) for name in ("int4-g32", "int8-weights", "f32")]
    costs = rng.exponential(1, (5, 1)) * np.array([[1.0, rng.uniform(0, 0.3), 0]])

    def lost(choice):
        alone = sum(costs[n, rung] for n, rung in enumerate(choice))
        return alone * (1 + 0.1 * np.sin(sum(3**n * c for n, c in enumerate(choice))))

    def bytes_of(choice):
        kinds = [ladder[rung].kind for rung in choice]
        return sum(
            kind.stored_bytes(layer.shape, layer.summed)
            for kind, layer in zip(kinds, layers, strict=True)
        )

    def measure(plans):
        found = lost([ladder.index(plan) for plan in plans])
        return MeasuredLoss(found, found)

    quality = float(rng.uniform(0.1, 1.5))
    found = choose(layers, [ladder] * 5, measure, quality, lambda text: None)
    chosen = [ladder.index(plan) for plan in found.plans]
    assert lost(chosen) == found.lost <= quality
    allowed = [c for c in np.ndindex(3, 3, 3, 3, 3) if lost(c) <= quality]
    assert bytes_of(chosen) <= 1.2 * min(map(bytes_of, allowed))
