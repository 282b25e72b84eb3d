"""Every op as JAX says it: of the op's operands and attributes."""

import jax
import jax.numpy as jnp
import jax.scipy.special
from jax import lax

from aotc.core import dtypes
from aotc.dialects.ops.indexing import IndexMap


def largest_positive(v):
    """Return for each column of v the sign that makes its largest element positive."""
    at = jnp.argmax(abs(v), -2, keepdims=True)
    return jnp.sign(jnp.take_along_axis(v, at, -2))


def qr(x):
    """Return QR factors with a nonnegative diagonal of r, as aotc's."""
    q, r = jnp.linalg.qr(x)
    sign = jnp.where(jnp.diagonal(r, axis1=-2, axis2=-1) < 0, -1, 1).astype(x.dtype)
    return q * sign[..., None, :], r * sign[..., None]


def eigh(x):
    """Return eigenvalues and eigenvectors with aotc's signs."""
    w, v = jnp.linalg.eigh(x)
    return w, v * largest_positive(v)


def svd(x):
    """Return the SVD with aotc's signs."""
    u, s, vh = jnp.linalg.svd(x, full_matrices=False)
    sign = largest_positive(u)
    return u * sign, s, vh * jnp.swapaxes(sign, -1, -2)


def fft(re, im, axis, inverse):
    """Return the FFT; neither direction divides by the size."""
    z = lax.complex(re, im)
    transform, norm = (jnp.fft.ifft, "forward") if inverse else (jnp.fft.fft, None)
    z = transform(z, axis=axis, norm=norm)
    return z.real, z.imag


def windows(x, window, strides, dilation):
    """Return the windows of x as patches."""
    spatial = "DHW"[-len(window) :]
    numbers = (f"N{spatial}C", f"{spatial}IO", f"N{spatial}C")
    y = lax.conv_general_dilated_patches(
        x, window, strides, "VALID", rhs_dilation=dilation, dimension_numbers=numbers
    )
    y = y.reshape(*y.shape[:-1], x.shape[-1], *window)
    return jnp.moveaxis(y, 1 + len(window), -1)


def conv_general(x, kernel, strides, padding, dilation, groups):
    """Return the channels-last convolution."""
    spatial = "DHW"[-len(strides) :]
    numbers = (f"N{spatial}C", f"{spatial}IO", f"N{spatial}C")
    around = list(zip(padding[::2], padding[1::2], strict=True))
    options = {"rhs_dilation": dilation, "dimension_numbers": numbers}
    return lax.conv_general_dilated(
        x, kernel, strides, around, feature_group_count=groups, **options
    )


def pool(combine, start):
    """Return a pooling function by a reduction and its initial value."""

    def pooled(x, window, strides, padding, dilation):
        around = [(0, 0), *zip(padding[::2], padding[1::2], strict=True), (0, 0)]
        sizes = [(1, *part, 1) for part in (window, strides)]
        spread = (1, *dilation, 1)
        initial = jnp.asarray(start, x.dtype)
        return lax.reduce_window(
            x, initial, combine, *sizes, around, window_dilation=spread
        )

    return pooled


def cut(x, start, sizes, strides):
    """Return a slice, given its sizes instead of its ends."""
    parts = zip(start, sizes, strides, strict=True)
    stop = [a + max(n - 1, 0) * s + (n > 0) for a, n, s in parts]
    return lax.slice(x, start, stop, strides)


def pad(x, low, high, interior, value):
    """Return the padded array."""
    widths = list(zip(low, high, interior, strict=True))
    return lax.pad(x, jnp.asarray(value).astype(x.dtype), widths)


def gather(x, *indices, **attributes):
    """Return the gather of single elements along the indexed axes."""
    at = IndexMap(**attributes)
    if any(x.shape[axis] == 0 for axis in at.axes):
        raise NotImplementedError("an empty axis of which nothing may be read")
    shared = tuple(at.along.index(axis) for axis in at.shared_axes)
    batched = tuple(at.source(axis) for axis in at.shared_axes)
    numbers = lax.GatherDimensionNumbers(
        tuple(at.window), at.axes, at.axes, batched, shared
    )
    once = {*at.axes, *batched}
    sizes = [1 if axis in once else n for axis, n in enumerate(x.shape)]
    mode = {"clip": "clip", "drop": "fill"}[at.mode]
    indices = jnp.stack(indices, -1)
    return lax.gather(x, indices, numbers, sizes, mode=mode, fill_value=0)


