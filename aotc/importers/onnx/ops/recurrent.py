"""Recurrent layers: RNN, GRU and LSTM, with all that ONNX lets a node choose.

Sequences are length, batch, features. Directions, activations and lengths of their own
for each sequence are options of all three.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from aotc import control, nn
from aotc import numpy as np
from aotc.importers.onnx.calling import Imports
from aotc.importers.onnx.ops.activations import (
    elu,
    hard_sigmoid,
    leaky_relu,
    thresholded_relu,
)
from aotc.importers.onnx.ops.indexing import reverse_sequence
from aotc.tracing.array import Array
from aotc.tracing.source_locations import fail

Activation = Callable[[Array], Array]
State = list[Array]


def _affine(x: Array, *, alpha: float = 1.0, beta: float = 0.0) -> Array:
    return np.add(np.multiply(x, alpha), beta)


def _scaled_tanh(x: Array, *, alpha: float = 1.0, beta: float = 1.0) -> Array:
    return np.multiply(np.tanh(np.multiply(x, beta)), alpha)


# function, and how many of alpha and beta it takes
_ACTIVATIONS: dict[str, tuple[Callable[..., Array], int]] = {
    "affine": (_affine, 2),
    "elu": (elu, 1),
    "hardsigmoid": (hard_sigmoid, 2),
    "leakyrelu": (leaky_relu, 1),
    "relu": (nn.relu, 0),
    "scaledtanh": (_scaled_tanh, 2),
    "sigmoid": (nn.sigmoid, 0),
    "softplus": (nn.softplus, 0),
    "softsign": (nn.soft_sign, 0),
    "tanh": (np.tanh, 0),
    "thresholdedrelu": (thresholded_relu, 1),
}


def _activations(
    names: Sequence[str], alphas: Sequence[float], betas: Sequence[float]
) -> Iterator[Activation]:
    """The functions of these names; they take alphas and betas in turn."""
    alpha, beta = iter(alphas), iter(betas)
    for name in names:
        if name.lower() not in _ACTIVATIONS:
            fail("bad-node", f"expected one of {list(_ACTIVATIONS)}; got {name!r}")
        function, takes = _ACTIVATIONS[name.lower()]
        given = (("alpha", alpha), ("beta", beta))[:takes]
        drawn = {key: next(values, None) for key, values in given}
        yield partial(function, **{k: v for k, v in drawn.items() if v is not None})


@dataclass(frozen=True)
class Layer:
    """One direction of a layer.

    Args:
        kernel: inputs, gates * units.
        recurrent: units, gates * units.
        bias: of the inputs, gates * units.
        recurrent_bias: of the state.
        activations: of the gates.
        clip: bound of what activations get, or None.
    """

    kernel: Array
    recurrent: Array
    bias: Array
    recurrent_bias: Array
    activations: Sequence[Activation]
    clip: float | None

    def bounded(self, x: Array) -> Array:
        """`x` within the bound."""
        return x if self.clip is None else np.clip(x, -self.clip, self.clip)


Step = Callable[[Layer, Array, State], State]


def _layers(
    inputs: Sequence[Array | None],
    gates: int,
    names: Sequence[str],
    options: dict[str, Any],
) -> list[Layer]:
    """The layer of each direction; `names` are the usual activations."""
    kernel, recurrent, bias = inputs
    assert kernel is not None
    assert recurrent is not None
    directions, units = recurrent.shape[0], recurrent.shape[2]
    wanted = options["activations"] or tuple(names) * directions
    functions = list(
        _activations(wanted, options["activation_alpha"], options["activation_beta"])
    )
    if bias is None:
        bias = np.zeros((directions, 2 * gates * units), kernel.dtype)
    each = len(names)
    return [
        Layer(
            np.transpose(kernel[d]),
            np.transpose(recurrent[d]),
            bias[d, : gates * units],
            bias[d, gates * units :],
            functions[d * each : (d + 1) * each],
            options["clip"],
        )
        for d in range(directions)
    ]


def _run(
    x: Array,
    lengths: Array | None,
    initial: Sequence[Array | None],
    layers: Sequence[Layer],
    step: Step,
    options: dict[str, Any],
) -> list[Array]:
    """All hidden states, and the last states, of all directions."""
    if options["layout"]:
        x = np.swapaxes(x, 0, 1)
        initial = [s if s is None else np.swapaxes(s, 0, 1) for s in initial]
    direction = options["direction"]
    backwards = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}
    rows = []
    for d, (layer, back) in enumerate(zip(layers, backwards[direction], strict=True)):
        shape = (x.shape[1], layer.recurrent.shape[0])
        first = [np.zeros(shape, x.dtype) if s is None else s[d] for s in initial]
        rows.append(_one_way(x, lengths, first, layer, step, back))
    hidden = np.stack([row[0] for row in rows], 1)
    last = [np.stack([row[1][i] for row in rows]) for i in range(len(initial))]
    if options["layout"]:
        hidden = np.transpose(hidden, (2, 0, 1, 3))
        last = [np.swapaxes(state, 0, 1) for state in last]
    return [hidden, *last]


def _one_way(
    x: Array,
    lengths: Array | None,
    first: State,
    layer: Layer,
    step: Step,
    back: bool,
) -> tuple[Array, State]:
    """All hidden states of one direction, and its last state."""
    if back and lengths is not None:
        x = reverse_sequence(x, lengths)
    inputs = np.add(np.matmul(x, layer.kernel), layer.bias)
    times = np.arange(x.shape[0], dtype="i32")

    def once(state: State, element: tuple[Array, Array]) -> tuple[State, Array]:
        new = step(layer, element[0], state)
        if lengths is None:
            return new, new[0]
        goes_on = np.less(element[1], np.astype(lengths, "i32"))
        seen = np.expand_dims(goes_on, 1)
        kept = [np.where(seen, n, old) for n, old in zip(new, state, strict=True)]
        return kept, np.where(seen, new[0], 0.0)

    backwards = back and lengths is None
    last, hidden = control.scan(once, first, (inputs, times), reverse=backwards)
    if back and lengths is not None:
        hidden = reverse_sequence(hidden, lengths)
    return hidden, last


# ---- the three layers ---------------------------------------------------------------

Floats = tuple[float, ...]
Names = tuple[str, ...]


def rnn(
    x: Array,
    kernel: Array,
    recurrent: Array,
    bias: Array | None = None,
    lengths: Array | None = None,
    initial: Array | None = None,
    *,
    activation_alpha: Floats = (),
    activation_beta: Floats = (),
    activations: Names = (),
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int = 0,
    layout: int = 0,
) -> list[Array]:
    """The hidden states of a simple recurrent layer, and the last one."""
    options = _options(locals())
    layers = _layers((kernel, recurrent, bias), 1, ("Tanh",), options)
    return _run(x, lengths, [initial], layers, _rnn_step, options)


def _rnn_step(layer: Layer, inputs: Array, state: State) -> State:
    total = np.add(inputs, nn.dense(state[0], layer.recurrent, layer.recurrent_bias))
    return [layer.activations[0](layer.bounded(total))]


def gru(
    x: Array,
    kernel: Array,
    recurrent: Array,
    bias: Array | None = None,
    lengths: Array | None = None,
    initial: Array | None = None,
    *,
    activation_alpha: Floats = (),
    activation_beta: Floats = (),
    activations: Names = (),
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int = 0,
    layout: int = 0,
    linear_before_reset: int = 0,
) -> list[Array]:
    """The hidden states of gated recurrent units, and the last one."""
    options = _options(locals())
    layers = _layers((kernel, recurrent, bias), 3, ("Sigmoid", "Tanh"), options)
    step = partial(_gru_step, bool(linear_before_reset))
    return _run(x, lengths, [initial], layers, step, options)


def _gru_step(linear: bool, layer: Layer, inputs: Array, state: State) -> State:
    (hidden,) = state
    squash, curve = layer.activations
    xz, xr, xn = np.split(inputs, 3, -1)
    kz, kr, kn = np.split(layer.recurrent, 3, -1)
    bz, br, bn = np.split(layer.recurrent_bias, 3)
    z = squash(layer.bounded(np.add(xz, nn.dense(hidden, kz, bz))))
    r = squash(layer.bounded(np.add(xr, nn.dense(hidden, kr, br))))
    if linear:
        from_state = np.multiply(r, nn.dense(hidden, kn, bn))
    else:
        from_state = nn.dense(np.multiply(r, hidden), kn, bn)
    new = curve(layer.bounded(np.add(xn, from_state)))
    kept = np.multiply(z, hidden)
    return [np.add(np.multiply(np.subtract(1.0, z), new), kept)]


def lstm(
    x: Array,
    kernel: Array,
    recurrent: Array,
    bias: Array | None = None,
    lengths: Array | None = None,
    initial: Array | None = None,
    initial_cell: Array | None = None,
    peepholes: Array | None = None,
    *,
    activation_alpha: Floats = (),
    activation_beta: Floats = (),
    activations: Names = (),
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int = 0,
    input_forget: int = 0,
    layout: int = 0,
) -> list[Array]:
    """The hidden states of a long short-term memory, and the last hidden and cell."""
    options = _options(locals())
    names = ("Sigmoid", "Tanh", "Tanh")
    layers = _layers((kernel, recurrent, bias), 4, names, options)
    numbers = {id(layer): d for d, layer in enumerate(layers)}

    def step(layer: Layer, inputs: Array, state: State) -> State:
        looks = None if peepholes is None else peepholes[numbers[id(layer)]]
        return _lstm_step(layer, inputs, state, looks, bool(input_forget))

    return _run(x, lengths, [initial, initial_cell], layers, step, options)


def _lstm_step(
    layer: Layer, inputs: Array, state: State, looks: Array | None, coupled: bool
) -> State:
    hidden, cell = state
    squash, curve, out = layer.activations
    gates = np.add(inputs, nn.dense(hidden, layer.recurrent, layer.recurrent_bias))
    i, o, f, c = np.split(gates, 4, -1)
    if looks is not None:
        see_i, see_o, see_f = np.split(looks, 3)
        i, f = np.add(i, np.multiply(see_i, cell)), np.add(f, np.multiply(see_f, cell))
    i = squash(layer.bounded(i))
    f = np.subtract(1.0, i) if coupled else squash(layer.bounded(f))
    kept, fresh = np.multiply(f, cell), np.multiply(i, curve(layer.bounded(c)))
    new = np.add(kept, fresh)
    if looks is not None:
        o = np.add(o, np.multiply(see_o, new))
    return [np.multiply(squash(layer.bounded(o)), out(new)), new]


_OPTIONS = (
    "activation_alpha",
    "activation_beta",
    "activations",
    "clip",
    "direction",
    "layout",
)


def _options(given: dict[str, Any]) -> dict[str, Any]:
    """Out of a function's arguments, what the three layers share."""
    return {name: given[name] for name in _OPTIONS}


TABLE: dict[str, Imports] = {"GRU": gru, "LSTM": lstm, "RNN": rnn}
