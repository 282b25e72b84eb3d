"""Elementary functions on vectors are as near to the right values as they say."""

import numpy as np
import pytest

import aotc
from aotc import processor
from aotc.pipeline import build
from aotc.target import Target
from benchmarks.fuzz.weighted import used_families

ROWS, WIDTH = 4096, 40  # columns are no whole number of vectors of 16
MODEL = f"""
import numpy
import aotc
from aotc import nn

w = aotc.Weights({{"one": numpy.eye({WIDTH}, dtype="f4")}})
spec = aotc.Spec(({ROWS}, {WIDTH}))


@aotc.entry(x=spec)
def logistic(w, x):
    return nn.sigmoid(x @ w["one"])


@aotc.entry(x=spec)
def gelu(w, x):
    return nn.gelu(x @ w["one"], approximate=True)
"""


@pytest.fixture(scope="module", params=["x86_64-v3", "x86_64-v4"])
def bundle(request, tmp_path_factory):
    """Kernels whose sums are the inputs themselves."""
    target = Target.parse(request.param)
    if not set(target.cpu_features_required) <= set(processor.cpu_features()):
        pytest.skip(f"this processor runs no code for {target}")
    folder = tmp_path_factory.mktemp("elementary")
    (folder / "model.py").write_text(MODEL, encoding="utf-8")
    asked = {"targets": [target], "self_check": "off", "sign": False}
    made = build(folder / "model.py", output=folder, **asked).bundle
    assert list(used_families(made)) == ["contraction"] * 2
    return aotc.load(made, allow_unsigned=True)


def numbers():
    """Near 0 and far from it, on either side."""
    rng = np.random.default_rng(0)
    near = rng.normal(scale=3, size=ROWS * WIDTH // 2)
    far = rng.uniform(-87, 100, size=ROWS * WIDTH // 2)
    return np.concatenate([near, far]).astype("f4").reshape(ROWS, WIDTH)


def test_logistic_is_right_to_3_ulp(bundle):
    x = numbers()
    x[0, :3] = 0, -0.0, 1e-30
    wanted = 1 / (1 + np.exp(-x.astype("f8")))
    error = np.abs(bundle.entries["logistic"](x=x) - wanted)
    assert (error / np.spacing(wanted.astype("f4"))).max() <= 3


def test_logistic_of_what_is_beyond_its_range_is_0_or_1(bundle):
    for value, wanted in ((-89, 0), (-1e30, 0), (88, 1), (1e30, 1)):
        x = np.full((ROWS, WIDTH), value, "f4")
        np.testing.assert_array_equal(bundle.entries["logistic"](x=x), wanted)


def test_logistic_keeps_nan_of_any_payload(bundle):
    x = numbers()
    bits = np.uint32(0x7FC00000) + np.arange(1, 9, dtype=np.uint32)
    for row, payload in enumerate(bits):  # a row of NaN makes a row of NaN
        x[row, 0] = payload.view("f4")
    found = bundle.entries["logistic"](x=x)
    assert np.isnan(found[:8]).all()
    assert np.isfinite(found[8:]).all()


def test_gelu_is_right_where_it_nearly_cancels(bundle):
    x = np.clip(numbers(), -9, 30)
    wide = x.astype("f8")
    inner = np.sqrt(2 / np.pi) * (wide + 0.044715 * wide**3)
    wanted = wide / (1 + np.exp(-2 * inner))
    # e**(2 u) has the rounding errors of u times that
    np.testing.assert_allclose(
        bundle.entries["gelu"](x=x), wanted, rtol=2e-5, atol=1e-37
    )
