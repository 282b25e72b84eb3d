"""Execution op by op: the same numbers as compiled code has, and Python sees them."""

import inspect

import numpy as np
import pytest

import aotc
from aotc import (
    collectives,
    complexes,
    control,
    debug,
    fft,
    linalg,
    nn,
    optim,
    random,
    solvers,
    special,
    transforms,
)
from aotc import numpy as anp
from aotc.errors import AotcError
from aotc.tracing.array import Array
from tests.aotc.executing import X, compiled, entry_of, error_here, wave

MODULES = (
    anp, nn, linalg, fft, special, random, control, solvers, collectives, debug,
    transforms, optim, complexes,
)  # fmt: skip

FUNCTIONS = {
    f"{module.__name__.removeprefix('aotc.')}.{name}": getattr(module, name)
    for module in MODULES
    for name in module.__all__
    if inspect.isfunction(getattr(module, name))
}


# ---- the two ways -------------------------------------------------------------------


def is_input(value):
    return isinstance(value, np.ndarray) and value.dtype.kind in "biuf"


def inputs_of(value):
    """The arrays among the arguments of a call."""
    if is_input(value):
        return [value]
    parts = value.values() if isinstance(value, dict) else value
    if isinstance(value, (list, tuple, dict)):
        return [array for part in parts for array in inputs_of(part)]
    return []


def with_inputs(value, arrays):
    """The arguments of a call with other arrays, which an iterator gives."""
    if is_input(value):
        return next(arrays)
    if type(value) in (list, tuple):
        return type(value)(with_inputs(part, arrays) for part in value)
    if type(value) is dict:
        return {name: with_inputs(part, arrays) for name, part in value.items()}
    return value


def array_leaves(tree):
    if isinstance(tree, complexes.Complex):
        return [tree.real, tree.imag]
    if isinstance(tree, (list, tuple)) or type(tree) is dict:
        parts = tree.values() if isinstance(tree, dict) else tree
        return [leaf for part in parts for leaf in array_leaves(part)]
    return [tree] if isinstance(tree, Array) else []


def outcome(run):
    try:
        return [np.asarray(x) for x in run()]
    except AotcError as error:
        return error.code


def require_same(function, arrays, rtol=None):
    """Hold an entry's execution to its graph; returns what both give."""
    declared = entry_of(function, arrays)
    expected = outcome(lambda: compiled(declared, arrays))
    found = outcome(lambda: declared(list(arrays)))
    if isinstance(expected, str) or isinstance(found, str):
        assert found == expected
        return found
    assert [x.dtype for x in found] == [x.dtype for x in expected]
    assert [x.shape for x in found] == [x.shape for x in expected]
    for x, y in zip(found, expected, strict=True):
        if rtol is None:
            assert x.tobytes() == np.ascontiguousarray(y).tobytes()
        else:
            np.testing.assert_allclose(x, y, rtol=rtol, atol=rtol)
    return found


def called(function, call):
    """A function of the arrays of a call, with the rest of it as it is."""

    def run(*arrays):
        args, kwargs = with_inputs(call, iter(arrays))
        result = function(*args, **kwargs)
        if inspect.isfunction(result):
            result = result(*arrays[:1] or [anp.ones(3)])
        return array_leaves(result)

    return run


# ---- every public function ----------------------------------------------------------

# Sums in another order: NumPy's of a constant that does not lie in order, and the steps
# of a loop that the derivative of the graph adds up at the end.
ROUNDED = {"fft.idct", "nn.gru"}

# The graph has no reverse mode of it without max_steps; a tape has the steps.
ONLY_ON_TAPES = {"control.while_loop"}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_function_executes_to_what_its_graph_gives(name, calls):
    call, rtol = calls[name], 1e-6 if name in ROUNDED else None
    require_same(called(FUNCTIONS[name], call), inputs_of(call), rtol)


@pytest.mark.parametrize("name", sorted(FUNCTIONS.keys() - ONLY_ON_TAPES))
def test_gradients_on_the_tape_are_those_of_the_graph(name, calls):
    call, rtol = calls[name], 1e-6 if name in ROUNDED else None
    arrays = inputs_of(call)
    smooth = [i for i, x in enumerate(arrays) if x.dtype.kind == "f"]
    if not smooth:
        return

    def loss(floats, *given):
        whole = list(given)
        for i, x in zip(smooth, floats, strict=True):
            whole[i] = x
        results = called(FUNCTIONS[name], call)(*whole)
        sums = [x.sum() for x in results if x.dtype == "f32"]
        return sum(sums, anp.asarray(0.0))

    def gradients(*given):
        return aotc.grad(loss)([given[i] for i in smooth], *given)

    require_same(gradients, arrays, rtol)


