"""Closures, functions and aliases are those of Python.

Each function is called several times, by Python and as a hybrid function; between the
calls something that it reads changes. Results, effects and changed objects are equal.
"""

import functools

import pytest

import aotc
import aotc.numpy as np
from tests.hybrid_programs.worlds import Box, X, calls, effect, same_trees

# ---- closures and functions ---------------------------------------------------------


def captured_later(x, w):
    k = x * 0 + 1

    def g(a):
        return a * k

    k = x.sum()
    return g(x)


def captured_before_it_is_there(x, w):
    def g():
        return k * 2

    k = np.sin(x)
    return g()


def captured_in_a_loop(x, w):
    functions = []
    for i in range(3):
        functions.append(lambda a: a * i)  # noqa: B023
    w.say("made")
    return sum(f(x) for f in functions)


def captured_by_a_generator(x, w):
    k = 2.0
    g = (x * k for _ in range(2))
    w.say("a")
    k = 5.0
    w.say("b")
    return sum(g)


def partials(x, w):
    return functools.partial(effect, w=w)(np.sin(x))


def mapped_effects(x, w):
    return x * sum(map(functools.partial(w.say, "mapped"), [1.0, 2.0]))


def effects_in_a_loop_body(x, w):
    def body(total, row):
        w.log.append("body")
        return total + row, row

    return aotc.control.scan(body, np.sum(x) * 0, x)[0]


@aotc.hybrid
def inner(x, w):
    w.log.append("inner")
    return np.sin(x)


def calls_hybrid(x, w):
    return inner(np.cos(x), w) * 2


def many_local_functions(x, w):
    def g(a):
        return a * 2

    return g(np.sin(x)) + (lambda a: a + 1)(x)


def makes_objects(x, w):
    box = Box(3)
    w.say("made")
    return np.sin(x) * box.n


# ---- aliases ------------------------------------------------------------------------


def alias_of_a_dict(x, w):
    s = w.nested["d"]
    y = x * 2
    s["w"] = y
    return y


def alias_of_a_list(x, w):
    other = w.nested["l"]
    y = np.sin(x)
    other.append(y)
    return len(w.nested["l"])


def alias_of_an_array(x, w):
    same = w.array
    y = np.sin(x)
    w.array[0] = 100
    return same * 1 + y


def in_place_on_an_argument(x, w, a):
    y = a
    a += 1
    return y * 1


def in_place_on_what_was_computed(x, w):
    y = np.sin(x)
    y += 1
    if float(y.sum()) > 0:
        y *= 2
    w.say("then")
    y -= 1
    return y


def identity(x, w, a, b):
    return x * (a is b)


def comprehension_of_its_own_name(x, w):
    xs = [x, x * 2]
    w.say("q")
    return [xs * 3 for xs in xs][1]


def counted_effects(x, w):
    y = x * 0
    for i in range(12):
        y = y + x * i
        w.say(i)
    return y


# ---- what Python sees of arrays and objects -----------------------------------------

SHARED = X.copy()


CASES = [
    (captured_later, ()),
    (captured_before_it_is_there, ()),
    (captured_in_a_loop, ()),
    (captured_by_a_generator, ()),
    (partials, ()),
    (mapped_effects, ()),
    (effects_in_a_loop_body, ()),
    (calls_hybrid, ()),
    (many_local_functions, ()),
    (makes_objects, ()),
    (alias_of_a_dict, ()),
    (alias_of_a_list, ()),
    (alias_of_an_array, ()),
    (in_place_on_an_argument, (X.copy(),)),
    (in_place_on_what_was_computed, ()),
    (identity, (SHARED, SHARED)),
    (comprehension_of_its_own_name, ()),
    (counted_effects, ()),
]


@pytest.mark.parametrize(
    ("function", "extra"), CASES, ids=[function.__name__ for function, _ in CASES]
)
@pytest.mark.usefixtures("without_compiler")
def test_a_hybrid_function_is_the_same_program(function, extra):
    same_trees(calls(aotc.hybrid(function), extra), calls(function, extra))
