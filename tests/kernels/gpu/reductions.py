"""Entries of sums of many elements with few results, which GPUs compute in parts, and
of products that they compute together.

A model file, which the tests beside it build.
"""

import numpy

import aotc
import aotc.numpy as np
from aotc import nn

DEPTH, WIDTH, BLOCK = 1024, 48, 32
rng = numpy.random.default_rng(0)


def quantized(bits):
    most = 2 ** (bits - 1) - 1
    data = rng.integers(-most, most + 1, (WIDTH, DEPTH), "i1")
    scale = rng.uniform(0.01, 0.02, (WIDTH, DEPTH // BLOCK)).astype("f2")
    return nn.QuantizedWeights(data, scale, axis=1, block=BLOCK, bits=bits)


weights = aotc.Weights(
    {
        "dense": rng.normal(size=(DEPTH, WIDTH)).astype("f4"),
        "bytes": quantized(8),
        "nibbles": quantized(4),
        **{
            name: rng.normal(size=(40, width)).astype("f4")
            for name, width in (("query", 48), ("key", 24), ("value", 24))
        },
        "packed": (0.2 * rng.normal(size=(40, 96))).astype("f4"),
        "kernel": rng.normal(size=(3, 3, 4, 8)).astype("f4"),
    }
)


@aotc.entry(x=aotc.Spec((5, DEPTH)), b=aotc.Spec((WIDTH,)))
def few_rows(weights, x, b):
    """A product of few rows, and what follows it."""
    return nn.relu(x @ weights["dense"] + b)


@aotc.entry(x=aotc.Spec((1, DEPTH)))
def one_row(weights, x):
    """A product of one row."""
    return x @ weights["dense"]


@aotc.entry(x=aotc.Spec((5, DEPTH), "bf16"), y=aotc.Spec((DEPTH, WIDTH), "bf16"))
def halves(x, y):
    """Sums of parts are kept in f32."""
    return x @ y


@aotc.entry(x=aotc.Spec((5, DEPTH)))
def few_rows_by_bytes(weights, x):
    """A weight of bytes, of which the kernel makes floats."""
    return weights["bytes"].linear(x)


@aotc.entry(x=aotc.Spec((1, DEPTH)))
def one_row_by_nibbles(weights, x):
    """A weight of four bits."""
    return nn.silu(weights["nibbles"].linear(x))


@aotc.entry(x=aotc.Spec(("n", DEPTH)))
def rows_by_bytes(weights, x):
    """Reduce as many rows as a call has."""
    return weights["bytes"].linear(x)


@aotc.entry(x=aotc.Spec((2048, WIDTH)))
def column_sums(x):
    """The gradient of a bias."""
    return np.sum(x, 0), np.max(np.tanh(x), 0)


@aotc.entry(x=aotc.Spec((16, 8, 8, 4)))
def batch_norm(weights, x):
    """Statistics over a batch, and their derivative."""

    def loss(kernel):
        h = nn.conv2d(x, kernel, padding="SAME")
        mean = h.mean((0, 1, 2))
        h = (h - mean) / np.sqrt(((h - mean) ** 2).mean((0, 1, 2)) + 1e-3)
        return (nn.relu(h) ** 2).mean()

    return aotc.value_and_grad(loss)(weights["kernel"])


@aotc.entry(
    x=aotc.Spec((8, 12, 12, 16)),
    known=(aotc.Spec((16,)), aotc.Spec((16,))),
    learned=(aotc.Spec((16,)), aotc.Spec((16,))),
)
def trained_norm(weights, x, known, learned):
    """A batch norm in training: statistics that are kept, and the sums of gradients."""

    def loss(x, scale, bias):
        y, *kept = nn.batch_norm_training(x, *known, scale, bias)
        return (nn.relu(y + x) ** 3).mean(), kept

    return aotc.value_and_grad(loss, (0, 1, 2), has_aux=True)(x, *learned)


@aotc.entry(x=aotc.Spec((9, 20, 7, 32), "bf16"))
def norm_of_halves(x):
    """Statistics of bf16 are f32."""
    y, mean, variance = nn.batch_norm_training(x, np.zeros(32), np.ones(32))
    return nn.relu(y), mean, variance


@aotc.entry(x=aotc.Spec((64, 24, 24, 24)))
def channels_first(x):
    """A norm over the first axis and others that do not follow it, of equal sizes."""
    mean = x.mean((0, 2, 3), keepdims=True)
    return (x - mean) / np.sqrt(((x - mean) ** 2).mean((0, 2, 3), keepdims=True) + 1e-3)


@aotc.entry(x=aotc.Spec((512, WIDTH)))
def whole_sum(x):
    """Sum up all that there is."""
    return np.sum(x * x)


@aotc.entry(x=aotc.Spec((64, 96)), w=aotc.Spec((96, 80)), u=aotc.Spec((80, 64)))
def masked(x, w, u):
    """Products between which elements are chosen, and their derivatives."""

    def loss(w, u):
        h = nn.relu(x @ w)
        return (np.where(h > 1, h, 0.5 * h) @ u).sum()

    return aotc.grad(loss, (0, 1))(w, u)


@aotc.entry(x=aotc.Spec((64, 40)), w=aotc.Spec((40, 96)), u=aotc.Spec((48, 24)))
def parts_of_a_product(x, w, u):
    """Columns of a product that others read, of which one is of every second column."""
    h = x @ w
    return h[:, :48] @ u + h[:, 48:] @ u, h[:, ::2] @ u


@aotc.entry(x=aotc.Spec(("n", 40)), b=aotc.Spec((48,)))
def side_by_side(weights, x, b):
    """Three products of one operand, of other widths and with ops of their own."""
    q, k, v = (x @ weights[name] for name in ("query", "key", "value"))
    return nn.relu(q + b), k, 2 * v, 3 * v


@aotc.entry(x=aotc.Spec(("n", 21, 40)))
def packed(weights, x):
    """A query, a key and a value that are columns of one product."""
    h = x @ weights["packed"]
    shape = (x.shape[0], 21, 2, 16)
    q, k, v = (np.reshape(h[..., n : n + 32], shape) for n in (0, 32, 64))
    return nn.attention(q, k, v, causal=True)


@aotc.entry(
    q=aotc.Spec((2, 1, 4, 16)),
    k=aotc.Spec((2, 200, 2, 16)),
    v=aotc.Spec((2, 200, 2, 24)),
    shown=aotc.Spec((2, 1, 1, 200)),
)
def decoding(q, k, v, shown):
    """A query of each head by a long cache, of which a batch sees nothing."""
    some = (np.arange(2) > 0)[:, None, None, None]
    return nn.attention(q, k, v, mask=some & (shown > 0))


@aotc.entry(
    q=aotc.Spec((1, 2, 8, 16), "bf16"),
    k=aotc.Spec((1, "n", 2, 16), "bf16"),
    bias=aotc.Spec((1, 8, 2, "n"), "bf16"),
)
def decoding_halves(q, k, bias):
    """Two queries of heads that share keys, of which there are any number."""
    return nn.attention(q, k, k, bias=bias)


@aotc.entry(q=aotc.Spec((70, 1, 2, 16)), k=aotc.Spec((70, 200, 2, 16)))
def decoding_batch(q, k):
    """Reduce as many heads as fill a chip."""
    return nn.attention(q, k, k)


@aotc.entry(q=aotc.Spec((1, 1, 2, 16)), k=aotc.Spec((1, 200, 2, 16)))
def decoding_derivative(q, k):
    """A derivative, which reads the logarithms of sums."""
    return aotc.grad(lambda q: nn.attention(q, k, k).sum())(q)


@aotc.entry(x=aotc.Spec((1, 40)), y=aotc.Spec((128, 40)), w=aotc.Spec((40, 40)))
def read_by_a_product(x, y, w):
    """A sum of what a product reads as well, and IREE's code makes before both."""
    z = np.pad(x, ((0, 127), (0, 0))) + y
    return z @ w, z.sum(0)


@aotc.entry(scores=aotc.Spec((16, 300)), labels=aotc.Spec((16,), "i32"))
def cross_entropy(scores, labels):
    """A sum of rows that are chosen by labels, which it sees in another shape."""
    return nn.cross_entropy(scores, labels)
