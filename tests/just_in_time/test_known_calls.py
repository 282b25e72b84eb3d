"""Calls whose code is known are found by a key that is quick to make."""

import numpy as np
import pytest

import aotc
from aotc import numpy as anp
from aotc.errors import InputError
from aotc.just_in_time.known_calls import quick_key

X = np.arange(4, dtype="f4")
PAIRS = [  # calls that must not be taken for each other
    ((1,), (1.0,)),
    ((1,), (True,)),
    (([X, X],), ((X, X),)),
    (([X, X],), ([X], X)),
    (([[X]],), ([X],)),
    (({"a": X},), ({"b": X},)),
    (({"a": X, "b": 1.0},), ({"a": X, "b": X},)),
    ((X,), (X[:3],)),
    ((X,), (X.astype("f8"),)),
    ((X,), (X[None],)),
    (([],), ((),)),
    (({},), ([],)),
]


@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_calls_that_differ_have_keys_that_differ(one, other):
    assert quick_key(one)[0] is not None
    assert quick_key(one)[0] != quick_key(other)[0]


def test_leaves_are_in_the_order_of_signatures_whatever_the_order_of_dicts():
    key, leaves = quick_key(({"b": 1.0, "a": [X, 2.0]}, 3.0))
    other, same = quick_key(({"a": [X, 2.0], "b": 1.0}, 3.0))
    assert key == other
    assert leaves == same == [X, 2.0, 1.0, 3.0]


@pytest.mark.parametrize("other", [2**31, "text", None, np.float32(1), 1j, {1: X}])
def test_whatever_else_has_no_key(other):
    assert quick_key((X, other))[0] is None or other == {1: X}
    assert quick_key((X, {1: X, "a": X}))[0] is None


def test_what_contains_itself_has_no_key():
    endless = [X]
    endless.append(endless)
    assert quick_key((endless,))[0] is None


@pytest.mark.usefixtures("without_compiler")
class TestFunctions:
    """The same results by the key as by the signature."""

    def test_trees_and_numbers(self):
        @aotc.jit
        def f(params, x, rate):
            return params["w"] * x * rate + params["b"][0]

        for scale in (1.0, 2.0, 3.0):
            params = {"w": X * scale, "b": (X, 1)}
            want = X * scale * X * 0.5 * scale + X
            np.testing.assert_allclose(f(params, X, 0.5 * scale), want)
        assert len(f.variants) == 1
        assert f.variants[0].calls == 3
        assert sum(count.calls for count in f._counts.values()) == 3

    def test_numbers_of_other_types_and_widths_have_code_of_their_own(self):
        f = aotc.jit(lambda x, n: x + n)
        for _ in range(2):
            assert f(X, 1).dtype == np.float32
            assert f(X.astype("f8"), 0.1)[0] == 0.1  # f64, as the array
            assert f(np.arange(3, dtype="i8"), 2**31 - 1)[1] == 2**31
            assert f(np.arange(3, dtype="i8"), 2**40)[1] == 2**40 + 1
            with pytest.raises(InputError):
                f(np.arange(3, dtype="i4"), 2**40)

    def test_static_numbers_are_no_arguments_of_code(self):
        f = aotc.jit(lambda x, n: x * n, static_argnames=["n"])
        for n in (1, 2, 1, 3, 2):
            np.testing.assert_array_equal(f(X, n), X * n)

    def test_defaults_are_not_forgotten(self):
        f = aotc.jit(lambda x, scale=2.0: x * scale)
        for _ in range(2):
            np.testing.assert_array_equal(f(X), X * 2)
            np.testing.assert_array_equal(f(X, 3.0), X * 3)

    def test_keys_that_are_no_texts_are_refused_each_time(self):
        f = aotc.jit(lambda tree: anp.sum(tree["a"]))
        f({"a": X})
        for _ in range(2):
            with pytest.raises(InputError):
                f({1: X})


def test_functions_with_states_find_their_code_too():
    @aotc.jit(state=aotc.State(np.zeros(4, "f4")))
    def f(state, x, rate):
        return state + x * rate, state * 1

    for number in range(3):
        np.testing.assert_allclose(f(X, 1.0), X * number)
    np.testing.assert_allclose(f.read_state(), X * 3)
