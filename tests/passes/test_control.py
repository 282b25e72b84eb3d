"""Control flow: the reference, derivatives and batches of loops and branches."""

import numpy as np
import pytest

import aotc
import aotc.numpy as anp
from aotc import control
from aotc.errors import CompileError, InputError
from aotc.pipeline import optimize


def power_series(x):
    """A scan that captures x, carries two values and stacks one."""

    def step(carried, weight):
        total, term = carried
        term = term * x
        return (total + weight * term, term), anp.sum(term)

    weights = np.array([0.5, -1.0, 2.0])
    (total, _), sums = control.scan(
        step, (anp.zeros_like(x), anp.ones_like(x)), weights
    )
    return anp.sum(total) + anp.sum(sums * sums)


def branches(x):
    big = control.cond(anp.sum(x) > 4.0, anp.sin, lambda v: v * v, x)
    index = anp.astype(anp.sum(x), "i32") % 3
    return anp.sum(big) + control.switch(
        index, [anp.sum, anp.prod, lambda v: anp.sum(v * x)], x
    )


def doubled_until_large(x):
    """A while loop whose number of steps depends on the values."""
    return anp.sum(
        control.while_loop(lambda v: anp.sum(v) < 50.0, lambda v: v * 2.0 + x, x)
    )


def bounded(x):
    """The same loop, which says how many steps it takes at most."""
    return anp.sum(
        control.while_loop(
            lambda v: anp.sum(v) < 50.0, lambda v: v * 2.0 + anp.sin(x), x, max_steps=9
        )
    )


def counted(x):
    return anp.sum(control.fori_loop(1, 4, lambda i, v: v * x + i.astype(v.dtype), x))


def nested(x):
    def outer(carried, row):
        inner = control.fori_loop(0, 3, lambda i, v: anp.sin(v) * row + carried, row)
        return carried + control.cond(
            anp.sum(inner) > 1.0, anp.sum, anp.max, inner
        ), None

    return control.scan(outer, anp.sum(x) * 0.0, x)[0]


SMOOTH = [power_series, branches, bounded, counted, nested]


def slopes_of(plain, x, step=1e-6):
    slopes = np.zeros_like(x)
    for index in np.ndindex(x.shape):
        ahead, behind = x.copy(), x.copy()
        ahead[index] += step
        behind[index] -= step
        slopes[index] = (plain(ahead)[0] - plain(behind)[0]) / (2 * step)
    return slopes


@pytest.mark.parametrize("function", [*SMOOTH, doubled_until_large])
def test_traced_control_flow_is_the_python_loop(model, function):
    traced = model(function, "f64[2, 3]")
    (x,) = traced.inputs()
    np.testing.assert_allclose(traced(x)[0], np.asarray(function(anp.asarray(x))))


