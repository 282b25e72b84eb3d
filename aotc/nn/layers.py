"""Layers without a family of their own: dense, embedding, dropout, recurrent cells."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aotc import dtypes
from aotc import numpy as np
from aotc.dialects.types import format_shape
from aotc.frontends.array import Array
from aotc.frontends.conversion import ArrayLike, lift
from aotc.frontends.places import fail
from aotc.frontends.tracing import emit


def dense(x: ArrayLike, kernel: ArrayLike, bias: ArrayLike | None = None) -> Array:
    """`x @ kernel + bias`, over the last axis of x."""
    y = np.matmul(x, kernel)
    return y if bias is None else np.add(y, bias)


def embedding(table: ArrayLike, indices: ArrayLike) -> Array:
    """Rows of `table` at `indices`; those out of bounds are clipped."""
    return np.take(table, indices, 0, mode="clip")


def one_hot(indices: ArrayLike, count: int, dtype: Any = "f32") -> Array:
    """1 at the position that each index names along a new last axis, 0 elsewhere."""
    return np.astype(is_class(indices, count), dtype)


def is_class(indices: ArrayLike, count: int) -> Array:
    """True where the position along a new last axis is the index."""
    positions = lift(indices)
    if positions.dtype not in dtypes.INTEGERS:
        fail("dtype-mismatch", f"expected integer classes; got {positions.type}")
    if not isinstance(count, int) or count < 0:
        fail("bad-count", f"expected a number of classes of at least 0; got {count}")
    if dtypes.bits(positions.dtype) < 32:  # whose counter could wrap
        positions = np.astype(positions, "i32")
    shape = (*positions.shape, count)
    line = emit("iota", shape=shape, axis=positions.ndim, dtype=positions.dtype)
    return np.equal(line, np.expand_dims(positions, -1))


def stop_gradient(x: ArrayLike) -> Array:
    """The same values, as a constant to differentiation."""
    return emit("stop_gradient", lift(x))


def dropout(key: ArrayLike, x: ArrayLike, rate: float) -> Array:
    """Zero with probability `rate`, scaled by 1 / (1 - rate) otherwise (training)."""
    from aotc import random

    if not 0 <= rate < 1:
        fail("bad-rate", f"expected a rate of at least 0 and below 1; got {rate}")
    array = lift(x)
    if rate == 0:
        return array
    keep = random.bernoulli(key, 1 - rate, array.shape)
    return np.where(keep, np.multiply(array, 1 / (1 - rate)), 0.0)


# ---- recurrent cells: one step ------------------------------------------------------
# Kernels have the gates beside each other, in their last axis.


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
    hidden, cell = _state(hidden, recurrent, 4), lift(cell)
    gates = np.add(dense(x, kernel, bias), np.matmul(hidden, recurrent))
    i, f, g, o = np.split(gates, 4, -1)
    kept = np.multiply(_logistic(f), cell)
    cell = np.add(kept, np.multiply(_logistic(i), np.tanh(g)))
    return np.multiply(_logistic(o), np.tanh(cell)), cell


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
    xr, xz, xn = np.split(dense(x, kernel, bias), 3, -1)
    if reset_after:
        hr, hz, hn = np.split(dense(hidden, recurrent, recurrent_bias), 3, -1)
        r = _logistic(np.add(xr, hr))
        hn = np.multiply(r, hn)
    else:
        kernels = np.split(recurrent, 3, -1)
        biases = [None] * 3 if recurrent_bias is None else np.split(recurrent_bias, 3)
        hr, hz = (dense(hidden, kernels[gate], biases[gate]) for gate in (0, 1))
        r = _logistic(np.add(xr, hr))
        hn = dense(np.multiply(r, hidden), kernels[2], biases[2])
    z = _logistic(np.add(xz, hz))
    new = np.tanh(np.add(xn, hn))
    return np.add(np.multiply(z, hidden), np.multiply(np.subtract(1.0, z), new))


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
