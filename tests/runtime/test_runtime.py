"""Loading and calling models."""

import gc
import mmap
import threading

import iree.runtime as iree
import ml_dtypes
import numpy as np
import pytest

from aotc import runtime
from aotc.artifacts.manifest import Leaf
from aotc.core.dtypes import to_numpy
from aotc.errors import InputError, SetupError
from aotc.runtime import buffers, engine, function, transfers
from tests.refusals import refused
from tests.runtime.running import X


def parts(n=2, m=3):
    return {
        "bits": [np.ones(n, bool), np.arange(n, dtype=np.uint8) + 250],
        "halves": (np.ones(n, np.float16), np.ones(m, ml_dtypes.bfloat16)),
        "l": np.array(2**40),
    }


def test_computes_what_numpy_computes(model, w):
    np.testing.assert_allclose(model.predict(x=X), X @ w)
    np.testing.assert_allclose(model.entry("predict")(x=X), X @ w)


def test_names_its_entries(model):
    assert list(model.entries) == ["predict", "train", "same", "echo"]
    assert "predict" in dir(model)
    assert "f32[batch, 4]" in repr(model.predict)
    assert "small 1.0.0" in repr(model)


def test_accepts_dimensions_of_size_zero(model):
    assert model.predict(x=X[:0]).shape == (0, 3)


def test_takes_arrays_of_any_memory_layout(model, w):
    for x in (np.asfortranarray(X), np.repeat(X, 2, axis=0)[::2], X[::-1]):
        np.testing.assert_allclose(model.predict(x=x), x @ w)


def test_rebuilds_nested_structures_and_every_dtype(model):
    given = parts()
    got = model.same(parts=given)
    assert type(got["bits"]) is list
    assert type(got["halves"]) is tuple
    pairs = zip(
        [*got["bits"], *got["halves"]], [*given["bits"], *given["halves"]], strict=True
    )
    for a, b in pairs:
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)
    assert got["l"] == 2**40
    assert got["l"].shape == ()


@pytest.mark.parametrize("backend", ["vmvx", "vulkan-spirv"])
@pytest.mark.parametrize("dtype", ["bool", "i8", "u16", "f16", "bf16", "f32", "i64"])
def test_reads_back_what_it_sent_to_a_device(backend, dtype):
    try:
        device = engine.device(backend, 1)
    except SetupError:
        pytest.skip("this machine has no such device")
    for shape in ((3,), (), (0, 2), (5, 7)):
        leaf = Leaf("x", dtype, shape)
        count = np.arange(np.prod(shape, dtype=int)).reshape(shape)
        sent = (count % 2).astype(to_numpy(dtype))
        staged = engine.call_memory(device).is_kept
        moves = transfers.Transfers(device, None, [leaf], [leaf], True, staged=staged)
        arguments = moves.send([sent])
        [found] = moves.fetch([arguments.get_as_object(0, iree.HalBufferView)])
        assert found.dtype == sent.dtype
        np.testing.assert_array_equal(found, sent)


@pytest.mark.parametrize("reader", [buffers.viewer, transfers.Fetcher])
@pytest.mark.parametrize("dtype", ["bf16", "f32"])
def test_views_of_a_result_keep_its_memory(reader, dtype):
    device = engine.device("vmvx", 1)
    for shape in ((350,), (5, 70), (2, 5, 35)):
        leaf = Leaf("x", dtype, shape)
        send, read = buffers.sender(device, leaf), reader(device, leaf)
        sent = np.arange(350).reshape(shape).astype(to_numpy(dtype))
        found = read(send(sent)).T  # a view of what nothing else refers to
        others = [send(np.zeros_like(sent)) for _ in range(100)]
        np.testing.assert_array_equal(found, sent.T)
        del others


def test_results_outlive_the_model_and_are_read_only(bundle, trust, w):
    y = runtime.load(bundle, trust=trust, threads=1).predict(x=X)
    gc.collect()
    np.testing.assert_allclose(y, X @ w)
    with pytest.raises(ValueError, match="read-only"):
        y[0] = 1


def test_lends_no_python_memory_to_iree(bundle, trust):
    """IREE may release it on a thread without the interpreter's lock, and die."""
    before = _mappings()
    model = runtime.load(bundle, trust=trust)
    assert model.entries
    assert _mappings() <= before


def _mappings() -> set[int]:
    gc.collect()
    return {id(held) for held in gc.get_objects() if issubclass(type(held), mmap.mmap)}


def test_results_of_later_calls_do_not_change_earlier_ones(model, w):
    first = model.predict(x=X)
    model.predict(x=X * 2)
    np.testing.assert_allclose(first, X @ w)


@pytest.mark.parametrize("shift", [0, 4, 16, 64])
def test_takes_large_inputs_at_any_alignment(model, shift):
    memory = np.zeros(300_000 + 128, np.uint8)
    start = -memory.ctypes.data % 64 + shift
    x = memory[start : start + 300_000].view(np.float32)
    x[:] = np.arange(75_000)
    y = model.echo(x=x)
    x[:] = 0
    np.testing.assert_array_equal(y, np.arange(75_000))


def test_what_is_out_of_range_before_a_call_is_no_result_of_it(model, monkeypatch):
    said = "cannot map buffer: c/runtime/src/iree/hal/buffer.c:1: OUT_OF_RANGE; of 8"

    def fail(*_):
        raise IndexError(said)

    monkeypatch.setattr(function.ExportedFunction, "_arguments", fail)
    assert said in refused(SetupError, "run-failed", model.predict, x=X)


