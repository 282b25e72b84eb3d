"""tabulate-bytes: functions of one byte are looked up, to the reference's last bit."""

import numpy as np
import pytest

import aotc.numpy as anp
from aotc import nn

STEP = np.float32(0.0371)


def floats(q, zero_point=3):
    return nn.dequantize(q, STEP, zero_point)


def quantized(x, zero_point=3, dtype="u8"):
    return nn.quantize(x, np.float32(0.013), zero_point, dtype)


def silu_in_parts(q):
    """As exporters quantise it: each op by itself."""
    gate = nn.dequantize(quantized(nn.sigmoid(floats(q))), np.float32(0.013), 3)
    return quantized(floats(q) * gate, -9, "i8")


EVERY = np.arange(256, dtype="u1").reshape(4, 64)


@pytest.mark.parametrize(
    "function",
    [
        lambda q: quantized(nn.gelu(floats(q))),
        lambda q: quantized(anp.tanh(floats(q, 200) * 0.5) + 0.25, 0, "i8"),
        silu_in_parts,
        lambda q: quantized(nn.elu(floats(q, 128))),
        lambda q: quantized(nn.relu(floats(q) * 0.3)),
        # the same in another order
        lambda q: quantized(nn.gelu(floats(anp.transpose(q)))),
    ],
)
@pytest.mark.parametrize("dtype", ["u8", "i8"])
def test_functions_of_one_byte_are_looked_up(model, function, dtype):
    network = model(function, f"{dtype}[4, 64]")
    network.run("simplify", "cse")
    given = EVERY.view(np.dtype(dtype[0] + "1"))
    (before,) = network(given)
    assert network.run("tabulate-bytes")
    assert [x for x in network.ops if x != "transpose"] == ["lookup"]
    np.testing.assert_array_equal(network(given)[0], before)
    assert not network.run("tabulate-bytes")


@pytest.mark.parametrize(
    "function",
    [
        # rounds alike everywhere, of what is in registers
        lambda p, q: quantized(nn.relu(floats(quantized(floats(p) + floats(q))) * 0.3)),
        # of two tensors
        lambda p, q: quantized(floats(p) * nn.sigmoid(floats(q))),
        lambda p, q: quantized(nn.softmax(floats(p))),
        # of numbers that a call decides
        lambda p, q: quantized(nn.sigmoid(floats(p)) * anp.astype(q[0, 0], "f32")),
        lambda p, q: anp.astype(nn.sigmoid(floats(p)), "i32"),
    ],
)
def test_others_are_left_to_floats(model, function):
    network = model(function, "u8[4, 64]", "u8[4, 64]")
    network.run("simplify", "cse")
    assert not network.run("tabulate-bytes")


def test_what_else_reads_a_part_keeps_it(model):
    def function(q):
        gate = nn.sigmoid(floats(q))
        return quantized(gate), gate

    network = model(function, "i8[4, 64]")
    network.run("simplify", "cse")
    before = network(EVERY.view("i1"))
    assert network.run("tabulate-bytes")
    assert network.ops.count("logistic") == network.ops.count("lookup") == 1
    for old, new in zip(before, network(EVERY.view("i1")), strict=True):
        np.testing.assert_array_equal(new, old)


def test_reshapes_move_past_lookups(model):
    def function(q):
        wide = anp.reshape(q, (4, 1, 64, 1))
        return anp.reshape(quantized(nn.gelu(floats(wide))), (4, 64))

    network = model(function, "u8[4, 64]")
    network.run("simplify", "cse", "tabulate-bytes", "sink-reshapes", "simplify")
    assert network.ops == ["lookup"]
