"""Layers compute their textbook formulas, written out here in NumPy."""

import itertools
import math

import numpy as np
import pytest

import aotc.numpy as anp
from aotc import nn, random
from aotc.errors import InputError
from tests.refusals import refused_here

rng = np.random.default_rng(0)


def drawn(*shape):
    """Standard normal f32."""
    return rng.normal(size=shape).astype("f4")


def close(ours, theirs, tolerance=1e-5):
    """Equal shapes, f32, nearly equal elements."""
    assert ours.dtype == "f32"
    assert ours.shape == np.shape(theirs)
    np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance)


# ---- activations --------------------------------------------------------------------

LINE = np.array([-30, -3, -1, -0.5, 0, 0.5, 1, 3, 30], "f4")
WIDE = LINE.astype("f8")
PHI = np.array([(1 + math.erf(x / math.sqrt(2))) / 2 for x in WIDE])


def test_activations_are_their_closed_forms():
    close(nn.relu(LINE), np.maximum(WIDE, 0))
    close(nn.sigmoid(LINE), 1 / (1 + np.exp(-WIDE)))
    close(nn.silu(LINE), WIDE / (1 + np.exp(-WIDE)))
    close(nn.gelu(LINE), WIDE * PHI)
    inner = math.sqrt(2 / math.pi) * (WIDE + 0.044715 * WIDE**3)
    close(nn.gelu(LINE, approximate=True), WIDE / 2 * (1 + np.tanh(inner)))
    close(nn.stop_gradient(LINE), LINE)


def test_activations_of_integers_are_floats():
    for function in (nn.sigmoid, nn.silu, nn.gelu, nn.softmax, nn.log_softmax):
        assert function(np.arange(3)).dtype == "f32"


@pytest.mark.parametrize("axis", [0, 1, -1, -2])
def test_softmax_sums_to_one_along_its_axis(axis):
    x = 3 * drawn(4, 5)
    e = np.exp(x.astype("f8"))
    close(nn.softmax(x, axis), e / e.sum(axis, keepdims=True))
    close(nn.log_softmax(x, axis), np.log(e / e.sum(axis, keepdims=True)))


def test_softmax_survives_large_and_infinite_logits():
    x = np.array([[1e30, 0, -1e30], [0, -np.inf, 0]], "f4")
    close(nn.softmax(x), [[1, 0, 0], [0.5, 0, 0.5]])
    assert nn.log_softmax(x).tolist()[0] == [
        0,
        pytest.approx(-1e30),
        pytest.approx(-2e30),
    ]


# ---- layers -------------------------------------------------------------------------


def test_dense_works_on_the_last_axis():
    x, kernel, bias = drawn(2, 3, 4), drawn(4, 5), drawn(5)
    close(nn.dense(x, kernel, bias), np.einsum("abi,io->abo", x, kernel) + bias)
    close(nn.dense(x[0, 0], kernel), x[0, 0] @ kernel)


def test_layer_norm_centers_and_scales_the_last_axis():
    x, scale, bias = 5 + 3 * drawn(2, 3, 8), drawn(8), drawn(8)
    wide = x.astype("f8")
    centered = wide - wide.mean(-1, keepdims=True)
    for epsilon in (1e-5, 0.1):
        normal = centered / np.sqrt((centered**2).mean(-1, keepdims=True) + epsilon)
        close(nn.layer_norm(x, scale, bias, epsilon), normal * scale + bias)


def test_embedding_takes_rows_and_clips():
    table = drawn(5, 3)
    close(nn.embedding(table, [[0, 4], [2, 2]]), table[[[0, 4], [2, 2]]])
    close(nn.embedding(table, [-1, 9]), table[[0, 4]])


@pytest.mark.parametrize("dtype", ["i1", "u1", "i4", "i8"])
def test_one_hot_marks_the_class_whatever_the_integer(dtype):
    classes = np.array([[0, 2], [100, 7]], dtype)
    close(nn.one_hot(classes, 300), np.eye(300)[classes])
    assert nn.one_hot(classes, 3).tolist()[1][0] == [0, 0, 0]
    assert nn.one_hot(classes, 3, "bool").dtype == "bool"
    assert nn.one_hot(1, 2).tolist() == [0, 1]


