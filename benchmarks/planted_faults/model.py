"""Small entries: of each family of kernels, and of ops that IREE compiles.

A model file, in whose code faults are planted. Sizes leave rests of vectors, panels,
tiles and blocks.
"""

import numpy as onp

import aotc
import aotc.numpy as np
from aotc import control, nn

S = aotc.Spec
_rng = onp.random.default_rng(0)


def _normal(*shape):
    """Return random normal weights of a shape."""
    return _rng.normal(size=shape).astype("f4")


w = aotc.Weights(
    {
        "product": _normal(37, 100),
        "bias": _normal(100),
        "conv": _normal(3, 3, 8, 20),
        "expand": _normal(1, 1, 24, 144),
        "windows": _normal(3, 3, 1, 144),
        "project": _normal(1, 1, 144, 32),
        "depthwise": _normal(3, 3, 1, 41),
        "table": _normal(3000, 24),
    }
)


# ---- contraction --------------------------------------------------------------------


@aotc.entry(x=S(("n", 37), "f32"))
def product(w, x):
    """Entry: a product with a bias and relu."""
    return nn.relu(x @ w["product"] + w["bias"])


@aotc.entry(x=S((5, 19, 24), "f32"), y=S((5, 24, 21), "f32"))
def batch_of_products(x, y):
    """Entry: a batched product."""
    return x @ y


@aotc.entry(x=S((2, 15, 13, 8), "f32"))
def convolution(w, x):
    """Entry: a strided convolution."""
    padding = ((1, 1), (1, 1))
    return nn.conv2d(x, w["conv"], strides=(2, 2), padding=padding)


# ---- chain, depthwise, pooling ------------------------------------------------------


@aotc.entry(x=S((1, 32, 32, 24), "f32"))
def chain(w, x):
    """Entry: an inverted residual of pointwise and depthwise convolutions."""
    y = np.clip(nn.conv2d(x, w["expand"]), 0.0, 6.0)
    y = nn.conv(y, w["windows"], padding=((1, 1), (1, 1)), groups=144)
    return nn.conv2d(np.clip(y, 0.0, 6.0), w["project"])


@aotc.entry(x=S((2, 9, 10, 41), "f32"))
def depthwise(w, x):
    """Entry: a depthwise convolution."""
    return nn.conv(x, w["depthwise"], padding=((1, 1), (1, 1)), groups=41)


@aotc.entry(x=S((2, 15, 15, 41), "f32"))
def pooling(x):
    """Entry: a max pooling of mostly negative numbers."""
    return nn.max_pool(x - 3.0, (3, 3), (2, 2), ((1, 1), (1, 1)))


@aotc.entry(x=S((2, 8, 8, 64), "f32"))
def pooling_of_nan(x):
    """Entry: a max pooling of numbers that may be NaN."""
    return nn.max_pool(np.log(x), (2, 2), (2, 2))


# ---- attention ----------------------------------------------------------------------


@aotc.entry(
    q=S((2, 1, 4, 16), "f32"),
    k=S((2, 75, 2, 16), "f32"),
    v=S((2, 75, 2, 16), "f32"),
    mask=S((2, 1, 1, 75), "f32"),
)
def decoder(q, k, v, mask):
    """Entry: attention of one query with grouped heads."""
    return nn.attention(q, k, v, bias=mask)


@aotc.entry(
    q=S((1, 45, 4, 16), "f32"),
    k=S((1, 300, 4, 16), "f32"),
    v=S((1, 300, 4, 16), "f32"),
    mask=S((1, 1, 45, 300), "f32"),
)
def attention(q, k, v, mask):
    """Entry: attention with a mask as bias."""
    return nn.attention(q, k, v, bias=mask)


@aotc.entry(q=S((1, 45, 4, 16), "f32"), k=S((1, 45, 4, 16), "f32"))
def causal(q, k):
    """Entry: causal attention."""
    return nn.attention(q, k, k, causal=True)


@aotc.entry(q=S((2, 45, 4, 16), "f32"), k=S((2, 45, 2, 16), "f32"))
def attention_gradient(q, k):
    """Entry: the gradient of causal attention."""

    def loss(q, k):
        return np.sum(np.square(nn.attention(q, k, k, causal=True)))

    return aotc.grad(loss, argnums=(0, 1))(q, k)


# ---- rows, columns, sort ------------------------------------------------------------


@aotc.entry(x=S(("n", 100), "f32"))
def row_max(x):
    """Entry: the maximum of rows of negative numbers."""
    return np.max(-np.square(x) - 1.0, axis=-1)


@aotc.entry(x=S((40, 37), "f32"))
def norm(x):
    """Entry: a layer norm."""
    return nn.layer_norm(x)


@aotc.entry(x=S((3, 9000), "f32"))
def row_sum(x):
    """Entry: the sums of rows."""
    return np.sum(x, axis=-1)


@aotc.entry(x=S((3, 70, 37), "f32"))
def columns(x):
    """Entry: the sums along a middle axis."""
    return np.sum(x, axis=1)


@aotc.entry(x=S((3, 70, 37), "f32"))
def statistics(x):
    """Entry: the mean and variance of a batch norm."""
    return nn.batch_norm_training(x, np.zeros(37), np.ones(37))[1:]


