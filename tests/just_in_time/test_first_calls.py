"""Code that is made when it is called is compared with the reference evaluator."""

import threading
import warnings

import numpy as np
import pytest

import aotc
from aotc import debug, reference
from aotc import numpy as anp
from aotc.counting import counters
from aotc.dialects import OPS
from aotc.errors import CompileError, InputError

X = np.linspace(-2, 2, 12, dtype="f4").reshape(3, 4)


@pytest.fixture(autouse=True)
def by_default(monkeypatch):
    monkeypatch.delenv("AOTC_CHECK", raising=False)
    # to look for the line takes several compiles, which one test is enough for
    monkeypatch.setattr("aotc.checks.call_check._LOCATED", 0.0)


@pytest.fixture
def wrong_tanh(monkeypatch):
    """Compiled, tanh is sin."""
    monkeypatch.setattr(OPS["tanh"], "lower", OPS["sin"].lower)


def outcomes(entry):
    kinds = ("passed", "failed", "skipped")
    found = {
        kind: counters.value("call_checks", entry=entry, outcome=kind) for kind in kinds
    }
    return {kind: count for kind, count in found.items() if count}


def test_each_new_code_is_compared_once():
    @aotc.jit
    def compared_once(x):
        return anp.exp(x) + 1

    for rows in (3, 3, 5, 6, 5):
        compared_once(np.ones((rows, 2), "f4"))
    assert outcomes("compared_once") == {"passed": len(compared_once.variants)}
    assert all(each.made.unchecked is None for each in compared_once.variants)


def test_a_wrong_result_is_an_error_with_its_line_and_the_code_is_not_used(
    wrong_tanh, monkeypatch
):
    monkeypatch.setattr("aotc.checks.call_check._LOCATED", 1000.0)

    @aotc.jit
    def wrong(x):
        y = x * 2
        return anp.tanh(y) + 1

    with pytest.raises(CompileError) as error:
        wrong(X)
    assert error.value.code == "self-check"
    line = wrong.__wrapped__.__code__.co_firstlineno + 3
    assert error.value.where == f"test_first_calls.py:{line}"
    assert "graph.tanh" in error.value.message
    assert "x f32[3, 4]" in error.value.message
    assert "AOTC_CHECK=off" in error.value.hint
    with pytest.raises(CompileError, match="graph.tanh"):  # by an array that is right
        wrong(np.zeros((3, 4), "f4"))
    assert wrong.report()["compiles"] == 1
    assert outcomes("wrong") == {"failed": 1}


def test_off_compares_nothing_and_always_compares_each_call(wrong_tanh, monkeypatch):
    @aotc.jit
    def sometimes(x):
        return anp.tanh(x)

    monkeypatch.setenv("AOTC_CHECK", "off")
    np.testing.assert_allclose(sometimes(X), np.sin(X), 1e-5, 1e-5)
    assert not outcomes("sometimes")
    monkeypatch.setenv("AOTC_CHECK", "always")

    @aotc.jit
    def each_time(x):
        return anp.tanh(x)

    for _ in range(2):
        each_time(np.zeros((3, 4), "f4"))
    assert outcomes("each_time") == {"passed": 2}
    with pytest.raises(CompileError):
        each_time(X)


def test_a_wrong_state_is_an_error_and_the_state_stays_as_it_was(monkeypatch):
    monkeypatch.setattr(OPS["cos"], "lower", OPS["sin"].lower)
    start = np.full(3, 0.25, "f4")

    @aotc.jit(state=aotc.State({"a": start}))
    def stepped(state, x):
        return {"a": anp.cos(state["a"]) + x}, x * 2

    with pytest.raises(CompileError, match=r"FAIL state\.a"):
        stepped(np.ones(3, "f4"))
    np.testing.assert_array_equal(stepped.read_state()["a"], start)


