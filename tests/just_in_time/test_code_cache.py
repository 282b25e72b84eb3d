"""A cache of codes keeps those used last, and knows what cannot be compiled."""

from dataclasses import dataclass
from itertools import count

import pytest

from aotc.errors import InputError
from aotc.just_in_time import code_cache
from aotc.just_in_time.code_cache import CodeCache


@dataclass(frozen=True)
class Call:
    form: str
    shapes: tuple


@dataclass
class Code:
    name: str
    used: int


def call(form, *sizes):
    return Call(form, (sizes,))


@pytest.fixture
def clock(monkeypatch):
    ticks = count(1)
    monkeypatch.setattr(code_cache.time, "monotonic_ns", lambda: next(ticks))
    return ticks


def test_of_too_many_codes_the_one_used_longest_ago_goes(clock):
    cache = CodeCache("f", 2, 9)
    a, b = Code("a", next(clock)), Code("b", next(clock))
    assert cache.keep(a) == cache.keep(b) == []
    assert cache.latest(lambda each: True) is b
    assert cache.latest(lambda each: each is a) is a
    assert cache.latest(lambda each: False) is None
    c = Code("c", next(clock))
    assert cache.keep(c) == [b]
    assert cache.by_use == [a, c]
    assert cache.evictions == 1


def test_sizes_vary_from_the_second_shape_of_a_form_on_unless_there_is_no_code():
    cache = CodeCache("f", 2, 9)
    assert cache.symbolic_sizes(call("x", 2, 3), ["a"]) is None
    ((first, second),) = cache.symbolic_sizes(call("x", 2, 3), ["a"], all_vary=True)
    assert (first.name, second.name) == ("a_0", "a_1")
    assert cache.note_shapes(call("x", 2, 3)) == [((2, 3),)]
    assert cache.note_shapes(call("x", 2, 3)) == [((2, 3),)]
    ((size, fixed),) = cache.symbolic_sizes(call("x", 5, 3), ["a"])
    assert (size.name, fixed) == ("a_0", 3)
    assert cache.symbolic_sizes(call("y", 5, 3), ["a"]) is None
    cache.require_exact(call("x", 7, 3))
    assert cache.symbolic_sizes(call("x", 5, 3), ["a"]) is None


def test_after_some_shapes_no_other_of_a_form_is_tried_and_after_many_calls_none():
    cache = CodeCache("f", 2, 4, most_shapes=2)
    assert cache.refusal(call("x", 1)) is None
    assert cache.refuse(call("x", 1), "first") == "first"
    assert cache.refusal(call("x", 1)) == "first"
    assert cache.refusal(call("x", 2)) is None
    cache.refuse(call("x", 2), "second")
    assert cache.refusal(call("x", 1)) == "first"
    assert cache.refusal(call("x", 3)) == "second"
    cache.refuse(call("y", 1), "third")
    assert cache.refusal(call("z", 1)) is None
    cache.refuse(call("z", 1), "fourth")
    assert cache.refusal(call("w", 1)) == "fourth"


def test_one_compilation_too_many_names_the_guard():
    cache = CodeCache("f", 2, 2)
    cache.compiles = 1
    cache.require_room(lambda: ("n", 3), "f32[2]", "pad")
    for compiles, pending in ((1, 1), (2, 0)):
        cache.compiles = compiles
        with pytest.raises(InputError, match=r"n; the last call was of f32\[2\]") as it:
            cache.require_room(lambda: ("n", 3), "f32[2]", "pad", pending)
        error = it.value
        assert (error.code, error.guard, error.hint) == ("recompile-storm", "n", "pad")
