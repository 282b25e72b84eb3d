"""Recurrent layers are their cells, one element after the other."""

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


@pytest.mark.parametrize(
    "call",
    [
        lambda: nn.lstm(XS[0], *weights(4)),
        lambda: nn.lstm(XS, *weights(3)),
        lambda: nn.lstm(XS, *weights(4), initial=(HIDDEN[:, :3], CELL)),
        lambda: nn.gru(XS, *weights(4)),
        lambda: nn.gru(XS, *weights(3), initial=HIDDEN[:1]),
    ],
)
def test_sequences_and_kernels_that_do_not_fit_are_refused(call):
    with pytest.raises(InputError) as caught:
        call()
    assert caught.value.where.startswith("test_nn_recurrent.py:")
