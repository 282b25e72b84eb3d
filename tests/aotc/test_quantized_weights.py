"""Quantised weights as values of trees, in entries and outside of them."""

import numpy as np
import pytest

import aotc
from aotc import nn, reference
from aotc.core.pytree import flatten, flatten_in_order, leaf_names, tree_map
from aotc.errors import InputError
from aotc.tracing.assembly import trace

RNG = np.random.default_rng(7)
Q = RNG.integers(-8, 8, (6, 8)).astype("i1")
SCALE = RNG.uniform(0.1, 1, (6, 2)).astype("f2")
ZERO = RNG.integers(-3, 3, (6, 2)).astype("i1")
LEAST = RNG.uniform(-1, 0, (6, 2)).astype("f2")
EXPECTED = (Q - ZERO.repeat(4, 1)).astype("f4") * SCALE.repeat(4, 1).astype(
    "f4"
) + LEAST.repeat(4, 1)
WHOLE = nn.QuantizedWeights(Q, SCALE, ZERO, LEAST, axis=1, block=4, bits=4)


def test_they_are_integers_less_zero_times_scale_plus_minimum():
    np.testing.assert_array_equal(np.asarray(WHOLE.dequantize()), EXPECTED)
    half = WHOLE.dequantize("f16")
    np.testing.assert_array_equal(np.asarray(half), EXPECTED.astype("f2"))
    assert (WHOLE.shape, WHOLE.ndim) == ((6, 8), 2)
    assert str(WHOLE) == "QuantizedWeights(f32[6×8], bits=4, axis=1, block=4)"


def test_a_scale_may_be_one_number_or_one_for_each_row():
    number = nn.QuantizedWeights(Q, np.float32(0.5))
    np.testing.assert_array_equal(np.asarray(number.dequantize()), Q * np.float32(0.5))
    rows = nn.QuantizedWeights(Q, SCALE[:, 0], axis=0)
    expected = Q * SCALE[:, :1].astype("f4")
    np.testing.assert_array_equal(np.asarray(rows.dequantize()), expected)


def test_a_scale_may_be_quantised_in_turn():
    scale = nn.QuantizedWeights(np.full((6, 2), 5, "u1"), SCALE[:, :1], axis=1, block=2)
    found = nn.QuantizedWeights(Q, scale, axis=1, block=4).dequantize()
    expected = Q * (5 * SCALE[:, :1].astype("f4"))
    np.testing.assert_array_equal(np.asarray(found), expected)


def test_elements_may_lie_in_another_order():
    order = RNG.permutation(8).astype("i4")
    found = nn.QuantizedWeights(Q, SCALE, order=order, axis=1, block=4).dequantize()
    expected = (Q * SCALE.repeat(4, 1).astype("f4"))[:, order]
    np.testing.assert_array_equal(np.asarray(found), expected)


@pytest.mark.parametrize("is_ordered", [False, True])
def test_products_read_them_in_the_order_of_the_data(is_ordered):
    order = RNG.permutation(8).astype("i4") if is_ordered else None
    weights = nn.QuantizedWeights(Q, SCALE, order=order, axis=1, block=4)
    x, bias = RNG.standard_normal((2, 3, 8)).astype("f4"), np.ones(6, "f4")
    found = np.asarray(weights.linear(x, bias))
    expected = x @ np.asarray(weights.dequantize()).T + bias
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    assert weights.linear(x.astype("f2")).dtype == "f16"
    with pytest.raises(InputError, match="outputs, inputs"):
        nn.QuantizedWeights(Q[0], SCALE[0], axis=0, block=4).linear(x)


@pytest.mark.parametrize("take_apart", [flatten, flatten_in_order])
def test_trees_take_them_apart(take_apart):
    tree = {"a": [WHOLE, 1], "b": WHOLE}
    leaves, structure = take_apart(tree)
    assert len(leaves) == 9
    assert leaf_names(structure)[:5] == [
        "a.0.data", "a.0.scale", "a.0.zero_point", "a.0.minimum", "a.1",
    ]  # fmt: skip
    again = structure.unflatten(leaves)["b"]
    assert isinstance(again, nn.QuantizedWeights)
    assert (again.data is Q, again.block, again.order) == (True, 4, None)
    assert take_apart(structure.unflatten(leaves))[1] == structure
    other = nn.QuantizedWeights(Q, SCALE, ZERO, LEAST, axis=1, block=4, bits=5)
    assert take_apart({"a": [other, 1], "b": WHOLE})[1] != structure


def test_mapping_a_tree_maps_their_arrays():
    found = tree_map(lambda x: x[:1], {"w": WHOLE})["w"]
    np.testing.assert_array_equal(np.asarray(found.dequantize()), EXPECTED[:1])


def test_entries_get_them_as_they_are():
    weights = aotc.Weights({"w": WHOLE})

    def predict(weights, x):
        return x @ weights["w"].dequantize().T

    declared = aotc.entry(predict, weights=weights, x=aotc.Spec((2, 8)))
    program = trace([declared], {})
    assert program.parameters.keys() == {
        f"weights.w.{name}" for name in ("data", "scale", "zero_point", "minimum")
    }
    x = RNG.standard_normal((2, 8)).astype("f4")
    arrays = [
        program.parameters[port.name] for port in program.entries[0].arguments[:-1]
    ]
    (found,) = reference.evaluate(program.module, "predict", [*arrays, x])
    np.testing.assert_allclose(found, x @ EXPECTED.T, rtol=1e-5, atol=1e-5)
    eager = declared(x=x)
    np.testing.assert_allclose(np.asarray(eager), x @ EXPECTED.T, rtol=1e-5, atol=1e-5)


def test_functions_of_jit_get_them_too():
    @aotc.jit
    def predict(weights, x):
        return x @ weights["w"].dequantize().T

    x = RNG.standard_normal((2, 8)).astype("f4")
    found = predict({"w": WHOLE}, x)
    np.testing.assert_allclose(np.asarray(found), x @ EXPECTED.T, rtol=1e-5, atol=1e-5)


def test_scales_of_another_shape_are_refused_where_they_are_used():
    wrong = nn.QuantizedWeights(Q, SCALE[:, :1], axis=1, block=4)
    with pytest.raises(InputError, match="one number for each block of 4") as caught:
        wrong.dequantize()
    assert caught.value.code == "shape-mismatch"


@pytest.mark.parametrize(
    ("code", "options"),
    [
        ("dtype-mismatch", {"data": Q.astype("f4")}),
        ("shape-mismatch", {"scale": SCALE[:, :1], "axis": 1, "block": 4}),
        ("shape-mismatch", {"scale": SCALE}),
        ("shape-mismatch", {"zero_point": ZERO, "axis": 1}),
        ("bad-axis", {"axis": 2}),
    ],
)
def test_what_fits_nothing_is_refused_when_it_is_stored(code, options):
    given = {"data": Q, "scale": np.float32(1)} | options
    with pytest.raises(InputError) as caught:
        aotc.Weights({"layer": [nn.QuantizedWeights(**given)]})
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("code", "options"),
    [
        ("bad-bits", {"bits": 1}),
        ("bad-bits", {"bits": 9}),
        ("bad-axis", {"order": np.arange(6)}),
        ("dtype-mismatch", {"data": Q.astype("f4")}),
    ],
)
def test_weights_that_are_none_are_refused(code, options):
    with pytest.raises(InputError) as caught:
        nn.QuantizedWeights(**{"data": Q, "scale": np.float32(1)} | options).linear(
            np.ones(8, "f")
        )
    assert caught.value.code == code
