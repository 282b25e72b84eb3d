"""integer-sums: dequantised operands of sums are added up as whole numbers."""

import numpy as np
import pytest

import aotc.numpy as anp
from aotc import nn
from aotc.dialects.functions.walking import backward_slice, defining_op
from aotc.dialects.ops.binary import Multiply
from aotc.dialects.ops.pooling import SumPool
from aotc.dialects.ops.reduction import ReduceSum
from aotc.dialects.types import Tensor

IMAGE = "f32[2, 6, 6, 8]"


def levels(x, scale=2.0**-6, zero_point=7, dtype="u8"):
    """What a graph has where a tensor is quantised and dequantised."""
    return nn.dequantize(nn.quantize(x, scale, zero_point, dtype), scale, zero_point)


# scales that are powers of two: sums of floats are exact, too
SUMS = {
    "image": lambda x: anp.mean(levels(x), (1, 2)),
    "rows": lambda x: anp.sum(levels(x, dtype="i8", zero_point=-9), -1),
    "moved": lambda x: anp.sum(anp.transpose(levels(x), (0, 3, 1, 2)), (2, 3)),
    "without a zero point": lambda x: anp.sum(levels(x, zero_point=0), 1),
    "windows": lambda x: nn.avg_pool(levels(x), (3, 3), (2, 2), ((1, 1), (1, 1))),
}
OTHERS = {
    "floats": lambda x: anp.sum(x * 2.0, 1),
    "a scale for each channel": lambda x: anp.sum(
        levels(x) * np.arange(1, 9, dtype="f"), 1
    ),
    "more than f32 has": lambda x: anp.sum(
        levels(anp.broadcast_to(x[0, 0, :2, :1], (2, 70_000))), 1
    ),
}


def is_scaled_before(network):
    """Whether what is added up is made of bytes by a multiplication."""
    (function,) = network.module.body.operations
    ops = function.entry_block.operations
    sums = [op for op in ops if isinstance(op, (ReduceSum, SumPool))]
    added_up = [value for op in sums for value in op.operands]
    behind = backward_slice(added_up, lambda x: Tensor.of(x).dtype not in ("u8", "i8"))
    made = [defining_op(value) for value in behind]
    return any(isinstance(op, Multiply) for op in made)


@pytest.mark.parametrize("function", SUMS.values(), ids=SUMS)
def test_sums_of_dequantised_numbers_are_those_of_integers(model, function):
    network = model(function, IMAGE)
    network.run("cse")
    assert is_scaled_before(network)
    image = np.random.default_rng(3).uniform(-2, 2, (2, 6, 6, 8)).astype("f")
    (before,) = network(image)
    assert network.run("integer-sums")
    np.testing.assert_array_equal(network(image)[0], before)
    assert not is_scaled_before(network)
    assert not network.run("integer-sums")


@pytest.mark.parametrize("function", OTHERS.values(), ids=OTHERS)
def test_other_sums_stay_as_they_are(model, function):
    network = model(function, IMAGE)
    network.run("cse")
    assert not network.run("integer-sums")
