"""Products, windows and attention of which calls decide how many there are.

A model file, which the tests beside it build.
"""

import numpy as onp

import aotc
import aotc.numpy as np
from aotc import nn

_rng = onp.random.default_rng(0)


def _normal(*shape):
    return _rng.normal(size=shape).astype("f")


w = aotc.Weights(
    {
        "product": _normal(37, 100),
        "bias": _normal(100),
        "deep": _normal(512, 600),
        "kernel": _normal(3, 3, 16, 24),
        "pointwise": _normal(1, 1, 16, 40),
        "depthwise": _normal(3, 3, 1, 24),
        "heads": _normal(32, 3, 2, 16),
        "joined": [_normal(37, 100), _normal(37, 24)],
        "gate": [_normal(37, 100), _normal(37, 100)],
    }
)
images = aotc.Spec(("batch", 9, 7, 16))


@aotc.entry(x=aotc.Spec(("batch", 37)), y=aotc.Spec(("batch", 100)))
def rows(w, x, y):
    """The sums and what follows them, with an operand of as many rows."""
    total = x @ w["product"]
    return total, nn.relu(total + w["bias"]) * y


@aotc.entry(x=aotc.Spec(("batch", "length", 37)))
def rows_of_two_sizes(w, x):
    """Multiply as many rows as two sizes say; another entry has other symbols."""
    return np.tanh(x @ w["product"])


@aotc.entry(x=aotc.Spec(("batch", "length", 37)), y=aotc.Spec(("batch", "length", 100)))
def joined_rows(w, x, y):
    """Products of the same rows, one with an operand of as many."""
    first, second = w["joined"]
    return nn.relu(x @ first) + y, x @ second


@aotc.entry(x=aotc.Spec(("length", "batch", 3, 37)))
def rows_of_other_order(w, x):
    """Multiply rows of sizes with these names, the other way round."""
    return np.tanh(x @ w["product"])


_steps = aotc.Dim("steps", min=8, multiple_of=8)


@aotc.entry(x=aotc.Spec((_steps + 1, 37)))
def rows_of_an_expression(w, x):
    """A size that is made of a symbol, which has steps."""
    return nn.relu(x @ w["product"])


_any = aotc.Dim("any", min=0, max=4000)


@aotc.entry(x=aotc.Spec((_any, 37)))
def rows_or_none(w, x):
    """Multiply rows of which there may be none at all."""
    return nn.relu(x @ w["product"])


@aotc.entry(x=aotc.Spec(("batch", 512)))
def panels_fetched_ahead(w, x):
    """A large weight."""
    return nn.gelu(x @ w["deep"])


@aotc.entry(x=images)
def convolution(w, x):
    """Padded windows, with steps."""
    y = nn.conv(x, w["kernel"], strides=(2, 1), padding=((1, 1), (1, 1)))
    return nn.relu(y), y.mean(axis=(1, 2))


@aotc.entry(x=images)
def pixels(w, x):
    """A product of all pixels of all images."""
    return nn.relu(nn.conv(x, w["pointwise"]))


@aotc.entry(x=aotc.Spec(("batch", 9, 7, 24)))
def channels(w, x):
    """Windows of one channel."""
    y = nn.conv(x, w["depthwise"], padding=((1, 1), (1, 1)), groups=24)
    return nn.relu(y) + x


@aotc.entry(x=aotc.Spec(("batch", 20, 14, 64)))
def pools(x):
    """The greatest of a window."""
    return nn.max_pool(x, (2, 2), (2, 2))


@aotc.entry(x=aotc.Spec(("batch", 33, 32)), mask=aotc.Spec(("batch", 1, 1, 33)))
def attention(w, x, mask):
    """Heads of as many batches, with a bias of each."""
    q, k, v = (np.einsum("bld,dhk->blhk", x, w["heads"][:, i]) for i in range(3))
    return nn.attention(q, k, v, bias=mask)


@aotc.entry(
    x=aotc.Spec(("batch", 1, 2, 16)),
    cache=aotc.Spec(("batch", 40, 2, 16)),
    mask=aotc.Spec(("batch", 1, 1, 40)),
)
def one_query(x, cache, mask):
    """A step of a decoder."""
    return nn.attention(x, cache, cache + 1.0, bias=mask)


@aotc.entry(
    x=aotc.Spec(("batch", 1, 4, 16)),
    cache=aotc.Spec(("batch", "length", 2, 16)),
    mask=aotc.Spec(("batch", 1, 1, "length")),
)
def one_query_of_any_cache(w, x, cache, mask):
    """A step of a decoder that is given what came before."""
    return nn.attention(x, cache, cache + 1.0, bias=mask)


_any_tokens = aotc.Spec(("batch", "length", 2, 24))


@aotc.entry(x=_any_tokens, mask=aotc.Spec(("batch", 1, 1, "length")))
def encoder(x, mask):
    """Any number of tokens, with a bias of each."""
    return nn.attention(x, x * 0.5, x + 1.0, bias=mask)


@aotc.entry(x=_any_tokens)
def decoder(x):
    """Any number of tokens that see those before them."""
    return nn.attention(x, x * 0.5, x + 1.0, causal=True)


@aotc.entry(
    x=_any_tokens,
    y=aotc.Spec(("batch", "others", 1, 24)),
    scores=aotc.Spec((1, 2, "length", "others")),
)
def two_lengths(x, y, scores):
    """Tokens that see others, with a bias of each pair, and heads that share keys."""
    return nn.attention(x, y * 0.5, y + 1.0, bias=scores)


@aotc.entry(
    x=_any_tokens,
    y=aotc.Spec(("batch", "others", 1, 24)),
    scores=aotc.Spec((1, 2, "length", "others")),
)
def gradient_of_two_lengths(x, y, scores):
    """Differentiate the attention of tokens that see some of others, by a loss."""

    def loss(q, k, v):
        bias = np.tanh(scores)  # of numbers that are known to be small
        seen = np.sum(np.sin(nn.attention(q, k, v, bias=bias, causal=True)))
        return seen + np.sum(q) + np.sum(k)  # of one position nothing else is left

    return aotc.grad(loss, argnums=(0, 1, 2))(x, y * 0.5, y + 1.0)


@aotc.entry(x=aotc.Spec((_any, 40)), y=aotc.Spec((_any, 24)))
def terms(x, y):
    """Add up as many terms as a call has, like the derivative of a layer's weight."""
    return nn.relu(x.T @ y)


@aotc.entry(q=aotc.Spec(("batch", "length", 2, 16)), k=aotc.Spec(("batch", 40, 2, 16)))
def products(q, k):
    """Multiply batches of any count, of any rows and any terms, packed and not."""
    scores = np.einsum("bqhd,bkhd->bhqk", q, k)
    return np.einsum("bhqk,bkhd->bqhd", scores, k), np.einsum(
        "bhqk,bqhd->bhkd", scores, q
    )


@aotc.entry(x=aotc.Spec((_any, 37)))
def gate(w, x):
    """Products side by side, of any number of rows."""
    first, second = w["gate"]
    return nn.silu(x @ first) * (x @ second)
