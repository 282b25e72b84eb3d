"""Kernels of usual shapes: products, convolutions, attention, norms and reductions."""

import aotc
import aotc.numpy as np
from aotc import nn

aotc.bundle(name="kernels", version="1.0.0")


def product(rows, depth, columns, dtype):
    """Return an entry function and its specs: a product with a bias and an
    activation.
    """

    def entry(x, y, b):
        return nn.relu(x @ y + b)

    shapes = {"x": (rows, depth), "y": (depth, columns), "b": (columns,)}
    return entry, {k: aotc.Spec(n, dtype) for k, n in shapes.items()}


def linear(rows, depth, columns, dtype):
    """Return an entry function and its specs: a product by a transposed weight."""

    def entry(x, y, b):
        return nn.relu(np.einsum("rk,ck->rc", x, y) + b)

    shapes = {"x": (rows, depth), "y": (columns, depth), "b": (columns,)}
    return entry, {k: aotc.Spec(n, dtype) for k, n in shapes.items()}


def activated(rows, depth, columns, dtype):
    """Return an entry function and its specs: a product with a costly activation."""

    def entry(x, y, b):
        return nn.gelu(np.einsum("rk,ck->rc", x, y) + b)

    shapes = {"x": (rows, depth), "y": (columns, depth), "b": (columns,)}
    return entry, {k: aotc.Spec(n, dtype) for k, n in shapes.items()}


def convolution(size, window, inputs, outputs, dtype):
    """Return an entry function and its specs: a convolution with bias and
    activation.
    """

    def entry(x, k, b):
        return nn.relu(nn.conv(x, k, padding="SAME") + b)

    shapes = {"x": (8, size, size, inputs), "k": (window, window, inputs, outputs)}
    shapes["b"] = (outputs,)
    return entry, {k: aotc.Spec(n, dtype) for k, n in shapes.items()}


def attention(batch, length, heads, depth, dtype, causal):
    """Return an entry function and its specs: attention of a batch."""

    def entry(q, k, v):
        return nn.attention(q, k, v, causal=causal)

    x = aotc.Spec((batch, length, heads, depth), dtype)
    return entry, {"q": x, "k": x, "v": x}


def rows(function, shape, dtype):
    """Return an entry function and its specs: a function of rows."""

    def entry(x):
        return function(x)

    return entry, {"x": aotc.Spec(shape, dtype)}


_ALL = {
    "large": lambda dtype: product(4096, 4096, 4096, dtype),
    "bert_qkv": lambda dtype: product(1024, 768, 2304, dtype),
    "bert_out": lambda dtype: product(1024, 768, 768, dtype),
    "bert_up": lambda dtype: product(1024, 768, 3072, dtype),
    "bert_down": lambda dtype: product(1024, 3072, 768, dtype),
    "bert_one": lambda dtype: product(128, 768, 3072, dtype),
    "linear_up": lambda dtype: linear(1024, 768, 3072, dtype),
    "gelu_up": lambda dtype: activated(1024, 768, 3072, dtype),
    "decode": lambda dtype: product(1, 4096, 4096, dtype),
    "decode_linear": lambda dtype: linear(1, 4096, 4096, dtype),
    "decode_small": lambda dtype: linear(1, 768, 3072, dtype),
    "resnet_56": lambda dtype: convolution(56, 3, 64, 64, dtype),
    "resnet_14": lambda dtype: convolution(14, 3, 256, 256, dtype),
    "resnet_7": lambda dtype: convolution(7, 3, 512, 512, dtype),
    "resnet_1x1": lambda dtype: convolution(28, 1, 512, 128, dtype),
    "bert_attention": lambda dtype: attention(8, 128, 12, 64, dtype, False),
    "long_attention": lambda dtype: attention(4, 1024, 12, 64, dtype, True),
    "norm": lambda dtype: rows(nn.layer_norm, (4096, 768), dtype),
    "softmax": lambda dtype: rows(nn.softmax, (4096, 1000), dtype),
}

for _name, _make in _ALL.items():
    for _dtype in ("f32", "bf16"):
        _entry, _specs = _make(_dtype)
        _entry.__name__ = f"{_name}_{_dtype}"
        globals()[_entry.__name__] = aotc.entry(**_specs)(_entry)