def test_takes_large_read_only_inputs(model):
    x = np.arange(75_000, dtype=np.float32)
    x.flags.writeable = False
    np.testing.assert_array_equal(model.echo(x=x), x)


@pytest.mark.parametrize(
    ("given", "code", "words"),
    [
        ({"x": X.astype(np.float64)}, "dtype-mismatch", ["f32", "float64", "astype"]),
        ({"x": X.astype(">f4")}, "dtype-mismatch", [">f4"]),
        ({"x": X[0]}, "rank-mismatch", ["[batch, 4]", "[4]"]),
        ({"x": X[:, :3]}, "shape-mismatch", ["[batch, 4]", "[5, 3]"]),
        ({"x": np.zeros((65, 4), "f4")}, "shape-contract", ["at most 64", "65"]),
        ({"x": X.tolist()}, "input-type", ["list", "numpy"]),
        ({"x": 3}, "rank-mismatch", ["[]"]),
        ({"x": None}, "input-type", ["NoneType"]),
        ({}, "missing-input", ["x is missing"]),
        ({"X": X}, "unknown-input", ["did you mean 'x'"]),
        ({"x": X, "y": X}, "unknown-input", ["'y'"]),
    ],
)
def test_refuses_inputs_that_break_the_contract(model, given, code, words):
    message = refused(InputError, code, model.predict, **given)
    for word in ["predict", *words]:
        assert word in message


def test_takes_the_only_input_without_its_name(model):
    assert np.array_equal(model.predict(X), model.predict(x=X))


def test_refuses_other_positional_inputs(model):
    code, predict = "input-positional", model.predict
    assert "predict(x=...)" in refused(InputError, code, predict, X, X)
    assert "predict(x=...)" in refused(InputError, code, predict, X, x=X)


def test_refuses_wrong_structures(model):
    given = parts()
    for wrong in [given | {"bits": given["bits"][:1]}, given | {"halves": 3}, [1]]:
        refused(InputError, "input-structure", model.same, parts=wrong)
    message = refused(InputError, "missing-input", model.same, parts={"l": given["l"]})
    assert "bits, halves" in message


def test_binds_a_symbol_over_all_inputs(model):
    wrong = parts()
    wrong["bits"][1] = np.zeros(4, np.uint8)
    message = refused(InputError, "shape-mismatch", model.same, parts=wrong)
    assert "n = 4" in message
    assert "n = 2" in message


@pytest.mark.parametrize("n", [1, 3])
def test_refuses_symbols_outside_their_range(model, n):
    message = refused(InputError, "shape-contract", model.same, parts=parts(n))
    assert "a multiple of 2" in message


def test_takes_python_numbers_that_fit(model):
    x = np.ones(3, "f4")
    np.testing.assert_allclose(model.train(x=x, scale=0.1), 1.1 + np.arange(3))
    for wrong in (True, 1e39, 2**24 + 1, 10**400):
        refused(InputError, "dtype-mismatch", model.train, x=x, scale=wrong)
    given = parts()
    for wrong in (2**63, 1.0, False):
        refused(InputError, "dtype-mismatch", model.same, parts=given | {"l": wrong})
    assert model.same(parts=given | {"l": -5})["l"] == -5
    assert np.isnan(model.train(x=x, scale=float("nan"))).all()
    assert np.isinf(model.train(x=x, scale=float("inf"))[:0]).all()


def test_keeps_state_between_calls_and_restores_it(model):
    one = np.ones(3, np.float32)
    saved = model.read_state()
    np.testing.assert_array_equal(saved["params"]["a"], [1, 2, 3])
    first = model.train(x=one, scale=1)
    second = model.train(x=one, scale=1)
    np.testing.assert_array_equal(first, [2, 3, 4])
    np.testing.assert_array_equal(second, [3, 4, 5])
    assert model.read_state()["step"] == 2
    np.testing.assert_array_equal(saved["params"]["a"], [1, 2, 3])
    model.write_state(saved)
    np.testing.assert_array_equal(model.train(x=one, scale=1), first)


def test_does_not_share_memory_with_a_written_state(model):
    state = model.read_state()
    model.write_state(state)
    state["params"]["a"][:] = 100
    np.testing.assert_array_equal(model.read_state()["params"]["a"], [1, 2, 3])


def test_a_wrong_call_leaves_the_state_untouched(model):
    one = np.ones(3, np.float32)
    for x, scale in [(one[:2], 1), (one, one), (one.astype(int), 1)]:
        with pytest.raises(InputError):
            model.train(x=x, scale=scale)
    with pytest.raises(InputError):
        model.write_state({"params": {"a": one}, "step": 1.5})
    assert model.read_state()["step"] == 0


def test_states_of_two_models_are_independent(bundle, trust, model):
    other = runtime.load(bundle, trust=trust, threads=1)
    model.train(x=np.ones(3, np.float32), scale=1)
    assert other.read_state()["step"] == 0


def test_calls_from_many_threads_take_turns(model):
    def work():
        for _ in range(200):
            model.train(x=np.ones(3, np.float32), scale=1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert model.read_state()["step"] == 800


def test_suggests_names(model):
    assert "did you mean" in refused(InputError, "unknown-entry", model.entry, "predit")
    refused(InputError, "unknown-state", model.read_state, "sta")
    refused(InputError, "unknown-state", model.write_state, "state", {"step": 1})
    with pytest.raises(AttributeError, match="predict"):
        model.predit  # noqa: B018
