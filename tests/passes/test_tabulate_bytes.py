"""tabulate-bytes: functions of one byte are looked up, to the reference's last bit.

Those that change no byte are dropped.
"""

import numpy as np
import pytest

import aotc
import aotc.numpy as anp
from aotc import nn
from aotc.dialects.functions.functions import functions_of
from aotc.dialects.patterns.values import splat_of
from aotc.passes import run_passes
from aotc.passes.base import Unit
from aotc.tracing.assembly import trace

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
        lambda q: quantized(nn.elu(floats(q, 60))),
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
        # of two tensors, of which neither is approximated
        lambda p, q: quantized(floats(p) * nn.relu(floats(q))),
        lambda p, q: (quantized(y := floats(p) * nn.sigmoid(floats(q))), y),
        # whose result is read as floats, rounded to fine steps, or scaled by a call
        lambda p, q: (quantized(y := nn.softmax(floats(p))), y),
        lambda p, q: nn.quantize(nn.softmax(floats(p)), np.float32(1e-6), 0, "u8"),
        lambda p, q: quantized(nn.softmax(floats(p)) * floats(q)),
        # of bytes that stand for numbers that are not as far apart
        lambda p, q: quantized(nn.softmax(floats(p) * floats(p))),
        lambda p, q: quantized(nn.softmax(-floats(p))),
        lambda p, q: quantized(nn.softmax(floats(p) + 1e4)),
        # of numbers that a call decides
        lambda p, q: quantized(nn.relu(floats(p)) * anp.astype(q[0, 0], "f32")),
        lambda p, q: anp.astype(nn.sigmoid(floats(p)), "i32"),
    ],
)
def test_others_are_left_to_floats(model, function):
    network = model(function, "u8[4, 64]", "u8[4, 64]")
    network.run("simplify", "cse")
    assert not network.run("tabulate-bytes")


def test_a_weight_of_one_element_is_a_number():
    """As exporters store the steps of quantised activations."""

    @aotc.entry(q=aotc.Spec((4, 64), "u8"), steps=aotc.Weights({"in": STEP}))
    def entry(steps, q):
        return quantized(nn.gelu(nn.dequantize(q, steps["in"], 3)))

    program = trace([entry], {})
    run_passes(Unit(program), ["simplify", "cse", "tabulate-bytes"])
    assert "graph.lookup" in str(program.module)


def test_what_is_one_number_for_all_bytes_is_that(model):
    def function(q):
        soft = nn.softplus(nn.dequantize(q, np.float32(1e-6), 3))
        gate = quantized(soft * 9.0)
        return gate, quantized(soft * nn.relu(floats(q, 0) * floats(gate)))

    network = model(function, "u8[4, 64]")
    network.run("simplify", "cse")
    before = network(EVERY)
    assert network.run("tabulate-bytes", "simplify", "cse", "tabulate-bytes") is False
    *_, end = functions_of(network.module)["f"].entry_block.operations
    assert splat_of(end.operands[0]) == 255
    for old, new in zip(before, network(EVERY), strict=True):
        np.testing.assert_array_equal(new, old)


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


@pytest.mark.parametrize(
    ("function", "approximated"),
    [
        (lambda p, q: quantized(floats(p) * nn.sigmoid(floats(q))), "logistic"),
        (
            lambda p, q: quantized(anp.tanh(floats(p[:, :1])) + nn.relu(floats(q))),
            "tanh",
        ),
    ],
)
def test_approximated_functions_of_one_byte_are_looked_up_beside_others(
    model, function, approximated
):
    network = model(function, "u8[4, 64]", "u8[4, 64]")
    network.run("simplify", "cse")
    assert approximated in network.ops
    before = network(EVERY, EVERY[::-1])
    assert network.run("tabulate-bytes")
    assert network.ops.count("lookup") == 1
    assert approximated not in network.ops
    np.testing.assert_array_equal(network(EVERY, EVERY[::-1])[0], before[0])
    assert not network.run("tabulate-bytes")


