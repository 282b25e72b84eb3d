"""Concatenations: parts of many widths, computed or seen through other ops.

A model file, which the tests beside it build.
"""

import aotc
import aotc.numpy as np
from aotc import control, nn

# widths of the parts, by lengths of vectors and what is left of them
WIDTHS = [(37, 21, 10), (16, 8, 120), (64, 32, 9), (300, 8, 525)]


def _parts(widths):
    def entry(x, y, z):
        return np.concatenate([x, y, z], -1)

    entry.__name__ = "_".join(["parts", *map(str, widths)])
    x, y, z = (aotc.Spec((7, 11, width), "f32") for width in widths)
    return aotc.entry(x=x, y=y, z=z)(entry)


for _widths in WIDTHS:
    _entry = _parts(_widths)
    globals()[_entry.__name__] = _entry


@aotc.entry(x=aotc.Spec((8, 20, 40), "f32"))
def eight_parts(x):
    """All rows of a matrix beside each other."""
    return np.concatenate(list(x), -1)


_rows = aotc.Dim("rows", min=0)


@aotc.entry(x=aotc.Spec((_rows, 5, 40), "f32"), y=aotc.Spec((_rows, 5, 24), "f32"))
def any_rows(x, y):
    """Concatenate as many rows as a call has, 5 at a time."""
    return np.concatenate([x, nn.relu(y)], -1)


@aotc.entry(
    x=aotc.Spec((_rows, 30, 5, 8), "f32"), y=aotc.Spec((_rows, 5, 33, 8), "f32")
)
def any_heads(x, y):
    """Along another axis than the last, one part transposed."""
    return np.concatenate([np.transpose(x, (0, 2, 1, 3)), y], 2)


@aotc.entry(
    skip=aotc.Spec((2, 6, 10, 24), "f32"),
    phases=aotc.Spec((2, 3, 5, 80), "f32"),
    bias=aotc.Spec((20,), "f32"),
)
def enlarged(skip, phases, bias):
    """An image beside one whose pixels lie by phases, with what is added to these."""
    pixels = np.transpose(np.reshape(phases, (2, 3, 5, 2, 2, 20)), (0, 1, 3, 2, 4, 5))
    return np.concatenate([skip, np.reshape(pixels, (2, 6, 10, 20)) + bias], -1)


@aotc.entry(x=aotc.Spec((9, 40, 32), "f32"), y=aotc.Spec((18, 7, 32), "f32"))
def sliced(x, y):
    """Parts of one tensor in another order, and every other row of another one."""
    return np.concatenate([x[:, 13:], y[1::2], x[:, :13:3]], 1)


@aotc.entry(x=aotc.Spec((12, 8, 10), "f32"), y=aotc.Spec((12, 8, 16), "f32"))
def reversed_axes(x, y):
    """Elements of a part do not lie side by side, and are brought there before."""
    return np.concatenate([np.transpose(x, (0, 2, 1)), y[:, :, ::2]], 1)


@aotc.entry(x=aotc.Spec((33, 50), "f32"), y=aotc.Spec((33, 19), "f32"))
def computed(x, y):
    """Parts that elementwise ops make, one of them of two that lie differently."""
    halves = np.reshape(x, (33, 2, 25))
    other = np.concatenate([nn.gelu(x) * 2.0, y - x[:, 3:22]], 1)
    return other, np.concatenate([halves, np.exp(halves) + y[0, 0]], -1)


@aotc.entry(x=aotc.Spec((33, 40), "f32"), y=aotc.Spec((33, 40), "f32"))
def read_twice(x, y):
    """A chain of which the inner part is a result, and a part that others read."""
    sums = x + y
    inner = np.concatenate([sums, y], -1)
    return inner, np.concatenate([inner, sums, inner], -1), np.sin(sums)


@aotc.entry(x=aotc.Spec((40, 33), "i32"), y=aotc.Spec((40, 9), "i32"))
def integers(x, y):
    """Numbers of 32 bits that are no floats."""
    return np.concatenate([x, np.maximum(y, 3)], 1)


@aotc.entry(x=aotc.Spec((4, 32, 40), "f32"))
def in_a_loop(x):
    """Concatenate beside what a loop carries."""

    def step(carried, row):
        return np.concatenate([row[:, 8:], carried[:, :8]], 1), np.sum(carried)

    return control.scan(step, np.ones((32, 40)), x)


@aotc.entry(x=aotc.Spec((20, 30), "f32"), y=aotc.Spec((20, 40), "f32"))
def trained(x, y):
    """The derivative reads parts of that of the result."""

    def loss(x, y):
        return np.sum(np.sin(np.concatenate([x * 2.0, np.cos(y)], 1)))

    return aotc.grad(loss, argnums=(0, 1))(x, y)
