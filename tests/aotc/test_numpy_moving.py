"""aotc.numpy joins, cuts, turns and builds arrays as NumPy does; bad input is named."""

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import aotc.numpy as anp
from aotc.errors import InputError
from tests.comparing import same_elements

few = settings(max_examples=40, deadline=None)
shapes = hnp.array_shapes(min_dims=1, max_dims=4, min_side=1, max_side=5)


def numbered(*shape):
    """An array whose elements are all different."""
    return np.arange(np.prod(shape, dtype=int), dtype="f4").reshape(shape)


x, y, line, cube = numbered(3, 4), numbered(3, 4) - 7, numbered(5), numbered(2, 3, 4)
signal, kernel = np.array([1, -2, 3, 5, 0.5], "f4"), np.array([1, 2, -1], "f4")

# one function of NumPy's module, called of both
SAME = {
    "atleast": lambda np: [
        f(v)
        for f in (np.atleast_1d, np.atleast_2d, np.atleast_3d)
        for v in (np.asarray(3.0), line, x, cube)
    ],
    "several atleast": lambda np: np.atleast_2d(line, x),
    "rollaxis": lambda np: [
        np.rollaxis(cube, a, s) for a in (-1, 0, 1) for s in range(4)
    ],
    "rot90": lambda np: [np.rot90(cube, k, (1, 2)) for k in range(-3, 6)],
    "rot90 backwards": lambda np: np.rot90(x, 1, (1, 0)),
    "flips": lambda np: (np.fliplr(x), np.flipud(x), np.flip(cube, (0, 2))),
    "roll along several axes": lambda np: (
        np.roll(cube, (1, -2), (0, 2)),
        np.roll(cube, 5, (1, 2)),
        np.roll(x, (1, 2), 0),
    ),
    "repeat each": lambda np: (np.repeat(x, [2, 0, 1], 0), np.repeat(line, [3])),
    "resize": lambda np: (np.resize(x, (5, 4)), np.resize(x, 3), np.resize(x, (0, 2))),
    "hstack": lambda np: (
        np.hstack([line, line]),
        np.hstack([x, y]),
        np.hstack([1.0, 2.0]),
    ),
    "vstack": lambda np: (np.vstack([line, line]), np.vstack([x, line[:4]])),
    "dstack": lambda np: (
        np.dstack([line, line]),
        np.dstack([x, y]),
        np.dstack([cube, cube]),
    ),
    "column_stack": lambda np: np.column_stack([line[:3], x, line[2:]]),
    "block": lambda np: np.block(
        [[x, x], [y, np.zeros((3, 4), "float32")], [np.ones(8, "float32")]]
    ),
    "block of vectors": lambda np: np.block([line, 7.0]),
    "append": lambda np: (np.append(x, [1.0, 2.0]), np.append(x, y, 1)),
    "delete": lambda np: (
        np.delete(x, 1, 0),
        np.delete(x, -1, 1),
        np.delete(x, [0, 2], 1),
        np.delete(x, 5),
        np.delete(line, slice(1, 4, 2)),
        np.delete(line, []),
    ),
    "insert": lambda np: (
        np.insert(x, 1, 9.0, 0),
        np.insert(x, 4, line[:3], 1),
        np.insert(x, -1, 0.5),
        np.insert(x, [0, 2], [7.0, 8.0], 1),
        np.insert(line, [1, 1, 3], [1.0, 2.0, 3.0]),
        np.insert(x, [1], line[:3, None], 1),
        np.insert(x, slice(0, 2), line[:4], 0),
    ),
    "array_split": lambda np: np.array_split(line, 3) + np.array_split(line, 7),
    "splits": lambda np: [*np.hsplit(x, 2), *np.vsplit(x, [1]), *np.dsplit(cube, 4)],
    "hsplit of a vector": lambda np: np.hsplit(line, [2, 3]),
    "diag": lambda np: [np.diag(v, k) for v in (line, x) for k in (-4, -2, 0, 1, 3)],
    "diagonal": lambda np: [
        np.diagonal(cube, k, *axes)
        for k in (-2, 0, 1, 5)
        for axes in ((0, 1), (2, 0), (-1, 1))
    ],
    "diagflat and trace": lambda np: (
        np.diagflat(x, 1),
        np.trace(x),
        np.trace(cube, 1, 1, 2),
    ),
    "triangles": lambda np: [
        f(4, k, 3) for f in (np.tril_indices, np.triu_indices) for k in (0, 1)
    ],
    "diag_indices": lambda np: np.diag_indices(3),
    "identity": lambda np: np.identity(3),
    "meshgrid": lambda np: [
        part
        for how in ("xy", "ij")
        for sparse in (False, True)
        for part in np.meshgrid(line, x[0], line[:2], indexing=how, sparse=sparse)
    ],
    "meshgrid of one": lambda np: list(np.meshgrid(line)),
    "indices": lambda np: (
        np.indices((2, 3)),
        *np.indices((2, 3), sparse=True),
        np.indices(()),
    ),
    "fromfunction": lambda np: np.fromfunction(lambda i, j: i * 2 - j, (3, 4)),
    "vander": lambda np: (
        np.vander(line),
        np.vander(line, 3, increasing=True),
        np.vander(line, 0),
    ),
    "spaces": lambda np: (
        np.linspace(0, 1, 5, endpoint=False),
        np.logspace(0, 2, 3),
        np.geomspace(1, 8, 4),
        np.logspace(0, 3, 4, base=2.0),
        np.linspace(2, 3, 0),
        np.geomspace(-1, -16, 3),
    ),
    "unravel_index": lambda np: np.unravel_index(np.array([0, 7, 11]), (3, 4)),
    "ravel_multi_index": lambda np: np.ravel_multi_index(
        np.array([[0, 2], [3, 1]]), (3, 4)
    ),
    "kron": lambda np: (
        np.kron(x, line),
        np.kron(line, x),
        np.kron(cube, x),
        np.kron(2.0, x),
    ),
    "cross": lambda np: (
        np.cross(x.T, y.T),
        np.cross(x[:, 0], y.T),
        np.cross(x, y, axis=0),
    ),
    "ediff1d": lambda np: (
        np.ediff1d(x),
        np.ediff1d(line, to_begin=-1.0, to_end=[2.0, 3.0]),
    ),
    "gradient": lambda np: (
        np.gradient(signal),
        np.gradient(signal, 0.5),
        np.gradient(x),
        np.gradient(x, 2.0, 3.0),
        np.gradient(x, axis=1),
    ),
    "convolve": lambda np: [
        np.convolve(*pair, mode)
        for mode in ("full", "same", "valid")
        for pair in ((signal, kernel), (kernel, signal), (signal, signal[:4]))
    ],
    "correlate": lambda np: [
        np.correlate(*pair, mode)
        for mode in ("full", "same", "valid")
        for pair in ((signal, kernel), (kernel, signal), (signal, signal[:4]))
    ],
    "polyval": lambda np: (np.polyval(kernel, x), np.polyval([2, 1], 3)),
    "matrix_transpose": lambda np: np.matrix_transpose(cube),
}


