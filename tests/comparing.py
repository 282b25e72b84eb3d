"""Assertions that arrays equal those of NumPy, in shape and in value."""

from typing import Any

import numpy as np


def same(ours: Any, theirs: Any, tolerance: float = 0.0) -> None:
    """Compare shapes, and values within an absolute and relative tolerance."""
    assert ours.shape == np.shape(theirs)
    np.testing.assert_allclose(np.asarray(ours), theirs, tolerance, tolerance)


def near(ours: Any, theirs: Any, tolerance: float = 1e-6) -> None:
    """Compare shapes, and values but for rounding."""
    same(ours, theirs, tolerance)


def same_elements(ours: Any, theirs: Any) -> None:
    """Compare shapes, and values whatever their width; of lists and tuples, each."""
    if isinstance(theirs, list | tuple):
        assert len(ours) == len(theirs)
        for one, other in zip(ours, theirs, strict=True):
            same_elements(one, other)
        return
    assert ours.shape == np.shape(theirs)
    np.testing.assert_allclose(np.asarray(ours), theirs, rtol=1e-6)
