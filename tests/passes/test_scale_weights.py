"""scale-weights: what would scale a large operand scales the weight instead."""

import numpy as np
import pytest

import aotc
import aotc.numpy as anp
from aotc import nn

RNG = np.random.default_rng(0)
POINTWISE = RNG.normal(size=(1, 1, 4, 6)).astype("f")
SQUARE = RNG.normal(size=(4, 6)).astype("f")
IMAGE = "f32[1, 8, 9, 4]"


def gate(x):
    """A number for each channel of each image."""
    return nn.sigmoid(anp.mean(x, (1, 2), keepdims=True))


def made_of(made, name):
    """The shapes of the results of some op, in order."""
    wanted = f"graph.{name}"
    block = made.module.body.operations[0].entry_block
    return [
        list(op.results[0].type.shape)
        for op in block.operations
        if op.operation.name == wanted
    ]


@pytest.mark.parametrize(
    ("function", "shape"),
    [
        (lambda x: nn.conv2d(x * gate(x), POINTWISE), [1, 1, 4, 6]),
        (lambda x: nn.conv2d(gate(x) * x, POINTWISE, strides=2), [1, 1, 4, 6]),
        (lambda x: nn.conv2d(x * gate(x), np.tile(POINTWISE, (3, 2, 1, 1))),
            [3, 2, 4, 6]),
        (lambda x: (x * gate(x)) @ SQUARE, [4, 6]),
        (lambda x: (x * gate(x)) @ SQUARE.T.copy().T, [4, 6]),
        # a scale along two axes, which the weight has in another order
        (lambda x: anp.einsum("nhwc,cwf->nhf", x * anp.mean(x, 1, keepdims=True),
            RNG.normal(size=(4, 9, 2)).astype("f")), [4, 9, 2]),
    ],
)  # fmt: skip
def test_a_gate_of_channels_scales_the_weight(model, function, shape):
    network = model(function, IMAGE)
    network.run("simplify", "cse")
    network.keeps_meaning_under("scale-weights", "simplify", "cse")
    assert made_of(network, "multiply") == [shape]
    assert not network.run("scale-weights")


@pytest.mark.parametrize(
    ("function", "shape"),
    [
        (lambda x: nn.conv2d(x * gate(x), POINTWISE), [4, 6]),
        (lambda x: nn.conv2d(gate(x) * x, POINTWISE), [4, 6]),
        (lambda x: (x * gate(x)) @ SQUARE, [4, 6]),
        (lambda x: (x * gate(x)) @ SQUARE.T.copy().T, [4, 6]),
        (lambda x: anp.einsum("nhwc,cwf->nhf", x * anp.mean(x, 1, keepdims=True),
            RNG.normal(size=(4, 9, 2)).astype("f")), [4, 9, 2]),
    ],
)  # fmt: skip
@pytest.mark.parametrize("type", ["f32[2, 8, 9, 4]", "f32[n, 8, 9, 4]"])
def test_a_gate_of_each_image_makes_a_weight_for_each(model, function, shape, type):
    network = model(function, type, symbols=("n",))
    network.run("simplify", "cse")
    network.keeps_meaning_under("scale-weights", "simplify", "cse")
    (found,) = made_of(network, "multiply")
    assert found[1:] == shape
    assert not network.run("scale-weights")


def _read_twice(x):
    scaled = x * gate(x)
    return nn.conv2d(scaled, POINTWISE), scaled


@pytest.mark.parametrize(
    ("function", "type"),
    [
        # each image has a gate of its own, and more than a product of its own
        (
            lambda x: nn.conv2d(x * gate(x), np.tile(POINTWISE, (3, 2, 1, 1))),
            "f32[2, 8, 9, 4]",
        ),
        (lambda x: nn.conv2d(x * gate(x), POINTWISE, strides=2), "f32[2, 8, 9, 4]"),
        (
            lambda x: nn.conv2d(x * gate(x), POINTWISE, padding=((1, 1), (1, 1))),
            "f32[n, 8, 9, 4]",
        ),
        # each image has a number of its own
        (
            lambda x: (x * anp.mean(x, (1, 2, 3), keepdims=True)) @ SQUARE,
            "f32[n, 8, 9, 4]",
        ),
        # it has many features
        (lambda x: (x * gate(x)) @ np.tile(SQUARE, 33), "f32[n, 40, 9, 4]"),
        # its weight is almost as large as an image
        (lambda x: (x * gate(x)) @ SQUARE, "f32[n, 2, 4, 4]"),
        # its weight is larger than an image
        (lambda x: nn.conv2d(x * gate(x), POINTWISE), "f32[7, 2, 3, 4]"),
        # each line has a gate of its own
        (
            lambda x: nn.conv2d(x * anp.max(x, (2, 3), keepdims=True), POINTWISE),
            "f32[2, 8, 9, 4]",
        ),
        # the weight is the larger one
        (lambda x: nn.conv2d(x * gate(x), POINTWISE), "f32[1, 2, 3, 4]"),
        # a gate that is infinite makes NaN of padding, which the image has not
        (lambda x: nn.conv2d(x * gate(x), POINTWISE, padding=((1, 1), (1, 1))), IMAGE),
        (lambda x: nn.conv2d(x * gate(x), POINTWISE[:, :, :2], groups=2), IMAGE),
        (_read_twice, IMAGE),
        (lambda x: nn.conv2d(x * anp.max(x, (2, 3), keepdims=True), POINTWISE), IMAGE),
        (lambda x: nn.conv2d(x * x, POINTWISE), IMAGE),
        (lambda x: nn.conv2d(x * np.arange(4, dtype="f"), POINTWISE), IMAGE),
        (lambda x: nn.conv2d(x * gate(x), POINTWISE.astype("f2")), "f16[1, 8, 9, 4]"),
    ],
)
def test_leaves_alone(model, function, type):
    network = model(function, type, symbols=("n",))
    network.run("simplify", "cse")
    assert not network.run("scale-weights")


def test_gradients_keep_their_meaning(model):
    def loss(x):
        return anp.sum(nn.conv2d(x * gate(x), POINTWISE) ** 2.0)

    network = model(aotc.grad(loss), IMAGE)
    network.run("autodiff", "inline", "simplify", "cse")
    network.keeps_meaning_under("scale-weights", "simplify", "cse")
