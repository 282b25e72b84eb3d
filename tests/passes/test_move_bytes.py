"""move-bytes: what is moved is quantised before, and its bytes are moved."""

import numpy as np
import pytest

import aotc.numpy as anp
from aotc import nn

STEP = np.float32(0.0371)


def levels(x, scale=STEP, zero_point=3, dtype="u8"):
    return nn.dequantize(nn.quantize(x, scale, zero_point, dtype), scale, zero_point)


def bytes_of(x, zero_point=3):
    return nn.quantize(x, STEP, zero_point, "u8")


PARTS = ("f32[2, 3, 4]", "f32[2, 3, 4]")


@pytest.mark.parametrize(
    ("move", "quantizations"),
    [
        (lambda x, y: anp.concatenate([levels(x), levels(y), levels(x)], 2), 2),
        (lambda x, y: anp.pad(levels(x), [(0, 0), (1, 2), (0, 1)]), 1),
        (lambda x, y: anp.take(levels(x), np.array([0, 0, 1, 1, 2, 2], "i4"), 1), 1),
        (lambda x, y: anp.broadcast_to(levels(y)[:, :1], (2, 3, 4)), 1),
        # through another order, of parts of another kind, and of floats
        (
            lambda x, y: anp.transpose(
                anp.concatenate([levels(x), levels(y, STEP * 2, 9, "i8"), x], 1)
            ),
            3,
        ),
    ],
)
def test_what_is_moved_are_bytes(model, move, quantizations):
    network = model(lambda x, y: bytes_of(move(x, y)), *PARTS)
    network.run("simplify", "cse")
    network.keeps_meaning_under("move-bytes", "tabulate-bytes", "simplify", "cse")
    assert network.ops.count("round_even") == quantizations
    last = network.ops[-1]
    assert last in ("concatenate", "pad", "gather", "broadcast", "transpose")
    assert not network.run("move-bytes")


@pytest.mark.parametrize(
    "function",
    [
        # of fewer elements than there are, or read by something else
        lambda x, y: bytes_of(anp.take(x, np.array([1], "i4"), 1)),
        lambda x, y: bytes_of(z := anp.concatenate([x, y], 0)) + anp.astype(z, "u8"),
        # by what no number is
        lambda x, y: bytes_of(anp.concatenate([x, y], 0) + anp.concatenate([y, x], 0)),
        lambda x, y: bytes_of(anp.concatenate([x, y], 2) * anp.sum(y)),
    ],
)
def test_floats_are_moved_that_are_not_only_quantised(model, function):
    network = model(function, *PARTS)
    network.run("simplify", "cse")
    assert not network.run("move-bytes")
