"""Settings for functions of aotc.numpy that move, make and multiply arrays."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.parity.settings import Setting, drawn


def of_numpy(
    name: str, *args, kind: str = "exact", smooth: bool = True, **kwargs
) -> Setting:
    """Return a setting of aotc.numpy."""
    return Setting("numpy", name, args, kwargs, kind, smooth)


def shapes() -> Iterator[Setting]:
    """Yield settings of functions that reorder or reshape all elements."""
    for dtype in ("f8", "i4"):
        x = drawn((2, 3, 4), dtype)
        for shape in ((6, 4), (-1,), (2, -1, 2), (24,)):
            yield of_numpy("reshape", x, shape)
        for axes in (None, (2, 0, 1), (-1, 0, 1)):
            yield of_numpy("transpose", x, axes)
            yield of_numpy("permute_dims", x, (0, 2, 1))
    yield of_numpy("reshape", drawn((0, 4)), (2, 0))


def turns() -> Iterator[Setting]:
    """Yield settings of functions that flip, roll and transpose."""
    for dtype in ("f8", "i4"):
        x = drawn((2, 3, 4), dtype)
        for axis in (None, 0, -1, (0, 2)):
            yield of_numpy("flip", x, axis)
        for shift, axis in ((1, None), (-2, 0), (5, -1), ((1, 2), (0, 1)), (0, 1)):
            yield of_numpy("roll", x, shift, axis)
        for ends in ((0, -1), (-1, 0), ((0, 1), (1, 2)), ((2, 0), (0, 1))):
            yield of_numpy("moveaxis", x, *ends)
        for k, axes in itertools.product((0, 1, 2, -1), ((0, 1), (2, 1))):
            yield of_numpy("rot90", x, k, axes)
        for pair in ((0, 1), (-1, 0), (1, 1)):
            yield of_numpy("swapaxes", x, *pair)
        for pair in ((2, 0), (0, 3), (-1, 1)):
            yield of_numpy("rollaxis", x, *pair)
        for name in ("fliplr", "flipud", "ravel", "matrix_transpose"):
            yield of_numpy(name, x)


def repeats() -> Iterator[Setting]:
    """Yield settings of functions that repeat elements, or add and remove axes."""
    for dtype in ("f8", "i4"):
        x = drawn((2, 3, 4), dtype)
        for reps in (2, (2, 1), (1, 2, 1, 2), 0):
            yield of_numpy("tile", x, reps)
        for count, axis in ((2, None), (3, 0), (0, -1), (np.array([1, 0, 2]), 1)):
            yield of_numpy("repeat", x, count, axis)
        for axis in (0, -1, 2, (0, 2)):
            yield of_numpy("expand_dims", x, axis)
        for axis in (None, 0, -1, (0, 2)):
            yield of_numpy("squeeze", drawn((1, 3, 1), dtype), axis)
        for shape in ((2, 3, 4), (5, 2, 3, 4)):
            yield of_numpy("broadcast_to", x, shape)
        yield of_numpy("broadcast_arrays", x, drawn((3, 1), dtype))
        for name, shape in itertools.product(
            ("atleast_1d", "atleast_2d", "atleast_3d"), ((), (3,), (2, 3))
        ):
            yield of_numpy(name, drawn(shape, dtype))
        for shape in ((3, 4), (5, 6), (2,), (0, 3)):
            yield of_numpy("resize", drawn((2, 4), dtype), shape)


def joins() -> Iterator[Setting]:
    """Yield settings of functions that join and split."""
    x, y = drawn((2, 3)), drawn((2, 3))
    for axis in (0, 1, -1, None):
        yield of_numpy(
            "concatenate", [x, y, drawn((0, 3))] if axis == 0 else [x, y], axis
        )
    for axis in (0, 1, -1):
        yield of_numpy("stack", [x, y], axis)
    for name in ("vstack", "hstack", "dstack", "column_stack"):
        yield of_numpy(name, [x, y])
        yield of_numpy(name, [drawn((3,)), drawn((3,))])
    yield of_numpy("block", [[x, y], [y, x]])
    for axis in (None, 0, 1):
        yield of_numpy("append", x, y, axis)
        yield of_numpy("delete", x, 1, axis)
        yield of_numpy("delete", x, np.array([0, -1]), axis)
        yield of_numpy("insert", x, 1, 5.0, axis)
    for name, parts in itertools.product(("split", "array_split"), (2, [1, 3], [0, 9])):
        for axis in (0, -1):
            yield of_numpy(name, drawn((4, 6)), parts, axis)
    yield of_numpy("array_split", drawn((7, 2)), 3)
    for name in ("vsplit", "hsplit", "dsplit"):
        yield of_numpy(name, drawn((4, 4, 4)), 2)
    modes = ("constant", "edge", "reflect", "symmetric", "wrap")
    for mode, width in itertools.product(
        modes, (1, ((1, 2), (0, 1)), ((0, 0), (2, 2)))
    ):
        yield of_numpy("pad", drawn((3, 4)), width, mode)
    yield of_numpy("pad", drawn((3, 4)), 2, constant_values=1.5)


def choices() -> Iterator[Setting]:
    """Yield settings of functions that index."""
    x, at = drawn((4, 5)), np.array([[0, 3], [2, -1]], "i4")
    for axis in (None, 0, -1):
        yield of_numpy("take", x, at, axis)
        for mode in ("clip", "wrap"):
            yield of_numpy("take", x, at + 4, axis, mode=mode)
    for axis in (0, 1, -1):
        order = np.argsort(x, axis).astype("i4")
        yield of_numpy("take_along_axis", x, order, axis)
        yield of_numpy("compress", np.array([True, False, True]), x, axis)
    choices = [drawn((2, 2)), drawn((2, 2)), drawn((2, 2)), drawn((2, 2))]
    yield of_numpy("choose", abs(at), choices)
    yield of_numpy("choose", at + 2, choices, mode="clip")
    conditions = [drawn((3,), "?"), drawn((3,), "?")]
    yield of_numpy("select", conditions, [drawn((3,)), drawn((3,))], 0.5)
    dims = (3, 4, 5)
    flat = np.array([0, 17, 59], "i4")
    yield of_numpy("unravel_index", flat, dims)
    places = tuple(part.astype("i4") for part in np.unravel_index(flat, dims))
    yield of_numpy("ravel_multi_index", places, dims)


def diagonals() -> Iterator[Setting]:
    """Yield settings of diagonals and triangles."""
    x = drawn((4, 5))
    for k in (0, 1, -2, 7):
        for name in ("tril", "triu"):
            yield of_numpy(name, x, k)
            yield of_numpy(name, drawn((2, 3, 3)), k)
        yield of_numpy("diagflat", drawn((2, 2)), k)
        yield of_numpy("diag", drawn((3,)), k)
        yield of_numpy("eye", 3, 4, k)
        yield of_numpy("tri", 3, 4, k)
    for k in (0, 1, -2):
        yield of_numpy("diag", x, k)
        yield of_numpy("diagonal", drawn((3, 4, 5)), k, -1, 0)
        yield of_numpy("trace", drawn((3, 4, 5)), k, 1, 2, kind="accumulated")
        yield of_numpy("tril_indices", 4, k)
        yield of_numpy("triu_indices", 4, k, 5)
    yield of_numpy("diag_indices", 3)
    yield of_numpy("identity", 3)


def creations() -> Iterator[Setting]:
    """Yield settings of functions that create arrays."""
    for ends in ((5,), (2, 9), (0, 1, 0.3), (5, -3, -2)):
        yield of_numpy("arange", *ends, kind="elementwise")
    for num, endpoint in itertools.product((1, 2, 7, 0), (True, False)):
        for name, ends in (
            ("linspace", (-1.0, 3.0)),
            ("logspace", (-1.0, 2.0)),
            ("geomspace", (0.5, 32.0)),
        ):
            yield of_numpy(
                name, *ends, num, endpoint, kind="elementwise", dtype=np.float64
            )
    for name in ("zeros", "ones"):
        yield of_numpy(name, (2, 3))
    yield of_numpy("full", (2, 3), 2.5)
    for name in ("zeros_like", "ones_like"):
        yield of_numpy(name, drawn((2, 3), "i4"))
    yield of_numpy("full_like", drawn((2, 3)), 2.5)
    for indexing, sparse in itertools.product(("xy", "ij"), (False, True)):
        yield of_numpy(
            "meshgrid", drawn((3,)), drawn((4,)), indexing=indexing, sparse=sparse
        )
    yield of_numpy("indices", (2, 3))
    for n, increasing in itertools.product((None, 2, 5), (False, True)):
        yield of_numpy("vander", drawn((4,)), n, increasing, kind="accumulated")


PRODUCTS = {
    "matmul": [
        ((4,), (4,)), ((3, 4), (4,)), ((4,), (4, 2)), ((3, 4), (4, 2)),
        ((2, 3, 4), (4, 2)), ((2, 1, 3, 4), (5, 4, 2)), ((0, 4), (4, 2)),
        ((3, 0), (0, 2)),
    ],
    "dot": [
        ((4,), (4,)), ((3, 4), (4,)), ((3, 4), (4, 2)), ((), (3,)),
        ((2, 3, 4), (5, 4, 2)),
    ],
    "inner": [((4,), (4,)), ((2, 4), (3, 4)), ((2, 3, 4), (5, 4)), ((), (2, 3))],
    "outer": [((2, 3), (4,))],
    "vdot": [((2, 3), (2, 3))],
    "kron": [((2, 3), (4, 5)), ((2,), (3, 2)), ((2, 1, 2), (2, 2))],
    "cross": [((3,), (3,)), ((4, 3), (4, 3)), ((4, 3), (3,)), ((2, 1, 3), (4, 3))],
}  # fmt: skip
TENSORDOTS = [
    (0, (2,)), (1, (4, 2)), (2, (3, 4, 5)), (((1, 2), (0, 1)), (3, 4, 2)),
    (((0,), (2,)), (3, 4, 2)),
]  # fmt: skip
EINSUMS = [
    ("ij,jk", (2, 3), (3, 4)), ("ij,jk->ki", (2, 3), (3, 4)),
    ("bij,bjk->bik", (2, 3, 4), (2, 4, 5)), ("ii", (3, 3)), ("ii->i", (3, 3)),
    ("ij->j", (2, 3)), ("ijk->kji", (2, 3, 4)), ("i,j", (2,), (3,)),
    ("...i,...i", (2, 3), (2, 3)), ("...ij,jk->...ik", (2, 2, 3), (3, 4)),
    ("ij,jk,kl->il", (2, 3), (3, 4), (4, 2)), ("i,i,i->", (4,), (4,), (4,)),
    ("ij,ij->", (2, 3), (2, 3)),
]  # fmt: skip


def products() -> Iterator[Setting]:
    """Yield settings of products of vectors, matrices and stacks."""
    for dtype in ("f4", "f8", "i4"):
        for name, pairs in PRODUCTS.items():
            for shapes in pairs:
                yield _sums(dtype, name, *shapes)
        for axes, second in TENSORDOTS:
            yield _sums(dtype, "tensordot", (2, 3, 4), second, axes=axes)
        for subscripts, *shapes in EINSUMS:
            yield _sums(dtype, "einsum", subscripts, *shapes)
        for name, mode in itertools.product(
            ("convolve", "correlate"), ("full", "same", "valid")
        ):
            yield _sums(dtype, name, (7,), (3,), mode=mode)
            yield _sums(dtype, name, (3,), (6,), mode=mode)


def _sums(dtype: str, name: str, *args: Any, **kwargs: Any) -> Setting:
    """Return a setting whose result is accumulated, of arrays of these shapes."""
    arrays = [drawn(x, dtype) if isinstance(x, tuple) else x for x in args]
    return of_numpy(name, *arrays, kind="accumulated", **kwargs)
