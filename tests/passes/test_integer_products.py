"""integer-products: dequantised operands are multiplied as the integers that they are.

Scales are powers of two, by which all sums of floats are exact, too.
"""

import numpy as np
import pytest

import aotc.numpy as anp
from aotc import nn
from aotc.dialects.types import Tensor
from aotc.programs.program import Program
from aotc.tracing.tracing import emit

RNG = np.random.default_rng(0)
KERNEL = RNG.integers(-128, 128, (3, 3, 4, 6)).astype("i1")
ODD = RNG.integers(-128, 128, (3, 2, 3, 5)).astype("i1")
SQUARE = RNG.integers(-128, 128, (4, 6)).astype("i1")
FEATURES = (2.0 ** RNG.integers(-9, -5, 6)).astype("f")
UNSIGNED = RNG.integers(0, 256, (4, 6)).astype("u1")
STEP = np.float32(2.0**-7)
IMAGE = "f32[2, 5, 4, 4]"


def levels(x, zero_point=0, dtype="u8"):
    """What a graph has where a tensor is quantised and dequantised."""
    q = nn.quantize(x, 2.0**-6, zero_point, dtype)
    return nn.dequantize(q, 2.0**-6, zero_point)


def integers(q):
    """An array that no op is computed of while the function is traced."""
    return emit("constant", value=q)


def weight(q, scale=STEP, zero_point=0):
    """A dequantised weight, of one scale or of one for each feature."""
    axis = None if np.ndim(scale) == 0 else q.ndim - 1
    zero_point = np.full(np.shape(scale), zero_point, q.dtype)
    return nn.dequantize(integers(q), scale, zero_point, axis=axis)


def steps(q, zero_point, wide="i16"):
    """A dequantised weight whose zero point is subtracted in a wider dtype."""
    difference = anp.subtract(
        anp.astype(integers(q), wide), anp.astype(zero_point, wide)
    )
    return anp.astype(difference, "f32") * STEP


def dtypes_of_products(network):
    """The dtypes of operands and result of each product, in order."""
    block = network.module.body.operations[0].entry_block
    return [
        [Tensor.of(value).dtype for value in (*op.operands, op.results[0])]
        for op in block.operations
        if op.operation.name in ("graph.dot_general", "graph.conv_general")
    ]


def widened(x, zero_point):
    """Bytes less a zero point, which may be one that each call computes."""
    q = nn.quantize(x, 0.25, 4, "u8")
    return anp.subtract(anp.astype(q, "i16"), anp.astype(zero_point, "i16"))


def dynamic(x, least, most):
    """Bytes less a zero point of each call, between two floats before it was cast."""
    zero = anp.astype(anp.clip(x[0, 0, 0, 0] * 9, least, most), "i64")
    q = anp.astype(nn.quantize(x, 0.25, 4, "u8"), "i32")
    return anp.astype(anp.subtract(q, anp.astype(zero, "i32")), "f32") * STEP


def product(x):
    """A product of integers by a weight, in i32."""
    wide = anp.astype(integers(SQUARE), "i16")
    return anp.dot_general(x, wide, ((3,), (0,)), dtype="i32")


