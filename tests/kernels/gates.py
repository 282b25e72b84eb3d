"""Products whose columns meet element by element: gates, and cells of recurrent nets.

A model file, which the tests beside it build.
"""

import numpy as onp

import aotc
import aotc.numpy as np
from aotc import nn

_rng = onp.random.default_rng(0)

# rows, depth, columns of a part, parts: whole vectors, remainders, one row, large ones
GATES = {
    "pair": (37, 48, 64, 2),
    "three": (5, 64, 33, 3),
    "four": (19, 64, 100, 4),
    "row_of_pair": (1, 96, 100, 2),
    "row_of_four": (1, 512, 256, 4),
    "narrow_parts": (64, 64, 9, 4),
}
# steps, sequences, inputs, units
CELLS = {"one_sequence": (5, 1, 24, 96), "sequences": (4, 3, 24, 77)}


def _normal(*shape):
    return _rng.normal(size=shape).astype("f4") / 4


def _weights():
    found = {
        name: [_normal(depth, count * parts), _normal(count * parts)]
        for name, (_, depth, count, parts) in GATES.items()
    }
    for name, (_, _, given, units) in CELLS.items():
        found[name] = [
            _normal(given, 4 * units),
            _normal(units, 4 * units),
            _normal(4 * units),
        ]
    return found


w = aotc.Weights(_weights())


def _gates(name):
    rows, depth, count, parts = GATES[name]

    def entry(w, x, z, h):
        weight, bias = w[name]
        y = x @ weight + bias + z
        first, *others = (y[:, n * count :][:, :count] for n in range(parts))
        found = nn.sigmoid(first) * h
        for each in others:
            found = found + np.tanh(each) * nn.sigmoid(found)
        return found, -found

    entry.__name__ = name
    wide = aotc.Spec((rows, count * parts))
    narrow = aotc.Spec((rows, count))
    return aotc.entry(x=aotc.Spec((rows, depth)), z=wide, h=narrow)(entry)


def _loss(xs, kernel, recurrent, bias):
    hiddens, (hidden, cell) = nn.lstm(xs, kernel, recurrent, bias)
    return np.mean(hiddens * hiddens) + np.sum(hidden * cell)


def _cells(name):
    steps, sequences, given, units = CELLS[name]
    xs = aotc.Spec((steps, sequences, given))

    def lstm(w, xs):
        hiddens, last = nn.lstm(xs, *w[name])
        return hiddens, *last

    def gru(w, xs):
        kernel, recurrent, bias = (each[..., : 3 * units] for each in w[name])
        return nn.gru(xs, kernel, recurrent, bias)

    def trained(w, xs):
        kernel, recurrent, bias = w[name]
        return aotc.grad(_loss, argnums=(0, 1, 2))(xs, kernel, recurrent, bias)

    found = {}
    for each in (lstm, gru, trained):
        each.__name__ = f"{each.__name__}_of_{name}"
        found[each.__name__] = aotc.entry(xs=xs)(each)
    return found


for _name in GATES:
    globals()[_name] = _gates(_name)
for _name in CELLS:
    globals().update(_cells(_name))
