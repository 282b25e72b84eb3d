"""Ranges of integers hold whatever the ops that make them can give."""

import numpy as np
import pytest

import aotc.numpy as anp
from aotc.passes.quantized.ranges import value_range

EVERY = np.arange(-128, 128, dtype="i1").reshape(2, 128)


def cast(x, dtype):
    return anp.astype(x, dtype)


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda x, b: anp.clip(x, -3, 5), (-3, 5)),
        (lambda x, b: anp.clip(x, 5, -3), (-3, -3)),
        (lambda x, b: anp.clip(x, b, 5), None),
        (lambda x, b: anp.clip(anp.bitwise_and(x, 15), b, 127), None),
        (lambda x, b: anp.clip(anp.maximum(x, 9), 0, b), None),
        (lambda x, b: cast(anp.clip(cast(x, "f32") * 3, -2.5, 6.5), "i8"), (-3, 7)),
        (lambda x, b: cast(anp.clip(cast(x, "f32") * 3, 6.0, -2.0), "i8"), (-2, 6)),
        (lambda x, b: cast(anp.clip(anp.log(cast(x, "f32")), 3, 5), "i8"), (0, 5)),
        (lambda x, b: cast(anp.clip(cast(x, "f32"), -9, 300), "u8"), None),
        (lambda x, b: cast(x, "i16") - 100, (-228, 27)),
        (lambda x, b: x - 100, None),
        (lambda x, b: anp.minimum(anp.bitwise_and(x, 15), b), None),
        (lambda x, b: anp.pad(anp.clip(x, 1, 4), 1, constant_values=9), (1, 9)),
    ],
)
def test_results_are_within_ranges(model, function, expected):
    network = model(function, "i8[2, 128]", "i8[]")
    (body,) = network.module.body.operations
    *_, end = body.entry_block.operations
    low, high = value_range(end.operands[0])
    for bound in (-128, -7, 0, 8, 100, 127):
        (found,) = network(EVERY, np.array(bound, "i1"))
        assert low <= found.min() <= found.max() <= high
    info = np.iinfo(found.dtype)
    assert (low, high) == (expected or (info.min, info.max))
