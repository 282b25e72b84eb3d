"""What layers and losses compute, written out in NumPy, and what they refuse."""

import itertools
import math

import numpy as np
import pytest

import aotc.numpy as anp
from aotc import nn, reference
from aotc.errors import InputError
from aotc.passes import run_passes
from aotc.tracing.assembly import trace
from aotc.tracing.entry import Spec, entry
from aotc.transforms import grad

rng = np.random.default_rng(0)


def drawn(*shape):
    """Standard normal f32."""
    return rng.normal(size=shape).astype("f4")


def close(ours, theirs, tolerance=1e-5):
    """Equal shapes, nearly equal elements."""
    ours = np.asarray(ours)
    assert ours.shape == np.shape(theirs)
    np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance)


def derivative(function, *arrays):
    """The gradient of a scalar function by its first array."""

    @entry(xs=[Spec(np.shape(x), np.asarray(x).dtype) for x in arrays])
    def traced(xs):
        return grad(function)(*xs)

    program = trace([traced], {})
    run_passes(program.module, ["autodiff", "inline"])
    return reference.evaluate(program.module, "traced", arrays)[0]


# ---- attention ----------------------------------------------------------------------


def attended(q, k, v, seen, scale):
    """Attention row by row; a row that sees nothing gives zeros."""
    y = np.zeros((*q.shape[:3], v.shape[3]))
    groups = q.shape[2] // k.shape[2]
    for b, i, h in itertools.product(*map(range, q.shape[:3])):
        places = np.flatnonzero(seen[i])
        if len(places):
            scores = k[b, places, h // groups] @ q[b, i, h] * scale
            p = np.exp(scores - scores.max())
            y[b, i, h] = p / p.sum() @ v[b, places, h // groups]
    return y


@pytest.mark.parametrize("heads", [1, 2, 4])
def test_attention_averages_the_values_of_positions_seen(heads):
    q, k, v = drawn(2, 3, 4, 5), drawn(2, 6, heads, 5), drawn(2, 6, heads, 2)
    everything = np.ones((3, 6), bool)
    close(nn.attention(q, k, v), attended(q, k, v, everything, 1 / math.sqrt(5)))
    close(
        nn.attention(q, k, v, causal=True, scale=0.3),
        attended(q, k, v, np.tri(3, 6), 0.3),
    )
    mask = rng.random((3, 6)) < 0.5
    mask[1] = False
    close(nn.attention(q, k, v, mask, scale=0.3), attended(q, k, v, mask, 0.3), 1e-4)
    close(nn.attention(q, k, v, mask)[:, 1], np.zeros((2, 4, 2)))


def test_a_row_that_sees_nothing_has_no_gradient_and_no_nan():
    q, k, v = drawn(1, 2, 1, 3), drawn(1, 2, 1, 3), drawn(1, 2, 1, 3)
    mask = np.array([[False, False], [True, False]])
    d = derivative(lambda q: anp.sum(nn.attention(q, k, v, mask) ** 2), q)
    close(d, np.zeros_like(q))


def test_half_precision_attends_in_f32():
    q = (100 * drawn(1, 4, 2, 8)).astype("f2")
    y = nn.attention(q, q, q)
    assert y.dtype == "f16"
    wide = q.astype("f4")
    close(np.asarray(y, "f4"), nn.attention(wide, wide, wide), 2e-3 * 400)


def test_rotary_embedding_depends_on_distances_only():
    x = drawn(1, 1, 1, 8)
    for interleaved in (False, True):
        turned = [
            np.asarray(nn.rotary_embedding(x, [p], interleaved=interleaved)).ravel()
            for p in (0, 3, 5, 8)
        ]
        close(turned[0], x.ravel())
        close(turned[0] @ turned[1], turned[2] @ turned[3])
        assert abs(turned[0] @ turned[1] - turned[0] @ turned[2]) > 1e-3


# ---- convolution, pooling, resizing -------------------------------------------------


def test_transposed_convolution_is_the_adjoint_of_convolution():
    kernel = drawn(3, 2, 2, 4)
    for strides, padding, dilation in itertools.product(
        (1, 2, (3, 2)), ("VALID", "SAME", 1), (1, 2)
    ):
        options = {"strides": strides, "padding": padding, "dilation": dilation}
        image = drawn(1, 12, 12, 2)
        y = np.asarray(nn.conv(image, kernel, **options))
        dy = drawn(*y.shape)
        swapped = np.swapaxes(kernel, -1, -2)
        least = nn.conv_transpose(dy, swapped, **options).shape[1:3]
        more = [12 - size for size in least]
        back = nn.conv_transpose(dy, swapped, **options, output_padding=more)
        np.testing.assert_allclose(np.vdot(y, dy), np.vdot(image, back), 1e-4, 1e-3)


def test_average_pooling_counts_what_it_is_asked_to():
    x = np.ones((1, 3, 1), "f4")
    close(nn.avg_pool(x, 2, 2, 1)[0, :, 0], [1, 1])
    close(nn.avg_pool(x, 2, 2, 1, count_include_pad=True)[0, :, 0], [0.5, 1])
    longer = nn.avg_pool(x, 2, 2, ceil_mode=True, count_include_pad=True)
    close(longer[0, :, 0], [1, 1])
    assert nn.max_pool(x, 2, 2, ceil_mode=True).shape == (1, 2, 1)
    assert nn.max_pool(x, 2, 2).shape == (1, 1, 1)


def test_adaptive_pooling_covers_every_pixel():
    x = np.arange(7, dtype="f4").reshape(1, 7, 1)
    close(nn.adaptive_avg_pool(x, 3)[0, :, 0], [1, 3, 5])
    close(nn.adaptive_max_pool(x, 3)[0, :, 0], [2, 4, 6])


def test_resize_keeps_lines_and_cubics_straight():
    x = np.arange(5, dtype="f4").reshape(1, 5, 1)
    corners = nn.resize(x, 9, coordinates="align_corners")
    close(corners[0, :, 0], np.linspace(0, 4, 9))
    inner = nn.resize(x, 10, "cubic", cubic=-0.5)[0, 4:-4, 0]
    close(inner, (np.arange(10) / 2 - 0.25)[4:-4])
    close(nn.resize(x, 1, antialias=True)[0, :, 0], [2])
    close(nn.resize(x, scale=2, method="nearest")[0, :, 0], np.repeat(range(5), 2))


def test_space_to_depth_is_undone():
    x = drawn(2, 4, 6, 8)
    close(nn.depth_to_space(nn.space_to_depth(x, 2), 2), x)
    close(nn.pixel_unshuffle(nn.pixel_shuffle(x, 2), 2), x)
    close(nn.space_to_depth(x, 2)[0, 1, 2, 8:16], x[0, 2, 5])


# ---- quantisation -------------------------------------------------------------------


def test_quantized_numbers_round_to_even_and_saturate():
    x = np.array([0.5, 1.5, 2.5, -0.5, 1e9, -np.inf], "f4")
    assert nn.quantize(x, 1.0).tolist() == [0, 2, 2, 0, 127, -128]
    assert nn.quantize(x, 1.0, 3, "u8").tolist() == [3, 5, 5, 3, 255, 0]
    assert nn.quantize(x, 1.0, bits=4).tolist() == [0, 2, 2, 0, 7, -8]
    scale, zero = nn.quantization_scale(-1.0, 3.0, "u8")
    close(nn.dequantize(nn.quantize([0.0], scale, zero, "u8"), scale, zero), [0])


def test_integers_of_16_bits_are_exact_from_half_precision():
    x = np.array([3, -3], "f2")
    assert nn.quantize(x, 1.0, 40001, "u16").tolist() == [40004, 39998]


def test_differences_of_wide_levels_neither_wrap_nor_leave_half_precision():
    small, half = np.array(0.01, "f2"), np.array(0.5, "f4")
    found = nn.dequantize(np.array([100000, -70000], "i4"), small)
    assert found.dtype == "f16"
    close(found, [1000, -700], 1e-3)
    close(nn.dequantize(np.array([-32768], "i2"), small, 32767), [-655.5], 1e-3)
    ends = np.array([2**31 - 1, -(2**31)], "i4")
    assert nn.dequantize(ends, half, -5).tolist() == [2.0**30, -(2.0**30)]
    x = np.array([600, -600], "f2")
    close(nn.fake_quantize(x, small, 32767, "i16"), [0, -600], 1e-2)


def test_blocks_along_an_axis_have_scales_and_zero_points_of_their_own():
    x = rng.normal(size=(2, 5, 3)).astype("f4")
    scale, zero = drawn(2, 3, 3) ** 2 + 0.1, rng.integers(-9, 9, (2, 3, 3))
    q = nn.quantize(x, scale, zero, axis=1, block=2)
    wide = [np.repeat(part, 2, 1)[:, :5] for part in (scale, zero)]
    exact = np.clip(np.rint(x / wide[0]) + wide[1], -128, 127)
    np.testing.assert_array_equal(q, exact.astype("i1"))
    found = nn.dequantize(q, scale, zero, axis=1, block=2)
    close(found, (exact - wide[1]) * wide[0], 1e-6)
    close(nn.fake_quantize(x, scale, zero, axis=1, block=2), found, 1e-6)


def test_fake_quantization_passes_gradients_inside_of_the_range():
    x = np.array([-0.3, 0.24, 9.0, -9.0], "f4")
    close(derivative(lambda x: anp.sum(nn.fake_quantize(x, 0.05)), x), [1, 1, 0, 0])
    slopes = [round(v / 0.05) - v / 0.05 for v in x[:2].tolist()] + [127, -128]
    total = derivative(
        lambda s, x: anp.sum(nn.fake_quantize(x, s)), np.array(0.05, "f4"), x
    )
    close(total, sum(slopes), 1e-4)
    close(nn.fake_quantize(x, 0.05), nn.dequantize(nn.quantize(x, 0.05), 0.05))


def test_products_of_quantized_numbers_are_exact():
    x = rng.integers(-128, 128, (5, 600)).astype("i1")
    y = rng.integers(-128, 128, (600, 4)).astype("i1")
    zeros = np.array([0, 3, -128, 127], "i4")
    wide = (x.astype("i8") + 7) @ (y.astype("i8") - zeros)
    found = nn.quantized_matmul(x, y, np.float32(0.5), np.float32(2), -7, zeros)
    np.testing.assert_array_equal(found, wide.astype("f4"))
    image = rng.integers(0, 256, (1, 5, 6, 4)).astype("u1")
    kernel = rng.integers(-128, 128, (3, 2, 2, 6)).astype("i1")
    options = {"strides": (2, 1), "padding": 1, "groups": 2}
    exact = nn.conv(image.astype("f8") - 9, kernel.astype("f8") + 2, **options)
    found = nn.quantized_conv(image, kernel, 1.0, 1.0, 9, -2, **options)
    np.testing.assert_array_equal(found, np.asarray(exact).astype("f4"))
    whole = nn.integer_conv(image, kernel, 9, -2, **options)
    assert whole.dtype == "i32"
    np.testing.assert_array_equal(whole, exact)


# ---- losses -------------------------------------------------------------------------


def test_reductions_are_the_same_for_every_loss():
    x, y = drawn(4, 3), drawn(4, 3)
    for loss in (nn.mse_loss, nn.l1_loss, nn.huber_loss, nn.gaussian_nll_loss):
        more = (abs(drawn(4, 3)),) if loss is nn.gaussian_nll_loss else ()
        each = np.asarray(loss(x, y, *more))
        close(loss(x, y, *more, reduction="sum"), each.sum(), 1e-4)
        close(loss(x, y, *more, reduction="mean"), each.mean())


def test_ignored_and_weighted_labels_count_in_the_mean():
    logits, labels = drawn(3, 4), np.array([1, 3, 1], "i4")
    weights = np.array([1, 2, 3, 4], "f4")
    each = np.asarray(nn.cross_entropy(logits, labels))
    options = {"weights": weights, "ignore_index": 3}
    close(nn.cross_entropy(logits, labels, **options), each * [2, 0, 2])
    mean = nn.cross_entropy(logits, labels, **options, reduction="mean")
    close(mean, (each[0] + each[2]) / 2)


def test_margins_and_distances_are_what_they_say():
    x, y, signs = drawn(5, 4), drawn(5, 4), np.sign(drawn(5, 4))
    close(nn.hinge_loss(x, signs), np.maximum(0, 1 - x * signs))
    close(nn.soft_margin_loss(x, signs), np.log1p(np.exp(-x * signs)))
    ranked = nn.margin_ranking_loss(x, y, signs, margin=0.3)
    close(ranked, np.maximum(0, 0.3 - signs * (x - y)))
    apart = np.where(signs > 0, x, np.maximum(0, 2 - x))
    close(nn.hinge_embedding_loss(x, signs, margin=2.0), apart)
    close(nn.pairwise_distance(x, y), np.sqrt(np.square(x - y + 1e-6).sum(-1)))
    near, far = (np.asarray(nn.pairwise_distance(x, z)) for z in (y, signs))
    triplet = nn.triplet_margin_loss(x, y, signs, margin=0.5)
    close(triplet, np.maximum(0, near - far + 0.5))


def test_losses_stay_finite_with_their_gradients():
    logits = np.array([-1e4, 0, 1e4], "f4")
    hot = np.array([1, 1, 0], "f4")
    for loss in (nn.binary_cross_entropy_with_logits, nn.focal_loss):
        assert np.isfinite(np.asarray(loss(logits, hot))).all()
        d = derivative(lambda x, loss=loss: loss(x, hot, reduction="sum"), logits)
        assert np.isfinite(d).all()
    p = np.array([0, 1, 0.5], "f4")
    assert nn.binary_cross_entropy(p, p).tolist()[:2] == [0, 0]
    d = derivative(lambda p: nn.binary_cross_entropy(p, 1 - hot, reduction="sum"), p)
    assert np.isfinite(d).all()


# ---- what is refused ----------------------------------------------------------------

IMAGE, SEQUENCE = drawn(1, 4, 4, 4), drawn(1, 3, 2, 4)
REFUSED = [
    ("bad-groups", lambda: nn.group_norm(IMAGE, 3)),
    ("bad-groups", lambda: nn.conv_general_dilated(
        IMAGE, drawn(1, 1, 4, 4), batch_group_count=2)),
    ("shape-mismatch", lambda: nn.conv(IMAGE, drawn(1, 1, 4, 4), groups=0)),
    ("shape-mismatch", lambda: nn.conv(IMAGE[0], drawn(1, 1, 4, 4))),
    ("bad-window", lambda: nn.conv(IMAGE, drawn(1, 1, 4, 4), strides=0)),
    ("bad-padding", lambda: nn.conv_transpose(
        IMAGE, drawn(1, 1, 4, 4), output_padding=-1)),
    ("bad-window", lambda: nn.max_pool(IMAGE, -2)),
    ("shape-mismatch", lambda: nn.adaptive_avg_pool(IMAGE, (2, 2, 2))),
    ("bad-window", lambda: nn.lp_pool(IMAGE, 0, 2)),
    ("bad-size", lambda: nn.resize(IMAGE)),
    ("bad-size", lambda: nn.resize(IMAGE, (0, 3))),
    ("bad-method", lambda: nn.resize(IMAGE, 2, "lanczos")),
    ("bad-coordinates", lambda: nn.resize(IMAGE, 2, coordinates="corner")),
    ("shape-mismatch", lambda: nn.depth_to_space(IMAGE, 3)),
    ("shape-mismatch", lambda: nn.grid_sample(IMAGE, IMAGE)),
    ("shape-mismatch", lambda: nn.layer_norm(IMAGE, drawn(3))),
    ("bad-axis", lambda: nn.layer_norm(IMAGE, axes=5)),
    ("shape-mismatch", lambda: nn.batch_norm(IMAGE, drawn(4), drawn(3))),
    ("shape-mismatch", lambda: nn.attention(IMAGE, IMAGE, SEQUENCE)),
    ("shape-mismatch", lambda: nn.attention(SEQUENCE[0], SEQUENCE, SEQUENCE)),
    ("dtype-mismatch", lambda: nn.attention(SEQUENCE, SEQUENCE, SEQUENCE, drawn(3))),
    ("shape-mismatch", lambda: nn.attention(
        SEQUENCE, SEQUENCE, SEQUENCE, bias=drawn(5, 3))),
    ("shape-mismatch", lambda: nn.rotary_embedding(SEQUENCE[..., :3])),
    ("bad-reduction", lambda: nn.mse_loss(IMAGE, IMAGE, reduction="total")),
    ("shape-mismatch", lambda: nn.mse_loss(drawn(4, 1), drawn(4))),
    ("bad-rate", lambda: nn.cross_entropy(drawn(2, 3), [0, 1], label_smoothing=2)),
    ("shape-mismatch", lambda: nn.nll_loss(drawn(2, 3), [0, 1], weights=drawn(2))),
    ("dtype-mismatch", lambda: nn.quantize(IMAGE, 1.0, dtype="i32")),
    ("shape-mismatch", lambda: nn.quantize(IMAGE, drawn(3))),
    ("shape-mismatch", lambda: nn.quantize(IMAGE, IMAGE, axis=1, block=2)),
    ("bad-count", lambda: nn.quantize(IMAGE, IMAGE, axis=1, block=0)),
    ("shape-mismatch", lambda: nn.lstm_cell(
        drawn(2, 3), drawn(2, 4), drawn(2, 4), drawn(3, 16), drawn(4, 12))),
]  # fmt: skip


@pytest.mark.parametrize(("code", "call"), REFUSED)
def test_what_makes_no_sense_is_refused_at_the_users_line(code, call):
    with pytest.raises(InputError) as caught:
        call()
    assert caught.value.code == code, caught.value
    assert caught.value.where.startswith("test_nn_values.py:")
