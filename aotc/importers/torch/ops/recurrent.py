"""ATen ops that are whole recurrent networks: layers, directions, sequences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from aotc import control, nn
from aotc import numpy as np
from aotc.importers.torch.dropping import next_key
from aotc.importers.torch.ops.products import linear
from aotc.tracing.array import Array
from aotc.tracing.source_locations import fail

# one layer in one direction: (xs, weights, first states, reverse) → (ys, last states)
Layer = Callable[[Array, Sequence[Array], Sequence[Array], bool], tuple[Array, Any]]


def _network(layer: Layer, states: int) -> Callable[..., list[Array]]:
    """A network of such layers; each has `states` states."""

    def call(
        x: Array,
        initial: Any,
        weights: Sequence[Array],
        has_biases: bool,
        layers: int,
        dropout: float,
        train: bool,
        bidirectional: bool,
        batch_first: bool,
    ) -> list[Array]:
        firsts = list(initial) if states > 1 else [initial]
        ways = 2 if bidirectional else 1
        count = len(weights) // (layers * ways)
        ys = np.swapaxes(x, 0, 1) if batch_first else x
        lasts: list[Sequence[Array]] = []
        for number in range(layers):
            parts = []
            for way in range(ways):
                place = number * ways + way
                own = weights[place * count : (place + 1) * count]
                start = [state[place] for state in firsts]
                part, last = layer(ys, own, start, bool(way))
                parts.append(part)
                lasts.append(last)
            ys = np.concatenate(parts, -1) if bidirectional else parts[0]
            if train and dropout and number + 1 < layers:
                ys = nn.dropout(next_key(), ys, dropout)
        ys = np.swapaxes(ys, 0, 1) if batch_first else ys
        stacked = [np.stack([last[n] for last in lasts]) for n in range(states)]
        return [ys, *stacked]

    return call


def _biases(weights: Sequence[Array]) -> list[Array | None]:
    """The biases of inputs and of states, if there are any."""
    return list(weights[2:4]) if len(weights) >= 4 else [None, None]


def _lstm(
    xs: Array, weights: Sequence[Array], start: Sequence[Array], reverse: bool
) -> tuple[Array, Any]:
    of_x, of_h = _biases(weights)
    bias = None if of_x is None or of_h is None else np.add(of_x, of_h)
    kernel, recurrent = (np.transpose(weight) for weight in weights[:2])
    if len(weights) in (3, 5):
        fail("unsupported", "an LSTM with projections", "use one without proj_size")
    return nn.lstm(
        xs, kernel, recurrent, bias, initial=(start[0], start[1]), reverse=reverse
    )


def _gru(
    xs: Array, weights: Sequence[Array], start: Sequence[Array], reverse: bool
) -> tuple[Array, Any]:
    kernel, recurrent = (np.transpose(weight) for weight in weights[:2])
    of_x, of_h = _biases(weights)
    ys, last = nn.gru(
        xs, kernel, recurrent, of_x, of_h, initial=start[0], reverse=reverse
    )
    return ys, [last]


def _simple(activation: Callable[[Array], Array]) -> Layer:
    def layer(
        xs: Array, weights: Sequence[Array], start: Sequence[Array], reverse: bool
    ) -> tuple[Array, Any]:
        of_x, of_h = _biases(weights)

        def step(state: Array, x: Array) -> tuple[Array, Array]:
            new = activation(np.add(x, linear(state, weights[1], of_h)))
            return new, new

        inputs = linear(xs, weights[0], of_x)
        last, ys = control.scan(step, start[0], inputs, reverse=reverse)
        return ys, [last]

    return layer


OPS: dict[str, Callable[..., Any]] = {
    "aten.lstm.input": _network(_lstm, 2),
    "aten.gru.input": _network(_gru, 1),
    "aten.rnn_tanh.input": _network(_simple(np.tanh), 1),
    "aten.rnn_relu.input": _network(_simple(nn.relu), 1),
}
