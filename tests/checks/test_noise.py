"""Evaluations with noise: what they move, and what they look at."""

import numpy as np

import aotc
from aotc import reference
from aotc.checks import rounding
from aotc.checks.rounding import noises
from aotc.tracing.assembly import trace


def runs(function, *arrays, count=8):
    """The result of an entry without noise, and those of evaluations with it."""
    names = [f"x{number}" for number in range(len(arrays))]
    types = {n: aotc.Spec(x.shape, "f32") for n, x in zip(names, arrays, strict=True)}
    source = f"lambda {', '.join(names)}: function({', '.join(names)})"
    named = eval(source, {"function": function})
    named.__name__ = "entry"
    module = trace([aotc.entry(**types)(named)], {}).module
    found = [
        reference.evaluate(module, "entry", arrays, with_op=noise)[0]
        for noise, _ in zip(noises(), range(count), strict=False)
    ]
    return reference.evaluate(module, "entry", arrays)[0], found


def test_a_product_by_many_weights_moves_as_far_as_one_by_few():
    """Weights have no errors of their own; what they are multiplied with has both."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(4, 64)).astype("f4")
    weights = rng.normal(size=(64, 64)).astype("f4")
    moved = []
    for w in (weights, weights[:, :4]):  # many times, and as many elements
        expected, found = runs(lambda x, w: x @ w, x, w, count=30)
        moved.append(np.std(np.array(found)[..., :4] - expected[:, :4]))
    assert 0.7 < moved[0] / moved[1] < 1.4


def test_an_op_that_rounds_is_looked_at_in_the_first_evaluation_alone(monkeypatch):
    looked = []
    is_exact = rounding._is_exact
    monkeypatch.setattr(
        rounding, "_is_exact", lambda *x: [looked.append(1), is_exact(*x)][1]
    )
    x = np.random.default_rng(0).normal(size=(4, 4)).astype("f4")
    counts = []
    for count in (1, 5):
        looked.clear()
        runs(lambda x: ((x @ x).T * x).reshape(16), x, count=count)
        counts.append(len(looked))
    assert counts == [2, 2]  # the product and the multiplication; moves never are
