"""Gradients inside of entries: what may be differentiated, and with what messages."""

import functools

import numpy as np
import pytest

import aotc
import aotc.numpy as anp
from aotc import optim, random
from aotc.errors import InputError
from aotc.tracing.assembly import trace
from tests.aotc.referring import results_of

X = np.array([0.5, -1.0, 2.0], "f4")
Y = np.array([3.0, 1.0, -2.0], "f4")
adam = optim.adam(1e-3)


def run(function, *arrays):
    """What a traced function computes, by the reference."""
    return results_of(traced(function, *arrays), *arrays)


def traced(function, *arrays):
    """The program of a function of arrays; its leading sizes are symbolic."""
    specs = [aotc.Spec((f"n{len(x)}", *x.shape[1:]), x.dtype) for x in arrays]

    @aotc.entry(xs=specs)
    def entry(xs):
        return function(*xs)

    return trace([entry], {})


def untraceable(function, *arrays):
    """The error that tracing ends in."""
    with pytest.raises(InputError) as caught:
        traced(function, *arrays)
    assert "test_transforms.py:" in caught.value.where
    return caught.value


def product(x, y):
    """A scalar of two vectors."""
    return (x * x * y).sum()


# ---- values and gradients -----------------------------------------------------------


def test_grad_is_the_derivative_by_the_first_argument():
    np.testing.assert_allclose(run(aotc.grad(product), X, Y), 2 * X * Y)


def test_value_and_grad_gives_both():
    value, grad = run(aotc.value_and_grad(product), X, Y)
    np.testing.assert_allclose(value, np.sum(X * X * Y))
    np.testing.assert_allclose(grad, 2 * X * Y)


@pytest.mark.parametrize("argnums", [0, 1, -1, (0,), (1, 0), (0, -1), [0, 1]])
def test_argnums_choose_arguments_and_the_form_of_the_gradient(argnums):
    by = {0: 2 * X * Y, 1: X * X}
    found = run(aotc.grad(product, argnums), X, Y)
    if isinstance(argnums, int):
        np.testing.assert_allclose(found, by[argnums % 2])
        return
    assert isinstance(found, tuple)
    assert len(found) == len(argnums)
    for grad, number in zip(found, argnums, strict=True):
        np.testing.assert_allclose(grad, by[number % 2])


def test_gradients_have_the_form_of_the_argument():
    def function(x, y):
        def loss(params):
            return product(params["x"], params["more"][0])

        return aotc.grad(loss)({"x": x, "more": (y, None)})

    found = run(function, X, Y)
    assert found["more"][1] is None
    np.testing.assert_allclose(found["x"], 2 * X * Y)
    np.testing.assert_allclose(found["more"][0], X * X)


def test_has_aux_returns_more_beside_the_scalar():
    def loss(x, y):
        return product(x, y), {"twice": 2 * x, "count": anp.asarray(x.ndim), "no": None}

    (value, aux), grad = run(aotc.value_and_grad(loss, has_aux=True), X, Y)
    np.testing.assert_allclose(value, np.sum(X * X * Y))
    np.testing.assert_allclose(aux["twice"], 2 * X)
    assert aux["count"] == 1
    assert aux["no"] is None
    np.testing.assert_allclose(grad, 2 * X * Y)
    alone, aux = run(aotc.grad(loss, has_aux=True), X, Y)
    np.testing.assert_allclose(alone, grad)
    np.testing.assert_allclose(aux["twice"], 2 * X)


def test_keyword_arguments_are_passed_on():
    def loss(x, *, y):
        return product(x, y)

    np.testing.assert_allclose(
        run(lambda x, y: aotc.grad(loss)(x, y=y), X, Y), 2 * X * Y
    )


def test_closures_see_arrays_around_them_as_constants():
    def function(x, y):
        scaled = y * 3
        return aotc.grad(lambda v: product(v, scaled))(x)

    np.testing.assert_allclose(run(function, X, Y), 2 * X * Y * 3)


def test_an_array_that_is_argument_and_captured_counts_once():
    def function(x, y):
        return aotc.grad(lambda v: product(v, x))(x)

    np.testing.assert_allclose(run(function, X, Y), 2 * X * X)


