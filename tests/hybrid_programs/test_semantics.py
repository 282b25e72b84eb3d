"""What Python says happens is what happens: order, effects, closures, exceptions.

Each function is called several times, by Python and as a hybrid function; between the
calls something that it reads changes. Results, effects and changed objects are equal.
"""

import collections
import contextlib
import copy
import functools
import threading

import numpy
import pytest

import aotc
import aotc.numpy as np
from aotc.errors import InputError

X = numpy.array([1.0, 2.0, 3.0], "f")


class World:
    """What functions look at and change: a new one for Python and for hybrid."""

    def __init__(self):
        self.log = []
        self.calls = 0
        self.n = 1.0
        self.box = Box(2)
        self.seen = {1, 2}
        self.table = {2: 5.0, "b": 1.0, "a": 2.0}
        self.queue = collections.deque([1.0, 2.0])
        self.nested = {"d": {"w": X.copy()}, "l": [X.copy()]}
        self.stream = iter([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0])
        self.array = X.copy()
        self.items = [Item(1), Item(3)]
        self.counter = Counter(self.log)
        self.many = set(range(2000))
        self.large = {(1,): numpy.ones(2000, "f")}
        globals()["CALLED"] = abs

    def say(self, tag, value=None):
        self.log.append(tag)
        return value

    def bump(self):
        self.n += 10
        self.log.append("bump")
        return 1.0

    @property
    def computed(self):
        self.log.append("computed")
        return self.n

    def change(self):
        """What happens between calls."""
        self.calls += 1
        self.n += 1
        self.box.n += 3
        self.seen.add(self.calls + 5)
        self.table[2] += 1
        self.queue[0] += 4
        self.array[0] += 1
        Config.scale += 1
        self.items[0].n += 1
        self.many.add(4999 + self.calls)
        self.large[(1,)] *= 2
        Box.act = lambda box, x: x * 5 * box.n
        globals()["CALLED"] = np.sin


class Box:
    def __init__(self, n):
        self.n = n

    def __len__(self):
        return int(self.n)

    def __getitem__(self, index):
        return self.n + index

    def __add__(self, other):
        return self.n + other

    def __bool__(self):
        return self.n > 4

    def __iter__(self):
        return iter([self.n, 1.0])

    def __contains__(self, item):
        return item == self.n

    def __call__(self, x):
        return np.tanh(x) * self.n

    def act(self, x):
        return x + self.n


FIRST_ACT = Box.act


class Config:
    scale = 2.0


def hit(i):
    return i >= 1


def check(i):
    if i >= 2:
        raise ValueError(i)


def scaled(x, w):
    return np.sin(x) * w.n


def configured(x):
    return np.sin(x) * Config.scale


def effect(x, w):
    w.log.append("effect")
    return np.cos(x)


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


def kinds_of_arrays(x, w):
    y = x + 10 if isinstance(x, numpy.ndarray) else x * 1
    if x.dtype == numpy.float32:
        y = y * 2
    return y + len(str(x.dtype)) + len(f"{x * 2}")


def replaced_method(x, w):
    return w.box.act(np.sin(x))


def rebound_builtin(x, w):
    return FUNCTIONS[0](x - 2) + CALLED(x - 2)


def vmapped_object(x, w):
    box = w.box
    return aotc.vmap(box)(x) + ACROSS(x)


def mapped_objects(x, w):
    box = w.counter
    return x * sum(map(box, [1.0, 2.0])) * max([1.0, 3.0], key=box)


def objects_in_containers(x, w):
    items = w.items
    return x * (2 in items) + items.count(2) + len(str(items))


def large_set(x, w):
    many = w.many
    return x * len(many) + (5000 in many)


def view_of_a_dict(x, w):
    t = {"a": 1.0}
    v = t.values()
    y = x * 0
    for _ in range(2):
        y = y + x * sum(v)
        w.say(t.__setitem__("z", 10.0))
    return y


def attribute_of_a_function(x, w):
    def g():
        return 0

    g.k = w.n
    return takes_attribute(np.sin(x), g)


def takes_attribute(x, g):
    return x * g.k


