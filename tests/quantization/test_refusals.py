"""What is not quantised, and what is not believed: data, metrics, edited recipes."""

import json
from dataclasses import replace

import numpy as np
import pytest

from aotc.artifacts.precision import PrecisionRequirements, lines_of
from aotc.core.cache import arrays_digest
from aotc.dialects import context
from aotc.errors import InputError
from aotc.mlir import ir
from aotc.quantization.calibration import QuantizationOptions
from aotc.quantization.data import Data
from aotc.quantization.metrics import LossMetric
from aotc.quantization.models import QuantizedFiles, quantize_model
from aotc.quantization.quantizer import apply_recipe
from aotc.quantization.recipe import Recipe
from tests.quantization.models import load, quantized

MODEL = """
import numpy
import aotc
import aotc.numpy as np
from aotc import nn

rng = numpy.random.default_rng(0)
weights = aotc.Weights({
    "w": rng.standard_normal((32, 8)).astype("f"),
    "unread": rng.standard_normal((32, 8)).astype("f"),
    "q": nn.QuantizedWeights(
        rng.integers(-7, 8, (8, 32)).astype("i1"), numpy.ones(8, "f"), axis=0
    ),
})
cache = aotc.State({"k": np.zeros((4, 8))})

@aotc.entry(x=aotc.Spec((4, 32)))
def step(cache, weights, x):
    return {"k": x @ weights["w"] + cache["k"]}, None

@aotc.entry(x=aotc.Spec((4, 32)), i=aotc.Spec((4,), "i32"))
def predict(weights, x, i):
    weights["unread"] + 1
    y = x @ weights["w"]
    return {"row": i + i, "y": y, "q": weights["q"].linear(x)}

@aotc.entry(x=aotc.Spec((4, 32)))
def floats(weights, x):
    return x @ weights["w"]
"""
RNG = np.random.default_rng(1)
X = RNG.standard_normal((8, 32)).astype("f")
INDICES = np.arange(8, dtype="i4")


@pytest.fixture
def model(tmp_path):
    """Entries with a state, integers, and weights that are quantised already."""
    path = tmp_path / "model.py"
    path.write_text(MODEL)
    return lambda *entries: load(path, *entries)


# ---- recipes that people edit -------------------------------------------------------


def test_quality_is_not_said_of_layers_that_were_edited(model, tmp_path):
    found = quantized(
        model("predict"),
        QuantizationOptions("int8-weights"),
        Data({"x": X, "i": INDICES}, ""),
    )
    digest = arrays_digest(model("predict").parameters)
    assert found.recipe.facts(digest)["quality"]["metric"] == "top1"
    path = tmp_path / "recipe.json"
    data = json.loads(found.recipe.text())
    data["layers"][0]["why"] = "a remark for people"
    path.write_text(json.dumps(data))
    assert Recipe.read(path).facts(digest)["quality"] == found.recipe.quality
    data["layers"][0]["precision"] = "bf16"
    path.write_text(json.dumps(data))
    edited = Recipe.read(path).facts(digest)
    assert edited["quality"] == {}
    assert PrecisionRequirements.parse("100%", None).violations(
        {"quantization": edited}
    )


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"factors": np.ones(3, "f")}, "it has 32 factors; the recipe has 3"),
        ({"correction": np.ones(3, "f")}, "it has 8 correction; the recipe has 3"),
        ({"factors": np.zeros(32, "f")}, "factors above 0"),
        ({"factors": -np.ones(32, "f")}, "factors above 0"),
    ],
)
def test_vectors_that_do_not_fit_a_layer_are_refused(model, tmp_path, change, why):
    recipe = quantized(model("predict"), QuantizationOptions("int8-dynamic")).recipe
    first, *rest = recipe.layers
    replace(recipe, layers=(replace(first, **change), *rest)).write(tmp_path / "r.json")
    with (
        pytest.raises(InputError, match=why),
        context(),
        ir.Location.unknown(),
    ):
        apply_recipe(model("predict"), Recipe.read(tmp_path / "r.json"), "r.json")


# ---- metrics ------------------------------------------------------------------------


def test_auto_is_one_metric_for_all_entries_whatever_their_first_output_is(model):
    data = Data({"x": X, "i": INDICES}, "")
    found = quantized(model("predict"), QuantizationOptions("bf16"), data)
    assert found.recipe.quality["metric"] == "top1"
    integers, rows = np.arange(4), np.ones((4, 3), "f")
    for outputs, name in (
        ([integers, rows], "top1"),
        ([np.ones(4, "f")[:1], integers], "disagreement"),
        ([np.float32(1).reshape(())], "cosine"),
    ):
        assert LossMetric().resolve_auto(outputs).name == name


@pytest.mark.parametrize(
    ("entry", "metric", "got"),
    [("step", "auto", "got none"), ("floats", "disagreement", "got float32")],
)
def test_metric_that_measures_no_output_is_refused(model, entry, metric, got):
    choice = QuantizationOptions("bf16", metric=LossMetric(metric))
    with pytest.raises(InputError, match=got) as caught:
        quantized(model(entry), choice, Data({"x": X}, "data.npz"))
    assert caught.value.code == "bad-metric"
    assert caught.value.where == "data.npz"


def test_entry_that_returns_only_states_calibrates_beside_others(model):
    choice = QuantizationOptions("int8", metric=LossMetric("cosine"))
    found = quantized(model("step", "floats"), choice, Data({"x": X}, ""))
    assert {row.plan.precision for row in found.report.rows} == {"int8"}
    assert found.recipe.quality["lost"] < 0.01


# ---- what is measured, and what is not ----------------------------------------------