@aotc.entry(x=S((3, 70, 37), "f32"))
def elementwise(x):
    """Entry: a batch norm in training with elementwise ops behind it."""
    y = nn.batch_norm_training(x, np.zeros(37), np.ones(37))[0]
    return np.where(y > 0.5, y, 0.1 * x), np.max(np.exp(y), axis=1)


@aotc.entry(x=S((4, 300), "f32"))
def sort(x):
    """Entry: an argsort of rows."""
    return np.argsort(x)


@aotc.entry(x=S((3, 203), "f32"))
def top(x):
    """Entry: the largest 64 elements of rows."""
    return np.top_k(x, 64)


# ---- movement, quantization, transpose ----------------------------------------------


@aotc.entry(x=S((60, 29), "f32"), y=S((60, 35), "f32"))
def movement(x, y):
    """Entry: a concatenation."""
    return np.concatenate([np.tanh(x), y], axis=1)


@aotc.entry(x=S((60, 41), "f32"))
def quantization(x):
    """Entry: a quantisation to bytes."""
    return np.astype(np.round(np.clip(x / 0.0625, -70.0, 90.0)) + 80.0, "u8")


@aotc.entry(x=S((3, 77, 53), "f32"))
def transpose(x):
    """Entry: a transpose of the last two axes."""
    return np.transpose(x, (0, 2, 1))


@aotc.entry(x=S((2, 53, 37, 3), "f32"))
def transpose_of_few(x):
    """Entry: a transpose of few channels to the front."""
    return np.transpose(x, (0, 3, 1, 2))


# ---- loops --------------------------------------------------------------------------


@aotc.entry(x=S((7, 3, 21), "f32"))
def scan(x):
    """Entry: a scan with an elementwise body."""

    def step(total, x):
        total = 0.5 * total + np.tanh(x)
        return total, total

    return control.scan(step, np.zeros((3, 21)), x)


@aotc.entry(x=S((5, 4, 21), "f32"))
def nests(x):
    """Entry: a scan with a reduction in its body."""

    def step(total, x):
        total = 0.5 * total + x.max(1)[:, None] * x
        return total, np.exp(x - total)

    return control.scan(step, np.zeros((4, 21)), x)


# ---- what IREE compiles -------------------------------------------------------------


@aotc.entry(x=S((3, 7), "f32"))
def rounded(x):
    """Entry: rounding to integers."""
    return np.round(x)


@aotc.entry(x=S((3, 7), "f32"))
def signs(x):
    """Entry: signs, of zeros too."""
    return np.sign(x)


@aotc.entry(x=S((5, 6), "f32"), y=S((5, 6), "f32"))
def at_least(x, y):
    """Entry: a selection by >=."""
    return np.where(x >= y, x, -1.0)


@aotc.entry(x=S((6, 11), "f32"))
def first_of_greatest(x):
    """Entry: an argmax with ties."""
    return np.argmax(x, axis=1)


@aotc.entry(x=S((4, 7), "f32"), y=S((4, 7), "f32"))
def power(x, y):
    """Entry: a power."""
    return np.abs(x) ** y


@aotc.entry(i=S((6,), "i32"))
def rows_of_table(w, i):
    """Entry: a lookup of rows."""
    return w["table"][i]


@aotc.entry(x=S((40,), "f32"), i=S((12,), "i32"), y=S((12,), "f32"))
def added_at(x, i, y):
    """Entry: a scatter that adds."""
    return x.at[i].add(y)


@aotc.entry(x=S((1, 3), "f32"), position=S((), "i32"), cache=S((64, 3), "f32"))
def written_at(x, position, cache):
    """Entry: an update of a cache, masked beyond its position."""
    cache = np.dynamic_update_slice(cache, x, [position, 0])
    seen = np.arange(64) <= position
    return np.where(seen[:, None], cache, 0.0)


@aotc.entry(k=S((9,), "i32"), m=S((9,), "i32"))
def divided(k, m):
    """Entry: a floored integer division."""
    return k // m


@aotc.entry(x=S((3, 8), "f32"))
def inverse(x):
    """Entry: reciprocals, of zeros too."""
    return 1.0 / x


@aotc.entry(x=S((3, 150), "f32"))
def running(x):
    """Entry: cumulative sums of rows."""
    return np.cumsum(x, axis=1)


@aotc.entry(x=S((3, 40), "f32"), seen=S((3, 40), "bool"))
def of_seen(x, seen):
    """Entry: the maximum of masked rows, which may have no element."""
    return np.max(np.where(seen, x, -np.inf), axis=1)


@aotc.entry(x=S((4, 9), "f32"))
def between(x):
    """Entry: a clip."""
    return np.clip(x, -1.0, 0.5)


total = aotc.State({"total": onp.zeros(3, "f4")})


@aotc.entry(x=S((3,), "f32"))
def counted(total, x):
    """Entry: a state that accumulates inputs."""
    total = total["total"] + x
    return {"total": total}, total * 2.0


weights = aotc.State({"w": onp.ones((37, 61), "f4"), "b": onp.ones(61, "f4")})


@aotc.entry(x=S((37, 61), "f32"), y=S((61,), "f32"))
def updated(weights, x, y):
    """Entry: a training step with two states."""
    w, b = weights["w"], weights["b"]
    return {"w": w - 0.1 * x, "b": b * 0.5 + y}, np.sum(y)
