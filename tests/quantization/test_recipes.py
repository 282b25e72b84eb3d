"""Recipes: a trained network keeps what it has learned, in fewer bytes."""

import json
import math

import numpy as np
import pytest

from aotc.cli import quantize as cli
from aotc.cli.quantize import CALIBRATIONS
from aotc.cli.quantize import RECIPES as NAMES
from aotc.core.cache import arrays_digest
from aotc.dialects import context
from aotc.dialects.functions.functions import functions_of
from aotc.dialects.types import Tensor
from aotc.errors import InputError
from aotc.mlir import ir
from aotc.passes import run_passes
from aotc.programs.files import ir_text
from aotc.quantization.calibration import METHODS as ADDED
from aotc.quantization.calibration import QuantizationOptions
from aotc.quantization.fakes import FakeLayer
from aotc.quantization.layer_grids import Grids
from aotc.quantization.layers import layers_of
from aotc.quantization.measuring import run
from aotc.quantization.metrics import METRICS, LossMetric
from aotc.quantization.observers import METHODS
from aotc.quantization.precisions import RECIPES
from aotc.quantization.quantizer import apply_recipe
from aotc.quantization.recipe import Recipe
from tests.quantization.models import DIGITS, load, quantized

# of the bytes of the parameters, at most, and the least SQNR of a layer in dB
EXPECTED = {
    "int8": (0.27, 35),
    "int8-dynamic": (0.27, 35),
    "int8-weights": (0.27, 40),
    "int4-g32": (0.17, 20),
    "bf16": (0.51, 50),
    "f16": (0.51, 65),
    "mixed": (0.17, 20),
}


def test_command_line_names_all_recipes_and_calibrations():
    assert set(NAMES) == set(RECIPES) == set(EXPECTED)
    assert CALIBRATIONS == METHODS
    assert tuple(ADDED) == cli.METHODS


@pytest.mark.parametrize("recipe", NAMES)
def test_trained_network_keeps_its_answers(recipe, digits, calibration, held_out):
    found = quantized(digits, QuantizationOptions(recipe), calibration, held_out)
    share, sqnr = EXPECTED[recipe]
    report = found.report
    assert report.bytes_after <= share * report.bytes_before
    assert found.recipe.quality["metric"] == "top1"
    assert found.recipe.quality["lost"] <= 0.005
    assert all(row.error.sqnr > sqnr for row in report.rows)
    stored = sum(x.nbytes for x in found.program.parameters.values())
    assert report.bytes_after == stored
    assert stored >= sum(row.bytes_after for row in report.rows)


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_every_calibration_keeps_its_answers(method, digits, calibration, held_out):
    found = quantized(
        digits, QuantizationOptions("int8", method), calibration, held_out
    )
    assert found.recipe.quality["lost"] <= 0.005


def test_same_data_gives_the_same_bytes_and_so_does_the_recipe(tmp_path, calibration):
    def program_of(made):
        return ir_text(made.module), arrays_digest(made.parameters)

    rows = []
    for _ in range(2):
        model = load(DIGITS / "model.py", "predict")
        found = quantized(model, QuantizationOptions("mixed"), calibration)
        rows.append((program_of(found.program), found.recipe.text()))
    assert rows[0] == rows[1]
    found.recipe.write(tmp_path / "recipe.json")
    again = load(DIGITS / "model.py", "predict")
    with context(), ir.Location.unknown():
        apply_recipe(again, Recipe.read(tmp_path / "recipe.json"), "recipe.json")
    again.stage = found.program.stage = "graph"
    assert program_of(again) == program_of(found.program)


def test_layers_of_bytes_become_integer_products(digits, calibration):
    found = quantized(digits, QuantizationOptions("int8"), calibration)
    run_passes(found.program.module, ("simplify", "cse", "integer-products"))
    block = functions_of(found.program.module)["predict"].entry_block
    products = [
        [Tensor.of(value).dtype for value in op.operands]
        for op in block.operations
        if op.operation.name in ("graph.dot_general", "graph.conv_general")
    ]
    assert products == [["u8", "i8"]] * 4


# ---- refusals -----------------------------------------------------------------------