# ---- what Python sees ---------------------------------------------------------------


def test_arrays_print_index_convert_and_decide_branches():
    seen = []

    @aotc.entry(x=aotc.Spec(3))
    def entry(x):
        total = x.sum()
        seen.append(
            (repr(x), float(total), int(total), bool(total > 1), f"{total:.1f}")
        )
        seen.append((x.tolist(), np.asarray(x[1:]), x[0].item(), len(x)))
        return x * 2 if total > 1 else x

    result = entry(X)
    assert seen[0][0] == "Array(array([ 0.5, -1. ,  2. ], dtype=float32))"
    assert seen[0][1:] == (1.5, 1, True, "1.5")
    assert seen[1][0] == [0.5, -1.0, 2.0]
    np.testing.assert_array_equal(seen[1][1], X[1:])
    assert seen[1][2:] == (0.5, 3)
    assert isinstance(result, Array)
    np.testing.assert_array_equal(result, 2 * X)
    np.testing.assert_array_equal(np.sort(result), np.sort(2 * X))


def test_a_differentiated_function_runs_once_and_has_values():
    seen = []

    def loss(x):
        seen.append(np.asarray(x))
        return (x * x).sum() if x[0] > 0 else -x.sum()

    np.testing.assert_array_equal(aotc.grad(loss)(X), 2 * X)
    np.testing.assert_array_equal(aotc.grad(loss)(-X), -np.ones(3))
    assert len(seen) == 2
    np.testing.assert_array_equal(seen[0], X)


def test_bodies_of_loops_run_once_for_each_step_and_have_values():
    seen = []

    def step(carried, x):
        seen.append(x)
        return carried * x, carried + x

    def function(xs):
        product, sums = control.scan(step, anp.asarray(1.0), xs)
        return product + sums.sum()

    declared = entry_of(lambda xs: [function(xs), aotc.grad(function)(xs)], [X])
    found = declared([X])
    assert list(map(float, seen)) == [0.5, -1.0, 2.0] * 2
    for x, y in zip(found, compiled(declared, [X]), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-6)


def test_loops_by_values_and_branches_are_those_of_python():
    def halved(x):
        return control.while_loop(lambda v: v.max() > 0.1, lambda v: v / 2, x)

    def chosen(x):
        return control.cond(x[0] > 0, anp.exp, anp.sin, x)

    def counted(x):
        return control.fori_loop(0, 3, lambda i, v: v * x + i, x)

    require_same(lambda x: [halved(x), chosen(x), chosen(-x), counted(x)], [X])
    gradient = aotc.grad(lambda x: halved(x).sum())(X)
    np.testing.assert_array_equal(gradient, np.full(3, 1 / 32, "f4"))


def test_debug_functions_act_at_once(capsys):
    debug.print("x = {:.1f}", X)
    assert capsys.readouterr().err == "x = [0.5 -1.0 2.0]\n"

    @aotc.entry(x=aotc.Spec(3))
    def entry(x):
        debug.print("sum {}", x.sum())
        debug.check(x > 0, "all are positive")
        return x

    with pytest.raises(AotcError, match="all are positive") as caught:
        entry(X)
    assert caught.value.code == "assertion-failed"
    assert "test_eager.py:" in caught.value.where
    assert capsys.readouterr().err == "sum 1.5\n"


def test_a_gradient_prints_what_its_function_does_and_once(capsys):
    def loss(x):
        debug.print("{}", x[0])
        return x.sum()

    aotc.grad(lambda x: aotc.grad(loss)(x).sum())(X)
    assert capsys.readouterr().err == "0.5\n"


# ---- derivatives --------------------------------------------------------------------


def test_derivatives_nest_in_any_order():
    first, second = aotc.grad(wave), aotc.grad(lambda x: aotc.grad(wave)(x).sum())

    def derivatives(x):
        value, pullback = aotc.vjp(first, x)
        again, push = aotc.linearize(first, x)
        return [
            second(x),
            aotc.grad(lambda x: second(x).sum())(x),
            aotc.hessian(wave)(x),
            aotc.jacrev(first)(x),
            aotc.jacfwd(anp.tanh)(x),
            value,
            *pullback(x),
            again,
            push(x),
            *aotc.hvp(wave, (x,), (x,)),
            aotc.jvp(second, (x,), (x,))[1],
            aotc.vmap(aotc.grad(lambda v: anp.sin(v) * v))(x),
            aotc.grad(lambda x: aotc.vmap(lambda v: v * x)(x).sum())(x),
            aotc.grad(aotc.checkpoint(wave))(x),
        ]

    require_same(derivatives, [X], rtol=1e-6)


