"""delay-dequantization: floats of weights are made where they are read, and late."""

import numpy as np
import pytest

import aotc
from aotc import nn, reference
from aotc import numpy as anp
from aotc.passes import delay_dequantization, run_passes
from aotc.passes.base import Unit
from aotc.passes.stages import PASS_STAGES
from aotc.tracing.assembly import trace

RNG = np.random.default_rng(2)
X = RNG.normal(size=(4, 64)).astype("f4")


def weight():
    data = RNG.integers(-8, 8, (64, 64)).astype("i1")
    scale = RNG.uniform(0.01, 0.02, (64, 2)).astype("f4")
    return nn.QuantizedWeights(data, scale, axis=1, block=32, bits=4)


WEIGHTS = aotc.Weights([weight() for _ in range(3)])


@aotc.entry(x=aotc.Spec(X.shape), weights=WEIGHTS)
def slope(weights, x):
    """The gradient of a network by its input, for which weights are read twice."""

    def loss(x):
        for each in weights:
            x = anp.tanh(each.linear(x))
        return anp.sum(x)

    return aotc.grad(loss)(x)


def unit_at(stage):
    unit = Unit(trace([slope], {}))
    for each in PASS_STAGES[: 1 + [x.name for x in PASS_STAGES].index(stage)]:
        run_passes(unit, each.passes())
    return unit


def result(unit):
    (entry,) = unit.program.entries
    known = {**unit.program.parameters, "x": X}
    arrays = [np.asarray(known[port.name]) for port in entry.arguments]
    return reference.evaluate(unit.module, "slope", arrays)[0]


@pytest.fixture(params=[0, 2**22])
def most(request, monkeypatch):
    monkeypatch.setattr(delay_dequantization, "_FEW", request.param)
    return request.param


def test_each_reader_waits_for_what_it_reads_besides(most):
    unit = unit_at("optimized")
    wanted = result(unit)
    assert str(unit.module).count('"graph.dequantize"') == 3
    (record,) = run_passes(unit, ["delay-dequantization"])
    text = str(unit.module)
    np.testing.assert_array_equal(result(unit), wanted)
    if most:  # few floats: nothing to gain
        assert not record.changed
        return
    # three in the backward pass, and those of the second and third in the forward pass,
    # before which something is computed; of each the integers and the scales wait
    assert text.count("graph.after") == 2 * 5
    assert text.count('"graph.dequantize"') == 6
