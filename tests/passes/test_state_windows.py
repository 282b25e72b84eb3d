"""A window of a state is written where it is, if nothing reads the old value."""

import pytest

import aotc
from aotc import debug
from aotc import numpy as np
from aotc.passes import run_passes
from aotc.tracing.assembly import trace

LOWERED = ["autodiff", "inline", "simplify", "cse", "decompose", "simplify", "cse"]
LOWERED += ["lower-to-linalg", "cse"]
MATRIX = np.ones((8, 3))


def write(x, part, at):
    """Some rows of x."""
    return np.dynamic_update_slice(x, part, [at, 0])


def windows_written(update, tree):
    """How many windows an entry writes without a copy of the state."""

    @aotc.entry(x=aotc.Spec((2, 3)), at=aotc.Spec((), "i32"), state=aotc.State(tree))
    def step(state, x, at):
        return update(state, x, at)

    module = trace([step], {}).module
    run_passes(module, LOWERED)
    return str(module).count("call @iree.write_window")


def test_windows_of_states_are_written_where_they_are():
    def update(s, x, at):
        a, b = write(s["a"], x, at), write(s["b"], x * 2.0, at + 1)
        return {"a": a, "b": write(b, x, at)}, (a @ x.T, b.sum())

    assert windows_written(update, {"a": MATRIX, "b": MATRIX}) == 1

    def chain(s, x, at):
        return {**s, "b": write(write(s["b"], x, at), x, 0)}, x

    assert windows_written(chain, {"a": MATRIX, "b": MATRIX}) == 2


def test_one_position_that_is_set_is_a_window():
    def update(s, x, at):
        a, b = s[0].at[at].set(x[0]), s[1].at[:, at].set(x[0, 0])
        return [a, b], a @ b.T

    assert windows_written(update, [MATRIX, MATRIX]) == 2

    def several(s, x, at):
        return [s[0].at[np.stack([at, at + 1])].set(x), s[1]], x

    assert windows_written(several, [MATRIX, MATRIX]) == 0


@pytest.mark.parametrize(
    "update",
    [
        lambda s, x, at: ([write(s[0], x, at), s[1]], s[0]),  # returned
        lambda s, x, at: ([write(s[0], x, at), s[1]], s[0] @ x.T),  # read
        lambda s, x, at: ([write(s[0], x + s[0][:2], at), s[1]], x),  # in another way
        lambda s, x, at: ([write(s[1], x, at), s[0]], x),  # exchanged
        lambda s, x, at: ([write(s[0] + 1.0, x, at), s[1]], x),  # another value
        lambda s, x, at: ([s[1], s[0]], write(s[0], x, at)),  # no new state
    ],
)
def test_another_use_of_the_old_value_keeps_it(update):
    assert windows_written(update, [MATRIX, MATRIX]) == 0


def test_a_single_state_is_not_written_over():
    assert windows_written(lambda s, x, at: (write(s, x, at), x), MATRIX) == 0

    def beside_nothing(s, x, at):
        return [write(s[0], x, at), s[1]], x

    assert windows_written(beside_nothing, [MATRIX, np.zeros((0, 3))]) == 0


def test_an_entry_that_may_fail_writes_over_nothing():
    def update(s, x, at):
        debug.check(x.sum() > 0.0, "negative")
        return [write(s[0], x, at), s[1]], x

    assert windows_written(update, [MATRIX, MATRIX]) == 0
