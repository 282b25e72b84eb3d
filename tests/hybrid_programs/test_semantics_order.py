"""Control flow, exceptions, order and what is read at each call are those of Python.

Each function is called several times, by Python and as a hybrid function; between the
calls something that it reads changes. Results, effects and changed objects are equal.
"""

import contextlib

import pytest

import aotc
import aotc.numpy as np
from tests.hybrid_programs.worlds import (
    Config,
    World,
    X,
    calls,
    check,
    configured,
    hit,
    same_trees,
    scaled,
)

# ---- control flow and exceptions ----------------------------------------------------


def breaks(x, w):
    y = x
    for i in range(3):
        y = x * (i + 1)
        if hit(i):
            break
        y = x * 0
    return y


def continues(x, w):
    y = x
    for i in range(4):
        y = y + x * i
        if i == 2:
            continue
        y = y * 2
    else:
        y = y - 1
    return y


def leaves_while(x, w):
    y, n = x, 0
    while True:
        y = y * 2
        n += 1
        if n > 2:
            break
        y = y + 1
    return y


def fails_in_try(x, w):
    y = x
    try:
        y = x * 2
        check(5)
        y = x * 3
    except ValueError:
        pass
    return y


def fails_in_a_loop_in_try(x, w):
    total = x * 0
    try:
        for i in range(5):
            total = total + x
            check(i)
    except ValueError:
        total = total + 0.5
    finally:
        w.say("end", total)
    return total


def fails_in_with(x, w):
    total = x * 0
    with contextlib.suppress(ValueError):
        total = total + x
        if total.sum() > 0:
            total = total * 2
            check(7)
        total = total * 0
    return total


def walrus_before_failure(x, w):
    y = x
    try:
        (y := x * 2) + check(9)
    except ValueError:
        y = y + 0
    return y


# ---- order --------------------------------------------------------------------------


def reads_before_a_call(x, w):
    return x * (w.n + w.bump())


def keywords_in_order(x, w):
    def two(a, b):
        return a * 2 + b

    return x * two(a=w.n, b=w.bump())


def conditional_operand(x, w):
    return x * max(w.say("a", 1) if x.shape[0] else 0, w.say("c", 3))


def walrus_in_order(x, w):
    a = x * 1
    return (a := a * 2) + w.say("q", 1.0) * (a * 3)


def augmented_attribute(x, w):
    w.n += 1 * w.bump()
    return x * w.n


def comprehension_and_call(x, w):
    found = [w.say(i, i) for i in range(2)] + [w.say("z", 9)]
    return x * sum(found)


def keys_before_values(x, w):
    found = {w.say("k", "key"): w.say("v", 3.0)}
    return x * found["key"]


def texts_in_order(x, w):
    return len(f"{w.say('a')}" + str(w.say("b"))) * x


def stars_in_order(x, w):
    it = iter([1.0, 2.0, 3.0])
    return x * sum([*it, next(it, 7.0)])


def callee_first(x, w):
    return w.say("pick", np.sin)(w.say("argument", x))


# ---- what is read at each call ------------------------------------------------------


def reads_class(x, w):
    return x * Config.scale


def reads_length(x, w):
    return x * len(w.seen) + len(w.box)


def reads_parts(x, w):
    return x * w.queue[0] + w.table[2] + w.box[1]


def reads_by_name(x, w):
    return x * getattr(w, "n")  # noqa: B009


def looks_for(x, w):
    return x * (7 in w.seen) + (5 in w.box)


def adds_objects(x, w):
    return x * (w.box + 1)


def asks_object(x, w):
    return x if w.box else -x


def goes_through(x, w):
    total = x * 0
    for each in w.box:
        total = total + each
    return total + sum(w.queue)


def calls_object(x, w):
    box = w.box
    return box(x)


def calls_helper(x, w):
    return scaled(x, w) + configured(x)


def computes_property(x, w):
    return x * w.computed


def takes_from_iterator(x, w):
    y = np.sin(x) * next(w.stream)
    w.say("taken")
    return y + next(w.stream)


def goes_through_iterator(x, w):
    total = x * 0
    for _, each in zip(range(2), w.stream):  # noqa: B905
        total = total + each
    w.say("through")
    return total


def order_of_keys(x, w):
    total = x
    for key in {"b": 1, "a": 2}:
        total = total * 2 + {"b": 1.0, "a": 3.0}[key]
    for key in w.nested:
        total = total * 2 + len(key)
    return {"z": total, "a": x}


def keys_of_several_kinds(x, w):
    named = {2: np.sin(x), "b": x + 1}
    w.say(len(named))
    other = {"z": named[2] * 2, "a": np.cos(named["b"])}
    return [*other], type(other).__name__, named[2], other["a"]


def keys_of_an_argument(x, w, named):
    total = x
    for name in named:
        total = total * 2 + named[name]
    return total


CASES = [
    (breaks, ()),
    (continues, ()),
    (leaves_while, ()),
    (fails_in_try, ()),
    (fails_in_a_loop_in_try, ()),
    (fails_in_with, ()),
    (walrus_before_failure, ()),
    (reads_before_a_call, ()),
    (keywords_in_order, ()),
    (conditional_operand, ()),
    (walrus_in_order, ()),
    (augmented_attribute, ()),
    (comprehension_and_call, ()),
    (keys_before_values, ()),
    (texts_in_order, ()),
    (stars_in_order, ()),
    (callee_first, ()),
    (reads_class, ()),
    (reads_length, ()),
    (reads_parts, ()),
    (reads_by_name, ()),
    (looks_for, ()),
    (adds_objects, ()),
    (asks_object, ()),
    (goes_through, ()),
    (calls_object, ()),
    (calls_helper, ()),
    (computes_property, ()),
    (takes_from_iterator, ()),
    (goes_through_iterator, ()),
    (order_of_keys, ()),
    (keys_of_several_kinds, ()),
    (keys_of_an_argument, ({"b": X * 2, "a": X},)),
]


@pytest.mark.parametrize(
    ("function", "extra"), CASES, ids=[function.__name__ for function, _ in CASES]
)
@pytest.mark.usefixtures("without_compiler")
def test_a_hybrid_function_is_the_same_program(function, extra):
    same_trees(calls(aotc.hybrid(function), extra), calls(function, extra))


def test_a_function_of_the_module_may_become_another_one(monkeypatch):
    hybrid = aotc.hybrid(calls_helper)
    same_trees(hybrid(X, World()), calls_helper(X, World()))
    monkeypatch.setitem(globals(), "scaled", lambda x, w: x * 100)
    same_trees(hybrid(X, World()), calls_helper(X, World()))