PRODUCTS = """
import aotc
import aotc.numpy as np
from aotc import nn

weights = aotc.Weights({
    "plain": np.ones((32, 4)) / 3, "odd": np.ones((10, 4)) / 3,
    "left": np.ones((4, 32)) / 3, "experts": np.ones((2, 32, 4)) / 3,
    "table": np.ones((9, 32)) / 3, "gain": np.ones((4, 32)) / 3,
})

@aotc.entry(x=aotc.Spec((4, 32), "f32"), i=aotc.Spec((4,), "i32"))
def predict(weights, x, i):
    y = (x * weights["gain"]) @ weights["plain"]
    y = y + x[:, :10] @ weights["odd"]
    z = weights["left"] @ x.T
    e = np.einsum("enk,ekf->enf", np.stack([x, x]), weights["experts"])
    t = np.take(weights["table"], i, axis=0)
    return y, z, e, x @ x.T, t, x @ weights["table"].T
"""


@pytest.fixture
def products(tmp_path):
    """Products of all kinds."""
    path = tmp_path / "products.py"
    path.write_text(PRODUCTS)
    return load(path)


def test_what_stays_wide_is_said_with_its_line_and_reason(products):
    found = quantized(products, QuantizationOptions("int4-g32"))
    said = found.report.to_text()
    rows = {row.plan.layer.split(".")[-1]: row.plan for row in found.report.rows}
    assert rows["plain"].precision == rows["experts"].precision == "int4-g32"
    assert rows["odd"].precision == "int8-weights"
    assert "10 terms, and a group has 32" in rows["odd"].why
    assert rows["odd"].where.endswith("products.py:15")
    for line, why in ((14, "reads the weight"), (16, "first operand"), (19, "in each")):
        kept = [each for each in found.report.refusals if why in each.why]
        assert [each.where for each in kept] == [f"{rows['odd'].where[:-2]}{line}"], why
        assert str(kept[0]) in said


def test_table_that_is_read_and_multiplied_is_one_weight(products):
    found = quantized(products, QuantizationOptions("int4-g32"))
    rows = {row.plan.layer: row.plan for row in found.report.rows}
    of_table = [plan for name, plan in rows.items() if "table" in name]
    assert [plan.precision for plan in of_table] == ["int4-g32"] * 2
    kept = [name for name in found.program.parameters if "table" in name]
    assert sorted(kept) == [
        "weights.table.i4g32",
        "weights.table.i4g32.scales",
    ]


def test_precisions_of_layers_are_what_errors_are_measured_of(products):
    """The program's own integers, and those that the report computes, are the same."""
    found = quantized(products, QuantizationOptions("int4-g32"))
    rng = np.random.default_rng(0)
    x = rng.standard_normal((4, 32)).astype("f")
    calls = {"predict": [[x, np.zeros(4, "i4")]]}
    layers = layers_of(products)
    weights = {
        layer.name: FakeLayer.of(products, layer, plan, Grids()).weight
        for layer, plan in zip(layers, found.recipe.layers, strict=True)
    }
    operands = []

    def watch(op, given, results):
        operands.extend(x for x in (*given, *results) if x.dtype == np.float32)

    run(found.program, calls, watch)
    assert len(weights) == 5
    for weight in weights.values():
        assert any(np.array_equal(weight, x) for x in operands)


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("no-calibration-data", lambda p, d: quantized(p, QuantizationOptions("int8"))),
        (
            "no-calibration-data",
            lambda p, d: quantized(p, QuantizationOptions("bf16", quality=0.1)),
        ),
        ("bad-metric", lambda p, d: LossMetric.from_name("top-one")),
        ("bad-metric", lambda p, d: LossMetric.from_name("nowhere.py:f")),
        (
            "already-quantized",
            lambda p, d: quantized(
                quantized(p, QuantizationOptions("bf16")).program,
                QuantizationOptions("f16"),
            ),
        ),
    ],
)
def test_errors_have_codes_and_ways_out(code, text, digits, calibration):
    with pytest.raises(InputError) as caught:
        text(digits, calibration)
    assert caught.value.code == code
    assert caught.value.hint


def test_weights_that_are_a_state_are_refused_as_that():
    example = load(DIGITS / "model.py", "evaluate")
    with pytest.raises(InputError, match="its weight is a State") as caught:
        quantized(example, QuantizationOptions("bf16"))
    assert caught.value.code == "nothing-to-quantize"
    assert "aotc.Weights" in caught.value.hint


def test_program_without_weights_is_refused(tmp_path):
    path = tmp_path / "bare.py"
    path.write_text(
        "import aotc\n\n@aotc.entry(x=aotc.Spec((4, 4), 'f32'))\n"
        "def predict(x):\n    return x @ x\n"
    )
    with pytest.raises(InputError, match="both of its operands") as caught:
        quantized(load(path), QuantizationOptions("bf16"))
    assert caught.value.code == "nothing-to-quantize"


