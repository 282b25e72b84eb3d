"""simplify: neutral elements, constants, inverse pairs, unused ops."""

import numpy as np
import pytest

import aotc.numpy as anp
from aotc.frontends.tracing import emit


@pytest.mark.parametrize(
    ("function", "left"),
    [
        (lambda x: x * 1.0, []),
        (lambda x: x + 0.0, []),
        (lambda x: x - 0.0, []),
        (lambda x: x / 1.0, []),
        (lambda x: anp.negative(-x), []),
        (lambda x: anp.transpose(anp.transpose(x)), []),
        (lambda x: anp.reshape(anp.reshape(x, (12,)), (3, 4)), []),
        (lambda x: x.astype("f32"), []),
        (lambda x: (x.sum(), x)[1], []),
        (lambda x: x * -1.0, ["negate"]),
    ],
)
def test_fires_on(model, function, left):
    small = model(function, "f32[3, 4]")
    small.keeps_meaning_under("simplify")
    assert small.ops == left


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x * 2.0,
        lambda x: 1.0 - x,
        lambda x: 1.0 / x,
        lambda x: anp.transpose(x) + 1.0,
        lambda x: x.astype("f64"),
    ],
)
def test_leaves_alone(model, function):
    small = model(function, "f32[4, 4]")
    small.run("simplify")
    before = small.ops
    assert not small.run("simplify")
    assert small.ops == before != []


@pytest.mark.parametrize(("size", "left"), [(3, []), (300, ["exp"])])
def test_evaluates_small_constants_only(model, size, left):
    folded = model(lambda x: x + anp.exp(np.ones(size, "f")), f"f32[{size}]")
    folded.keeps_meaning_under("simplify")
    assert folded.ops == ["constant", *left, "add"]


def test_a_padding_of_symbolic_size_is_not_taken_for_nothing(model):
    def function(x, y):
        return anp.concatenate([x, y], 0)[:, 1:]

    pads = model(function, "f32[n, 4]", "f32[m, 4]", symbols=("n", "m"))
    pads.keeps_meaning_under("simplify")


def test_a_padding_that_cuts_becomes_a_slice(model):
    def function(x):
        return emit("pad", x, low=(-1,), high=(2,), interior=(0,), value=5.0)

    cut = model(function, "f32[6]")
    cut.keeps_meaning_under("simplify")
    assert cut.ops == ["slice", "pad"]


def test_is_idempotent(model):
    mixed = model(
        lambda x: anp.exp(x * 1.0) + (2.0 + x * 0.5), "f32[n]", symbols=("n",)
    )
    assert mixed.run("simplify")
    assert not mixed.run("simplify")
