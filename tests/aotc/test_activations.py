"""Activations compute their formulas, written out here, and have finite slopes."""

import math

import numpy as np
import pytest

import aotc
from aotc import nn, reference
from aotc.errors import InputError
from aotc.passes import run_passes
from aotc.tracing.assembly import trace

LINE = np.array([-100, -30, -3, -1, -0.5, 0, 0.5, 1, 3, 30, 100.0])


def sigmoid(x):
    """1 / (1 + e**-x)."""
    return 1 / (1 + np.exp(-x))


def softplus(x):
    """log(1 + e**x)."""
    return np.logaddexp(x, 0)


FORMULAS = {
    "relu": lambda x: np.maximum(x, 0),
    "relu6": lambda x: np.clip(x, 0, 6),
    "leaky_relu": lambda x: np.where(x < 0, 0.01 * x, x),
    "elu": lambda x: np.where(x < 0, np.expm1(x), x),
    "selu": lambda x: (
        1.0507009873554805 * np.where(x < 0, 1.6732632423543772 * np.expm1(x), x)
    ),
    "celu": lambda x: np.where(x < 0, np.expm1(x), x),
    "hard_shrink": lambda x: np.where(abs(x) > 0.5, x, 0),
    "soft_shrink": lambda x: np.sign(x) * np.maximum(abs(x) - 0.5, 0),
    "sigmoid": sigmoid,
    "log_sigmoid": lambda x: -softplus(-x),
    "hard_sigmoid": lambda x: np.clip(x / 6 + 0.5, 0, 1),
    "hard_tanh": lambda x: np.clip(x, -1, 1),
    "soft_sign": lambda x: x / (1 + abs(x)),
    "tanh_shrink": lambda x: x - np.tanh(x),
    "softplus": softplus,
    "squareplus": lambda x: (x + np.sqrt(x * x + 4)) / 2,
    "gelu": lambda x: x * np.array([math.erfc(-v / math.sqrt(2)) / 2 for v in x]),
    "silu": lambda x: x * sigmoid(x),
    "hard_silu": lambda x: x * np.clip(x / 6 + 0.5, 0, 1),
    "mish": lambda x: x * np.tanh(softplus(x)),
}


@pytest.mark.parametrize("name", FORMULAS)
def test_activations_are_their_formulas(name):
    ours, theirs = getattr(nn, name)(LINE), FORMULAS[name](LINE)
    np.testing.assert_allclose(ours, theirs, rtol=1e-13, atol=1e-15)
    assert getattr(nn, name)(LINE.astype("f4")).dtype == "f32"


def test_parameters_change_the_formulas():
    x = np.array([-2.0, -0.25, 0.0, 1.0])
    tall = np.where(x < 0, 2 * np.expm1(x / 2), x)
    np.testing.assert_allclose(nn.celu(x, 2.0), tall)
    np.testing.assert_allclose(nn.elu(x, 3.0), np.where(x < 0, 3 * np.expm1(x), x))
    np.testing.assert_allclose(nn.leaky_relu(x, 0.5), np.where(x < 0, x / 2, x))
    np.testing.assert_allclose(nn.prelu(x, x + 1), np.where(x < 0, x * (x + 1), x))
    assert nn.threshold(x, -1, 7).tolist() == [7, -0.25, 0, 1]
    assert nn.hard_shrink(x, 0.2).tolist() == [-2, -0.25, 0, 1]


def test_gated_units_split_the_features_in_two():
    x = np.arange(12.0).reshape(2, 6) - 5
    value, gate = x[:, :3], x[:, 3:]
    np.testing.assert_allclose(nn.glu(x), value * sigmoid(gate))
    np.testing.assert_allclose(nn.swiglu(x), value * gate * sigmoid(gate))
    np.testing.assert_allclose(nn.geglu(x), value * np.asarray(nn.gelu(gate)))
    np.testing.assert_allclose(nn.glu(x, 0), x[:1] * sigmoid(x[1:]))
    with pytest.raises(InputError, match="expected an even, fixed size of axis 1"):
        nn.glu(x[:, :5])
    with pytest.raises(InputError, match="out of range"):
        nn.glu(x, 2)


def test_other_names_are_the_same_functions():
    assert nn.swish is nn.silu
    assert nn.hard_swish is nn.hard_silu
    assert nn.softsign is nn.soft_sign


# what a slope at 0 is taken as, where the function has a kink there
KINKS = {
    "relu": 0,
    "relu6": 0,
    "leaky_relu": 1,
    "selu": 1.0507009873554805 * 1.6732632423543772,
    "hard_shrink": 0,
    "soft_sign": 1,
}


def test_slopes_are_those_of_the_formulas_and_finite_for_large_arguments():
    @aotc.entry(x=aotc.Spec((), "f64"))
    def entry(x):
        return {name: aotc.grad(getattr(nn, name))(x) for name in FORMULAS}

    program = trace([entry], {})
    run_passes(program.module, ["autodiff", "inline"])
    for x in (-1000.0, -100.0, -1.7, 0.0, 1.7, 100.0, 1000.0):
        found = reference.evaluate(program.module, "entry", [np.float64(x)])
        slopes = program.entries[0].output_tree.unflatten(found)
        for name, formula in FORMULAS.items():
            around = np.array([x + 1e-5, x - 1e-5])
            with np.errstate(over="ignore"):
                above, below = formula(around)
            expected = KINKS.get(name) if x == 0 else None
            expected = (above - below) / 2e-5 if expected is None else expected
            assert slopes[name] == pytest.approx(expected, abs=2e-5), (name, x)


def test_second_slopes_of_smooth_activations_are_right_at_zero():
    @aotc.entry(x=aotc.Spec((), "f64"))
    def entry(x):
        names = ("softplus", "log_sigmoid", "silu", "mish", "gelu", "squareplus")
        return [aotc.grad(aotc.grad(getattr(nn, name)))(x) for name in names]

    program = trace([entry], {})
    run_passes(program.module, ["autodiff", "inline"])
    found = reference.evaluate(program.module, "entry", [np.float64(0)])
    expected = [0.25, -0.25, 0.5, 0.64, math.sqrt(2 / math.pi), 0.25]
    np.testing.assert_allclose(found, expected, rtol=1e-12)
