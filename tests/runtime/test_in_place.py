"""`x += …` on what compiled code has computed makes new values, and keeps them safe."""

import numpy as np

from aotc.runtime.in_place import augmented


def test_read_only_arrays_give_new_ones_that_are_read_only_too():
    """So a second `+=` changes no other name of the first one's result."""
    x = np.arange(3.0)
    x.flags.writeable = False
    found = augmented("+", x, 1)
    np.testing.assert_array_equal(found, [1, 2, 3])
    np.testing.assert_array_equal(x, [0, 1, 2])
    assert not found.flags.writeable


def test_arrays_that_may_be_written_to_are():
    x = np.arange(3.0)
    assert augmented("*", x, 2) is x
    np.testing.assert_array_equal(x, [0, 2, 4])