def test_a_right_state_is_updated_once_by_the_call_that_is_compared():
    @aotc.jit(state=aotc.State(np.zeros(2, "f4")))
    def counted(state, x):
        return state + x, state * 2

    for number in range(3):
        np.testing.assert_allclose(counted(np.ones(2, "f4")), [2 * number] * 2)
    np.testing.assert_allclose(counted.read_state(), [3, 3])
    assert outcomes("counted") == {"passed": 1}


def test_what_takes_longer_than_the_compiler_is_counted_as_not_compared(monkeypatch):
    monkeypatch.setattr("aotc.checks.call_check._WORK_PER_SECOND", 1.0)

    @aotc.jit
    def long_one(x):
        return anp.exp(x)

    np.testing.assert_allclose(long_one(X), np.exp(X), 1e-5)
    assert outcomes("long_one") == {"skipped": 1}
    assert counters.value("call_checks", entry="long_one", reason="budget") == 1
    assert long_one.variants[0].made.unchecked is None


def test_prints_and_checks_of_the_model_happen_once(capfd):
    @aotc.jit
    def told(x):
        debug.check(anp.all(x > 0), "positive")
        debug.print("x is {}", x)
        return x * 2

    with pytest.raises(InputError, match="positive"):
        told(np.zeros(2, "f4"))
    assert not outcomes("told")
    told(np.ones(2, "f4"))
    assert capfd.readouterr().err.count("x is [1. 1.]") == 1
    assert outcomes("told") == {"passed": 1}


def test_threads_wait_for_the_first_call(wrong_tanh):
    @aotc.jit
    def raced(x):
        return anp.tanh(x)

    found = []

    def call():
        try:
            found.append(raced(X))
        except CompileError as error:
            found.append(error.code)

    threads = [threading.Thread(target=call) for _ in range(6)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert found == ["self-check"] * 6
    assert outcomes("raced") == {"failed": 1}


def test_code_made_in_the_background_is_compared_there(monkeypatch, wrong_tanh):
    callers = []
    evaluate = reference.evaluate

    def noted(*given, **named):
        callers.append(threading.current_thread())
        return evaluate(*given, **named)

    monkeypatch.setattr(reference, "evaluate", noted)

    @aotc.jit(warmup="background")
    def behind(x):
        return anp.tanh(x)

    np.testing.assert_allclose(behind(X), np.tanh(X), 1e-5, 1e-6)
    behind.wait()
    assert set(callers) - {threading.main_thread()}
    with pytest.raises(CompileError) as error:
        behind(X)
    assert error.value.code == "self-check"
    assert not behind.variants


def test_an_array_that_is_written_meanwhile_makes_no_code_wrong(monkeypatch):
    x = X.copy()
    evaluate = reference.evaluate

    def evaluate_and_write(*given, **named):
        found = evaluate(*given, **named)
        if threading.current_thread() is not threading.main_thread():
            x[...] = 9
        return found

    monkeypatch.setattr(reference, "evaluate", evaluate_and_write)

    @aotc.jit(warmup="background")
    def written(x):
        return anp.exp(x)

    written(x)
    written.wait()
    np.testing.assert_allclose(written(X), np.exp(X), 1e-5)
    assert outcomes("written") == {"passed": 1}


def test_specialized_code_and_regions_of_hybrid_programs_are_compared(wrong_tanh):
    @aotc.jit
    def special(x, flag):
        return anp.tanh(x) if aotc.specialize(flag) else x

    np.testing.assert_array_equal(special(X, np.array(False)), X)
    with pytest.raises(CompileError) as error:
        special(X, np.array(True))
    assert error.value.code == "self-check"

    @aotc.hybrid
    def mixed(x):
        y = anp.tanh(x) * 2
        print(len(str(np.asarray(y).sum())))
        return y + 1

    with pytest.raises(CompileError) as error:
        mixed(X)
    assert error.value.code == "self-check"


def test_regions_of_onnx_graphs_are_compared(wrong_tanh, tmp_path):
    onnx = pytest.importorskip("onnx")
    helper = onnx.helper
    kind = onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        [helper.make_node("Tanh", ["x"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", kind, [3, 4])],
        [helper.make_tensor_value_info("y", kind, [3, 4])],
    )
    path = tmp_path / "g.onnx"
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=9), path)
    run = aotc.from_onnx(path, breaks="island")
    with pytest.raises(CompileError) as error:
        run(x=X)
    assert error.value.code == "self-check"


def test_arguments_of_any_kind_are_compared_without_a_warning():
    rows = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-40, 3e38, -3e38, 1e-20, 1.0]

    @aotc.jit
    def hostile(x):
        return anp.exp(x), anp.log(x), anp.sum(x * x), anp.sort(x), x @ x, anp.sin(x)

    with warnings.catch_warnings(action="error"):
        hostile(np.array(rows, "f4"))
    assert outcomes("hostile") == {"passed": 1}


