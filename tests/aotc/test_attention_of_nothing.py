"""Attention and softmax along axes without elements: a sum over nothing is 0."""

import numpy as np
import pytest

import aotc
import aotc.numpy as anp
from aotc import nn

RNG = np.random.default_rng(3)
SIZES = {  # batch, length, positions, heads, depth, width
    "no keys": (2, 3, 0, 2, 4, 5),
    "no queries": (2, 0, 3, 2, 4, 5),
    "no depth": (2, 3, 4, 2, 0, 5),
    "no width": (2, 3, 4, 2, 4, 0),
    "no batches": (0, 3, 4, 2, 4, 5),
    "one of each": (1, 1, 1, 1, 1, 1),
}


def drawn(batch, length, positions, heads, depth, width):
    shapes = [
        (batch, length, heads, depth),
        (batch, positions, heads, depth),
        (batch, positions, heads, width),
    ]
    return [RNG.normal(size=shape).astype("f4") for shape in shapes]


def expected(q, k, v):
    """Attention in f64, where a softmax of nothing is nothing."""
    q, k, v = (np.swapaxes(x.astype("f8"), 1, 2) for x in (q, k, v))
    scores = q @ np.swapaxes(k, 2, 3) / max(q.shape[-1], 1) ** 0.5
    e = np.exp(scores - scores.max(-1, keepdims=True, initial=-np.inf))
    return np.swapaxes(e / e.sum(-1, keepdims=True) @ v, 1, 2)


def in_parts(q, k, v):
    q, k, v = (anp.swapaxes(x, 1, 2) for x in (q, k, v))
    scores = q @ anp.swapaxes(k, 2, 3) / max(q.shape[-1], 1) ** 0.5
    return anp.swapaxes(nn.softmax(scores) @ v, 1, 2)


WAYS = {
    "the function": nn.attention,
    "causal": lambda q, k, v: nn.attention(q, k, v, causal=True),
    "in parts": in_parts,
}


def results(way, q, k, v):
    y = way(q, k, v)
    slopes = aotc.grad(lambda *x: anp.sum(anp.sin(way(*x))), argnums=(0, 1, 2))
    return y, *slopes(q, k, v)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("sizes", SIZES)
def test_compiled_attention_and_its_gradient_are_the_reference(sizes, way):
    given = drawn(*SIZES[sizes])

    def function(q, k, v):
        return results(WAYS[way], q, k, v)

    found = aotc.jit(function, dynamic="never")(*given)
    executed = function(*given)
    for mine, theirs in zip(found, executed, strict=True):
        np.testing.assert_allclose(mine, np.asarray(theirs), rtol=1e-4, atol=1e-5)
    if way != "causal":
        np.testing.assert_allclose(found[0], expected(*given), rtol=1e-4, atol=1e-5)
    if sizes == "no keys":
        assert not np.any(found[0])
        assert not np.any(found[1])


@pytest.mark.parametrize("masked", ["mask", "bias"])
def test_nothing_is_hidden_where_there_are_no_keys(masked):
    q, k, v = drawn(*SIZES["no keys"])
    nothing = np.ones((2, 2, 3, 0), bool if masked == "mask" else "f4")

    def function(q, k, v, nothing):
        return nn.attention(q, k, v, **{masked: nothing})

    found = aotc.jit(function, dynamic="never")(q, k, v, nothing)
    np.testing.assert_array_equal(found, np.zeros((2, 3, 2, 5), "f4"))


@pytest.mark.parametrize("function", [nn.softmax, nn.log_softmax])
@pytest.mark.parametrize("dtype", ["f4", "f2"])
def test_softmax_of_nothing_is_nothing(function, dtype):
    x = np.ones((2, 0), dtype)

    def both(x):
        return function(x), aotc.grad(lambda x: anp.sum(function(x) ** 2))(x)

    for found in aotc.jit(both, dynamic="never")(x):
        assert found.shape == (2, 0)
