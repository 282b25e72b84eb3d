"""Solvers: what they find, and its derivatives against those of dense solutions."""

import numpy as np
import pytest

import aotc
import aotc.numpy as anp
from aotc import linalg, solvers
from aotc.errors import InputError
from aotc.tracing.assembly import trace
from tests.aotc.referring import results_of

RNG = np.random.default_rng(3)
N = 5
DEFINITE = RNG.standard_normal((N, N))
DEFINITE = DEFINITE @ DEFINITE.T + N * np.eye(N)
GENERAL = DEFINITE + RNG.standard_normal((N, N))
VECTOR, WEIGHTS = RNG.standard_normal(N), RNG.standard_normal(N)
SMALL = 0.3 * RNG.standard_normal((N, N))


def run(function, *arrays):
    """What a traced function computes, by the reference."""

    @aotc.entry(xs=[aotc.Spec(x.shape, x.dtype) for x in arrays])
    def entry(xs):
        return function(*xs)

    return results_of(trace([entry], {}), *arrays)


def assert_same_calculus(one, other, *arrays):
    """Equal values, gradients of two orders, and forward derivatives."""

    def value_and_grad(function):
        return aotc.value_and_grad(function, (0, 1))

    def along(function):
        return lambda *xs: aotc.jvp(function, xs, tuple(x * 0.5 + 1 for x in xs))[1]

    def second(function):
        def squares(x, y):
            return anp.sum(aotc.grad(function)(x, y) ** 2)

        return aotc.grad(squares, (0, 1))

    for transformed in (value_and_grad, along, second):
        found, want = (run(transformed(f), *arrays) for f in (one, other))
        for x, y in zip(_leaves(found), _leaves(want), strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-8, atol=1e-9)


def _leaves(tree):
    if isinstance(tree, tuple):
        return [leaf for part in tree for leaf in _leaves(part)]
    return [tree]


# ---- linear_solve -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("matrix", "symmetric"),
    [(DEFINITE, True), (GENERAL, False)],
    ids=["cg", "bicgstab"],
)
def test_linear_solve_has_the_derivatives_of_a_dense_solution(matrix, symmetric):
    def varied(a):
        return (a + a.T) / 2 if symmetric else a

    def free(a, b):
        m = varied(a)
        x = solvers.linear_solve(lambda v: m @ v, b, symmetric=symmetric, tol=1e-13)
        return anp.sum(WEIGHTS * x**2)

    def dense(a, b):
        return anp.sum(WEIGHTS * linalg.solve(varied(a), b) ** 2)

    assert_same_calculus(free, dense, matrix, VECTOR)


def test_linear_solve_computes_outside_of_an_entry_and_on_any_shape():
    grid = RNG.standard_normal((3, 4))

    def laplacian(x):
        x = np.pad(np.asarray(x), 1)
        return (
            5 * x[1:-1, 1:-1] - x[2:, 1:-1] - x[:-2, 1:-1] - x[1:-1, 2:] - x[1:-1, :-2]
        )

    x = solvers.linear_solve(laplacian, grid, tol=1e-12)
    np.testing.assert_allclose(laplacian(x), grid, atol=1e-10)
    again = solvers.linear_solve(laplacian, grid, x0=x, tol=1e-8, maxiter=0)
    np.testing.assert_array_equal(np.asarray(again), np.asarray(x))


def test_linear_solve_of_zero_is_zero():
    x = solvers.linear_solve(lambda v: DEFINITE @ np.asarray(v), np.zeros(N))
    np.testing.assert_array_equal(np.asarray(x), np.zeros(N))


# ---- fixed_point and root -----------------------------------------------------------


def test_fixed_point_has_the_derivatives_of_many_repetitions():
    def implicit(w, b):
        def f(x, b):  # w is captured, b is a parameter
            return anp.tanh(w @ x) * 0.5 + b

        return anp.sum(solvers.fixed_point(f, anp.zeros_like(b), b, tol=1e-14) ** 2)

    def repeated(w, b):
        x = anp.zeros_like(b)
        for _ in range(50):
            x = anp.tanh(w @ x) * 0.5 + b
        return anp.sum(x**2)

    assert_same_calculus(implicit, repeated, SMALL, VECTOR)


def test_root_is_differentiated_by_the_implicit_function_theorem():
    def solution(a):
        return solvers.root(
            lambda x, p: x**3 + x - p["a"], anp.zeros_like(a), {"a": a}, tol=1e-12
        )

    a = RNG.standard_normal(3)
    x, slope = run(aotc.value_and_grad(lambda a: anp.sum(solution(a))), a)
    root = run(solution, a)
    np.testing.assert_allclose(root**3 + root, a, atol=1e-12)
    np.testing.assert_allclose(x, root.sum())
    np.testing.assert_allclose(slope, 1 / (3 * root**2 + 1))


def test_root_takes_a_solver_without_a_matrix():
    def free(matvec, b):
        return solvers.linear_solve(matvec, b, tol=1e-10)

    def solution(b):
        def f(x, b):
            return x**3 + DEFINITE @ x - b

        return solvers.root(f, anp.zeros_like(b), b, tol=1e-10, solve=free)

    x = run(solution, VECTOR)
    np.testing.assert_allclose(x**3 + DEFINITE @ x, VECTOR, atol=1e-9)
    slope = run(aotc.grad(lambda b: anp.sum(solution(b))), VECTOR)
    want = np.linalg.solve((DEFINITE + np.diag(3 * x**2)).T, np.ones(N))
    np.testing.assert_allclose(slope, want, atol=1e-8)


def test_solvers_are_mapped_over_their_parameters():
    def solution(b):
        return solvers.linear_solve(lambda v: DEFINITE @ v, b, tol=1e-12)

    stack = RNG.standard_normal((3, N))
    found = run(aotc.vmap(solution), stack)
    np.testing.assert_allclose(found, np.linalg.solve(DEFINITE, stack.T).T)


# ---- refused ------------------------------------------------------------------------


def test_refuses_functions_that_change_the_type():
    with pytest.raises(InputError, match=r"expected matvec\(x\) to return f64\[5\]"):
        solvers.linear_solve(lambda v: anp.sum(v), VECTOR)
    with pytest.raises(InputError, match=r"expected f\(x\) to return f64\[5\]"):
        solvers.fixed_point(lambda x: x[:2], VECTOR)
    with pytest.raises(InputError, match="expected x0 like b"):
        solvers.linear_solve(lambda v: v, VECTOR, x0=VECTOR[:2])
