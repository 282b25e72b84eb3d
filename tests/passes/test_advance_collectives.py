"""advance-collectives, delay-exchanges: computing goes on while devices exchange."""

import numpy

import aotc
from aotc import collectives, reference
from aotc import numpy as np
from aotc.dialects.functions.functions import functions_of
from aotc.passes import run_passes
from aotc.tracing.assembly import trace

DEVICES = collectives.Axis("data", 2)
GRAPH = ["autodiff", "inline", "simplify", "cse"]
LARGE = 1100  # so that two gradients are more than a bucket holds


def stepped(devices=DEVICES):
    """Gradients of three layers, averaged after all of them are there."""

    @aotc.entry(x=aotc.Spec((2, LARGE)), ws=aotc.Spec((3, LARGE)))
    def step(x, ws):
        squares = [ws[n][:, None] * ws[n][None] for n in range(3)]
        grads = aotc.grad(lambda kernels: chained(x, kernels))(squares)
        return collectives.all_reduce(grads, devices, "mean")

    module = trace([step], {}).module
    run_passes(module, GRAPH)
    return module


def chained(x, kernels):
    for w in kernels:
        x = np.tanh(x @ w)
    return x.sum()


def order(module, *words):
    """The words that the ops of the entry have in their text, in order."""
    lines = [str(op) for op in functions_of(module)["step"].entry_block.operations]
    return [next((w for w in words if w in line), None) for line in lines]


def test_a_gradient_is_sent_before_the_next_is_computed_and_read_after_the_last():
    module = stepped()
    late = [w for w in order(module, "all_reduce", "dot_general") if w]
    assert late[-3:] == ["all_reduce"] * 3
    rng = numpy.random.default_rng(0)
    inputs = [
        [rng.standard_normal((rows, LARGE), "f4") for rows in (2, 3)] for _ in range(2)
    ]
    before = reference.evaluate_devices(module, "step", inputs, "data")
    run_passes(module, ["advance-collectives"])
    early = [w for w in order(module, "all_reduce", "dot_general") if w]
    assert sorted(early) == sorted(late)
    assert early[-2:] == ["dot_general", "all_reduce"]
    after = reference.evaluate_devices(module, "step", inputs, "data")
    for one, other in zip(before, after, strict=True):
        for x, y in zip(one, other, strict=True):
            assert x.tobytes() == y.tobytes()
    text = str(module)
    run_passes(module, ["advance-collectives"])
    assert str(module) == text

    run_passes(module, ["decompose", "lower-to-linalg", "cse", "delay-exchanges"])
    calls = [w for w in order(module, "@iree.start", "@iree.finish") if w]
    assert calls == ["@iree.start"] * 3 + ["@iree.finish"] * 3
    module.operation.verify()
    text = str(module)
    run_passes(module, ["delay-exchanges"])
    assert str(module) == text


def test_collectives_of_one_device_stay_where_they_are():
    module = stepped(devices=collectives.Axis("data", 1))
    text = str(module)
    run_passes(module, ["advance-collectives"])
    assert str(module) == text
