"""Layers over symbolic sizes: traced, differentiated and compiled, and the same."""

from itertools import product

import iree.runtime as iree
import numpy as np
import pytest

import aotc
import aotc.numpy as anp
from aotc import nn, random, reference
from aotc.backend import compile_targets
from aotc.errors import InputError
from aotc.machine.target import Target
from aotc.passes import run_passes
from aotc.tracing.assembly import trace

KERNEL = np.linspace(-1, 1, 3 * 3 * 2 * 6).reshape(3, 3, 2, 6).astype("f4")
LINE = np.linspace(0.5, 2, 4).astype("f4")


def kernel(x):
    """3, 3, 2, 6 in the dtype of x."""
    return anp.asarray(KERNEL, x.dtype)


def line(x):
    """One number for each of 4 channels."""
    return anp.asarray(LINE, x.dtype)


def gates(x, count):
    """Kernels of recurrent layers from 8 to 2 units."""
    shapes = [(8, 2 * count), (2, 2 * count)]
    return [
        anp.reshape(anp.linspace(-1, 1, a * b, dtype=x.dtype), (a, b))
        for a, b in shapes
    ]


# Functions of an image f32[n, h, w, 4], at least 4×4.
IMAGES = {
    "same": lambda x: nn.conv(x, kernel(x), padding="SAME", strides=2, groups=2),
    "lower": lambda x: nn.conv(x, kernel(x), padding="SAME_LOWER", strides=2, groups=2),
    "transposed": lambda x: nn.conv_transpose(
        x, kernel(x), strides=2, padding="SAME", groups=2
    ),
    "cut": lambda x: nn.conv_transpose(
        x, kernel(x), strides=2, padding=1, output_padding=1, groups=2
    ),
    "dilated": lambda x: nn.conv_general_dilated(
        x, kernel(x), 1, [(1, -1), (2, 0)], 2, 1, feature_group_count=2
    ),
    "max": lambda x: nn.max_pool(x, 2, 2, "SAME", dilation=1),
    "average": lambda x: nn.avg_pool(x, 3, 2, 1),
    "average of zeros too": lambda x: nn.avg_pool(x, 3, 2, 1, count_include_pad=True),
    "norm pool": lambda x: nn.lp_pool(x, 2, 2),
    "global": lambda x: (nn.global_avg_pool(x), nn.global_max_pool(x, keepdims=True)),
    "nearest": lambda x: nn.resize(x, method="nearest", scale=2),
    "shuffled": lambda x: nn.pixel_unshuffle(nn.pixel_shuffle(x, 2), 2),
    "sampled": lambda x: nn.grid_sample(x, anp.tanh(x[..., :2]), padding="border"),
    "group norm": lambda x: nn.group_norm(x, 2, line(x), line(x)),
    "instance norm": lambda x: nn.instance_norm(x, line(x)),
    "batch norm": lambda x: nn.batch_norm_training(
        x, line(x), line(x), line(x), line(x)
    )[0],
    "response": lambda x: nn.local_response_norm(x, 3, 0.1),
    "unit": nn.l2_normalize,
    "fake": lambda x: nn.fake_quantize(x, 0.05, 3),
}


def _heads(s, heads=4):
    return anp.reshape(s, (*s.shape[:2], heads, 2))


# Functions of a sequence f32[n, l, 8].
SEQUENCES = {
    "attention": lambda s: nn.attention(_heads(s), _heads(s), _heads(anp.sin(s))),
    "causal groups": lambda s: nn.attention(
        _heads(s), _heads(s)[:, :, :2], _heads(s)[:, :, 2:], causal=True
    ),
    "masked": lambda s: nn.attention(
        _heads(s), _heads(s), _heads(s), mask=(s[:, :, 0] > 0)[:, None, None]
    ),
    "rotary": lambda s: nn.rotary_embedding(_heads(s)),
    "rms norm": lambda s: nn.rms_norm(s, anp.ones(8, s.dtype)),
    "layer norm": lambda s: nn.layer_norm(s, axes=(1, 2)),
    "masked softmax": lambda s: nn.softmax(s, where=s > 0),
    "loss": lambda s: nn.cross_entropy(
        s, anp.argmax(s, -1), label_smoothing=0.1, ignore_index=2, reduction="mean"
    ),
    "lstm": lambda s: nn.lstm(anp.swapaxes(s, 0, 1), *gates(s, 4), reverse=True)[0],
    "gru": lambda s: nn.gru(anp.swapaxes(s, 0, 1), *gates(s, 3))[0],
    "experts": lambda s: nn.mixture_of_experts(
        anp.tanh, s, s[..., :3], k=2, capacity=2
    )[0],
    "ragged": lambda s: nn.ragged_dot(
        anp.reshape(s, (-1, 8)), anp.reshape(gates(s, 3)[0], (3, 8, 2)), [2, 0, 3]
    ),
    "focal": lambda s: nn.focal_loss(s, nn.sigmoid(s), reduction="sum"),
}


def _leaves(result):
    return list(result) if isinstance(result, (tuple, list)) else [result]


def _total(function, x):
    """A sum that gives every element another weight."""
    x = anp.asarray(x)
    return sum(anp.sum(anp.sin(y) + y * y) for y in _leaves(function(x)))


def _gradient(function):
    return aotc.grad(lambda x: _total(function, x))


LAYERS = {**IMAGES, **SEQUENCES}


