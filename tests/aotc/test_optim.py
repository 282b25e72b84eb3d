"""Optimizers take the steps that their papers, and optax, take."""

import numpy as np
import pytest

import aotc
from aotc import optim, reference
from aotc.frontends.assembly import trace

START = np.array([0.5, -1.0, 2.0], "f4")
GRADS = np.array(
    [[0.1, -0.2, 0.3], [-0.4, 0.5, 1e-6], [1.0, 0.0, -2.0], [0.25, -0.125, 0.0]], "f4"
)

# What optax 0.2 makes of START after each of GRADS (f32, CPU, default settings).
OPTAX = {
    "sgd": (
        optim.sgd(0.1),
        [0.49000001, -0.98000002, 1.97000003],
        [0.53000003, -1.02999997, 1.96999991],
        [0.43000004, -1.02999997, 2.16999984],
        [0.40500003, -1.01749992, 2.16999984],
    ),
    "momentum": (
        optim.sgd(0.1, momentum=0.9),
        [0.49000001, -0.98000002, 1.97000003],
        [0.52100003, -1.01199996, 1.94299996],
        [0.44890001, -1.04079998, 2.11869979],
        [0.35901001, -1.05421996, 2.27682972],
    ),
    "adam": (
        optim.adam(0.01),
        [0.49000007, -0.99000007, 1.99000001],
        [0.49559504, -0.99442220, 1.98329949],
        [0.49133661, -0.99784052, 1.98884952],
        [0.48662874, -0.99925262, 1.99339569],
    ),
    "adam with other rates": (
        optim.adam(0.01, b1=0.5, b2=0.9, eps=1e-3),
        [0.49009901, -0.99004978, 1.99003327],
        [0.49789652, -0.99690539, 1.98521340],
        [0.49067730, -1.00060165, 1.99417877],
        [0.48443913, -1.00010622, 1.99914610],
    ),
}


def steps(optimizer, params, grads):
    """The parameters after each gradient."""
    moments = optimizer.init(params)
    for grad in grads:
        params, moments = optimizer.update(grad, moments, params)
        yield params


@pytest.mark.parametrize("name", OPTAX)
def test_steps_are_those_of_optax(name):
    optimizer, *expected = OPTAX[name]
    for params, wanted in zip(steps(optimizer, START, GRADS), expected, strict=True):
        np.testing.assert_allclose(params, wanted, rtol=0, atol=5e-7)


def adam_in_f64(grads, rate, b1, b2, eps):
    """Algorithm 1 of Kingma and Ba (2015)."""
    params = START.astype("f8")
    mean = square = np.zeros(3)
    for t, grad in enumerate(grads.astype("f8"), 1):
        mean = b1 * mean + (1 - b1) * grad
        square = b2 * square + (1 - b2) * grad**2
        corrected = mean / (1 - b1**t), square / (1 - b2**t)
        params = params - rate * corrected[0] / (np.sqrt(corrected[1]) + eps)
        yield params


@pytest.mark.parametrize(("b1", "b2"), [(0.9, 0.999), (0.0, 0.9999), (0.5, 0.0)])
def test_adam_follows_its_paper_to_f32_precision(b1, b2):
    grads = np.random.default_rng(0).normal(size=(50, 3)).astype("f4")
    ours = steps(optim.adam(0.01, b1, b2), START, grads)
    for params, wanted in zip(
        ours, adam_in_f64(grads, 0.01, b1, b2, 1e-8), strict=True
    ):
        np.testing.assert_allclose(params, wanted, rtol=0, atol=2e-6)


def test_momentum_follows_its_recurrence():
    velocity, params = np.zeros(3), START.astype("f8")
    for step, grad in zip(steps(optim.sgd(0.1, 0.5), START, GRADS), GRADS, strict=True):
        velocity = 0.5 * velocity + grad
        params = params - 0.1 * velocity
        np.testing.assert_allclose(step, params, atol=1e-6)


def test_moments_are_concrete_trees_of_the_parameters_form():
    params = {"w": np.ones((2, 3), "f4"), "b": [np.ones(3, "f2"), None]}
    for optimizer in (optim.adam(0.1), optim.sgd(0.1, 0.9)):
        state = aotc.State({"params": params, "opt": optimizer.init(params)})
        for moments in state.tree["opt"].values():
            if not isinstance(moments, np.ndarray):
                assert moments["w"].dtype == "f4"
                assert moments["b"][0].dtype == "f2"
                assert moments["w"].tolist() == [[0] * 3] * 2
    assert optim.sgd(0.1).init(params) == {}
    assert optim.adam(0.1).init(params)["count"].dtype == "i32"


def test_steps_keep_dtypes():
    for dtype in ("f2", "f4", "f8"):
        params = START.astype(dtype)
        for optimizer in (optim.adam(0.1), optim.sgd(0.1, 0.9)):
            (after,) = steps(optimizer, params, [params])
            assert np.asarray(after).dtype == dtype


def traced(optimizer):
    """The program of one training step on a vector."""
    state = aotc.State({"params": START, "opt": optimizer.init(START)})

    @aotc.entry(state=state, grads=aotc.Spec(3))
    def step(state, grads):
        params, moments = optimizer.update(grads, state["opt"], state["params"])
        return {"params": params, "opt": moments}

    return trace([step], {id(state): "state"})


@pytest.mark.parametrize("name", OPTAX)
def test_a_traced_step_is_the_step_at_once(name):
    optimizer, *expected = OPTAX[name]
    program = traced(optimizer)
    arrays = list(program.parameters.values())
    names = list(program.parameters)
    for grad, wanted in zip(GRADS, expected, strict=True):
        arrays = reference.evaluate(program.module, "step", [*arrays, grad])
        params = arrays[names.index("state.params")]
        np.testing.assert_allclose(params, wanted, rtol=0, atol=5e-7)


def test_adam_is_few_operations():
    text = str(traced(optim.adam(0.1)).module)
    assert text.count("graph.cast") == 1  # the count of steps
    assert text.count("graph.power") == 0
    computing = [
        line
        for line in text.splitlines()
        if "graph." in line
        and not any(word in line for word in ("constant", "broadcast", "func.func"))
    ]
    assert len(computing) <= 24
