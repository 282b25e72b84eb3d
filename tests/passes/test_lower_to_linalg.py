"""lower-to-linalg: what crosses to IREE is upstream MLIR only."""

import pytest

import aotc
import aotc.numpy as anp
from aotc.backend.crossing import require_upstream_only
from aotc.errors import CompileError


def mlp(x, w):
    return anp.sum(anp.tanh(x @ w) * 0.5, axis=0)


def test_leaves_no_graph_op_and_no_symbolic_type(model):
    network = model(mlp, "f32[n, 4]", "f32[4, 2]", symbols=("n",))
    network.run("lower-to-linalg")
    require_upstream_only(network.module)
    assert "affine_map<()[s0] -> (s0, 4)>" not in str(network.module)
    assert "tensor<?x4xf32>" in str(network.module)


def test_reads_each_symbol_once_from_the_first_input_that_is_it(model):
    network = model(mlp, "f32[n, 4]", "f32[4, 2]", symbols=("n",))
    network.run("lower-to-linalg")
    assert str(network.module).count("tensor.dim") == 1


def test_unsigned_integers_lose_their_sign(model):
    sums = model(lambda x: x + x, "u8[3]")
    sums.run("lower-to-linalg")
    assert "ui8" not in str(sums.module)


def test_an_empty_result_is_not_computed(model):
    empty = model(lambda x: anp.exp(x[2:2]), "f32[2]")
    empty.run("lower-to-linalg")
    assert "math.exp" not in str(empty.module)


def test_refuses_a_symbol_that_no_size_decides(model):
    odd = model(lambda x: x * 2.0, "f32[4]", symbols=("n",))
    with pytest.raises(CompileError, match="no size of an input says what 'n' is"):
        odd.run("lower-to-linalg")


def test_refuses_calls_and_says_what_to_run(model):
    calls = model(aotc.grad(lambda v: anp.sum(v * v)), "f32[3]")
    with pytest.raises(CompileError) as failure:
        calls.run("autodiff", "lower-to-linalg")
    assert failure.value.code == "not-lowered"
    assert "'inline'" in failure.value.hint
