"""Recurrent layers: one step of each cell, and whole sequences.

Kernels have the gates beside each other, in their last axis. Sequences are length,
batch, features, as `control.scan` takes them. All products with the inputs are made at
once, before the loop.
"""

from __future__ import annotations

from collections.abc import Callable

from aotc import control
from aotc import numpy as np
from aotc.dialects.types import format_shape
from aotc.nn.layers import dense
from aotc.tracing.array import Array
from aotc.tracing.conversion import ArrayLike, lift
from aotc.tracing.source_locations import fail
from aotc.tracing.tracing import emit


def simple_rnn_cell(
    x: ArrayLike,
    hidden: ArrayLike,
    kernel: ArrayLike,
    recurrent: ArrayLike,
    bias: ArrayLike | None = None,
    activation: Callable[[ArrayLike], Array] = np.tanh,
) -> Array:
    """The next state, `activation(x @ kernel + hidden @ recurrent + bias)`.

    Args:
        x: batch, inputs.
        hidden: the state, batch, units.
        kernel: inputs, units.
        recurrent: units, units.
        bias: units, or None.
        activation: of one array.
    """
    hidden = _state(hidden, recurrent, 1)
    return activation(np.add(dense(x, kernel, bias), np.matmul(hidden, recurrent)))


def lstm_cell(
    x: ArrayLike,
    hidden: ArrayLike,
    cell: ArrayLike,
    kernel: ArrayLike,
    recurrent: ArrayLike,
    bias: ArrayLike | None = None,
) -> tuple[Array, Array]:
    """One step of a long short-term memory: the next (hidden, cell).

    The gates are input, forget, cell, output, as in PyTorch. Hochreiter and
    Schmidhuber, 1997; Gers, Schmidhuber and Cummins, 2000.

    Args:
        x: batch, inputs.
        hidden: batch, units.
        cell: batch, units.
        kernel: inputs, 4 * units.
        recurrent: units, 4 * units.
        bias: 4 * units, or None.
    """
    hidden = _state(hidden, recurrent, 4)
    return _lstm_step(dense(x, kernel, bias), hidden, lift(cell), recurrent)


def gru_cell(
    x: ArrayLike,
    hidden: ArrayLike,
    kernel: ArrayLike,
    recurrent: ArrayLike,
    bias: ArrayLike | None = None,
    recurrent_bias: ArrayLike | None = None,
    *,
    reset_after: bool = True,
) -> Array:
    """One step of a gated recurrent unit: the next state.

    The gates are reset, update, new, as in PyTorch. Cho et al., EMNLP 2014.

    Args:
        x: batch, inputs.
        hidden: batch, units.
        kernel: inputs, 3 * units.
        recurrent: units, 3 * units.
        bias: 3 * units, or None.
        recurrent_bias: 3 * units, or None.
        reset_after: whether the reset gate acts on the product with `recurrent`
            (PyTorch, cuDNN) or on the state before it (the paper).
    """
    hidden = _state(hidden, recurrent, 3)
    inputs = dense(x, kernel, bias)
    return _gru_step(inputs, hidden, recurrent, recurrent_bias, reset_after)


# ---- sequences ----------------------------------------------------------------------


def lstm(
    xs: ArrayLike,
    kernel: ArrayLike,
    recurrent: ArrayLike,
    bias: ArrayLike | None = None,
    *,
    initial: tuple[ArrayLike, ArrayLike] | None = None,
    reverse: bool = False,
) -> tuple[Array, tuple[Array, Array]]:
    """`lstm_cell` over sequences: all hidden states, and the last (hidden, cell).

    Args:
        xs: length, batch, inputs.
        kernel: inputs, 4 * units.
        recurrent: units, 4 * units.
        bias: 4 * units, or None.
        initial: hidden and cell, batch, units each; zeros if None.
        reverse: from the last element to the first; the results keep the order of xs.
    """
    inputs = _inputs(xs, kernel, bias)
    hidden, cell = (_zeros(inputs, recurrent),) * 2 if initial is None else initial
    first = (_state(hidden, recurrent, 4), lift(cell))

    def step(state: tuple[Array, Array], x: Array) -> tuple[tuple[Array, Array], Array]:
        new = _lstm_step(x, *state, recurrent)
        return new, new[0]

    last, hiddens = control.scan(step, first, inputs, reverse=reverse)
    return hiddens, last


