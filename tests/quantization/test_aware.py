"""Quantisation-aware training: what is trained is what the integers compute."""

import json
import runpy

import numpy as np
import pytest
from safetensors.numpy import save_file

import aotc
import aotc.numpy as anp
from aotc import control, nn
from aotc.cli.main import main
from aotc.dialects import context
from aotc.errors import InputError
from aotc.machine.target import Target
from aotc.mlir import ir
from aotc.pipeline import build
from aotc.quantization.calibration import QuantizationOptions
from aotc.quantization.grids import fake_weight, trained_grid
from aotc.quantization.measuring import run
from aotc.quantization.metrics import divergence
from aotc.quantization.precisions import PRECISIONS
from aotc.quantization.quantizer import quantize
from aotc.quantization.trained import Trained
from tests.quantization.models import DIGITS, load, quantized

MODEL = '''
"""A convolution with a norm, products, and a table that is multiplied by as well."""

import numpy
import aotc
import aotc.numpy as np
from aotc import nn

rng = numpy.random.default_rng(3)


def array(*shape):
    return (rng.normal(size=shape) / numpy.sqrt(shape[0])).astype("f")


tree = {
    "conv": {"kernel": array(3, 3, 4, 8)},
    "norm": {"scale": 1 + array(8), "shift": array(8)},
    "layers": [{"kernel": array(128, 64)}, {"kernel": array(64, 32).T.copy()}],
    "table": array(16, 32),
}


def network(params, x, tokens):
    y = nn.conv2d(x / 4, params["conv"]["kernel"], padding="SAME")
    y = nn.relu(y * params["norm"]["scale"] + params["norm"]["shift"])
    y = np.reshape(nn.avg_pool(y, 2), (x.shape[0], -1))
    first, second = (each["kernel"] for each in params["layers"])
    y = nn.gelu(y @ first) @ second.T + np.take(params["table"], tokens, 0)
    return y @ np.transpose(params["table"])


weights = aotc.Weights(tree)


@aotc.entry(x=aotc.Spec(("batch", 8, 8, 4)), tokens=aotc.Spec(("batch",), "i32"))
def predict(weights, x, tokens):
    return network(weights, x, tokens)
'''
RECIPES = "int8", "int8-dynamic", "int8-weights", "int4-g32", "mixed"


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("aware") / "network.py"
    path.write_text(MODEL)
    return path


@pytest.fixture(scope="module")
def names(model):
    return runpy.run_path(str(model))


def inputs(seed, count=6):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(count, 8, 8, 4)).astype("f")
    return x, rng.integers(0, 16, count).astype("i4")


def trained(ranges):
    return Trained(
        {k: {n: np.asarray(v) for n, v in row.items()} for k, row in ranges.items()},
        "ranges.safetensors",
    )


def of_training(program, choice, ranges):
    with context(), ir.Location.unknown():
        return quantize(program, choice, trained=ranges)


@pytest.mark.parametrize("learned", [False, True])
@pytest.mark.parametrize("recipe", RECIPES)
def test_integers_give_what_was_trained_to_the_last_bit(recipe, learned, model, names):
    aware = aotc.quantization_aware(names["network"], recipe, learned=learned)
    ranges = aware.init(names["tree"], *inputs(0))
    x, tokens = inputs(1)
    wanted = aware(ranges, names["tree"], x, tokens).__array__()
    found = of_training(load(model), QuantizationOptions(recipe), trained(ranges))
    assert all(row.plan.precision != "f32" for row in found.report.rows)
    (got,) = run(found.program, {"predict": [[x, tokens]]})["predict"]
    np.testing.assert_array_equal(got, wanted)
    assert not np.array_equal(got, names["network"](names["tree"], x, tokens))


