"""Waiting times and goodput, against a queue that is simulated event by event."""

import heapq

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aotc.evidence.queueing import SHARE, Queue, waiting_times

times = st.lists(st.floats(0.01, 100), min_size=1, max_size=40)


def simulated(service, gaps):
    """Latencies of calls: one server, a line, and events in order of time."""
    arrivals = np.concatenate([[0.0], np.cumsum(gaps)])
    events = [(at, 1, number) for number, at in enumerate(arrivals)]
    heapq.heapify(events)
    line, is_busy, latencies = [], False, {}
    while events:
        now, is_arrival, number = heapq.heappop(events)
        if is_arrival:
            line.append(number)
        else:
            latencies[number] = now - arrivals[number]
            is_busy = False
        if line and not is_busy:
            first, is_busy = line.pop(0), True
            heapq.heappush(events, (now + service[first], 0, first))
    return [latencies[number] for number in range(len(arrivals))]


@given(times, st.data())
def test_waiting_times_are_those_of_a_simulated_queue(service, data):
    count = len(service) - 1
    gaps = data.draw(st.lists(st.floats(0, 100), min_size=count, max_size=count))
    service, gaps = np.array(service), np.array(gaps)
    got = waiting_times(service, gaps) + service
    np.testing.assert_allclose(got, simulated(service, gaps), 1e-9, 1e-9)


@settings(max_examples=25, deadline=None)
@given(times, st.floats(0.1, 5), st.integers(0, 9))
def test_goodput_is_the_highest_rate_that_keeps_the_bound(service, factor, seed):
    queue = Queue.of(service, seed)
    bound = factor * max(service)
    found = queue.goodput(bound)

    def share_in_time(rate):
        latencies = simulated(queue.service, queue.gaps * (1000 / rate))
        return np.mean(np.array(latencies) <= bound * (1 + 1e-9))

    assert 0 <= found <= queue.capacity
    if not found:
        assert np.mean(queue.service <= bound) < SHARE
        return
    assert share_in_time(found * 0.999) >= SHARE
    if found < 0.99 * queue.capacity:
        assert np.mean(queue.latencies(found * 1.001) <= bound) < SHARE


def test_calls_end_no_earlier_at_a_higher_rate():
    queue = Queue.of([1.0, 7.0, 2.0], seed=0)
    slow, fast = (queue.latencies(rate) for rate in (50, 200))
    assert (slow <= fast).all()
    assert queue.capacity == pytest.approx(300)


def test_the_wait_of_equal_calls_is_that_of_pollaczek_and_khinchine():
    """A queue with constant service times waits rho s / (2 (1 - rho)) on average."""
    queue = Queue(np.ones(400_000), np.random.default_rng(0).exponential(1, 399_999))
    waits = queue.latencies(rate=600) - 1  # 0.6 of the capacity
    assert waits.mean() == pytest.approx(0.6 / (2 * 0.4), rel=0.03)
