"""Recurrent layers: one step of each cell, and whole sequences.

Kernels have the gates beside each other, in their last axis. Sequences are length,
batch, features, as `control.scan` takes them. All products with the inputs are made at
once, before the loop.

Weights of other frameworks fit after a transpose: `gates` says in which order they have
the gates. PyTorch has "ifgo" and "rzn", ONNX "iofg" and "zrn", Keras "ifgo" and "zrn".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from aotc import control
from aotc import numpy as np
from aotc.core import dtypes
from aotc.dialects.types import format_shape
from aotc.nn.activations import sigmoid
from aotc.nn.layers import dense
from aotc.tracing.array import Array
from aotc.tracing.conversion import ArrayLike, astype, lift
from aotc.tracing.source_locations import fail

__all__ = ["gru", "gru_cell", "lstm", "lstm_cell", "simple_rnn", "simple_rnn_cell"]

Activation = Callable[[Array], Array]
State = tuple[Array, ...]
# what an element of the sequence adds to the gates, and the state → the next state,
# whose first part is the hidden one
Step = Callable[[Array, State], State]


# ---- one step -----------------------------------------------------------------------


def simple_rnn_cell(
    x: ArrayLike,
    hidden: ArrayLike,
    kernel: ArrayLike,
    recurrent: ArrayLike,
    bias: ArrayLike | None = None,
    activation: Activation = np.tanh,
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
    state = _state(hidden, recurrent, 1)
    return _simple_step(recurrent, activation)(dense(x, kernel, bias), (state,))[0]


def lstm_cell(
    x: ArrayLike,
    hidden: ArrayLike,
    cell: ArrayLike,
    kernel: ArrayLike,
    recurrent: ArrayLike,
    bias: ArrayLike | None = None,
) -> tuple[Array, Array]:
    """Compute one step of a long short-term memory: the next (hidden, cell).

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
    state = _state(hidden, recurrent, 4), lift(cell)
    new = _lstm_step(recurrent)(dense(x, kernel, bias), state)
    return new[0], new[1]


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
    """Compute one step of a gated recurrent unit: the next state.

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
    state = _state(hidden, recurrent, 3)
    step = _gru_step(recurrent, recurrent_bias, reset_after)
    return step(dense(x, kernel, bias), (state,))[0]


# ---- sequences ----------------------------------------------------------------------


def simple_rnn(
    xs: ArrayLike,
    kernel: ArrayLike,
    recurrent: ArrayLike,
    bias: ArrayLike | None = None,
    recurrent_bias: ArrayLike | None = None,
    *,
    initial: ArrayLike | None = None,
    reverse: bool = False,
    lengths: ArrayLike | None = None,
    activation: Activation = np.tanh,
) -> tuple[Array, Array]:
    """`simple_rnn_cell` over sequences: all hidden states, and the last one.

    Args:
        xs: length, batch, inputs.
        kernel: inputs, units.
        recurrent: units, units.
        bias: units, or None.
        recurrent_bias: units, or None; it is added to `bias`.
        initial: batch, units; zeros if None.
        reverse: from the last element to the first; the results keep the order of xs.
        lengths: batch; how many elements each sequence has, all if None. States after
            them are 0, and the last one is that of the last element.
        activation: of one array.
    """
    inputs = _inputs(xs, kernel, _sum(bias, recurrent_bias))
    first = (_first(initial, inputs, recurrent, 1),)
    step = _simple_step(recurrent, activation)
    hiddens, last = _scan(step, first, inputs, lengths, reverse)
    return hiddens, last[0]


def lstm(
    xs: ArrayLike,
    kernel: ArrayLike,
    recurrent: ArrayLike,
    bias: ArrayLike | None = None,
    recurrent_bias: ArrayLike | None = None,
    *,
    initial: tuple[ArrayLike, ArrayLike] | None = None,
    reverse: bool = False,
    lengths: ArrayLike | None = None,
    gates: str = "ifgo",
    activations: Sequence[Activation] = (sigmoid, np.tanh, np.tanh),
    peepholes: ArrayLike | None = None,
    coupled: bool = False,
    projection: ArrayLike | None = None,
) -> tuple[Array, tuple[Array, Array]]:
    """`lstm_cell` over sequences: all hidden states, and the last (hidden, cell).

    Arguments as of `simple_rnn`; kernels and biases have 4 * units, in the order of
    `gates`: input (i), forget (f), cell (g), output (o). The activations are those of
    i, f and o, of g, and of the new cell. Peepholes, 3 * units in the order of `gates`
    without g, are factors of what the cell adds to the gates (Gers and Schmidhuber,
    2000). If they are `coupled`, the forget gate is 1 - the input gate (Greff et al.,
    "LSTM: a search space odyssey", 2017), and its part of the kernels does nothing.
    A `projection` of (units, projected) is a product that makes the hidden states of
    what the output gate lets through (Sak et al., 2014); these, and so the rows of
    `recurrent`, are as many as its columns.
    """
    inputs = _inputs(xs, kernel, _sum(bias, recurrent_bias))
    hidden, cell = (None, None) if initial is None else initial
    first = (
        _first(hidden, inputs, recurrent, 4, projection),
        _first_cell(cell, inputs, recurrent, projection),
    )
    step = _lstm_step(recurrent, gates, activations, peepholes, coupled, projection)
    hiddens, last = _scan(step, first, inputs, lengths, reverse)
    return hiddens, (last[0], last[1])


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
    lengths: ArrayLike | None = None,
    gates: str = "rzn",
    activations: Sequence[Activation] = (sigmoid, np.tanh),
) -> tuple[Array, Array]:
    """`gru_cell` over sequences: all hidden states, and the last one.

    Arguments as of `simple_rnn` and `gru_cell`; kernels and biases have 3 * units, in
    the order of `gates`: reset (r), update (z), new (n). The activations are those of r
    and z, and of n.
    """
    inputs = _inputs(xs, kernel, bias)
    first = (_first(initial, inputs, recurrent, 3),)
    step = _gru_step(recurrent, recurrent_bias, reset_after, gates, activations)
    hiddens, last = _scan(step, first, inputs, lengths, reverse)
    return hiddens, last[0]


def _scan(
    advance: Step, first: State, inputs: Array, lengths: ArrayLike | None, reverse: bool
) -> tuple[Array, State]:
    """Run a recurrent step over the sequences; return all hidden states and the last
    state.
    """

    def step(state: State, x: Array) -> tuple[State, Array]:
        new = advance(x, state)
        return new, new[0]

    def step_within(state: State, element: tuple[Array, Array]) -> tuple[State, Array]:
        x, place = element
        new = advance(x, state)
        within = np.expand_dims(np.less(place, ends), 1)
        kept = (np.where(within, n, old) for n, old in zip(new, state, strict=True))
        return tuple(kept), np.where(within, new[0], 0.0)

    if lengths is None:
        last, hiddens = control.scan(step, first, inputs, reverse=reverse)
        return hiddens, last
    ends = _lengths(lengths, inputs)
    elements = inputs, np.arange(inputs.shape[0], dtype="i32")
    last, hiddens = control.scan(step_within, first, elements, reverse=reverse)
    return hiddens, last


# ---- steps --------------------------------------------------------------------------


def _simple_step(recurrent: ArrayLike, activation: Activation) -> Step:
    """Return the step function of a simple RNN."""

    def step(inputs: Array, state: State) -> State:
        return (activation(np.add(inputs, np.matmul(state[0], recurrent))),)

    return step


def _lstm_step(
    recurrent: ArrayLike,
    gates: str = "ifgo",
    activations: Sequence[Activation] = (sigmoid, np.tanh, np.tanh),
    peepholes: ArrayLike | None = None,
    coupled: bool = False,
    projection: ArrayLike | None = None,
) -> Step:
    """Return the step function of an LSTM."""
    _require_options(gates, "ifgo", activations, 3)
    squash, curve, curve_cell = activations
    looks = {} if peepholes is None else _by_gate(peepholes, gates.replace("g", ""))

    def step(inputs: Array, state: State) -> State:
        hidden, cell = state
        parts = _by_gate(np.add(inputs, np.matmul(hidden, recurrent)), gates)

        def gate(name: str, cell: Array) -> Array:
            part = parts[name]
            if name in looks:
                part = np.add(part, np.multiply(looks[name], cell))
            return squash(part)

        i = gate("i", cell)
        f = np.subtract(1.0, i) if coupled else gate("f", cell)
        kept = np.multiply(f, cell)
        cell = np.add(kept, np.multiply(i, curve(parts["g"])))
        hidden = np.multiply(gate("o", cell), curve_cell(cell))
        return hidden if projection is None else np.matmul(hidden, projection), cell

    return step


def _gru_step(
    recurrent: ArrayLike,
    bias: ArrayLike | None,
    reset_after: bool,
    gates: str = "rzn",
    activations: Sequence[Activation] = (sigmoid, np.tanh),
) -> Step:
    """Return the step function of a GRU."""
    _require_options(gates, "rzn", activations, 2)
    squash, curve = activations
    kernels = {} if reset_after else _by_gate(recurrent, gates)
    biases = {} if reset_after or bias is None else _by_gate(bias, gates)

    def product(hidden: Array, name: str) -> Array:
        return dense(hidden, kernels[name], biases.get(name))

    def step(inputs: Array, state: State) -> State:
        (hidden,) = state
        x = _by_gate(inputs, gates)
        if reset_after:
            h = _by_gate(dense(hidden, recurrent, bias), gates)
            r = squash(np.add(x["r"], h["r"]))
            h["n"] = np.multiply(r, h["n"])
        else:
            h = {name: product(hidden, name) for name in "rz"}
            r = squash(np.add(x["r"], h["r"]))
            h["n"] = product(np.multiply(r, hidden), "n")
        z = squash(np.add(x["z"], h["z"]))
        new = curve(np.add(x["n"], h["n"]))
        kept = np.multiply(z, hidden)
        return (np.add(kept, np.multiply(np.subtract(1.0, z), new)),)

    return step


def _by_gate(x: ArrayLike, gates: str) -> dict[str, Array]:
    """Split the last axis into equal parts; return them by the letters of `gates`."""
    return dict(zip(gates, np.split(x, len(gates), -1), strict=True))


# ---- arguments ----------------------------------------------------------------------


def _require_options(
    gates: str, known: str, activations: Sequence[Activation], count: int
) -> None:
    """Raise unless gates are a permutation of `known` and activations are `count`."""
    if sorted(gates) != sorted(known):
        fail("bad-mode", f"expected the gates {known!r} in any order; got {gates!r}")
    if len(activations) != count:
        fail("bad-count", f"expected {count} activations; got {len(activations)}")


def _lengths(lengths: ArrayLike, inputs: Array) -> Array:
    """Return sequence lengths in i32; raise unless there is one integer each."""
    array = lift(lengths)
    is_integer = array.dtype in dtypes.INTEGERS
    if not is_integer or array.type.shape != inputs.type.shape[1:2]:
        fail(
            "shape-mismatch",
            f"expected lengths as one integer for each of {inputs.type.shape[1]} "
            "sequences; "
            f"got {array.type}",
        )
    return astype(array, "i32")


def _inputs(xs: ArrayLike, kernel: ArrayLike, bias: ArrayLike | None) -> Array:
    """Multiply the sequences by the input kernel, for all steps together."""
    array = lift(xs)
    if array.ndim != 3:
        fail(
            "shape-mismatch", f"expected xs as length, batch, inputs; got {array.type}"
        )
    return dense(array, kernel, bias)


def _sum(bias: ArrayLike | None, other: ArrayLike | None) -> ArrayLike | None:
    """Return the sum of two optional biases."""
    if bias is None or other is None:
        return other if bias is None else bias
    return np.add(bias, other)


def _first(
    initial: ArrayLike | None,
    inputs: Array,
    recurrent: ArrayLike,
    gates: int,
    projection: ArrayLike | None = None,
) -> Array:
    """Return the initial hidden state, zeros by default, after checking its shape."""
    if initial is None:
        initial = np.zeros((inputs.shape[1], *lift(recurrent).shape[:1]), inputs.dtype)
    return _state(initial, recurrent, gates, projection)


def _first_cell(
    initial: ArrayLike | None,
    inputs: Array,
    recurrent: ArrayLike,
    projection: ArrayLike | None,
) -> Array:
    """Return the initial cell state of an LSTM, zeros by default."""
    if projection is None:
        return _first(initial, inputs, recurrent, 4)
    units = lift(projection).shape[0]
    if initial is None:
        return np.zeros((inputs.shape[1], units), inputs.dtype)
    cell = lift(initial)
    if cell.type.shape[-1:] != lift(projection).type.shape[:1]:
        fail("shape-mismatch", f"expected {units} units of a cell; got {cell.type}")
    return cell


def _state(
    hidden: ArrayLike,
    recurrent: ArrayLike,
    gates: int,
    projection: ArrayLike | None = None,
) -> Array:
    """Return a hidden state after checking it against the recurrent kernel's shape."""
    state, kernel = lift(hidden), lift(recurrent)
    size = state.type.shape[-1] if state.ndim else 0
    units = size
    if projection is not None:
        shape = lift(projection).type.shape
        if shape[1:] != (size,):
            fail(
                "shape-mismatch",
                f"expected a projection of (units, {size}) for a state {state.type}; "
                f"got {format_shape(shape)}",
            )
        units = shape[0]
    if kernel.type.shape != (size, gates * units):
        fail(
            "shape-mismatch",
            f"expected a recurrent kernel of {format_shape((size, gates * units))} "
            f"for a state {state.type}; got {kernel.type}",
        )
    return state