def scatter(combine):
    """Return a scatter function that combines updates; the opposite of `gather`."""

    def scattered(x, updates, *indices, **attributes):
        at = IndexMap(**attributes)
        shared = tuple(at.along.index(axis) for axis in at.shared_axes)
        batched = tuple(at.source(axis) for axis in at.shared_axes)
        numbers = lax.ScatterDimensionNumbers(
            tuple(at.window), at.axes, at.axes, batched, shared
        )
        indices = jnp.stack(indices, -1)
        return combine(x, indices, updates, numbers, mode=at.mode)

    return scattered


def linear_recurrence(a, x, axis, reverse):
    """Return the linear recurrence, by composing affine maps."""

    def after(first, second):
        return first[0] * second[0], second[0] * first[1] + second[1]

    return lax.associative_scan(after, (a, x), reverse, axis)[1]


def normalize(x, axes, epsilon, centered):
    """Return `standardize` of x with aotc's statistics."""
    given = (
        {}
        if centered
        else {"mean": 0.0, "variance": (x * x).mean(axes, None, None, True)}
    )
    return jax.nn.standardize(x, axes, epsilon=epsilon, **given), None, None


def attention(query, key, value, bias, scale, causal):
    """Return the attention, without the log-sums."""
    y = jax.nn.dot_product_attention(
        query, key, value, bias if bias.ndim else None, scale=scale, is_causal=causal
    )
    return y, None


def dot_general(x, y, lhs_batch, rhs_batch, lhs_contract, rhs_contract, dtype=""):
    """Return the product in the operands' dtype, or another."""
    numbers = ((lhs_contract, rhs_contract), (lhs_batch, rhs_batch))
    wide = dtypes.to_numpy(dtype) if dtype else x.dtype
    return lax.dot_general(x, y, numbers, preferred_element_type=wide)


def shift_right(x, y):
    """Return the right shift, arithmetic or logical by the dtype."""
    unsigned = jnp.issubdtype(x.dtype, jnp.unsignedinteger)
    return (lax.shift_right_logical if unsigned else lax.shift_right_arithmetic)(x, y)


def over_devices(function):
    """Return a function that computes a collective on an array with a device axis."""
    return lambda x: jax.vmap(function, axis_name="data")(x)


