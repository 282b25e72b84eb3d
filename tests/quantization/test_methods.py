"""Methods: each lowers the error of the kind of network that it is for."""

import numpy as np
import pytest

from aotc.dialects import context
from aotc.errors import InputError
from aotc.mlir import ir
from aotc.quantization.calibration import QuantizationOptions
from aotc.quantization.data import Data
from aotc.quantization.factors import equalize, smooth
from aotc.quantization.layers import layers_of, prepare
from aotc.quantization.measuring import calls_of, run
from aotc.quantization.models import apply_file
from aotc.quantization.precisions import PRECISIONS
from aotc.quantization.statistics import observe
from tests.quantization.models import load, quantized

MODEL = """
import numpy
import aotc
import aotc.numpy as np
from aotc import nn

rng = numpy.random.default_rng(7)
first = rng.normal(size=(64, 96)) / 8
first[:, ::7] *= 40
second = rng.normal(size=(96, 48)) / 10
weights = aotc.Weights({
    "first": first.astype("f"), "bias": rng.normal(size=96).astype("f"),
    "second": second.astype("f"), "third": (rng.normal(size=(64, 48)) / 8).astype("f"),
})

@aotc.entry(x=aotc.Spec(("batch", 64), "f32"))
def predict(weights, x):
    h = nn.relu(x @ weights["first"] + weights["bias"])
    return h @ weights["second"] + x @ weights["third"]
"""


def inputs(seed, *, outliers=False, is_alike=False, count=256):
    """Inputs of channels that go together, and perhaps some that are large."""
    rng = np.random.default_rng(seed)
    hidden = np.random.default_rng(1).standard_normal((16 if is_alike else 64, 64))
    x = rng.standard_normal((count, len(hidden))) @ hidden / np.sqrt(len(hidden))
    if outliers:
        x[:, ::16] *= 50
    return x.astype("f")


@pytest.fixture
def model(tmp_path):
    """Reads the network anew, as often as it is called."""
    path = tmp_path / "network.py"
    path.write_text(MODEL)
    return lambda: load(path)


def error(model, recipe, *methods, **kinds):
    """The mean square error of results on data that was not calibrated with."""
    data = Data({"x": inputs(2, **kinds)}, "data")
    given = Data({"x": inputs(3, **kinds)}, "held out")
    program = model()
    found = quantized(program, QuantizationOptions(recipe, methods=methods), data)
    calls = calls_of(program, given)
    (wanted,), (got,) = (run(p, calls)["predict"] for p in (program, found.program))
    return np.square(wanted - got).mean()


@pytest.mark.parametrize(
    ("recipe", "method", "share", "kinds"),
    [
        ("int8", "smoothquant", 0.5, {"outliers": True}),
        ("int8-dynamic", "smoothquant", 0.5, {"outliers": True}),
        ("int8", "equalize", 0.8, {}),
        ("int4-g32", "awq", 0.8, {"outliers": True}),
        ("int4-g32", "gptq", 0.6, {"is_alike": True}),
        ("int8-weights", "gptq", 0.6, {"is_alike": True}),
        ("int4-g32", "bias-correction", 1.0, {}),
    ],
)
def test_method_lowers_the_error(recipe, method, share, kinds, model):
    plain, better = (error(model, recipe, *names, **kinds) for names in ((), (method,)))
    assert better < share * plain


def test_methods_go_together(model):
    kinds = {"is_alike": True, "outliers": True}
    plain = error(model, "int4-g32", **kinds)
    both = error(model, "int4-g32", "awq", "gptq", "bias-correction", **kinds)
    assert both < 0.5 * plain


def test_bias_correction_takes_back_the_mean_error_of_each_feature(model):
    data = Data({"x": inputs(2) + 1}, "data")
    means = []
    for methods in ((), ("bias-correction",)):
        program = model()
        found = quantized(
            program, QuantizationOptions("int4-g32", methods=methods), data
        )
        calls = calls_of(program, data)
        (wanted,), (got,) = (run(p, calls)["predict"] for p in (program, found.program))
        means.append(np.abs((wanted - got).mean(axis=0)).max())
    assert means[1] < 0.2 * means[0]


def test_layers_that_read_one_input_have_one_set_of_factors(model):
    program = model()
    with context(), ir.Location.unknown():
        prepare(program)
        layers = layers_of(program)
        data = Data({"x": inputs(2, outliers=True)}, "data")
        seen = observe(program, calls_of(program, data), layers)
        factors = smooth(program, layers, seen, PRECISIONS["int8"])
        assert [len(found) for found in factors.values()] == [64, 64, 96]
        first, third, _ = factors.values()
        assert first is third
        (alike,) = equalize(program, layers).values()  # of what a layer is before
    assert alike[::7].min() > alike[1::7].max()


def test_recipe_of_gptq_asks_for_the_data_that_it_was_made_with(tmp_path, model):
    x = inputs(2, is_alike=True)
    data = Data({"x": x}, "data")
    choice = QuantizationOptions("int4-g32", methods=("gptq", "awq"))
    found = quantized(model(), choice, data)
    recipe, same, other = (tmp_path / name for name in ("r.json", "same.npz", "o.npz"))
    found.recipe.write(recipe)
    np.savez(same, x=x)
    np.savez(other, x=x[::-1])
    for path, code in ((None, "no-calibration-data"), (other, "recipe-mismatch")):
        with pytest.raises(InputError) as caught:
            apply_file(model(), recipe, path)
        assert caught.value.code == code
        assert data.sha256 in str(caught.value)
    again = model()
    apply_file(again, recipe, same)
    assert again.parameters.keys() == found.program.parameters.keys()
    for name, array in found.program.parameters.items():
        assert np.array_equal(array, again.parameters[name]), name


def test_methods_of_one_kind_exclude_each_other():
    with pytest.raises(InputError, match="one of smoothquant and equalize"):
        QuantizationOptions("int8", methods=("smoothquant", "equalize"))


def test_what_was_measured_is_said_of_these_weights_alone(tmp_path, model):
    data = Data({"x": inputs(2)}, "data")
    quantized(model(), QuantizationOptions("int8"), data).recipe.write(
        tmp_path / "r.json"
    )
    same, other = model(), model()
    other.parameters["weights.bias"] = other.parameters["weights.bias"] + 1
    for program in (same, other):
        apply_file(program, tmp_path / "r.json", None)
    facts = [program.quantization for program in (same, other)]
    assert facts[0]["quality"]["metric"] == "top1"
    assert facts[1]["quality"] == {}
    assert facts[0]["layers"] == facts[1]["layers"]
