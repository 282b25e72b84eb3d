"""`aotc.stream`: order, backpressure, errors, ends, batches and pipelines."""

import gc
import itertools
import os
import threading

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import aotc
from aotc.core.pytree import flatten
from aotc.errors import AotcError, InputError
from tests.fake_gpu import Lent, pretend

FOREVER = 3600  # seconds: a test that waits for so long fails by not ending


class Source:
    """Items that count how many of them were read, and may end with an error."""

    def __init__(self, items, error=None):
        self._items = iter(items)
        self._error = error
        self.read = 0

    def __iter__(self):
        return self

    def __next__(self):
        item = next(self._items, None)
        if item is None:
            raise self._error or StopIteration
        self.read += 1
        return item


def _rows(*sizes):
    numbers = itertools.count()
    return [
        np.array([[next(numbers)] * 3 for _ in range(n)], "f4").reshape(n, 3)
        for n in sizes
    ]


def _alone(entry, items):
    """What calls one by one give: results, or codes of errors."""
    found = []
    for item in items:
        try:
            found.append(entry(x=item))
        except AotcError as error:
            found.append(error.code)
    return found


def _assert_same(found, expected):
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        if isinstance(other, str):
            assert one.code == other
            continue
        ours, structure = flatten(one)
        theirs, same = flatten(other)
        assert structure == same
        for a, b in zip(ours, theirs, strict=True):
            assert (a.dtype, a.shape, a.tobytes()) == (b.dtype, b.shape, b.tobytes())


def _threads():
    return [t for t in threading.enumerate() if t.name.startswith("aotc.stream")]


GOOD = st.integers(0, 9).map(lambda n: _rows(n)[0])  # but nine rows are too many
BAD = (np.zeros((2, 2), "f4"), np.zeros((1, 3)), -np.ones((2, 3), "f4"))
ITEMS = st.lists(GOOD | st.sampled_from(BAD), max_size=14)
LATENCIES = st.sampled_from([None, 0, 0.002, FOREVER])


@given(ITEMS, st.integers(1, 9), LATENCIES, st.data())
def test_outcomes_are_those_of_calls_one_by_one_and_no_item_is_read_early(
    model, items, depth, latency, data
):
    source = Source(items)
    with aotc.stream(
        model.double, source, depth=depth, latency=latency, on_error="yield"
    ) as found:
        taken = []
        for outcome in found:
            taken.append(outcome)
            # What is taken here may be followed by the next one already.
            assert source.read <= len(taken) + depth
            if data.draw(st.booleans()):
                threading.Event().wait(0.0005)
    _assert_same(taken, _alone(model.double, items))
    for number, outcome in enumerate(taken, 1):
        if isinstance(outcome, AotcError):
            assert outcome.where.endswith(f"item {number} of the stream")
    assert not _threads()


@given(ITEMS, st.integers(1, 5), LATENCIES)
def test_the_first_error_ends_a_stream_after_the_results_before_it(
    model, items, depth, latency
):
    expected = _alone(model.double, items)
    bad = next((i for i, x in enumerate(expected) if isinstance(x, str)), None)
    taken, stream = [], aotc.stream(model.double, items, depth=depth, latency=latency)
    if bad is None:
        taken += stream
    else:
        with pytest.raises(AotcError) as caught:
            taken.extend(stream)
        assert caught.value.code == expected[bad]
        assert next(stream, "over") == "over"
    _assert_same(taken, expected[:bad])


@given(st.integers(0, 12), st.integers(1, 5), LATENCIES, st.integers(0, 12))
def test_ends_clean_when_the_consumer_stops_or_the_source_raises(
    model, count, depth, latency, wanted
):
    items = _rows(*[1] * count)
    source = Source(items, KeyError("of the source"))
    taken, raised = [], False
    with aotc.stream(model.double, source, depth=depth, latency=latency) as stream:
        try:
            taken += itertools.islice(stream, wanted)
        except KeyError:
            raised = True
    assert raised == (wanted > count)
    _assert_same(taken, _alone(model.double, items[:wanted]))
    read = source.read
    assert read <= len(taken) + depth
    assert not _threads()
    assert next(stream, "over") == "over"
    assert source.read == read


@pytest.mark.parametrize("latency", [None, FOREVER])
def test_an_endless_source_is_read_as_far_as_the_consumer_is(model, latency):
    source = Source({"x": np.full((1, 3), n % 7, "f4")} for n in itertools.count())
    with aotc.stream(model.double, source, depth=3, latency=latency) as stream:
        for n, result in enumerate(itertools.islice(stream, 500)):
            assert result[0, 0] == 2 * (n % 7)
            assert source.read <= n + 1 + 3


@pytest.mark.parametrize("depth", [None, 0, -1, 2.5, True, float("inf")])
def test_a_queue_without_a_limit_is_refused(model, depth):
    with pytest.raises(InputError) as caught:
        aotc.stream(model.double, itertools.repeat(0), depth=depth)
    assert caught.value.code == "unbounded-stream"


