"""Functions of `aotc.hybrid` give what their Python gives, in the same order."""

import contextlib
import threading

import numpy
import pytest

import aotc
import aotc.numpy as np
from aotc import nn
from aotc.errors import InputError

RNG = numpy.random.default_rng(0)
WEIGHTS = aotc.Weights({"w": RNG.standard_normal((8, 4)).astype("f")})
STORE = RNG.standard_normal((50, 4)).astype("f")
SCALES = {"now": 2.0}
EVENTS: list[object] = []


def search(query, k):
    EVENTS.append("search")
    return STORE[numpy.argsort(-(STORE @ numpy.asarray(query)))[:k]]


class Threshold:
    def __init__(self):
        self.limit = 1.0


@aotc.island
def noted(x):
    EVENTS.append(type(x).__name__)
    return x + 1


def retrieval(weights, x, k=3):
    q = nn.relu(x @ weights["w"])
    docs = search(q.sum(0), k)
    EVENTS.append(docs.shape)
    return nn.softmax(q @ docs.T) @ docs, len(docs)


def deciding(x):
    y = np.tanh(x)
    if y.sum() > 0:
        z = y * 2
        y = z + 1
    else:
        z = y - 1
    while z.max() > 0.5:
        z = z / 2
    return {"z": z, "y": y}


def returning(x):
    y = x * 2
    if float(y.sum()) > 0:
        return y + 1
    for step in range(3):
        y = y - 1
        if float(y.min()) < -4:
            return y * step
    return y


def reading(x, options):
    EVENTS.append(options.limit)
    return np.minimum(x, options.limit) * SCALES["now"]


def gathering(x):
    rows = []
    for each in range(3):
        rows.append(np.sin(x) + each)
    rows.append(noted(x))
    return np.stack(rows).sum(0)


def recovering(x):
    state = x * 1
    try:
        state = np.exp(state)
        state = search(state[0, 0:4], "two")
    except TypeError:
        state = state * 3
    finally:
        EVENTS.append("end")
    return state


def closing(x, names):
    shift = {"a": 1.0, "b": 2.0}
    total = x
    for name in names:
        total = total + shift[name]
    double = lambda y: y * 2  # noqa: E731
    return [double(each) for each in (total, x)]


def numbering(x, n):
    head = x[:n]
    count = head.shape[0] * 2
    return np.cumsum(head, axis=0) * count, count


def jumping(x):
    step, y, z = 0, np.tanh(x), np.sin(x)
    while step < 3:
        y = y + 1
        step += 1
        if step == 2:
            continue
    else:
        y = y * 2
    del z
    return y, step


def growing(x):
    out = []
    out += [np.sin(x)]
    alias = out
    alias.append(np.cos(x))
    return len(out), out[1]


def managing(x):
    @contextlib.contextmanager
    def managed():
        EVENTS.append("in")
        yield 3.0
        EVENTS.append("out")

    with managed() as scale:
        return np.sin(x) * scale


def naming(x):
    y = (z := np.exp(x)) + 1
    return y * z if z.shape[0] > 2 else y


def matching(x):
    match x.shape:
        case (5, n):
            y = np.sin(x) * n
        case _:
            y = x * 2
    return y


def unset(x):
    if float(numpy.asarray(x).sum()) > 1e9:
        shift = 3
    y = np.sin(x)
    try:
        return y + shift
    except UnboundLocalError:
        return y


X = RNG.standard_normal((5, 8)).astype("f")
CASES = [
    (deciding, (X,)),
    (deciding, (-abs(X),)),
    (returning, (X,)),
    (returning, (-abs(X) - 1,)),
    (returning, (abs(X),)),
    (reading, (X, Threshold())),
    (gathering, (X,)),
    (recovering, (X,)),
    (closing, (X, ["a", "b"])),
    (jumping, (X,)),
    (growing, (X,)),
    (managing, (X,)),
    (naming, (X,)),
    (matching, (X,)),
    (unset, (X,)),
    (numbering, (X, 2)),
    (numbering, (X, 4)),
    (numbering, (X[:1], 4)),
    (deciding, (X[:0, :0].reshape(1, 0).sum(keepdims=True),)),
]
HYBRID = {f: aotc.hybrid(f) for f, _ in CASES}