def test_parts_of_pytorch_modules_are_compared(wrong_tanh):
    torch = pytest.importorskip("torch")
    module = aotc.from_torch(torch.nn.Tanh(), breaks="island")
    with torch.no_grad(), pytest.raises(CompileError) as error:
        module(torch.from_numpy(X.copy()))
    assert error.value.code == "self-check"


def test_an_evaluator_that_fails_is_counted_and_fails_no_call(monkeypatch):
    def fail(*_, **__):
        raise ValueError("out of order")

    monkeypatch.setattr(reference, "evaluate", fail)

    @aotc.jit
    def unlucky(x):
        return anp.exp(x)

    np.testing.assert_allclose(unlucky(X), np.exp(X), 1e-5)
    assert counters.value("call_checks", entry="unlucky", reason="evaluator") == 1


class TestBetweenProcesses:
    """What the cache has of code says whether it was compared."""

    @pytest.fixture(autouse=True)
    def own_cache(self, tmp_path, monkeypatch):
        monkeypatch.setenv("AOTC_CACHE", str(tmp_path / "cache"))

    @staticmethod
    def made(name):
        def function(x):
            return anp.tanh(x) * 3

        function.__name__ = function.__qualname__ = name
        return aotc.jit(function)

    def test_what_was_right_is_not_compared_again(self, monkeypatch):
        self.made("kept_right")(X)
        monkeypatch.setattr(reference, "evaluate", None)
        again = self.made("kept_right")
        np.testing.assert_allclose(again(X), 3 * np.tanh(X), 1e-5, 1e-6)
        assert again.report()["from_cache"] == 1
        assert outcomes("kept_right") == {"passed": 1}

    def test_what_may_change_unseen_is_named_of_kept_code_too(self):
        large = np.ones(5000, "f4")

        def scaled(x):
            return x * large[0]

        first, second = aotc.jit(scaled), aotc.jit(scaled)
        first(X)
        second(X)
        assert second.report()["from_cache"] == 1
        assert "'large' (float32[5000])" in second.notes[0]
        assert second.notes == first.notes

    def test_what_was_wrong_is_refused_without_a_call(self, wrong_tanh):
        with pytest.raises(CompileError):
            self.made("kept_wrong")(X)
        again = self.made("kept_wrong")
        with pytest.raises(CompileError) as error:
            again(np.zeros((3, 4), "f4"))
        assert error.value.code == "self-check"
        assert "12 of 12 elements wrong" in error.value.message
        assert outcomes("kept_wrong") == {"failed": 1}

    def test_what_was_never_compared_is_compared_when_it_is_found(self, monkeypatch):
        monkeypatch.setenv("AOTC_CHECK", "off")
        self.made("kept_open")(X)
        monkeypatch.delenv("AOTC_CHECK")
        again = self.made("kept_open")
        again(X)
        assert again.report()["from_cache"] == 1
        assert outcomes("kept_open") == {"passed": 1}


def test_what_is_exported_is_compared_before_it_is_signed(wrong_tanh, tmp_path):
    @aotc.jit
    def exported(x):
        return anp.tanh(x)

    exported(np.zeros((3, 4), "f4"))  # of which sin is right
    with pytest.raises(CompileError) as error:
        exported.export(tmp_path / "exported.aotc")
    assert error.value.code == "self-check"
    assert not list(tmp_path.iterdir())
