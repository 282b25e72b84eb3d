"""specialize: entries for calls of some sizes, which compute what others compute."""

import numpy as np
import pytest

import aotc
import aotc.numpy as anp
from aotc import control, nn, reference
from aotc.dialects.functions.entry_guards import GUARDS, EntryGuard, guards_attribute
from aotc.dialects.functions.functions import functions_of, signature
from aotc.errors import InputError
from aotc.passes import run_passes
from aotc.pipeline.specializations import ask_for_specializations
from aotc.programs.program import Program
from aotc.tracing.assembly import trace

RNG = np.random.default_rng(5)
BATCH = aotc.Dim("batch", specialize=(1, 3))
LENGTH = aotc.Dim("length", min=2, max=64, multiple_of=2, specialize=(4,))
WEIGHT = RNG.normal(size=(6, 6)).astype("f4")


def sizes_everywhere(x, y):
    """Symbols in types, in attributes, in values, and in the body of a loop."""
    table = anp.arange(x.shape[1]) * x.shape[0] + anp.asarray(x.shape[1] // 2)
    pairs = anp.reshape(x, (x.shape[0], x.shape[1] // 2, 2, 6))
    step = lambda h, row: (anp.tanh(h @ WEIGHT + row), h[:, :2])  # noqa: E731
    last, seen = control.scan(step, x[:, 0], anp.swapaxes(x, 0, 1))
    mean = anp.sum(pairs, (1, 2)) / x.shape[1] + y[: x.shape[0], None] + y[-1]
    return mean, last, seen, anp.concatenate([table, table]), nn.softmax(x, axis=1)


def gradient(x, y):
    loss = lambda x: anp.mean(sizes_everywhere(x, y)[1] ** 2)  # noqa: E731
    return aotc.grad(loss)(x)


def entry(function, batch=BATCH, length=LENGTH):
    x, y = aotc.Spec((batch, length, 6)), aotc.Spec((2 * batch + 1,))
    return trace([aotc.entry(x=x, y=y)(function)], {})


def arrays(batch, length):
    x = RNG.normal(size=(batch, length, 6)).astype("f4")
    return [x, RNG.normal(size=2 * batch + 1).astype("f4")]


def specialized(program):
    run_passes(program.module, ("autodiff", "inline", "specialize"), silently=True)
    return {
        each.specializes.sizes: each for each in program.entries if each.specializes
    }


@pytest.mark.parametrize("function", [sizes_everywhere, gradient])
def test_each_combination_of_sizes_has_a_function_that_computes_the_same(function):
    program = entry(function)
    found = specialized(program)
    assert {*found} == {
        (("batch", 1), ("length", 4)),
        (("batch", 3), ("length", 4)),
    }
    for sizes, each in found.items():
        inputs = arrays(**dict(sizes))
        general = reference.evaluate(program.module, function.__name__, inputs)
        special = reference.evaluate(program.module, each.name, inputs)
        for a, b in zip(general, special, strict=True):
            np.testing.assert_array_equal(a, b)
        assert each.symbols == ()
        types = signature(functions_of(program.module)[each.name])
        assert all(kind.is_static for side in types for kind in side)


def test_symbols_without_sizes_to_specialize_for_stay_symbols():
    program = entry(sizes_everywhere, batch=aotc.Dim("batch", max=9))
    ((sizes, each),) = specialized(program).items()
    assert sizes == (("length", 4),)
    assert [symbol.name for symbol in each.symbols] == ["batch"]
    for batch in (1, 5):
        inputs = arrays(batch, 4)
        general = reference.evaluate(program.module, "sizes_everywhere", inputs)
        special = reference.evaluate(program.module, each.name, inputs)
        for a, b in zip(general, special, strict=True):
            np.testing.assert_array_equal(a, b)


def test_nothing_is_made_twice_and_nothing_without_being_asked_for():
    program = entry(sizes_everywhere)
    passes = ("autodiff", "inline", "specialize", "specialize")
    *_, first, second = run_passes(program.module, passes, silently=True)
    assert (first.changed, second.changed) == (True, False)
    plain = entry(sizes_everywhere, aotc.Dim("batch"), aotc.Dim("length", 2, 64, 2))
    assert not run_passes(plain.module, passes, silently=True)[-1].changed


def test_a_specialization_has_no_guard_that_its_sizes_decide():
    program = entry(sizes_everywhere)
    guards = [
        EntryGuard("batch != length", "traced so"),
        EntryGuard("length < 9", "short"),
    ]
    with program.module.context:
        function = functions_of(program.module)["sizes_everywhere"]
        function.attributes[GUARDS] = guards_attribute(guards)
    assert all(each.guards == () for each in specialized(program).values())


def test_what_is_asked_for_on_the_command_line_adds_to_what_the_model_asks_for():
    program = entry(sizes_everywhere)
    ask_for_specializations(program, [{"batch": 2}, {"batch": 3, "length": 4}])
    assert {*specialized(program)} == {
        (("batch", 2),),
        (("batch", 1), ("length", 4)),
        (("batch", 3), ("length", 4)),
    }


@pytest.mark.parametrize(
    ("sizes", "code", "words"),
    [
        ({"width": 3}, "unknown-size", "expected one of batch, length"),
        ({"length": 5}, "bad-size", r"length in \[2, 64\] in steps of 2"),
        ({"length": 66}, "bad-size", "length = 66"),
        ({"batch": 0}, "bad-size", "batch >= 1"),
    ],
)
def test_refuses_sizes_that_no_call_has(sizes, code, words):
    with pytest.raises(InputError, match=words) as caught:
        ask_for_specializations(entry(sizes_everywhere), [sizes])
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        ((1, 0), "batch"),
        (("1",), "got '1'"),
        ((True,), "got True"),
        ((2.0,), "got 2.0"),
        ("all", "got 'all'"),
        (None, "got None"),
    ],
)
def test_refuses_a_dim_with_sizes_that_it_does_not_allow(sizes, words):
    with pytest.raises(InputError, match=words) as caught:
        aotc.Dim("batch", specialize=sizes)
    assert caught.value.code == "bad-contract"


def test_refuses_more_combinations_than_anyone_wants_to_compile():
    with pytest.raises(InputError, match="more than 64 combinations") as caught:
        entry(
            sizes_everywhere,
            aotc.Dim("batch", specialize=range(1, 17)),
            aotc.Dim("length", 2, 64, 2, specialize=range(2, 34, 2)),
        )
    assert caught.value.code == "too-many-specializations"


def test_refuses_two_lists_of_sizes_for_one_dim():
    x = aotc.Spec((aotc.Dim("n", specialize=[1]), aotc.Dim("n", specialize=[2])))
    with pytest.raises(InputError, match="specializes size 'n'"):
        trace([aotc.entry(x=x)(plus_one)], {})


def plus_one(x):
    return x + 1


@pytest.mark.parametrize(
    ("least", "most", "expected"),
    [
        (1, 8, (1, 2, 4, 8)),
        (3, 9, (4, 8)),
        (5, 7, ()),
        (8, 8, (8,)),
    ],
)
def test_powers_of_two_are_those_between_two_sizes(least, most, expected):
    assert aotc.powers_of_two(least, most) == expected


def test_kept_entries_keep_their_specializations():
    program = entry(sizes_everywhere)
    found = specialized(program)
    Program.keep_entries(program, ["sizes_everywhere"])
    assert len(program.entries) == 1 + len(found)
    assert [each.name for each in program.entry_points] == ["sizes_everywhere"]