def test_gradients_of_gradients():
    def once(x, y):
        return (aotc.grad(product)(x, y) * x * x).sum()

    np.testing.assert_allclose(run(aotc.grad(once), X, Y), 6 * X * X * Y, rtol=1e-6)


def test_nested_gradients_capture_through_every_level():
    def function(x, y):
        def outer(v):
            inner = aotc.grad(lambda w: (w * w * w * y * v).sum())
            return (inner(v) * x).sum()

        return aotc.grad(outer)(x)

    # inner(v) = 3 v**2 y v with v captured twice, as argument and constant
    np.testing.assert_allclose(run(function, X, Y), 9 * X**2 * Y * X, rtol=1e-6)


def test_one_function_is_differentiated_twice_and_at_different_shapes():
    def function(x, y):
        loss = aotc.grad(lambda v: (v * v * v).sum())
        return loss(x), loss(y[:1]), loss(x) + loss(y)

    first, second, third = run(function, X, Y)
    np.testing.assert_allclose(first, 3 * X**2)
    np.testing.assert_allclose(second, 3 * Y[:1] ** 2)
    np.testing.assert_allclose(third, 3 * X**2 + 3 * Y**2)


def test_functions_without_a_plain_name_are_differentiated():
    class Loss:
        def __call__(self, x, y):
            return product(x, y)

    for loss in (Loss(), functools.partial(product), Loss().__call__):
        np.testing.assert_allclose(run(aotc.grad(loss), X, Y), 2 * X * Y)


def test_a_differentiated_function_may_be_named_as_an_entry():
    def entry(x):
        return (x * x).sum()

    np.testing.assert_allclose(run(lambda x: aotc.grad(entry)(x), X), 2 * X)


def test_names_in_the_ir_tell_who_differentiates_what():
    def function(x, y):
        return aotc.grad(product)(x, y) + aotc.grad(lambda v: product(v, y))(x)

    text = str(traced(function, X, Y).module)
    for name in (
        "entry.product",
        "entry.product.vjp",
        "entry.lambda",
        "entry.lambda.vjp",
    ):
        assert f"@{name}(" in text


def test_arguments_that_the_result_does_not_depend_on_have_zero_gradients():
    found = run(aotc.grad(lambda x, y: (y * y).sum()), X, Y)
    assert found.tolist() == [0, 0, 0]


def test_integers_may_be_arguments_beside_those_in_argnums():
    labels = np.array([0, 2], "i4")

    def loss(x, indices):
        return (x[indices] * x[indices]).sum()

    np.testing.assert_allclose(run(aotc.grad(loss), X, labels), [1, 0, 4])


def test_each_float_dtype_has_gradients():
    for dtype in ("f2", "f4", "f8"):
        x = X.astype(dtype)
        assert run(aotc.grad(lambda x: (x * x).sum()), x).dtype == dtype


# ---- Jacobians and linear functions -------------------------------------------------


def pair(x, y):
    """Two results of two vectors of different lengths."""
    return {"outer": anp.outer(x, y * y), "sum": (x**3).sum()}


def closed_form(x, y):
    """The Jacobian of `pair` by x and y, and its second derivatives by x of the sum."""
    outer_x = np.einsum("ik,j->ijk", np.eye(len(x)), y * y)
    outer_y = np.einsum("i,jk->ijk", x, np.diag(2 * y))
    return {
        "outer": (outer_x, outer_y),
        "sum": (3 * x**2, np.zeros_like(y)),
    }


@pytest.mark.parametrize("jacobian", [aotc.jacfwd, aotc.jacrev])
def test_jacobians_have_the_forms_of_results_and_arguments(jacobian):
    y = Y[:2]
    found, wanted = run(jacobian(pair, (0, 1)), X, y), closed_form(X, y)
    for name, parts in wanted.items():
        for got, want in zip(found[name], parts, strict=True):
            np.testing.assert_allclose(got, want, atol=1e-6)
    alone = run(jacobian(pair, 1), X, y)["outer"]
    np.testing.assert_allclose(alone, wanted["outer"][1], atol=1e-6)


