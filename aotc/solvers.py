"""Solutions of equations, differentiated by the equations that they solve.

The implicit function theorem gives the derivative of a solution x of f(x, p) = 0: it is
the solution dx of the linear equation ∂f/∂x dx = -∂f/∂p dp, whatever found x. So no
iteration is differentiated, and none of its values is kept. Blondel et al., "Efficient
and modular implicit differentiation", Advances in Neural Information Processing Systems
35 (2022).

A solver has three parts: a loop that finds x, on values without a derivative; a
function that returns x and has a derivative by the parameters; and the linear equation
of that derivative.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from aotc import control
from aotc import numpy as np
from aotc.core import dtypes
from aotc.core.pytree import PyTree, flatten
from aotc.linalg.solving import solve as solve_matrix
from aotc.tracing.array import Array
from aotc.tracing.calls import guard
from aotc.tracing.conversion import ArrayLike, as_float, lift
from aotc.tracing.custom import closure_convert, custom_jvp, custom_vjp
from aotc.tracing.execution import is_differentiated
from aotc.tracing.source_locations import fail
from aotc.tracing.tracing import emit
from aotc.transforms import jvp, vjp, vmap

__all__ = ["dense_solve", "fixed_point", "linear_solve", "root"]

Map = Callable[[Array], Array]
Iterate = Callable[[Map, Array, Array], Array]
Three = tuple[Array, Array, Array]  # what a loop carries
Five = tuple[Array, Array, Array, Array, Array]


# ---- linear equations ---------------------------------------------------------------


def linear_solve(
    matvec: Map,
    b: ArrayLike,
    *,
    x0: ArrayLike | None = None,
    symmetric: bool = True,
    tol: float = 1e-5,
    maxiter: int | None = None,
) -> Array:
    """Solve matvec(x) = b without a matrix.

    By conjugate gradients: Hestenes and Stiefel, Journal of Research of the National
    Bureau of Standards 49 (1952); where `matvec` is not symmetric, by BiCGSTAB: van der
    Vorst, SIAM Journal on Scientific and Statistical Computing 13 (1992). Derivatives
    by `b` and by what `matvec` captures solve with it, or with its transpose.

    Args:
        matvec: a linear function of arrays like `b`.
        b: an array of floats, of any shape.
        x0: where to start; zeros if not given. It has no derivative.
        symmetric: whether `matvec` is symmetric and positive definite.
        tol: how small the norm of b - matvec(x) is to be, relative to that of b.
        maxiter: the most steps to make; 10 times the number of elements if not given.
    """
    target = as_float(b)
    start = np.zeros_like(target) if x0 is None else as_float(x0)
    if start.type != target.type:
        fail("shape-mismatch", f"expected x0 like b, {target.type}; got {start.type}")
    method = _conjugate_gradients if symmetric else _bicgstab
    iterate = partial(method, tol=tol, maxiter=maxiter)
    checked = _with_result_like("matvec", matvec, target)
    if not is_differentiated():
        return iterate(checked, target, start)
    apply, captured = closure_convert(checked, target)
    equation = _Linear(apply, iterate, symmetric)
    fixed = [_constant(x) for x in captured]
    x = equation.solve_from(_constant(target), _constant(start), fixed)
    return equation.attach_derivative(x, target, captured)


class _Linear:
    """A linear equation apply(x, *captured) = b, with derivatives of its solution."""

    def __init__(
        self, apply: Callable[..., Array], iterate: Iterate, symmetric: bool
    ) -> None:
        self.apply = apply
        self.iterate = iterate
        self.symmetric = symmetric
        self._known = custom_jvp(lambda x, *_: x)
        self._known.defjvp(self._rule)
        self._solution: Any = None
        self._transpose: _Linear | None = None

    def solve_from(self, b: Array, start: Array, captured: Sequence[Array]) -> Array:
        """Return the solution, found by iteration from `start`."""
        found: Array = self.iterate(lambda x: self.apply(x, *captured), b, start)
        return found

    def attach_derivative(self, x: Array, b: Array, captured: Sequence[Array]) -> Array:
        """Return the solution x as a differentiable function of b and the captured
        arrays.
        """
        found: Array = self._known(x, b, list(captured))
        return found

    def _rule(
        self, primals: tuple[Any, ...], tangents: tuple[Any, ...]
    ) -> tuple[Array, Array]:
        """Solve A dx = db - dA x; return the solution and its tangent."""
        (x, b, captured), (_, db, dcaptured) = primals, tangents
        x, rest = self.attach_derivative(x, b, captured), db
        smooth = [i for i, part in enumerate(dcaptured) if part is not None]
        if smooth:
            moved = self._by_captured(x, captured, smooth)
            given = tuple(captured[i] for i in smooth)
            rest = db - jvp(moved, given, tuple(dcaptured[i] for i in smooth))[1]
        return x, self.solution(rest, captured)

    def solution(self, b: Array, captured: Sequence[Array]) -> Array:
        """Return the solution, with reverse-mode rules."""
        if self._solution is None:
            self._solution = custom_vjp(self._from_zero)
            self._solution.defvjp(self._forward, self._backward)
        found: Array = self._solution(b, list(captured))
        return found

    def _from_zero(self, b: Array, captured: Sequence[Array]) -> Array:
        """Return the solution, found by iteration from zeros."""
        return self.solve_from(b, np.zeros_like(b), captured)

    def _forward(
        self, b: Array, captured: Sequence[Array]
    ) -> tuple[Array, tuple[Array, Sequence[Array]]]:
        """Return the solution, and the residuals of the reverse-mode rule."""
        x = self.solution(b, captured)
        return x, (x, captured)

    def _backward(
        self, residuals: tuple[Array, Sequence[Array]], dx: Array
    ) -> tuple[Array, list[Array | None]]:
        """Return the cotangents of b and of the captured arrays."""
        x, captured = residuals
        db = self.transposed.solution(dx, captured)
        smooth = [i for i, part in enumerate(captured) if dtypes.is_float(part.dtype)]
        cotangents: list[Array | None] = [None] * len(captured)
        if smooth:
            moved = self._by_captured(x, captured, smooth)
            _, pullback = vjp(moved, *(captured[i] for i in smooth))
            for i, part in zip(smooth, pullback(-db), strict=True):
                cotangents[i] = part
        return db, cotangents

    @property
    def transposed(self) -> _Linear:
        """The equation of the transposed function."""
        if self.symmetric:
            return self
        if self._transpose is None:

            def apply_transpose(x: Array, *captured: Array) -> Array:
                _, pullback = vjp(lambda v: self.apply(v, *captured), np.zeros_like(x))
                (found,) = pullback(x)
                return lift(found)

            self._transpose = _Linear(apply_transpose, self.iterate, symmetric=False)
            self._transpose._transpose = self
        return self._transpose

    def _by_captured(
        self, x: Array, captured: Sequence[Array], float_indices: Sequence[int]
    ) -> Callable[..., Array]:
        """Return `apply` at a fixed x as a function of the captured floats."""

        def apply_to(*given: Array) -> Array:
            whole = list(captured)
            for i, part in zip(float_indices, given, strict=True):
                whole[i] = part
            return self.apply(x, *whole)

        return apply_to


def dense_solve(matvec: Map, b: ArrayLike) -> Array:
    """Solve matvec(x) = b by the matrix of the linear function `matvec`.

    For few elements: it is called on as many arrays as `b` has elements.
    """
    target = as_float(b)
    flat = np.ravel(target)
    if not isinstance(flat.size, int):
        fail("symbolic-size", f"expected 'b' of known size; got {target.type}")
    basis = np.reshape(np.eye(flat.size, dtype=flat.dtype), (flat.size, *target.shape))
    columns = np.reshape(vmap(matvec)(basis), (flat.size, flat.size))
    return np.reshape(solve_matrix(columns.T, flat), target.shape)


# ---- equations ----------------------------------------------------------------------


def fixed_point(
    f: Callable[..., Array],
    x0: ArrayLike,
    *params: PyTree,
    tol: float = 1e-5,
    maxiter: int = 1000,
    solve: Callable[[Map, Array], Array] | None = None,
) -> Array:
    """Solve x = f(x, *params) by fixed-point iteration.

    Args:
        f: of an array and of pytrees; returns an array like the first.
        x0: where to start. It has no derivative; `params`, and what `f` captures, have.
        params: what `f` takes further.
        tol: how small the norm of f(x) - x is to be, relative to that of x.
        maxiter: the most steps to make.
        solve: solves the linear equation of the derivative, (matvec, b) → x;
            `linear_solve` for functions that are not symmetric if not given.
    """

    def step(function: Map, carried: Three) -> Three:
        x, _, count = carried
        new = function(x)
        far = _norm(new - x) > tol * _norm(new)
        return new, far, count + 1

    def condition(carried: tuple[Array, ...]) -> Array:
        return carried[1] & (carried[2] < maxiter)

    def iterate(function: Map, start: Array) -> Array:
        first = (start, np.asarray(True), np.asarray(0))
        found: Array = control.while_loop(condition, partial(step, function), first)[0]
        return found

    inner = partial(linear_solve, symmetric=False, tol=tol) if solve is None else solve
    start = as_float(x0)
    function = _with_result_like("f", f, start)
    return _implicit(function, lambda x, y: x - y, iterate, inner, start, params)


def root(
    f: Callable[..., Array],
    x0: ArrayLike,
    *params: PyTree,
    tol: float = 1e-5,
    maxiter: int = 50,
    solve: Callable[[Map, Array], Array] = dense_solve,
) -> Array:
    """Solve f(x, *params) = 0 by Newton's method.

    Args:
        f: of an array and of pytrees; returns an array like the first.
        x0: where to start. It has no derivative; `params`, and what `f` captures, have.
        params: what `f` takes further.
        tol: how small the norm of f(x) is to be.
        maxiter: the most steps to make.
        solve: solves the linear equations of the steps and of the derivative,
            (matvec, b) → x; by the matrix of matvec if not given.
    """

    def step(function: Map, carried: Three) -> Three:
        x, value, count = carried
        new = x - solve(lambda v: jvp(function, (x,), (v,))[1], value)
        return new, function(new), count + 1

    def condition(carried: tuple[Array, ...]) -> Array:
        return (_norm(carried[1]) > tol) & (carried[2] < maxiter)

    def iterate(function: Map, start: Array) -> Array:
        first = (start, function(start), np.asarray(0))
        found: Array = control.while_loop(condition, partial(step, function), first)[0]
        return found

    start = as_float(x0)
    function = _with_result_like("f", f, start)
    return _implicit(function, lambda x, y: y, iterate, solve, start, params)


def _implicit(
    f: Callable[..., Array],
    residual: Callable[[Array, Array], Array],
    iterate: Callable[[Map, Array], Array],
    solve: Callable[[Map, Array], Array],
    start: Array,
    params: tuple[PyTree, ...],
) -> Array:
    """Find x by `iterate`, with derivatives by the equation residual(x, f(x)) = 0.

    Args:
        f: of x and params.
        residual: of x and f(x, …); what the solution makes 0.
        iterate: of a function of x alone and a start.
        solve: of a linear function and the right side.
        start: where to start.
        params: pytrees.
    """
    if not is_differentiated():
        found: Array = iterate(lambda x: f(x, *params), start)
        return found
    converted, captured = closure_convert(f, start, *params)
    more = (params, captured)

    def equation(x: Array, more: tuple[Sequence[PyTree], Sequence[Array]]) -> Array:
        return residual(x, converted(x, *more[0], *more[1]))

    def rule(
        primals: tuple[Any, ...], tangents: tuple[Any, ...]
    ) -> tuple[Array, Array]:
        (x, more), (_, dmore) = primals, tangents
        x, zero = with_rule(x, more), np.zeros_like(x)
        moved = jvp(equation, (x, more), (zero, dmore))[1]

        def by_x(v: Array) -> Any:
            return jvp(lambda u: equation(u, more), (x,), (v,))[1]

        return x, -solve(by_x, moved)

    with_rule = custom_jvp(lambda x, _: x)
    with_rule.defjvp(rule)
    leaves, structure = flatten(more)
    fixed = structure.unflatten([_constant(lift(leaf)) for leaf in leaves])
    x = iterate(lambda x: converted(x, *fixed[0], *fixed[1]), _constant(start))
    solution: Array = with_rule(x, more)
    return solution


# ---- iterations ---------------------------------------------------------------------


def _conjugate_gradients(
    matvec: Map, b: Array, start: Array, tol: float, maxiter: int | None
) -> Array:
    """Solve matvec(x) = b by conjugate gradients, from `start`."""
    enough, most = _dot(b, b) * tol**2, _iteration_limit(b, maxiter)

    def condition(carried: tuple[Array, ...]) -> Array:
        *_, size, count = carried
        return (size > enough) & (count < most)

    def step(carried: Five) -> Five:
        x, rest, direction, size, count = carried
        image = matvec(direction)
        length = _ratio(size, _dot(direction, image))
        x, rest = x + length * direction, rest - length * image
        new = _dot(rest, rest)
        return x, rest, rest + _ratio(new, size) * direction, new, count + 1

    rest = b - matvec(start)
    first = (start, rest, rest, _dot(rest, rest), np.asarray(0))
    found: Array = control.while_loop(condition, step, first)[0]
    return found


def _bicgstab(
    matvec: Map, b: Array, start: Array, tol: float, maxiter: int | None
) -> Array:
    """Solve matvec(x) = b by BiCGSTAB, from `start`."""
    enough, most = _dot(b, b) * tol**2, _iteration_limit(b, maxiter)
    rest = b - matvec(start)
    shadow = rest

    def condition(carried: tuple[Array, ...]) -> Array:
        return (_dot(carried[1], carried[1]) > enough) & (carried[-1] < most)

    def step(carried: Five) -> Five:
        x, rest, direction, product, count = carried
        image = matvec(direction)
        alpha = _ratio(product, _dot(shadow, image))
        half = rest - alpha * image
        second = matvec(half)
        omega = _ratio(_dot(second, half), _dot(second, second))
        x = x + alpha * direction + omega * half
        rest = half - omega * second
        new = _dot(shadow, rest)
        beta = _ratio(new, product) * _ratio(alpha, omega)
        direction = rest + beta * (direction - omega * image)
        return x, rest, direction, new, count + 1

    first = (start, rest, rest, _dot(rest, rest), np.asarray(0))
    found: Array = control.while_loop(condition, step, first)[0]
    return found


# ---- parts --------------------------------------------------------------------------


def _dot(x: Array, y: Array) -> Array:
    """Return the sum of the products of two arrays' elements."""
    return np.sum(x * y)


def _norm(x: Array) -> Array:
    """Return the Euclidean norm of an array's elements."""
    return np.sqrt(_dot(x, x))


def _ratio(x: Array, y: Array) -> Array:
    """Return x / y, and 0 where y is 0, as no step leads on from there."""
    zero = y == 0
    return np.where(zero, 0.0, x / np.where(zero, 1.0, y))


def _iteration_limit(b: Array, maxiter: int | None) -> Array | int:
    """Return `maxiter`, or 10 times the number of elements if it is None."""
    return 10 * np.asarray(b.size) if maxiter is None else maxiter


def _constant(x: Array) -> Array:
    """Return an array without a derivative."""
    return emit("stop_gradient", x) if dtypes.is_float(x.dtype) else x


def _with_result_like(
    name: str, function: Callable[..., ArrayLike], x: Array
) -> Callable[..., Array]:
    """Return a function wrapped to refuse results whose type is not that of `x`."""

    def check_type(*args: PyTree) -> Array:
        result = lift(function(*args))
        if result.type != x.type:
            fail(
                "shape-mismatch",
                f"expected {name}(x) to return {x.type}, as x is; got {result.type}",
            )
        return result

    return check_type


guard(globals(), __all__)
