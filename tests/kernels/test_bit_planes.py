"""Integers of few bits lie in words by planes, and come out of them as they were."""

import numpy as np
import pytest

from aotc.dialects import context
from aotc.dialects.builder import Builder
from aotc.dialects.types import Tensor
from aotc.kernels.bit_planes import (
    bits_for,
    from_words,
    pack_rows,
    planes_of,
    run_length,
    to_words,
    unpack_rows,
)
from aotc.mlir import func, ir
from aotc.programs.computed_arrays import ComputedArray

RNG = np.random.default_rng(0)


def compute(write, x, bits):
    """What ops that a function writes make of an array."""
    with context(), ir.Location.unknown():
        module = ir.Module.create()
        kind = Tensor(x.shape, f"{x.dtype.kind}{8 * x.dtype.itemsize}").to_mlir()
        with ir.InsertionPoint(module.body):
            block = func.FuncOp("f", ir.FunctionType.get([kind], [])).add_entry_block()
        with ir.InsertionPoint(block):
            found = write(Builder(), *block.arguments, bits)
        ops = [*block.operations]
        return np.asarray(ComputedArray(ops, found, {block.arguments[0]: x}))


def integers(bits, dtype, shape):
    low = 0 if dtype == "u1" else -(2 ** (bits - 1))
    return RNG.integers(low, low + 2**bits, shape).astype(dtype)


@pytest.mark.parametrize("dtype", ["i1", "u1"])
@pytest.mark.parametrize("bits", [4, 5, 6])
def test_a_word_has_the_bits_of_a_plane_where_the_docs_say(bits, dtype):
    run = run_length(bits)
    x = integers(bits, dtype, (2, 3, 5, run))
    words = compute(to_words, x, bits)
    assert words.nbytes == x.nbytes * bits // 8
    found = words.view("u1").reshape(2, 3, -1, 5, 4).astype("u4") << [0, 8, 16, 24]
    found = found.sum(-1)
    for plane in planes_of(bits):
        held = 32 // plane.width
        for term in range(run):
            word, place = divmod(term, held)
            bit = 8 * (place % 4) + plane.width * (place // 4)
            got = found[:, :, plane.word + word] >> bit & plane.mask
            wanted = x.view("u1")[..., term] >> plane.first & plane.mask
            np.testing.assert_array_equal(got, wanted)
    back = compute(from_words, words, bits)
    np.testing.assert_array_equal(back.view("u1") % 2**bits, x.view("u1") % 2**bits)


@pytest.mark.parametrize("bits", [4, 5, 6])
def test_each_row_of_a_table_is_packed_by_itself(bits):
    x = integers(bits, "u1", (7, 64))
    packed = compute(pack_rows, x, bits)
    assert packed.shape == (7, 64 * bits // 8)
    for row in (0, 6):
        np.testing.assert_array_equal(compute(unpack_rows, packed[row], bits), x[row])


def test_integers_get_as_few_bits_as_blocks_of_whole_runs_can_have():
    assert [bits_for(0, n, 32) for n in (15, 16, 32, 63, 64)] == [4, 5, 6, 6, 8]
    assert [bits_for(-n, n - 1, 32) for n in (8, 9, 17, 32, 33)] == [4, 5, 6, 6, 8]
    assert bits_for(-1, 8, 32) == 5
    assert [bits_for(0, 31, block) for block in (32, 16, 20)] == [5, 6, 8]
