"""`aotc.jit`: functions that are compiled when they are called."""

import contextlib
import functools
import subprocess
import sys
from types import FunctionType

import numpy as np
import pytest

import aotc
from aotc import nn
from aotc import numpy as anp
from aotc.errors import InputError
from aotc.machine.target import Target
from tests.just_in_time.calling import close, draw, sine_and_more


def test_calls_of_one_kind_share_code_and_sizes_that_vary_become_symbols():
    @aotc.jit
    def product(x, y):
        return anp.tanh(x) @ y

    for rows in (4, 5, 6, 4, 1, 2):
        x, y = draw(rows, 8), draw(8, 3)
        close(product(x, y), np.tanh(x) @ y)
    sizes = [each.to_json()["sizes"][0] for each in product.variants]
    assert [4, 8] in sizes
    assert ["x_0", 8] in sizes
    assert [1, 8] not in sizes or len(sizes) == 3
    assert product.report()["compiles"] + product.report()["from_cache"] <= 3


def test_trees_numbers_keywords_and_static_arguments():
    @aotc.jit(static_argnames=["mode"])
    def f(params, x, *, scale=2.0, mode="plain"):
        h = x @ params["w"] + params["b"][0]
        return {"y": h * scale if mode == "plain" else -h, "n": (x.shape[0], None)}

    params = {"w": draw(4, 2), "b": [draw(2)]}
    x = draw(3, 4)
    h = x @ params["w"] + params["b"][0]
    close(f(params, x)["y"], h * 2)
    close(f(params, x=x, scale=3.0)["y"], h * 3)
    close(f(params, x, mode="other")["y"], -h)
    assert len(f.variants) == 2
    assert f(params, x)["n"][1] is None


@pytest.mark.parametrize("dtype", ["f4", "f8", "f2", "i1", "i8", "u4", "?"])
def test_dtypes_and_sizes_of_zero_and_one(dtype):
    @aotc.jit(dynamic="never")
    def f(x):
        return x[::-1], anp.concatenate([x, x])

    for size in (1, 0):
        x = np.ones(size, dtype)
        back, twice = f(x)
        np.testing.assert_array_equal(back, x)
        np.testing.assert_array_equal(twice, np.concatenate([x, x]))
        assert back.dtype == x.dtype


def test_a_value_that_was_looked_at_is_guarded_with_its_line():
    @aotc.jit
    def f(x, flag, table):
        if aotc.specialize(flag):
            return x * aotc.specialize(table)[0]
        return -x

    x = draw(3)
    close(f(x, True, np.array([2.0, 1], "f4")), x * 2)
    close(f(x, False, np.array([2.0, 1], "f4")), -x)
    close(f(x, True, np.array([4.0, 1], "f4")), x * 4)
    close(f(x, True, np.array([2.0, 1], "f4")), x * 2)
    assert len(f.variants) == 3
    guards = [guard for each in f.variants for guard in each.to_json()["guards"]]
    assert all("test_jit.py:" in guard["where"] for guard in guards)


def test_branches_on_computed_values_are_guarded_where_that_is_asked_for():
    def f(x):
        if anp.sum(x) > 0:
            return x * 2
        return -x

    with pytest.raises(InputError, match="decide a Python condition"):
        aotc.jit(f)(draw(3))
    guarded = aotc.jit(f, branches="guard")
    for sign in (1, -1, 1, -1):
        x = sign * np.abs(draw(3))
        close(guarded(x), x * 2 if sign > 0 else -x)
    assert len(guarded.variants) == 2


def test_calls_by_position_that_leave_out_a_default_are_all_alike():
    f = aotc.jit(lambda x, scale=2.0: x * scale)
    x = draw(3)
    for _ in range(3):
        close(f(x), x * 2)
    close(f(x, 3.0), x * 3)


def test_a_parameter_may_be_called_self_or_function():
    f = aotc.jit(lambda self, function: self - function)
    x = draw(3)
    close(f(self=x, function=x * 2), -x)


def test_static_values_of_different_types_have_code_of_their_own():
    @aotc.jit(static_argnames=["m"])
    def f(x, m):
        if isinstance(m, tuple):
            return x + (0.5 if m[0] is True else 0)
        return x * 10 if m is True else anp.copysign(x, m) if m == 0 else x * m

    x = np.ones(2, "f4")
    for m, first in ((1, 1), (True, 10), (2.0, 2), (2, 2), (0.0, 1), (-0.0, -1)):
        assert f(x, m)[0] == first
    assert [f(x, m)[0] for m in ((1,), (True,), (1,))] == [1, 1.5, 1]