@pytest.mark.parametrize(
    ("step", "level"), [(0.0371, 2.0**-8), (1e-4, 2.0**-10), (3.0, 2.0**-8)]
)
@pytest.mark.parametrize("dtype", ["u8", "i8"])
def test_softmax_of_bytes_is_that_of_exact_shares(model, step, level, dtype):
    def function(q):
        x = nn.dequantize(anp.transpose(q), np.float32(step), 3)
        moved = anp.reshape(nn.softmax(x, axis=0), (2, 25, 300))
        return nn.quantize(moved, np.float32(level), 0, "u8")

    network = model(function, f"{dtype}[50, 300]")
    network.run("simplify", "cse")
    rng = np.random.default_rng(5)
    few = rng.random((50, 300)) < rng.random((50, 1)) ** 4
    bits = np.where(few, rng.integers(0, 256, (50, 300)), rng.integers(0, 20, (50, 1)))
    given = bits.astype("u1").view(np.dtype(dtype[0] + "1"))
    assert network.run("tabulate-bytes")
    assert "byte_softmax" in network.ops
    assert "softmax" not in network.ops
    (found,) = network(given)
    x = np.float64(np.float32(step)) * given.T
    e = np.exp(x - x.max(0))
    p = (e / e.sum(0)).reshape(2, 25, 300)
    bound = (300 * p + 1) * 2.0**-25 + p * 2.0**-22
    low, high = (np.clip(np.rint((p + s * bound) / level), 0, 255) for s in (-1, 1))
    assert ((low <= found) & (found <= high)).all()
    assert (low == high).mean() > 0.99
    assert not network.run("tabulate-bytes")


# ---- those that change nothing ------------------------------------------------------


def levels(x, scale=STEP, zero_point=3, dtype="u8"):
    return nn.dequantize(nn.quantize(x, scale, zero_point, dtype), scale, zero_point)


@pytest.mark.parametrize(
    "move",
    [
        lambda x: anp.transpose(x, (1, 0, 2)),
        lambda x: anp.reshape(x, (6, 4)),
        lambda x: anp.flip(x, 2)[:, 1:],
        lambda x: anp.take(x, 1, axis=0),
        lambda x: anp.broadcast_to(x[:, :1], (2, 3, 4)),
        # no movement, but all levels stay what they are
        lambda x: (x * np.float32(2)) / np.float32(2),
        lambda x: anp.minimum(x, np.float32(99)),
    ],
)
@pytest.mark.parametrize("kind", [(3, "u8"), (-128, "i8"), (255, "u8")])
def test_bytes_are_moved_that_come_out_as_they_went_in(model, move, kind):
    def function(x):
        once = levels(move(levels(x, STEP, *kind)), STEP, *kind)
        return levels(once, STEP, *kind), once

    network = model(function, "f32[2, 3, 4]")
    network.run("simplify", "cse")
    assert network.ops.count("round_even") == 3
    network.keeps_meaning_under("tabulate-bytes", "simplify", "cse")
    assert network.ops.count("round_even") == 1
    assert not network.run("tabulate-bytes")


@pytest.mark.parametrize(
    "between",
    [
        lambda x: levels(x, STEP, 4),  # saturates at another end
        lambda x: levels(x, STEP * 2),
        lambda x: levels(x, STEP, 3, "i8"),
        lambda x: levels(nn.relu(x)),
        lambda x: levels(x + anp.transpose(x)),
        lambda x: levels(anp.sum(x, 0, keepdims=True)),
    ],
)
def test_bytes_that_change_are_quantised_again(model, between):
    network = model(lambda x: between(levels(x)), "f32[4, 4]")
    network.run("simplify", "cse")
    assert not network.run("tabulate-bytes")


@pytest.mark.parametrize("kind", [(0, "i8"), (3, "u8")])
def test_what_is_read_of_an_empty_axis_is_a_float_zero(model, kind):
    def function(x, i):
        return levels(anp.take(levels(x, STEP, *kind), i, axis=0), STEP, *kind)

    network = model(function, "f32[n, 4]", "i32[2]", symbols=["n"])
    network.run("simplify", "cse")
    assert network.run("tabulate-bytes") == (kind[0] == 0)
    empty, i = np.zeros((0, 4), "f4"), np.zeros(2, "i4")
    assert (network(empty, i)[0] == 0).all()


def test_bytes_are_moved_before_they_are_looked_up(model):
    def function(q):
        gate = quantized(nn.sigmoid(floats(q)))
        moved = anp.transpose(nn.dequantize(gate, np.float32(0.013), 3))
        return quantized(nn.gelu(nn.dequantize(quantized(moved), np.float32(0.013), 3)))

    network = model(function, "u8[4, 64]")
    network.run("simplify", "cse")
    (before,) = network(EVERY)
    assert network.run("tabulate-bytes")
    assert network.ops == ["lookup", "transpose", "lookup"]
    np.testing.assert_array_equal(network(EVERY)[0], before)
