"""update-in-place: states that change together are written in one loop."""

import pytest

import aotc
from aotc import debug, optim
from aotc import numpy as np
from aotc.passes import run_passes
from aotc.tracing.assembly import trace

LOWERED = ["autodiff", "inline", "simplify", "cse", "lower-to-linalg", "cse"]


def lowered(update, tree, result=False):
    """The module of one entry that updates a state with what it is given."""

    @aotc.entry(x=aotc.Spec((4, 3)), state=aotc.State(tree))
    def step(state, x):
        return update(state, x) if result else (update(state, x), x)

    module = trace([step], {}).module
    run_passes(module, LOWERED)
    return module


def tied(module):
    """How many dispatches write over states, and how many states they write."""
    run_passes(module, ["update-in-place"])
    calls = [line for line in str(module).splitlines() if "call @iree.update" in line]
    counts = [line.partition(" = ")[0].partition(":")[2] or "1" for line in calls]
    return len(calls), sum(map(int, counts))


MATRIX = np.ones((4, 3))


def stepped(optimizer):
    """A step of an optimizer for two parameters."""

    def update(state, x):
        params, moments = state
        grads = {"a": x, "b": x.sum(0)}
        updates, moments = optimizer.update(grads, moments, params)
        return optim.apply_updates(params, updates), moments

    return update


@pytest.mark.parametrize(
    ("update", "tree", "expected"),
    [
        (lambda s, x: s * 2.0 + x, MATRIX, (0, 0)),  # the only state
        (lambda s, x: [s[0] * 2.0 + x, s[1]], [MATRIX, MATRIX], (1, 1)),
        (lambda s, x: [s[0] + x, s[1] - x], [MATRIX, MATRIX], (1, 2)),
        (lambda s, x: [s[0] + 1.0, s[1] - 1.0], [MATRIX, MATRIX], (2, 2)),
        (lambda s, x: [s[0] + x, s[1] + x.sum(0)], [MATRIX, np.ones(3)], (2, 2)),
    ],
)
def test_one_loop_for_states_that_read_the_same(update, tree, expected):
    assert tied(lowered(update, tree)) == expected


RATE = optim.cosine_decay_schedule(0.1, 100)


@pytest.mark.parametrize(
    ("optimizer", "states"),
    [
        (optim.sgd(RATE), 1),
        (optim.sgd(0.1, momentum=0.9, nesterov=True), 2),
        (optim.adam(0.1), 3),
        (optim.adamw(RATE, mask={"a": True, "b": False}), 3),
        (optim.nadam(0.1), 3),
        (optim.lion(RATE), 2),
        (optim.adagrad(0.1), 2),
        (optim.rmsprop(RATE, centered=True, momentum=0.9, bias_correction=True), 4),
        (optim.adadelta(0.1), 3),
        (optim.chain(optim.clip_by_global_norm(1.0), optim.adam(0.1)), 3),
        (optim.apply_if_finite(optim.adam(0.1), 5), 3),
        (optim.MultiSteps(optim.adam(0.1), 4), 4),
    ],
)
def test_a_parameter_and_its_moments_are_one_loop(optimizer, states):
    params = {"a": MATRIX, "b": np.ones(3)}
    module = lowered(stepped(optimizer), (params, optimizer.init(params)))
    assert tied(module) == (2, 2 * states)


def test_parameters_of_one_shape_that_share_only_numbers_stay_apart():
    def update(state, x):
        rate = 1.0 / np.sum(x)
        return [s * float(i) + x.sum(i % 2) * rate for i, s in enumerate(state)]

    assert tied(lowered(lambda s, x: update(s, x[:3]), [np.ones(3)] * 2)) == (2, 2)


def test_a_loop_does_not_grow_without_end():
    found = tied(lowered(lambda s, x: [each + x for each in s], [MATRIX] * 40))
    assert found == (3, 40)


@pytest.mark.parametrize(
    ("update", "tree"),
    [
        (lambda s, x: s + 1.0, np.ones(())),  # a number
        (lambda s, x: ~s, np.zeros((4, 3), "bool")),
        (lambda s, x: x.T @ x, np.ones((3, 3))),  # no loop over elements
        (lambda s, x: x, MATRIX),
        (lambda s, x: s, MATRIX),
    ],
)
def test_what_is_no_loop_over_elements_stays(update, tree):
    both = lowered(lambda s, x: [update(s[0], x), s[1]], [tree, MATRIX])
    assert tied(both) == (0, 0)


@pytest.mark.parametrize("others", [[], [np.zeros((0, 3))]])
def test_a_single_state_that_has_elements_is_not_written_over(others):
    """It begins where the file is mapped; writing there ends the process."""
    alone = lowered(lambda s, x: [s[0] + x, *s[1:]], [MATRIX, *others])
    assert tied(alone) == (0, 0)


def test_a_state_that_others_read_is_written_over_after_them():
    def update(state, x):
        return [state[0] + x, state[1] + x], state[1] @ x.T

    module = lowered(update, [MATRIX, MATRIX], result=True)
    assert tied(module) == (1, 2)
    (call,) = [line for line in str(module).splitlines() if "call @iree.update" in line]
    assert "tensor<4x4xf32>" in call  # waits for the product

    def after(s, x):
        return [s[0] + (s[0] @ x.T) @ x, x], x  # the product is a part of the new value

    assert tied(lowered(after, [MATRIX, MATRIX], result=True)) == (1, 1)


def test_an_old_value_that_is_returned_stays():
    def update(state, x):
        return [state[0] + x, x], state[0]

    assert tied(lowered(update, [MATRIX, MATRIX], result=True)) == (0, 0)


def test_parameters_are_written_over_after_the_gradients_computed_from_them():
    def loss(params, x):
        return np.square(np.tanh(x @ params["a"]) @ params["b"]).sum()

    def update(params, x):
        grads = aotc.grad(loss)(params, x)
        return {name: params[name] - 0.1 * grads[name] for name in params}

    params = {"a": np.ones((3, 5)), "b": np.ones((5, 2))}
    assert tied(lowered(update, params)) == (2, 2)


def test_a_function_that_may_fail_stays():
    def update(state, x):
        debug.check(x.sum() > 0.0, "negative")
        return [state[0] + x, state[1] + x]

    assert tied(lowered(update, [MATRIX, MATRIX])) == (0, 0)


def test_a_value_needed_between_two_updates_keeps_them_apart():
    def update(state, x):
        a = state[0] - x
        return [a, state[1] - a / np.sum(a * a)]

    assert tied(lowered(update, [MATRIX, MATRIX])) == (2, 2)


def test_running_it_again_changes_nothing():
    module = lowered(lambda s, x: [s[0] * 2.0 + x, s[1]], [MATRIX, MATRIX])
    (first,) = run_passes(module, ["update-in-place"])
    before = str(module)
    (second,) = run_passes(module, ["update-in-place"])
    assert (first.changed, second.changed) == (True, False)
    assert str(module) == before