def test_a_function_with_weights_is_a_part_of_others_and_one_with_a_state_is_not():
    weights = aotc.Weights({"w": np.full(3, 2, "f4")})
    state = aotc.State({"n": np.zeros((), "f4")})

    @aotc.jit(weights=weights)
    def inner(weights, x):
        return anp.sum(weights["w"] * x)

    @aotc.jit(state=state)
    def counting(state, x):
        return {"n": state["n"] + 1}, x

    assert float(aotc.jit(lambda x: inner(x) + 1)(np.ones(3, "f4"))) == 7
    close(np.asarray(aotc.grad(inner)(np.ones(3, "f4"))), np.full(3, 2))
    with pytest.raises(InputError, match="keeps the State 'state'"):
        aotc.jit(lambda x: counting(x))(np.ones(3, "f4"))


def test_a_method_takes_its_object_as_a_static_argument():
    class Layer:
        scale = 3.0

        @aotc.jit(static_argnames=["self"])
        def __call__(self, x):
            return x * self.scale

    close(Layer()(np.ones(2, "f4")), np.full(2, 3))


def test_calls_are_counted_by_their_sizes_and_refused_ones_are_forgotten():
    f = aotc.jit(lambda x: x + 1, dynamic="never", max_compiles=2)
    for size, times in ((2, 5), (3, 1)):
        for _ in range(times):
            f(draw(size))
    for size in range(4, 9):
        with pytest.raises(InputError, match="at most 2 compilations"):
            f(draw(size))
    counts = {call.shapes[0]: count.calls for call, count in f._counts.items()}
    assert counts == {(2,): 5, (3,): 1}


def test_a_guard_that_fails_often_keeps_few_values():
    f = aotc.jit(lambda x: x * aotc.specialize(x.sum()), max_compiles=2)
    for n in range(40):
        with contextlib.suppress(InputError):
            f(np.float32([n]))
    (first, _) = f.variants
    failures = first.specialization.check.guards[0].failures
    assert len(failures) <= 17 < sum(failures.values())


def test_operators_work_where_nobody_has_imported_the_functions():
    code = "import aotc, numpy; print(aotc.jit(lambda x: x * 2)(numpy.ones(2))[1])"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert done.stdout == "2.0\n", done.stderr


def test_the_variant_that_was_not_called_for_longest_goes():
    @aotc.jit(dynamic="never", max_variants=2)
    def f(x):
        return x + 1

    for size in (2, 3, 2, 4):
        x = draw(size)
        close(f(x), x + 1)
    assert [each.to_json()["sizes"] for each in f.variants] == [[[2]], [[4]]]
    assert f.report()["evictions"] == 1


def test_a_variant_that_is_called_quickly_is_in_use():
    @aotc.jit(dynamic="never", max_variants=2)
    def f(x):
        return x + 1

    for size in (2, 3, 2, 2, 2, 4):  # the calls of 2 find their code at once
        f(draw(size))
    assert [each.to_json()["sizes"] for each in f.variants] == [[[2]], [[4]]]
    assert [each.calls for each in f.variants] == [4, 1]


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_python_numbers_take_the_dtype_of_the_arrays_they_meet(dtype):
    @aotc.jit
    def f(x, n, rate=0.1):
        step = rate * (n + 1)
        return x * n, x - step * x, anp.exp(rate) * x, x / n, step, n

    x = np.ones(3, dtype)
    *arrays, step, n = f(x, 2)
    want = [x * 2, x - 0.1 * 3 * x, np.exp(0.1) * x, x / 2]
    for got, expected in zip(arrays, want, strict=True):
        assert got.dtype == dtype
        np.testing.assert_allclose(got, expected, {"f2": 1e-3}.get(dtype, 1e-6))
    assert arrays[0][0] == 2
    assert step.dtype == ("f8" if dtype == "f8" else "f4")
    assert n.dtype == "i4"


def test_a_number_beside_wide_arrays_is_not_rounded_and_others_say_what_to_do():
    product = aotc.jit(lambda x, n: x * n)
    assert product(np.ones(1, "f8"), 0.1)[0] == 0.1
    assert product(np.ones(1, "i8"), 2**40)[0] == 2**40
    with pytest.raises(InputError, match="out of the range of u8") as caught:
        product(np.ones(1, "u1"), 2)
    assert "numpy.uint8(number)" in caught.value.hint
    assert product(np.ones(1, "u1"), np.uint8(2)).dtype == "u1"
    with pytest.raises(InputError, match="different dtypes"):
        product(np.ones(1, "i4"), 0.5)
    # what was converted is an array from then on
    with pytest.raises(InputError, match="different dtypes"):
        aotc.jit(lambda x, n: x * n.astype("float32"))(np.ones(1, "f8"), 2)


def test_derivatives_and_batches_work_in_it():
    def loss(w, x):
        return anp.mean(nn.relu(x @ w) ** 2)

    @aotc.jit
    def step(w, x):
        value, grad = aotc.value_and_grad(loss)(w, x)
        rows = aotc.vmap(lambda row: row @ w)(x)
        return value, grad, rows

    w, x = draw(4, 2), draw(5, 4)
    value, grad, rows = step(w, x)
    h = np.maximum(x @ w, 0)
    close(value, np.mean(h**2))
    close(grad, x.T @ (2 * h) / h.size)
    close(rows, x @ w)


