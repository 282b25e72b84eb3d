"""sink-reshapes: axes of size 1 come after the elementwise ops of what has them."""

import numpy as np
import pytest

import aotc
import aotc.numpy as anp
from aotc import nn

ALL = ("simplify", "sink-reshapes", "simplify", "cse")
WEIGHT = np.linspace(-1, 1, 4 * 4, dtype="f").reshape(4, 4)


def squeeze(x):
    """The mean of each channel of channels-first images, with axes of size 1."""
    return anp.mean(x, (2, 3), keepdims=True)


@pytest.mark.parametrize(
    "activation",
    [
        nn.relu,
        lambda x: x * nn.sigmoid(x),
        lambda x: anp.clip(x + 3.0, 0.0, 6.0) / 6.0 * x,
        nn.gelu,
    ],
)
@pytest.mark.parametrize("type", ["f32[n, 4, 3, 5]", "f32[1, 4, 3, 5]"])
def test_an_activation_stands_beside_the_reduction_before_it(model, activation, type):
    gate = model(lambda x: activation(squeeze(x)), type, symbols=("n",))
    gate.keeps_meaning_under(*ALL)
    assert gate.ops.count("reshape") == 1
    assert gate.ops[-1] == "reshape"
    assert not gate.run("sink-reshapes")


def test_reshapes_between_products_meet(model):
    def function(x):
        rows = anp.reshape(x @ WEIGHT, (1, 4, 1, 1))
        return anp.reshape(rows * nn.sigmoid(rows), (1, 4)) @ WEIGHT

    pair = model(function, "f32[1, 4]")
    pair.keeps_meaning_under(*ALL)
    assert "reshape" not in pair.ops


def test_a_reshape_with_another_reader_stays_for_that(model):
    def function(x):
        wide = anp.reshape(anp.sum(x, 1), (3, 1, 4))
        return anp.exp(wide), anp.cumsum(wide, 2)

    both = model(function, "f32[3, 2, 4]")
    both.keeps_meaning_under(*ALL)
    assert both.ops == ["reduce_sum", "reshape", "exp", "reshape", "cumsum"]


@pytest.mark.parametrize(
    ("function", "type"),
    [
        (lambda x: nn.relu(anp.reshape(x, (2, 6))), "f32[4, 3]"),
        (lambda x: anp.reshape(x, (1, 4, 3)) + anp.ones((1, 4, 3)) * x, "f32[4, 3]"),
        (lambda x: nn.softmax(anp.reshape(x, (4, 1, 3)), axis=2), "f32[4, 3]"),
        # of two shapes, one would have to be reshaped in the place of the other
        (lambda x: anp.reshape(x, (4, 1)) + anp.reshape(anp.sum(x, 0), (4, 1)),
            "f32[1, 4]"),
    ],
)  # fmt: skip
def test_leaves_alone(model, function, type):
    other = model(function, type)
    other.run("simplify", "cse", "simplify")
    assert not other.run("sink-reshapes")


@pytest.mark.parametrize("type", ["f32[0, 4, 3, 5]", "f32[1, 1, 1, 1]"])
def test_sizes_of_one_and_none(model, type):
    small = model(lambda x: nn.sigmoid(squeeze(x)) * 2.0, type)
    small.keeps_meaning_under(*ALL)


def test_gradients_keep_their_meaning(model):
    def loss(x):
        return anp.sum(x * nn.sigmoid(squeeze(x)))

    network = model(aotc.grad(loss), "f32[2, 4, 3, 3]")
    network.run("autodiff", "inline", "simplify", "cse")
    network.keeps_meaning_under(*ALL)