@pytest.mark.parametrize("size", [1e-5, 1e6])
def test_weights_beyond_the_steps_of_f16_train_as_their_integers(size):
    w = np.random.default_rng(0).normal(scale=size, size=(64, 3)).astype("f")
    aware = aotc.quantization_aware(lambda w, x: x @ w["w"], "int4-g32")
    ranges = aware.init({"w": w}, np.eye(64, dtype="f4"))
    found = aware(ranges, {"w": w}, np.eye(64, dtype="f4")).__array__()
    kind = PRECISIONS["int4-g32"]
    wanted = fake_weight(w, trained_grid(w, (0,), kind, None), kind)
    np.testing.assert_array_equal(found, wanted)


def test_ranges_move_towards_what_is_seen(names):
    aware = aotc.quantization_aware(names["network"], "int8", rate=0.25)
    ranges = aware.init(names["tree"], *inputs(0))
    x, tokens = inputs(1)
    after, result = aware.observe(ranges, names["tree"], x, tokens)
    before = ranges["conv.kernel"]
    high = before["high"] + 0.25 * ((x / 4).max() - before["high"])
    np.testing.assert_allclose(after["conv.kernel"]["high"].__array__(), high, 1e-6)
    assert (
        after.keys()
        == ranges.keys()
        == {*("conv.kernel", "layers.0.kernel", "layers.1.kernel", "table#2")}
    )
    # the result is that of the ranges that are returned
    np.testing.assert_array_equal(result, aware(after, names["tree"], x, tokens))


def test_gradients_are_those_of_the_straight_through_estimator():
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(5, 32)).astype("f"), rng.normal(size=(32, 3)).astype("f")
    aware = aotc.quantization_aware(lambda w, x: x @ w["w"], "int8", learned=True)
    low, high = np.float32(-1), np.float32(1.5)
    steps = (np.abs(w).max(0, keepdims=True) / 200).astype("f")  # so that some clip
    ranges = {"w": {"low": low, "high": high, "steps": steps}}

    def loss(ranges, params, x):
        return anp.sum(anp.sin(aware(ranges, params, x)))

    by_ranges, by_params, by_x = (
        aotc.grad(loss, argnums=n)(ranges, {"w": w}, x) for n in (0, 1, 2)
    )
    scale = np.float32((high - low) / 255)
    zero = np.round(-low / scale)
    ratio = x / scale
    is_low, is_high = ratio < -zero, ratio > 255 - zero
    inside = ~is_low & ~is_high
    rounded_x = np.round(np.clip(ratio, -zero, 255 - zero)) * scale
    parts = w / steps
    clipped = np.clip(parts, -127, 127)
    rounded_w = np.round(clipped) * steps
    is_in = np.abs(parts) <= 127
    assert is_low.any()
    assert is_high.any()
    assert not is_in.all()
    above = np.cos(rounded_x @ rounded_w)
    at_x, at_w = above @ rounded_w.T, rounded_x.T @ above
    close = {"rtol": 2e-4, "atol": 2e-4}
    np.testing.assert_allclose(by_x, at_x * inside, **close)
    np.testing.assert_allclose(by_params["w"], at_w * is_in, **close)
    # Esser et al., equations 3 and 4
    slope = np.where(is_in, np.round(clipped) - parts, np.sign(parts) * 127)
    factor = 1 / np.sqrt(32 * 127)
    wanted = (at_w * slope).sum(0, keepdims=True) * factor
    np.testing.assert_allclose(by_ranges["w"]["steps"], wanted, **close)
    # an end moves what is beyond it, and by the step what is rounded
    residual = np.where(inside, np.round(ratio) - ratio, 0) / 255
    wanted = (at_x * (is_high + residual)).sum()
    np.testing.assert_allclose(by_ranges["w"]["high"], wanted, rtol=5e-3)
    wanted = (at_x * (is_low - residual)).sum()
    np.testing.assert_allclose(by_ranges["w"]["low"], wanted, rtol=5e-3)


def test_weights_that_nothing_clips_keep_their_gradients():
    w = np.random.default_rng(0).normal(size=(64, 8)).astype("f")
    x = np.ones((2, 64), "f")
    for recipe in ("int8-weights", "int4-g32", "int8-dynamic"):
        aware = aotc.quantization_aware(lambda w, x: x @ w, recipe)
        found = aotc.grad(lambda w, aware=aware: anp.sum(aware({}, w, x)))(w)
        np.testing.assert_allclose(found, np.full_like(w, 2), rtol=1e-5)


