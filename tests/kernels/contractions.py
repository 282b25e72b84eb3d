"""Products and convolutions by weights: remainders, edges, strides, what follows.

A model file, which the tests beside it build.
"""

import numpy as onp

import aotc
import aotc.numpy as np
from aotc import control, debug, nn

_rng = onp.random.default_rng(0)

# rows, depth, features: whole panels and remainders, one row, one vector, a long depth
PRODUCTS = {
    "square": (48, 48, 48),
    "remainders": (49, 37, 100),
    "one_row": (1, 64, 200),
    "narrow": (65, 20, 9),
    "long": (7, 1024, 64),
    "many_rows": (200, 16, 24),
    "panels_fetched_ahead": (70, 512, 600),
}

# x, kernel, strides, padding, dilation
CONVOLUTIONS = {
    "same": ((1, 14, 14, 16), (3, 3, 32), (1, 1), ((1, 1), (1, 1)), (1, 1)),
    "images": ((2, 7, 7, 24), (3, 3, 40), (1, 1), ((1, 1), (1, 1)), (1, 1)),
    "stem": ((1, 15, 13, 3), (7, 7, 64), (2, 2), ((3, 3), (3, 3)), (1, 1)),
    "uneven": ((1, 12, 12, 8), (3, 3, 17), (2, 2), ((0, 1), (0, 1)), (1, 1)),
    "strided": ((2, 9, 30, 5), (1, 1, 20), (2, 2), ((0, 0), (0, 0)), (1, 1)),
    "pointwise": ((2, 9, 30, 7), (1, 1, 33), (1, 1), ((0, 0), (0, 0)), (1, 1)),
    "dilated": ((1, 20, 20, 6), (3, 3, 16), (1, 1), ((2, 2), (2, 2)), (2, 2)),
    "mixed": ((3, 8, 8, 4), (5, 2, 12), (1, 2), ((2, 2), (0, 1)), (1, 3)),
    "line": ((1, 1, 40, 12), (1, 5, 24), (1, 1), ((0, 0), (2, 2)), (1, 1)),
    "line_with_step": ((1, 1, 60, 24), (1, 1, 40), (1, 2), ((0, 0), (0, 0)), (1, 1)),
    "pixels_with_steps": ((9, 1, 1, 24), (1, 1, 40), (2, 3), ((0, 0), (0, 1)), (1, 1)),
    "padded_after": ((1, 1, 40, 24), (1, 1, 24), (1, 1), ((0, 0), (0, 3)), (1, 1)),
    "wider_than_image": ((1, 2, 2, 8), (5, 5, 16), (1, 1), ((2, 2), (2, 2)), (1, 1)),
    "one_feature": ((2, 9, 30, 5), (3, 3, 1), (1, 1), ((1, 1), (1, 1)), (1, 1)),
    "three_features": ((1, 14, 13, 64), (3, 3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1)),
    "seven_features": ((3, 9, 9, 12), (2, 5, 7), (2, 1), ((0, 1), (2, 2)), (1, 1)),
    "eight_features": ((1, 9, 23, 16), (3, 3, 8), (1, 2), ((1, 1), (1, 1)), (1, 1)),
    "four_on_a_line": ((1, 1, 90, 24), (1, 9, 4), (1, 1), ((0, 0), (8, 0)), (1, 2)),
    "all_padding": ((1, 3, 3, 8), (3, 3, 16), (1, 1), ((4, 4), (4, 4)), (1, 1)),
}


def _weights():
    found = {}
    for name, (_, depth, features) in PRODUCTS.items():
        found[name] = _rng.normal(size=(depth, features)).astype("f")
    for name, (x, (lines, positions, features), *_) in CONVOLUTIONS.items():
        shape = (lines, positions, x[-1], features)
        found[name] = _rng.normal(size=shape).astype("f")
    found["bias"] = _rng.normal(size=640).astype("f")
    found["tied"] = _rng.normal(size=(64, 32)).astype("f")
    found["heads"] = _rng.normal(size=(4, 24, 16)).astype("f")
    return found


w = aotc.Weights(_weights())


