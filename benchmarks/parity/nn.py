"""aotc.nn against PyTorch, JAX and Optax, on many settings.

Both sides get the same random f32 arrays.
"""

import itertools
from collections.abc import Iterator

import jax
import numpy as np
import optax
import torch
import torch.nn.functional as F  # noqa: N812 - its usual name

from aotc import nn
from benchmarks.parity.agreement import Compared

rng = np.random.default_rng(0)
t = torch.from_numpy


def drawn(*shape):
    """Return random normal f32 numbers."""
    return rng.normal(size=shape).astype("f4")


def first(x):
    """Move channels to PyTorch's place: N, spatial…, C → N, C, spatial…."""
    return t(np.moveaxis(x, -1, 1).copy())


def last(y):
    """Move channels last and convert to NumPy; the inverse of `first`."""
    return np.moveaxis(y.detach().numpy(), 1, -1)


def torch_kernel(kernel):
    """Transpose a kernel to PyTorch's layout: spatial…, C / groups, F → F, C / groups,
    ….
    """
    return t(np.moveaxis(kernel, (-1, -2), (0, 1)).copy())


# ---- each yields (name, ours, theirs) -----------------------------------------------


def convolutions():
    """Yield convolutions beside both peers."""
    torch_convs = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
    for rank, s, p, d, groups in itertools.product(
        (1, 2, 3), (1, 2), (0, 1), (1, 2), (1, 2, 4)
    ):
        x, k = drawn(2, *(7, 6, 5)[:rank], 4), drawn(*(3, 2, 2)[:rank], 4 // groups, 8)
        ours = nn.conv(x, k, strides=s, padding=p, dilation=d, groups=groups)
        theirs = torch_convs[rank](first(x), torch_kernel(k), None, s, p, d, groups)
        yield "conv", ours, last(theirs)
    numbers = {1: ("NWC", "WIO"), 2: ("NHWC", "HWIO")}
    for rank, s, pad, spread, d, counts in itertools.product(
        (1, 2), (1, 2), ("SAME", "VALID", "pairs"), (1, 2), (1, 2),
        ((1, 1), (2, 1), (1, 2)),
    ):  # fmt: skip
        features, batches = counts
        if pad != "pairs" and spread != 1:
            continue  # which JAX refuses
        x, k = drawn(2, *(7, 6)[:rank], 4), drawn(*(3, 2)[:rank], 4 // features, 4)
        padding = [(1, 2), (2, -1)][:rank] if pad == "pairs" else pad
        options = {"feature_group_count": features, "batch_group_count": batches}
        dims = (numbers[rank][0], numbers[rank][1], numbers[rank][0])
        theirs = jax.lax.conv_general_dilated(
            x, k, (s,) * rank, padding, (spread,) * rank, (d,) * rank, dims, **options
        )
        ours = nn.conv_general_dilated(x, k, s, padding, spread, d, **options)
        yield "conv_general_dilated", ours, theirs


def transposed_convolutions():
    """Yield transposed convolutions beside PyTorch's or JAX's."""
    convs = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}
    for rank, s, p, more, d, groups in itertools.product(
        (1, 2, 3), (1, 2, 3), (0, 1), (0, 1), (1, 2), (1, 2)
    ):
        if more >= max(s, d):
            continue
        x, k = drawn(2, *(4, 5, 3)[:rank], 4), drawn(*(3, 2, 2)[:rank], 4 // groups, 6)
        # PyTorch's kernel is C, F / groups, spatial…
        own = k.reshape(*k.shape[:-1], groups, -1)
        own = np.moveaxis(own, -2, -3).reshape(*k.shape[:-2], 4, 6 // groups)
        weight = t(np.moveaxis(own, (-2, -1), (0, 1)).copy())
        theirs = convs[rank](first(x), weight, None, s, p, more, groups, d)
        ours = nn.conv_transpose(
            x, k, strides=s, padding=p, output_padding=more, dilation=d, groups=groups
        )
        yield "conv_transpose", ours, last(theirs)
    for s, pad, window in itertools.product((1, 2, 3), ("SAME", "VALID"), (3, 4)):
        x, k = drawn(2, 5, 4, 3), drawn(window, window, 3, 4)
        theirs = jax.lax.conv_transpose(x, k[::-1, ::-1], (s, s), pad)
        yield "conv_transpose", nn.conv_transpose(x, k, strides=s, padding=pad), theirs


def pools():
    """Yield poolings beside PyTorch's."""
    most = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}
    means = {1: F.avg_pool1d, 2: F.avg_pool2d, 3: F.avg_pool3d}
    for rank, w, s, p, ceil in itertools.product(
        (1, 2, 3), (2, 3), (1, 2, 3), (0, 1), (False, True)
    ):
        x = drawn(2, *(7, 8, 6)[:rank], 3)
        for d in (1, 2):
            theirs = most[rank](first(x), w, s, p, d, ceil)
            ours = nn.max_pool(x, w, s, p, dilation=d, ceil_mode=ceil)
            yield "max_pool", ours, last(theirs)
        for include in (False, True):
            theirs = means[rank](first(x), w, s, p, ceil, include)
            ours = nn.avg_pool(x, w, s, p, ceil_mode=ceil, count_include_pad=include)
            yield "avg_pool", ours, last(theirs)
        if rank < 3 and not p:
            norm = (F.lp_pool1d, F.lp_pool2d)[rank - 1]
            x = abs(x)
            yield "lp_pool", nn.lp_pool(x, 3.0, w, s), last(norm(first(x), 3.0, w, s))
    for size in ((1, 1), (2, 3), (7, 8), (5, 4)):
        x = drawn(2, 7, 8, 3)
        theirs = last(F.adaptive_avg_pool2d(first(x), size))
        yield "adaptive_avg_pool", nn.adaptive_avg_pool(x, size), theirs
        theirs = last(F.adaptive_max_pool2d(first(x), size))
        yield "adaptive_max_pool", nn.adaptive_max_pool(x, size), theirs


def resizes():
    """Yield resizes beside PyTorch's and JAX's."""
    modes = {"linear": "bilinear", "cubic": "bicubic"}
    for method, size, corners in itertools.product(
        modes, ((10, 14), (3, 4), (1, 2), (5, 7), (13, 3)), (False, True)
    ):
        x = drawn(2, 5, 7, 3)
        theirs = F.interpolate(
            first(x), size, mode=modes[method], align_corners=corners
        )
        how = "align_corners" if corners else "half_pixel"
        yield "resize", nn.resize(x, size, method, coordinates=how), last(theirs)
    for size in ((10, 14), (3, 4), (1, 2), (13, 3)):
        x = drawn(2, 5, 7, 3)
        shape = (2, *size, 3)
        for method, anti in itertools.product(("linear", "cubic"), (False, True)):
            if method == "cubic" and not anti:
                continue
            theirs = jax.image.resize(x, shape, method, antialias=anti)
            ours = nn.resize(x, size, method, antialias=anti, cubic=-0.5)
            yield "resize", ours, theirs
        yield (
            "resize",
            nn.resize(x, size, "nearest"),
            jax.image.resize(x, shape, "nearest"),
        )
        for mode, how in (("nearest", "asymmetric"), ("nearest-exact", "half_pixel")):
            theirs = F.interpolate(first(x), size, mode=mode)
            yield "resize", nn.resize(x, size, "nearest", coordinates=how), last(theirs)
    for scale in (0.6, 1.5, 2.0, 3.0):
        theirs = F.interpolate(first(x), scale_factor=scale, mode="bilinear")
        yield "resize", nn.resize(x, scale=scale), last(theirs)
    for factor in (2, 3):
        x = drawn(2, 6, 6, 2 * factor**2)
        theirs = last(F.pixel_shuffle(first(x), factor))
        yield "pixel_shuffle", nn.pixel_shuffle(x, factor), theirs
        theirs = last(F.pixel_unshuffle(first(x), factor))
        yield "pixel_unshuffle", nn.pixel_unshuffle(x, factor), theirs
    for method, padding, corners in itertools.product(
        ("linear", "nearest"), ("zeros", "border"), (False, True)
    ):
        x, grid = drawn(2, 5, 6, 3), 0.7 * drawn(2, 4, 3, 2)
        mode = {"linear": "bilinear"}.get(method, method)
        theirs = F.grid_sample(first(x), t(grid), mode, padding, corners)
        ours = nn.grid_sample(x, grid, method, padding, align_corners=corners)
        yield "grid_sample", ours, last(theirs)


def normalizations():
    """Yield norms and softmaxes beside the peers'."""
    for channels, groups in ((4, 2), (6, 3), (6, 1)):
        x, s, b = drawn(3, 5, 4, channels), drawn(channels), drawn(channels)
        scale, bias = t(s), t(b)
        for axes in (1, 2, 3):
            shape = x.shape[-axes:]
            s2, b2 = drawn(*shape), drawn(*shape)
            theirs = F.layer_norm(t(x), shape, t(s2), t(b2)).numpy()
            ours = nn.layer_norm(x, s2, b2, axes=range(-axes, 0))
            yield "layer_norm", ours, theirs
            theirs = F.rms_norm(t(x), shape, t(s2), 1e-3).numpy()
            yield "rms_norm", nn.rms_norm(x, s2, 1e-3, axes=range(-axes, 0)), theirs
        theirs = last(F.group_norm(first(x), groups, scale, bias))
        yield "group_norm", nn.group_norm(x, groups, s, b), theirs
        theirs = last(F.instance_norm(first(x), weight=scale, bias=bias))
        yield "instance_norm", nn.instance_norm(x, s, b), theirs
        mean, var = drawn(channels), abs(drawn(channels)) + 0.1
        theirs = last(F.batch_norm(first(x), t(mean), t(var), scale, bias))
        yield "batch_norm", nn.batch_norm(x, mean, var, s, b), theirs
        running = [t(mean.copy()), t(var.copy())]
        theirs = F.batch_norm(first(x), *running, scale, bias, True, 0.1)
        ours = nn.batch_norm_training(x, mean, var, s, b, momentum=0.9)
        yield "batch_norm_training", ours[0], last(theirs)
        yield "batch_norm_training", ours[1], running[0].numpy()
        for size in (1, 2, 3, 5):
            theirs = last(F.local_response_norm(first(x), size, 0.3, 0.75, 2.0))
            ours = nn.local_response_norm(x, size, 0.3, 0.75, 2.0)
            yield "local_response_norm", ours, theirs
        for axis in (0, -1):
            yield "l2_normalize", nn.l2_normalize(x, axis), F.normalize(t(x), dim=axis)
            yield "softmax", nn.softmax(x, axis), F.softmax(t(x), axis)
            yield "log_softmax", nn.log_softmax(x, axis), F.log_softmax(t(x), axis)
            yield "softmin", nn.softmin(x, axis), F.softmin(t(x), axis)
            where = rng.random(x.shape) < 0.7
            where[:1] = where[..., :1] = True
            theirs = jax.nn.softmax(x, axis, where=where)
            yield "softmax", nn.softmax(x, axis, where), theirs


REDUCTIONS = ("none", "mean", "sum")


def class_losses():
    """Yield classification losses beside the peers'."""
    for how, smooth in itertools.product(REDUCTIONS, (0.0, 0.1)):
        x, y = drawn(6, 5), rng.integers(0, 5, 6)
        y[2] = 3
        w, p = abs(drawn(5)), jax.nn.softmax(drawn(6, 5))
        labels = y.astype("i4")
        for weights, ignore in itertools.product((None, w), (None, 3)):
            theirs = F.cross_entropy(
                t(x), t(y), None if weights is None else t(weights),
                ignore_index=-100 if ignore is None else ignore,
                reduction=how, label_smoothing=smooth,
            )  # fmt: skip
            ours = nn.cross_entropy(
                x, labels, weights=weights, ignore_index=ignore,
                label_smoothing=smooth, reduction=how,
            )  # fmt: skip
            yield "cross_entropy", ours, theirs
            if not smooth:
                logs = F.log_softmax(t(x), -1)
                theirs = F.nll_loss(
                    logs, t(y), None if weights is None else t(weights),
                    ignore_index=-100 if ignore is None else ignore, reduction=how,
                )  # fmt: skip
                ours = nn.nll_loss(
                    logs.numpy(), labels, weights=weights, ignore_index=ignore,
                    reduction=how,
                )  # fmt: skip
                yield "nll_loss", ours, theirs
        probabilities = np.array(p)
        theirs = F.cross_entropy(
            t(x), t(probabilities), t(w), reduction=how, label_smoothing=smooth
        )
        ours = nn.cross_entropy(
            x, probabilities, weights=w, label_smoothing=smooth, reduction=how
        )
        yield "cross_entropy", ours, theirs


def losses():
    """Yield other losses beside the peers'."""
    for how in REDUCTIONS:
        x, y = 2 * drawn(6, 5), drawn(6, 5)
        p, hot = 1 / (1 + np.exp(-x)), (rng.random((6, 5)) < 0.5).astype("f4")
        o, k = (t(x), t(y)), {"reduction": how}
        yield "mse_loss", nn.mse_loss(x, y, **k), F.mse_loss(*o, **k)
        yield "l1_loss", nn.l1_loss(x, y, **k), F.l1_loss(*o, **k)
        for width in (0.5, 2.0):
            theirs = F.huber_loss(*o, delta=width, **k)
            yield "huber_loss", nn.huber_loss(x, y, delta=width, **k), theirs
            theirs = F.smooth_l1_loss(*o, beta=width, **k)
            yield "smooth_l1_loss", nn.smooth_l1_loss(x, y, beta=width, **k), theirs
        theirs = F.binary_cross_entropy(t(p), t(hot), **k)
        yield "binary_cross_entropy", nn.binary_cross_entropy(p, hot, **k), theirs
        for weight in (None, drawn(5) ** 2):
            theirs = F.binary_cross_entropy_with_logits(
                t(x), t(hot), pos_weight=None if weight is None else t(weight), **k
            )
            ours = nn.binary_cross_entropy_with_logits(
                x, hot, positive_weight=weight, **k
            )
            yield "binary_cross_entropy_with_logits", ours, theirs
        logs, q = np.log(p), abs(y) / 3
        theirs = F.kl_div(t(logs), t(q), **k)
        yield "kl_divergence", nn.kl_divergence(logs, q, **k), theirs
        theirs = F.kl_div(t(logs), t(y), log_target=True, **k)
        yield "kl_divergence", nn.kl_divergence(logs, y, log_targets=True, **k), theirs
        for given, log_input in ((x, True), (p, False)):
            theirs = F.poisson_nll_loss(t(given), t(q), log_input, **k)
            ours = nn.poisson_nll_loss(given, q, log_input=log_input, **k)
            yield "poisson_nll_loss", ours, theirs
        for full in (False, True):
            theirs = F.gaussian_nll_loss(*o, t(p), full, **k)
            ours = nn.gaussian_nll_loss(x, y, p, full=full, **k)
            yield "gaussian_nll_loss", ours, theirs
        sign = 2 * hot[:, 0] - 1
        theirs = F.cosine_embedding_loss(*o, t(sign), 0.1, **k)
        ours = nn.cosine_embedding_loss(x, y, sign, margin=0.1, **k)
        yield "cosine_embedding_loss", ours, theirs
        z = drawn(6, 5)
        theirs = F.triplet_margin_loss(*o, t(z), 0.7, **k)
        ours = nn.triplet_margin_loss(x, y, z, margin=0.7, **k)
        yield "triplet_margin_loss", ours, theirs
    for alpha, gamma in itertools.product((None, 0.25), (0.0, 1.0, 2.0)):
        theirs = optax.losses.sigmoid_focal_loss(x, hot, alpha=alpha, gamma=gamma)
        yield "focal_loss", nn.focal_loss(x, hot, alpha=alpha, gamma=gamma), theirs
    sign = 2 * hot - 1
    yield "hinge_loss", nn.hinge_loss(x, sign), optax.losses.hinge_loss(x, sign)
    for axis in (0, -1):
        theirs = F.cosine_similarity(*o, axis)
        yield "cosine_similarity", nn.cosine_similarity(x, y, axis), theirs


def attentions():
    """Yield attention beside both peers'."""
    for heads, causal, masked, biased in itertools.product(
        (1, 2, 4), (False, True), (False, True), (False, True)
    ):
        q, k, v = drawn(2, 5, 4, 8), drawn(2, 5, heads, 8), drawn(2, 5, heads, 8)
        mask = rng.random((2, 1, 5, 5)) < 0.6 if masked else None
        if masked:
            mask |= np.eye(5, dtype=bool)
        bias = drawn(1, 4, 5, 5) if biased else None
        theirs = jax.nn.dot_product_attention(
            q, k, v, bias=bias, mask=mask, is_causal=causal
        )
        yield "attention", nn.attention(q, k, v, mask, bias, causal), theirs
        theirs = F.scaled_dot_product_attention(
            *(t(np.swapaxes(a, 1, 2).copy()) for a in (q, k, v)),
            attn_mask=None if bias is None else t(bias),
            is_causal=causal and bias is None,
            enable_gqa=True,
        ).numpy()
        seen = causal and bias is None
        ours = nn.attention(q, k, v, None, bias, seen)
        yield "attention", ours, np.swapaxes(theirs, 1, 2)
    for heads in (1, 2, 4):
        theirs = torch.nn.MultiheadAttention(8, heads, batch_first=True)
        x, context = drawn(2, 5, 8), drawn(2, 3, 8)
        kernels = theirs.in_proj_weight.detach().numpy().T.reshape(8, 3, heads, -1)
        bias = rng.normal(size=24).astype("f4")
        theirs.in_proj_bias.data = t(bias)
        out = theirs.out_proj.weight.detach().numpy().T.reshape(heads, -1, 8)
        ours = nn.multi_head_attention(
            x, *np.moveaxis(kernels, 1, 0), out, context=context,
            biases=(*bias.reshape(3, heads, -1), theirs.out_proj.bias.detach().numpy()),
        )  # fmt: skip
        yield "multi_head_attention", ours, theirs(t(x), t(context), t(context))[0]


def cells():
    """Yield recurrent cells beside PyTorch's."""
    for inputs, units in ((3, 4), (5, 2)):
        x, h, c = drawn(2, inputs), drawn(2, units), drawn(2, units)
        for name, gates in (("RNN", 1), ("LSTM", 4), ("GRU", 3)):
            cell = getattr(torch.nn, f"{name}Cell")(inputs, units)
            w, u, b, d = (p.detach().numpy() for p in cell.parameters())
            assert len(b) == gates * units
            if name == "RNN":
                yield (
                    "simple_rnn_cell",
                    nn.simple_rnn_cell(x, h, w.T, u.T, b + d),
                    cell(t(x), t(h)),
                )
            elif name == "GRU":
                yield "gru_cell", nn.gru_cell(x, h, w.T, u.T, b, d), cell(t(x), t(h))
            else:
                ours = nn.lstm_cell(x, h, c, w.T, u.T, b + d)
                for one, other in zip(ours, cell(t(x), (t(h), t(c))), strict=True):
                    yield "lstm_cell", one, other


def recurrent_layers():
    """Yield recurrent layers beside PyTorch's, in both directions."""
    xs = drawn(5, 2, 3)
    for name, ours in (("LSTM", nn.lstm), ("GRU", nn.gru), ("RNN", nn.simple_rnn)):
        layer = getattr(torch.nn, name)(3, 4, bidirectional=True)
        parts = [p.detach().numpy() for p in layer.parameters()]
        theirs = layer(t(xs))[0]
        for reverse in (False, True):
            w, u, b, d = parts[4 * reverse : 4 * reverse + 4]
            hiddens, _ = ours(xs, w.T, u.T, b, d, reverse=reverse)
            yield ours.__name__, hiddens, theirs[..., 4 * reverse : 4 * reverse + 4]


def quantizations():
    """Yield quantised operations beside the peers'."""
    for low, high, kind, ours_kind in (
        (-128, 127, torch.qint8, "i8"), (0, 255, torch.quint8, "u8"),
    ):  # fmt: skip
        x, zero = 3 * drawn(4, 6), 3 if low else 120
        theirs = torch.quantize_per_tensor(t(x), 0.05, zero, kind)
        q = nn.quantize(x, 0.05, zero, ours_kind)
        yield "quantize", q, theirs.int_repr()
        yield "dequantize", nn.dequantize(q, 0.05, zero), theirs.dequantize()
        theirs = torch.fake_quantize_per_tensor_affine(t(x), 0.05, zero, low, high)
        yield "fake_quantize", nn.fake_quantize(x, 0.05, zero, ours_kind), theirs
        scales = (abs(drawn(6)) + 0.1) / 20
        zeros = np.full(6, zero)
        theirs = torch.quantize_per_channel(t(x), t(scales), t(zeros), 1, kind)
        q = nn.quantize(x, scales, zeros.astype("i4"), ours_kind, axis=1)
        yield "quantize", q, theirs.int_repr()
        theirs = torch.fake_quantize_per_channel_affine(
            t(x), t(scales), t(zeros.astype("i4")), 1, low, high
        )
        ours = nn.fake_quantize(x, scales, zeros.astype("i4"), ours_kind, axis=1)
        yield "fake_quantize", ours, theirs


FAMILIES = (
    convolutions, transposed_convolutions, pools, resizes, normalizations,
    class_losses, losses, attentions, cells, recurrent_layers, quantizations,
)  # fmt: skip


def compared() -> Iterator[Compared]:
    """Yield all comparisons of aotc.nn."""
    for family in FAMILIES:
        for number, (name, ours, theirs) in enumerate(family()):
            library = type(theirs).__module__.partition(".")[0]
            peer = "jax" if library.startswith("jax") else "torch"
            setting = f"{family.__name__} {number}"
            yield Compared(
                "function", f"nn.{name}", setting, peer, "network", ours, theirs
            )