def test_a_traced_step_computes_what_an_executed_one_does(names):
    aware = aotc.quantization_aware(names["network"], "int8", learned=True)
    ranges = aware.init(names["tree"], *inputs(0))

    def step(ranges, params, x, tokens):
        def loss(params, ranges):
            ranges, y = aware.observe(ranges, params, x, tokens)
            return anp.sum(anp.square(y)), ranges

        return aotc.value_and_grad(loss, has_aux=True)(params, ranges)

    given = ranges, names["tree"], *inputs(1)
    (value, after), grads = step(*given)
    (traced_value, traced_after), traced_grads = aotc.jit(step)(*given)
    np.testing.assert_allclose(traced_value, value, rtol=1e-4)
    for name, row in after.items():
        for leaf, array in row.items():
            np.testing.assert_allclose(traced_after[name][leaf], array, rtol=1e-5)
    found, wanted = (g["layers"][0]["kernel"] for g in (traced_grads, grads))
    size = np.abs(wanted.__array__()).max()
    # what lies between two steps may be rounded to the other one
    assert np.mean(np.abs(found - wanted.__array__())) < 1e-2 * size


def test_imported_networks_are_trained_by_the_names_of_their_weights(tmp_path):
    onnx = pytest.importorskip("onnx")
    rng = np.random.default_rng(0)
    w, b = rng.normal(size=(3, 32)).astype("f"), np.ones(3, "f")
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Gemm", ["x", "fc.w", "fc.b"], ["y"], transB=1)],
        "net",
        [onnx.helper.make_tensor_value_info("x", 1, ["n", 32])],
        [onnx.helper.make_tensor_value_info("y", 1, ["n", 3])],
        [
            onnx.numpy_helper.from_array(w, "fc.w"),
            onnx.numpy_helper.from_array(b, "fc.b"),
        ],
    )
    file = tmp_path / "net.onnx"
    opsets = [onnx.helper.make_opsetid("", 17)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8), file)
    net = aotc.from_onnx(file)
    aware = aotc.quantization_aware(net, "int8")
    x = rng.normal(size=(4, 32)).astype("f")
    ranges = aware.init(net.params, x)
    assert {*ranges} == {"fc.w"}
    found = of_training(load(file), QuantizationOptions("int8"), trained(ranges))
    (got,) = run(found.program, {found.program.entries[0].name: [[x]]}).values()
    np.testing.assert_array_equal(got[0], aware(ranges, net.params, x).__array__())


def test_bodies_of_loops_stay_as_they_are():
    w = np.random.default_rng(0).normal(size=(4, 4)).astype("f")

    def network(w, x):
        return control.scan(lambda x, _: (x @ w, None), x, None, length=3)[0]

    aware = aotc.quantization_aware(network, "int8-weights")
    x = np.ones((2, 4), "f")
    entry = aotc.jit(lambda w, x: aware({}, w, x))
    np.testing.assert_allclose(entry(w, x), x @ w @ w @ w, rtol=1e-5)


