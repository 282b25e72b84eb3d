"""Gradient certificates: right rules pass, a wrong one is named with its line."""

import numpy as np
import pytest

import aotc
from aotc import control, nn
from aotc import numpy as anp
from aotc.certificate import certify
from aotc.dialects import OPS
from aotc.errors import CompileError
from aotc.frontends.assembly import trace

W = np.random.default_rng(0).normal(size=(4, 4)).astype("f4")
params = aotc.State({"w": W, "b": np.zeros(4, "f4")})
x = aotc.Spec(("n", 4))


def program(*losses):
    """One training entry for each loss of (params, x)."""

    def entry_of(number, loss):
        def entry(params, x):
            value, grads = aotc.value_and_grad(loss)(params, x)
            return {k: params[k] - 0.1 * grads[k] for k in params}, value

        entry.__name__ = f"train{number}"
        return aotc.entry(x=x, params=params)(entry)

    return trace([entry_of(*each) for each in enumerate(losses)], {})


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


def test_the_figures_of_right_rules_are_rounding():
    first, second = certify(program(smooth, straight_through))
    assert first.holds
    assert second.holds
    assert first.entry == "train0"
    assert first.where.startswith("test_certificate.py:")
    assert first.dot_product < 1e-12
    assert first.difference < 1e-8
    assert second.difference is None  # it stops gradients on purpose


def refused(*losses):
    with pytest.raises(CompileError) as caught:
        certify(program(*losses))
    assert caught.value.code == "wrong-derivative"
    return caught.value


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
    error = refused(lambda params, x: (anp.tanh(x @ params["w"]) ** 2).sum())
    assert "derivative of graph.tanh is wrong" in error.message
    assert error.where.startswith("test_certificate.py:")


def test_a_wrong_rule_of_the_users_is_named():
    @aotc.custom_vjp
    def cube(x):
        return x * x * x

    cube.defvjp(lambda x: (cube(x), x), lambda x, dy: (2.0 * x * dy,))
    error = refused(lambda params, x: (anp.exp(x) * cube(params["b"] + 1.0)).sum())
    assert "cube" in error.message


def test_a_program_without_gradients_has_no_certificates():
    @aotc.entry(x=x)
    def plain(x):
        return anp.exp(x)

    assert certify(trace([plain], {})) == []
