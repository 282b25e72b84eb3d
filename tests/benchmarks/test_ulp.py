"""benchmarks.ulp: compiled elementary functions come as near as they are said to."""

import math

import numpy as np
import pytest

from aotc.machine.target import Target
from benchmarks import ulp

# in ulp; what has no number here is measured by the command alone
WITHIN = {
    "exp": 6, "exp2": 2, "expm1": 6, "log": 2, "log1p": 4, "sqrt": 1, "rsqrt": 3,
    "cbrt": 2, "sin": 1.5, "cos": 1.5, "tanh": 8, "asinh": 4, "logistic": 5, "erf": 6,
    "erfc": 9, "erfinv": 6, "atan2": 5, "hypot": 3, "divide": 1, "remainder": 0,
}  # fmt: skip


def test_compiled_functions_are_within_a_few_ulp():
    found = ulp.measure(list(WITHIN), Target.parse("x86_64-v3"), 20_000)
    beyond = {name: each for name, each in found.items() if each.ulp > WITHIN[name]}
    assert not beyond


def test_errors_are_counted_in_distances_of_numbers():
    right = np.array([1.0, 1.0, np.nan, np.inf, 1.0])
    found = np.array([1.0, 1 + 2**-22, np.nan, np.inf, np.nan], np.float32)
    np.testing.assert_array_equal(ulp.errors_in_ulp(found, right), [0, 2, 0, 0, np.inf])


@pytest.mark.parametrize("x", [977.8208, 126264.55, 1e7, 16367173 * 2.0**72])
def test_references_of_large_angles_are_right(x):
    x = np.array([x], np.float32)
    assert ulp.right_results("sin", [x])[0] == pytest.approx(math.sin(x[0]), rel=1e-12)
