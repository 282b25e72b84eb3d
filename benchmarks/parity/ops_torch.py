"""Ops as PyTorch says them: of the op's operands and attributes."""

import torch
import torch.nn.functional as F  # noqa: N812 - its usual name

DTYPES = {
    "bool": torch.bool, "bf16": torch.bfloat16, "f16": torch.float16,
    "f32": torch.float32, "f64": torch.float64, "i8": torch.int8, "u8": torch.uint8,
    "i16": torch.int16, "i32": torch.int32, "i64": torch.int64, "u16": torch.uint16,
    "u32": torch.uint32, "u64": torch.uint64,
}  # fmt: skip


def first(x):
    """Move channels from last to PyTorch's place."""
    return x.movedim(-1, 1)


def last(y):
    """Move channels from PyTorch's place to last."""
    return y.movedim(1, -1)


def along_axes(reduce):
    """Return a reduction over several axes, by one of a single axis."""

    def reduced(x, axes):
        for axis in sorted(axes, reverse=True):
            x = reduce(x, axis)
        return x

    return reduced


def forwards(accumulate):
    """Return a cumulative function that can run from the end."""

    def accumulated(x, axis, reverse):
        y = accumulate(x.flip(axis) if reverse else x, axis)
        return y.flip(axis) if reverse else y

    return accumulated


def signs(v):
    """Return for each column of v the sign that makes its largest element positive."""
    at = abs(v).argmax(-2, keepdim=True)
    return torch.sign(torch.take_along_dim(v, at, -2))


def qr(x):
    """Return QR factors with a nonnegative diagonal of r, as aotc's."""
    q, r = torch.linalg.qr(x)
    sign = torch.where(r.diagonal(dim1=-2, dim2=-1) < 0, -1, 1).to(x.dtype)
    return q * sign[..., None, :], r * sign[..., None]


def eigh(x):
    """Return eigenvalues and eigenvectors with aotc's signs."""
    w, v = torch.linalg.eigh((x + x.mT) / 2)
    return w, v * signs(v)


def svd(x):
    """Return the SVD with aotc's signs."""
    u, s, vh = torch.linalg.svd(x, full_matrices=False)
    return u * signs(u), s, vh * signs(u).mT


def lu(x):
    """Return the LU decomposition, with the permutation as row indices."""
    p, low, up = torch.linalg.lu(x)
    eye = torch.eye(x.shape[-1], dtype=x.dtype)
    return low - eye + up, p.argmax(-2)


def fft(re, im, axis, inverse):
    """Return the FFT; neither direction divides by the size."""
    z = torch.complex(re, im)
    transform, norm = (torch.fft.ifft, "forward") if inverse else (torch.fft.fft, None)
    z = transform(z, dim=axis, norm=norm)
    return z.real, z.imag


def windows(x, window, strides, dilation):
    """Return the windows of x, by unfolding."""
    for axis, (w, s, d) in enumerate(zip(window, strides, dilation, strict=True), 1):
        x = x.unfold(axis, d * (w - 1) + 1, s)[..., ::d]
    return x.movedim(1 + len(window), -1)


def conv_general(x, kernel, strides, padding, dilation, groups):
    """Return the convolution of x, padded before as both sides may differ."""
    conv = (F.conv1d, F.conv2d, F.conv3d)[len(strides) - 1]
    x, kernel = around(first(x), padding, 0.0), kernel.movedim((-1, -2), (0, 1))
    return last(conv(x, kernel, None, strides, 0, dilation, groups))


def around(x, padding, value):
    """Return x padded around its spatial axes."""
    pairs = list(zip(padding[::2], padding[1::2], strict=True))
    return F.pad(x, [n for pair in pairs[::-1] for n in pair], value=value)


def sum_pool(x, window, strides, padding, dilation):
    """Return the sum pooling, by unfolding."""
    x = last(around(first(x), padding, 0.0))
    axes = tuple(range(1 + len(window), 1 + 2 * len(window)))
    return windows(x, window, strides, dilation).sum(axes, dtype=x.dtype)


