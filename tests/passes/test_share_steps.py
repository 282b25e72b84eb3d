"""share-steps: derivatives of loops read what the steps of these have computed."""

import pytest

import aotc
import aotc.numpy as np
from aotc import control, nn
from aotc.dialects.functions.functions import functions_of
from aotc.dialects.types import Tensor

KINDS = "f32[7, 4]", "f32[5, 7, 8]", "f32[4, 8]"


def gated(h, xs, w, *, reverse=False):
    """Steps that multiply, and return no more than a part of what they compute."""

    def step(h, x):
        z = h @ w + x
        h = np.tanh(z[:, :4]) * np.sin(z[:, 4:])
        return h, h

    return control.scan(step, h, xs, reverse=reverse)


def backwards(h, xs, w):
    return gated(h, xs, w, reverse=True)


def plain(h, xs, w):
    """Steps that return what their derivative reads."""

    def step(h, x):
        h = np.tanh(h @ w[:, :4] + x[:, 4:])
        return h, h

    return control.scan(step, h, xs)


def again(h, xs, w):
    """Steps that are computed again, in segments."""

    def step(h, x):
        z = h @ w + x
        h = np.tanh(z[:, :4]) * np.sin(z[:, 4:])
        return h, h

    return control.scan(step, h, xs, checkpoint_every=2)


def loss_of(function):
    def loss(h, xs, w):
        last, hs = function(h, xs, w)
        return np.sum(last * last) + np.sum(np.cos(hs))

    return aotc.grad(loss, argnums=(0, 1, 2))


def products_of_steps(made):
    """Count the products of functions that `f` does not hold itself."""
    return sum(
        op.operation.name == "graph.dot_general"
        for name, function in functions_of(made.module).items()
        if name != "f" and not function.is_external
        for op in function.entry_block.operations
    )


@pytest.mark.parametrize(
    ("function", "saved"), [(gated, 1), (backwards, 1), (plain, 1), (again, 2)]
)
def test_a_derivative_makes_no_product_again(model, function, saved):
    made = model(loss_of(function), *KINDS)
    made.run("autodiff", "inline", "simplify", "cse", "hoist-invariants", "cse")
    made.run("prune", "simplify")
    before = products_of_steps(made)
    made.keeps_meaning_under("share-steps")
    made.run("prune", "simplify")
    assert products_of_steps(made) == before - saved
    assert not made.run("share-steps")


@pytest.mark.parametrize("length", ["0", "1", "t"])
def test_loops_of_any_length_keep_their_meaning(model, length):
    kinds = KINDS[0], f"f32[{length}, 7, 8]", KINDS[2]
    made = model(loss_of(gated), *kinds, symbols=("t",) if length == "t" else ())
    made.run("autodiff", "inline", "simplify", "cse")
    made.keeps_meaning_under("share-steps")


def before_sharing(model, function, *kinds):
    """The gradients of a function of three arguments, before the pass."""

    def loss(h, xs, w):
        return np.sum(function(h, xs, w))

    made = model(aotc.grad(loss, argnums=(0, 1, 2)), *kinds)
    made.run("autodiff", "inline", "simplify", "cse", "hoist-invariants", "cse")
    made.run("prune", "simplify")
    return made


def stacks_of(made):
    """The types of what the loops of `f` stack, and what they have carried before."""
    return [
        str(Tensor.of(value))
        for op in functions_of(made.module)["f"].entry_block.operations
        for value in op.results
        if op.operation.name == "func.call"
    ]


def scaled_steps(h, xs, w):
    """Steps that read what they go through beside a sum of it."""

    def step(h, x):
        h = np.tanh((h @ w + x)[:, :4]) * x[:, 4:]
        return h, None

    return control.scan(step, h, xs)[0]


def reset_steps(h, xs, w):
    """Steps of a gate that acts on a part of the product, as in a GRU."""

    def step(h, x):
        p = h @ w
        r = nn.sigmoid(x[:, :4] + p[:, :4])
        return np.tanh(x[:, 4:] + r * p[:, 4:]), None

    return control.scan(step, h, xs)[0]


@pytest.mark.parametrize(("function", "saved"), [(scaled_steps, 1), (reset_steps, 2)])
def test_what_is_read_of_a_product_is_saved(model, function, saved):
    """`tanh` of the one, the gate and the rest of the product of the other."""
    made = before_sharing(model, function, *KINDS)
    before, old = products_of_steps(made), stacks_of(made)
    made.keeps_meaning_under("share-steps")
    made.run("prune", "simplify")
    assert products_of_steps(made) == before - 1
    found = stacks_of(made)
    assert found.count("f32[5, 7, 4]") == old.count("f32[5, 7, 4]") + saved
    assert not made.run("share-steps")


def test_what_is_large_beside_what_is_gone_through_is_computed_again(model):
    def function(h, xs, w):
        def step(h, x):
            return h + np.sin(np.tanh(h @ w) @ w.T) * x, None

        return control.scan(step, h, xs)[0]

    narrow = before_sharing(model, function, "f32[7, 4]", "f32[5, 7, 1]", "f32[4, 64]")
    assert not narrow.run("share-steps")
    wide = before_sharing(model, function, "f32[7, 4]", "f32[5, 7, 4]", "f32[4, 8]")
    assert wide.run("share-steps")


def test_loops_of_other_values_share_nothing(model):
    def function(h, xs, w):
        one = gated(h, xs, w)[1]
        return gated(h, np.concatenate([one, one], -1), w)

    made = model(function, *KINDS)
    made.run("inline", "simplify", "cse")
    assert not made.run("share-steps")