@pytest.mark.parametrize(
    "wrong",
    [
        {"latency": -1},
        {"latency": float("nan")},
        {"latency": "1"},
        {"max_rows": 4},
        {"latency": 0, "max_rows": 0},
        {"on_error": "ignore"},
        {"source": 7},
        {"entry": "double"},
    ],
)
def test_arguments_that_mean_nothing_are_refused(model, wrong):
    arguments = {"entry": model.double, "source": []} | wrong
    with pytest.raises(InputError) as caught:
        aotc.stream(**arguments)
    assert caught.value.code == "bad-stream"
    assert not _threads()


# ---- batches ------------------------------------------------------------------------


def _calls(entry):
    return aotc.counters.value("calls", model="streamed", entry=entry)


def test_items_become_one_call_up_to_the_largest_batch_and_are_split_again(model):
    items = _rows(3, 0, 4, 2, 6, 1, 1)  # as 3 + 0 + 4, 2 + 6, 1 + 1
    before = _calls("double")
    found = list(aotc.stream(model.double, items, latency=FOREVER))
    assert _calls("double") - before == 3 + 3  # and those of the first batch, alone
    _assert_same(found, _alone(model.double, items))
    before = _calls("double")
    list(aotc.stream(model.double, items, latency=FOREVER, max_rows=4, depth=2))
    assert _calls("double") - before == 5 + 2  # as 3 + 0, 4, 2, 6, 1 + 1


def test_a_batch_is_of_arrays_of_the_host(load, monkeypatch):
    pretend(monkeypatch, lambda: None)
    model = load()
    items = [Lent(np.full((1, 3), i, np.float32)) for i in range(3)]
    with pytest.raises(InputError) as caught:
        list(aotc.stream(model.double, items, latency=FOREVER))
    assert caught.value.code == "input-device"
    assert len(list(aotc.stream(model.double, items))) == 3


def test_a_batch_waits_for_others_no_longer_than_the_latency(model):
    first_is_out = threading.Event()

    def items():
        yield _rows(1)[0]
        assert first_is_out.wait(60)
        yield _rows(2)[0]

    with aotc.stream(model.double, items(), latency=0.005) as stream:
        assert next(stream).shape == (1, 3)
        first_is_out.set()
        assert [x.shape for x in stream] == [(2, 3)]


@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.integers(1, 3), st.integers(-2, 2)), max_size=8
    ),
    st.integers(1, 8),
)
def test_only_calls_that_differ_in_their_rows_alone_are_put_together(
    model, kinds, depth
):
    rng = np.random.default_rng(0)
    items = [
        {
            "pair": {
                "a": rng.integers(-9, 9, (rows, length), "i1"),
                "keep": [
                    rng.integers(0, 2, rows).astype(bool),
                    rng.standard_normal((rows, 2)).astype(ml_dtypes.bfloat16),
                ],
            },
            "scale": np.full(length, scale, "i1"),
        }
        for rows, length, scale in kinds
    ]
    expected = [model.mixed(**item) for item in items]
    found = aotc.stream(model.mixed, items, depth=depth, latency=FOREVER)
    _assert_same(list(found), expected)


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ("count", "updates"),
        ("total", "every output"),
        ("square", "that alone"),
        ("fixed", "every output"),
        ("unlimited", "max_rows"),
    ],
)
def test_entries_that_cannot_be_batched_are_refused(model, entry, reason):
    with pytest.raises(InputError, match=reason) as caught:
        aotc.stream(model.entry(entry), [], latency=1)
    assert caught.value.code == "not-batchable"
    assert aotc.stream(model.entry(entry), []).close() is None
    if entry == "unlimited":
        items = _rows(3, 2, 9)
        stream = aotc.stream(model.unlimited, items, latency=FOREVER, max_rows=4)
        _assert_same(list(stream), _alone(model.unlimited, items))


@pytest.mark.parametrize("on_error", ["raise", "yield"])
def test_rows_that_depend_on_those_of_other_calls_are_noticed(model, on_error):
    items = _rows(2, 2)
    stream = aotc.stream(model.centred, items, latency=FOREVER, on_error=on_error)
    with pytest.raises(InputError, match="rows of other calls") as caught:
        list(stream)
    assert caught.value.code == "not-batchable"


def test_the_first_batch_of_several_calls_is_compared_also_after_single_ones(model):
    stream = aotc.stream(model.centred, _rows(4, 2, 2), latency=FOREVER, max_rows=4)
    with pytest.raises(InputError, match="rows of other calls"):
        list(stream)


def test_a_stateful_entry_keeps_its_order_and_is_batched_if_that_is_allowed(load):
    items = _rows(1, 2, 3, 2, 1, 1)
    one, other, third = load(), load(), load()
    expected = [one.count(x=x) for x in items]
    _assert_same(list(aotc.stream(other.count, items, depth=3)), expected)
    assert other.read_state() == one.read_state()
    before = _calls("count")
    allowed = aotc.stream(third.count, items, latency=FOREVER, batch_stateful=True)
    assert len(list(allowed)) == len(items)
    assert _calls("count") - before == 2
    assert third.read_state() == one.read_state()


# ---- pipelines ----------------------------------------------------------------------


