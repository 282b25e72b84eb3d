"""keep-quantized: what it makes of a dequantised weight is what the weight was."""

import numpy as np
import pytest

import aotc
from aotc import nn, reference
from aotc import numpy as anp
from aotc.dialects.functions.functions import functions_of
from aotc.dialects.types import Tensor
from aotc.passes import run_passes
from aotc.tracing.assembly import trace
from aotc.tracing.tracing import emit

RNG = np.random.default_rng(0)
BYTES = RNG.integers(0, 256, (16, 6)).astype("u1")
SCALES = (2.0 ** RNG.integers(-9, -5, (1, 6))).astype("f")
FEW = np.uint8(15)


def constant(array):
    """An array that no op is computed of while the function is traced."""
    return emit("constant", value=np.asarray(array))


def steps(q, zero=None, wide="f32", scales=SCALES):
    """A dequantised weight whose zero point is subtracted in a dtype."""
    x = anp.astype(q, wide)
    if zero is not None:
        x = anp.subtract(x, constant(zero))
    return anp.astype(x, "f32") * constant(scales)


def few():
    """Integers of 4 bits."""
    return anp.bitwise_and(constant(BYTES), FEW)


def run(weight, rows):
    """Run the pass on a product by a weight: the program, and results around it."""

    @aotc.entry(x=aotc.Spec((5, rows)))
    def product(x):
        return x @ weight()

    program = trace([product], {})
    x = RNG.normal(size=(5, rows)).astype("f")
    before = reference.evaluate(program.module, "product", [x])
    run_passes(program.module, ["keep-quantized"])
    after = reference.evaluate(program.module, "product", [x])
    return program, before[0], after[0]


def ops_in(program):
    block = functions_of(program.module)["product"].entry_block
    return [op for op in block.operations if op.operation.name == "graph.dequantize"]


def kept(weight, rows=16):
    """Its op, if any, and results around the pass."""
    program, before, after = run(weight, rows)
    return ops_in(program), before, after


def test_scales_and_minima_that_are_products_are_ops_of_their_own():
    def of_blocks(data, scale):
        return nn.dequantize(constant(data), constant(scale), axis=0, block=2)

    data = RNG.integers(0, 64, (4, 8)).astype("u1")
    few_scales = RNG.uniform(0.1, 1, (2, 8)).astype("f4")
    q = RNG.integers(0, 16, (64, 8)).astype("u1")

    def weight():
        scale, less = (
            of_blocks(data, few_scales),
            of_blocks(data.view("i1"), few_scales),
        )
        return nn.dequantize(constant(q), scale, axis=0, block=16, less=-less)

    program, before, after = run(weight, rows=64)
    scale, offset, op = ops_in(program)
    assert [*op.operands][1:] == [scale.y, offset.y]
    assert [Tensor.of(x.scale).shape for x in (scale, offset)] == [(2, 8)] * 2
    np.testing.assert_allclose(after, before, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("weight", "bits"),
    [
        (lambda: steps(few()), 4),
        (lambda: steps(few(), np.float32(8)), 4),
        (lambda: steps(constant(BYTES), np.int16(128), "i16"), 8),
        (lambda: steps(anp.right_shift(constant(BYTES.view("i1")), np.int8(4))), 4),
        # bounds beyond the range: all are 20, which takes 5 bits, or 6 in blocks of 16
        (lambda: steps(anp.maximum(few(), np.uint8(20))), 6),
        (lambda: steps(anp.clip(few(), np.uint8(20), np.uint8(30))), 6),
        (lambda: steps(anp.minimum(few(), np.uint8(7))), 4),
    ],
)
def test_a_weight_that_is_kept_as_integers_is_the_same(weight, bits):
    (op,), before, after = kept(weight)
    assert op.bits == bits
    np.testing.assert_allclose(after, before, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    "weight",
    [
        # differences that wrap around
        lambda: steps(constant(BYTES), np.uint32(90), "u32"),
        lambda: steps(constant(BYTES), np.full((1, 6), 90, "u2"), "u16"),
        lambda: steps(constant(BYTES), np.full((1, 6), -32700, "i2"), "i16"),
        lambda: steps(constant(BYTES), np.uint8(90), "u8"),
    ],
)
def test_differences_that_wrap_around_are_not_those_of_integers(weight):
    _, before, after = kept(weight)
    np.testing.assert_allclose(after, before, rtol=1e-6)


def test_weights_of_no_rows_and_zero_points_that_are_no_numbers_stay():
    ops, before, after = kept(lambda: steps(constant(BYTES[:0])), rows=0)
    assert not ops
    np.testing.assert_array_equal(after, before)
    with np.errstate(all="ignore"):
        _, before, after = kept(lambda: steps(constant(BYTES), np.float32(np.inf)))
        np.testing.assert_array_equal(after, before)


def test_scales_and_minima_of_half_precision_stay_narrow():
    parts = RNG.uniform(0.5, 1, (2, 1, 6)).astype("f2")

    @aotc.entry(x=aotc.Spec((5, 16)))
    def product(x):
        scales, minima = (anp.astype(constant(part), "f32") for part in parts)
        return x @ (anp.astype(few(), "f32") * scales - anp.negative(minima))

    program = trace([product], {})
    x = RNG.normal(size=(5, 16)).astype("f")
    before = reference.evaluate(program.module, "product", [x])
    run_passes(program.module, ["keep-quantized"])
    after = reference.evaluate(program.module, "product", [x])
    block = functions_of(program.module)["product"].entry_block
    (op,) = (x for x in block.operations if x.operation.name == "graph.dequantize")
    assert [Tensor.of(value).dtype for value in op.operands] == ["u8", "f16", "f16"]
    np.testing.assert_allclose(after[0], before[0], rtol=1e-6, atol=1e-6)