def test_what_is_not_measured_is_named_and_stays_wide_under_a_quality(model):
    choice = QuantizationOptions("int8-weights", quality=0.5)
    data = Data({"x": X, "lables": X}, "data.npz")
    found = quantized(model("floats", "predict"), choice, data)
    quality = found.recipe.quality
    assert quality["entries"] == ["floats"]
    outputs = {f"predict/{name}" for name in ("row", "y", "q")}
    assert {*quality["unmeasured"]} == outputs
    rows = {row.plan.layer.split("/")[0]: row.plan for row in found.report.rows}
    assert rows["floats"].precision == "int8-weights"
    assert rows["predict"].precision == "f32"
    assert "no result of 'predict' is measured" in rows["predict"].why
    said = found.report.to_text()
    assert "samples of floats\nnot measured: predict/" in said
    assert "no input of an entry: lables of data.npz" in said
    facts = {"quantization": found.program.quantization}
    assert "measured: floats" in lines_of(facts)
    assert any(line.startswith("not measured: predict/") for line in lines_of(facts))


def test_arrays_that_a_users_metric_reads_are_none_that_nothing_reads(model):
    metric = LossMetric("mine", lambda reference, quantised, data: data["labels"].sum())
    data = Data({"x": X, "labels": np.zeros(8)}, "data.npz")
    found = quantized(model("floats"), QuantizationOptions("bf16", metric=metric), data)
    assert found.report.unread == ()


# ---- weights ------------------------------------------------------------------------


def test_weights_that_no_product_reads_do_not_stop_the_work(model):
    found = quantized(model("predict"), QuantizationOptions("int8-weights"))
    names = {row.plan.layer for row in found.report.rows}
    assert any("weights.w" in name for name in names)
    kept = [each for each in found.report.refusals if "quantised already" in each.why]
    assert len(kept) == 1
    assert not any("weights.q" in name for name in names)


def test_weights_beyond_a_narrow_float_keep_the_layer_wide(tmp_path):
    path = tmp_path / "large.py"
    path.write_text(
        "import aotc, numpy\n\n"
        "weights = aotc.Weights({'w': numpy.full((4, 4), 7e4, 'f')})\n\n"
        "@aotc.entry(x=aotc.Spec((4, 4)))\n"
        "def predict(weights, x):\n    return x @ weights['w']\n"
    )
    (plan,) = quantized(load(path), QuantizationOptions("f16")).recipe.layers
    assert plan.precision == "f32"
    assert plan.why == "not f16: its weight has 70000, which f16 cannot hold"
    (plan,) = quantized(load(path), QuantizationOptions("bf16")).recipe.layers
    assert plan.precision == "bf16"


# ---- options and files --------------------------------------------------------------


@pytest.mark.parametrize(
    ("recipe", "options", "why"),
    [
        ("int8", {"methods": ["awq"]}, "'awq' does nothing for the recipe int8"),
        ("bf16", {"methods": ["gptq"]}, "'gptq' does nothing"),
        ("int8-weights", {"methods": ["equalize"]}, "'equalize' does nothing"),
        ("int8", {"percentile": 99.0}, "nothing for the calibration 'mean-square'"),
        ("bf16", {"calibration": "entropy"}, "bf16 calibrates no inputs"),
    ],
)
def test_options_without_effect_are_refused(recipe, options, why):
    with pytest.raises(InputError, match=why) as caught:
        QuantizationOptions(recipe, **options)
    assert caught.value.code == "bad-option"


def test_a_metric_without_data_is_refused(model):
    with pytest.raises(InputError, match="--metric") as caught:
        quantized(model("floats"), QuantizationOptions("bf16", metric=LossMetric("kl")))
    assert caught.value.code == "no-calibration-data"


@pytest.mark.parametrize("suffix", [".json", ".irpa"])
def test_files_of_others_are_not_replaced(model, tmp_path, suffix):
    model("floats")
    other = tmp_path / f"out{suffix}"
    other.write_text('{"mine": 1}')
    files = QuantizedFiles(tmp_path / "out.mlir")
    given = tmp_path / "model.py", QuantizationOptions("bf16"), files
    with pytest.raises(InputError, match=other.name) as caught:
        quantize_model(*given, entries=["floats"])
    assert caught.value.code == "output-exists"
    assert other.read_text() == '{"mine": 1}'
    other.unlink()
    for _ in range(2):  # its own files are replaced
        quantize_model(*given, entries=["floats"])
    assert Recipe.read(files.recipe).name == "bf16"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[" * 100_000, "nested too deeply"),
        ("{", "expected JSON in UTF-8; got Expecting"),
        ("{}", "'schema' is missing"),
        ("[]", "expected a recipe, which is a JSON object; got"),
    ],
)
def test_files_that_are_no_recipe_are_refused(tmp_path, text, why):
    path = tmp_path / "recipe.json"
    path.write_text(text)
    with pytest.raises(InputError, match=why) as caught:
        Recipe.read(path)
    assert caught.value.code == "bad-recipe"


def test_data_by_which_no_layer_is_run_is_refused(tmp_path):
    path = tmp_path / "model.py"
    path.write_text(
        f"""{MODEL}
@aotc.entry(z=aotc.Spec((4, 32)))
def twice(z):
    return z * 2
"""
    )
    with pytest.raises(InputError, match="'floats' lacks x; got those of 'twice'") as e:
        quantized(
            load(path), QuantizationOptions("int8"), Data({"z": X}, "calibration.npz")
        )
    assert (e.value.code, e.value.where) == ("no-calibration-data", "calibration.npz")


def test_few_samples_are_told(model):
    def said(count):
        data = Data({"x": np.resize(X, (count, 32))}, "data.npz")
        return quantized(
            model("floats"), QuantizationOptions("int8"), data
        ).report.to_text()

    assert "calibrated with 4 samples: ranges" in said(4)
    assert "calibrated with" not in said(32)
