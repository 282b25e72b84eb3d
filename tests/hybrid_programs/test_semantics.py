"""What Python says happens is what happens: order, effects, closures, exceptions.

Each function is called several times, by Python and as a hybrid function; between the
calls something that it reads changes. Results, effects and changed objects are equal.
"""

import contextlib
import threading

import numpy
import pytest

import aotc
import aotc.numpy as np
from aotc.errors import InputError
from tests.hybrid_programs.worlds import (
    REBOUND,
    World,
    X,
    calls,
    check,
    same_trees,
    scaled_by_global,
)

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


FUNCTIONS = [np.cos]

CALLED = abs
REBOUND.append(globals())

ACROSS = aotc.vmap(scaled_by_global)

UNSET = 100.0

CASES = [
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
