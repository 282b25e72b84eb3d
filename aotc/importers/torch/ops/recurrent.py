"""ATen ops that are whole recurrent networks: layers, directions, sequences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from aotc import nn
from aotc import numpy as np
from aotc.importers.torch.dropping import next_key
from aotc.tracing.array import Array


def _network(layer: Callable[..., Any], states: int) -> Callable[..., list[Array]]:
    """Return the import function of a recurrent network, given one layer of `aotc.nn`
    and its number of states.
    """

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
                of_x, of_h, *biases = weights[place * count : (place + 1) * count]
                kernels = np.transpose(of_x), np.transpose(of_h)
                projected = {}
                if len(biases) % 2:  # an LSTM's projection is behind its biases
                    projected = {"projection": np.transpose(biases.pop())}
                start = tuple(state[place] for state in firsts)
                part, last = layer(
                    ys,
                    *kernels,
                    *biases,
                    initial=start if states > 1 else start[0],
                    reverse=bool(way),
                    **projected,
                )
                parts.append(part)
                lasts.append(last if states > 1 else [last])
            ys = np.concatenate(parts, -1) if bidirectional else parts[0]
            if train and dropout and number + 1 < layers:
                ys = nn.dropout(next_key(), ys, dropout)
        ys = np.swapaxes(ys, 0, 1) if batch_first else ys
        stacked = [np.stack([last[n] for last in lasts]) for n in range(states)]
        return [ys, *stacked]

    return call


OPS: dict[str, Callable[..., Any]] = {
    "aten.lstm.input": _network(nn.lstm, 2),
    "aten.gru.input": _network(nn.gru, 1),
    "aten.rnn_tanh.input": _network(nn.simple_rnn, 1),
    "aten.rnn_relu.input": _network(partial(nn.simple_rnn, activation=nn.relu), 1),
}
