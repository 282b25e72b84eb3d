"""Code of `aotc.jit` in the background and between threads, and states meanwhile."""

import threading

import numpy as np
import pytest

import aotc
from aotc import numpy as anp
from aotc.errors import InputError
from tests.just_in_time.calling import close, draw, sine_and_more


def test_compilations_in_the_background_are_limited_too(monkeypatch):
    started = threading.Event()

    def wait(*_):
        started.wait(60)
        raise InputError("bad-option", "never made")

    monkeypatch.setattr("aotc.just_in_time.function.compile_program", wait)
    f = aotc.jit(lambda x: x + 1, dynamic="never", warmup="background", max_compiles=2)
    f(draw(2)), f(draw(3))
    with pytest.raises(InputError, match="at most 2 compilations"):
        f(draw(4))
    started.set()
    f.wait()


def test_states_are_those_of_the_last_call_whatever_code_it_had():
    state = aotc.State({"w": np.zeros(2, "f4"), "n": np.zeros((), "i4")})

    @aotc.jit(state=state, dynamic="never")
    def add(state, x):
        new = {"w": state["w"] + anp.sum(x, 0), "n": state["n"] + 1}
        return new, new["w"]

    total = np.zeros(2, "f4")
    for rows in (3, 2, 3, 3, 2):
        x = draw(rows, 2)
        total = total + x.sum(0)
        close(add(x), total)
    close(add.read_state()["w"], total)
    assert add.read_state()["n"] == 5


def test_guards_look_at_the_states_of_now():
    state = aotc.State({"n": np.zeros((), "i4")})

    @aotc.jit(state=state, branches="guard")
    def f(state, x):
        new = {"n": state["n"] + 1}
        return new, x * 10 if state["n"] > 1 else x

    assert [float(f(np.float32(1))) for _ in range(4)] == [1, 1, 10, 10]
    (line,) = f.report()["coverage"]
    assert [(each["value"], each["share"]) for each in line["values"]] == [
        ("False", 0.5),
        ("True", 0.5),
    ]
    with pytest.raises(InputError, match="expected a State of state; got 'other'"):
        f.read_state("other")


def test_threads_share_one_compilation():
    @aotc.jit
    def f(x):
        return anp.exp(x)

    x, found = draw(7), []

    def call():
        found.append(f(x))

    threads = [threading.Thread(target=call) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(found) == 4
    for each in found:
        close(each, np.exp(x))
    assert len(f.variants) == 1


def test_the_reference_serves_while_code_is_made_in_the_background():
    @aotc.jit(warmup="background")
    def f(x):
        return {"y": anp.sin(x)}

    x = draw(5)
    close(f(x)["y"], np.sin(x))
    f.wait()
    assert len(f.variants) == 1
    close(f(x)["y"], np.sin(x))
    assert f.variants[0].calls == 1


def test_the_cache_keeps_code_for_each_target(monkeypatch, tmp_path):
    monkeypatch.setenv("AOTC_CACHE", str(tmp_path / "cache"))
    x = draw(3)
    for target in (None, "vmvx", None, "vmvx"):
        f = aotc.jit(sine_and_more, target=target)
        close(f(x), np.sin(x) + 1)
        (variant,) = f.variants
        assert (variant.made.model.variant.id == "vmvx") == (target == "vmvx")


def test_states_go_from_the_reference_to_code_and_sizes_become_symbols(monkeypatch):
    monkeypatch.setenv("AOTC_CACHE", "off")
    state = aotc.State({"n": np.zeros((), "i4"), "sum": np.zeros(2, "f4")})

    @aotc.jit(state=state, warmup="background")
    def add(state, x):
        new = {"n": state["n"] + 1, "sum": state["sum"] + anp.sum(x, 0)}
        return new, new["sum"]

    total = np.zeros(2, "f4")
    for rows in (3, 3, 4, 5, 6):
        x = draw(rows, 2)
        total = total + x.sum(0)
        got = add(x)
        close(got, total)
        got += 1  # the caller's own: the State does not see it
        if rows == 5:
            add.wait()
    assert add.read_state()["n"] == 5
    close(add.read_state()["sum"], total)
    assert len(add.variants) == 2
    labels = {"entry": "add", "path": "reference"}
    assert aotc.counters.value("calls", **labels) >= 3


def test_code_that_cannot_be_made_in_the_background_is_told_by_the_next_call(
    monkeypatch,
):
    def fail(*_):
        raise InputError("bad-option", "no such target here")

    monkeypatch.setattr("aotc.just_in_time.function.compile_program", fail)
    f = aotc.jit(lambda x: x + 1, warmup="background")
    close(f(draw(2) * 0), np.ones(2))
    f.wait()
    with pytest.raises(InputError, match="no such target"):
        f(draw(2))
    close(f(draw(2) * 0), np.ones(2))
    f.wait()