def large_array_in_a_dict(x, w):
    d = w.large
    return np.multiply(np.sum(x), d[(1,)])[:3]


def no_value(x, w):
    a = w.say("q", x)
    try:
        if w.calls < 0:
            UNSET = np.sin(a)
        else:
            b = UNSET
    except UnboundLocalError:
        b = x * 3
    return b


def callee_before_arguments(x, w):
    def swap():
        w.f = lambda v: v * 100
        w.log.append("swap")
        return x

    w.f = np.sin
    return w.f(swap())


def defaults_of_a_lambda(x, w):
    scale = lambda: w.say("first", 2.0)  # noqa: E731
    return (lambda v, m=scale(): v * m)(w.say("second", x))  # noqa: B008


def names_of_one_result(x, w):
    y = np.sin(x)
    z = y
    w.say("a")
    pair = [y, y]
    w.say("b")
    return x * (z is y) + x * (pair[0] is pair[1])


def list_in_two_places(x, w):
    a = [np.sin(x)]
    t = (a, a)
    w.say("a")
    t[0].append(x)
    return x * len(t[1])


def deleted(x, w):
    y = np.sin(x)
    del y
    try:
        return w.say("must happen", x) + y  # noqa: F821
    except UnboundLocalError:
        return x


def masked(x, w):
    m = w.say("m", numpy.ma.masked_array(x, [1, 0, 0]))
    return x * (m * 2).sum()


def keys_of_two_types(x, w):
    for key in {1: 2.0} if w.calls else {1.0: 2.0}:
        x = x * len(str(key))
    return x


def parts_in_place(x, w):
    parts = [np.sin(x), {"a": np.cos(x)}]
    w.say("q")
    parts[0] += w.n
    parts[1]["a"] -= 1
    return parts[0] + parts[1]["a"]


def names_in_a_loop(x, w):
    a = np.sin(x) * 0
    for i in [1.0, 2.0]:
        b = a * 1
        b -= w.n
        w.say("q")
        a += i
        w.say("r")
    return a + b


def contains_itself(x, w):
    found = [x]
    found.append(found)
    w.say("q")
    return found[1][0] * len(found)


def numbers_instead_of_arrays(x, w):
    found = x * 1
    size = (found := x * 2)
    if w.calls < 9:
        found = len(x)
    w.log.append(found)
    w.n += found
    return size


def target_of_an_object(x, w):
    for w.n in x:
        pass
    return x


def effects_after_a_missing_value(x, w):
    if w.calls < 0:
        a = x
    try:
        if a > sum(w.say(n, n) for n in (1.0, 2.0)):
            k = x
            w.later = lambda: k
            k = x * 2
    except UnboundLocalError:
        w.say("caught")
    return x


def assigned_again_later(x, w):
    y = x
    for k in range(int(x[0])):  # noqa: B007
        pass
    for _ in range(2):
        n = 0
        while n < 2:
            n += 1
            y = c = y * w.n
            w.say("c", c)
    y = y * k
    c = np.sin(x)
    return y + c


def deleted_in_try(x, w):
    error = x
    with contextlib.suppress(UnboundLocalError):
        try:
            check(5)
        except ValueError as error:
            w.say(str(error))
        w.say("first", x) + np.sin(error)
    return x


def parts_in_place_with_calls(x, w):
    parts = [np.sin(x), {"a": np.cos(x)}]
    w.shown = np.tanh(x)
    w.say("q")
    parts[w.say("index", 0)] += w.say("value", w.n)
    parts[1]["a"] -= np.sin(x)
    w.shown += 1
    w.shown *= np.sin(w.shown)
    w.table["a"] += w.table.pop("b", 4.0) + w.say("z", 1.0)
    return parts[0] + parts[1]["a"] + w.shown


class Item:
    def __init__(self, n):
        self.n = n

    def __eq__(self, other):
        return self.n == other

    def __hash__(self):
        return 0

    def __repr__(self):
        return "x" * int(self.n)


class Counter:
    def __init__(self, log):
        self.log = log

    def __call__(self, v):
        self.log.append("counted")
        return v * len(self.log)


