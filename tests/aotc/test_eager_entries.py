"""Entries executed op by op: states, inputs, refusals, threads and memory."""

import gc
import subprocess
import sys
import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import aotc
from aotc import numpy as anp
from aotc.complexes import Complex
from aotc.errors import AotcError
from aotc.tracing.assembly import trace
from tests.aotc.executing import X, compiled, entry_of, error_here, wave

# ---- entries ------------------------------------------------------------------------

weights = aotc.Weights({"k": np.ones((3, 2), "f4")})
counter = aotc.State({"calls": 0, "sum": np.zeros(3, "f4")})

rows = aotc.Dim("rows", max=4, multiple_of=2)


@aotc.entry(x=aotc.Spec((rows, 3)))
def count(counter, weights, x):
    total = counter["sum"] + x.sum(0)
    return {"calls": counter["calls"] + 1, "sum": total}, (x @ weights["k"], total)


def test_states_go_in_and_new_ones_come_out():
    x = np.ones((2, 3), "f4")
    state, (y, total) = count(x=x)
    np.testing.assert_array_equal(y, np.full((2, 2), 3))
    state, _ = count(state, x=x)
    assert int(state["calls"]) == 2
    np.testing.assert_array_equal(state["sum"], 2 * np.asarray(total))
    assert counter.tree["calls"] == 0  # nothing is kept
    twice, _ = count(state, {"k": np.zeros((3, 2), "f4")}, x)
    assert int(twice["calls"]) == 3


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({}, "missing-input"),
        ({"x": np.ones((2, 3))}, "dtype-mismatch"),
        ({"x": np.ones((3, 3), "f4")}, "shape-contract"),
        ({"x": np.ones((6, 3), "f4")}, "shape-contract"),
        ({"x": np.ones((2, 4), "f4")}, "shape-mismatch"),
        ({"x": np.ones(3, "f4")}, "rank-mismatch"),
        ({"x": "text"}, "input-type"),
        ({"x": np.ones((2, 3), "f4"), "z": 1}, "bad-call"),
        ({"x": np.ones((2, 3), "f4"), "counter": {"calls": 1}}, "missing-input"),
        ({"x": np.ones((2, 3), "f4"), "weights": {"k": X}}, "rank-mismatch"),
    ],
)
def test_inputs_are_held_to_the_specs_as_the_loader_does(arguments, code):
    with pytest.raises(AotcError) as caught:
        count(**arguments)
    assert caught.value.code == code
    assert "count" in caught.value.message
    assert "test_eager_entries.py:" in caught.value.where


def test_an_input_that_is_a_pair_is_given_as_one():
    part = aotc.Spec((2,), "f64")

    @aotc.entry(z=Complex(part, part))
    def square(z):
        return z * z

    z = np.array([1 + 2j, 3])
    real, imaginary = square(z=Complex(z.real, z.imag))
    assert np.array_equal(np.asarray(real) + 1j * np.asarray(imaginary), z * z)


def test_a_state_that_is_not_returned_is_refused():
    @aotc.entry(x=aotc.Spec(3))
    def forgets(counter, x):
        return x

    with pytest.raises(AotcError) as caught:
        forgets(x=X)
    assert caught.value.code == "bad-entry"


def test_entries_call_each_other_and_are_differentiated():
    @aotc.entry(x=aotc.Spec(3))
    def inner(x):
        return (x * x).sum()

    @aotc.entry(x=aotc.Spec(3))
    def outer(x):
        return aotc.grad(inner)(x)

    np.testing.assert_array_equal(outer(X), 2 * X)
    np.testing.assert_array_equal(aotc.grad(inner)(X), 2 * X)


# ---- what is refused ----------------------------------------------------------------


def test_errors_name_the_line_and_the_call():
    error = error_here(entry_of(lambda x: [x.reshape(2, 2)], [X]), [X])
    assert error.code == "shape-mismatch"
    assert "reshape(a=f32[3]" in error.call


def test_what_values_may_not_decide_is_refused_as_in_the_compiled_model():
    error = error_here(entry_of(lambda x: [x[x > 0]], [X]), [X])
    assert error.code == "bad-index"


def test_numpy_functions_are_refused_where_a_derivative_would_get_lost():
    error = error_here(aotc.grad(lambda x: np.exp(x).sum()), X)
    assert error.code == "traced-value"
    assert "aotc.numpy.exp" in error.hint


def test_rows_of_different_types_are_refused():
    error = error_here(aotc.vmap(lambda v: v if v > 0 else v.astype("f16")), X)
    assert error.code == "row-mismatch"


def test_traced_and_executed_arrays_mix_as_constants_or_not_at_all():
    kept = []

    @aotc.entry(x=aotc.Spec(3))
    def entry(x):
        kept.append(x * 2)
        return x

    entry(X)
    executed = kept.pop()
    np.testing.assert_array_equal(
        compiled(entry_of(lambda x: [x + executed], [X]), [X])[0], 3 * X
    )
    trace([entry], {})
    assert error_here(lambda x: anp.add(x, kept[0]), X).code == "leaked-array"


def test_an_array_left_behind_by_a_function_is_what_it_was_outside():
    kept = []

    def inner(x):
        kept.append(x * 3)
        return x.sum()

    def outer(x):
        aotc.grad(inner)(x)
        return (kept[-1] * x).sum()

    np.testing.assert_array_equal(aotc.grad(outer)(X), 6 * X)
    np.testing.assert_array_equal(kept[-1] + 1, 3 * X + 1)


def test_a_rule_that_captures_what_is_differentiated_is_refused():
    def loss(x):
        rule = aotc.custom_vjp(lambda v: v * x)
        rule.defvjp(lambda v: (v * x, v), lambda v, d: (d * x,))
        return rule(x * 2).sum()

    assert error_here(aotc.grad(loss), X).code == "captured-array"


# ---- threads and memory --------------------------------------------------------------


def test_threads_differentiate_at_the_same_time():
    arrays = [np.full(3, number, "f4") for number in range(32)]
    gradient = aotc.grad(wave)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(gradient, arrays))
    for x, y in zip(found, map(gradient, arrays), strict=True):
        np.testing.assert_array_equal(x, y)


def test_memory_does_not_grow_with_the_ops_that_have_run():
    def step(x):
        return x - 0.1 * aotc.grad(wave)(x)

    x = anp.asarray(X)
    for _ in range(20):
        x = step(x)
    gc.collect()
    tracemalloc.start()
    try:
        for _ in range(200):
            x = step(x)
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] < 50_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "made", ["aotc.entry(x=aotc.Spec((3,)))(f)", "aotc.grad(lambda x: f(x).sum())"]
)
def test_operators_of_arrays_need_no_import_of_what_they_are(made):
    code = f"import aotc, numpy\ndef f(x): return x * 1\ng = {made}\n"
    code += "print(numpy.asarray(g(numpy.ones(3, 'f4'))).tolist())"
    run = [sys.executable, "-c", code]
    done = subprocess.run(run, capture_output=True, text=True, check=True)
    assert done.stdout == "[1.0, 1.0, 1.0]\n"