@pytest.mark.parametrize(
    "twice",
    [
        aotc.hessian,
        lambda f: aotc.jacrev(aotc.jacfwd(f)),
        lambda f: aotc.jacrev(aotc.grad(f)),
        lambda f: aotc.jacfwd(aotc.jacfwd(f)),
    ],
)
def test_hessians_are_jacobians_of_gradients_in_either_mode(twice):
    found = run(twice(lambda x, y: (anp.outer(x, x) @ y).sum() * x[0]), X, Y)
    s, ones, e = X.sum(), np.ones(3), np.eye(3)[0]
    # f = x0 (sum x) (x·y)
    wanted = (X @ Y) * (np.outer(e, ones) + np.outer(ones, e))
    wanted = wanted + s * (np.outer(e, Y) + np.outer(Y, e))
    wanted = wanted + X[0] * (np.outer(ones, Y) + np.outer(Y, ones))
    np.testing.assert_allclose(found, wanted, rtol=1e-5)


def test_hvp_is_the_hessian_times_a_vector():
    def loss(params, y):
        return anp.sum(anp.tanh(params["x"]) * y * params["x"])

    def function(x, y):
        (product, _), whole = (
            aotc.hvp(loss, ({"x": x}, y), ({"x": y}, anp.zeros_like(y))),
            aotc.hessian(loss)({"x": x}, y)["x"]["x"],
        )
        return product["x"], whole @ y

    product, wanted = run(function, X, Y)
    np.testing.assert_allclose(product, wanted, rtol=1e-5)


def test_linearize_gives_a_linear_function_that_may_be_batched():
    def function(x, y):
        value, linear = aotc.linearize(lambda a, b: anp.sin(a) * b, x, y)
        basis = anp.eye(x.shape[0])
        return value, linear(y, x), aotc.vmap(linear)(basis, anp.zeros_like(basis))

    value, along, rows = run(function, X, Y)
    np.testing.assert_allclose(value, np.sin(X) * Y, rtol=1e-6)
    np.testing.assert_allclose(along, np.cos(X) * Y * Y + np.sin(X) * X, rtol=1e-5)
    np.testing.assert_allclose(rows, np.diag(np.cos(X) * Y), atol=1e-6)


def test_a_pullback_is_used_for_a_stack_of_cotangents():
    def function(x, y):
        _, pullback = aotc.vjp(lambda a: anp.outer(a, y).ravel(), x)
        return aotc.vmap(pullback)(anp.eye(x.shape[0] * x.shape[0]))

    (rows,) = run(function, X, Y)
    np.testing.assert_allclose(rows, np.kron(np.eye(3), Y[:, None]), atol=1e-6)


def test_jacobians_of_integers_are_refused_with_the_leaf():
    error = untraceable(aotc.jacrev(lambda x: {"n": x.astype("i32"), "x": x}), X)
    assert error.code == "not-differentiable"
    assert "result leaf 'n' of type i32[n3]" in error.message


# ---- what is refused ----------------------------------------------------------------


@pytest.mark.parametrize("argnums", [2, -3, (0, 0), (0, -2), (0, 5)])
def test_argnums_that_name_no_argument_or_one_twice_are_refused(argnums):
    error = untraceable(aotc.grad(product, argnums), X, Y)
    assert error.code == "bad-argnums"
    assert "2 positional arguments" in error.message


def test_integers_have_no_gradients_and_the_leaf_is_named():
    def function(x):
        return aotc.grad(lambda p: p["x"][0].sum())({"x": [x], "n": x.astype("i32")})

    error = untraceable(function, X)
    assert error.code == "not-differentiable"
    assert "leaf '0.n' of type i32[n3]" in error.message


@pytest.mark.parametrize(
    ("loss", "got"),
    [
        (lambda x: x, "f32[n3]"),
        (lambda x: anp.argmax(x), "i32[]"),
        (lambda x: (x.sum(), x), "tuple"),
        (lambda x: {"a": x.sum()}, "dict"),
        (lambda x: None, "NoneType"),
    ],
)
def test_a_result_that_is_no_float_scalar_is_refused(loss, got):
    error = untraceable(aotc.grad(loss), X)
    assert error.code == "not-a-scalar"
    assert f"got {got}" in error.message
    assert "has_aux=True" in error.hint