def _traced(differentiated):
    """One entry with the values of all layers, and the gradients of some."""
    h, w = aotc.Dim("h", min=4), aotc.Dim("w", min=4)
    images, rows = aotc.Spec(("n", h, w, 4)), aotc.Spec(("n", "l", 8))

    @aotc.entry(x=images, s=rows)
    def entry(x, s):
        given = {name: x if name in IMAGES else s for name in LAYERS}
        values = [y for name, f in LAYERS.items() for y in _leaves(f(given[name]))]
        return values, [_gradient(LAYERS[n])(given[n]) for n in differentiated]

    program = trace([entry], {})
    run_passes(program.module, ["autodiff", "inline"])
    return program


@pytest.fixture(scope="module")
def program():
    """All values and gradients."""
    return _traced(LAYERS)


@pytest.fixture
def inputs():
    """Two images, two sequences."""
    rng = np.random.default_rng(0)
    shapes = [(2, 6, 5, 4), (2, 3, 8)]
    return [rng.normal(size=shape).astype("f4") for shape in shapes]


def test_layers_over_symbolic_sizes_compute_what_they_compute_at_once(program, inputs):
    found = reference.evaluate(program.module, "entry", inputs)
    x, s = map(anp.asarray, inputs)
    values = [
        y for name, f in LAYERS.items() for y in _leaves(f(x if name in IMAGES else s))
    ]
    for ours, at_once in zip(found, values, strict=False):
        np.testing.assert_allclose(ours, np.asarray(at_once), 1e-5, 1e-6)


def test_gradients_of_layers_are_their_slopes(program, inputs):
    # along one direction; "fake" and "nearest" pixels have steps
    found = reference.evaluate(program.module, "entry", inputs)
    gradients = dict(zip(LAYERS, found[-len(LAYERS) :], strict=True))
    rng = np.random.default_rng(1)
    for name, function in LAYERS.items():
        if name in ("fake", "loss", "masked softmax", "masked"):
            continue
        x = inputs[name in SEQUENCES].astype("f8")
        step = 1e-5 * rng.normal(size=x.shape)

        slope = (_total(function, x + step) - _total(function, x - step)) / 2
        expected = np.vdot(gradients[name].astype("f8"), step)
        slope = np.asarray(slope)
        np.testing.assert_allclose(slope, expected, 2e-3, 1e-8, err_msg=name)


def test_compiled_layers_equal_their_reference(inputs):
    program = _traced(["same", "max", "group norm", "causal groups"])
    expected = reference.evaluate(program.module, "entry", inputs)
    passes = ["decompose", "simplify", "cse", "lower-to-linalg", "control-to-blocks"]
    run_passes(program.module, passes)
    (compiled,) = compile_targets(program, [Target.parse("cpu")])
    config = iree.Config("local-sync")
    vmfb = iree.VmModule.copy_buffer(config.vm_instance, compiled.vmfb)
    results = iree.load_vm_module(vmfb, config).entry(*inputs)
    for ours, wanted in zip(results, expected, strict=True):
        np.testing.assert_allclose(np.asarray(ours), wanted, rtol=2e-4, atol=2e-5)


def last_windows(size, window, stride, pad):
    """The maxima of a row of -1, -2, …, with the windows that start within it."""
    row = np.concatenate([np.full(pad, -np.inf), -1.0 - np.arange(size)])
    starts = range(0, size + 2 * pad - window + stride, stride)
    return [row[n : n + window].max() for n in starts if n < size + pad]


def test_the_last_windows_of_symbolic_images_are_those_that_start_inside():
    forms = [
        (window, stride, pad)
        for window, stride in product((1, 2, 3, 4), (1, 2, 3, 5))
        for pad in range(window // 2 + 1)
    ]

    @aotc.entry(x=aotc.Spec((1, aotc.Dim("h", min=4), 1)))
    def entry(x):
        return [nn.max_pool(x, w, s, [(p, p)], ceil_mode=True) for w, s, p in forms]

    module = trace([entry], {}).module
    for size in range(4, 12):
        row = -1.0 - np.arange(size, dtype="f4")
        found = reference.evaluate(module, "entry", [row.reshape(1, size, 1)])
        for form, ours in zip(forms, found, strict=True):
            assert ours.ravel().tolist() == last_windows(size, *form), (size, form)


def test_a_symbolic_image_without_a_provable_padding_is_refused():
    @aotc.entry(x=aotc.Spec((1, "h", "w", 4)))
    def entry(x):
        return nn.conv(x, KERNEL[:1, :1], padding="SAME", strides=3, groups=2)

    with pytest.raises(InputError, match="fixed size; got h") as caught:
        trace([entry], {})
    assert caught.value.where.startswith("test_nn_traced.py:")


def test_gumbel_softmax_is_a_point_of_the_simplex_with_a_derivative():
    logits = np.zeros((200, 4), "f4") + np.array([0, 1, 2, 3], "f4")
    soft = np.asarray(nn.gumbel_softmax(random.key(0), logits, 0.5))
    hard = np.asarray(nn.gumbel_softmax(random.key(0), logits, 0.5, hard=True))
    np.testing.assert_allclose(soft.sum(-1), 1, rtol=1e-5)
    np.testing.assert_allclose(hard, np.eye(4)[soft.argmax(-1)], atol=1e-6)
    shares = np.exp(range(4)) / np.exp(range(4)).sum()
    np.testing.assert_allclose(hard.mean(0), shares, atol=0.1)
