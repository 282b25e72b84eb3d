"""fold-scales: factors and terms of features go into the weights of products."""

import numpy as np
import pytest

import aotc
import aotc.numpy as anp
from aotc import nn
from aotc.dialects.functions.functions import functions_of
from aotc.mlir import ir

IMAGE, KERNEL, VECTOR = "f32[n, 5, 4, 6]", "f32[3, 2, 6, 8]", "f32[8]"


@pytest.fixture
def entry(model):
    """A model whose arguments but the first few are weights."""

    def make(function, *types, inputs=1, kind="weight"):
        made = model(function, *types, symbols=("n",))
        with made.module.context:
            rows = [
                ir.DictAttr.get(
                    {"graph.kind": ir.StringAttr.get("input" if i < inputs else kind)}
                )
                for i in range(len(types))
            ]
            functions_of(made.module)["f"].attributes["arg_attrs"] = ir.ArrayAttr.get(
                rows
            )
        made.run("inline", "simplify", "cse", "simplify")
        return made

    return make


def on_images(made):
    """The ops that take a result of symbolic shape, but for broadcasts."""
    block = functions_of(made.module)["f"].entry_block
    return [
        op.operation.name.removeprefix("graph.")
        for op in list(block.operations)[:-1]
        if op.operation.name != "graph.broadcast" and "?" in str(op.results[0].type)
    ]


def conv(x, kernel, **options):
    return nn.conv2d(x, kernel, padding="SAME", **options)


def normalized(y, mean, variance, scale, bias):
    return (y - mean) * anp.rsqrt(variance + 1e-5) * scale + bias


@pytest.mark.parametrize(
    ("function", "types"),
    [
        (lambda x, w, *v: normalized(conv(x, w), *v), [KERNEL, *[VECTOR] * 4]),
        (lambda x, w, a, b: conv(x, w) * a + b, [KERNEL, VECTOR, VECTOR]),
        (lambda x, w, a, b: b - (conv(x, w) - a) / 3.0, [KERNEL, VECTOR, VECTOR]),
        (lambda x, w, a, b: conv(x, w) + a + b, [KERNEL, VECTOR, VECTOR]),
        (lambda x, w, a, b: (a - conv(x, w)) * b, [KERNEL, VECTOR, VECTOR]),
        (lambda x, w, a: anp.tanh(a) / 2.0 * conv(x, w) + 1.0, [KERNEL, VECTOR]),
        (
            lambda x, w, a, b: conv(x, w, groups=2) * a + b,
            ["f32[3, 2, 3, 8]", VECTOR, VECTOR],
        ),
    ],
)
def test_a_convolution_is_followed_by_one_sum(entry, function, types):
    made = entry(lambda *given: nn.relu(function(*given)), IMAGE, *types)
    made.keeps_meaning_under("fold-scales", "simplify", "cse")
    assert on_images(made) == ["conv_general", "add", "relu"]
    assert not made.run("fold-scales")


@pytest.mark.parametrize(
    ("function", "types"),
    [
        (lambda x, w, a, b: (x @ w) * a + b, ["f32[6, 8]", VECTOR, VECTOR]),
        (lambda x, w, a, b: (x @ w.T) * a + b, ["f32[8, 6]", VECTOR, VECTOR]),
        (
            lambda x, w, a, b: anp.einsum("nhwc,cij->nhwij", x, w) * a + b,
            ["f32[6, 2, 8]", "f32[2, 8]", "f32[2, 1]"],
        ),
        (
            lambda x, w, a, b: (
                anp.einsum("nhwc,iwc->wnhi", x, w) * a[:, None, None] + b
            ),
            ["f32[3, 4, 6]", "f32[4, 3]", "f32[3]"],
        ),
    ],
)
def test_a_product_is_followed_by_one_sum(entry, function, types):
    def shaped(x, w, a, b):
        return function(x, w, a[:, None] if w.ndim == 3 and a.ndim == 1 else a, b)

    made = entry(shaped, IMAGE, *types)
    made.keeps_meaning_under("fold-scales", "simplify", "cse")
    assert on_images(made)[-2:] == ["dot_general", "add"]
    assert "multiply" not in on_images(made)


