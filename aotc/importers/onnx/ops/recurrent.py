"""Recurrent layers: RNN, GRU and LSTM, with all that ONNX lets a node choose."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from aotc import nn
from aotc import numpy as np
from aotc.importers.onnx.calling import Imports
from aotc.importers.onnx.ops.activations import (
    elu,
    hard_sigmoid,
    leaky_relu,
    thresholded_relu,
)
from aotc.tracing.array import Array
from aotc.tracing.source_locations import fail

Activation = Callable[[Array], Array]
Floats = tuple[float, ...]


def _affine(x: Array, *, alpha: float = 1.0, beta: float = 0.0) -> Array:
    """Return alpha x + beta."""
    return np.add(np.multiply(x, alpha), beta)


def _scaled_tanh(x: Array, *, alpha: float = 1.0, beta: float = 1.0) -> Array:
    """Return alpha tanh(beta x)."""
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
    """Yield the activation functions with these names, given alphas and betas
    in turn.
    """
    alpha, beta = iter(alphas), iter(betas)
    for name in names:
        if name.lower() not in _ACTIVATIONS:
            fail("bad-node", f"expected one of {list(_ACTIVATIONS)}; got {name!r}")
        function, takes = _ACTIVATIONS[name.lower()]
        given = (("alpha", alpha), ("beta", beta))[:takes]
        drawn = {key: next(values, None) for key, values in given}
        yield partial(function, **{k: v for k, v in drawn.items() if v is not None})


@dataclass(frozen=True, kw_only=True)
class RecurrentAttributes:
    """The node attributes that RNN, GRU and LSTM share."""

    activation_alpha: Floats = ()
    activation_beta: Floats = ()
    activations: tuple[str, ...] = ()
    clip: float | None = None
    direction: str = "forward"
    hidden_size: int = 0
    layout: int = 0

    def reverses(self) -> list[bool]:
        """Return, for each direction, whether it runs backwards in time."""
        both = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}
        if self.direction not in both:
            fail("bad-node", f"expected one of {list(both)}; got {self.direction!r}")
        return both[self.direction]

    def functions(self, *usual: str) -> list[list[Activation]]:
        """Return the activation functions of each direction; `usual` names the
        defaults.
        """
        all_usual = usual * len(self.reverses())
        names = self.activations or all_usual
        if len(names) != len(all_usual):
            fail(
                "bad-node",
                f"expected {len(all_usual)} activations: {len(usual)} for each "
                f"direction of {self.direction!r}; got {len(names)}: {list(names)}",
            )
        each = list(_activations(names, self.activation_alpha, self.activation_beta))
        starts = range(0, len(each), len(usual))
        return [self._clip_gates(each[n : n + len(usual)]) for n in starts]

    def _clip_gates(self, functions: list[Activation]) -> list[Activation]:
        """Return activations with the inputs of the gates' ones clipped; a cell's are
        not.
        """
        clip = self.clip
        if clip is None:
            return functions
        if not clip > 0:
            fail("bad-node", f"expected a clip above 0; got {clip}")
        gates = [
            lambda x, function=function: function(np.clip(x, -clip, clip))
            for function in functions[:2]
        ]
        return [*gates, *functions[2:]]


Weights = tuple[Array, Array, Array | None]


def _require_directions(
    arrays: Sequence[Array | None], options: RecurrentAttributes
) -> None:
    """Refuse an array whose axis 0 does not have one row for each direction."""
    count = len(options.reverses())
    for part in arrays:
        rows = count if part is None else part.shape[0]
        if part is not None and isinstance(rows, int) and rows != count:
            fail(
                "bad-node",
                f"expected weights and states of {count} direction(s), as "
                f"{options.direction!r} has; got {part.type}",
            )


def _run(
    layer: Callable[..., Any],
    x: Array,
    weights: Weights,
    lengths: Array | None,
    initial: Sequence[Array | None],
    options: RecurrentAttributes,
    own: Sequence[Mapping[str, object]],
) -> list[Array]:
    """Run a recurrent layer in each direction; return all hidden states and the last.

    Args:
        layer: of `aotc.nn`.
        x: length, batch, inputs; batch first in the other layout.
        weights: of inputs and of states, and their biases in a row; directions first.
        lengths: of the sequences.
        initial: the first states, directions first.
        options: what all layers share.
        own: of each direction, what the layer has to itself.
    """
    if options.layout:
        x = np.swapaxes(x, 0, 1)
        initial = [s if s is None else np.swapaxes(s, 0, 1) for s in initial]
    _require_directions([*weights, *initial], options)
    of_x, of_h, biases = weights
    none = np.zeros((x.shape[1], of_h.shape[2]), x.dtype)
    hiddens, lasts = [], []
    for d, reverse in enumerate(options.reverses()):
        first = [none if s is None else s[d] for s in initial]
        hidden, last = layer(
            x,
            np.transpose(of_x[d]),
            np.transpose(of_h[d]),
            *([] if biases is None else np.split(biases[d], 2)),
            initial=first[0] if len(first) == 1 else tuple(first),
            reverse=reverse,
            lengths=lengths,
            **own[d],
        )
        hiddens.append(hidden)
        lasts.append(last if len(first) > 1 else [last])
    hidden = np.stack(hiddens, 1)
    states = [np.stack(parts) for parts in zip(*lasts, strict=True)]
    if options.layout:
        hidden = np.transpose(hidden, (2, 0, 1, 3))
        states = [np.swapaxes(state, 0, 1) for state in states]
    return [hidden, *states]


# ---- the three layers ---------------------------------------------------------------


def rnn(
    x: Array,
    kernel: Array,
    recurrent: Array,
    bias: Array | None = None,
    lengths: Array | None = None,
    initial: Array | None = None,
    *,
    options: RecurrentAttributes,
) -> list[Array]:
    """Return all hidden states of a simple recurrent layer, and the last."""
    own = [{"activation": function} for (function,) in options.functions("Tanh")]
    weights = kernel, recurrent, bias
    return _run(nn.simple_rnn, x, weights, lengths, [initial], options, own)


def gru(
    x: Array,
    kernel: Array,
    recurrent: Array,
    bias: Array | None = None,
    lengths: Array | None = None,
    initial: Array | None = None,
    *,
    linear_before_reset: int = 0,
    options: RecurrentAttributes,
) -> list[Array]:
    """Return all hidden states of gated recurrent units, and the last."""
    own = [{"activations": each} for each in options.functions("Sigmoid", "Tanh")]
    layer = partial(nn.gru, gates="zrn", reset_after=bool(linear_before_reset))
    weights = kernel, recurrent, bias
    return _run(layer, x, weights, lengths, [initial], options, own)


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
    input_forget: int = 0,
    options: RecurrentAttributes,
) -> list[Array]:
    """Return all hidden states of an LSTM, the last hidden state and the last cell."""
    _require_directions([peepholes], options)
    own = [
        {"activations": each, "peepholes": None if peepholes is None else peepholes[d]}
        for d, each in enumerate(options.functions("Sigmoid", "Tanh", "Tanh"))
    ]
    layer = partial(nn.lstm, gates="iofg", coupled=bool(input_forget))
    weights, states = (kernel, recurrent, bias), (initial, initial_cell)
    return _run(layer, x, weights, lengths, states, options, own)


TABLE: dict[str, Imports] = {"GRU": gru, "LSTM": lstm, "RNN": rnn}
