"""scale-sums: what scales each term of a sum scales the sum."""

import pytest

import aotc.numpy as anp
from tests.passes.test_scale_weights import made_of

IMAGE = "f32[3, 5, 4, 6]"
VECTOR = "f32[6]"


def over_first(x):
    return anp.sum(x, (0, 1, 2))


@pytest.mark.parametrize(
    "function",
    [
        lambda x, s: over_first(x * s),
        lambda x, s: over_first(s * (x * s)),
        # what others read as well is there for the sum
        lambda x, s: (over_first(x * s * anp.exp(x)), x * s, anp.exp(x)),
        lambda x, s: anp.sum(x * s * anp.reshape(s[:3], (3, 1, 1, 1)), (1, 2)),
    ],
)
def test_a_scale_that_repeats_along_a_sum_scales_the_sum(model, function):
    network = model(function, IMAGE, VECTOR)
    network.run("simplify", "cse")
    network.keeps_meaning_under("scale-sums", "simplify", "cse")
    assert not network.run("scale-sums")
    (shape,) = {tuple(shape) for shape in made_of(network, "reduce_sum")}
    assert [*shape] in made_of(network, "multiply")


@pytest.mark.parametrize(
    "function",
    [
        lambda x, s: anp.sum(x * s, 3),  # along which it varies
        lambda x, s: over_first(x + s),
        lambda x, s: anp.max(x * s, (0, 1, 2)),
        # the terms alone would be stored for the sum
        lambda x, s: (over_first(anp.exp(x) * s), anp.exp(x) * s),
        lambda x, s: over_first((x * s).astype("bf16")),
    ],
)
def test_a_sum_is_left_alone(model, function):
    network = model(function, IMAGE, VECTOR)
    network.run("simplify", "cse")
    assert not network.run("scale-sums")
