"""Products, convolutions and rows as GPU kernels have them, of many shapes and dtypes.

A model file, which the tests beside it trace.
"""

import aotc
import aotc.numpy as np
from aotc import nn
from aotc.numpy.products import dot_general

# dtype, what is summed up, shapes of both operands
PRODUCTS = {
    "square": ("f32", "mk,kn->mn", (64, 64), (64, 64)),
    "remainders": ("f32", "mk,kn->mn", (49, 37), (37, 100)),
    "halves": ("f16", "mk,kn->mn", (130, 72), (72, 200)),
    "brains": ("bf16", "mk,kn->mn", (33, 160), (160, 40)),
    "bytes": ("i8", "mk,kn->mn", (40, 70), (70, 48)),
    "left_by_columns": ("f32", "km,kn->mn", (300, 49), (300, 40)),
    "right_by_rows": ("f16", "mk,nk->mn", (64, 64), (128, 64)),
    "one_row": ("f32", "mk,kn->mn", (1, 300), (300, 200)),
    "one_row_of_rows": ("bf16", "mk,nk->mn", (1, 300), (200, 300)),
    "over_two_axes": ("bf16", "abm,abn->mn", (4, 8, 30), (4, 8, 50)),
    "batch": ("f16", "bmk,bkn->bmn", (5, 20, 24), (5, 24, 40)),
    "scores": ("f32", "bqhd,bkhd->bhqk", (2, 30, 3, 16), (2, 17, 3, 16)),
    "symbolic": ("f32", "mk,kn->mn", ("m", "k"), ("k", 24)),
    "symbolic_batch": ("bf16", "bmk,bkn->bmn", ("b", "m", 24), ("b", 24, "n")),
}
# x, kernel, strides, padding, dilation, groups
CONVOLUTIONS = {
    "same": ((2, 14, 13, 16), (3, 3, 16, 32), (1, 1), "SAME", (1, 1), 1),
    "stem": ((1, 15, 13, 3), (7, 7, 3, 24), (2, 2), "SAME", (1, 1), 1),
    "pixels": ((2, 9, 10, 7), (1, 1, 7, 33), (1, 1), "VALID", (1, 1), 1),
    "dilated": ((1, 20, 20, 6), (3, 3, 6, 17), (1, 1), "SAME", (2, 2), 1),
    "groups": ((1, 9, 8, 32), (3, 3, 16, 40), (1, 1), "SAME", (1, 1), 2),
    "depthwise": ((1, 9, 8, 24), (3, 3, 1, 24), (1, 1), "SAME", (1, 1), 24),
    "images": (("n", 7, 6, 5), (3, 2, 5, 18), (1, 1), "SAME", (1, 1), 1),
}
# dtype, q, k and v (batch, length, heads, depth), and how
ATTENTION = {
    "plain": ("f32", (2, 70, 3, 16), (2, 70, 3, 16), {}),
    "brains": ("bf16", (1, 130, 2, 64), (1, 130, 2, 64), {}),
    "causal": ("f16", (2, 100, 2, 32), (2, 100, 2, 32), {"causal": True}),
    "grouped": ("f32", (1, 33, 6, 24), (1, 50, 2, 24), {"scale": 0.3}),
    "decoding": ("bf16", (3, 1, 8, 40), (3, "n", 2, 40), {}),
    "symbolic": ("f32", ("b", "n", 2, 16), ("b", "n", 2, 16), {"causal": True}),
    "few_seen": ("f32", (1, 50, 6, 24), (1, 150, 2, 24), {"causal": True}),
    "few_keys": ("bf16", (1, 150, 1, 16), (1, 70, 1, 16), {"causal": True}),
}
LONG = 20000  # columns, which no block has all of


def _product(name):
    dtype, equation, *shapes = PRODUCTS[name]

    def entry(x, y):
        if dtype == "i8":
            return dot_general(x, y, ((1,), (0,)), dtype="i32")
        return np.einsum(equation, x, y)

    entry.__name__ = name
    x, y = (aotc.Spec(shape, dtype) for shape in shapes)
    return aotc.entry(x=x, y=y)(entry)