def transposed_image(x):
    """Images in the order that ONNX has, of which a convolution takes a transpose."""
    image = anp.transpose(levels(anp.transpose(x, (0, 3, 1, 2)), 3), (0, 2, 3, 1))
    return nn.conv2d(image, weight(KERNEL, FEATURES), padding=1)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: nn.conv2d(levels(x), weight(KERNEL), padding=1),
        lambda x: nn.conv2d(levels(x, 100), weight(KERNEL, FEATURES), padding="SAME",
            strides=(2, 1)),
        lambda x: nn.conv2d(levels(x, -3, "i8"), weight(KERNEL), dilation=(2, 1)),
        lambda x: nn.conv2d(levels(x, 7), weight(KERNEL[:1, :1], FEATURES)),
        lambda x: nn.conv2d(levels(x[..., :3], 9), weight(ODD), padding=(1, 2)),
        lambda x: nn.conv2d(levels(x[:1, :1, :1], 5), weight(KERNEL), padding=1),
        lambda x: nn.relu(levels(x) @ weight(SQUARE, FEATURES) + 0.5),
        lambda x: levels(x, 31) @ weight(SQUARE.T.copy()).T,
        lambda x: anp.einsum("nhwc,wcf->nhf", levels(x, 1), weight(
            RNG.integers(-128, 128, (4, 4, 6)).astype("i1"), FEATURES)),
        transposed_image,
        # a weight with zeros before its elements, of one scale
        lambda x: levels(x, 3) @ anp.pad(weight(SQUARE[1:]), ((1, 0), (0, 0))),
        # zero points of weights, with those of rows and without
        lambda x: levels(x) @ weight(SQUARE, zero_point=1),
        lambda x: levels(x, 7) @ weight(SQUARE, FEATURES, zero_point=-3),
        lambda x: levels(x, 7) @ nn.dequantize(integers(SQUARE), FEATURES,
            np.arange(-3, 3, dtype="i1"), axis=1),
        lambda x: levels(x, -7, "i8") @ weight(UNSIGNED, FEATURES, zero_point=128),
        lambda x: anp.einsum("nhwc,wcf->nhf", levels(x, 1), nn.dequantize(
            integers(np.stack([UNSIGNED] * 4)), FEATURES, np.arange(6, dtype="u1"),
            axis=2)),
        # two operands that change, without zero points
        lambda x: levels(x[0], 0) @ anp.transpose(levels(x[1], 0, "i8"), (0, 2, 1)),
        # the same zero point that each call computes, without zeros around the image
        lambda x: nn.conv2d(
            anp.astype(widened(x, anp.astype(x[0, 0, 0, 0] * 9, "u8")), "f32") * STEP,
            weight(KERNEL, FEATURES)),
        # integers that were widened, as exporters of integer ops have them
        lambda x: nn.integer_conv(nn.quantize(x, 0.5, 9, "u8"), integers(KERNEL), 9, 0,
            padding="SAME", strides=(2, 1)),
        # a channel of each group
        lambda x: nn.conv2d(levels(x, 7), weight(KERNEL[:, :, :1, :4], FEATURES[:4]),
            groups=4, padding=1, strides=(2, 1)),
        lambda x: nn.conv2d(levels(x, 0, "i8"), weight(KERNEL[:, :, :1, :4]),
            groups=4, padding=1),
        lambda x: product(widened(x, 3)),
        # as choose_qparams of PyTorch gives it
        lambda x: dynamic(x, 0.0, 255.0) @ weight(SQUARE, FEATURES),
        lambda x: product(widened(x, anp.astype(x[0, 0, 0, 0] * 9, "u8"))),
    ],
)  # fmt: skip
def test_a_product_of_dequantised_operands_is_one_of_integers(model, function):
    network = model(function, IMAGE)
    network.run("cse")  # simplify computes what small constants give
    network.keeps_meaning_under("integer-products", "simplify", "cse")
    ((left, right, result),) = dtypes_of_products(network)
    assert (left[1:], right[1:], result) == ("8", "8", "i32")
    assert not network.run("integer-products")


@pytest.mark.parametrize(
    "function",
    [
        lambda x: levels(x[0, 0], 1) @ levels(x[1, 0], 0, "i8"),
        lambda x: levels(x[0], 9) @ anp.transpose(levels(x[1], -5, "i8"), (0, 2, 1)),
        lambda x: anp.einsum("nhwc,nhvc->nhwv", levels(x, 255), levels(x + 1, 3)),
        # zeros around bytes stand for 0
        lambda x: levels(x[0, 0], 1)
        @ anp.pad(levels(x[1, 0, 1:], 9), ((1, 0), (0, 0))),
    ],
)  # fmt: skip
def test_zero_points_of_operands_that_change_are_subtracted_before(model, function):
    network = model(function, IMAGE)
    network.run("cse")
    network.keeps_meaning_under("integer-products", "simplify", "cse")
    assert dtypes_of_products(network) == [["i16", "i16", "i32"]]
    assert not network.run("integer-products")


@pytest.mark.parametrize(
    "function",
    [
        lambda x: nn.conv2d(levels(x, 7), weight(KERNEL[:, :, :2], FEATURES), groups=2,
            padding=1),
        lambda x: nn.conv2d(levels(x, -7, "i8"), weight(KERNEL[:, :, :1, :4],
            zero_point=3), groups=4, padding="SAME", strides=(2, 1)),
        lambda x: nn.conv2d(levels(x, 9), weight(KERNEL, FEATURES, zero_point=-5)),
        # a zero point that each call computes, and zeros around the image
        lambda x: nn.conv2d(
            anp.astype(widened(x, anp.astype(x[0, 0, 0, 0] * 9, "u8")), "f32") * STEP,
            weight(KERNEL), padding=1),
    ],
)  # fmt: skip
def test_convolutions_of_few_terms_multiply_whole_floats(model, function):
    network = model(function, IMAGE)
    network.run("cse")
    assert network.run("integer-products")
    image = np.random.default_rng(3).uniform(-9, 9, (2, 5, 4, 4)).astype("f")
    (exact,) = model(function, IMAGE)(image)
    np.testing.assert_array_equal(network(image)[0], exact)
    assert dtypes_of_products(network) == [["f32", "f32", "f32"]]
    assert not network.run("integer-products")


