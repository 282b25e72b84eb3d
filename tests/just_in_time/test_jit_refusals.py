"""Calls and options of `aotc.jit` that are refused, and storms of compilations."""

import numpy as np
import pytest

import aotc
from aotc import control
from aotc import numpy as anp
from aotc.errors import AotcError, InputError
from aotc.tracing.assembly import trace
from tests.just_in_time.calling import close, draw


def test_what_cannot_be_guarded_says_why():
    with pytest.raises(InputError) as caught:
        aotc.jit(lambda x: x * aotc.specialize(x)[0])(draw(2000))
    assert caught.value.code == "large-guard"

    def in_a_loop(x):
        def step(total, row):
            return total + row * aotc.specialize(total), total

        return control.scan(step, anp.zeros(()), x)[0]

    with pytest.raises(InputError) as caught:
        aotc.jit(in_a_loop)(draw(3))
    assert caught.value.code == "no-call"
    entry = aotc.entry(x=aotc.Spec((), "f32"))(adds_its_value)
    with pytest.raises(InputError) as caught:
        trace([entry], {})
    assert caught.value.code == "no-call"


def adds_its_value(x):
    return x + aotc.specialize(x)


def test_a_masked_array_is_refused():
    with pytest.raises(InputError, match="masked"):
        aotc.jit(lambda x: x)(np.ma.masked_array([1.0, 2.0], [True, False]))


def test_a_storm_of_compilations_names_the_guard():
    @aotc.jit(max_compiles=3)
    def f(x, step):
        return x * aotc.specialize(step)

    x = draw(2)
    for step in range(3):
        close(f(x, step), x * step)
    with pytest.raises(
        InputError, match=r"fails most often.*value at .*test_jit"
    ) as caught:
        f(x, 7)
    assert caught.value.code == "recompile-storm"
    close(f(x, 1), x)  # what is compiled stays good


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"branches": "maybe"}, "branches"),
        ({"dynamic": True}, "dynamic"),
        ({"warmup": "soon"}, "warmup"),
        ({"max_variants": 0}, "max_variants"),
        ({"static_argnames": ["z"]}, "no parameters"),
    ],
)
def test_options_that_there_are_not_are_refused(options, words):
    with pytest.raises(InputError, match=words) as caught:
        aotc.jit(lambda x: x, **options)
    assert caught.value.code == "bad-option"


def test_a_state_that_no_parameter_is_named_after_is_refused():
    state = aotc.State({"n": np.zeros(3, "f4")})
    with pytest.raises(InputError, match="no parameter 'state'; it has s, x") as caught:
        aotc.jit(state=state)(lambda s, x: (s, x))
    assert caught.value.code == "bad-entry"


def test_wrong_calls_are_told_before_anything_is_traced():
    @aotc.jit
    def f(x, y=1.0):
        return x + y

    for call in (lambda: f(), lambda: f(1, 2, 3), lambda: f(draw(2), z=3)):
        with pytest.raises(InputError) as caught:
            call()
        assert caught.value.code == "bad-call"
    with pytest.raises(InputError) as caught:
        f("text")
    assert caught.value.code == "input-type"
    with pytest.raises(AotcError):
        f(draw(2), draw(3))
    assert f.variants == ()


def test_what_differs_from_code_that_there_is_has_the_names_of_the_loaders_guards():
    @aotc.jit(static_argnames=["mode"], dynamic="never")
    def f(x, tree, mode="plain"):
        return x + 1, tree["y"] * (2 if mode == "plain" else 3)

    x, y = draw(3, 2), draw(2)
    f(x, {"y": y})
    f(x.astype("f8"), {"y": y})
    f(x, {"y": draw(3, 2)})
    f(x, {"y": y}, mode="other")
    f(x, {"y": y, "z": y})
    f(draw(4, 2), {"y": y})
    assert f.report()["guard_failures"] == {
        "dtype of x": 1,
        "rank of tree.y": 1,
        "value of mode": 1,
        "structure of tree": 1,
        "x.shape[0]": 1,
    }


def test_sizes_that_were_equal_before_and_are_not_any_more_are_named():
    @aotc.jit
    def f(x, y):
        return x + anp.sum(y)

    for sizes in ((3, 3), (4, 4), (5, 6), (1, 1)):
        f(*(draw(size) for size in sizes))
    failures = f.report()["guard_failures"]
    assert failures["y.shape[0] = x.shape[0]"] == 1
    assert failures["range of x_0"] == 1


def test_a_storm_names_the_argument_whose_dtype_varies():
    @aotc.jit(max_compiles=2)
    def f(x):
        return x + 1

    f(np.ones(2, "f4"))
    f(np.ones(2, "i4"))
    with pytest.raises(InputError, match="is dtype of x;") as caught:
        f(np.ones(2, "i1"))
    assert caught.value.guard == "dtype of x"


def test_an_array_on_another_device_is_refused_by_name():
    class Elsewhere:
        def __dlpack_device__(self):
            return 2, 0

    with pytest.raises(InputError) as caught:
        aotc.jit(lambda tree: tree["x"] + 1)({"x": Elsewhere()})
    assert (caught.value.code, caught.value.guard) == (
        "input-device",
        "device of tree.x",
    )