def _product(name):
    rows, depth, features = PRODUCTS[name]

    def entry(w, x, residual):
        y = nn.gelu(x @ w[name] + w["bias"][:features])
        return y * 2.0 + residual

    entry.__name__ = name
    x = aotc.Spec((rows, depth), "f32")
    return aotc.entry(x=x, residual=aotc.Spec((rows, features), "f32"))(entry)


def _convolution(name):
    shape, (_, _, features), strides, padding, dilation = CONVOLUTIONS[name]

    def entry(w, x):
        y = nn.conv2d(x, w[name], strides=strides, padding=padding, dilation=dilation)
        return nn.relu(y + w["bias"][:features])

    entry.__name__ = name
    return aotc.entry(x=aotc.Spec(shape, "f32"))(entry)


for _name in PRODUCTS:
    globals()[_name] = _product(_name)
for _name in CONVOLUTIONS:
    globals()[_name] = _convolution(_name)


@aotc.entry(x=aotc.Spec((20, 64), "f32"))
def read_twice(w, x):
    """The sums are a result as well, and a state of the sums is read by others."""
    y = x @ w["tied"]
    z = nn.relu(y)
    return y, z, np.tanh(z).sum(axis=0), z - y.mean()


@aotc.entry(x=aotc.Spec((20, 64), "f32"))
def tied(w, x):
    """One weight from both sides: packed in two ways."""
    return (x @ w["tied"]) @ w["tied"].T


@aotc.entry(x=aotc.Spec((24, 24), "f32"))
def own_input(w, x):
    """Multiply an array, and add it to the product."""
    return x @ w["remainders"][:24, :24] + x


@aotc.entry(x=aotc.Spec((48, 48), "f32"))
def weight_read_again(w, x):
    """Add the weight, which is packed for the product, as it is."""
    return nn.relu(x @ w["square"] + w["square"])


@aotc.entry(x=aotc.Spec((5, 6, 4, 24), "f32"))
def several_axes(w, x):
    """Sums over several axes, features along one, rows along two."""
    y = np.einsum("abhd,hdf->abf", x, w["heads"])
    return np.clip(y + w["bias"][:16], -1.0, 1.0)


@aotc.entry(x=aotc.Spec((6, 24), "f32"))
def features_of_two_axes(w, x):
    """Features along two axes, and what is added along both."""
    y = np.einsum("ad,hdf->ahf", x, w["heads"])
    return y + np.reshape(w["bias"][:64], (4, 16))


@aotc.entry(x=aotc.Spec((8, 32), "f32"), y=aotc.Spec((8, 32), "f32"))
def two_that_meet(w, x, y):
    """Two products whose results are added: one of them is read by the other."""
    return nn.relu(x @ w["tied"].T + y @ w["tied"].T) + x.sum()


@aotc.entry(x=aotc.Spec((20, 64), "f32"))
def printed(w, x):
    """Read the sums by an op with an effect, before another that has none."""
    y = x @ w["tied"]
    z = np.tanh(y)
    debug.print("first {}", y.mean())
    debug.print("second {}", x.mean())
    return z + y * x.mean()


@aotc.entry(x=aotc.Spec((35, 64), "f32"), h=aotc.Spec((1, 32), "f32"))
def recurrent(w, x, h):
    """A product in each step of a loop, whose weight is packed before it.

    Three turns of eleven steps, and two steps.
    """

    def step(h, row):
        h = np.tanh(
            row[None] @ w["tied"] + np.matmul(h, np.transpose(w["tied"]) @ w["tied"])
        )
        return h, h * 2.0

    return control.scan(step, h, x)


@aotc.entry(x=aotc.Spec((16, 48), "f32"))
def loops_in_loops(w, x):
    """A weight of the entry that an inner loop reads; and a loop that never runs."""

    def inner(_, y):
        return np.tanh(y @ w["square"] * 0.1)

    def outer(_, y):
        return control.fori_loop(0, 2, inner, y) + 1.0

    return control.fori_loop(0, 3, outer, x), control.fori_loop(0, 0, outer, x)


@aotc.entry(x=aotc.Spec((16, 48), "f32"))
def as_long_as(w, x):
    """A product in the condition of a loop, and one in its body."""

    def goes_on(y):
        return np.sum(np.abs(y @ w["square"])) < 1e4

    return control.while_loop(goes_on, lambda y: y * 1.5 + y @ w["square"] * 0.1, x)
