"""A traced function, run by the reference evaluator, gives what it gives at once."""

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import aotc
import aotc.numpy as anp
from aotc import reference
from aotc.errors import InputError
from aotc.tracing.assembly import trace
from aotc.tracing.entry import entry

few = settings(max_examples=15, deadline=None)
rng = np.random.default_rng(0)


def equal_traced(function, *arrays, least=0):
    """Trace with symbolic leading sizes, evaluate, compare with the eager result."""
    sizes = {len(x): aotc.Dim(f"n{len(x)}", min=least) for x in arrays if np.ndim(x)}
    specs = [
        aotc.Spec((sizes[len(x)], *x.shape[1:]) if x.ndim else (), x.dtype)
        for x in arrays
    ]

    @entry(xs=specs)
    def traced(xs):
        return function(*xs)

    program = trace([traced], {})
    results = reference.evaluate(program.module, "traced", arrays)
    eager = function(*map(anp.asarray, arrays))
    expected = eager if isinstance(eager, (list, tuple)) else [eager]
    for ours, at_once in zip(results, expected, strict=True):
        assert ours.dtype == np.asarray(at_once).dtype
        # products may be summed in another order
        np.testing.assert_allclose(ours, np.asarray(at_once), 1e-6, 1e-6)
    return program


# Functions of x: f32[n, 4], whose first size is not known.
ONE = {
    "exp": anp.exp,
    "reciprocal": lambda x: 1 / x,
    "whole division": lambda x: (x // 3, x % 3),
    "power": lambda x: (x**2, 2**x, x**0.5, x**-1),
    "clip": lambda x: anp.clip(x, -1, 1),
    "where": lambda x: anp.where(x > 0, x, 0.0),
    "sum": lambda x: (x.sum(), x.sum(0), x.sum(-1, keepdims=True)),
    "mean": lambda x: (x.mean(), x.mean(0), x.mean(1)),
    "var": lambda x: (anp.var(x, 0), anp.std(x, 1), anp.var(x, ddof=1)),
    "any": lambda x: (anp.any(x > 1, 0), anp.all(x > 1, 1)),
    "argmax": lambda x: (anp.argmax(x), anp.argmax(x, 1), anp.argmin(x, 0)),
    "reshape": lambda x: (x.reshape(-1), x.reshape(-1, 2), x.reshape(x.shape[0], -1)),
    "reshape by size": lambda x: x.reshape(2, x.shape[0], 2),
    "transpose": lambda x: (x.T, anp.swapaxes(x, 0, 1), anp.moveaxis(x, 0, -1)),
    "new axes": lambda x: (x[None], x[:, None], anp.expand_dims(x, -1)),
    "slices": lambda x: (x[:, 1:3], x[..., ::-2], x[:, -1], x[::-1]),
    "symbolic slices": lambda x: (x[1:], x[:-1], x[1:-1], x[::2], x[1::3], x[:2]),
    "symbolic ends": lambda x: (x[-1], x[-2:], x[-2:-1], x[0], x[-2::2]),
    "arange": lambda x: anp.arange(x.shape[0]) + anp.arange(1, x.shape[0] + 1),
    "arange in steps": lambda x: anp.arange(0, x.shape[0], 3),
    "sizes are numbers": lambda x: (
        x.sum() / x.shape[0],
        x * x.shape[0],
        x - (2 - x.size),
    ),
    "zeros": lambda x: (anp.zeros(x.shape), anp.full_like(x, 3), anp.eye(x.shape[0])),
    "triangles": lambda x: (anp.tril(x @ x.T), anp.triu(x @ x.T, 1)),
    "concatenate": lambda x: anp.concatenate([x, x[:1], x], 0),
    "stack": lambda x: (anp.stack([x, -x], 1), anp.hstack([x, x]), anp.vstack([x, x])),
    "split": lambda x: anp.split(x, 2, axis=1),
    "pad": lambda x: anp.pad(x, ((1, 0), (0, 2)), constant_values=1.5),
    "flip and roll": lambda x: (anp.flip(x), anp.roll(x, 1, 1), anp.roll(x, 1, 0)),
    "repeat and tile": lambda x: (anp.repeat(x, 3, 0), anp.tile(x, (2, 1))),
    "take": lambda x: (anp.take(x, [0, -1], 0), anp.take(x, [3, -4], 1)),
    "computed positions": lambda x: x[anp.argmax(x, 0)],
    "positions from the end": lambda x: x[anp.argmax(x, 0) - x.shape[0]],
    "matmul": lambda x: (x @ x.T, x.T @ x, anp.dot(x, x[0]), anp.inner(x, x)),
    "einsum": lambda x: anp.einsum("ni,mi,mj->nj", x, x, x),
    "astype": lambda x: (x.astype("i32"), (x > 0).astype(float), x.astype(anp.int8)),
    "constants": lambda x: x * np.array([1, 2, 3, 4], "f4") + [1, 2, 3, 4],
}


@pytest.mark.parametrize("name", ONE)
def test_functions_of_a_symbolic_size_give_what_they_give_at_once(name):
    for rows in (2, 5):
        equal_traced(ONE[name], rng.normal(size=(rows, 4)).astype("f4"), least=2)


@few
@given(data=st.data())
def test_operators_broadcast_symbolic_sizes(data):
    trailing = data.draw(hnp.mutually_broadcastable_shapes(num_shapes=2, max_dims=2))
    rows = data.draw(st.integers(0, 4))
    rank = max(map(len, trailing.input_shapes))
    shapes = [(rows, *(1,) * (rank - len(s)), *s) for s in trailing.input_shapes]
    x, y = (rng.normal(size=shape).astype("f4") for shape in shapes)
    equal_traced(lambda x, y: (x + y, x * y - x, x < y, anp.maximum(x, y)), x, y)


@few
@given(st.integers(0, 4), hnp.basic_indices((3, 4), allow_newaxis=True))
def test_any_basic_index_behind_a_symbolic_axis(rows, key):
    key = key if isinstance(key, tuple) else (key,)
    x = rng.normal(size=(rows, 3, 4)).astype("f4")
    equal_traced(lambda x: x[(slice(None), *key)], x)


def test_different_symbols_do_not_broadcast_and_the_error_names_them():
    with pytest.raises(InputError) as caught:
        equal_traced(lambda x, y: x + y, np.zeros((2, 3), "f4"), np.zeros((5, 3), "f4"))
    assert "sizes n2 and n5 are not provably equal" in caught.value.message


def test_an_element_that_the_contract_does_not_prove_is_refused():
    x = np.zeros((4, 3), "f4")
    for key in (1, -2):
        with pytest.raises(InputError) as caught:
            equal_traced(lambda x, key=key: x[key], x, least=1)
        error = caught.value
        assert error.code == "symbolic-size"
        assert "of axis 0 of f32[n4, 3] is not provably there" in error.message
        assert "promised: n4 >= 1" in error.message
        assert "aotc.Dim('n4', min=2)" in error.hint
        equal_traced(lambda x, key=key: x[key], x, least=2)


def test_a_table_can_be_cut_to_a_symbolic_length_within_its_bounds():
    table = np.arange(12, dtype="f4").reshape(6, 2)

    def traced(most):
        @entry(x=aotc.Spec((aotc.Dim("length", max=most), 2)))
        def cut(x):
            return table + 0 * x[:1], anp.asarray(table)[: x.shape[0]] + x

        return trace([cut], {}).module

    x = np.ones((4, 2), "f4")
    results = reference.evaluate(traced(6), "cut", [x])
    np.testing.assert_array_equal(results[1], table[:4] + 1)
    with pytest.raises(InputError, match=r"sizes min\(length, 6\) and length"):
        traced(7)


def test_a_reshape_that_no_contract_proves_is_refused():
    with pytest.raises(InputError, match="do not provably divide") as caught:
        equal_traced(lambda x: x.reshape(-1, 3), np.zeros((3, 4), "f4"))
    assert "n3 >= 0" in caught.value.message


def test_python_cannot_decide_on_a_symbolic_size():
    for decide in (
        lambda x: x if x.shape[0] > 3 else -x,
        lambda x: x[: int(x.shape[0])],
        lambda x: anp.stack([x[i] for i in range(x.shape[0])]),
        lambda x: len(x),
        lambda x: list(x),
        lambda x: anp.split(x, 2),
        lambda x: x[: 2 - x.shape[0]],
    ):
        with pytest.raises(InputError) as caught:
            equal_traced(decide, np.zeros((4, 3), "f4"))
        assert caught.value.code in ("symbolic-size", "shape-mismatch")
        assert "test_numpy_traced.py:" in caught.value.where


def test_a_large_array_is_no_constant():
    big = np.zeros(2 << 20, "f4")
    with pytest.raises(InputError, match="would become a constant") as caught:
        equal_traced(lambda x: x + big, np.zeros((), "f4"))
    assert "aotc.Weights" in caught.value.hint
