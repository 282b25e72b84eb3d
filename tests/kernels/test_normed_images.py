"""Norms over the first axes of images, and their derivatives, by kernels."""

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import aotc
from aotc import reference
from aotc.dialects.functions.functions import callee_of, functions_of
from aotc.dialects.functions.fusion import fused_of
from aotc.dialects.types import Tensor
from aotc.importers import load
from aotc.machine.target import Target
from aotc.mlir import func
from aotc.passes import run_passes
from aotc.passes.base import Unit
from aotc.passes.stages import PASS_STAGES
from aotc.pipeline import build
from tests.machines import require_runs_here

MODEL = Path(__file__).parent / "normed_images.py"
LEVELS = [pytest.param("x86_64-v3", marks=pytest.mark.slow), "x86_64-v4"]
ENTRIES = [entry.name for entry in load(MODEL).entries]
IMAGES = {"any_batch": 5}


@pytest.fixture(scope="module", params=LEVELS)
def bundle(request, tmp_path_factory):
    target = Target.parse(request.param)
    require_runs_here(target)
    folder = tmp_path_factory.mktemp("normed")
    asked = {"targets": [target], "self_check": "off", "sign": False}
    return build(MODEL, output=folder, **asked).bundle


@pytest.fixture(scope="module")
def differentiated():
    found = load(MODEL)
    run_passes(found.module, ("autodiff",), silently=True)
    return found


def inputs_of(program, name, change=lambda x: x):
    """Random inputs of an entry; images are changed."""
    rng, found = np.random.default_rng(4), {}
    for port in program.entry(name).ports("input"):
        shape = [n if isinstance(n, int) else IMAGES[name] for n in port.type.shape]
        x = rng.normal(size=shape)
        x = change(x) if port.name == "x" else x
        kinds = {"f32": np.float32, "f64": np.float64, "bf16": ml_dtypes.bfloat16}
        found[port.name] = x.astype(kinds[port.type.dtype])
    return found


def expected_of(program, name, inputs):
    entry = program.entry(name)
    given = [inputs[port.name] for port in entry.arguments]
    return reference.evaluate(program.module, name, given)


@pytest.mark.parametrize("name", ENTRIES)
def test_norms_of_images_and_their_derivatives_are_those_of_the_graph(
    bundle, terms, differentiated, name
):
    model = aotc.load(bundle, allow_unsigned=True, threads=2)
    inputs = inputs_of(differentiated, name)
    wanted = expected_of(differentiated, name, inputs)
    found = model.entries[name](**inputs)
    found = found if isinstance(found, tuple) else (found,)
    close = {"narrow": 3e-2, "wide": 1e-12}.get(name, 2e-5)
    pairs = zip([*found, *terms.evaluate(name, inputs)], wanted * 2, strict=True)
    for mine, theirs in pairs:
        mine, theirs = np.asarray(mine, "f8"), np.asarray(theirs, "f8")
        scale = max(1.0, np.abs(theirs).max())
        np.testing.assert_allclose(mine, theirs, rtol=close, atol=close * scale)


def test_the_variance_of_large_numbers_keeps_its_digits(bundle, differentiated):
    model = aotc.load(bundle, allow_unsigned=True)
    for name in ("batch", "one_image", "rows", "volumes", "any_batch"):
        inputs = inputs_of(differentiated, name, lambda x: x + 1e3)
        _, _, mean, variance, *_ = model.entries[name](**inputs)
        x = inputs["x"].astype("f8")
        axes = tuple(range(x.ndim - 1))
        np.testing.assert_allclose(mean, x.mean(axes), rtol=5e-7)
        # the means of images are rounded to 3e-5, and they are apart from each other
        np.testing.assert_allclose(variance, x.var(axes), rtol=3e-5)


def test_sums_of_images_are_the_same_with_any_number_of_threads(bundle, differentiated):
    names = ("batch", "one_image", "groups", "any_batch", "kernel_gradient")
    every = [aotc.load(bundle, allow_unsigned=True, threads=n) for n in (1, 2)]
    for name in names:
        inputs = inputs_of(differentiated, name)
        found = [model.entries[name](**inputs) for model in every]
        found = [x if isinstance(x, tuple) else (x,) for x in found]
        for one, *others in zip(*found, strict=True):
            for other in others:
                np.testing.assert_array_equal(np.asarray(one), np.asarray(other))


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_channel_that_is_not_finite_spoils_no_other(bundle, differentiated, value):
    def change(x):
        x[..., 0, 3] = value
        return x

    model = aotc.load(bundle, allow_unsigned=True)
    for name in ("batch", "extremes"):
        inputs = inputs_of(differentiated, name, change)
        found = model.entries[name](**inputs)
        wanted = expected_of(differentiated, name, inputs)
        for mine, theirs in zip(found, wanted, strict=True):
            mine, theirs = np.asarray(mine), np.asarray(theirs)
            if mine.ndim:
                is_finite = np.isfinite(theirs)
                np.testing.assert_array_equal(np.isfinite(mine), is_finite)
                np.testing.assert_allclose(
                    mine[is_finite], theirs[is_finite], 1e-3, 1e-4
                )


@pytest.mark.parametrize("level", LEVELS)
def test_a_step_of_a_norm_has_four_kernels(level):
    unit = Unit(load(MODEL)).fork(Target.parse(level))
    for stage in PASS_STAGES[:2]:
        run_passes(unit, stage.passes())
    functions = functions_of(unit.module)
    calls = [
        fused_of(functions[callee_of(op)]).kernel
        for op in functions["batch"].entry_block.operations
        if isinstance(op, func.CallOp)
        if any(Tensor.of(x).rank == 4 for x in op.operands)
    ]
    # the statistics, the sums of what flows back; the normal values, the gradient
    assert sorted(calls) == ["columns", "columns", "elementwise", "elementwise"]
