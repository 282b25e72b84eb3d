"""drop-requantization: bytes that come out as they went in are only moved."""

import numpy as np
import pytest

import aotc.numpy as anp
from aotc import nn

STEP, ALL = np.float32(0.0371), ("drop-requantization", "simplify", "cse")


def levels(x, scale=STEP, zero_point=3, dtype="u8"):
    return nn.dequantize(nn.quantize(x, scale, zero_point, dtype), scale, zero_point)


@pytest.mark.parametrize(
    "move",
    [
        lambda x: anp.transpose(x, (1, 0, 2)),
        lambda x: anp.reshape(x, (6, 4)),
        lambda x: anp.flip(x, 2)[:, 1:],
        lambda x: anp.take(x, 1, axis=0),
        lambda x: anp.broadcast_to(x[:, :1], (2, 3, 4)),
        # no movement, but all levels stay what they are
        lambda x: (x * np.float32(2)) / np.float32(2),
        lambda x: anp.minimum(x, np.float32(99)),
    ],
)
@pytest.mark.parametrize("kind", [(3, "u8"), (-128, "i8"), (255, "u8")])
def test_bytes_are_moved_that_come_out_as_they_went_in(model, move, kind):
    def function(x):
        once = levels(move(levels(x, STEP, *kind)), STEP, *kind)
        return levels(once, STEP, *kind), once

    network = model(function, "f32[2, 3, 4]")
    network.run("simplify", "cse")
    assert network.ops.count("round_even") == 3
    network.keeps_meaning_under(*ALL)
    assert network.ops.count("round_even") == 1
    assert not network.run("drop-requantization")


@pytest.mark.parametrize(
    "between",
    [
        lambda x: levels(x, STEP, 4),  # saturates at another end
        lambda x: levels(x, STEP * 2),
        lambda x: levels(x, STEP, 3, "i8"),
        lambda x: levels(nn.relu(x)),
        lambda x: levels(x + anp.transpose(x)),
        lambda x: levels(anp.sum(x, 0, keepdims=True)),
    ],
)
def test_bytes_that_change_are_quantised_again(model, between):
    network = model(lambda x: between(levels(x)), "f32[4, 4]")
    network.run("simplify", "cse")
    assert not network.run("drop-requantization")


@pytest.mark.parametrize("kind", [(0, "i8"), (3, "u8")])
def test_what_is_read_of_an_empty_axis_is_a_float_zero(model, kind):
    def function(x, i):
        return levels(anp.take(levels(x, STEP, *kind), i, axis=0), STEP, *kind)

    network = model(function, "f32[n, 4]", "i32[2]", symbols=["n"])
    network.run("simplify", "cse")
    assert network.run("drop-requantization") == (kind[0] == 0)
    empty, i = np.zeros((0, 4), "f4"), np.zeros(2, "i4")
    assert (network(empty, i)[0] == 0).all()
