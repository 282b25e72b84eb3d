"""NaN and infinity come through kernels as through the ops that these compute."""

import numpy as np
import pytest

import aotc
from aotc import reference
from aotc.importers import load
from aotc.machine.target import Target
from aotc.passes import run_passes
from aotc.pipeline import build
from benchmarks.frontends.kernel_sizes import thresholds
from benchmarks.fuzz.weighted import used_families
from tests.kernels.evaluation import Regions
from tests.machines import require_runs_here

MODEL = """
import numpy
import aotc
import aotc.numpy as np
from aotc import nn

rng = numpy.random.default_rng(0)
w = aotc.Weights({
    "matrix": rng.normal(size=(24, 20)).astype("f4"),
    "bias": rng.normal(size=20).astype("f4"),
    "kernel": rng.normal(size=(3, 3, 24, 12)).astype("f4"),
    "depthwise": rng.normal(size=(3, 3, 1, 24)).astype("f4"),
})
images = aotc.Spec((2, 9, 7, 24))


@aotc.entry(x=images)
def products(w, x):
    y = x @ w["matrix"] + w["bias"]
    return nn.relu(y), np.clip(y, -1.0, 1.0), np.maximum(y, w["bias"]), nn.sigmoid(y)


@aotc.entry(x=images)
def products_of_values(x):
    rows = np.reshape(x, (2, 63, 24))
    return np.matmul(rows, np.swapaxes(rows, 1, 2)), np.swapaxes(rows, 1, 2) @ rows


@aotc.entry(x=images)
def windows(w, x):
    edges = ((1, 1), (1, 1))
    pooled = nn.max_pool(x, 3, 2, edges), nn.avg_pool(x, 3, 2, edges)
    deep = nn.conv2d(x, w["depthwise"], padding="SAME", groups=24)
    return *pooled, deep, nn.relu(nn.conv2d(x, w["kernel"], padding="SAME"))


@aotc.entry(x=images)
def columns(x):
    return np.max(x, axis=(1, 2)), np.min(x, axis=1), np.sum(x, axis=(0, 1))
"""
SPECIAL = (np.nan, np.inf, -np.inf)


@pytest.fixture(scope="module", params=["x86_64-v3", "x86_64-v4"])
def model(request, tmp_path_factory):
    """The program for the reference, and its bundle."""
    target = Target.parse(request.param)
    require_runs_here(target)
    folder = tmp_path_factory.mktemp("special")
    (folder / "model.py").write_text(MODEL, encoding="utf-8")
    asked = {"targets": [target], "self_check": "off", "sign": False}
    with pytest.MonkeyPatch.context() as patch:
        for module, name in thresholds():
            patch.setattr(module, name, 1)
        bundle = build(folder / "model.py", output=folder, **asked).bundle
        terms = Regions.of(folder / "model.py", request.param)
    families = {"contraction", "pooling", "depthwise", "columns"}
    assert families <= set(used_families(bundle))
    program = load(folder / "model.py")
    run_passes(program.module, ("autodiff",), silently=True)
    return program, aotc.load(bundle, allow_unsigned=True), terms


@pytest.mark.parametrize(
    "entry", ["products", "products_of_values", "windows", "columns"]
)
@pytest.mark.parametrize("value", SPECIAL)
def test_what_is_not_finite_is_where_the_reference_has_it(entry, value, model):
    program, bundle, terms = model
    x = np.random.default_rng(1).normal(size=(2, 9, 7, 24)).astype("f")
    x[0, 0, 0, 3] = x[0, 4, 6, 17] = x[1, 8, 6, 23] = value  # at corners, too
    x[1, :4, :3, 5] = value  # in all of a window
    given = [
        {**program.parameters, "x": x}[port.name]
        for port in program.entry(entry).arguments
    ]
    with np.errstate(all="ignore"):
        wanted = reference.evaluate(program.module, entry, given)
    assert any(not np.isfinite(y).all() for y in wanted)
    found = [*bundle.entries[entry](x=x), *terms.evaluate(entry, {"x": x})]
    for mine, theirs in zip(found, wanted * 2, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-4)
