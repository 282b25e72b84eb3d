"""Inverted residuals: pixels by a weight, windows over each channel, pixels again.

A model file, which the tests beside it build. What lies between is larger than half of
the second cache of x86-64's machines, so that a chain pays.
"""

import numpy as onp

import aotc
import aotc.numpy as np
from aotc import control, nn

_rng = onp.random.default_rng(0)
_ONE = (1, 1)


def _weights(channels=24, middle=144, window=(3, 3), features=32):
    shapes = {
        "expand": (1, 1, channels, middle),
        "expand_bias": (middle,),
        "depthwise": (*window, 1, middle),
        "depthwise_bias": (middle,),
        "project": (1, 1, middle, features),
        "project_bias": (features,),
    }
    return {
        name: (0.3 * _rng.normal(size=shape)).astype("f")
        for name, shape in shapes.items()
    }


def _relu6(x):
    return np.clip(x, 0.0, 6.0)


def _expand(w, x, activation):
    return activation(nn.conv2d(x, w["expand"]) + w["expand_bias"])


def _depthwise(w, x, activation, strides=_ONE, padding=(_ONE, _ONE), dilation=_ONE):
    y = nn.conv2d(
        x,
        w["depthwise"],
        strides=strides,
        padding=padding,
        dilation=dilation,
        groups=x.shape[-1],
    )
    return activation(y + w["depthwise_bias"])


def _project(w, x):
    return nn.conv2d(x, w["project"]) + w["project_bias"]


# shape of x, sizes of the weights, and how windows move
WINDOWS = {
    "same": ((1, 24, 25, 24), {}, {}),
    "strided": ((1, 29, 27, 24), {}, {"strides": (2, 2)}),
    "images": ((3, 19, 17, 20), {"channels": 20, "middle": 100}, {}),
    "images_with_steps": (
        (2, 25, 32, 24),
        {"features": 19},
        {"strides": (2, 3), "padding": ((0, 1), (0, 1))},
    ),
    "large_windows": (
        (1, 24, 22, 24),
        {"window": (5, 5)},
        {"padding": ((2, 2), (2, 2))},
    ),
    "dilated": (
        (1, 30, 22, 24),
        {"window": (3, 2)},
        {"dilation": (3, 2), "padding": ((3, 3), (1, 1))},
    ),
    "much_padding": ((1, 24, 24, 24), {}, {"padding": ((5, 4), (2, 2))}),
    "without_padding": ((1, 26, 26, 24), {}, {"padding": ((0, 0), (0, 0))}),
    "pixels_left_out": (
        (1, 31, 31, 24),
        {"window": (2, 2)},
        {"strides": (3, 3), "padding": ((0, 0), (0, 0))},
    ),
    "flat_windows": ((1, 24, 24, 24), {"window": (1, 3)}, {"padding": ((0, 0), _ONE)}),
}

_OTHERS = {"other": ((), {}, {}), "back": ((), {"features": 24}, {})}
_stem = (0.3 * _rng.normal(size=(3, 3, 3, 144))).astype("f")
_square = (0.1 * _rng.normal(size=(1, 1, 144, 144))).astype("f")
w = aotc.Weights(
    {
        "square": _square,
        "stem": _stem,
        **{
            f"{name}.{each}": value
            for name, (_, sizes, _) in {**WINDOWS, **_OTHERS}.items()
            for each, value in _weights(**sizes).items()
        },
    }
)


def _of(w, name):
    first = f"{name}."
    return {key[len(first) :]: w[key] for key in w if key.startswith(first)}


def _windows(name):
    shape, _, how = WINDOWS[name]

    def entry(w, x):
        own = _of(w, name)
        y = _depthwise(own, _expand(own, x, _relu6), _relu6, **how)
        return _project(own, y)

    entry.__name__ = name
    return aotc.entry(x=aotc.Spec(shape, "f32"))(entry)


for _name in WINDOWS:
    globals()[_name] = _windows(_name)

_IMAGE = aotc.Spec((1, 24, 24, 24), "f32")
_LARGE = aotc.Spec((1, 31, 32, 24), "f32")
_WIDE = aotc.Spec((2, 37, 31, 144), "f32")


@aotc.entry(x=_IMAGE)
def residual(w, x):
    """Add an array to the result; activations are read twice."""
    own = _of(w, "other")
    y = _depthwise(own, _expand(own, x, nn.swish), nn.swish)
    return x[:, :, :, :24] + nn.relu(_project(own, y))[:, :, :, :24]


@aotc.entry(x=_IMAGE, y=aotc.Spec((1, 24, 24, 32), "f32"))
def added(w, x, y):
    """The result is what something else reads, too."""
    own = _of(w, "other")
    z = _project(own, _depthwise(own, _expand(own, x, _relu6), _relu6))
    return z, nn.relu(z + y)


