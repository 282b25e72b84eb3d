"""Arrays that ops compute when they are asked for, and when two of them are alike."""

import numpy as np
import pytest

from aotc.computed_arrays import ComputedArray, is_computed_alike, is_same_array
from aotc.dialects import context
from aotc.dialects.functions import functions_of
from aotc.mlir import ir
from aotc.parameter_archive import parts_of

TEXT = """
func.func @f(%0: tensor<300x300xf32>, %1: tensor<300x300xf32>)
    -> tensor<300x300xf32> {
  %2 = "graph.OP"(%0, %1) : (tensor<300x300xf32>, tensor<300x300xf32>)
    -> tensor<300x300xf32>
  %3 = "graph.transpose"(%2) {permutation = array<i64: 1, 0>}
    : (tensor<300x300xf32>) -> tensor<300x300xf32>
  return %3 : tensor<300x300xf32>
}
"""
RNG = np.random.default_rng(0)
X, Y = (RNG.standard_normal((300, 300)).astype("f4") for _ in range(2))


def computed(one, other, op="add"):
    """The transposed result of an op, whose own module is gone."""
    with context(), ir.Location.unknown():
        module = ir.Module.parse(TEXT.replace("OP", op))
        block = functions_of(module)["f"].entry_block
        *ops, _ = block.operations
        arrays = dict(zip(block.arguments, (one, other), strict=True))
        return ComputedArray(ops, ops[-1].results[0], arrays)


def test_it_is_computed_each_time_and_by_its_own_ops():
    found = computed(X, Y)
    assert (found.shape, found.dtype, found.nbytes) == ((300, 300), "f4", 360_000)
    for _ in range(2):
        np.testing.assert_array_equal(np.asarray(found), (X + Y).T)
    assert b"".join(parts_of(np.asarray(found), 4096)) == (X + Y).T.tobytes()


def test_what_it_reads_may_be_computed_in_turn():
    found = computed(computed(X, Y), Y)
    np.testing.assert_array_equal(np.asarray(found), ((X + Y).T + Y).T)
    assert is_computed_alike(found, computed(computed(X, Y), Y))
    assert not is_computed_alike(found, computed(computed(Y, X), Y))


@pytest.mark.parametrize(
    ("one", "other", "alike", "same"),
    [
        (computed(X, Y), computed(X, Y), True, True),
        (computed(X, Y), computed(X.copy(), Y.copy()), True, True),
        (computed(X, Y), computed(Y, X), False, True),
        (computed(X, Y), computed(X, Y, "subtract"), False, False),
        (computed(X, Y), computed(X, X), False, False),
        (computed(X, Y), np.asarray(computed(X, Y)), False, True),
        (computed(X, Y), X, False, False),
        (X, X.copy(), True, True),
        (X, -X, False, False),
    ],
)
def test_equal_ops_of_equal_arrays_are_alike(one, other, alike, same):
    for pair in ((one, other), (other, one)):
        assert is_computed_alike(*pair) == alike
        assert is_same_array(*pair) == same


def test_zeros_of_two_signs_are_not_alike():
    zeros = np.zeros(3, "f4")
    assert not is_same_array(zeros, -zeros)