def scaled_by_global(v):
    return v * Config.scale


FUNCTIONS = [np.cos]
CALLED = abs
ACROSS = aotc.vmap(scaled_by_global)
UNSET = 100.0
SHARED = X.copy()
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
    (kinds_of_arrays, ()),
    (replaced_method, ()),
    (rebound_builtin, ()),
    (vmapped_object, ()),
    (mapped_objects, ()),
    (objects_in_containers, ()),
    (large_set, ()),
    (view_of_a_dict, ()),
    (attribute_of_a_function, ()),
    (large_array_in_a_dict, ()),
    (no_value, ()),
    (callee_before_arguments, ()),
    (defaults_of_a_lambda, ()),
    (names_of_one_result, ()),
    (list_in_two_places, ()),
    (deleted, ()),
    (masked, ()),
    (keys_of_two_types, ()),
    (parts_in_place, ()),
    (names_in_a_loop, ()),
    (contains_itself, ()),
    (numbers_instead_of_arrays, ()),
    (target_of_an_object, ()),
    (effects_after_a_missing_value, ()),
    (assigned_again_later, ()),
    (deleted_in_try, ()),
    (parts_in_place_with_calls, ()),
]


def calls(function, extra):
    """Three calls: what they return, their effects, and what has become of objects."""
    world, extra = World(), copy.deepcopy(extra)
    Config.scale, Box.act = 2.0, FIRST_ACT
    results = []
    for _ in range(3):
        results.append(function(X.copy(), world, *extra))
        world.change()
    changed = ("log", "calls", "n", "seen", "table", "queue", "nested", "array")
    state = {name: vars(world)[name] for name in changed}
    state |= {"box": world.box.n, "stream": list(world.stream)}
    return [results, [list(world.log), state, extra]]


def flat(tree):
    if isinstance(tree, dict):
        return [part for row in tree.items() for each in row for part in flat(each)]
    if isinstance(tree, (list, tuple, collections.deque)):
        return [part for each in tree for part in flat(each)]
    return [tree]


def same_trees(one, other):
    for a, b in zip(flat(one), flat(other), strict=True):
        if isinstance(a, (str, set, type(None))):
            assert a == b
        else:
            numpy.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("function", "extra"), CASES, ids=[function.__name__ for function, _ in CASES]
)
@pytest.mark.usefixtures("without_compiler")
def test_a_hybrid_function_is_the_same_program(function, extra):
    same_trees(calls(aotc.hybrid(function), extra), calls(function, extra))


def deleted_in_a_loop(x, w):
    k, n = x, 0
    while n < 1:
        n += w.say("once", 1)
        del k
    else:
        w.say("else")
        y = k * 2
    return y


@pytest.mark.usefixtures("without_compiler")
@pytest.mark.parametrize("wrap", [aotc.hybrid, lambda f: f], ids=["hybrid", "python"])
def test_a_deleted_variable_is_missed_where_it_is_read(wrap):
    world = World()
    with pytest.raises(UnboundLocalError):
        wrap(deleted_in_a_loop)(X, world)
    assert world.log == ["once", "else"]


def returns_what_was_given(x, w):
    for i in range(2):
        found = lambda: np.sin(x) * i  # noqa: B023, E731
    both = [found()]
    return [both, w.nested["l"], both, w.items]


@pytest.mark.usefixtures("without_compiler")
def test_objects_in_results_are_those_of_python():
    world = World()
    first, given, second, items = aotc.hybrid(returns_what_was_given)(X, world)
    assert first is second
    assert given is world.nested["l"]
    assert items is world.items


def computes_for_objects(x, w):
    try:
        w.log.append(np.sin(x))
        w.table["c"] = np.cos(x)
    finally:
        w.shown = np.tanh(x)


@pytest.mark.usefixtures("without_compiler")
def test_statements_without_results_are_compiled_as_far_as_they_can_be():
    world, function = World(), aotc.hybrid(computes_for_objects)
    function(X, world)
    found = [*world.log, world.table["c"], world.shown]
    assert all(isinstance(each, numpy.ndarray) for each in found)
    same_trees(found, [numpy.sin(X), numpy.cos(X), numpy.tanh(X)])
    assert len(function.workshop.regions) == 3


