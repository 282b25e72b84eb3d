"""relax-order: recomputation reads weights as they are."""

import aotc
import aotc.numpy as np

GRADIENT = ("autodiff", "inline", "simplify", "cse")


def loss(x, w):
    layer = aotc.checkpoint(lambda x: np.tanh(x @ w))
    return layer(layer(x)).sum()


def test_weights_do_not_wait_where_activations_do(model):
    network = model(aotc.grad(loss), "f32[4, 4]", "f32[4, 4]")
    network.run(*GRADIENT)
    before = network.ops.count("after")
    network.keeps_meaning_under("relax-order")
    assert network.ops.count("after") < before
    assert not network.run("relax-order")


def test_what_is_computed_from_arguments_alone_still_waits(model):
    first = aotc.checkpoint(lambda x: np.tanh(np.sin(x)))
    network = model(aotc.value_and_grad(lambda x: first(x).sum()), "f32[4]")
    network.run(*GRADIENT, "relax-order")
    assert network.ops.count("after") == 1
    assert network.ops.count("sin") == 2  # it is computed again
