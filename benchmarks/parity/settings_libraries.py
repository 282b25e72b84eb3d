"""Settings for aotc.special, aotc.linalg and aotc.fft."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

from benchmarks.parity.settings import Setting, drawn
from tests.dialects.cases import edges

SPECIAL = {
    "erf erfc expit log_ndtr ndtr": (-3, 3, "elementwise"),
    "entr": (-1, 3, "cancelling"),
    "erfinv": (-0.95, 0.95, "elementwise"),
    "gammaln digamma psi": (-3, 9, "cancelling"),
    "logit ndtri": (0.02, 0.98, "cancelling"),
}
SPECIAL_PAIRS = {"xlogy": -2, "xlog1py": -0.9, "betaln": 0.1}


def special() -> Iterator[Setting]:
    """Yield settings of special functions."""
    peers = ("numpy", "jax", "torch")
    for names, (low, high, kind) in SPECIAL.items():
        for name, dtype in itertools.product(names.split(), ("f4", "f8")):
            for shape in ((), (20,), (3, 0)):
                x = drawn(shape, dtype, low, high)
                yield Setting("special", name, (x,), {}, kind, peers=peers)
            x = edges({"f4": "f32", "f8": "f64"}[dtype])
            yield Setting("special", name, (x,), {}, kind, smooth=False, peers=peers)
    for (name, low), dtype in itertools.product(SPECIAL_PAIRS.items(), ("f4", "f8")):
        x, y = (
            drawn((3, 4), dtype, max(low, 0.1), 3),
            drawn((4,), dtype, max(low, 0.1), 3),
        )
        yield Setting("special", name, (x, y), {}, "cancelling", peers=peers)
        yield Setting(
            "special", name, (0 * x, y), {}, "cancelling", smooth=False, peers=peers
        )
    for order, dtype in itertools.product((0, 1, 2, 4), ("f4", "f8")):
        x = drawn((8,), dtype, 0.3, 9)
        yield Setting(
            "special", "polygamma", (order, x), {}, "accumulated", peers=peers
        )
    for axis, keepdims in itertools.product((None, 0, -1, (0, 2)), (False, True)):
        x, options = 30 * drawn((2, 3, 4)), {"axis": axis, "keepdims": keepdims}
        yield Setting("special", "logsumexp", (x,), options, "accumulated")
        yield Setting(
            "special",
            "logsumexp",
            (x,),
            {"b": drawn((2, 3, 4), low=0.1), **options},
            "accumulated",
        )


def square(n: int, *batch: int, dtype: str = "f8"):
    """Return a well-conditioned square matrix."""
    return drawn((*batch, n, n), dtype) + 3 * np.eye(n, dtype=dtype)


def definite(n: int, *batch: int, dtype: str = "f8"):
    """Return a symmetric positive definite matrix."""
    x = square(n, *batch, dtype=dtype)
    return x @ np.swapaxes(x, -1, -2)


def linalg() -> Iterator[Setting]:
    """Yield settings of linear algebra, with stacks and f32."""
    both = ("numpy", "jax", "torch")
    for dtype, batch in itertools.product(("f4", "f8"), ((), (3,))):

        def of(name, *args, peers=both, **kwargs):
            return Setting("linalg", name, args, kwargs, "iterated", peers=peers)

        a, spd = square(4, *batch, dtype=dtype), definite(4, *batch, dtype=dtype)
        tall = drawn((*batch, 5, 3), dtype)
        yield of("cholesky", spd)
        yield of("cholesky", spd, upper=True, peers=("numpy", "jax"))
        for name in ("det", "inv", "slogdet", "cond", "matrix_norm", "svdvals"):
            yield of(name, a)
        for n in (0, 1, 2, 3, 5, -1, -2):
            yield of("matrix_power", a, n)
        yield of("eigvalsh", spd)
        for b in (drawn((*batch, 4, 2), dtype), drawn((4,), dtype)):
            yield of("solve", a, b, peers=("numpy", "jax"))
        yield of("pinv", tall)
        yield of("pinv", np.swapaxes(tall, -1, -2).copy())
        yield of("matrix_rank", tall)
        yield of("svdvals", tall)
        yield of("expm", a / 4, peers=("numpy", "jax"))
        yield of("trace", a, offset=1, peers=("numpy", "jax"))
        yield of("diagonal", a, offset=-1, peers=("numpy", "jax"))


def norms() -> Iterator[Setting]:
    """Yield settings of norms and condition numbers."""
    for dtype, batch in itertools.product(("f4", "f8"), ((), (3,))):

        def of(name, *args, **kwargs):
            return Setting("linalg", name, args, kwargs, "iterated")

        a, tall = square(4, *batch, dtype=dtype), drawn((*batch, 5, 3), dtype)
        for order in ("fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf):
            yield of("matrix_norm", tall, ord=order)
            yield of("norm", tall, order, (-2, -1))
        for order in (1, 2, 3.5, 0, np.inf, -np.inf, -1):
            for axis, keepdims in itertools.product((0, -1, None), (False, True)):
                options = {"axis": axis, "keepdims": keepdims}
                yield of("vector_norm", tall, ord=order, **options)
                if axis is not None:
                    yield of("norm", tall, ord=order, **options)
        for p in (None, 2, 1, np.inf, "fro"):
            yield of("cond", a, p)
        yield of("norm", square(4, dtype=dtype))
        yield of("norm", drawn((5,), dtype), 3)


def single_matrices() -> Iterator[Setting]:
    """Yield settings of functions that peers have for single matrices only."""
    for dtype in ("f4", "f8"):

        def of(name, *args, dtype=dtype, **kwargs):
            return Setting("linalg", name, args, kwargs, "iterated")

        a, b = square(4, dtype=dtype), drawn((4, 2), dtype)
        yield of(
            "multi_dot", [drawn(s, dtype) for s in ((2, 5), (5, 3), (3, 6), (6, 2))]
        )
        yield of("block_diag", a, drawn((2, 3), dtype), drawn((1, 1), dtype))
        yield of("tensorinv", drawn((6, 2, 3), dtype), 1)
        yield of("tensorsolve", drawn((2, 3, 6), dtype), drawn((2, 3), dtype))
        yield of("lstsq", drawn((6, 3), dtype), drawn((6, 2), dtype))
        yield of("lu", a)
        for trans, lower, unit in itertools.product(
            (0, 1), (False, True), (False, True)
        ):
            options = {"trans": trans, "lower": lower, "unit_diagonal": unit}
            yield of("solve_triangular", a, b, **options)


def fourier() -> Iterator[Setting]:
    """Yield settings of Fourier transforms."""
    for dtype, norm in (("f4", None), ("f8", None), ("f8", "ortho"), ("f8", "forward")):

        def of(name, *args, **kwargs):
            peers = ("numpy", "jax", "torch")
            return Setting("fft", name, args, kwargs, "accumulated", peers=peers)

        x = drawn((3, 4, 6), dtype)
        z = (x + 1j * drawn((3, 4, 6), dtype)).astype("c8" if dtype == "f4" else "c16")
        given = {"rfft": x, "ihfft": x, "rfftn": x, "rfft2": x}
        for name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft"):
            for n, axis in ((None, -1), (4, 0), (9, -1), (5, 1)):
                yield of(name, given.get(name, z), n, axis, norm)
        for name in ("fftn", "ifftn", "rfftn", "irfftn"):
            for s, axes in ((None, None), (None, (0, -1)), ((4, 5), (0, 1))):
                yield of(name, given.get(name, z), s, axes, norm)
        for name in ("fft2", "ifft2", "rfft2", "irfft2"):
            for s in (None, (3, 8)):
                yield of(name, given.get(name, z), s, (-2, -1), norm)
        yield of("fft", x, None, -1, norm)


def spectra() -> Iterator[Setting]:
    """Yield settings of frequencies, shifts and cosine transforms."""
    for axes in (None, 0, (0, 2)):
        for name in ("fftshift", "ifftshift"):
            both = ("numpy", "jax", "torch")
            yield Setting("fft", name, (drawn((3, 4, 5)), axes), peers=both)
    for name, n in itertools.product(("fftfreq", "rfftfreq"), (1, 6, 7)):
        yield Setting("fft", name, (n, 0.5), {}, "elementwise")
    for name, kind, norm, axis in itertools.product(
        ("dct", "idct"), (2, 3, 4), (None, "ortho"), (0, -1)
    ):
        options = {"type": kind, "norm": norm, "axis": axis}
        yield Setting("fft", name, (drawn((5, 6)),), options, "accumulated")
