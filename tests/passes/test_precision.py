"""Mixed precision: products in the cheaper dtype, sums and exponentials in f32."""

import numpy as np
import pytest

import aotc
from aotc import control, nn
from aotc import numpy as anp
from aotc.core.dtypes import to_numpy
from aotc.errors import InputError


def mlp(x, w, b):
    h = anp.tanh(x @ w + b) * 0.5
    return nn.log_softmax(h @ w)


def ops_of(network):
    """The ops of `f` with the dtype of their first result."""
    function = network.module.body.operations[0]
    return [
        (op.operation.name.removeprefix("graph."), str(op.results[0].type)[-5:-1])
        for op in function.entry_block.operations
        if op.results
    ]


def test_each_op_computes_where_it_says(model):
    network = model(aotc.mixed_precision(mlp), "f32[5, 4]", "f32[4, 4]", "f32[4]")
    network.run("autodiff", "inline", "simplify", "cse")
    by_name = {}
    for name, dtype in ops_of(network):
        by_name.setdefault(name, set()).add(dtype)
    assert by_name["dot_general"] == {"bf16"}
    assert by_name["add"] == {"bf16"}  # a bias is an argument, which may be rounded
    assert by_name["tanh"] == {"bf16"}
    assert by_name["multiply"] == {"bf16"}  # a constant takes the dtype it meets
    assert by_name["log_softmax"] == {"xf32"}


@pytest.mark.parametrize(("dtype", "digits"), [("bf16", 2e-2), ("f16", 3e-3)])
def test_the_result_is_that_of_f32_but_for_rounding(model, dtype, digits):
    exact = model(mlp, "f32[5, 4]", "f32[4, 4]", "f32[4]")
    mixed = model(aotc.mixed_precision(mlp, dtype), "f32[5, 4]", "f32[4, 4]", "f32[4]")
    mixed.run("autodiff", "inline")
    inputs = exact.inputs()
    (wanted,), (found,) = exact(*inputs), mixed(*inputs)
    assert found.dtype == np.float32
    assert 0 < np.abs(found - wanted).max() < digits


def test_gradients_are_f32_and_near_those_of_f32(model):
    def loss(function):
        return lambda x, w, b: anp.mean(function(x, w, b) ** 2)

    types = ("f32[5, 4]", "f32[4, 4]", "f32[4]")
    exact = model(aotc.grad(loss(mlp), (1, 2)), *types)
    mixed = model(aotc.grad(loss(aotc.mixed_precision(mlp)), (1, 2)), *types)
    for network in (exact, mixed):
        network.run("autodiff", "inline")
    inputs = exact.inputs()
    for wanted, found in zip(exact(*inputs), mixed(*inputs), strict=True):
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, wanted, rtol=0.1, atol=2e-2)


def test_loops_branches_and_checkpoints_compute_in_it_too(model):
    def function(x, w):
        def step(h, _):
            h = anp.tanh(h @ w)
            return h, h.sum()

        last, sums = control.scan(step, x, length=3)
        chosen = control.cond(sums[0] > 0.0, lambda h: h @ w, lambda h: h, last)
        return aotc.checkpoint(lambda h: h @ w)(chosen), sums

    exact = model(function, "f32[4, 4]", "f32[4, 4]")
    mixed = model(aotc.mixed_precision(function), "f32[4, 4]", "f32[4, 4]")
    mixed.run("autodiff", "inline")
    assert "bf16" in str(mixed.module)
    inputs = exact.inputs()
    for wanted, found in zip(exact(*inputs), mixed(*inputs), strict=True):
        assert found.dtype == wanted.dtype
        np.testing.assert_allclose(found, wanted, rtol=5e-2, atol=5e-2)


def test_what_the_model_widened_stays_wide(model):
    def function(x, w):
        return (x @ w).astype("bf16").astype("f32") * 2.0, anp.arange(4) + 1

    network = model(aotc.mixed_precision(function), "f32[4, 4]", "f32[4, 4]")
    network.run("autodiff", "inline", "simplify")
    assert ("multiply", "xf32") in ops_of(network)


def test_what_a_norm_gives_stays_f32_until_it_meets_a_product(model):
    def function(x, w, scale):
        h = nn.layer_norm(x @ w, scale, scale)
        y = nn.layer_norm(h @ w + h, scale, scale)
        return nn.relu(y) @ w, anp.exp(y)

    network = model(aotc.mixed_precision(function), "f32[4, 8]", "f32[8, 8]", "f32[8]")
    network.run("autodiff", "inline", "simplify", "cse")
    by_name = {}
    for name, dtype in ops_of(network):
        by_name.setdefault(name, []).append(dtype)
    assert by_name["normalize"] == by_name["multiply"] == ["xf32", "xf32"]
    assert by_name["dot_general"] == ["bf16", "bf16", "bf16"]
    assert sorted(by_name["add"]) == ["bf16", "xf32", "xf32"]  # the sum of both; biases
    assert by_name["relu"] == ["bf16"]  # which rounds as well before as after
    assert by_name["exp"] == ["xf32"]


def test_the_derivative_of_gelu_has_the_digits_of_its_dtype(model):
    def slope(x):
        return aotc.grad(lambda x: nn.gelu(x).sum())(x)

    exact, narrow = model(slope, "f32[1000]"), model(slope, "bf16[1000]")
    for network in (exact, narrow):
        network.run("autodiff", "inline", "simplify", "cse")
    x = np.linspace(-4, 4, 1000).astype(to_numpy("bf16"))
    (wanted,), (found,) = exact(x.astype("f4")), narrow(x)
    assert found.dtype == x.dtype
    np.testing.assert_array_equal(found, wanted.astype(x.dtype))


def test_other_dtypes_are_left_alone(model):
    network = model(aotc.mixed_precision(lambda x: x @ x), "f64[4, 4]")
    network.run("autodiff", "inline")
    assert [name for name, _ in ops_of(network)] == ["dot_general"]


def test_a_dtype_that_is_not_cheaper_is_refused():
    with pytest.raises(InputError, match="bf16 or f16"):
        aotc.mixed_precision(mlp, "f32")
