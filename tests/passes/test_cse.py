"""cse: equal ops are computed once."""

import aotc.numpy as anp


def test_merges_equal_ops(model):
    twice = model(lambda x: anp.exp(x) * anp.exp(x), "f32[n]", symbols=("n",))
    twice.keeps_meaning_under("cse")
    assert twice.ops == ["exp", "multiply"]


def test_keeps_ops_that_differ_in_an_attribute(model):
    sums = model(lambda x: x.sum(0).sum() + x.sum(1).sum(), "f32[3, 3]")
    before = sums.ops
    assert not sums.run("cse")
    assert sums.ops == before


def test_is_idempotent(model):
    twice = model(lambda x: anp.exp(x) * anp.exp(x), "f32[4]")
    assert twice.run("cse")
    assert not twice.run("cse")
