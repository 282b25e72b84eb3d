"""A function of symbolic sizes gives, for every size, what it gives for numbers."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import aotc
import aotc.numpy as anp
from aotc import reference
from aotc.dialects.printer import format_module
from aotc.errors import InputError
from aotc.passes import run_passes
from aotc.tracing.assembly import trace

rng = np.random.default_rng(0)


def traced(function, *shapes):
    """The program of `function`, whose arguments have these shapes."""

    @aotc.entry(xs=[aotc.Spec(shape) for shape in shapes])
    def symbolic(xs):
        return function(*xs)

    return trace([symbolic], {})


def types_of(program):
    """The result types of a program, as people read them."""
    return format_module(program.module).split(" -> ")[1].split("   ")[0].strip()


def agrees(program, function, *shapes):
    """The program gives for arrays of these shapes what NumPy sizes give."""
    arrays = [rng.integers(-9, 9, shape).astype("f4") for shape in shapes]
    ours = reference.evaluate(program.module, "symbolic", arrays)
    at_once = function(*map(anp.asarray, arrays))
    at_once = at_once if isinstance(at_once, (list, tuple)) else [at_once]
    for one, other in zip(ours, at_once, strict=True):
        assert one.dtype == np.asarray(other).dtype
        np.testing.assert_allclose(one, np.asarray(other), 1e-5, 1e-5)


# Functions of x: f32[n, 4], n any size from 0.
ANY = {
    "starts": lambda x: (
        x[:3],
        x[2:],
        x[2:5],
        x[5:2],
        x[:-2],
        x[-3:],
        x[-5:-2],
        x[-2:3],
    ),
    "steps": lambda x: (
        x[::3],
        x[1:7:2],
        x[-4::3],
        x[::-1],
        x[::-2],
        x[5:1:-1],
        x[-2::-3],
    ),
    "halves": lambda x: (x[: x.shape[0] // 2], x[x.shape[0] // 2 :]),
    "parts join again": lambda x: anp.concatenate([x[:3], x[3:]]) + x,
    "differences": lambda x: (anp.diff(x, axis=0), anp.diff(x, 3, 0), anp.ediff1d(x)),
    "parts": lambda x: anp.array_split(x, 3),
    "cuts": lambda x: anp.split(x, [1, 4]),
    "roll": lambda x: (
        anp.roll(x, 3, 0),
        anp.roll(x, -5, 0),
        anp.roll(x, (2, 1), (0, 1)),
    ),
    "computed roll": lambda x: anp.roll(x, x.sum().astype("i32") % 7 - 3, 0),
    "turned": lambda x: (anp.rot90(x), anp.rot90(x, 2), anp.flipud(x), anp.fliplr(x)),
    "repeated": lambda x: (
        anp.repeat(x, 2, 0),
        anp.repeat(x, x.shape[0], 1),
        anp.tile(x, 2),
    ),
    "reshaped": lambda x: (
        x.reshape(-1, 2),
        x.reshape(2, -1),
        x.ravel(),
        x.reshape(-1, 1, 4),
    ),
    "counts": lambda x: (
        anp.arange(x.shape[0] + 2),
        anp.arange(0, x.size, 3),
        anp.arange(x.shape[0], -x.shape[0], -3),
        anp.arange(x.shape[0], 0, -2.0),
    ),
    "diagonals": lambda x: (
        anp.diagonal(x),
        anp.diagonal(x, -2),
        anp.diagonal(x.T),
        anp.diagonal(x @ x.T, 1),
        anp.diag(x[:, 0]),
        anp.diag(x[:, 0], -2),
        anp.trace(x @ x.T),
        anp.tril(x @ x.T),
    ),
    "grids": lambda x: (*anp.meshgrid(x[:, 0], x[0:3, 1]), anp.indices(x.shape)),
    "eyes": lambda x: (anp.eye(x.shape[0], 3), anp.tri(2, x.shape[0], 1)),
    "joined": lambda x: (
        anp.vstack([x, x[:2]]),
        anp.dstack([x, x]),
        anp.block([[x, x], [x, x]]),
    ),
    "inserted": lambda x: anp.append(x, x, 0),
    "convolved": lambda x: anp.convolve(anp.append(x[:, 0], 1.0), [1.0, 2.0, 3.0]),
    "products": lambda x: (
        anp.einsum("nd,nd->n", x, x),
        anp.einsum("nd,md->nm", x, x),
        anp.kron(x, x[:2]),
        anp.einsum("ii", x @ x.T),
        anp.outer(x[:, 0], x[:, 1]),
        anp.tensordot(x, x, 2),
    ),
    "padded": lambda x: (
        anp.pad(x, ((x.shape[0], 1), (0, 0))),
        anp.pad(x, ((0, 0), (2, 3)), "reflect"),
    ),
    "powers": lambda x: anp.vander(x[:, 0], 3),
    "positions": lambda x: anp.unravel_index(anp.arange(x.size), x.shape),
}


@pytest.mark.parametrize("name", ANY)
def test_functions_of_any_size(name):
    program = traced(ANY[name], (aotc.Dim("n", min=0), 4))
    for rows in (0, 1, 2, 3, 6, 11):
        agrees(program, ANY[name], (rows, 4))


# Functions of x: f32[n, 4], where n is 4, 8, 12 or more.
PROMISED = {
    "reshape": (lambda x: x.reshape(-1, 4, 4), "f32[n // 4, 4, 4]"),
    "reshape to halves": (lambda x: x.reshape(2, -1), "f32[2, n * 2]"),
    "split": (lambda x: anp.split(x, 2)[1], "f32[n // 2, 4]"),
    "every fourth": (lambda x: x[::4], "f32[n // 4, 4]"),
    "first": (lambda x: x[:3], "f32[3, 4]"),
    "last": (lambda x: x[-4:], "f32[4, 4]"),
    "one": (lambda x: x[3] + x[-4], "f32[4]"),
    "pad": (lambda x: anp.pad(x, ((3, 2), (0, 0)), "reflect"), "f32[n + 5, 4]"),
    "wrap": (lambda x: anp.pad(x, ((4, 0), (0, 0)), "wrap"), "f32[n + 4, 4]"),
    "windows": (lambda x: anp.convolve(x[:, 0], [1.0] * 4, "valid"), "f32[n - 3]"),
    "gradient": (lambda x: anp.gradient(x, axis=0), "f32[n, 4]"),
    "roll": (lambda x: anp.roll(x, -3, 0), "f32[n, 4]"),
    "branch": (lambda x: x * 2 if x.shape[0] > 3 else x, "f32[n, 4]"),
    "least": (lambda x: x[: min(x.shape[0], 3)], "f32[3, 4]"),
}


@pytest.mark.parametrize("name", PROMISED)
def test_contracts_decide_what_values_would(name):
    function, types = PROMISED[name]
    program = traced(function, (aotc.Dim("n", min=2, multiple_of=4), 4))
    assert types_of(program) == types
    for rows in (4, 8, 16):
        agrees(program, function, (rows, 4))


ends = st.none() | st.integers(-6, 6)
steps = st.sampled_from([None, 1, 2, 3, -1, -2])
slices = st.lists(st.builds(slice, ends, ends, steps), min_size=1, max_size=4)


@settings(max_examples=60, deadline=None)
@given(slices, st.integers(0, 3), st.sets(st.integers(0, 14), min_size=1, max_size=5))
def test_slices_of_slices_of_any_size(keys, least, sizes):
    def function(x):
        for key in keys:
            x = x[key]
        return x

    program = traced(function, (aotc.Dim("n", min=least),))
    for size in sizes:
        agrees(program, function, (size + least,))


def test_inputs_may_have_sizes_that_are_computed():
    n, m = aotc.Dim("n", min=2), aotc.Dim("m")

    def function(x, y):
        return x.reshape(2, -1)[1] + y[0, : x.shape[0] // 2], y[:, :1]

    program = traced(function, (2 * n,), (m + 1, n + 3))
    assert types_of(program) == "(f32[n], f32[m + 1, 1])"
    for size in (2, 5):
        agrees(program, function, (2 * size,), (4, size + 3))
    with pytest.raises(InputError, match="expected an array of type"):
        agrees(program, function, (5,), (4, 5))


@pytest.mark.parametrize(
    "size", [lambda n, m: n * n, lambda n, m: n + m, lambda n, m: 0 * n]
)
def test_a_size_that_no_input_decides_is_refused(size):
    n, m = aotc.Dim("n"), aotc.Dim("m")
    with pytest.raises(InputError) as caught:
        traced(lambda x: x, (size(n, m),))
    assert caught.value.code == "unbound-symbol"
    assert "says what 'n' is" in caught.value.message


def test_a_size_is_made_of_dims_and_ints():
    with pytest.raises(InputError, match=r"expected Dims and ints in a size; got 1.5"):
        aotc.Dim("n") * 1.5


def test_sizes_that_are_not_provably_equal_do_not_broadcast():
    with pytest.raises(InputError) as caught:
        traced(lambda x, y: x[1:] + y, ("n", 3), ("m", 3))
    error = caught.value
    assert "sizes n - 1 and m are not provably equal" in error.message
    assert "same name" in error.hint
    assert error.where.startswith("test_numpy_symbolic.py:")


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda x: x.reshape(-1, 3), "n * 4 elements do not provably divide by 3"),
        (lambda x: x.reshape(4, 4), "do not provably make 16"),
        (lambda x: anp.split(x, 2), "does not provably divide by 2"),
        (lambda x: x[x.shape[0] - 3 :], "may be negative"),
        (lambda x: x[:: x.shape[0]], "a slice step that is a number"),
        (lambda x: anp.pad(x, ((2, 0), (0, 0)), "reflect"), "not provably long enough"),
        (lambda x: anp.convolve(x[:, 0], [1.0, 2.0], "valid"), "not provably inside"),
        (lambda x: anp.gradient(x, axis=0), "at least 2 elements"),
        (lambda x: anp.resize(x, 3), "fixed sizes"),
        (lambda x: anp.delete(x, [0, 1], 0), "need its size fixed"),
        (lambda x: anp.repeat(x, [1, 2], 0), "one number of repeats for each"),
        (lambda x: x if x.shape[0] > 1 else -x, "'n > 1' is only known"),
        (lambda x: anp.zeros(5 // (x.shape[0] - 1)), "may be less than 1"),
        (lambda x: anp.polyval(x[:, 0], x), "vector of fixed size"),
    ],
)
def test_what_no_contract_proves_is_refused(function, words):
    with pytest.raises(InputError) as caught:
        traced(function, ("n", 4))
    assert words in caught.value.message
    assert caught.value.where.startswith("test_numpy_symbolic.py:")


def test_gradients_go_through_sizes_with_limits():
    def function(x):
        def loss(x):
            parts = [x[:3], x[-3:] * 2, x[5:1:-2], x[::3], anp.roll(x, 2, 0)[1:4]]
            parts += [anp.diagonal(x)[:, None], anp.pad(x, ((0, 0), (2, 1)), "reflect")]
            return sum((part**2).sum() for part in parts)

        return aotc.grad(loss)(x)

    program = traced(function, (aotc.Dim("n", min=0), 4))
    run_passes(program.module, ["autodiff", "inline", "simplify"])
    for rows in (0, 1, 2, 4, 9):
        x = rng.normal(size=(rows, 4)).astype("f4")
        (got,) = reference.evaluate(program.module, "symbolic", [x])
        weight = np.zeros((rows, 4), "f4")
        for part, factor in (
            (np.s_[:3], 1),
            (np.s_[-3:], 4),
            (np.s_[5:1:-2], 1),
            (np.s_[::3], 1),
        ):
            weight[part] += factor
        rolled = np.roll(np.arange(rows), 2)[1:4]
        weight[rolled] += 1
        weight += np.eye(rows, 4, dtype="f4") + [1, 2, 3, 1]
        np.testing.assert_allclose(got, 2 * weight * x, 1e-5, 1e-5)


CHOICES = {
    "max": lambda x: anp.max(x, 0),
    "min of all": lambda x: anp.min(x),
    "max of what a slice leaves": lambda x: anp.max(x[1:], 0),
    "argmax": lambda x: anp.argmax(x, 0),
    "argmin of all": lambda x: anp.argmin(x),
}


@pytest.mark.parametrize("name", CHOICES)
def test_chooses_only_among_elements_that_every_call_has(name):
    function = CHOICES[name]
    with pytest.raises(InputError, match="empty-reduction") as caught:
        traced(function, (aotc.Dim("n", min=0 if "slice" not in name else 1), 4))
    assert "promise" in str(caught.value.hint)
    program = traced(function, (aotc.Dim("n", min=2), 4))
    agrees(program, function, (2, 4))


def test_chooses_the_initial_value_where_a_call_has_no_elements():
    def function(x):
        return anp.max(x, 0, initial=-3.0), anp.min(x, 0, initial=3.0)

    program = traced(function, (aotc.Dim("n", min=0), 4))
    for size in (0, 1, 5):
        agrees(program, function, (size, 4))
