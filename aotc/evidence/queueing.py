"""Calls that arrive on their own account: how long they wait, and at which rate.

One server takes calls in the order of their arrival. By Lindley's recursion ("The
theory of queues with a single server", Proc. Camb. Phil. Soc. 48, 1952) call i + 1
waits w[i+1] = max(0, w[i] + s[i] - a[i]), where s[i] is the service time of the call
before it, and a[i] the time between their arrivals. Service times are measured,
arrivals are simulated: a Poisson process, which does not slow down when the server
does (open loop). All times are in milliseconds, rates in calls a second.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

Times = np.ndarray[tuple[int, ...], np.dtype[np.float64]]

SHARE = 0.99  # of calls that have to end in time
_LEAST_ARRIVALS = 10_000
_HALVINGS = 40
_MS = 1000.0  # of a second


def waiting_times(service: Times, gaps: Times) -> Times:
    """Return how long each call waits for those before it; zero for the first.

    The recursion in closed form: w[i] is the sum of s - a up to i, less the least such
    sum before it.

    Args:
        service: times of the calls, in the order of their arrival.
        gaps: times between the arrivals of two calls, one less.
    """
    walk = np.concatenate([[0.0], np.cumsum(service[:-1] - gaps)])
    return walk - np.minimum.accumulate(walk)


@dataclass(frozen=True)
class Queue:
    """A server with measured service times, and random arrivals at any rate.

    Arrivals at all rates have the same random numbers, so that each call ends no
    earlier at a higher one.

    Args:
        service: times of calls, which repeat in their order.
        gaps: between arrivals at a rate of one in a millisecond.
    """

    service: Times
    gaps: Times

    @classmethod
    def of(cls, service: Sequence[float], seed: int) -> Queue:
        """Build a queue from measured times, repeated until there are 10,000 calls."""
        repeats = -(-_LEAST_ARRIVALS // len(service))
        times = np.tile(np.array(service, np.float64), repeats)
        gaps = np.random.default_rng(seed).exponential(1.0, len(times) - 1)
        return cls(times, gaps)

    @property
    def capacity(self) -> float:
        """The rate of arrivals at which the server is always busy and the queue
        grows.
        """
        return _MS / float(self.service.mean())

    def latencies(self, rate: float) -> Times:
        """Simulate arrivals at a rate; return each call's time from arrival to end."""
        return waiting_times(self.service, self.gaps * (_MS / rate)) + self.service

    def goodput(self, bound: float) -> float:
        """Search the highest rate at which 99 % of the calls end within a bound.

        It is below `capacity`; 0 if no rate will do, because too many calls take longer
        by themselves.
        """
        if np.mean(self.service <= bound) < SHARE:
            return 0.0
        low, high = 0.0, self.capacity
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            in_time = np.mean(self.latencies(middle) <= bound) >= SHARE
            low, high = (middle, high) if in_time else (low, middle)
        return low