def max_pool(x, window, strides, padding, dilation):
    """Return the max pooling of x, padded before."""
    pool = (F.max_pool1d, F.max_pool2d, F.max_pool3d)[len(window) - 1]
    x = around(first(x), padding, -torch.inf)
    return last(pool(x, window, strides, 0, dilation))


def cut(x, start, sizes, strides):
    """Return a strided slice."""
    parts = zip(start, sizes, strides, strict=True)
    return x[tuple(slice(a, a + n * s, s) for a, n, s in parts)]


def broadcast(x, shape, axes):
    """Return x broadcast to a shape, with its axes at `axes`."""
    kept = [x.shape[axes.index(i)] if i in axes else 1 for i in range(len(shape))]
    return x.reshape(kept).expand(shape)


def dot_general(x, y, lhs_batch, rhs_batch, lhs_contract, rhs_contract, dtype=""):
    """Return the contraction over numbered axes."""
    names = iter("abcdefghijklmnop")
    left = [next(names) for _ in x.shape]
    right = [next(names) for _ in y.shape]
    pairs = zip(lhs_batch + lhs_contract, rhs_batch + rhs_contract, strict=True)
    for i, k in pairs:
        right[k] = left[i]
    free = [c for c in left + right if (c in left) != (c in right)]
    out = "".join([left[i] for i in lhs_batch] + free)
    if dtype:
        x, y = x.to(DTYPES[dtype]), y.to(DTYPES[dtype])
    return torch.einsum(f"{''.join(left)},{''.join(right)}->{out}", x, y)


def normalize(x, axes, epsilon, centered):
    """Return the layer norm or RMS norm, if the axes are the last ones."""
    if axes != tuple(range(x.ndim - len(axes), x.ndim)):
        raise NotImplementedError("axes that are not the last ones")
    shape = [x.shape[axis] for axis in axes]
    if centered:
        return F.layer_norm(x, shape, eps=epsilon), None, None
    return F.rms_norm(x, shape, eps=epsilon), None, None


def attention(query, key, value, bias, scale, causal):
    """Return the attention with a bias or causal mask, without the log-sums."""
    if bias.ndim and causal:
        raise NotImplementedError("a bias and a causal mask")
    y = F.scaled_dot_product_attention(
        *(x.swapaxes(1, 2) for x in (query, key, value)), bias if bias.ndim else None,
        scale=scale, is_causal=causal, enable_gqa=True,
    )  # fmt: skip
    return y.swapaxes(1, 2), None


def windowed(x, starts, sizes):
    """Return slices at clamped start indices."""
    fits = zip(starts.tolist(), x.shape, sizes, strict=True)
    return tuple(slice(a := max(0, min(i, n - m)), a + m) for i, n, m in fits)


def dynamic_update_slice(x, update, starts):
    """Return x with a slice assigned."""
    x[windowed(x, starts, update.shape)] = update
    return x


def bitwise_shift(shift):
    """Return a shift function that refuses counts out of range."""

    def shifted(x, y):
        if ((y < 0) | (y >= 8 * x.dtype.itemsize)).any():
            raise NotImplementedError("counts below 0 or beyond the width")
        return shift(x, y)

    return shifted


def cast(x, dtype):
    """Return the cast of values in range; elsewhere it is undefined."""
    kind = DTYPES[dtype]
    if x.is_floating_point() and not kind.is_floating_point and dtype != "bool":
        info = torch.iinfo(kind)
        if not ((x > float(info.min) - 1) & (x < float(info.max) + 1)).all():
            raise NotImplementedError("floats beyond the integers")
    return x.to(kind)


def triangular_solve(a, x, lower, transpose, unit_diagonal):
    """Return the solution of a triangular system."""
    a = a.mT if transpose else a
    return torch.linalg.solve_triangular(
        a, x, upper=lower == transpose, unitriangular=unit_diagonal
    )


