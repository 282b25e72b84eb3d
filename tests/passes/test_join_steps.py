"""join-steps: products of all steps of a loop are computed at once."""

import pytest

import aotc
import aotc.numpy as np
from aotc import control
from aotc.dialects.functions.functions import functions_of

CARRIED, WEIGHT = "f32[3, 4]", "f32[4, 4]"
SEQUENCE = "f32[5, 3, 4]"


def products_of_steps(made):
    """How many products the functions have that `f` does not hold itself."""
    made.run("prune", "simplify")
    return sum(
        op.operation.name == "graph.dot_general"
        for name, function in functions_of(made.module).items()
        if name != "f" and not function.is_external
        for op in function.entry_block.operations
    )


def recurrence(h, xs, w, u, *, reverse=False):
    def step(h, x):
        h = np.tanh(x @ w + h @ u)
        return h, h

    return control.scan(step, h, xs, reverse=reverse)


def backwards(h, xs, w, u):
    return recurrence(h, xs, w, u, reverse=True)


@pytest.mark.parametrize("function", [recurrence, backwards])
def test_products_of_what_a_loop_goes_through_are_computed_before(model, function):
    made = model(function, CARRIED, SEQUENCE, WEIGHT, WEIGHT)
    made.run("inline")
    made.keeps_meaning_under("join-steps")
    assert "dot_general" in made.ops
    assert products_of_steps(made) == 1
    assert not made.run("join-steps")


@pytest.mark.parametrize("function", [recurrence, backwards])
def test_the_gradient_of_a_weight_is_one_product_after_the_loop(model, function):
    def loss(h, xs, w, u):
        last, hs = function(h, xs, w, u)
        return np.sum(last * last) + np.sum(np.sin(hs))

    made = model(aotc.grad(loss, argnums=(1, 2, 3)), CARRIED, SEQUENCE, WEIGHT, WEIGHT)
    made.run("autodiff", "inline", "simplify", "hoist-invariants")
    made.keeps_meaning_under("join-steps", "simplify", "cse")
    assert products_of_steps(made) == 3  # h @ u, and what follows for h and for x
    assert not made.run("join-steps")


@pytest.mark.parametrize("length", [0, 1])
def test_loops_of_few_steps_keep_their_meaning(model, length):
    def loss(h, xs, w, u):
        return np.sum(recurrence(h, xs, w, u)[0])

    kinds = CARRIED, f"f32[{length}, 3, 4]", WEIGHT, WEIGHT
    made = model(aotc.grad(loss, argnums=(2, 3)), *kinds)
    made.run("autodiff", "inline", "simplify")
    made.keeps_meaning_under("join-steps")


def test_a_call_may_decide_how_many_steps_there_are(model):
    def loss(h, xs, w, u):
        return np.sum(recurrence(h, xs, w, u)[0])

    kinds = CARRIED, "f32[t, 3, 4]", WEIGHT, WEIGHT
    made = model(aotc.grad(loss, argnums=(2, 3)), *kinds, symbols=("t",))
    made.run("autodiff", "inline", "simplify")
    made.keeps_meaning_under("join-steps")


def much_larger(h, xs, w, u):
    """Sixteen times as large as what the loop goes through."""

    def step(h, x):
        return np.tanh(h + np.sum(x[:, None] @ u[:1].repeat(16, axis=1))), h

    return control.scan(step, h, xs[:, :, 0])


def of_the_carried_value(h, xs, w, u):
    return control.scan(lambda h, x: (np.tanh(h @ u) + x, h), h, xs)


def read_by_the_step(h, xs, w, u):
    """The sum decides what is added to it."""

    def step(total, x):
        total = total + np.swapaxes(x, 0, 1) @ np.tanh(x * np.sum(total))
        return total, x

    return control.scan(step, w, xs)


@pytest.mark.parametrize(
    ("function", "rows"),
    [
        (recurrence, 5),
        (recurrence, "n"),
        (much_larger, 3),
        (of_the_carried_value, 3),
        (read_by_the_step, 3),
    ],
)
def test_the_rest_stays_in_the_loop(model, function, rows):
    kinds = f"f32[{rows}, 4]", f"f32[5, {rows}, 4]", WEIGHT, WEIGHT
    made = model(function, *kinds, symbols=("n",) if rows == "n" else ())
    made.run("inline", "hoist-invariants")
    assert not made.run("join-steps")
