"""Products of small integers, summed in i32: by weights, by inputs and over windows.

A model file, which the tests beside it build.
"""

import numpy as onp

import aotc
import aotc.numpy as np
from aotc import nn
from aotc.numpy.products import dot_general
from aotc.tracing.tracing import emit

_rng = onp.random.default_rng(0)
_MATRICES = {"contract": ((1,), (0,)), "dtype": "i32"}

# dtype, rows, depth, features: an odd number of terms, and more than one part of rows
PRODUCTS = {
    "square": ("i8", 48, 48, 48),
    "remainders": ("i8", 49, 37, 100),
    "one_row": ("i8", 1, 65, 200),
    "narrow": ("u8", 65, 22, 9),
    "several_parts": ("i16", 7, 1101, 64),
    "fetched_ahead": ("i8", 70, 512, 600),
}


def _integers(dtype, *shape):
    info = onp.iinfo(dtype)
    found = _rng.integers(info.min, info.max, shape, endpoint=True).astype(dtype)
    found.reshape(-1)[:4] = info.min, info.max, info.min, info.min
    return found


_NUMPY = {"i8": "i1", "u8": "u1", "i16": "i2"}
w = aotc.Weights(
    {
        **{
            name: _integers(_NUMPY[dtype], depth, features)
            for name, (dtype, _, depth, features) in PRODUCTS.items()
        },
        "experts": _integers("i1", 3, 20, 24),
        "kernel": _integers("i1", 3, 3, 16, 24),
        "second": _integers("i1", 3, 3, 24, 24),
        "odd_kernel": _integers("i1", 3, 3, 3, 24),
        "seven_bits": onp.clip(_integers("i1", 66, 40), -64, 64),
        "bias": _rng.integers(-9999, 9999, 640).astype("i4"),
        "scale": _rng.normal(size=640).astype("f4"),
    }
)


def _product(name):
    dtype, rows, depth, _ = PRODUCTS[name]

    def entry(w, x):
        return dot_general(x, w[name], **_MATRICES)

    entry.__name__ = name
    return aotc.entry(x=aotc.Spec((rows, depth), dtype))(entry)


for _name in PRODUCTS:
    globals()[_name] = _product(_name)


@aotc.entry(x=aotc.Spec((20, 48), "i8"), residual=aotc.Spec((20, 48), "i32"))
def followed(w, x, residual):
    """Add and compare sums as integers, and then scale them as floats."""
    y = dot_general(x, w["square"], **_MATRICES) + w["bias"][:48]
    z = np.maximum(y * 3 - residual, -5000)
    return z, np.astype(z, "f32") * w["scale"][:48] + 0.5


@aotc.entry(x=aotc.Spec((aotc.Dim("n", min=1, max=99), 37), "i8"))
def any_rows(w, x):
    """Multiply as many rows as a call says."""
    return dot_general(x, w["remainders"], **_MATRICES)


@aotc.entry(x=aotc.Spec((33, 64), "u8"), y=aotc.Spec((64, 40), "u8"))
def changing(x, y):
    """Multiply by an array that is no weight: it is packed in each call."""
    return dot_general(x, y, **_MATRICES)


@aotc.entry(x=aotc.Spec((3, 17, 20), "i8"))
def batch(w, x):
    """A product for each of some."""
    axes = {"contract": ((2,), (1,)), "batch": ((0,), (0,)), "dtype": "i32"}
    return dot_general(x, w["experts"], **axes)


@aotc.entry(x=aotc.Spec((2, 9, 10, 16), "i16"))
def windows(w, x):
    """Windows over an image, which are read from it."""
    kernel = np.astype(w["kernel"], "i16")
    ones = {"strides": (1, 1), "dilation": (1, 1)}
    rows = emit("windows", x, window=(3, 3), **ones)
    contract = ((3, 4, 5), (0, 1, 2))
    return dot_general(rows, kernel, contract=contract, dtype="i32")


@aotc.entry(x=aotc.Spec((37, 65), "u8"))
def mixed(w, x):
    """Unsigned rows by signed columns."""
    return dot_general(x, w["one_row"], **_MATRICES)


@aotc.entry(x=aotc.Spec((37, 66), "u8"), y=aotc.Spec((37, 66), "i8"))
def seven_bits(w, x, y):
    """Multiply by weights of 7 bits, of which two products fit i16."""
    return (
        dot_general(x, w["seven_bits"], **_MATRICES),
        dot_general(y, w["seven_bits"], **_MATRICES),
    )


@aotc.entry(x=aotc.Spec((37, 65), "i8"))
def mixed_back(w, x):
    """Signed rows by unsigned columns, of which there are no more than half."""
    unsigned = np.astype(np.maximum(w["one_row"], 0), "u8")
    return dot_general(x, unsigned, **_MATRICES)


@aotc.entry(x=aotc.Spec((37, 65), "u8"), residual=aotc.Spec((37, 200), "u8"))
def requantized(w, x, residual):
    """Scale sums, add them to bytes, and round to bytes, which are read again."""
    y = dot_general(x, w["one_row"], **_MATRICES) - w["bias"][:200]
    z = np.astype(y, "f32") * (w["scale"][:200] * 0.001)
    z = z + (np.astype(np.astype(residual, "i32") - 7, "f32")) * 0.25
    q = np.astype(np.clip(np.round(z / 0.5) + 3.0, 0.0, 255.0), "u8")
    signed = np.astype(z * 3.0, "i8")  # beyond what it holds
    return q, np.astype(np.astype(q, "i32") - 3, "f32") * 0.5, signed


@aotc.entry(x=aotc.Spec((2, 9, 10, 16), "u8"))
def mixed_windows(w, x):
    """Windows of unsigned bytes over an image."""
    ones = {"strides": (1, 1), "dilation": (1, 1)}
    rows = emit("windows", x, window=(3, 3), **ones)
    contract = ((3, 4, 5), (0, 1, 2))
    return dot_general(rows, w["kernel"], contract=contract, dtype="i32")


@aotc.entry(x=aotc.Spec((2, 9, 10, 16), "f32"))
def quantized(w, x):
    """Two quantised convolutions, whose values are added, by steps of powers of two."""

    def steps(x, zero_point=0):
        q = nn.quantize(x, 0.25, zero_point, "u8")
        return nn.dequantize(q, 0.25, zero_point)

    def kernel(name):
        return nn.dequantize(w[name], 2.0**-6)

    x = steps(x, 100)
    y = steps(nn.relu(nn.conv2d(x, kernel("kernel"), padding=1)))
    z = nn.conv2d(y, kernel("second"), padding="SAME", strides=(1, 2))
    return steps(z + y[:, :, ::2], 50)


@aotc.entry(x=aotc.Spec((96, 64), "f32"), y=aotc.Spec((1, 8, 8, 32), "f32"))
def quantized_rows(x, y):
    """Round to bytes after a softmax, and after a pooling."""
    shares = nn.quantize(nn.softmax(x), 2.0**-6, 0, "u8")
    return shares, nn.quantize(nn.max_pool(y, 2), 0.25, 3, "i8")


@aotc.entry(x=aotc.Spec((2, 9, 10, 16), "u8"))
def convolved(w, x):
    """A quantised convolution: what is around the image is its zero point."""
    return nn.integer_conv(x, w["kernel"], 3, 1, padding="SAME", strides=(2, 1))


@aotc.entry(x=aotc.Spec((1, 9, 10, 3), "u8"))
def odd_runs(w, x):
    """An odd number of terms beside each other."""
    return nn.integer_conv(x, w["odd_kernel"], 3, padding="SAME")
