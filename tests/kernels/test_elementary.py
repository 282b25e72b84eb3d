"""Elementary functions on vectors are as near to the right values as they say."""

from math import erf, erfc

import numpy as np
import pytest

import aotc
from aotc.machine.target import Target
from aotc.pipeline import build
from benchmarks.fuzz.weighted import used_families
from tests.machines import require_runs_here

ROWS, WIDTH = 4096, 40  # columns are no whole number of vectors of 16
MODEL = f"""
import numpy
import aotc
import aotc.numpy as np
from aotc import nn, special

w = aotc.Weights({{"one": numpy.eye({WIDTH}, dtype="f4")}})
spec = aotc.Spec(({ROWS}, {WIDTH}))


@aotc.entry(x=spec)
def logistic(w, x):
    return nn.sigmoid(x @ w["one"])


@aotc.entry(x=spec)
def gelu(w, x):
    return nn.gelu(x @ w["one"], approximate=True)


@aotc.entry(x=spec)
def tanh(w, x):
    return np.tanh(x @ w["one"])


@aotc.entry(x=spec)
def exp(w, x):
    return np.exp(x @ w["one"])


@aotc.entry(x=spec)
def erf(w, x):
    return special.erf(x @ w["one"])


@aotc.entry(x=spec)
def exact_gelu(w, x):
    y = x @ w["one"]
    return nn.gelu(y), aotc.grad(lambda y: np.sum(nn.gelu(y)))(y)
"""


@pytest.fixture(scope="module", params=["x86_64-v3", "x86_64-v4"])
def bundle(request, tmp_path_factory):
    """Kernels whose sums are the inputs themselves."""
    target = Target.parse(request.param)
    require_runs_here(target)
    folder = tmp_path_factory.mktemp("elementary")
    (folder / "model.py").write_text(MODEL, encoding="utf-8")
    asked = {"targets": [target], "self_check": "off", "sign": False}
    made = build(folder / "model.py", output=folder, **asked).bundle
    assert list(used_families(made)) == ["contraction"] * 6
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


def test_tanh_is_right_to_5_ulp_and_never_beyond_1(bundle):
    x = numbers() / np.float32(4)
    x[0, :6] = 0, -0.0, 1e-30, -1e-20, 7.92, -9.1
    x[1, :2] = 1e30, -1e30
    found = bundle.entries["tanh"](x=x)
    wanted = np.tanh(x.astype("f8"))
    assert errors_in_ulp(found, wanted).max() <= 5
    assert np.abs(found).max() <= 1
    small = np.abs(x) < 1e-4
    np.testing.assert_array_equal(found[small], x[small])


def test_gelu_is_right_where_it_nearly_cancels(bundle):
    x = np.clip(numbers(), -9, 30)
    wide = x.astype("f8")
    inner = np.sqrt(2 / np.pi) * (wide + 0.044715 * wide**3)
    wanted = wide / (1 + np.exp(-2 * inner))
    # e**(2 u) has the rounding errors of u times that
    np.testing.assert_allclose(
        bundle.entries["gelu"](x=x), wanted, rtol=2e-5, atol=1e-37
    )


def errors_in_ulp(found, wanted):
    return np.abs(found - wanted) / np.spacing(np.abs(wanted).astype("f4"))


def test_exp_is_right_to_2_ulp_and_what_is_not_normal_is_0(bundle):
    x = np.clip(numbers(), -87.33, 88.72)
    wanted = np.exp(x.astype("f8"))
    assert errors_in_ulp(bundle.entries["exp"](x=x), wanted).max() <= 2
    for value, wanted in (
        (-88, 0),
        (-1e30, 0),
        (0, 1),
        (88.73, np.inf),
        (1e30, np.inf),
    ):
        x = np.full((ROWS, WIDTH), value, "f4")
        np.testing.assert_array_equal(bundle.entries["exp"](x=x), wanted)


def test_erf_is_right_to_3_ulp(bundle):
    x = numbers() / np.float32(3)
    x[0, :6] = 0, -0.0, 1e-30, -1e-20, 0.92, -3.95
    x[1, :2] = 1e30, -1e30
    wanted = np.vectorize(erf)(x.astype("f8"))
    found = bundle.entries["erf"](x=x)
    assert errors_in_ulp(found, wanted).max() <= 3
    assert np.abs(found).max() == 1


def test_gelu_beside_its_derivative_is_x_times_the_phi_of_both(bundle):
    x = np.clip(numbers(), -30, 30)
    wide = x.astype("f8")
    phi = np.vectorize(erfc)(-wide / np.sqrt(2)) / 2
    density = np.exp(-wide * wide / 2) / np.sqrt(2 * np.pi)
    found, slope = bundle.entries["exact_gelu"](x=x)
    np.testing.assert_allclose(found, wide * phi, rtol=3e-7, atol=5e-7)
    np.testing.assert_allclose(slope, phi + wide * density, rtol=5e-7, atol=5e-7)


@pytest.mark.parametrize("name", ["exp", "erf", "tanh", "exact_gelu"])
def test_nan_stays_in_its_row(bundle, name):
    x = numbers()
    x[3, 0] = np.nan
    found = np.atleast_3d(bundle.entries[name](x=x)).reshape(-1, ROWS, WIDTH)
    assert np.isnan(found[:, 3]).all()
    assert not np.isnan(np.delete(found, 3, 1)).any()