@pytest.mark.parametrize("threads", [1, 2])
def test_streams_follow_each_other_and_errors_keep_their_places(load, threads):
    first, second = load(threads), load(threads)
    items = [*_rows(1, 2), np.zeros((1, 2), "f4"), *_rows(3, 9), *_rows(1)]
    middle = aotc.stream(first.double, items, depth=2, on_error="yield")
    found = list(
        aotc.stream(second.double, middle, latency=0.001, depth=4, on_error="yield")
    )
    expected = [
        x if isinstance(x, str) else second.double(x=x)
        for x in _alone(first.double, items)
    ]
    _assert_same(found, expected)
    places = [x.where for x in found if isinstance(x, AotcError)]
    assert [place.partition(", ")[2] for place in places] == [
        "item 3 of the stream",
        "item 5 of the stream",
    ]


def test_an_error_in_a_stream_before_ends_those_after_it(model):
    first = aotc.stream(model.double, [*_rows(1), -_rows(1)[0] - 1])
    second = aotc.stream(model.double, first)
    assert next(second).shape == (1, 3)
    with pytest.raises(InputError) as caught:
        next(second)
    assert caught.value.code == "assertion-failed"
    assert not _threads()


def test_who_ends_a_pipeline_ends_all_of_it(model):
    source = Source(itertools.repeat(_rows(1)[0]))
    first = aotc.stream(model.double, source, depth=2)
    between = ({"x": each + 1} for each in first)
    with aotc.stream(model.double, between, depth=2) as second:
        assert next(second)[0, 0] == 2
    del first, between, second
    gc.collect()
    for thread in _threads():
        thread.join(60)
    read = source.read
    assert read <= 1 + 2 + 2
    assert not _threads()
    direct = aotc.stream(model.double, aotc.stream(model.double, source, depth=2))
    next(direct)
    direct.close()
    for thread in _threads():  # they have been told to end
        thread.join(60)
    assert not _threads()


def test_a_function_of_inputs_is_called_as_an_entry_is(model):
    function = lambda x: model.double(x=x) + 1  # noqa: E731
    found = list(aotc.stream(function, ({"x": x} for x in _rows(1, 2))))
    _assert_same(found, [model.double(x=x) + 1 for x in _rows(1, 2)])
    with pytest.raises(InputError) as caught:
        aotc.stream(function, [], latency=1)
    assert caught.value.code == "not-batchable"
    with pytest.raises(ZeroDivisionError):
        list(aotc.stream(lambda x: x / 0, [1]))


# ---- threads ------------------------------------------------------------------------


def test_the_next_item_is_read_and_copied_while_a_call_runs(model):
    second_is_read = threading.Event()

    def items():
        yield 1
        second_is_read.set()
        yield 2

    found = aotc.stream(lambda _: second_is_read.wait(60), items(), depth=2)
    assert list(found) == [True, True]
    function = model.double.function
    with function._lock:  # as a call that runs has it
        prepared = []
        thread = threading.Thread(
            target=lambda: prepared.append(function.prepare(_rows(2)))
        )
        thread.start()
        thread.join(60)
    assert function.invoke(prepared[0])[0].shape == (2, 3)


def test_several_threads_take_each_result_once(model):
    items = _rows(*[1] * 200)
    stream, taken = aotc.stream(model.double, items, depth=4, latency=0), []
    threads = [
        threading.Thread(target=lambda: taken.extend(x[0, 0] for x in stream))
        for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(taken) == [2.0 * n for n in range(200)]


def test_a_closed_stream_lets_go_of_who_waits_for_it_but_not_of_a_silent_source(model):
    go_on = threading.Event()

    def silent():
        go_on.wait(60)
        yield _rows(1)[0]

    stream, ends = aotc.stream(model.double, silent()), []
    consumer = threading.Thread(target=lambda: ends.append(next(stream, "over")))
    consumer.start()
    stream.close()
    consumer.join(60)
    assert ends == ["over"]
    assert {t.name.rpartition(" ")[2] for t in _threads()} <= {"read"}
    go_on.set()
    for thread in _threads():
        thread.join(60)
    assert not _threads()


def test_a_stream_that_nobody_holds_ends(model):
    stream = aotc.stream(model.double, itertools.repeat(_rows(1)[0]))
    next(stream)
    del stream
    gc.collect()
    for thread in _threads():
        thread.join(60)
    assert not _threads()


def test_a_fork_is_told_that_it_has_no_threads(model):
    with aotc.stream(model.double, itertools.repeat(_rows(1)[0])) as stream:
        next(stream)
        child = os.fork()
        if not child:
            try:
                next(stream)
            except AotcError as error:
                stream.close()
                os._exit(error.code == "forked")
            os._exit(2)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1
        assert next(stream).shape == (1, 3)


def test_outcomes_are_counted(model):
    def counted():
        return [
            aotc.counters.value("stream_items", entry="double", outcome=each)
            for each in ("result", "error")
        ]

    before = counted()
    list(aotc.stream(model.double, _rows(1, 9, 2), on_error="yield"))
    assert [b - a for a, b in zip(before, counted(), strict=True)] == [2, 1]
