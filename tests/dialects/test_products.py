"""Sums of products by BLAS are those of einsum."""

import math

import numpy as np
import pytest

from aotc.dialects.lowering.error_functions import erf_numpy
from aotc.dialects.reference.products import sum_of_products

# sizes of loops, and the loops of both operands and of the result
CASES = [
    ((2, 3, 4), (0, 1), (1, 2), (0, 2)),
    ((2, 3, 4, 5), (3, 0, 1), (0, 1, 2), (0, 2, 3)),
    ((2, 3, 4, 5), (0, 2, 1, 3), (0, 3, 1), (1, 0, 2)),
    ((3, 4), (0,), (1,), (1, 0)),
    ((3,), (0,), (0,), ()),
    ((3, 0, 2), (0, 1), (1, 2), (0, 2)),
]


@pytest.mark.parametrize("dtype", ["f4", "f8", "i1", "i4", "i8", "u1"])
@pytest.mark.parametrize(("sizes", "left", "right", "out"), CASES)
def test_products_are_those_of_einsum(sizes, left, right, out, dtype):
    rng = np.random.default_rng(0)
    shapes = [[sizes[loop] for loop in loops] for loops in (left, right)]
    x, y = ((rng.normal(size=shape) * 60).astype(dtype) for shape in shapes)
    found = sum_of_products(x, left, y, right, out)
    expected = np.einsum(x, left, y, right, out)
    assert found.dtype == x.dtype
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-2)


@pytest.mark.parametrize("dtype", ["i4", "i8", "u4"])
def test_products_of_large_integers_wrap(dtype):
    facts = np.iinfo(dtype)
    rng = np.random.default_rng(0)
    x = rng.integers(facts.min, facts.max, (3, 5), dtype, endpoint=True)
    found = sum_of_products(x, (0, 1), x, (2, 1), (0, 2))
    assert (found == np.einsum("ij,kj->ik", x, x)).all()
    assert found.dtype == x.dtype


def test_a_sum_overflows_only_if_it_is_too_large_itself():
    x, y = np.float32([[3e38, 3e38, -3e38, -3e38]]), np.ones((4, 1), np.float32)
    assert sum_of_products(x, (0, 1), y, (1, 2), (0, 2)) == 0
    assert sum_of_products(x, (0, 1), np.abs(x).T, (1, 2), (0, 2)) == 0
    assert np.isinf(sum_of_products(np.abs(x), (0, 1), y, (1, 2), (0, 2)))


def test_erf_is_that_of_the_c_library():
    x = np.concatenate(
        [
            np.random.default_rng(0).normal(size=1000) * 3,
            [0.0, 1e-300, 1e-9, 0.5 / 2048, 5.99, 6.0, 1e300, np.inf, -np.inf],
        ]
    )
    expected = np.array([math.erf(each) for each in x])
    assert (np.abs(erf_numpy(x) - expected) <= 3 * np.spacing(np.abs(expected))).all()
    assert np.isnan(erf_numpy(np.array([np.nan]))).all()
    assert erf_numpy(np.float32([0.3])).dtype == np.float32
