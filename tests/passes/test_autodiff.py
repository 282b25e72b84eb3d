"""autodiff: declared derivatives get bodies that agree with finite differences."""

import numpy as np
import pytest

import aotc
import aotc.numpy as anp
from aotc import nn
from aotc.errors import CompileError


def assert_gradient(model, function, *types, symbols=()):
    """The compiled-in gradients by all arguments equal central differences."""
    argnums = tuple(range(len(types)))
    plain = model(function, *types, symbols=symbols)
    graded = model(
        lambda *xs: aotc.grad(function, argnums)(*xs), *types, symbols=symbols
    )
    assert graded.run("autodiff")
    inputs = plain.inputs()
    for number, gradient in enumerate(graded(*inputs)):
        slopes = finite_differences(plain, inputs, number)
        np.testing.assert_allclose(gradient, slopes, rtol=1e-6, atol=1e-6)


def finite_differences(plain, inputs, number, step=1e-5):
    slopes = np.zeros_like(inputs[number])
    for index in np.ndindex(slopes.shape):
        moved = [
            [x.copy() if i == number else x for i, x in enumerate(inputs)]
            for _ in range(2)
        ]
        moved[0][number][index] += step
        moved[1][number][index] -= step
        high, low = (float(plain(*arrays)[0]) for arrays in moved)
        slopes[index] = (high - low) / (2 * step)
    return slopes


@pytest.mark.parametrize(
    "function",
    [
        lambda x: anp.sum(x * x + x * anp.exp(x)),
        lambda x: anp.sum(anp.tanh(anp.sin(x)) / (1.0 + x)),
        lambda x: anp.max(x) * anp.min(x),
        lambda x: anp.prod(x),
        lambda x: anp.sum(x**3.0),
        lambda x: anp.sum(nn.softmax(x) * x),
        lambda x: anp.mean(anp.concatenate([x, x * 2.0], 0) ** 2.0),
        lambda x: anp.sum(anp.where(x > 1.0, x * x, 3.0 * x)),
        lambda x: anp.sum(x[1:, ::2] * x[:-1, 1::2]),
    ],
)
def test_gradient_of(model, function):
    assert_gradient(model, function, "f64[3, 4]")


def test_uses_of_a_value_add_up(model):
    assert_gradient(model, lambda x: anp.sum(x * x * x + x), "f64[5]")


def test_broadcasting_is_undone_by_sums(model):
    def function(x, row, column, scalar):
        return anp.sum((x + row) * column * scalar)

    assert_gradient(model, function, "f64[3, 4]", "f64[4]", "f64[3, 1]", "f64[]")


def test_sizes_may_be_symbolic(model):
    def loss(x, w, b):
        return anp.mean(nn.relu(x @ w + b) ** 2.0)

    types = ("f64[n, 4]", "f64[4, 3]", "f64[3]")
    assert_gradient(model, loss, *types, symbols=("n",))


def test_a_negative_base_has_a_derivative(model):
    cube = model(aotc.grad(lambda x: anp.sum(x**3.0)), "f64[2]")
    cube.run("autodiff")
    (slopes,) = cube(np.array([-2.0, 3.0]))
    np.testing.assert_allclose(slopes, [12.0, 27.0])


def test_gradient_of_a_gradient(model):
    def slope(x):
        return anp.sum(aotc.grad(lambda v: anp.sum(anp.sin(v) * v))(x))

    second = model(aotc.grad(slope), "f64[4]")
    second.run("autodiff")
    x = second.inputs()[0]
    (curvature,) = second(x)
    np.testing.assert_allclose(curvature, 2 * np.cos(x) - x * np.sin(x), rtol=1e-12)


def test_values_that_do_not_depend_on_the_input_are_left_alone(model):
    def function(x, y):
        return anp.sum(x) + anp.sum(anp.exp(y))

    only_x = model(aotc.grad(function), "f64[2]", "f64[3]")
    only_x.run("autodiff", "inline", "simplify")
    assert "exp" not in only_x.ops
    assert only_x(*only_x.inputs())[0].tolist() == [1.0, 1.0]


def test_an_input_without_influence_has_a_zero_gradient(model):
    unused = model(aotc.grad(lambda x, y: anp.sum(y)), "f64[2]", "f64[3]")
    unused.run("autodiff")
    assert unused(*unused.inputs())[0].tolist() == [0.0, 0.0]


def test_stop_gradient_stops(model):
    def function(x):
        return anp.sum(x * nn.stop_gradient(x))

    stopped = model(aotc.grad(function), "f64[3]")
    stopped.run("autodiff")
    x = stopped.inputs()[0]
    np.testing.assert_array_equal(stopped(x)[0], x)


def test_keeps_the_value_beside_the_gradient(model):
    def both(x):
        return aotc.value_and_grad(lambda v: anp.sum(anp.exp(v)))(x)

    pair = model(both, "f64[3]")
    pair.run("autodiff")
    x = pair.inputs()[0]
    value, gradient = pair(x)
    np.testing.assert_allclose(value, np.exp(x).sum())
    np.testing.assert_allclose(gradient, np.exp(x))


def test_does_nothing_without_a_declared_derivative(model):
    plain = model(anp.exp, "f64[3]")
    assert not plain.run("autodiff")


def test_is_idempotent(model):
    graded = model(aotc.grad(lambda x: anp.sum(x * x)), "f64[3]")
    assert graded.run("autodiff")
    assert not graded.run("autodiff")


def test_a_missing_derivative_names_op_and_line(model, monkeypatch):
    from aotc.dialects import OPS
    from aotc.dialects.graph import NOT_DIFFERENTIABLE

    monkeypatch.setattr(OPS["sin"], "vjp", NOT_DIFFERENTIABLE("a test says so"))
    graded = model(aotc.grad(lambda x: anp.sum(anp.sin(x))), "f64[3]")
    with pytest.raises(CompileError, match="graph.sin cannot be differentiated") as e:
        graded.run("autodiff")
    assert e.value.code == "not-differentiable"
    assert "a test says so" in e.value.message
    assert e.value.where.startswith("test_autodiff.py:")
