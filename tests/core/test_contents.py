"""Digests of Python values tell apart what code may tell apart, and nothing else."""

import array
import collections
import functools
import itertools

import numpy as np
import pytest

from aotc.core.contents import (
    ContainerTooLarge,
    ContentDigest,
    UnknownValue,
    content_key,
)
from aotc.hybrid_programs.packages.values import digests
from aotc.just_in_time.function_digests import function_digest

F4 = np.float32
DIFFERENT = [
    1, 1.0, True, 1 + 0j, "1", b"1", 0.0, -0.0, float("nan"), None, ..., range(1),
    slice(1), F4(1), np.float64(1), np.int64(1), np.int32(1), np.bool_(True), F4(0.0),
    F4(-0.0), F4("nan"), np.array(1, F4), np.array([1], F4), np.array([[1]], F4),
    np.array([1.0]), np.array([1], ">f4"), np.dtype("f4"), np.dtype(">f4"),
    np.array([-0.0]), np.array([0.0]), np.array([np.nan]),
]  # fmt: skip
WRAPPINGS = {
    "alone": lambda x: x,
    "in a list": lambda x: [x],
    "in a tuple": lambda x: (x,),
    "in a dict": lambda x: {"k": [x]},
    "in a partial": lambda x: functools.partial(max, x),
}


class NamedDigest(ContentDigest):
    def other(self, value):
        self.note(value.__name__)


def own_digest(value):
    found = NamedDigest()
    found.value(value)
    return found.digest()


def package_digest(value):
    (found,) = digests({"__name__": "m", "x": value}, ["x"]).values()
    return found


DIGESTS = [own_digest, content_key, function_digest, package_digest]


@pytest.mark.parametrize("wrapping", WRAPPINGS)
@pytest.mark.parametrize("digest", DIGESTS)
def test_types_signs_shapes_and_orders_of_bytes_count(digest, wrapping):
    wrap = WRAPPINGS[wrapping]
    keys = [digest(wrap(each)) for each in DIFFERENT]
    assert None not in keys
    assert len({*keys}) == len(DIFFERENT)


@pytest.mark.parametrize("digest", DIGESTS)
def test_equal_contents_have_equal_digests(digest):
    def value(order):
        names = ["a", "b", "c"] if order else ["c", "b", "a"]
        return [
            [float("nan"), -0.0, 10**30, F4("nan")],
            {"k": (1, 2.5), "l": {*names}},
            frozenset(names),
            np.arange(6.0).reshape(2, 3)[:, ::2]
            if order
            else np.array([[0.0, 2], [3, 5]]),
            functools.partial(max, 1, key=len),
        ]

    assert digest(value(True)) == digest(value(False))


@pytest.mark.parametrize("digest", [own_digest, content_key, package_digest])
def test_kinds_of_containers_their_order_and_their_ends_count(digest):
    table = {1: 2, 3: 4}
    values = [
        [1, 2], (1, 2), {1, 2}, frozenset((1, 2)), [2, 1], [[1], 2], [1, [2]], [[1, 2]],
        [], (), set(), {}, {1: 2}, {2: 1}, table, {3: 4, 1: 2}, table.keys(),
        table.values(), table.items(), collections.deque([1, 2]), bytearray(b"\1\2"),
        array.array("b", [1, 2]), {(1, 2), (3, 4)}, {(1, 3), (2, 4)},
    ]  # fmt: skip
    assert len({digest(each) for each in values}) == len(values)
    assert digest({(1, 2), (3, 4)}) == digest({(3, 4), (1, 2)})


@pytest.mark.parametrize("digest", DIGESTS)
def test_whether_two_parts_are_one_object_counts_and_ends_circles(digest):
    part = [1]
    assert digest([part, part]) != digest([[1], [1]])

    def circle(steps):
        whole = [0]
        for _ in range(steps):
            whole.append(whole)
        return whole

    assert digest(circle(1)) == digest(circle(1)) != digest(circle(2))


def test_code_and_what_it_has_decide_on_the_key_of_a_function():
    def make(n, default=1, operation=None):
        def add(x, y=default):
            return x + n + y

        def multiply(x, y=default):
            return x * n * y

        return operation or (add if n < 10 else multiply)

    key = content_key(make(2))
    assert key == content_key(make(2))
    others = [make(3), make(2.0), make(True), make(2, 2), make(20), make(2, [1])]
    keys = [key, *map(content_key, others)]
    assert all(one != other for one, other in itertools.combinations(keys, 2))


def test_objects_and_large_arrays_are_the_same_as_themselves_alone():
    class Thing:
        pass

    one = Thing()
    assert content_key([one]) == content_key([one])
    assert content_key([one]) != content_key([Thing()])
    large = np.zeros(1025)
    assert content_key(large) == content_key(large) != content_key(large.copy())
    small = np.zeros(1024)
    assert content_key(small) == content_key(small.copy())


def test_a_subclass_of_a_container_is_another_kind_of_value():
    class Own(dict):
        pass

    assert content_key(Own(n=1)) == content_key(Own(n=1))
    assert content_key(Own(n=1)) != content_key({"n": 1})
    named = collections.namedtuple("named", "a b")
    assert content_key(named(1, 2)) != content_key((1, 2))


def test_what_is_too_large_or_unknown_is_refused():
    with pytest.raises(ContainerTooLarge):
        content_key([*range(1024)])
    assert content_key([*range(1023)])
    with pytest.raises(UnknownValue):
        ContentDigest().value([object()])
    assert function_digest(np.zeros(1 << 21)) == function_digest(np.zeros(1 << 21))
    assert function_digest(np.zeros((1 << 21) + 1)) is None
    assert package_digest(object()) is None
    assert package_digest([object(), 1]) != package_digest([object(), 2])
    assert package_digest([object(), 1]) == package_digest([object(), 1])
