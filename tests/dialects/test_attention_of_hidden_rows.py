"""Derivatives of attention where a finite bias hides whole rows, as of a padding."""

import numpy as np
import pytest

import aotc
import aotc.numpy as anp
from aotc import nn

BATCH, LENGTH, HEADS, DEPTH = 2, 7, 2, 4
RNG = np.random.default_rng(6)
QUERY, KEY, VALUE = RNG.normal(size=(3, BATCH, LENGTH, HEADS, DEPTH)).astype("f4")
PADDING = (
    np.arange(LENGTH) < 3
)  # on the left: with a causal mask, rows see nothing else


def loss(query, key, value, bias, is_causal):
    return anp.sum(
        anp.sin(nn.attention(query, key, value, bias=bias, causal=is_causal))
    )


def gradients(query, key, value, bias, is_causal):
    """The gradients in f64, by a softmax of scores."""
    q, k, v = (np.swapaxes(x.astype("f8"), 1, 2) for x in (query, key, value))
    scores = (q @ np.swapaxes(k, 2, 3) / DEPTH**0.5).astype("f4") + bias
    scores = scores.astype("f8")  # a hidden one is that bias
    if is_causal:
        scores = np.where(np.tri(LENGTH) == 1, scores, -np.inf)
    p = np.exp(scores - scores.max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)
    y = p @ v
    dy = np.cos(y)
    dp = dy @ np.swapaxes(v, 2, 3)
    ds = p * (dp - (dy * y).sum(-1, keepdims=True)) / DEPTH**0.5
    found = ds @ k, np.swapaxes(ds, 2, 3) @ q, np.swapaxes(p, 2, 3) @ dy
    return [np.swapaxes(x, 1, 2) for x in found]


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("hidden", [-1e9, np.finfo("f4").min, -1e4])
def test_a_row_that_is_hidden_by_numbers_has_the_gradient_of_its_mean(
    hidden, is_causal
):
    bias = np.zeros((BATCH, 1, LENGTH, LENGTH), "f4")
    bias[..., PADDING] = hidden
    bias[0, :, 4] = hidden

    grad = aotc.grad(lambda *x: loss(*x, bias, is_causal), argnums=(0, 1, 2))
    found = grad(QUERY, KEY, VALUE)
    expected = gradients(QUERY, KEY, VALUE, bias, is_causal)
    for mine, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(np.asarray(mine), theirs, rtol=2e-3, atol=2e-4)


def in_parts(query, key, value, seen, hidden):
    q, k, v = (anp.swapaxes(x, 1, 2) for x in (query, key, value))
    scores = q @ anp.swapaxes(k, 2, 3) / query.shape[-1] ** 0.5
    p = nn.softmax(anp.where(seen, scores, hidden))
    return anp.swapaxes(p @ v, 1, 2)


@pytest.mark.parametrize("mask", ["rows", "rows and later positions", "a padding"])
def test_compiled_gradients_beside_rows_that_see_nothing_are_the_reference(mask):
    rng = np.random.default_rng(8)
    query, dy = rng.normal(size=(2, 2, 40, 2, 16)).astype("f4")
    key, value = rng.normal(size=(2, 2, 24, 2, 16)).astype("f4")
    seen = np.ones((2, 1, 40, 24), bool)
    if mask == "a padding":
        seen[1] = False  # the first batch alone has gradients of its values
    else:
        seen[0, :, 3:5] = False
    if mask == "rows and later positions":
        seen &= np.tri(40, 24, dtype=bool)

    def gradients(query, key, value, dy, seen):
        def loss(*x):
            return anp.sum(in_parts(*x, seen, -np.inf) * dy)

        return aotc.grad(loss, argnums=(0, 1, 2))(query, key, value)

    given = query, key, value, dy, seen
    found = aotc.jit(gradients)(*given)
    expected = [np.asarray(x) for x in gradients(*given)]
    assert np.isfinite(expected[0]).all()
    assert np.isfinite(expected[1]).all()
    assert np.isnan(expected[2]).any()
    for mine, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=2e-4, atol=2e-5)