JAX = {
    "constant": lambda value: jnp.asarray(value),
    "iota": lambda shape, axis, dtype: lax.broadcasted_iota(
        dtypes.to_numpy(dtype), shape, axis
    ),
    "negate": lax.neg,
    "abs": lax.abs,
    "sign": lax.sign,
    "exp": lax.exp,
    "exp2": lax.exp2,
    "expm1": lax.expm1,
    "log": lax.log,
    "log1p": lax.log1p,
    "logistic": lax.logistic,
    "sqrt": lax.sqrt,
    "cbrt": lax.cbrt,
    "rsqrt": lax.rsqrt,
    "stop_gradient": lax.stop_gradient,
    "sin": lax.sin,
    "cos": lax.cos,
    "tanh": lax.tanh,
    "asinh": lax.asinh,
    "atan2": lax.atan2,
    "erf": lax.erf,
    "erfc": lax.erfc,
    "erfinv": lax.erf_inv,
    "lgamma": lax.lgamma,
    "polygamma": lambda x, order: (
        jax.scipy.special.polygamma(order, x) if order else lax.digamma(x)
    ),
    "floor": lax.floor,
    "round_even": lambda x: lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN),
    "remainder": lax.rem,
    "relu": jax.nn.relu,
    "gelu": lambda x, form: jax.nn.gelu(x, approximate=form == "tanh"),
    "add": lambda x, y: jnp.add(x, y),
    "subtract": lax.sub,
    "multiply": lambda x, y: jnp.multiply(x, y),
    "divide": lax.div,
    "power": jnp.power,
    "hypot": jnp.hypot,
    "maximum": lax.max,
    "minimum": lax.min,
    "bitwise_not": lax.bitwise_not,
    "bitwise_and": lax.bitwise_and,
    "bitwise_or": lax.bitwise_or,
    "bitwise_xor": lax.bitwise_xor,
    "shift_left": lax.shift_left,
    "shift_right": shift_right,
    "bitcast": lambda x, dtype: lax.bitcast_convert_type(x, dtypes.to_numpy(dtype)),
    "compare": lambda x, y, direction: getattr(lax, direction)(x, y),
    "select": lax.select,
    "clamp": lambda x, low, high: lax.clamp(low, x, high),
    "cast": lambda x, dtype: lax.convert_element_type(x, dtypes.to_numpy(dtype)),
    "reduce_sum": lambda x, axes: jnp.sum(x, axes, dtype=x.dtype),
    "reduce_prod": lambda x, axes: jnp.prod(x, axes, dtype=x.dtype),
    "reduce_max": lambda x, axes: jnp.max(x, axes),
    "reduce_min": lambda x, axes: jnp.min(x, axes),
    "argmax": jnp.argmax,
    "linear_recurrence": linear_recurrence,
    "cumsum": lax.cumsum,
    "cumprod": lax.cumprod,
    "cummax": lax.cummax,
    "cummin": lax.cummin,
    "cumlogsumexp": lax.cumlogsumexp,
    "argsort": lambda x, axis, descending, count: lax.slice_in_dim(
        jnp.argsort(x, axis, descending=descending), 0, *count, axis=axis
    ),
    "dot_general": dot_general,
    "cholesky": lambda x: jnp.linalg.cholesky(x, symmetrize_input=True),
    "triangular_solve": lambda a, x, lower, transpose, unit_diagonal: (
        lax.linalg.triangular_solve(
            a, x, left_side=True, lower=lower, transpose_a=transpose,
            unit_diagonal=unit_diagonal,
        )
    ),
    "lu": lambda x: lax.linalg.lu(x)[::2],
    "qr": qr,
    "eigh": eigh,
    "svd": svd,
    "fft": fft,
    "windows": windows,
    "conv_general": conv_general,
    "sum_pool": pool(lax.add, 0),
    "max_pool": pool(lax.max, -jnp.inf),
    "reshape": lambda x, shape: lax.reshape(x, shape),
    "transpose": lax.transpose,
    "broadcast": lambda x, shape, axes: lax.broadcast_in_dim(x, shape, axes),
    "reverse": lambda x, axes: lax.rev(x, axes),
    "slice": cut,
    "pad": pad,
    "concatenate": lambda x, y, axis: lax.concatenate([x, y], axis),
    "gather": gather,
    "scatter_add": scatter(lax.scatter_add),
    "scatter_mul": scatter(lax.scatter_mul),
    "scatter_max": scatter(lax.scatter_max),
    "scatter_min": scatter(lax.scatter_min),
    "scatter": scatter(lax.scatter),
    "dynamic_slice": lambda x, starts, sizes: lax.dynamic_slice(
        x, [*starts], sizes, allow_negative_indices=False
    ),
    "dynamic_update_slice": lambda x, new, starts: lax.dynamic_update_slice(
        x, new, [*starts], allow_negative_indices=False
    ),
    "softmax": jax.nn.softmax,
    "log_softmax": jax.nn.log_softmax,
    "normalize": normalize,
    "attention": attention,
    "barrier": lax.optimization_barrier,
}  # fmt: skip

# On 4 devices: attributes of the op, and what each device computes.
DEVICES = {
    "all_reduce": [
        ({"kind": "sum"}, lambda x: lax.psum(x, "data")),
        ({"kind": "max"}, lambda x: lax.pmax(x, "data")),
        ({"kind": "min"}, lambda x: lax.pmin(x, "data")),
    ],
    "all_gather": [
        (
            {"axis": axis},
            lambda x, axis=axis: lax.all_gather(x, "data", axis=axis, tiled=True),
        )
        for axis in (0, 1)
    ],
    "reduce_scatter": [
        (
            {"axis": 1},
            lambda x: lax.psum_scatter(x, "data", scatter_dimension=1, tiled=True),
        )
    ],
    "all_to_all": [
        (
            {"split_axis": i, "concat_axis": k},
            lambda x, i=i, k=k: lax.all_to_all(x, "data", i, k, tiled=True),
        )
        for i in (0, 1)
        for k in (0, 1)
    ],
    "permute": [
        (
            {"sources": s, "targets": t},
            lambda x, p=(s, t): lax.ppermute(x, "data", [*zip(*p, strict=True)]),
        )
        for s, t in (((0, 1, 2, 3), (1, 2, 3, 0)), ((0, 2, 1, 3), (3, 1, 2, 0)))
    ],
    "axis_index": [({}, lambda x: lax.axis_index("data"))],
}
