"""Arrays that ops compute when they are asked for, and when two of them are alike."""

import tracemalloc

import numpy as np
import pytest

import aotc.numpy as anp
from aotc.dialects import context
from aotc.dialects.functions.functions import functions_of
from aotc.mlir import ir
from aotc.programs import array_parts, computed_arrays
from aotc.programs.computed_arrays import (
    ComputedArray,
    is_computed_alike,
    is_same_array,
)
from aotc.programs.parameter_archive import ArchiveParts, parts_of
from aotc.tracing.deferred_arrays import compute_when_read

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


# ---- part by part -------------------------------------------------------------------

BYTES = RNG.integers(0, 256, (4096, 48), "u1")


def unpacked(x):
    halves = [anp.bitwise_and(x, 15), anp.right_shift(x, 4)]
    joined = anp.reshape(anp.concatenate(halves, -1), (1024, -1))
    return anp.clip(joined.astype("i16") - 8, -7, 7).astype("i8")


def packed(x):
    rows = anp.transpose(anp.reshape(x, (256, 4, 12, 32)), (0, 2, 1, 3))
    low, high = rows[..., ::2], rows[..., 1::2]
    return anp.bitwise_or(anp.bitwise_and(low, 15), anp.left_shift(high, 4))


def scaled_by_rows(x):
    scale = np.arange(4096, dtype="f4")[:, None]
    return x.astype("f32") * scale


def turned_over(x):
    return x[::-1] + 1


def transposed(x):
    return x.T + 1


def computed_by(steps):
    found = BYTES
    for step in steps:
        found = compute_when_read(step, found)
    return found


@pytest.mark.parametrize(
    ("steps", "is_divided"),
    [
        ((unpacked,), True),
        ((unpacked, packed), True),
        ((turned_over, unpacked, packed), True),  # the first as a whole
        ((scaled_by_rows,), False),
        ((turned_over,), False),
        ((transposed,), False),
    ],
)
def test_it_is_computed_in_parts_where_they_need_no_others(
    monkeypatch, steps, is_divided
):
    whole = np.asarray(computed_by(steps))
    monkeypatch.setattr(array_parts, "MOST_BYTES", 1 << 14)
    parts = []
    part_of = computed_arrays.part_of
    monkeypatch.setattr(
        computed_arrays, "part_of", lambda *x: parts.append(x[1]) or part_of(*x)
    )
    found = computed_by(steps)
    again = np.asarray(found)
    assert again.dtype == whole.dtype
    np.testing.assert_array_equal(again, whole)
    assert (max(parts, default=0) > 4) == is_divided
    assert b"".join(ArchiveParts({"x": found})) == b"".join(ArchiveParts({"x": whole}))


def test_what_lies_between_takes_little_memory():
    large = compute_when_read(
        lambda x: anp.right_shift(anp.clip(x.astype("i32"), 3, 90), 1).astype("u8"),
        np.zeros((1 << 14, 1 << 10), "u1"),
    )
    np.asarray(large)
    tracemalloc.start()
    np.asarray(large)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1.5 * large.nbytes  # whole, it takes 8 times as much