def test_cross_entropy_is_the_surprise_at_the_label():
    logits, labels = 3 * drawn(2, 4, 5), rng.integers(0, 5, (2, 4)).astype("i4")
    wide = logits.astype("f8")
    p = np.exp(wide) / np.exp(wide).sum(-1, keepdims=True)
    close(
        nn.cross_entropy(logits, labels),
        -np.log(np.take_along_axis(p, labels[..., None], -1)[..., 0]),
    )


def test_cross_entropy_ignores_classes_at_minus_infinity():
    logits = np.array([[1.0, -np.inf, 1.0]], "f4")
    close(nn.cross_entropy(logits, [0]), [math.log(2)])


def test_cross_entropy_refuses_labels_that_would_broadcast():
    logits = drawn(4, 3)
    for labels in (np.zeros((4, 1), "i4"), np.int32(0), np.zeros(3, "i4")):
        refused_here("shape-mismatch", nn.cross_entropy, logits, labels)
    refused_here("dtype-mismatch", nn.cross_entropy, logits, np.zeros(4, "f4"))


def test_dropout_zeroes_a_share_and_scales_the_rest():
    x = np.ones((100, 1000), "f4")
    y = np.asarray(nn.dropout(random.key(0), x, 0.25))
    assert set(np.unique(y)) == {np.float32(0), np.float32(1 / 0.75)}
    assert abs((y == 0).mean() - 0.25) < 0.01
    assert abs(y.mean() - 1) < 0.01
    assert nn.dropout(random.key(0), x, 0).tolist() == x.tolist()
    again = np.asarray(nn.dropout(random.key(0), x, 0.25))
    np.testing.assert_array_equal(y, again)
    for rate in (1, -0.1, 1.5):
        refused_here("bad-rate", nn.dropout, random.key(0), x, rate)


# ---- convolution --------------------------------------------------------------------