def _same(got, expected):
    assert type(got) is type(expected) or isinstance(got, numpy.ndarray)
    if isinstance(got, dict):
        assert got.keys() == expected.keys()
        for key in got:
            _same(got[key], expected[key])
    elif isinstance(got, (list, tuple)):
        for one, other in zip(got, expected, strict=True):
            _same(one, other)
    else:
        expected = numpy.asarray(expected)
        assert numpy.asarray(got).dtype == expected.dtype
        numpy.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("function", "inputs"), CASES, ids=lambda x: getattr(x, "__name__", "")
)
def test_a_call_gives_what_python_gives_and_has_its_effects_once(function, inputs):
    for _ in range(2):
        EVENTS.clear()
        expected = function(*inputs)
        effects = [*EVENTS]
        EVENTS.clear()
        _same(HYBRID[function](*inputs), expected)
        assert [e for e in EVENTS if e != "Array"] == [
            "ndarray" if e == "Array" else e for e in effects
        ]


def test_weights_are_compiled_in_and_islands_are_listed():
    answer = aotc.hybrid(retrieval, weights=WEIGHTS)
    for rows in (5, 7, 2, 1):
        x = RNG.standard_normal((rows, 8)).astype("f")
        _same(answer(x, k=3), retrieval(WEIGHTS.tree, x))
    first = next(b for b in answer.boundaries if "search" in b.operation)
    assert first.place.startswith("test_hybrid.py:")
    assert "list.append" in first.reason
    assert (first.calls, first.bytes_in, first.bytes_out) == (4, 4 * 16, 4 * 48)
    assert first.synchronizations == 4
    assert answer.report()["graph_breaks"] == len(answer.boundaries)


def test_what_an_object_or_the_module_holds_is_read_at_each_call():
    options, function = Threshold(), aotc.hybrid(reading)
    for options.limit, SCALES["now"] in ((1.0, 2.0), (0.5, 2.0), (0.5, 3.0)):
        _same(function(X, options), reading(X, options))
    SCALES["now"] = 2.0


def test_an_island_that_fails_is_counted():
    def fails(x):
        y = np.sin(x)
        return numpy.linalg.inv(numpy.asarray(y))

    function = aotc.hybrid(fails)
    with pytest.raises(numpy.linalg.LinAlgError):
        function(X)
    failed = [each for each in function.boundaries if each.failures]
    assert [(each.calls, each.failures) for each in failed] == [(1, 1)]
    code = {"entry": "fails", "code": "LinAlgError"}
    assert aotc.counters.value("call_failures", **code) == 1


def test_equal_numbers_of_different_types_are_different_code():
    function = aotc.hybrid(lambda_free)
    for value in (1, True, 1.0, -0.0, 0.0):
        _same(function(X, value), lambda_free(X, value))


def lambda_free(x, value):
    return np.copysign(x, value) if isinstance(value, float) else x * value + 1


def test_python_of_which_variables_may_have_no_value_is_listed():
    function = aotc.hybrid(unset)
    _same(function(X), unset(X))
    listed = {each.operation: each.calls for each in function.boundaries}
    assert listed["return y + shift"] == 1


def test_threads_share_one_function():
    function, found = aotc.hybrid(deciding), {}

    def call(number):
        found[number] = function(X + number)

    threads = [threading.Thread(target=call, args=(n,)) for n in range(6)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    for number, got in found.items():
        _same(got, deciding(X + number))


def test_an_error_of_the_model_is_raised_by_its_python():
    def wrong(x):
        return np.tanh(x) @ x

    with pytest.raises(ValueError, match="mismatch") as caught:
        aotc.hybrid(wrong)(X)
    (note,) = caught.value.__notes__
    assert "test_hybrid.py" in note
    assert "8" in note


@pytest.mark.parametrize("kind", ["generator", "state", "builtin"])
def test_what_cannot_be_split_is_refused(kind):
    def generator(x):
        yield x

    def with_state(state, x):
        return state + x, x

    made = {
        "generator": lambda: aotc.hybrid(generator),
        "state": lambda: aotc.hybrid(with_state, state=aotc.State(X))(X),
        "builtin": lambda: aotc.hybrid(len),
    }
    with pytest.raises(InputError) as caught:
        made[kind]()
    assert caught.value.code == "bad-hybrid"


def test_an_island_in_a_compiled_function_is_refused():
    with pytest.raises(InputError) as caught:
        aotc.jit(lambda x: noted(np.sin(x)))(X)
    assert caught.value.code == "island-in-entry"
