"""A function that is given other defaults, code or arguments is compiled as it is."""

import functools

import numpy as np
import pytest

import aotc
from aotc.errors import InputError

pytestmark = pytest.mark.usefixtures("without_compiler")
X = np.arange(1, 4, dtype="f4")


def made():
    """A function with defaults of its own."""

    def function(x, by=2.0, *, also=None):
        return x * by if also is None else x * by + also

    return function


def kind_with(name, method):
    """A class of a user with one method."""
    return type("Own", (), {name: method, "__module__": __name__})


def give(thing, name, value):
    """A change of an attribute."""
    return lambda: setattr(thing, name, value)


def cases():
    """Functions that `jit` is given, and changes of them."""
    function = made()
    yield "a default", function, give(function, "__defaults__", (3.0,))
    function = made()
    yield "a default that is an array", function, give(function, "__defaults__", (X,))
    function = made()
    change = give(function, "__kwdefaults__", {"also": 1.0})
    yield "a default by name", function, change
    function = made()
    names = function.__kwdefaults__
    yield "a default by name, in place", function, functools.partial(update, names)
    function = made()
    other = (lambda x, by=2.0, *, also=None: x - by).__code__
    yield "the code", function, give(function, "__code__", other)
    yield from partials()
    yield from methods()
    inner = made()
    function = functools.wraps(inner)(lambda *args, **names: inner(*args, **names))
    yield "a default of what it wraps", function, give(inner, "__defaults__", (X,))


def update(names, **values):
    """Change a dict in place: `also`, if nothing is said."""
    names.update(values or {"also": X})


def partials():
    """Partials, and changes of what they give."""
    function = functools.partial(made(), by=2.0)
    change = functools.partial(update, function.keywords, by=3.0)
    yield "a number of a partial", function, change
    function = functools.partial(made(), also=None)
    change = functools.partial(update, function.keywords)
    yield "what was none in a partial", function, change
    numbers = [2.0]
    function = functools.partial(lambda by, x: x * by[0], numbers)
    change = functools.partial(numbers.__setitem__, 0, 3.0)
    yield "in an argument of a partial", function, change
    inner = made()
    function = functools.partial(inner, also=None)
    yield "a default in a partial", function, give(inner, "__defaults__", (3.0,))


def methods():
    """Objects that are called, or whose operators are, and changes of these."""

    def times(self, x, by=2.0):
        return x * by

    def times_seven(self, x):
        return x * 7

    kind = kind_with("__call__", times)
    yield "a default of a call", kind(), give(times, "__defaults__", (3.0,))
    kind = kind_with("__call__", lambda self, x: x * 2)
    yield "the call of an object", kind(), give(kind, "__call__", times_seven)
    kind = kind_with("method", method := lambda self, x, by=2.0: x * by)
    yield "a default of a method", kind().method, give(method, "__defaults__", (3.0,))
    kind = kind_with("__matmul__", lambda self, x: x * 2)
    thing = kind()
    change = give(kind, "__matmul__", times_seven)
    yield "an operator of an object", lambda x: thing @ x, change


@pytest.mark.parametrize("name", [name for name, *_ in cases()])
def test_a_call_after_the_change_is_that_of_the_changed_function(name):
    function, change = {each: rest for each, *rest in cases()}[name]
    compiled = aotc.jit(function)
    before = np.asarray(compiled(X))
    np.testing.assert_array_equal(before, np.asarray(function(X)))
    compiled(X)
    change()
    for _ in range(2):
        after = np.asarray(compiled(X))
        np.testing.assert_array_equal(after, np.asarray(function(X)))
    assert not np.array_equal(before, after)


def test_arguments_by_position_follow_the_order_of_new_code():
    def difference(x, y):
        return x - y

    compiled = aotc.jit(difference)
    np.testing.assert_array_equal(compiled(X, X * 3), X - X * 3)
    difference.__code__ = (lambda y, x: y - 2 * x).__code__
    np.testing.assert_array_equal(compiled(X, X * 3), X - 2 * (X * 3))


def test_code_whose_arguments_cannot_be_named_is_refused_at_the_call():
    def function(x):
        return x * 2

    compiled = aotc.jit(function)
    compiled(X)
    function.__code__ = (lambda *x: x[0]).__code__
    with pytest.raises(InputError) as refused:
        compiled(X)
    assert refused.value.code == "bad-entry"


def test_a_static_default_that_changes_is_another_value():
    def function(x, mode="double"):
        return x * 2 if mode == "double" else x * 3

    compiled = aotc.jit(function, static_argnames=["mode"])
    np.testing.assert_array_equal(compiled(X), X * 2)
    function.__defaults__ = ("triple",)
    np.testing.assert_array_equal(compiled(X), X * 3)


def test_calls_that_leave_out_an_argument_stay_quick():
    compiled = aotc.jit(lambda x, mask=None: x * 2)
    compiled(X)
    compiled(X)
    assert compiled._by_key


def test_a_hybrid_function_has_the_defaults_and_code_of_now():
    @aotc.hybrid
    def program(x, by=2.0):
        y = x * by
        return y + 1.0

    def other(x, by=2.0):
        y = x / by
        return y + 2.0

    np.testing.assert_array_equal(program(X), X * 2 + 1)
    program.function.__defaults__ = (3.0,)
    np.testing.assert_array_equal(program(X), X * 3 + 1)
    program.function.__code__ = other.__code__
    np.testing.assert_array_equal(program(X), X / np.float32(3) + 2)