@pytest.mark.parametrize("function", SMOOTH)
def test_reverse_mode_through(model, function):
    plain = model(function, "f64[2, 3]")
    graded = model(aotc.grad(function), "f64[2, 3]")
    graded.run("autodiff", "inline", "simplify", "cse")
    (x,) = plain.inputs()
    np.testing.assert_allclose(graded(x)[0], slopes_of(plain, x), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("function", [*SMOOTH, doubled_until_large])
def test_forward_mode_through(model, function):
    plain = model(function, "f64[2, 3]")
    tangent = np.cos(np.arange(6.0)).reshape(2, 3)
    pushed = model(lambda x: aotc.jvp(function, [x], [tangent])[1], "f64[2, 3]")
    pushed.run("autodiff", "inline", "simplify", "cse")
    (x,) = plain.inputs()
    expected = np.vdot(slopes_of(plain, x), tangent)
    np.testing.assert_allclose(pushed(x)[0], expected, rtol=1e-6)


@pytest.mark.parametrize("function", [power_series, bounded, counted, nested])
def test_second_derivatives_through(model, function):
    first = model(lambda x: anp.sum(aotc.grad(function)(x) ** 2.0), "f64[2, 3]")
    second = model(
        aotc.grad(lambda x: anp.sum(aotc.grad(function)(x) ** 2.0)), "f64[2, 3]"
    )
    first.run("autodiff", "inline")
    second.run("autodiff", "inline")
    (x,) = first.inputs()
    np.testing.assert_allclose(second(x)[0], slopes_of(first, x), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("function", [*SMOOTH, doubled_until_large])
def test_batched_control_flow_is_a_loop_over_it(model, function):
    alone = model(function, "f64[2, 3]")
    together = model(aotc.vmap(function), "f64[4, 2, 3]")
    together.run("autodiff", "inline")
    (stack,) = together.inputs()
    stack *= np.array([0.2, 0.6, 1.0, 2.0])[:, None, None]
    expected = [alone(x)[0] for x in stack]
    np.testing.assert_allclose(together(stack)[0], expected)


def test_gradients_for_each_example_are_a_batch_of_gradients(model):
    each = model(aotc.vmap(aotc.grad(nested)), "f64[3, 2, 3]")
    alone = model(aotc.grad(nested), "f64[2, 3]")
    each.run("autodiff", "inline")
    alone.run("autodiff", "inline")
    (stack,) = each.inputs()
    np.testing.assert_allclose(each(stack)[0], [alone(x)[0] for x in stack])


def test_sizes_of_loops_may_be_symbolic(model):
    def function(x):
        total, sums = control.scan(lambda c, row: (c + row, c * row), x[0], x)
        return total, sums, control.fori_loop(0, x.shape[0], lambda i, v: v + i, 0)

    traced = model(function, "f64[n, 3]", symbols=("n",))
    (x,) = traced.inputs()
    total, sums, steps = traced(x)
    np.testing.assert_allclose(total, x[0] + x.sum(0))
    assert sums.shape == (3, 3)
    assert steps == 3


def test_loops_of_no_steps_return_what_they_began_with(model):
    def function(x):
        last, stacked = control.scan(lambda c, row: (c * 2.0, row), x, x[:0])
        return last, stacked, control.while_loop(lambda v: anp.sum(v) < 0.0, anp.sin, x)

    traced = model(function, "f64[2, 3]")
    (x,) = traced.inputs()
    last, stacked, carried = traced(x)
    np.testing.assert_array_equal(last, x)
    np.testing.assert_array_equal(carried, x)
    assert stacked.shape == (0, 3)


def test_reverse_scan_stacks_in_the_order_of_its_elements(model):
    def function(x):
        return control.scan(
            lambda c, row: (c + row, c + row), x[0] * 0.0, x, reverse=True
        )

    traced = model(function, "f64[3, 2]")
    (x,) = traced.inputs()
    np.testing.assert_allclose(traced(x)[1], np.cumsum(x[::-1], 0)[::-1])


def test_reverse_mode_of_an_open_ended_loop_is_refused_with_the_reason(model):
    graded = model(aotc.grad(doubled_until_large), "f64[2, 3]")
    with pytest.raises(CompileError, match="this while cannot be differentiated") as e:
        graded.run("autodiff")
    assert "nobody knows how many" in e.value.message
    assert "max_steps" in e.value.hint
    assert "test_control.py" in e.value.where


@pytest.mark.parametrize("most", [0, 1, 2, 3, 30])
def test_a_bounded_loop_has_the_gradient_of_the_steps_that_it_takes(model, most):
    def function(x):  # a NaN soon after its end
        return control.while_loop(
            lambda v: v > 1.0, lambda v: x * anp.sqrt(v - 0.5), x, max_steps=most
        )

    def unrolled(x):
        v = x
        for _ in range(min(most, 2)):
            v = x * anp.sqrt(v - 0.5)
        return v

    x = np.array(1.2)
    found = model(aotc.value_and_grad(function), "f64[]")
    wanted = model(aotc.value_and_grad(unrolled), "f64[]")
    for each in (found, wanted):
        each.run("autodiff", "inline")
    np.testing.assert_allclose(found(x), wanted(x), rtol=1e-12)


def test_custom_derivatives_take_the_place_of_the_function_s_own(model):
    @aotc.custom_vjp
    def clipped(x):
        return x * x

    clipped.defvjp(
        lambda x: (clipped(x), x),
        lambda x, dy: (anp.clip(2.0 * x * dy, -1.0, 1.0),),
    )
    graded = model(aotc.grad(lambda x: anp.sum(clipped(x) * 3.0)), "f64[4]")
    graded.run("autodiff", "inline")
    x = np.array([0.1, -0.05, 5.0, -5.0])
    np.testing.assert_allclose(graded(x)[0], np.clip(6.0 * x, -1.0, 1.0))


def test_custom_forward_rules_serve_both_modes(model):
    @aotc.custom_jvp
    def soft(x):
        return anp.log(1.0 + anp.exp(x))

    soft.defjvp(
        lambda primals, tangents: (
            soft(*primals),
            2.0 * tangents[0] / (1.0 + anp.exp(-primals[0])),
        )
    )
    x = np.linspace(-2, 2, 4)
    expected = 2.0 / (1 + np.exp(-x))
    for derivative in (
        aotc.grad(lambda x: anp.sum(soft(x))),
        lambda x: aotc.jvp(soft, [x], [anp.ones_like(x)])[1],
        aotc.vmap(aotc.grad(soft)),
    ):
        traced = model(derivative, "f64[4]")
        traced.run("autodiff", "inline")
        np.testing.assert_allclose(traced(x)[0], expected)


def test_checkpointed_functions_keep_their_derivative(model):
    def function(x):
        return anp.sum(aotc.checkpoint(lambda v: anp.sin(v) * v)(x) ** 2.0)

    plain = model(function, "f64[3]")
    graded = model(aotc.grad(function), "f64[3]")
    graded.run("autodiff", "inline", "simplify", "cse")
    (x,) = plain.inputs()
    np.testing.assert_allclose(graded(x)[0], slopes_of(plain, x), rtol=1e-6)
    assert graded.ops.count("sin") == 2  # once more for the derivative


BAD = {
    "carry-mismatch": lambda x: control.scan(lambda c, r: (c[:, :2], None), x, x),
    "branch-mismatch": lambda x: control.cond(True, anp.sum, lambda v: v, x),
    "bad-condition": lambda x: control.cond(x, anp.sum, anp.sum, x),
    "bad-index": lambda x: control.switch(0.5, [anp.sum], x),
    "bad-length": lambda x: control.scan(lambda c, _: (c, None), x),
    "shape-mismatch": lambda x: control.scan(lambda c, _: (c, None), x, x, length=9),
    "bad-body": lambda x: control.scan(lambda c, r: c, x, x),
    "bad-bounds": lambda x: control.fori_loop(x, 3, lambda i, v: v, x),
}


@pytest.mark.parametrize("code", BAD)
def test_misuse_is_named(model, code):
    with pytest.raises(InputError) as e:
        model(BAD[code], "f64[2, 3]")
    assert e.value.code == code
    assert "test_control.py" in e.value.where


def test_control_flow_that_does_not_fit_its_functions_is_refused(model):
    traced = model(counted, "f64[2, 3]")
    text = str(traced.module)
    assert "carries = 1" in text
    with pytest.raises(InputError, match="the body returns") as e:
        optimize(text.replace("carries = 1", "carries = 2"), "")
    assert e.value.code == "bad-ir"
    with pytest.raises(InputError, match="which the module does not have"):
        optimize(text.replace("functions = [@f.step]", "functions = [@f.gone]"), "")


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("size", [1, 3, 5, 7])
def test_a_scan_in_segments_has_the_derivative_of_a_scan(model, size, reverse):
    def loss(x, checkpoint_every=None):
        def step(carried, each):
            carried = anp.sin(carried * 1.3 + each)
            return carried, carried * each

        last, ys = control.scan(
            step, x[0], x, reverse=reverse, checkpoint_every=checkpoint_every
        )
        return (anp.arange(7.0)[:, None] * ys).sum() + last.sum()

    def apart(x):
        plain, cut = (
            aotc.value_and_grad(lambda x, n=n: loss(x, n))(x) for n in (None, size)
        )
        return plain[0] - cut[0], plain[1] - cut[1]

    network = model(apart, "f32[7, 2]")
    network.run("autodiff")
    for difference in network(*network.inputs()):
        np.testing.assert_allclose(difference, 0.0, atol=1e-5)


def test_segments_need_a_fixed_number_of_steps(model):
    def total(x):
        return control.scan(lambda c, e: (c + e, None), x[0], x, checkpoint_every=2)[0]

    with pytest.raises(InputError, match="fixed number of steps"):
        model(total, "f32[n]", symbols=("n",))


def test_a_checkpoint_may_keep_its_products(model):
    def loss(x, w, save):
        layer = aotc.checkpoint(lambda x: anp.tanh(anp.sin(x) @ w), save=save)
        return layer(layer(x)).sum()

    def ops(save):
        network = model(
            aotc.value_and_grad(lambda x, w: loss(x, w, save)), "f32[4, 4]", "f32[4, 4]"
        )
        network.run("autodiff")
        network.keeps_meaning_under("inline", "simplify", "cse", "simplify")
        return network.ops

    nothing, products = ops("nothing"), ops("products")
    assert nothing.count("dot_general") == products.count("dot_general") + 2
    assert nothing.count("tanh") == products.count("tanh") == 4


def test_a_checkpoint_that_keeps_products_has_the_same_derivatives(model):
    def apart(x, w):
        def gradient(save):
            layer = aotc.checkpoint(lambda x: anp.tanh(anp.sin(x) @ w) @ w, save=save)
            each = aotc.vmap(lambda x: layer(x[None])[0])
            return aotc.grad(lambda x: aotc.grad(lambda x: each(x).sum())(x).sum())(x)

        return gradient("products") - gradient("nothing")

    network = model(apart, "f32[3, 4]", "f32[4, 4]")
    network.run("autodiff")
    np.testing.assert_allclose(network(*network.inputs())[0], 0.0, atol=1e-4)