@pytest.mark.parametrize("name", SAME)
def test_functions_agree_with_numpy(name):
    same_elements(SAME[name](anp), SAME[name](np))


@few
@given(shapes, st.data())
def test_slices_of_any_step_agree_with_numpy(shape, data):
    array = numbered(*shape)
    ends = st.none() | st.integers(-8, 8)
    steps = st.none() | st.integers(-4, 4).filter(bool)
    keys = tuple(
        slice(data.draw(ends), data.draw(ends), data.draw(steps)) for _ in shape
    )
    same_elements(anp.asarray(array)[keys], array[keys])


def test_a_shift_that_the_model_computes_rolls():
    for shift in (-7, 0, 2, 9):
        same_elements(anp.roll(x, anp.asarray(shift), 1), np.roll(x, shift, 1))


BAD = {
    "negative size": (
        lambda: anp.zeros((2, -1)),
        "bad-shape",
        "0 or more; got [2, -1]",
    ),
    "size that is none": (lambda: anp.ones((2.5,)), "bad-shape", "integers; got 2.5"),
    "negative eye": (lambda: anp.eye(-2), "bad-shape", "0 or more"),
    "axis that is none": (lambda: anp.flip(x, 1.0), "bad-axis", "integer; got 1.0"),
    "axis out of range": (
        lambda: anp.roll(x, 1, 2),
        "bad-axis",
        "axis 2 is out of range",
    ),
    "same axis twice": (lambda: anp.diagonal(x, 0, 1, -1), "bad-axis", "named twice"),
    "two shifts for three axes": (
        lambda: anp.roll(cube, (1, 2), (0, 1, 2)),
        "bad-axis",
        "one shift per axis",
    ),
    "axes of rot90": (lambda: anp.rot90(cube, 1, (0, 1, 2)), "bad-axis", "two axes"),
    "reshape": (lambda: anp.reshape(x, (5, 2)), "shape-mismatch", "12 elements"),
    "resize": (lambda: anp.resize(x, (-1, 2)), "shape-mismatch", "0 or more"),
    "negative repeats": (lambda: anp.repeat(x, -1, 0), "bad-repeats", "got -1"),
    "repeats for others": (
        lambda: anp.repeat(x, [1, 2], 0),
        "shape-mismatch",
        "each of the 3",
    ),
    "negative tiles": (lambda: anp.tile(x, -2), "bad-repeats", "got -2"),
    "array for a list": (
        lambda: anp.concatenate(x),
        "shape-mismatch",
        "list of arrays",
    ),
    "nothing to stack": (lambda: anp.hstack([]), "shape-mismatch", "hstack needs"),
    "ranks": (
        lambda: anp.concatenate([x, cube]),
        "shape-mismatch",
        "cannot concatenate",
    ),
    "uneven block": (lambda: anp.block([[x], y]), "shape-mismatch", "equally deep"),
    "sections": (lambda: anp.array_split(x, 0), "shape-mismatch", "1 section or more"),
    "uneven split": (lambda: anp.split(x, 2), "shape-mismatch", "divide by 2"),
    "delete beyond": (
        lambda: anp.delete(x, [4], 1),
        "bad-index",
        "positions of axis 1",
    ),
    "delete one beyond": (lambda: anp.delete(x, 4, 1), "bad-index", "index 4"),
    "delete by floats": (
        lambda: anp.delete(x, [0.5, 1.0], 1),
        "bad-index",
        "integer indices",
    ),
    "step of 0": (lambda: anp.asarray(x)[::0], "bad-index", "a number but 0"),
    "diag of a cube": (lambda: anp.diag(cube), "shape-mismatch", "vector or a matrix"),
    "tril of a vector": (lambda: anp.tril(line), "bad-axis", "two axes"),
    "grid order": (
        lambda: anp.meshgrid(line, indexing="yx"),
        "bad-grid",
        "'xy' or 'ij'",
    ),
    "negative num": (lambda: anp.linspace(0, 1, -3), "bad-range", "0 or more; got -3"),
    "arrays as ends": (lambda: anp.linspace(x, 1), "bad-argument", "a number"),
    "ratio over zero": (lambda: anp.geomspace(-1, 1), "bad-range", "one sign"),
    "powers of a matrix": (lambda: anp.vander(x), "shape-mismatch", "vector"),
    "negative powers": (lambda: anp.vander(line, -1), "bad-shape", "0 or more"),
    "positions of another rank": (
        lambda: anp.ravel_multi_index((line,), (2, 3)),
        "shape-mismatch",
        "each of 2 axes",
    ),
    "cross of four": (lambda: anp.cross(x, y), "shape-mismatch", "3 elements"),
    "negative order": (lambda: anp.diff(x, -1), "bad-order", "got -1"),
    "one element": (lambda: anp.gradient(line[:1]), "shape-mismatch", "at least 2"),
    "steps": (lambda: anp.gradient(cube, 1.0, 2.0), "bad-spacing", "each of 3 axes"),
    "convolved matrices": (
        lambda: anp.convolve(x, line),
        "shape-mismatch",
        "two vectors",
    ),
    "mode": (lambda: anp.convolve(line, line, "half"), "bad-mode", "'full'"),
    "coefficients": (
        lambda: anp.polyval(x, 1.0),
        "shape-mismatch",
        "vector of fixed size",
    ),
    "matmul": (
        lambda: anp.matmul(x, y),
        "shape-mismatch",
        "4 and 3 of the summed axes",
    ),
    "tensordot": (lambda: anp.tensordot(x, y, 3), "bad-axis", "cannot sum over 3 axes"),
    "tensordot axes": (
        lambda: anp.tensordot(x, y, ([0], [0, 1])),
        "bad-axis",
        "as many",
    ),
    "dtypes": (lambda: anp.kron(x, line.astype("f8")), "dtype-mismatch", "do not mix"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_refused_by_name(name):
    call, code, words = BAD[name]
    with pytest.raises(InputError) as caught:
        call()
    assert caught.value.code == code
    assert words in caught.value.message
    assert caught.value.where.startswith("test_numpy_moving.py:")