@pytest.fixture(scope="module")
def recipe_text(calibration):
    """The recipe of the example in bytes."""
    model = load(DIGITS / "model.py", "predict")
    return quantized(model, QuantizationOptions("int8"), calibration).recipe.text()


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data.update(schema="aotc.quantization/2"),
        lambda data: data["layers"][0].pop("precision"),
        lambda data: data["layers"][0].update(precision="int3"),
        lambda data: data["layers"][0]["input"].update(scale=0),
        lambda data: data["layers"][0]["input"].update(scale="x"),
        lambda data: data["layers"][0]["input"].update(scale=1e-60),
        lambda data: data["layers"][0]["input"].update(scale=10**400),
        lambda data: data["layers"][0]["input"].update(zero_point=256),
        lambda data: data["layers"][0]["input"].update(zero_point=True),
        lambda data: data["layers"][0].update(factors="!"),
        lambda data: data["layers"][0].update(rounding="up"),
        lambda data: data["quality"].pop("weights"),
        lambda data: data["calibration"].update(samples="many"),
        lambda data: data["layers"].pop(),
        lambda data: data["layers"].append(data["layers"][0]),
        lambda data: data["quality"].update(lost=math.nan),
        lambda data: data["quality"].update(lost=True),
        lambda data: data["quality"].pop("entries"),
        lambda data: data["layers"][0].update(layer="predict/other"),
        lambda data: data["layers"][0].update(corrections="AAAA"),
        lambda data: data["layers"].append("predict/dense"),
    ],
)
def test_recipes_that_do_not_fit_are_refused(change, tmp_path, recipe_text):
    path = tmp_path / "recipe.json"
    data = json.loads(recipe_text)
    change(data)
    path.write_text(json.dumps(data))
    again = load(DIGITS / "model.py", "predict")
    with (
        pytest.raises(InputError) as caught,
        context(),
        ir.Location.unknown(),
    ):
        apply_recipe(again, Recipe.read(path), str(path))
    assert caught.value.code in ("bad-recipe", "recipe-mismatch")


def test_what_is_wrong_with_a_layer_of_a_recipe_names_the_layer(tmp_path, recipe_text):
    path = tmp_path / "recipe.json"
    for change, said in [
        (lambda row: row.pop("precision"), "'precision' is missing"),
        (lambda row: row.update(precision="int3"), "got 'int3'"),
        (lambda row: row["input"].update(scale=-1), "got -1"),
        (lambda row: row.update(input=[]), "list indices"),
        (lambda row: row.update(roundings="gptq"), "got 'roundings'"),
    ]:
        data = json.loads(recipe_text)
        change(data["layers"][1])
        path.write_text(json.dumps(data))
        with pytest.raises(InputError, match=said) as caught:
            Recipe.read(path)
        assert data["layers"][1]["layer"] in caught.value.message
    assert caught.value.where == str(path)


# ---- metrics ------------------------------------------------------------------------


def test_metrics_are_0_for_the_same_and_grow_with_the_difference():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((64, 10)).astype("f")
    for name in ("top1", "kl", "cosine"):
        lost = [
            METRICS[name](x, x + step * rng.standard_normal(x.shape).astype("f"))
            for step in (0, 0.1, 1)
        ]
        assert lost[0] < 1e-12 < lost[1] < lost[2], name
    assert METRICS["kl"](np.full((1, 2), 0.5), np.array([[0.25, 0.75]])) == (
        pytest.approx(0.5 * np.log(4 / 3))
    )
    assert METRICS["disagreement"](np.arange(4), np.array([0, 1, 2, 9])) == 0.25


def test_users_metric_gets_results_by_name_and_the_data(tmp_path, digits, held_out):
    path = tmp_path / "metric.py"
    path.write_text(
        "def wrong(reference, quantised, data):\n"
        "    (found,), (known,) = quantised.values(), reference.values()\n"
        "    assert found.shape == known.shape\n"
        "    return (found.argmax(-1) != data['labels']).mean()\n"
    )
    choice = QuantizationOptions("bf16", metric=LossMetric.from_name(f"{path}:wrong"))
    found = quantized(digits, choice, held_out)  # without calibration
    assert found.recipe.quality["metric"] == "metric.py:wrong"
    assert 0 < found.recipe.quality["lost"] < 0.03
