"""Permutations say what NumPy's transposes do."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from aotc.dialects.movement.permutations import inverse, moving, permute

X = np.arange(120).reshape(2, 3, 4, 5)
ORDERS = st.permutations(range(4)).map(tuple)


@given(ORDERS, ORDERS)
def test_two_transposes_are_one_and_its_inverse_undoes_it(one, other):
    both = permute(one, other)
    np.testing.assert_array_equal(X.transpose(one).transpose(other), X.transpose(both))
    assert permute(X.shape, both) == X.transpose(both).shape
    np.testing.assert_array_equal(X.transpose(both).transpose(inverse(both)), X)


@given(st.integers(-4, 3), st.integers(-4, 3))
def test_one_axis_moves_as_in_numpy(source, to):
    moved = X.transpose(moving(4, source, to))
    np.testing.assert_array_equal(moved, np.moveaxis(X, source, to))
