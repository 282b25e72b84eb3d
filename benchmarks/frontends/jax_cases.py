"""Uses of JAX that its own harnesses have not: control flow, gradients, functions."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

# before the harnesses are made, which then have 64-bit cases as well
jax.config.update("jax_enable_x64", True)

_RANDOM = np.random.RandomState(0)


def _f32(*shape: int) -> Any:
    """Return random f32 numbers of a shape."""
    return _RANDOM.randn(*shape).astype(np.float32)


def _i32(high: int, *shape: int) -> Any:
    """Return random i32 numbers below `high`."""
    return _RANDOM.randint(0, high, shape).astype(np.int32)


X, Y, V = _f32(4, 6), _f32(6, 5), _f32(7)
IMAGE, KERNEL = _f32(2, 9, 9, 4), _f32(3, 3, 4, 8)
SQUARE = _f32(5, 5) + 4 * np.eye(5, dtype=np.float32)

# ---- control flow -------------------------------------------------------------------


def _newton(x: Any) -> Any:
    """Square root by a while loop."""
    return lax.while_loop(
        lambda s: jnp.abs(s[0] ** 2 - x) > 1e-3,
        lambda s: ((s[0] + x / s[0]) / 2, s[1] + 1),
        (x, 0),
    )


def _scan(x: Any) -> Any:
    """Scan with tanh."""
    return lax.scan(lambda c, y: (jnp.tanh(c + y), c * y), x[0], x)


def _scan_back(x: Any) -> Any:
    """Scan from the end."""
    return lax.scan(lambda c, y: (c * 0.5 + y, c), x[0], x, reverse=True)


def _scan_of_scans(x: Any) -> Any:
    """Scan within a scan."""

    def outer(c: Any, row: Any) -> Any:
        return lax.scan(lambda d, e: (d + e, d * e), c, row)

    return lax.scan(outer, 0.0, x)


def _nested_loop(x: Any) -> Any:
    """Counted loop within a loop, whose bound is the outer index."""

    def outer(i: Any, x: Any) -> Any:
        return lax.fori_loop(0, i, lambda j, y: y + j * x.mean(), x)

    return lax.fori_loop(1, 4, outer, x)


def _branches(index: Any, x: Any) -> Any:
    """Switch with three branches."""
    return lax.switch(index, [jnp.sin, jnp.cos, lambda x: x * 2], x)


def _condition(x: Any) -> Any:
    """Conditional with two results."""
    return lax.cond(x.sum() > 0, lambda x: (x, x + 1), lambda x: (-x, x * 2), x)


def _collatz(n: Any) -> Any:
    """Number of Collatz steps, by a while loop with a conditional."""

    def step(state: Any) -> Any:
        n, count = state
        return lax.cond(n % 2 == 0, lambda n: n // 2, lambda n: 3 * n + 1, n), count + 1

    return lax.while_loop(lambda s: s[0] != 1, step, (n, 0))[1]


def _dynamic_bound(n: Any, x: Any) -> Any:
    """Counted loop whose bound is an argument."""
    return lax.fori_loop(0, n, lambda i, y: y * 1.5 + i, x)


CONTROL = [
    ("while/newton", _newton, np.float32(7.3)),
    ("while/collatz", _collatz, np.int32(27)),
    ("while/traced_bound", _dynamic_bound, np.int32(5), X),
    ("scan/forward", _scan, X),
    ("scan/reverse", _scan_back, X),
    ("scan/nested", _scan_of_scans, X),
    ("fori/nested", _nested_loop, X),
    ("map/square", lambda x: lax.map(lambda r: r @ r, x), X),
    ("associative_scan/sum", lambda x: lax.associative_scan(jnp.add, x), X),
    *((f"switch/{n}", _branches, np.int32(n), X) for n in (-3, 0, 1, 2, 9)),
    ("cond/true", _condition, np.abs(X)),
    ("cond/false", _condition, -np.abs(X)),
    ("vmap/while", jax.vmap(_newton), np.float32([2, 50, 7])),
    ("vmap/cond", jax.vmap(_condition), X),
]

# ---- derivatives that JAX takes ------------------------------------------------------


def _gradient(name: str, function: Any, *args: Any) -> Any:
    """Return a case: the gradient of a function of these arguments."""

    def summed(*args: Any) -> Any:
        leaves = jax.tree.leaves(function(*args))
        return sum(jnp.sum(leaf * jnp.cos(leaf)) for leaf in leaves)

    return (f"grad/{name}", jax.grad(summed), *args)


def _conv(**options: Any) -> Any:
    """Return a convolution with these options."""
    numbers = ("NHWC", "HWIO", "NHWC")
    options = {"window_strides": (1, 1), "padding": "SAME", **options}
    return lambda x, w: lax.conv_general_dilated(
        x, w, dimension_numbers=numbers, **options
    )


def _pool(function: Any, first: Any) -> Any:
    """Return a 3 x 3 pooling by a reduction and its initial value."""
    return lambda x: lax.reduce_window(
        x, first, function, (1, 3, 3, 1), (1, 2, 2, 1), "SAME"
    )


GRADIENTS = [
    _gradient("scan", _scan, X),
    _gradient("matmul", lambda x, y: x @ y, X, Y),
    _gradient("conv", _conv(), IMAGE, KERNEL),
    _gradient("conv_strided", _conv(window_strides=(2, 2)), IMAGE, KERNEL),
    _gradient("conv_dilated", _conv(rhs_dilation=(2, 2)), IMAGE, KERNEL),
    _gradient(
        "conv_transposed",
        _conv(lhs_dilation=(2, 2), padding=((1, 1), (2, 1))),
        IMAGE,
        KERNEL,
    ),
    _gradient("conv_grouped", _conv(feature_group_count=2), IMAGE, _f32(3, 3, 2, 8)),
    _gradient("max_pool", _pool(lax.max, -jnp.inf), IMAGE),
    _gradient("sum_pool", _pool(lax.add, 0.0), IMAGE),
    _gradient("sort", lambda x: jnp.sort(x, -1), X),
    _gradient("cumsum", lambda x: jnp.cumsum(x, 1), X),
    _gradient("cumprod", lambda x: jnp.cumprod(x, 1), X),
    _gradient("gather", lambda x: x[jnp.array([0, 2, 2, 1]), 1:4], X),
    _gradient("logsumexp", lambda x: jax.nn.logsumexp(x, -1), X),
    _gradient("softmax", lambda x: jax.nn.softmax(x, -1), X),
    _gradient("cholesky", lambda x: jnp.linalg.cholesky(x @ x.T), SQUARE),
    _gradient("solve", lambda a: jnp.linalg.solve(a, a[:, :2]), SQUARE),
    _gradient("inverse", jnp.linalg.inv, SQUARE),
    _gradient("determinant", jnp.linalg.det, SQUARE / 4),
    _gradient("qr", lambda x: jnp.linalg.qr(x)[1], SQUARE),
    _gradient("eigenvalues", lambda x: jnp.linalg.eigvalsh(x + x.T), SQUARE),
    _gradient("singular_values", lambda x: jnp.linalg.svd(x, compute_uv=False), X),
    _gradient("gamma", lambda x: jax.scipy.special.gammaln(jnp.abs(x) + 1), X),
    _gradient("erf", lambda x: jax.nn.gelu(x, approximate=False), X),
    ("hessian/tanh", jax.hessian(lambda v: jnp.sum(jnp.tanh(v) ** 3)), V),
    ("jacfwd/sin", jax.jacfwd(lambda v: jnp.sin(v) * v[::-1]), V),
]

# ---- windows, sorting, indexing -----------------------------------------------------

_BOTH = _conv(lhs_dilation=(2, 1), rhs_dilation=(1, 2), padding=((1, 0), (2, 2)))

WINDOWS = [
    ("conv/batch_groups", _conv(batch_group_count=2), IMAGE, _f32(3, 3, 4, 8)),
    ("conv/both_dilated", _BOTH, IMAGE, KERNEL),
    (
        "conv/negative_padding",
        _conv(padding=((-1, 2), (0, -2))),
        IMAGE,
        KERNEL,
    ),
    (
        "conv/1d",
        lambda x, w: lax.conv_general_dilated(
            x, w, (2,), "VALID", dimension_numbers=("NCH", "OIH", "NCH")
        ),
        _f32(2, 4, 11),
        _f32(6, 4, 3),
    ),
    (
        "conv/3d",
        lambda x, w: lax.conv_general_dilated(x, w, (1, 2, 1), "SAME"),
        _f32(1, 2, 4, 5, 6),
        _f32(3, 2, 2, 2, 2),
    ),
    (
        "conv/integers",
        lambda x, w: lax.conv(x, w, (1, 1), "SAME"),
        _i32(9, 1, 2, 5, 5),
        _i32(9, 3, 2, 3, 3),
    ),
    (
        "conv/patches",
        lambda x: lax.conv_general_dilated_patches(x, (3, 3), (2, 2), "SAME"),
        _f32(2, 3, 8, 8),
    ),
    (
        "conv/transpose",
        lambda x, w: lax.conv_transpose(x, w, (2, 2), "SAME"),
        IMAGE,
        KERNEL,
    ),
    (
        "reduce_window/of_pairs",
        lambda x, y: lax.reduce_window(
            (x, y),
            (0.0, 1.0),
            lambda a, b: (a[0] + b[0], a[1] * b[1]),
            (2, 3),
            (1, 1),
            "VALID",
        ),
        X,
        X,
    ),
    ("pool/avg", _pool(lax.add, 0.0), IMAGE),
    ("pool/max", _pool(lax.max, -np.inf), IMAGE),
]


def _reduced_pair(x: Any) -> Any:
    """Reduction of two arrays by one combining function."""

    def combine(one: Any, other: Any) -> Any:
        return one[0] * other[0], one[1] * other[0] + other[1]

    return lax.reduce((x, x), (1.0, 0.0), combine, (1,))


def _descending(x: Any) -> Any:
    """Sort and argsort in falling order."""
    return -jnp.sort(-x, -1), jnp.argsort(x, -1, descending=True)


INDEXING = [
    ("reduce/affine_maps", _reduced_pair, X),
    ("sort/descending", _descending, X),
    ("sort/by_two_keys", lambda a, b, x: lax.sort((a, b, x), num_keys=2),
     _i32(3, 30), _i32(3, 30), _f32(30)),
    ("sort/by_three_keys", lambda a, b, c: lax.sort((a, b, c), num_keys=3),
     _i32(2, 30), _i32(3, 30), _f32(30)),
    ("sort/complex", lambda x, y: jnp.sort(lax.complex(x, y), -1), X, X),
    ("sort/nan_and_zeros", lambda x: lax.sort((x, jnp.arange(8)), num_keys=1),
     np.float32([0.0, -0.0, np.nan, 1, -1, np.inf, -np.inf, np.nan])),
    ("searchsorted/sort", lambda x: jnp.searchsorted(jnp.sort(x), x, method="sort"), V),
    ("searchsorted/scan", lambda x: jnp.searchsorted(jnp.sort(x), x), V),
    ("median/axis", lambda x: jnp.median(x, 1), X),
    ("quantile/several", lambda x: jnp.quantile(x, jnp.array([0.1, 0.5]), axis=0), X),
    ("unique/sized", lambda x: jnp.unique(x, size=4, return_counts=True), _i32(4, 12)),
    ("nonzero/sized", lambda x: jnp.nonzero(x, size=7, fill_value=-1), _i32(2, 3, 4)),
    ("segment_sum/sorted", lambda x, i: jax.ops.segment_sum(x, i, 5), X, _i32(5, 4)),
    ("histogram/ten", lambda x: jnp.histogram(x, 10)[0], X),
    ("one_hot/dot", lambda i: jax.nn.one_hot(i, 6), _i32(8, 5)),
    ("take/fill", lambda x, i: jnp.take(x, i, 0, mode="fill"), X, _i32(9, 5) - 3),
    ("take/wrap", lambda x, i: jnp.take(x, i, 0, mode="wrap"), X, _i32(9, 5) - 3),
    ("take_along_axis/1", lambda x, i: jnp.take_along_axis(x, i, 1), X, _i32(6, 4, 3)),
    ("at/set_window", lambda x: x.at[1:3, ::2].set(0.0), X),
    ("at/apply", lambda x, i: x.at[i].apply(jnp.sin), X, np.int32([0, 3])),
    ("at/divide", lambda x, i: x.at[i].divide(2.0), X, np.int32([0, 3])),
    ("at/out_of_bounds", lambda x, i: x.at[i].add(1.0), X, np.int32([0, 9, -1])),
    ("at/2d", lambda x, i, j: x.at[i, j].max(0.5), X, _i32(4, 5), _i32(6, 5)),
    ("vmap/gather", jax.vmap(lambda x, i: x[i]), X, _i32(6, 4, 2)),
    ("vmap/scatter", jax.vmap(lambda x, i: x.at[i].add(1.0)), X, _i32(6, 4, 2)),
    ("vmap/dynamic_slice", jax.vmap(lambda x, i: lax.dynamic_slice(x, (i,), (3,))),
     X, _i32(6, 4)),
    ("vmap/dynamic_update_slice",
     jax.vmap(lambda x, i: lax.dynamic_update_slice(x, x[:2] * 9, (i,))),
     X, _i32(6, 4)),
    ("scatter/windows_overlap",
     lambda x, i: lax.scatter_add(
         x, i, jnp.ones((3, 2, 2)),
         lax.ScatterDimensionNumbers((1, 2), (), (0, 1))),
     X, _i32(5, 3, 2)),
    ("scatter/custom_update",
     lambda x, i, u: lax.scatter_sub(
         x, i, u, lax.ScatterDimensionNumbers((1,), (0,), (0,))),
     X, _i32(4, 3, 1), _f32(3, 6)),
]  # fmt: skip

# ---- random numbers, linear algebra, transforms -------------------------------------

KEY = np.uint32([3, 14])


def _drawn(name: str, draw: Any) -> Any:
    """Return a case that draws random numbers with a fixed key."""
    return (f"random/{name}", lambda key: draw(jax.random.wrap_key_data(key)), KEY)


RANDOM = [
    _drawn("normal", lambda k: jax.random.normal(k, (5, 3))),
    _drawn("uniform", lambda k: jax.random.uniform(k, (5,), minval=-1)),
    _drawn("bits", lambda k: jax.random.bits(k, (6,))),
    _drawn("permutation", lambda k: jax.random.permutation(k, 10)),
    _drawn("choice", lambda k: jax.random.choice(k, 10, (4,), replace=False)),
    _drawn("categorical", lambda k: jax.random.categorical(k, jnp.zeros((3, 4)))),
    _drawn("gamma", lambda k: jax.random.gamma(k, 2.5, (4,))),
    _drawn("beta", lambda k: jax.random.beta(k, 2.0, 3.0, (4,))),
    _drawn("poisson", lambda k: jax.random.poisson(k, 4.0, (4,))),
    _drawn("dirichlet", lambda k: jax.random.dirichlet(k, jnp.ones(3), (2,))),
    _drawn("truncated", lambda k: jax.random.truncated_normal(k, -1, 1, (4,))),
    _drawn("orthogonal", lambda k: jnp.abs(jax.random.orthogonal(k, 3))),
    _drawn("split", lambda k: jax.random.key_data(jax.random.split(k, 3))),
    _drawn("dropout", lambda k: jax.random.bernoulli(k, 0.3, (20,))),
]

LINALG = [
    ("linalg/lstsq", lambda x: jnp.linalg.lstsq(x.T, x[:, :6].sum(0))[0], X),
    ("linalg/pinv", jnp.linalg.pinv, X),
    ("linalg/slogdet", jnp.linalg.slogdet, SQUARE),
    ("linalg/matrix_power", lambda x: jnp.linalg.matrix_power(x, 5), SQUARE / 5),
    ("linalg/expm", lambda x: jax.scipy.linalg.expm(x), SQUARE / 5),
    ("linalg/norm", lambda x: jnp.linalg.norm(x, ord=2), X),
    ("linalg/batched_solve", jax.vmap(jnp.linalg.solve), np.stack([SQUARE] * 2),
     _f32(2, 5)),
    ("linalg/cho_solve",
     lambda a: jax.scipy.linalg.cho_solve(
         jax.scipy.linalg.cho_factor(a @ a.T), a[:, 0]), SQUARE),
    ("linalg/lu", lambda a: jax.scipy.linalg.lu(a), SQUARE),
    ("linalg/tridiagonal", lambda v: lax.linalg.tridiagonal_solve(
        v, 4 + v * v, v[::-1], v[:, None]), V),
    ("fft/real", lambda x: jnp.fft.irfft(jnp.fft.rfft(x) * 2), X),
    ("fft/2d", lambda x: jnp.abs(jnp.fft.fft2(x)), X),
    ("fft/convolve", lambda x: jax.scipy.signal.fftconvolve(x, x[:2, :3]), X),
    ("signal/convolve", lambda v: jnp.convolve(v, v[:3]), V),
    ("interp/linear", lambda v: jnp.interp(v, jnp.sort(v), v), V),
    ("image/resize", lambda x: jax.image.resize(x, (2, 5, 13, 4), "bilinear"), IMAGE),
    ("einsum/three", lambda x, y: jnp.einsum("ij,jk,il->kl", x, y, x), X, Y),
    ("polynomial/roots", lambda v: jnp.polyval(v, v), V),
]  # fmt: skip

CASES = [*CONTROL, *GRADIENTS, *WINDOWS, *INDEXING, *RANDOM, *LINALG]
