"""inline: calls give way to the bodies they name."""

import pytest

import aotc
import aotc.numpy as anp
from aotc.errors import CompileError


def gradient(x):
    return aotc.grad(lambda v: anp.sum(anp.exp(v)))(x)


def test_replaces_calls_and_drops_private_functions(model):
    calls = model(gradient, "f32[3]")
    calls.run("autodiff")
    assert "func.call" in calls.ops
    calls.keeps_meaning_under("inline")
    assert "func.call" not in calls.ops
    assert len(list(calls.module.body.operations)) == 1


def test_leaves_a_module_without_calls_alone(model):
    plain = model(anp.exp, "f32[3]")
    assert not plain.run("inline")


def test_is_idempotent(model):
    calls = model(gradient, "f32[3]")
    assert calls.run("autodiff", "inline")
    assert not calls.run("inline")


def test_names_the_pass_that_has_to_come_first(model):
    calls = model(gradient, "f32[3]")
    assert not calls.run("inline")
    with pytest.raises(CompileError, match="has not been written yet") as failure:
        calls.run("lower-to-linalg")
    assert failure.value.code == "undefined-derivative"
    assert "autodiff" in failure.value.hint
