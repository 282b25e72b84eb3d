"""sink-transposes: elementwise and other ops take the layout of what surrounds them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import aotc
import aotc.numpy as anp
from aotc import nn

ALL = ("simplify", "sink-transposes", "simplify", "cse")
KERNEL = np.linspace(-1, 1, 3 * 3 * 4 * 4, dtype="f").reshape(3, 3, 4, 4)


def conv(x):
    """A convolution of channels-first images, as importers write it."""
    y = nn.conv2d(anp.transpose(x, (0, 2, 3, 1)), KERNEL, padding="SAME")
    return anp.transpose(y, (0, 3, 1, 2))


def squeeze_and_excite(x):
    gate = nn.sigmoid(conv(anp.mean(x, (2, 3), keepdims=True)))
    return conv(x * gate)


BIAS = np.arange(4, dtype="f")[:, None, None]

NETWORKS = {
    "activation": lambda x: conv(nn.relu(conv(x))),
    "bias": lambda x: conv(nn.relu(conv(x) + BIAS)),
    "residual": lambda x: conv(nn.relu(conv(nn.relu(conv(x))) + conv(x))),
    "clamp": lambda x: conv(anp.clip(conv(x) + 3.0, 0.0, 6.0) / 6.0),
    "gate": lambda x: conv(squeeze_and_excite(conv(x))),
    "concat": lambda x: conv(anp.concatenate([conv(x), nn.gelu(conv(x))], 1)[:, 2:6]),
    "pad": lambda x: conv(anp.pad(conv(x), ((0, 0), (0, 0), (1, 2), (0, 1)))),
    "flip": lambda x: conv(anp.flip(conv(x), (3,))[:, :, ::2]),
    "softmax": lambda x: conv(nn.softmax(conv(x), axis=1)),
    "choice": lambda x: conv(anp.where(conv(x) > 0.5, conv(x), 2.0)),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_leaves_transposes_at_the_ends_of_a_network_only(model, name):
    network = model(NETWORKS[name], "f32[n, 4, 6, 5]", symbols=("n",))
    network.keeps_meaning_under(*ALL)
    assert network.ops.count("transpose") == 2


@pytest.mark.parametrize(
    "end",
    [
        lambda y: anp.mean(y, (2, 3)),
        lambda y: anp.max(nn.relu(y), (2, 3), keepdims=True),
        lambda y: anp.argmax(y.sum((2, 3)), 1),
        lambda y: anp.reshape(anp.mean(y, (2, 3), keepdims=True), (y.shape[0], 4)),
    ],
)
def test_reductions_end_the_layout_of_images(model, end):
    network = model(lambda x: end(conv(x)), "f32[n, 4, 6, 5]", symbols=("n",))
    network.keeps_meaning_under(*ALL)
    assert network.ops.count("transpose") == 1


def test_a_reduction_of_one_axis_transposes_less(model):
    rows = model(lambda x: anp.transpose(x, (2, 1, 0)).sum(2), "f32[3, 4, 5]")
    rows.keeps_meaning_under(*ALL)
    assert rows.ops == ["reduce_sum", "transpose"]


@pytest.mark.parametrize(
    "function",
    [
        lambda x: anp.transpose(x, (0, 2, 3, 1)),
        # one transpose before, one for each reader after
        lambda x: _reshapes(anp.transpose(x, (0, 2, 3, 1))),
        # of two operands, one would have to be transposed in the place of the other
        lambda x: anp.transpose(anp.cumsum(x, 1), (0, 1, 3, 2)) @ x,
        lambda x: conv(x),
    ],
)
def test_leaves_alone(model, function):
    network = model(function, "f32[2, 4, 4, 4]")
    network.run("simplify", "cse", "simplify")
    assert not network.run("sink-transposes")


def _reshapes(x):
    return anp.reshape(nn.relu(x), (8, 16)), anp.reshape(anp.exp(x), (32, 4))


def test_a_value_with_two_readers_is_transposed_once(model):
    def function(x):
        y = nn.relu(conv(x))
        return conv(y), anp.reshape(y, (2, -1))

    network = model(function, "f32[2, 4, 4, 4]")
    network.keeps_meaning_under(*ALL)
    assert network.ops.count("transpose") == 3


def test_a_bias_stands_beside_the_product_that_it_follows(model):
    def function(x):
        return anp.reshape(conv(x) + BIAS, (2, -1))

    network = model(function, "f32[2, 4, 4, 4]")
    network.keeps_meaning_under(*ALL)
    ops = [op for op in network.ops if op not in ("constant", "broadcast", "reshape")]
    assert ops == ["transpose", "conv_general", "add", "transpose"]


@pytest.mark.parametrize("shape", ["f32[1, 1, 4, 1]", "f32[0, 2, 4, 3]"])
def test_sizes_of_one_and_none(model, shape):
    function = lambda x: nn.relu(anp.transpose(anp.exp(x), (2, 3, 1, 0)))  # noqa: E731
    small = model(function, shape)
    small.keeps_meaning_under(*ALL)
    assert small.ops.count("transpose") == (0 if "1, 1" in shape else 1)


def test_gradients_of_a_network_keep_their_meaning(model):
    def loss(x):
        return anp.sum(NETWORKS["residual"](x) ** 2.0)

    network = model(aotc.grad(loss), "f32[n, 4, 3, 3]", symbols=("n",))
    network.run("autodiff", "inline", "simplify", "cse")
    before = network.ops.count("transpose")
    network.keeps_meaning_under(*ALL)
    assert network.ops.count("transpose") < before


# ---- random graphs -----------------------------------------------------------------

ORDERS = [(0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)]
UNARY = {
    "exp": lambda x: anp.exp(anp.clip(x, -3.0, 3.0)),
    "double": lambda x: x * 2.0,
    "center": lambda x: x - anp.mean(x, axis=0, keepdims=True),
    "rows": lambda x: x + anp.sum(x, axis=(0, 1)),
    "softmax": lambda x: nn.softmax(x, axis=1),
    "running": lambda x: anp.cumsum(x, axis=2),
    "twice": lambda x: anp.concatenate([x, -x], 1)[:, 1:4],
    "pad": lambda x: anp.pad(x, ((1, 0), (0, 0), (0, 0)))[:3],
    "flip": lambda x: anp.flip(x, (0, 2)),
    "layer": lambda x: nn.layer_norm(x),
    "split": lambda x: anp.reshape(anp.reshape(x, (9, 3)) * 1.5, (3, 3, 3)),
    **{str(order): lambda x, order=order: anp.transpose(x, order) for order in ORDERS},
}
BINARY = {
    "add": lambda x, y: x + y,
    "multiply": lambda x, y: anp.tanh(x) * y,
    "matmul": lambda x, y: anp.tanh(x @ y),
    "choose": lambda x, y: anp.where(x > y, x, y),
}
steps = st.one_of(
    st.tuples(st.sampled_from(sorted(UNARY)), st.integers(0, 9)),
    st.tuples(st.sampled_from([str(order) for order in ORDERS]), st.integers(0, 9)),
    st.tuples(st.sampled_from(sorted(BINARY)), st.integers(0, 9), st.integers(0, 9)),
)


def build(steps):
    """A function that applies each step to earlier values and returns the last."""

    def function(x, y):
        values = [x, y]
        for name, *sources in steps:
            operands = [values[-1 - number % len(values)] for number in sources]
            values.append({**UNARY, **BINARY}[name](*operands))
        return values[-1], values[len(values) // 2]

    return function


@settings(max_examples=100, deadline=None)
@given(steps=st.lists(steps, min_size=2, max_size=14))
def test_random_graphs_keep_their_meaning_and_have_no_more_transposes(model, steps):
    with np.errstate(all="ignore"):
        graph = model(build(steps), "f64[3, 3, 3]", "f64[3, 3, 3]")
        graph.run("simplify", "cse", "simplify", "cse")
        before = graph.ops.count("transpose")
        graph.keeps_meaning_under("sink-transposes")
        graph.keeps_meaning_under("simplify", "cse")
        assert graph.module.operation.verify()
        assert graph.ops.count("transpose") <= before
        graph.run("sink-transposes", "simplify", "cse")
        assert not graph.run("sink-transposes")