def goes_down(x, w, depth=2):
    y = np.sin(x)
    w.say(f"down {depth}")
    if depth:
        y = y + RECURSIVE[0](x, w, depth - 1)
    w.say(f"up {depth}")
    return np.cos(y)


RECURSIVE = [goes_down]


def test_a_function_that_calls_itself_in_an_island_has_its_effects_once():
    expected = calls(goes_down, ())
    RECURSIVE[0] = aotc.hybrid(goes_down)
    try:
        same_trees(calls(RECURSIVE[0], ()), expected)
    finally:
        RECURSIVE[0] = goes_down


def test_threads_that_split_one_function_have_their_effects_once():
    both = threading.Barrier(2, timeout=300)

    def two_islands(x, w):
        y = np.sin(x)
        w.say("first")
        both.wait()
        y = np.cos(y)
        w.say("second")
        return y * 2

    function, worlds = aotc.hybrid(two_islands), [World(), World()]
    found = [None, None]

    def call(number):
        found[number] = function(X + number, worlds[number])

    threads = [threading.Thread(target=call, args=(n,)) for n in range(2)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    for number, world in enumerate(worlds):
        assert world.log == ["first", "second"]
        same_trees(found[number], numpy.cos(numpy.sin(X + number)) * 2)


class Model:
    __shift = 3.0

    def __init__(self):
        self.k = 2.0

    @aotc.hybrid
    def scaled(self, x):
        return np.tanh(x) * self.k

    @aotc.hybrid
    def shifted(self, x):
        return np.tanh(x) + self.__shift


def test_methods_are_hybrid_functions_too():
    model = Model()
    same_trees(model.scaled(X), numpy.tanh(X) * 2)
    model.k = 5.0
    same_trees(model.scaled(X), numpy.tanh(X) * 5)
    same_trees(model.shifted(X), numpy.tanh(X) + 3)

    with pytest.raises(InputError, match="super") as caught:

        class Child(Model):
            @aotc.hybrid
            def scaled(self, x):
                return super().scaled(x) * 2

    assert caught.value.code == "bad-hybrid"


def test_a_function_of_the_module_may_become_another_one(monkeypatch):
    hybrid = aotc.hybrid(calls_helper)
    same_trees(hybrid(X, World()), calls_helper(X, World()))
    monkeypatch.setitem(globals(), "scaled", lambda x, w: x * 100)
    same_trees(hybrid(X, World()), calls_helper(X, World()))


def test_one_call_without_arrays_leaves_the_code_for_arrays():
    double = aotc.hybrid(lambda_free_double)
    assert double(3) == 6
    same_trees(double(X), X * 2)
    assert double(4) == 8
    same_trees(double(X), X * 2)
    assert double.boundaries == ()
    assert len(double.workshop.regions[0].jit.variants) == 1


def lambda_free_double(x):
    return x * 2


def test_a_file_that_was_changed_after_its_import_is_not_what_is_compiled(tmp_path):
    file = tmp_path / "changing_model.py"
    file.write_text("import aotc.numpy as np\n\ndef f(x):\n    return np.sin(x)\n")
    scope = {"__name__": "changing_model"}
    exec(compile(file.read_text(), str(file), "exec"), scope)
    file.write_text("import aotc.numpy as np\n\ndef f(x):\n    return np.cos(x)\n")
    with pytest.raises(InputError, match="source"):
        aotc.hybrid(scope["f"])


@pytest.mark.parametrize("wrap", [aotc.jit, aotc.hybrid], ids=["jit", "hybrid"])
def test_derivatives_go_through_compiled_functions(wrap):
    square = wrap(sum_of_squares)
    same_trees(aotc.grad(square)(X), 2 * X)
    same_trees(aotc.grad(lambda x: square(x) + np.sum(x))(X), 2 * X + 1)
    same_trees(aotc.vmap(square)(numpy.stack([X, X + 1])), numpy.float32([14, 29]))


def sum_of_squares(x):
    return np.sum(x * x)
