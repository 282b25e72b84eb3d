"""Times of calls, by a clock that may tick more slowly than they end."""

from __future__ import annotations

from collections.abc import Callable


def seconds_of_calls(
    call: Callable[[], object], count: int, now: Callable[[], float]
) -> list[float]:
    """Return the seconds of each of `count` calls, by the clock `now`.

    No time is 0: calls in which the clock stands still share its next tick with the
    call that ends after it. The clocks of processor time of some machines tick only
    every few milliseconds.
    """
    times: list[float] = []
    while len(times) < count:
        calls, elapsed, start = 0, 0.0, now()
        while elapsed <= 0:
            call()
            calls, elapsed = calls + 1, now() - start
        times += [elapsed / calls] * calls
    return times[:count]