@aotc.entry(x=_IMAGE)
def side_by_side(w, x):
    """Nothing lies between the stages."""
    own = _of(w, "other")
    y = nn.conv2d(x, own["expand"])
    y = nn.conv2d(y, own["depthwise"], padding=(_ONE, _ONE), groups=144)
    return nn.conv2d(y, own["project"])


@aotc.entry(x=_WIDE)
def projected(w, x):
    """Write a chain without a first stage."""
    own = _of(w, "other")
    return nn.relu(_project(own, _depthwise(own, x, _relu6, strides=(2, 1))))


@aotc.entry(x=aotc.Spec((1, 65, 64, 3), "f32"))
def stem(w, x):
    """The first stage has windows, too."""
    own = _of(w, "other")
    y = nn.conv2d(x, w["stem"], strides=(2, 2), padding=(_ONE, _ONE))
    return _project(own, _depthwise(own, _relu6(y + own["expand_bias"]), _relu6))


@aotc.entry(x=_LARGE)
def squeezed(w, x):
    """Write a chain without a last stage; the result of its windows is averaged."""
    own = _of(w, "other")
    y = _depthwise(own, _expand(own, x, nn.swish), nn.swish, strides=(2, 2))
    return y * nn.sigmoid(y.mean(axis=(1, 2), keepdims=True))


@aotc.entry(x=_IMAGE)
def twice(w, x):
    """A chain reads what another one has made."""
    own = _of(w, "other")
    for _ in range(2):
        y = _depthwise(own, _expand(own, x, _relu6), _relu6)
        x = x + _project(own, y)[:, :, :, :24]
    return x


@aotc.entry(x=_IMAGE)
def repeated(w, x):
    """Write a chain in the body of a loop."""
    own = _of(w, "other")

    def step(x, _):
        y = _depthwise(own, _expand(own, x, _relu6), _relu6)
        return np.tanh(x + _project(own, y)[:, :, :, :24]), x.mean()

    return control.scan(step, x, None, length=3)


@aotc.entry(x=aotc.Spec((aotc.Dim("images", min=0), 24, 24, 24), "f32"))
def any_images(w, x):
    """A call decides how many images there are."""
    own = _of(w, "other")
    return _project(own, _depthwise(own, _expand(own, x, _relu6), _relu6))


@aotc.entry(x=_IMAGE)
def mean_of_windows(w, x):
    """The windows are of a constant, which has no memory of its own."""
    own = _of(w, "other")
    mean = np.full((3, 3, 1, 144), 1 / 9, "f32")
    y = _expand(own, x, _relu6)
    y = nn.conv2d(y, mean, padding=(_ONE, _ONE), groups=144)
    return _project(own, y)


_state = aotc.State({"image": onp.zeros((1, 24, 24, 24), "f4")})


@aotc.entry(s=_state, x=_IMAGE)
def recurrent(w, s, x):
    """The result takes the place of the image that is read."""
    own = _of(w, "back")
    y = _depthwise(own, _expand(own, s["image"], _relu6), _relu6)
    return {"image": _project(own, y) + x}, x.mean()


@aotc.entry(s=_state)
def state_alone(w, s):
    """Update a state with nothing after the last stage."""
    own = _of(w, "back")
    y = _depthwise(own, _expand(own, s["image"], _relu6), _relu6)
    return {"image": nn.conv2d(y, own["project"])}, s["image"].mean()


# ---- what is no chain, or a shorter one ---------------------------------------------


@aotc.entry(x=_LARGE)
def read_between(w, x):
    """Return the result of the first stage, too."""
    own = _of(w, "other")
    y = _expand(own, x, _relu6)
    return y, _project(own, _depthwise(own, y, _relu6))


@aotc.entry(x=_LARGE, scale=aotc.Spec((1, 31, 32, 144), "f32"))
def scaled_between(w, x, scale):
    """An image of its own is read between the stages."""
    own = _of(w, "other")
    y = _expand(own, x, _relu6) * scale
    return _project(own, _depthwise(own, y, _relu6))


@aotc.entry(x=_WIDE)
def differentiated(w, x):
    """The derivative reads what lies between."""
    own = _of(w, "other")

    def loss(x):
        return np.sum(_project(own, _depthwise(own, x, np.tanh)) ** 2)

    return aotc.grad(loss)(x)


@aotc.entry(x=_WIDE)
def tied(w, x):
    """One weight on both sides, which a kernel gets in one order only."""
    own = _of(w, "other")
    y = np.tanh(nn.conv2d(x, w["square"]))
    y = _depthwise(own, y, np.tanh)
    return nn.conv2d(y, w["square"])


@aotc.entry(x=aotc.Spec((1, 8, 8, 24), "f32"))
def small(w, x):
    """All of it stays in a cache anyway."""
    own = _of(w, "other")
    return _project(own, _depthwise(own, _expand(own, x, _relu6), _relu6))