def test_a_factor_on_the_left_of_a_product_is_folded_too(entry):
    def function(x, w, a):
        return (w @ x) * a[:, None]

    made = entry(function, "f32[6, n]", "f32[8, 6]", VECTOR)
    made.keeps_meaning_under("fold-scales", "simplify")
    assert on_images(made) == ["dot_general"]


def test_one_term_stays_what_it_is(entry):
    made = entry(lambda x, w, b: nn.relu(conv(x, w) + b), IMAGE, KERNEL, VECTOR)
    assert not made.run("fold-scales")


def _two_readers(x, w, a):
    y = conv(x, w)
    return y * a, y


def _shared_kernel(x, w, a):
    return conv(x, w) * a, conv(x + 1.0, w)


@pytest.mark.parametrize(
    ("function", "types"),
    [
        (_two_readers, [KERNEL, VECTOR]),
        (_shared_kernel, [KERNEL, VECTOR]),
        # along the columns of an image
        (lambda x, w, a: conv(x, w) * a, [KERNEL, "f32[4, 1]"]),
        # in a dtype narrower than that of products
        (lambda x, w, a: (x.astype("f16") @ w) * a, ["f16[6, 8]", "f16[8]"]),
        # a factor of the input
        (
            lambda x, w, a: conv(x, w) * x.sum((1, 2))[:, None, None, :1],
            [KERNEL, VECTOR],
        ),
        (lambda x, w, a: a / conv(x, w), [KERNEL, VECTOR]),
    ],
)
def test_leaves_alone(entry, function, types):
    made = entry(function, IMAGE, *types)
    assert not made.run("fold-scales")


@pytest.mark.parametrize("inputs", [2, 3])
def test_nothing_that_is_an_input_is_folded(entry, inputs):
    made = entry(lambda x, w, a: conv(x, w) * a, IMAGE, KERNEL, VECTOR, inputs=inputs)
    assert not made.run("fold-scales")


def test_nothing_that_a_state_decides_is_folded(entry):
    types = [IMAGE, KERNEL, VECTOR]
    made = entry(lambda x, w, a: conv(x, w) * a, *types, kind="state")
    assert not made.run("fold-scales")


def test_a_network_of_channels_first_images_ends_with_sums_alone(entry):
    order, back = (0, 2, 3, 1), (0, 3, 1, 2)

    def layer(x, w, *v):
        y = anp.transpose(
            conv(anp.transpose(x, order), anp.transpose(w, (2, 3, 1, 0))), back
        )
        return nn.relu(normalized(y, *(each[:, None, None] for each in v)))

    def function(x, w1, w2, *v):
        return anp.mean(layer(layer(x, w1, *v[:4]), w2, *v[4:]), (2, 3))

    types = ["f32[n, 6, 5, 4]", "f32[8, 6, 3, 3]", "f32[8, 8, 1, 1]", *[VECTOR] * 8]
    made = entry(function, *types)
    made.keeps_meaning_under(
        "sink-transposes", "simplify", "fold-scales", "simplify", "cse"
    )
    ops = on_images(made)
    layers = ["conv_general", "add", "relu"] * 2
    assert ops[:7] == ["transpose", *layers]
    assert "transpose" not in ops[1:]


def test_a_gradient_by_the_input_keeps_its_meaning(entry):
    def loss(x, w, a):
        return anp.sum(anp.sin(conv(x, w) * a))

    made = entry(aotc.grad(loss), IMAGE, KERNEL, VECTOR)
    made.run("autodiff", "inline", "simplify", "cse")
    made.keeps_meaning_under("fold-scales", "simplify", "cse")


def test_weights_alone_are_left_to_the_build(entry):
    made = entry(lambda x, w, a: x + (w @ w.T) * a, "f32[8]", "f32[8, 8]", VECTOR)
    assert not made.run("fold-scales")


def test_scales_that_are_large_and_small_cancel_before_they_meet_images(entry):
    function = lambda x, w, a: conv(x, w) * (a * 1e30) / 1e30  # noqa: E731
    made = entry(function, IMAGE, KERNEL, VECTOR)
    made.keeps_meaning_under("fold-scales", "simplify")
    assert np.isfinite(made(*made.inputs())[0]).all()