def sides(padding, sizes, window, strides, dilation):
    """(low, high) per spatial axis."""
    if padding == "VALID":
        return [(0, 0)] * len(sizes)
    if padding != "SAME":
        pairs = [padding] * len(sizes) if isinstance(padding, int) else padding
        return [(p, p) if isinstance(p, int) else p for p in pairs]
    result = []
    for n, w, s, d in zip(sizes, window, strides, dilation, strict=True):
        total = max((math.ceil(n / s) - 1) * s + (w - 1) * d + 1 - n, 0)
        result.append((total // 2, total - total // 2))
    return result


def windows(x, window, strides, padding, dilation, value=0.0):
    """Every position and the part of x [N, …, C] that its window sees."""
    sizes = x.shape[1:-1]
    around = sides(padding, sizes, window, strides, dilation)
    x = np.pad(x, [(0, 0), *around, (0, 0)], constant_values=value)
    reach = [(w - 1) * d for w, d in zip(window, dilation, strict=True)]
    counts = [
        (n - r - 1) // s + 1
        for n, r, s in zip(x.shape[1:-1], reach, strides, strict=True)
    ]
    for place in itertools.product(*map(range, counts)):
        cut = [
            slice(p * s, p * s + r + 1, d)
            for p, s, r, d in zip(place, strides, reach, dilation, strict=True)
        ]
        yield place, x[(slice(None), *cut)]


def convolved(x, kernel, strides, padding, dilation, groups):
    """Convolution position by position, in f64."""
    *window, depth, features = kernel.shape
    results = {}
    for place, seen in windows(x, window, strides, padding, dilation):
        parts = []
        for group in range(groups):
            channels = seen[..., group * depth : (group + 1) * depth].astype("f8")
            share = features // groups
            own = kernel[..., group * share : (group + 1) * share]
            axes = list(range(len(window) + 1))
            parts.append(np.tensordot(channels, own, ([a + 1 for a in axes], axes)))
        results[place] = np.concatenate(parts, -1)
    counts = [max(p[axis] for p in results) + 1 for axis in range(len(window))]
    y = np.zeros((len(x), *counts, features))
    for place, value in results.items():
        y[(slice(None), *place)] = value
    return y


CONVOLUTIONS = [
    # spatial, window, depth, features, strides, padding, dilation, groups
    ((9,), (3,), 2, 4, 1, "VALID", 1, 1),
    ((9,), (4,), 2, 4, 2, "SAME", 1, 1),
    ((9,), (3,), 4, 6, 2, 2, 2, 2),
    ((6, 7), (3, 2), 3, 4, 1, "SAME", 1, 1),
    ((6, 7), (3, 3), 3, 4, (2, 1), "VALID", 1, 1),
    ((6, 7), (3, 3), 3, 4, 2, "SAME", 1, 1),
    ((8, 9), (2, 3), 3, 4, 1, ((1, 0), (2, 3)), (1, 2), 1),
    ((8, 9), (3, 3), 4, 4, 1, (1, (0, 2)), 2, 4),
    ((5, 5), (1, 1), 4, 2, 1, "VALID", 1, 1),
    ((5, 5), (5, 5), 4, 2, 3, "SAME", 1, 2),
    ((4, 5, 6), (2, 3, 2), 2, 4, 1, "SAME", 1, 1),
    ((4, 5, 6), (2, 2, 2), 2, 4, (1, 2, 3), 1, (2, 1, 1), 2),
]


def each(value, rank):
    """One number per axis."""
    return (value,) * rank if isinstance(value, int) else value


@pytest.mark.parametrize("case", CONVOLUTIONS, ids=str)
def test_convolutions_are_sums_over_windows(case):
    spatial, window, depth, features, strides, padding, dilation, groups = case
    x, kernel, bias = (
        drawn(2, *spatial, depth), drawn(*window, depth // groups, features),
        drawn(features),
    )  # fmt: skip
    rank = len(spatial)
    conv = (nn.conv1d, nn.conv2d, nn.conv3d)[rank - 1]
    options = {"strides": strides, "padding": padding, "dilation": dilation}
    expected = convolved(
        x, kernel, each(strides, rank), padding, each(dilation, rank), groups
    )
    close(conv(x, kernel, **options, groups=groups), expected, 1e-4)
    close(conv(x, kernel, bias, **options, groups=groups), expected + bias, 1e-4)


POOLS = [
    ((8,), 2, None, "VALID"),
    ((6, 7), 2, None, "VALID"),
    ((6, 7), (3, 2), 1, "SAME"),
    ((7, 7), 3, 2, "SAME"),
    ((6, 7), 3, 2, 1),
    ((4, 5, 6), 2, (2, 1, 2), ((0, 1), (1, 0), 1)),
]


@pytest.mark.parametrize("case", POOLS, ids=str)
def test_pools_reduce_windows_and_padding_does_not_count(case):
    spatial, window, strides, padding = case
    rank = len(spatial)
    x = drawn(2, *spatial, 3)
    sizes = each(window, rank)
    steps = sizes if strides is None else each(strides, rank)
    most, mean = (
        {
            place: reduce(seen, tuple(range(1, rank + 1)))
            for place, seen in windows(x, sizes, steps, padding, (1,) * rank, np.nan)
        }
        for reduce in (np.nanmax, np.nanmean)
    )
    largest, average = (
        np.asarray(pool(x, window, strides, padding))
        for pool in (nn.max_pool, nn.avg_pool)
    )
    assert largest[0, ..., 0].size == average[0, ..., 0].size == len(most)
    for place, value in most.items():
        np.testing.assert_array_equal(largest[(slice(None), *place)], value)
        np.testing.assert_allclose(
            average[(slice(None), *place)], mean[place], rtol=1e-5, atol=1e-6
        )


def test_windows_that_do_not_fit_the_image_are_refused():
    x, kernel = drawn(1, 6, 6, 3), drawn(3, 3, 3, 4)
    refused_here("bad-padding", nn.conv2d, x, kernel, padding="FULL")
    refused_here("bad-padding", nn.conv2d, x, kernel, padding=(1, 2, 3))
    refused_here("bad-padding", nn.conv2d, x, kernel, padding=((1, 2, 3), 1))
    refused_here("shape-mismatch", nn.conv2d, x, kernel, strides=(1, 2, 3))
    refused_here("shape-mismatch", nn.max_pool, x, (2, 2, 2))
    refused_here("shape-mismatch", nn.conv2d, x, drawn(3, 3, 2, 4))
    refused_here("dtype-mismatch", nn.conv2d, x, kernel.astype("f8"))


def test_an_image_without_a_batch_is_refused():
    with pytest.raises(InputError):
        nn.conv2d(drawn(6, 6, 3), drawn(3, 3, 3, 4))


def test_layers_work_on_lists_and_numbers():
    assert nn.relu([-1.0, 2.0]).tolist() == [0, 2]
    assert nn.relu(-3).item() == 0
    assert anp.asarray(nn.softmax([0.0, 0.0])).tolist() == [0.5, 0.5]