def _convolution(name):
    x, kernel, strides, padding, dilation, groups = CONVOLUTIONS[name]

    def entry(x, k, b):
        how = {"strides": strides, "padding": padding, "dilation": dilation}
        return nn.relu(nn.conv(x, k, groups=groups, **how) + b)

    entry.__name__ = f"conv_{name}"
    shapes = {"x": x, "k": kernel, "b": kernel[-1:]}
    return aotc.entry(**{key: aotc.Spec(n) for key, n in shapes.items()})(entry)


def _attention(name):
    dtype, queries, keys, how = ATTENTION[name]

    def entry(q, k, v):
        return nn.attention(q, k, v, **how)

    entry.__name__ = f"attention_{name}"
    shapes = {"q": queries, "k": keys, "v": keys}
    return aotc.entry(**{key: aotc.Spec(n, dtype) for key, n in shapes.items()})(entry)


for _name in PRODUCTS:
    globals()[_name] = _product(_name)
for _name in CONVOLUTIONS:
    globals()[f"conv_{_name}"] = _convolution(_name)
for _name in ATTENTION:
    globals()[f"attention_{_name}"] = _attention(_name)


@aotc.entry(x=aotc.Spec(("m", 40)), y=aotc.Spec((40, 72)), b=aotc.Spec((72,)))
def epilogue(x, y, b):
    """Two results, one of which reads the other."""
    total = x @ y + b
    return total, nn.gelu(total) > 0


@aotc.entry(x=aotc.Spec((48, 64)), y=aotc.Spec((64, 40), "i8"), s=aotc.Spec((40,)))
def dequantised(x, y, s):
    """Weights of bytes, which a prologue scales."""
    return x @ (y.astype("f32") * s)


@aotc.entry(x=aotc.Spec((3, LONG)))
def long_softmax(x):
    """Compute a softmax by blocks."""
    return nn.softmax(x)


@aotc.entry(x=aotc.Spec(("n", LONG)))
def long_norm(x):
    """Normalize by blocks, with a symbolic count of rows."""
    return nn.layer_norm(x)


@aotc.entry(x=aotc.Spec((5, "k")))
def symbolic_softmax(x):
    """Compute a softmax of as many columns as a call says."""
    return nn.softmax(x * 2)


@aotc.entry(x=aotc.Spec((7, 50, 40)))
def turned(x):
    """Tiles that turn rows into columns."""
    return np.transpose(nn.relu(x), (0, 2, 1)) * 2


@aotc.entry(x=aotc.Spec(("n", 30)), y=aotc.Spec(("n", 18)))
def joined(x, y):
    """Parts of one result, of their own sizes."""
    return np.concatenate([np.exp(x), y], axis=1)


@aotc.entry(
    q=aotc.Spec((2, 20, 2, 16)),
    k=aotc.Spec((2, 45, 2, 16)),
    v=aotc.Spec((2, 45, 2, 16)),
    seen=aotc.Spec((2, 1, 20, 45), "bool"),
)
def masked(q, k, v, seen):
    """Rows of which some see nothing, in the order that a projection reads."""
    y = nn.attention(q, k, v, mask=seen & (np.arange(20) > 2)[:, None])
    return np.reshape(y, (2, 20, 32)) * 2


@aotc.entry(
    x=aotc.Spec((100, 40), "bf16"),
    w=aotc.Spec((40, 200), "bf16"),
    b=aotc.Spec((200,), "bf16"),
    dy=aotc.Spec((100, 200), "bf16"),
)
def gelu_and_slope(x, w, b, dy):
    """A gelu by a tanh, and what its derivative makes of a cotangent."""
    h = x @ w + b
    t = np.tanh(0.8 * (h + 0.045 * h**3))
    slope = 0.5 * (1 + t) + 0.4 * h * (1 - t * t) * (1 + 0.135 * h * h)
    return 0.5 * h * (1 + t), dy * slope
