"""Products of one operand by several weights, which one kernel computes.

A model file, which the tests beside it build.
"""

import numpy as onp

import aotc
import aotc.numpy as np
from aotc import nn

_rng = onp.random.default_rng(0)

# rows, depth, features of each: remainders, one row, panels of few columns, large ones
PROJECTIONS = {
    "equal": (37, 48, (64, 64, 64)),
    "grouped": (49, 64, (96, 24, 40)),
    "one_row": (1, 96, (200, 120)),
    "narrow": (65, 40, (9, 17, 8, 33)),
    "large": (70, 512, (300, 300)),
}
GATES = {
    "gate": (37, 48, 100),
    "gate_of_one_row": (1, 96, 100),
    "large_gate": (70, 512, 300),
}


def _normal(*shape):
    return _rng.normal(size=shape).astype("f4")


def _weights():
    found = {}
    for name, (_, depth, features) in PROJECTIONS.items():
        found[name] = [_normal(depth, n) for n in features]
    for name, (_, depth, features) in GATES.items():
        found[name] = [_normal(depth, features) for _ in range(2)]
    found["experts"] = [_normal(3, 40, 56), _normal(3, 40, 56), _normal(3, 40, 20)]
    found["packed"] = [_normal(48, 200), _normal(200)]
    found["pixels"] = [_normal(1, 1, 24, 33), _normal(1, 1, 24, 50)]
    found["windows"] = [_normal(3, 3, 12, 20), _normal(3, 3, 12, 33)]
    return found


w = aotc.Weights(_weights())


def _projections(name):
    rows, depth, features = PROJECTIONS[name]

    def entry(w, x, residual):
        first, *others = (x @ each for each in w[name])
        return nn.gelu(first) + residual, *others

    entry.__name__ = name
    residual = aotc.Spec((rows, features[0]), "f32")
    return aotc.entry(x=aotc.Spec((rows, depth), "f32"), residual=residual)(entry)


def _gate(name):
    rows, depth, _ = GATES[name]

    def entry(w, x):
        gate, up = w[name]
        return nn.silu(x @ gate) * (x @ up)

    entry.__name__ = name
    return aotc.entry(x=aotc.Spec((rows, depth), "f32"))(entry)


for _name in PROJECTIONS:
    globals()[_name] = _projections(_name)
for _name in GATES:
    globals()[_name] = _gate(_name)


@aotc.entry(x=aotc.Spec((3, 29, 40)))
def experts(w, x):
    """Products of batches: a gate with values, and another."""
    gate, up, other = w["experts"]
    values = x @ up
    return nn.silu(x @ gate) * values, values, x @ other


@aotc.entry(x=aotc.Spec((37, 48)))
def packed(w, x):
    """A product that is read by columns."""
    weight, bias = w["packed"]
    y = nn.relu(x @ weight + bias)
    return y[:, :80], np.exp(-y[:, 80:120]), y[:, 130:]


@aotc.entry(x=aotc.Spec((2, 5, 7, 24)))
def pixels(w, x):
    """Branches of a network of convolutions."""
    first, second = w["pixels"]
    return nn.relu(nn.conv2d(x, first)), nn.conv2d(x, second)


@aotc.entry(x=aotc.Spec((2, 7, 9, 12)))
def windows(w, x):
    """Pool windows by two kernels."""
    first, second = (nn.conv2d(x, each, padding="SAME") for each in w["windows"])
    return first, nn.relu(second)
