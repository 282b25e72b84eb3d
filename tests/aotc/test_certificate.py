"""Gradient certificates: right rules pass, a wrong one is named with its line."""

import numpy as np
import pytest

import aotc
from aotc import control, nn
from aotc import numpy as anp
from aotc.checks.certificate import certify
from aotc.dialects import OPS
from aotc.errors import CompileError
from aotc.machine.target import Target
from aotc.passes.update_in_place import UpdateInPlace
from aotc.tracing.assembly import trace
from aotc.tracing.deferred_arrays import compute_when_read
from tests.refusals import refusal

W = np.random.default_rng(0).normal(size=(4, 4)).astype("f4")
params = aotc.State({"w": W, "b": np.zeros(4, "f4")})
x = aotc.Spec(("n", 4))


def training(*losses):
    """One training entry for each loss of (params, x)."""
    return stepping(*(aotc.value_and_grad(loss) for loss in losses))


def stepping(*gradients):
    """One training entry for each function of (params, x) with (value, gradient)."""

    def entry_of(number, gradient):
        def entry(params, x):
            value, grads = gradient(params, x)
            return {k: params[k] - 0.1 * grads[k] for k in params}, value

        entry.__name__ = f"train{number}"
        return aotc.entry(x=x, params=params)(entry)

    return trace([entry_of(*each) for each in enumerate(gradients)], {})


def smooth(params, x):
    """Products, a loop, a branch and a checkpoint."""

    def step(h, _):
        return anp.tanh(h @ params["w"] + params["b"]), None

    h, _ = control.scan(step, x, length=3)
    h = control.cond(h[0, 0] > 10.0, anp.zeros_like, lambda h: h * 2.0, h)
    return aotc.checkpoint(nn.softmax)(h).var()


def straight_through(params, x):
    """Rounded forward, and not backward."""
    h = x @ params["w"]
    return (h + nn.stop_gradient(anp.round(h) - h)).sum()


def test_weights_that_are_computed_when_they_are_read_are_certified():
    fixed = aotc.Weights({"w": compute_when_read(lambda x: x * 2.0, W)})

    @aotc.entry(x=x, params=params, fixed=fixed)
    def train(params, fixed, x):
        def loss(params):
            return anp.tanh(x @ fixed["w"] @ params["w"] + params["b"]).var()

        value, grads = aotc.value_and_grad(loss)(params)
        return {k: params[k] - 0.1 * grads[k] for k in params}, value

    (found,) = certify(trace([train], {}))
    assert found.holds


def test_the_figures_of_right_rules_are_rounding():
    first, second = certify(training(smooth, straight_through))
    assert first.holds
    assert second.holds
    assert first.entry == "train0"
    assert first.where.startswith("test_certificate.py:")
    assert first.dot_product < 1e-12
    assert first.difference < 1e-8
    assert first.remat < 1e-12
    assert first.missed[0].startswith("zeros_like (test_certificate.py:")
    assert second.difference is None  # it stops gradients on purpose
    assert second.remat is None  # it has no checkpoint


def layer(params, x):
    """The loss of one layer, whose size the arguments need not say."""
    return (anp.tanh(x @ params["w"] + params["b"]) ** 2).sum()


def test_passes_for_a_target_know_what_a_certificate_is_compiled_for(monkeypatch):
    right, targets = UpdateInPlace.run, []

    def note_target(self, unit):
        targets.append(unit.target)
        return right(self, unit)

    monkeypatch.setattr(UpdateInPlace, "run", note_target)
    certify(training(layer))
    assert targets == [Target.parse("cpu")]


gradient = aotc.value_and_grad(layer)


def in_a_loop(params, x):
    def step(now, _):
        value, grads = gradient(now, x)
        return {k: now[k] - 0.1 * grads[k] / x.shape[0] for k in now}, value

    return control.scan(step, params, length=2)[1].sum(), params


def in_branches(params, x):
    return control.cond(
        x.sum() < 1e6,
        lambda p: gradient(p, x),
        lambda p: aotc.value_and_grad(lambda p: -layer(p, x))(p),
        params,
    )


def of_each_row(params, x):
    values, grads = aotc.vmap(gradient, (None, 0))(params, x)
    return values.sum(), {k: grads[k].sum(0) for k in grads}


