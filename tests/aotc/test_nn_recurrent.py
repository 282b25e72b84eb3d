"""Recurrent layers are their cells, one element after the other."""

from functools import partial

import numpy as np
import pytest

import aotc.numpy as anp
from aotc import nn
from aotc.errors import InputError

LENGTH, BATCH, INPUTS, UNITS = 5, 2, 3, 4


def drawn(*shape):
    return np.random.default_rng(sum(shape)).normal(size=shape).astype("f4")


def weights(gates):
    """Kernel, recurrent kernel and bias."""
    width = gates * UNITS
    return drawn(INPUTS, width), drawn(UNITS, width), drawn(width)


XS, HIDDEN, CELL = drawn(LENGTH, BATCH, INPUTS), drawn(BATCH, UNITS), drawn(BATCH, 4)


@pytest.mark.parametrize("reverse", [False, True])
def test_an_lstm_is_its_cell_along_the_sequence(reverse):
    state, steps = (HIDDEN, CELL), []
    for x in XS[::-1] if reverse else XS:
        state = nn.lstm_cell(x, *state, *weights(4))
        steps.append(state[0])
    hiddens, last = nn.lstm(XS, *weights(4), initial=(HIDDEN, CELL), reverse=reverse)
    wanted = anp.stack(steps[::-1] if reverse else steps)
    np.testing.assert_allclose(hiddens, wanted, 1e-5, 1e-6)
    np.testing.assert_allclose(last, state, 1e-5, 1e-6)


@pytest.mark.parametrize("reset_after", [False, True])
def test_a_gru_is_its_cell_along_the_sequence(reset_after):
    given = (*weights(3), drawn(3 * UNITS))
    hidden, steps = np.zeros((BATCH, UNITS), "f4"), []
    for x in XS:
        hidden = nn.gru_cell(x, hidden, *given, reset_after=reset_after)
        steps.append(hidden)
    hiddens, last = nn.gru(XS, *given, reset_after=reset_after)
    np.testing.assert_allclose(hiddens, anp.stack(steps), 1e-5, 1e-6)
    np.testing.assert_allclose(last, hidden, 1e-5, 1e-6)


LAYERS = {"simple_rnn": 1, "lstm": 4, "gru": 3}


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("reverse", [False, True])
def test_sequences_with_lengths_are_what_shorter_sequences_are(name, reverse):
    layer = partial(getattr(nn, name), reverse=reverse)
    lengths = np.array([3, LENGTH, 0])
    xs = drawn(LENGTH, 3, INPUTS)
    hiddens, last = layer(xs, *weights(LAYERS[name]), lengths=lengths)
    after = np.arange(LENGTH)[:, None] >= lengths
    assert not np.asarray(hiddens)[after].any()
    assert not any(np.asarray(part[2]).any() for part in leaves(last))
    for n, length in enumerate(lengths[:2]):
        alone, end = layer(xs[:length, n : n + 1], *weights(LAYERS[name]))
        np.testing.assert_allclose(hiddens[:length, n], alone[:, 0], 1e-5, 1e-6)
        for one, other in zip(leaves(last), leaves(end), strict=True):
            np.testing.assert_allclose(one[n], other[0], 1e-5, 1e-6)


def leaves(state):
    return state if isinstance(state, tuple) else (state,)


@pytest.mark.parametrize(("name", "gates"), [("lstm", "iofg"), ("gru", "zrn")])
def test_kernels_may_have_the_gates_in_any_order(name, gates):
    usual = {"lstm": "ifgo", "gru": "rzn"}[name]
    given = (*weights(len(gates)), drawn(len(gates) * UNITS))
    parts = [np.split(part, len(gates), -1) for part in given]
    moved = [
        np.concatenate([part[usual.index(gate)] for gate in gates], -1)
        for part in parts
    ]
    wanted, _ = getattr(nn, name)(XS, *given)
    found, _ = getattr(nn, name)(XS, *moved, gates=gates)
    np.testing.assert_allclose(found, wanted, 1e-5, 1e-6)


def test_the_cell_of_an_lstm_may_look_at_its_gates():
    kernel, recurrent, bias = weights(4)
    looks = drawn(3 * UNITS)
    by_input, by_forget, by_output = np.split(looks, 3)
    gates = XS[0] @ kernel + HIDDEN @ recurrent + bias
    i, f, g, o = np.split(gates, 4, -1)
    for coupled in (False, True):
        i_open = sigmoid(i + by_input * CELL)
        f_open = 1 - i_open if coupled else sigmoid(f + by_forget * CELL)
        cell = f_open * CELL + i_open * np.tanh(g)
        hidden = sigmoid(o + by_output * cell) * np.tanh(cell)
        _, last = nn.lstm(
            XS[:1], kernel, recurrent, bias,
            initial=(HIDDEN, CELL), peepholes=looks, coupled=coupled,
        )  # fmt: skip
        np.testing.assert_allclose(last, (hidden, cell), 1e-5, 1e-6)


@pytest.mark.parametrize("reverse", [False, True])
def test_the_states_of_an_lstm_may_be_projected(reverse):
    kernel, recurrent, bias = drawn(INPUTS, 4 * UNITS), drawn(2, 4 * UNITS), drawn(16)
    projection, hidden, cell = drawn(UNITS, 2), np.zeros((BATCH, 2), "f4"), CELL
    for x in XS[::-1] if reverse else XS:
        i, f, g, o = np.split(x @ kernel + hidden @ recurrent + bias, 4, -1)
        cell = sigmoid(f) * cell + sigmoid(i) * np.tanh(g)
        hidden = sigmoid(o) * np.tanh(cell) @ projection
    given = {"projection": projection, "reverse": reverse}
    first = np.zeros((BATCH, 2), "f4"), CELL
    _, last = nn.lstm(XS, kernel, recurrent, bias, initial=first, **given)
    np.testing.assert_allclose(last[0], hidden, 1e-5, 1e-6)
    np.testing.assert_allclose(last[1], cell, 1e-5, 1e-6)
    _, last = nn.lstm(XS, kernel, recurrent, bias, **given)
    assert (last[0].shape, last[1].shape) == ((BATCH, 2), (BATCH, UNITS))


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


@pytest.mark.parametrize(
    "call",
    [
        lambda: nn.lstm(XS[0], *weights(4)),
        lambda: nn.lstm(XS, *weights(3)),
        lambda: nn.lstm(XS, *weights(4), initial=(HIDDEN[:, :3], CELL)),
        lambda: nn.lstm(XS, *weights(4), projection=drawn(UNITS, 2)),
        lambda: nn.lstm(XS, *weights(4), projection=drawn(3, UNITS)),
        lambda: nn.lstm(
            *(XS, *weights(4)),
            initial=(HIDDEN, CELL[:, :3]),
            projection=drawn(UNITS, UNITS),
        ),
        lambda: nn.gru(XS, *weights(4)),
        lambda: nn.gru(XS, *weights(3), initial=HIDDEN[:1]),
        lambda: nn.gru(XS, *weights(3), lengths=[1, 2, 3]),
        lambda: nn.gru(XS, *weights(3), lengths=[1.0, 2.0]),
        lambda: nn.gru(XS, *weights(3), gates="zzn"),
        lambda: nn.lstm(XS, *weights(4), activations=(nn.sigmoid, anp.tanh)),
    ],
)
def test_sequences_and_kernels_that_do_not_fit_are_refused(call):
    with pytest.raises(InputError) as caught:
        call()
    assert caught.value.where.startswith("test_nn_recurrent.py:")