def test_trained_network_is_built_from_its_recipe(
    model, names, tmp_path, monkeypatch, capsys
):
    monkeypatch.setenv("AOTC_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    aware = aotc.quantization_aware(names["network"], "int8")
    ranges = aware.init(names["tree"], *inputs(0))
    flat = {f"state.ranges.{k}.{n}": v for k, r in ranges.items() for n, v in r.items()}
    save_file({**flat, "state.moments.low": np.zeros(3, "f")}, "state.safetensors")
    x, tokens = inputs(1)
    np.savez("data.npz", x=x, tokens=tokens)
    options = ["--recipe", "int8", "--ranges", "state.safetensors", "-o", "int8.mlir"]
    held_out = ["--held-out", "data.npz"]
    assert main(["quantize", str(model), *options, *held_out, "-q"]) == 0
    native = Target.named("native")
    report = build(model, quantize=tmp_path / "int8.json", targets=native)
    bundle = aotc.load(report.bundle)
    wanted = aware(ranges, names["tree"], x, tokens).__array__()
    found = bundle.predict(x=x, tokens=tokens)
    # sums of integers are exact, and those of the floats in training rounded
    np.testing.assert_allclose(found, wanted, atol=0.02 * np.abs(wanted).max())
    capsys.readouterr()
    assert main(["verify", str(report.bundle), "--format", "json"]) == 0
    facts = json.loads(capsys.readouterr().out)["quantization"]
    assert facts["calibration"]["method"] == "training"
    assert facts["quality"]["metric"] == "top1"
    assert {row["precision"] for row in facts["layers"]} == {"int8", "int8-rows"}
    assert main(["inspect", str(report.bundle)]) == 0
    assert "ranges of quantisation-aware training" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ({"other": {"low": 0, "high": 1}}, "ranges of layers of the program"),
        ({"conv.kernel": {"low": 0}}, "low and high of 'conv.kernel'"),
        ({"conv.kernel": {"low": 0, "high": np.inf}}, "finite ranges"),
        (
            {"conv.kernel": {"low": 0, "high": 1, "steps": [1, 2]}},
            "as many steps as the weight of 'predict/weights.conv.kernel'",
        ),
    ],
)
def test_refuses_ranges_of_something_else(rows, said, model, tmp_path):
    path = tmp_path / "ranges.safetensors"
    flat = {f"{k}.{n}": np.array(v, "f") for k, r in rows.items() for n, v in r.items()}
    save_file(flat, path)
    with pytest.raises(InputError, match=said) as refused:
        of_training(load(model), QuantizationOptions("int8"), Trained.read(path))
    assert refused.value.code == "bad-ranges"
    assert ("--recipe" in refused.value.hint) is ("steps" in said)


def test_refuses_what_makes_no_sense(model, names):
    with pytest.raises(InputError, match="mixed_precision"):
        aotc.quantization_aware(names["network"], "bf16")
    with pytest.raises(InputError, match="rate"):
        aotc.quantization_aware(names["network"], "int8", rate=0)
    aware = aotc.quantization_aware(names["network"], "int8")
    with pytest.raises(InputError, match="there is no high of 'conv.kernel'"):
        aware({}, names["tree"], *inputs(0))
    with pytest.raises(InputError, match="there is no high of 'conv.kernel'"):
        aware.observe({}, names["tree"], *inputs(0))
    ranges = aware.init(names["tree"], *inputs(0))
    choice = QuantizationOptions("int8", methods=("equalize",))
    with pytest.raises(InputError, match="both"):
        of_training(load(model), choice, trained(ranges))


@pytest.mark.slow
@pytest.mark.parametrize(("recipe", "gain"), [("int8", 1.3), ("int4-g32", 4)])
def test_trained_integers_are_nearer_to_the_floats_than_rounded_ones(
    recipe, gain, tmp_path, monkeypatch, calibration, held_out
):
    monkeypatch.setenv("DIGITS_RECIPE", recipe)
    monkeypatch.setenv("AOTC_HOME", str(tmp_path))
    entries = ("train_step", "evaluate")
    report = build(DIGITS / "quantized.py", entries=entries, output=tmp_path)
    loaded = aotc.load(report.bundle)
    train = runpy.run_path(str(DIGITS / "train_quantized.py"))["train"]
    accuracy = train(loaded, 5)
    assert accuracy >= 0.99
    x, model = held_out.arrays["x"], load(DIGITS / "model.py", "predict")
    wanted = run(model, {"predict": [[x]]})["predict"]
    rounded = quantized(model, QuantizationOptions(recipe), calibration).program
    lost = divergence(wanted[0], run(rounded, {"predict": [[x]]})["predict"][0])
    logits = loaded.evaluate(images=x)
    assert gain * divergence(wanted[0], nn.softmax(logits).__array__()) < lost