@pytest.mark.parametrize(
    "function",
    [
        # scales along what is summed up
        lambda x: levels(x) @ nn.dequantize(integers(SQUARE), FEATURES[:4], axis=0),
        lambda x: nn.dequantize(nn.quantize(x, 0.5), FEATURES[:4], axis=3)
        @ weight(SQUARE),
        lambda x: levels(x) @ nn.dequantize(
            integers(SQUARE), np.tile(FEATURES, (2, 1)), np.zeros((2, 6), "i1"),
            axis=0, block=2),
        # differences of bytes, which wrap around
        lambda x: anp.astype(anp.subtract(nn.quantize(x, 0.01, 0, "u8"),
            np.uint8(200)), "f32") * np.float32(0.5) @ weight(SQUARE),
        # a zero point that bytes do not have
        lambda x: nn.conv2d(anp.astype(anp.subtract(anp.astype(nn.quantize(
            x, 0.5, 0, "u8"), "i32"), np.int32(-3)), "f32") * np.float32(0.5),
            weight(KERNEL), padding=1),
        # groups of many terms
        lambda x: nn.conv2d(anp.tile(levels(x), (1, 1, 1, 16)), weight(
            np.tile(KERNEL, (1, 1, 8, 1))), groups=2),
        lambda x: nn.conv2d(anp.tile(levels(x, 0), (1, 1, 1, 16)), weight(
            np.tile(KERNEL, (1, 1, 8, 1))), groups=2),
        # a float operand, or one that is no byte
        lambda x: x @ weight(SQUARE),
        lambda x: levels(x, 0, "i16") @ weight(SQUARE),
        # a zero point of the weight of a convolution would take sums of windows
        lambda x: nn.conv2d(anp.tile(levels(x), (1, 1, 1, 8)), weight(
            np.tile(KERNEL, (1, 1, 8, 1)), zero_point=1)),
        # bytes of padding are to have a zero point that is known and a byte
        lambda x: levels(x, 3) @ anp.pad(
            steps(UNSIGNED[1:], anp.astype(x[0, 0, 0, 0], "u8")), ((1, 0), (0, 0))),
        lambda x: levels(x, 3) @ anp.pad(
            steps(UNSIGNED[1:], integers(np.int16(-5))), ((1, 0), (0, 0))),
        lambda x: levels(x, 3) @ anp.pad(
            steps(SQUARE[1:], integers(np.int16(200))), ((1, 0), (0, 0))),
        # differences of unsigned integers, which wrap around
        lambda x: levels(x, 3) @ steps(UNSIGNED, integers(np.uint8(90)), "u16"),
        lambda x: levels(x, 3) @ steps(
            UNSIGNED, anp.astype(x[0, 0, 0, 0], "u8"), "u32"),
        # differences of 256 and more
        lambda x: levels(x) @ steps(UNSIGNED, anp.astype(x[0, 0, 0, 0], "i8")),
        lambda x: levels(x) @ steps(UNSIGNED, anp.astype(
            anp.astype(x[0, 0, 0, 0], "u8"), "i8")),
        lambda x: dynamic(x, 0.0, 255.5) @ weight(SQUARE),
        lambda x: dynamic(x, -1.0, 255.0) @ weight(SQUARE),
        lambda x: dynamic(x, -np.inf, 255.0) @ weight(SQUARE),
        # differences of floats
        lambda x: (anp.astype(anp.subtract(anp.astype(x, "bf16"), anp.asarray(
            1, "bf16")), "f32") * STEP) @ weight(SQUARE),
        # sums beyond i32
        lambda x: anp.tile(levels(x[0, 0]), (1, 9000))
        @ weight(np.tile(SQUARE, (9000, 1))),
    ],
)  # fmt: skip
def test_other_products_stay_as_they_are(model, function):
    network = model(function, IMAGE)
    network.run("cse")  # simplify computes what small constants give
    assert not network.run("integer-products")
    assert all(result == "f32" for *_, result in dtypes_of_products(network))


def test_transformed_windows_would_round_what_whole_floats_are(model):
    """Relaxed numerics may compute convolutions of 3 by 3 in Winograd's form."""
    network = model(lambda x: nn.conv2d(levels(x), weight(KERNEL, zero_point=1)), IMAGE)
    network.run("cse")
    Program(network.module).numerics = "relaxed"
    assert not network.run("integer-products")
