"""Attributes give back the values that they were made of."""

import ml_dtypes
import numpy as np
import pytest

from aotc.dialects import context
from aotc.dialects.attributes import DenseElements
from aotc.mlir import ir

EVERY = np.arange(1 << 16, dtype=np.uint16)


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, np.float16])
def test_a_constant_keeps_every_number_of_half_precision(dtype):
    with context(), ir.Location.unknown():
        found = DenseElements.decode(DenseElements.encode(EVERY.view(dtype)))
        one_by_one = [
            DenseElements.decode(DenseElements.encode(EVERY[n : n + 1].view(dtype)))
            for n in range(0, len(EVERY), 997)
        ]
    np.testing.assert_array_equal(found.view(np.uint16), EVERY)
    words = np.concatenate(one_by_one).view(np.uint16)
    np.testing.assert_array_equal(words, EVERY[::997])
