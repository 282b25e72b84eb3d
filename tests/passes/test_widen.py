"""Widened functions compute in f64 what the others compute in their dtypes."""

import numpy as np
import pytest

import aotc
from aotc import control, nn, random
from aotc import numpy as anp
from aotc.core.pytree import flatten
from aotc.dialects.functions.transform import Widened
from aotc.transforms.traced import TracedFunction


def widened(function, checkpoints=True):
    """The function with every float in f64."""

    def transformed(*args):
        traced = TracedFunction("widened", function, *flatten((args, {})))
        results, _ = traced.apply(Widened(traced.body.name, checkpoints), [])
        return tuple(results)

    return transformed


def looping(x, w):
    def step(h, _):
        return anp.tanh(h @ w), h.astype("bf16").sum()

    last, sums = control.scan(step, x, length=3)
    return aotc.checkpoint(lambda h: nn.gelu(h @ w))(last), sums, anp.argmax(x)


@aotc.custom_jvp
def cube(x):
    return x**3


@cube.defjvp
def _(primals, tangents):
    (x,), (dx,) = primals, tangents
    return cube(x), 3 * x * x * dx


@pytest.mark.parametrize(
    "function",
    [
        lambda x, w: (nn.softmax(x @ w) * 0.1, (x > 0.5).sum()),
        looping,
        lambda x, w: (cube(x) @ w,),
        lambda x, w: (nn.dropout(random.key(1), x @ w, 0.5), anp.arange(3.0)),
    ],
)
def test_a_widened_function_has_the_meaning_of_the_other(model, function):
    narrow = model(function, "f32[4, 4]", "f32[4, 4]")
    wide = model(widened(function), "f64[4, 4]", "f64[4, 4]")
    inputs = narrow.inputs()
    for network in (narrow, wide):
        network.run("autodiff", "inline")
    wanted = narrow(*inputs)
    found = wide(*(x.astype("f8") for x in inputs))
    for one, other in zip(found, wanted, strict=True):
        assert one.dtype == ("f8" if other.dtype.kind in "fV" else other.dtype)
        np.testing.assert_allclose(one, other.astype(one.dtype), rtol=2e-2, atol=1e-6)


@pytest.mark.parametrize("checkpoints", [True, False])
def test_checkpoints_stay_unless_they_are_not_wanted(model, checkpoints):
    def gradient(x, w):
        wide = widened(looping, checkpoints)
        return aotc.grad(lambda w: wide(x, w)[0].sum())(w)

    network = model(gradient, "f64[4, 4]", "f64[4, 4]")
    network.run("autodiff", "inline")
    assert ("graph.after" in str(network.module)) == checkpoints
