"""hoist-invariants: what each step of a loop would compute again is computed before."""

import pytest

import aotc
import aotc.numpy as np
from aotc import control, debug
from aotc.dialects.functions.functions import functions_of

MATRIX = "f32[4, 4]"


def ops_of_loops(made):
    """The ops of all functions that `f` does not hold itself."""
    made.run("prune", "simplify")
    return [
        op.operation.name.removeprefix("graph.")
        for name, function in functions_of(made.module).items()
        if name != "f" and not function.is_external
        for op in function.entry_block.operations
    ]


def in_fori_loop(x, w):
    return control.fori_loop(0, 3, lambda _, y: np.tanh(y @ np.transpose(w)), x)


def in_scan(x, w):
    def step(y, row):
        y = np.tanh(y + row * np.exp(np.transpose(w)))
        return y, np.sum(y)

    return control.scan(step, x, x)


def in_the_condition(x, w):
    def goes_on(y):
        return np.sum(y) < np.sum(np.transpose(w) @ w)

    return control.while_loop(goes_on, lambda y: y + 1.0, x)


def in_condition_and_body(x, w):
    def square():
        return np.exp(np.transpose(w))

    def goes_on(y):
        return np.sum(y * square()) < 500.0

    return control.while_loop(goes_on, lambda y: y + np.transpose(square()), x)


@pytest.mark.parametrize(
    "function", [in_fori_loop, in_scan, in_the_condition, in_condition_and_body]
)
def test_what_captures_decide_is_computed_before_the_loop(model, function):
    made = model(function, MATRIX, MATRIX)
    made.run("inline")
    made.keeps_meaning_under("hoist-invariants")
    assert {"transpose", "exp", "dot_general"} & set(made.ops)
    assert not made.run("hoist-invariants")
    left = set(ops_of_loops(made))
    assert "exp" not in left
    if function is not in_condition_and_body:
        assert "transpose" not in left


def test_what_many_ops_make_of_captures_is_computed_before_the_loop(model):
    def deep(x, w):
        def step(_, y):
            h = w
            for _ in range(1100):
                h = np.sin(h)
            return y @ h

        return control.fori_loop(0, 3, step, x)

    made = model(deep, MATRIX, MATRIX)
    assert made.run("inline", "simplify", "hoist-invariants")
    assert "sin" not in ops_of_loops(made)


def test_it_leaves_every_loop_that_it_does_not_depend_on(model):
    def nested(x, w):
        def inner(_, y):
            return np.tanh(y @ np.exp(w))

        def outer(number, y):
            return control.fori_loop(0, number, inner, y) + 1.0

        return control.fori_loop(0, 3, outer, x)

    made = model(nested, MATRIX, MATRIX)
    made.run("inline")
    made.keeps_meaning_under("hoist-invariants")
    assert "exp" in made.ops
    assert "exp" not in ops_of_loops(made)


def larger(x, w):
    """A table of 64 elements of 4: the loop may as well make it as read it."""

    def step(_, y):
        table = np.exp(np.broadcast_to(w[0], (4, 4, 4)))
        return y + np.sum(y[:, None] * table, axis=0)

    return control.fori_loop(0, 3, step, x)


def whole_numbers(x, n):
    return control.fori_loop(0, 3, lambda _, y: y + x // n, x)


def of_the_step(x, w):
    def step(number, y):
        return np.exp(y) * 0.1 + number.astype("f32")

    return control.fori_loop(0, 3, step, x)


def printed(x, w):
    def step(_, y):
        debug.print("{}", w)
        return y + 1.0

    return control.fori_loop(0, 3, step, x)


@pytest.mark.parametrize(
    ("function", "types"),
    [
        (larger, [MATRIX, MATRIX]),
        (whole_numbers, ["i32[4]", "i32[4]"]),
        (of_the_step, [MATRIX, MATRIX]),
        (printed, [MATRIX, MATRIX]),
    ],
)
def test_the_rest_stays_in_the_loop(model, function, types):
    made = model(function, *types)
    made.run("inline")
    assert not made.run("hoist-invariants")


def test_derivatives_of_loops_keep_their_meaning(model):
    def loss(x, w):
        return np.sum(in_scan(x, w)[1]) + np.sum(in_fori_loop(x, w))

    made = model(aotc.grad(loss, argnums=(0, 1)), MATRIX, MATRIX)
    made.run("autodiff", "inline", "simplify")
    made.keeps_meaning_under("hoist-invariants", "simplify", "cse")


def test_sizes_that_calls_decide_do_not_matter(model):
    def function(x, w):
        return control.fori_loop(0, 3, lambda _, y: y + np.exp(w), x)

    made = model(function, "f32[n, 4]", "f32[n, 4]", symbols=("n",))
    made.run("inline")
    made.keeps_meaning_under("hoist-invariants")
    assert "exp" in made.ops
