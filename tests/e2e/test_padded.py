"""Calls that are padded compute what the model says of their own sizes."""

from pathlib import Path

import numpy as np
import pytest

import aotc as compiler
from aotc import reference
from aotc.core import dtypes
from aotc.dialects.calls.padded_entries import CUT
from aotc.dialects.functions.functions import functions_of
from aotc.dialects.plain import plain_of
from aotc.dialects.types import evaluate_size
from aotc.errors import InputError
from aotc.importers import load
from aotc.machine.target import Target
from aotc.passes import run_passes
from aotc.passes.stages import parse
from aotc.pipeline import build
from tests.fake_gpu import Lent, pretend

MODEL = Path(__file__).parent / "padded_model.py"
CALLS = [400, pytest.param(1000, marks=pytest.mark.slow)]
SIZES = {
    "n": range(1, 41),
    "m": range(1, 6),
    "k": (2, 3),
    "d": range(1, 5),
    "even": range(2, 13, 2),
    "side": range(4, 15),
}


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    folder = tmp_path_factory.mktemp("padded")
    asked = {"targets": Target.named("native"), "sign": False, "self_check": "off"}
    return build(MODEL, output=folder, **asked).bundle


@pytest.fixture(scope="module")
def model(bundle):
    return compiler.load(bundle, allow_unsigned=True, threads=1)


@pytest.fixture(scope="module")
def program():
    loaded = load(MODEL)
    run_passes(loaded.module, ("autodiff", "inline"), silently=True)
    return loaded


def draw(rng, kind, symbols):
    """An input of a type, in which no element is like another."""
    shape = tuple(evaluate_size(size, symbols) for size in kind.shape)
    if kind.dtype == "bool":
        return rng.random(shape) < 0.4
    if dtypes.is_float(kind.dtype):
        return rng.standard_normal(shape).astype(dtypes.to_numpy(kind.dtype))
    return rng.integers(0, 3, shape).astype(dtypes.to_numpy(kind.dtype))


@pytest.mark.parametrize("calls", CALLS)
def test_hundreds_of_calls_of_random_sizes_are_those_of_the_reference(
    bundle, program, calls
):
    model = compiler.load(bundle, allow_unsigned=True, threads=1)  # with first states
    rng = np.random.default_rng(7)
    entries = program.entry_points
    stored = dict(program.parameters)
    for _ in range(calls):
        entry = entries[rng.integers(len(entries))]
        sizes = {each.name: rng.choice(SIZES[each.name]) for each in entry.symbols}
        parts = [int(sizes[each.name]) // each.multiple_of for each in entry.symbols]
        inputs = [draw(rng, port.type, parts) for port in entry.ports("input")]
        given = iter(inputs)
        arguments = [
            next(given) if port.kind == "input" else stored[port.name]
            for port in entry.arguments
        ]
        expected = reference.evaluate(program.module, entry.name, arguments)
        got = model.entry(entry.name).call_flat(inputs)
        ports = list(zip(entry.results, expected, strict=True))
        stored |= {port.name: array for port, array in ports if port.kind == "state"}
        outputs = [(port, array) for port, array in ports if port.kind == "output"]
        for (port, wanted), array in zip(outputs, got, strict=True):
            assert array.dtype == wanted.dtype
            assert array.shape == wanted.shape
            slack = 2e-2 if wanted.dtype == np.float16 else 2e-4
            np.testing.assert_allclose(
                array, wanted, slack, slack, err_msg=f"{entry.name}.{port.name} {sizes}"
            )
    kept = {name: stored[f"start.{name}"] for name in ("w", "count")}
    for name, array in model.read_state("start").items():
        np.testing.assert_allclose(array, kept[name], 2e-3, 2e-4)
    np.testing.assert_array_equal(model.read_state("cache"), stored["cache"])


def test_what_has_no_code_is_refused_before_it_runs(model):
    x, on = np.zeros((4, 1, 2), "f2"), np.zeros(4, "?")
    with pytest.raises(InputError, match="even up to 4, k 2; ") as caught:
        model.mixed(x=x, on=on)
    assert caught.value.code == "no-code-for-sizes"
    with pytest.raises(InputError) as caught:
        model.score(x=np.zeros((41, 8), "f4"))
    assert caught.value.code == "shape-contract"


def test_tensors_on_a_gpu_have_to_be_of_the_sizes_of_code(bundle, model, monkeypatch):
    pretend(monkeypatch, lambda: None)
    on_gpu = compiler.load(bundle, allow_unsigned=True, threads=1)
    x = np.arange(128, dtype=np.float32).reshape(16, 8) / 100
    found = on_gpu.score(x=Lent(x))
    for name, expected in model.score(x=x).items():
        np.testing.assert_array_equal(found[name].numpy(), expected)
    with pytest.raises(InputError, match=r"pad them .* to \[16, 8\]") as caught:
        on_gpu.score(x=Lent(x[:9]))
    assert caught.value.code == "input-device"
    np.testing.assert_array_equal(
        on_gpu.score(x=x[:9])["all"], model.score(x=x[:9])["all"]
    )


def test_no_general_code_is_compiled(model):
    assert all(
        not point.has_general_code for point in model.manifest.entry_points.values()
    )
    names = {
        name for variant in model.manifest.variants.values() for name in variant.memory
    }
    assert names
    assert all(name.endswith("_padded") for name in names)
    assert model.manifest.data["requires_features"] == ["policies"]


def test_an_attention_and_a_step_of_training_are_padded_as_a_whole():
    program = load(MODEL)
    run_passes(program.module, parse("optimized"), silently=True)
    cut = {
        name: plain_of(function.attributes[CUT])
        for name, function in functions_of(program.module).items()
        if CUT in function.attributes
    }
    for name in ("score__n_16_padded", "train_step__n_16_padded"):
        assert cut[name] == []
    turned = [x for x in cut["move__m_5__n_16_padded"] if x["op"] == "graph.reverse"]
    assert {each["where"].partition(":")[0] for each in turned} == {"padded_model.py"}