def gru(
    xs: ArrayLike,
    kernel: ArrayLike,
    recurrent: ArrayLike,
    bias: ArrayLike | None = None,
    recurrent_bias: ArrayLike | None = None,
    *,
    initial: ArrayLike | None = None,
    reset_after: bool = True,
    reverse: bool = False,
) -> tuple[Array, Array]:
    """`gru_cell` over sequences: all hidden states, and the last one.

    Args:
        xs: length, batch, inputs.
        kernel: inputs, 3 * units.
        recurrent: units, 3 * units.
        bias: 3 * units, or None.
        recurrent_bias: 3 * units, or None.
        initial: batch, units; zeros if None.
        reset_after: see `gru_cell`.
        reverse: from the last element to the first; the results keep the order of xs.
    """
    inputs = _inputs(xs, kernel, bias)
    hidden = _zeros(inputs, recurrent) if initial is None else initial
    first = _state(hidden, recurrent, 3)

    def step(hidden: Array, x: Array) -> tuple[Array, Array]:
        new = _gru_step(x, hidden, recurrent, recurrent_bias, reset_after)
        return new, new

    last, hiddens = control.scan(step, first, inputs, reverse=reverse)
    return hiddens, last


# ---- parts --------------------------------------------------------------------------


def _lstm_step(
    inputs: Array, hidden: Array, cell: Array, recurrent: ArrayLike
) -> tuple[Array, Array]:
    """The next (hidden, cell); `inputs` is what x adds to the gates."""
    gates = np.add(inputs, np.matmul(hidden, recurrent))
    i, f, g, o = np.split(gates, 4, -1)
    kept = np.multiply(_logistic(f), cell)
    cell = np.add(kept, np.multiply(_logistic(i), np.tanh(g)))
    return np.multiply(_logistic(o), np.tanh(cell)), cell


def _gru_step(
    inputs: Array,
    hidden: Array,
    recurrent: ArrayLike,
    bias: ArrayLike | None,
    reset_after: bool,
) -> Array:
    """The next state; `inputs` is what x adds to the gates."""
    xr, xz, xn = np.split(inputs, 3, -1)
    if reset_after:
        hr, hz, hn = np.split(dense(hidden, recurrent, bias), 3, -1)
        r = _logistic(np.add(xr, hr))
        hn = np.multiply(r, hn)
    else:
        kernels = np.split(recurrent, 3, -1)
        biases = [None] * 3 if bias is None else np.split(bias, 3)
        hr, hz = (dense(hidden, kernels[gate], biases[gate]) for gate in (0, 1))
        r = _logistic(np.add(xr, hr))
        hn = dense(np.multiply(r, hidden), kernels[2], biases[2])
    z = _logistic(np.add(xz, hz))
    new = np.tanh(np.add(xn, hn))
    return np.add(np.multiply(z, hidden), np.multiply(np.subtract(1.0, z), new))


def _inputs(xs: ArrayLike, kernel: ArrayLike, bias: ArrayLike | None) -> Array:
    """What the elements of sequences add to the gates, all at once."""
    array = lift(xs)
    if array.ndim != 3:
        fail(
            "shape-mismatch", f"expected xs as length, batch, inputs; got {array.type}"
        )
    return dense(array, kernel, bias)


def _zeros(inputs: Array, recurrent: ArrayLike) -> Array:
    """The state before anything, for inputs length, batch, gates * units."""
    units = lift(recurrent).shape[:1]
    return np.zeros((inputs.shape[1], *units), inputs.dtype)


def _logistic(x: Array) -> Array:
    return emit("logistic", x)


def _state(hidden: ArrayLike, recurrent: ArrayLike, gates: int) -> Array:
    """The state, which must have as many units as the kernel says."""
    state, kernel = lift(hidden), lift(recurrent)
    units = state.shape[-1] if state.ndim else 0
    if kernel.shape != (units, gates * units):
        fail(
            "shape-mismatch",
            f"expected a recurrent kernel of {format_shape((units, gates * units))} "
            f"for a state {state.type}; got {kernel.type}",
        )
    return state