TORCH = {
    "iota": lambda shape, axis, dtype: broadcast(
        torch.arange(shape[axis], dtype=DTYPES[dtype]), shape, (axis,)
    ),
    "negate": torch.neg,
    "abs": torch.abs,
    "sign": torch.sign,
    "exp": torch.exp,
    "exp2": torch.exp2,
    "expm1": torch.expm1,
    "log": torch.log,
    "log1p": torch.log1p,
    "logistic": torch.sigmoid,
    "sqrt": torch.sqrt,
    "rsqrt": torch.rsqrt,
    "stop_gradient": torch.Tensor.detach,
    "sin": torch.sin,
    "cos": torch.cos,
    "tanh": torch.tanh,
    "asinh": torch.asinh,
    "atan2": torch.atan2,
    "erf": torch.erf,
    "erfc": torch.erfc,
    "erfinv": torch.erfinv,
    "lgamma": torch.lgamma,
    "polygamma": lambda x, order: torch.polygamma(order, x),
    "floor": torch.floor,
    "round_even": torch.round,
    "remainder": torch.fmod,
    "relu": torch.relu,
    "gelu": lambda x, form: F.gelu(x, approximate={"exact": "none"}.get(form, form)),
    "add": torch.add,
    "subtract": torch.sub,
    "multiply": torch.mul,
    "divide": lambda x, y: torch.div(
        x, y, rounding_mode=None if x.is_floating_point() else "trunc"
    ),
    "power": torch.pow,
    "hypot": torch.hypot,
    "maximum": torch.maximum,
    "minimum": torch.minimum,
    "bitwise_not": torch.bitwise_not,
    "bitwise_and": torch.bitwise_and,
    "bitwise_or": torch.bitwise_or,
    "bitwise_xor": torch.bitwise_xor,
    "shift_left": bitwise_shift(torch.bitwise_left_shift),
    "shift_right": bitwise_shift(torch.bitwise_right_shift),
    "bitcast": lambda x, dtype: x.view(DTYPES[dtype]),
    "compare": lambda x, y, direction: getattr(torch, direction)(x, y),
    "select": torch.where,
    "clamp": torch.clamp,
    "cast": cast,
    "reduce_sum": lambda x, axes: torch.sum(x, axes, dtype=x.dtype) if axes else x,
    "reduce_prod": along_axes(lambda x, axis: torch.prod(x, axis, dtype=x.dtype)),
    "reduce_max": lambda x, axes: torch.amax(x, axes) if axes else x,
    "reduce_min": lambda x, axes: torch.amin(x, axes) if axes else x,
    "argmax": lambda x, axis: torch.argmax(x, axis),
    "cumsum": forwards(lambda x, axis: torch.cumsum(x, axis, dtype=x.dtype)),
    "cumprod": forwards(lambda x, axis: torch.cumprod(x, axis, dtype=x.dtype)),
    "cummax": forwards(lambda x, axis: torch.cummax(x, axis).values),
    "cummin": forwards(lambda x, axis: torch.cummin(x, axis).values),
    "cumlogsumexp": forwards(torch.logcumsumexp),
    "argsort": lambda x, axis, descending, count: torch.argsort(
        x, stable=True, dim=axis, descending=descending
    ).narrow(axis, 0, *count),
    "dot_general": dot_general,
    "cholesky": lambda x: torch.linalg.cholesky((x + x.mT) / 2),
    "triangular_solve": triangular_solve,
    "lu": lu,
    "qr": qr,
    "eigh": eigh,
    "svd": svd,
    "fft": fft,
    "windows": windows,
    "conv_general": conv_general,
    "sum_pool": sum_pool,
    "max_pool": max_pool,
    "reshape": torch.reshape,
    "transpose": lambda x, permutation: torch.permute(x, permutation),
    "broadcast": broadcast,
    "reverse": lambda x, axes: torch.flip(x, axes),
    "slice": cut,
    "concatenate": lambda x, y, axis: torch.cat([x, y], axis),
    "dynamic_slice": lambda x, starts, sizes: x[windowed(x, starts, sizes)],
    "dynamic_update_slice": dynamic_update_slice,
    "softmax": torch.softmax,
    "log_softmax": torch.log_softmax,
    "normalize": normalize,
    "attention": attention,
}  # fmt: skip