def twice(x):
    return {"a": x * 2, "b": x}


def pulled_back(cotangents):
    """What a pullback says of cotangents that its function does not have."""
    return lambda x: aotc.vjp(twice, x)[1](cotangents(x))


MISUSES = {
    "integers": (
        lambda x: aotc.grad(product)(x.astype("i32"), x),
        ("not-differentiable", "argument leaf '0' of type i32[n3]"),
    ),
    "integers of a Jacobian": (
        lambda x: aotc.jacfwd(twice)(x.astype("i32")),
        ("not-differentiable", "argument leaf '0' of type i32[n3]"),
    ),
    "a key": (
        lambda x: aotc.grad(lambda k: random.normal(k, ()))(random.key(0)),
        ("not-differentiable", "of type u32[2]"),
    ),
    "tangents of integers": (
        lambda x: aotc.jvp(lambda n: n * 2, (x.astype("i32"),), (x,)),
        ("not-differentiable", "argument leaf '0' of type i32[n3] has no tangent"),
    ),
    "names as argnums": (
        lambda x: aotc.grad(product, "x")(x, x),
        ("bad-argument", "'argnums' to be an integer or a list of integers; got 'x'"),
    ),
    "arguments by name": (
        lambda x: aotc.grad(product)(x=x, y=x),
        ("bad-argnums", "each of 0 positional arguments"),
    ),
    "aux without a pair": (
        lambda x: aotc.grad(lambda x: x.sum(), has_aux=True)(x),
        ("not-a-scalar", "must return (scalar, anything); got f32[]"),
    ),
    "aux that is no array": (
        lambda x: aotc.grad(lambda x: (x.sum(), {"t": "text"}), has_aux=True)(x),
        ("not-an-array", "got str as '1.t'"),
    ),
    "a text": (
        lambda x: aotc.grad(lambda x: "loss")(x),
        ("not-a-scalar", "got str"),
    ),
    "cotangents of other keys": (
        pulled_back(lambda x: {"a": x, "c": x}),
        ("tree-mismatch", "in the form {a: *, b: *}; got {a: *, c: *}"),
    ),
    "a list for a dict": (
        pulled_back(lambda x: [x, x]),
        ("tree-mismatch", "in the form {a: *, b: *}; got [*, *]"),
    ),
    "a cotangent of another shape": (
        pulled_back(lambda x: {"a": x, "b": x[:1]}),
        ("shape-mismatch", "cotangent of result leaf 'b': f32[n3]; got f32[1]"),
    ),
    "a cotangent of another dtype": (
        pulled_back(lambda x: {"a": x.astype("f64"), "b": x}),
        ("shape-mismatch", "cotangent of result leaf 'a': f32[n3]; got f64[n3]"),
    ),
    "too many tangents": (
        lambda x: aotc.jvp(twice, (x,), (x, x)),
        ("tree-mismatch", "tangents in the form (*); got (*, *)"),
    ),
    "an array as primals": (
        lambda x: aotc.jvp(twice, x, x),
        ("bad-argument", "expected primals as a tuple with one for each argument"),
    ),
    "gradients of other parameters": (
        lambda x: adam.update({"w": x}, adam.init({"w": x, "b": x})),
        ("tree-mismatch", "got {w: *} and {b: *, w: *}"),
    ),
    "moments of other shapes": (
        lambda x: adam.update({"w": x}, adam.init({"w": x[:1]})),
        ("shape-mismatch", "at 'w'; got f32[n3] and f32[1]"),
    ),
    "the state of another optimizer": (
        lambda x: adam.update({"w": x}, optim.sgd(0.1).init({"w": x})),
        ("bad-state", "a ScaleByAdamState; got ()"),
    ),
    "keys that are no texts": (
        lambda x: adam.update({1: x}, adam.init({"w": x})),
        ("bad-tree", "keys that are strings; got 1"),
    ),
}


@pytest.mark.parametrize("misuse", MISUSES)
def test_misuses_are_refused_where_they_happen(misuse):
    function, (code, said) = MISUSES[misuse]
    error = untraceable(function, X)
    assert error.code == code
    assert said in error.message