def of_its_own_gradient(params, x):
    return aotc.value_and_grad(lambda p: (gradient(p, x)[1]["w"] ** 2).sum())(params)


def curved(params, x):
    curvature = aotc.hessian(lambda b: layer({**params, "b": b}, x))(params["b"])
    return curvature.sum(), {**params, "b": curvature.sum(0)}


def by_newton(params, x):
    def iterated(b):
        return control.while_loop(lambda y: y.sum() < 9.0, lambda y: y + anp.exp(b), b)

    return x.sum(), {**params, "b": aotc.jvp(iterated, (params["b"],), (x[0],))[1]}


def test_derivatives_are_found_wherever_an_entry_takes_them():
    found = certify(
        stepping(
            in_a_loop,
            in_branches,
            aotc.checkpoint(gradient),
            of_each_row,
            of_its_own_gradient,
            curved,
            by_newton,
            aotc.mixed_precision(gradient),
            aotc.value_and_grad(aotc.mixed_precision(layer)),
        )
    )
    assert [int(each.entry[-1]) for each in found] == [
        0,
        1,
        1,
        2,
        3,
        4,
        4,
        5,
        5,
        6,
        7,
        8,
    ]
    assert all(each.holds for each in found)
    (away,) = (each for each in found if not each.reached)
    assert away.entry == "train1"
    assert away.difference is None
    assert "NOT CHECKED" in str(away)
    for each in found:
        if each is not away:
            assert each.difference < 1e-8
            assert (each.dot_product is None) == (each.entry == "train6")


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_no_number_at_the_inputs_is_not_checked_and_no_rule_is_blamed(value):
    def lost(params, x):
        h = anp.sqrt(-1.0 - (x @ params["w"]) ** 2)  # NaN, and its slopes are
        return anp.sum(anp.where(anp.isnan(h), value, h))

    (found,) = certify(training(lost))
    assert not found.reached
    assert "NOT CHECKED" in str(found)


def wrong_derivative(*losses):
    """The error of a certificate of these losses."""
    return refusal(CompileError, "wrong-derivative", certify, training(*losses))


@pytest.mark.parametrize(
    "rules",
    [
        {"vjp": lambda b, op, dy: [dy]},
        {"jvp": lambda b, op, dx: dx, "vjp": lambda b, op, dy: [dy]},  # they agree
    ],
)
def test_an_op_with_a_wrong_rule_is_named_with_its_line(monkeypatch, rules):
    for name, rule in rules.items():
        monkeypatch.setattr(OPS["tanh"], name, staticmethod(rule))

    def loss(params, x):
        def step(h, _):
            return anp.tanh(h @ params["w"]), None

        return (control.scan(step, x, length=2)[0] ** 2).sum()

    error = wrong_derivative(loss)
    assert "derivative of graph.tanh is wrong" in error.message
    assert error.where.startswith("test_certificate.py:")


def test_compiled_code_that_dies_is_a_failure_at_the_derivative(
    monkeypatch, deadly_lowering
):
    monkeypatch.setattr(OPS["tanh"], "lower", deadly_lowering)
    with pytest.raises(CompileError, match="died of SIGFPE") as caught:
        certify(training(layer))
    assert caught.value.code == "compiled-code-died"
    assert caught.value.where.startswith("test_certificate.py:")


def test_a_wrong_rule_of_the_users_is_named():
    @aotc.custom_vjp
    def cube(x):
        return x * x * x

    cube.defvjp(lambda x: (cube(x), x), lambda x, dy: (2.0 * x * dy,))
    error = wrong_derivative(
        lambda params, x: (anp.exp(x) * cube(params["b"] + 1.0)).sum()
    )
    assert "cube" in error.message


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_forward_rule_of_the_users_that_gives_no_numbers_is_refused(value):
    @aotc.custom_vjp
    def cube(x):
        return x * x * x

    cube.defvjp(lambda x: (cube(x) * value, x), lambda x, dy: (3.0 * x * x * dy,))
    wrong_derivative(lambda params, x: cube(params["b"] + 1.0).sum())


def test_a_program_without_gradients_has_no_certificates():
    @aotc.entry(x=x)
    def plain(x):
        return anp.exp(x)

    assert certify(trace([plain], {})) == []