def test_what_the_calls_have_used_can_be_exported(tmp_path, monkeypatch):
    monkeypatch.setenv("AOTC_HOME", str(tmp_path / "home"))

    @aotc.jit
    def f(x):
        return anp.sum(x * 2, 1)

    with pytest.raises(InputError, match="expected calls"):
        f.export(tmp_path)
    for rows in (3, 4, 4):
        f(draw(rows, 2))
    bundle = f.export(tmp_path / "sums.aotc", targets=Target.named("native"))
    assert bundle == tmp_path / "sums.aotc"
    model = aotc.load(bundle)
    for rows in (3, 4, 9):
        x = draw(rows, 2)
        close(model.f(x=x), x.sum(1) * 2)
    (point,) = model.manifest.entry_points.values()
    assert {each.sizes["x_0"] for each in point.specializations} == {3, 4}
    folder = f.export(tmp_path / "out", targets=Target.named("native"))
    assert folder == tmp_path / "out" / "f-1.0.0.aotc"


def test_with_aotc_eager_it_is_executed_op_by_op(monkeypatch, capsys):
    monkeypatch.setenv("AOTC_EAGER", "1")

    @aotc.jit
    def f(params, x):
        y = anp.tanh(x @ params["w"])
        if y.sum() > 100:
            raise AssertionError
        print("shape", y.shape, float(y[0, 0]))
        return {"y": y}

    x, w = draw(2, 3), draw(3, 2)
    close(f({"w": w}, x)["y"], np.tanh(x @ w))
    assert capsys.readouterr().out.startswith("shape (2, 2) ")
    assert f.variants == ()

    state = aotc.State({"n": np.zeros((), "i4")})

    @aotc.jit(state=state)
    def count(state, x):
        return {"n": state["n"] + 1}, state["n"] * x

    assert [int(count(np.int32(3))) for _ in range(3)] == [0, 3, 6]
    assert count.read_state()["n"] == 3
    assert aotc.counters.value("calls", entry="count", path="reference") == 3


class Scaled:
    """An object that is called."""

    def __init__(self, factor):
        self.factor = factor

    def __call__(self, x):
        return x * self.factor

    def method(self, x):
        return -x * self.factor


def test_methods_partials_and_objects_are_functions_too():
    x, scaled = draw(3), Scaled(2.0)
    close(aotc.jit(scaled)(x), x * 2)
    close(aotc.jit(scaled.method)(x), -x * 2)
    close(aotc.jit(functools.partial(Scaled.__call__, scaled))(x), x * 2)
    for function in (np.sin, lambda *xs: xs[0], eval("lambda x, /: x")):
        with pytest.raises(InputError) as caught:
            aotc.jit(function)
        assert caught.value.code == "bad-entry"


def test_a_gradient_is_told_how_it_is_compiled():
    def loss(x):
        return (x * x).sum()

    with pytest.raises(InputError, match=r"got '\*args'") as caught:
        aotc.jit(aotc.grad(loss))
    assert "aotc.jit(lambda x: aotc.grad(loss)(x))" in caught.value.hint
    x = draw(3)
    close(aotc.jit(lambda x: aotc.grad(loss)(x))(x), 2 * x)


def test_none_is_known_when_it_is_traced_and_one_function_may_call_another():
    inner = aotc.jit(lambda x, mask=None: x if mask is None else x * mask)
    outer = aotc.jit(lambda x: inner(x) + 1)
    x = draw(3)
    close(inner(x), x)
    close(inner(x, x), x * x)
    close(outer(x), x + 1)
    with pytest.raises(InputError, match="32 bits") as caught:
        inner(2**40)
    assert caught.value.code == "bad-call"


def test_functions_that_share_their_code_are_entries_of_their_own_names(
    monkeypatch, tmp_path
):
    monkeypatch.setenv("AOTC_CACHE", str(tmp_path / "cache"))
    x = draw(3)
    for name in ("first", "second", "first"):
        named = FunctionType(sine_and_more.__code__, globals(), name)
        close(aotc.jit(named)(x), np.sin(x) + 1)


def test_bundles_hold_calls_to_what_python_decided_on_sizes(tmp_path, monkeypatch):
    monkeypatch.setenv("AOTC_HOME", str(tmp_path / "home"))

    @aotc.jit
    def scaled(x):
        return x * 2 if x.shape[0] > 6 else x + 100

    for rows in (4, 5):
        x = draw(rows, 2)
        close(scaled(x), x + 100)
    bundle = scaled.export(tmp_path / "few.aotc", targets=Target.named("native"))
    model = aotc.load(bundle)
    x = draw(3, 2)
    close(model.scaled(x=x), x + 100)
    with pytest.raises(InputError, match="expected x_0 <= 6, got x_0 = 7") as caught:
        model.scaled(x=draw(7, 2))
    assert caught.value.code == "shape-guard"
    assert "test_jit.py:" in caught.value.where
    x = draw(7, 2)
    close(scaled(x), x * 2)