def test_mixed_precision_rounds_what_the_compiled_model_rounds():
    w = np.linspace(-1, 1, 12, dtype="f4").reshape(4, 3)

    def loss(w, x):
        h = anp.exp(x @ w * 2.0)
        assert h.dtype == "f32"
        return (h @ w.T).mean()

    def function(w, x):
        cheaper = aotc.mixed_precision(loss)
        return [cheaper(w, x), aotc.grad(cheaper)(w, x)]

    value, grad, _ = require_same(function, [w, w.T.copy()])
    assert value != np.asarray(loss(anp.asarray(w), w.T.copy()))
    assert grad.dtype == "f4"


def test_rules_of_ones_own_run_on_values():
    seen = []

    def backward(x, d):
        seen.append(float(d.sum()))
        return (2 * d * anp.cos(x) if x[0] > 0 else d,)

    doubled = aotc.custom_vjp(anp.sin)
    doubled.defvjp(lambda x: (anp.sin(x), x), backward)
    np.testing.assert_allclose(
        aotc.grad(lambda x: doubled(x).sum())(X), 2 * np.cos(X), rtol=1e-6
    )
    assert seen == [3.0]
    second = aotc.grad(lambda x: aotc.grad(lambda x: doubled(x).sum())(x).sum())
    np.testing.assert_allclose(second(X), -2 * np.sin(X), rtol=1e-6)
    error = error_here(lambda x: aotc.jvp(doubled, (x,), (x,)), X)
    assert error.code == "not-differentiable"


def test_rules_of_forward_mode_serve_both():
    tripled = aotc.custom_jvp(anp.sin)
    tripled.defjvp(lambda p, t: (tripled(p[0]), 3 * t[0] * anp.cos(p[0])))

    def function(x):
        slope = aotc.grad(lambda x: tripled(x).sum())
        return [
            slope(x),
            aotc.grad(lambda x: slope(x).sum())(x),
            aotc.jvp(tripled, (x,), (x,))[1],
        ]

    first, *_ = require_same(function, [X])
    np.testing.assert_allclose(first, 3 * np.cos(X), rtol=1e-6)


def test_solutions_are_differentiated_by_their_equations():
    matrix = np.array([[2, 0.5, 0], [0.5, 3, 0], [0, 0, 1]], "f4")

    def solve(a, b):
        return solvers.linear_solve(lambda v: a @ v, b).sum()

    def cube_root(b):
        return solvers.root(lambda v: v * v * v - b, b).sum()

    def cosine(b):
        return solvers.fixed_point(lambda v: anp.cos(b * v), b).sum()

    def function(a, b):
        return [*aotc.grad(solve, (0, 1))(a, b), aotc.grad(cosine)(b), cube_root(b + 3)]

    require_same(function, [matrix, X], rtol=1e-4)
    found = aotc.grad(cube_root)(X + 3)
    np.testing.assert_allclose(found, (X + 3) ** (-2 / 3) / 3, rtol=1e-5)


# ---- types and sizes ----------------------------------------------------------------


def test_all_kinds_of_elements_have_the_dtypes_of_compiled_code():
    small = np.array([100, -100, 27], "i1")
    flags = np.array([True, False, True])

    def function(x, small, flags):
        half = x.astype("bf16")
        return [
            half * 1.001 + 1,
            (half @ half).astype("f32"),
            small + small,
            small.astype("f32") / 3,
            flags.sum(),
            flags & (x > 0),
            anp.where(flags, x, small.astype("f32")),
            x.astype("i8"),
            x.astype("f16").sum(),
            aotc.grad(lambda h: (h * h).sum().astype("f32"))(half),
        ]

    require_same(function, [X, small, flags])


@pytest.mark.parametrize("count", [0, 1])
def test_empty_and_single_rows_execute(count):
    xs = np.ones((count, 3), "f4")

    def function(xs):
        last, rows = control.scan(lambda c, x: (c + x.sum(), {"y": c * x}), 1.0, xs)
        return [
            last,
            rows["y"],
            aotc.vmap(lambda x: x.sum())(xs),
            aotc.grad(lambda xs: (xs * xs).sum())(xs),
            aotc.jacrev(lambda xs: xs * 2)(xs),
            control.map(anp.exp, xs),
        ]

    require_same(function, [xs])
