"""Schedules: functions of the number of steps so far, computed in f32.

A learning rate may be one of them, or any other function from an i32 scalar to a number
or a float scalar.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from aotc import numpy as np
from aotc.optim.numbers import Schedule, natural
from aotc.tracing.array import Array
from aotc.tracing.calls import shown_value
from aotc.tracing.conversion import astype, lift
from aotc.tracing.source_locations import fail

__all__ = [
    "constant_schedule", "cosine_decay_schedule", "exponential_decay", "join_schedules",
    "linear_schedule", "piecewise_constant_schedule", "polynomial_schedule",
    "warmup_constant_schedule", "warmup_cosine_decay_schedule",
    "warmup_exponential_decay_schedule",
]  # fmt: skip


def constant_schedule(value: float) -> Schedule:
    """Return a schedule of `value` at every step."""
    return lambda count: value


def polynomial_schedule(
    init_value: float,
    end_value: float,
    power: float,
    transition_steps: int,
    transition_begin: int = 0,
) -> Schedule:
    """Return a schedule (init - end) (1 - t)^power + end, with t from 0 to 1.

    Args:
        init_value: before, and forever if there are no steps.
        end_value: afterwards.
        power: 1 for a straight line.
        transition_steps: how many steps it takes.
        transition_begin: the step to start at.
    """
    natural("transition_steps", transition_steps)
    natural("transition_begin", transition_begin)
    if transition_steps == 0:
        return constant_schedule(init_value)

    def schedule(count: object) -> Array:
        steps = np.clip(_float(count) - transition_begin, 0, transition_steps)
        left = 1.0 - steps / transition_steps
        return (init_value - end_value) * left**power + end_value

    return schedule


def linear_schedule(
    init_value: float,
    end_value: float,
    transition_steps: int,
    transition_begin: int = 0,
) -> Schedule:
    """Return a schedule that interpolates linearly between two values."""
    return polynomial_schedule(
        init_value, end_value, 1, transition_steps, transition_begin
    )


def cosine_decay_schedule(
    init_value: float, decay_steps: int, alpha: float = 0.0, exponent: float = 1.0
) -> Schedule:
    """Return a schedule from `init_value` to alpha * init_value along a half cosine.

    Loshchilov and Hutter, "SGDR: stochastic gradient descent with warm restarts", ICLR
    2017.

    Args:
        init_value: at the first step.
        decay_steps: how many steps it takes, at least 1.
        alpha: the last value, as a part of the first one.
        exponent: to which (1 + cos) / 2 is raised.
    """
    natural("decay_steps", decay_steps, least=1)

    def schedule(count: object) -> Array:
        steps = np.minimum(_float(count), decay_steps)
        wave = 0.5 * (1.0 + np.cos(math.pi * steps / decay_steps))
        return init_value * ((1.0 - alpha) * wave**exponent + alpha)

    return schedule


def exponential_decay(
    init_value: float,
    transition_steps: int,
    decay_rate: float,
    transition_begin: int = 0,
    staircase: bool = False,
    end_value: float | None = None,
) -> Schedule:
    """Return a schedule init_value * decay_rate ** (steps / transition_steps).

    Args:
        init_value: before, and forever if `transition_steps` or `decay_rate` is 0.
        transition_steps: how many steps multiply by `decay_rate` once.
        decay_rate: at least 0.
        transition_begin: the step to start at.
        staircase: whether to multiply only when all these steps are done.
        end_value: the least value, or the largest if `decay_rate` is 1 or more.
    """
    natural("transition_steps", transition_steps)
    natural("transition_begin", transition_begin)
    if decay_rate < 0:
        fail("bad-number", f"expected 'decay_rate' to be 0 or more; got {decay_rate}")
    if transition_steps == 0 or decay_rate == 0:
        return constant_schedule(init_value)
    bounded = np.maximum if decay_rate < 1 else np.minimum

    def schedule(count: object) -> Array:
        steps = np.maximum(_float(count) - transition_begin, 0)
        times = steps / transition_steps
        times = np.floor(times) if staircase else times
        value = init_value * np.power(decay_rate, times)
        return value if end_value is None else bounded(value, end_value)

    return schedule


def piecewise_constant_schedule(
    init_value: float, boundaries_and_scales: Mapping[int, float] | None = None
) -> Schedule:
    """Return a schedule that multiplies `init_value` by a scale from certain steps on.

    Args:
        init_value: before the first of these steps.
        boundaries_and_scales: {step: scale}.
    """
    scales = _scales({} if boundaries_and_scales is None else boundaries_and_scales)

    def schedule(count: object) -> Any:
        value: Any = init_value
        for step, scale in scales:
            value = np.where(np.less(_float(count), step), value, value * scale)
        return value

    return schedule


def join_schedules(
    schedules: Sequence[Callable[..., Any]], boundaries: Sequence[int]
) -> Schedule:
    """Return a schedule that follows each of `schedules` up to its boundary.

    Args:
        schedules: each gets the number of steps since it began.
        boundaries: the steps at which all but the first begin.
    """
    if len(schedules) != len(boundaries) + 1:
        fail(
            "bad-schedules",
            f"expected one of 'schedules' more than 'boundaries'; got {len(schedules)} "
            f"and {len(boundaries)}",
        )
    if any(later < earlier for earlier, later in pairwise([0, *boundaries])):
        fail(
            "bad-schedules",
            "expected 'boundaries' in order, of 0 or more; got "
            f"{shown_value(boundaries)}",
        )

    def schedule(count: Any) -> Any:
        value = schedules[0](count)
        for start, later in zip(boundaries, schedules[1:], strict=True):
            value = np.where(np.less(count, start), value, later(count - start))
        return value

    return schedule


def warmup_constant_schedule(
    init_value: float, peak_value: float, warmup_steps: int
) -> Schedule:
    """Return a schedule that rises linearly to `peak_value` and stays there."""
    return linear_schedule(init_value, peak_value, warmup_steps)


def warmup_cosine_decay_schedule(
    init_value: float,
    peak_value: float,
    warmup_steps: int,
    decay_steps: int,
    end_value: float = 0.0,
    exponent: float = 1.0,
) -> Schedule:
    """Return a schedule that rises linearly to the peak, then decays along a cosine.

    Args:
        init_value: at the first step.
        peak_value: after `warmup_steps`.
        warmup_steps: how many steps the line takes.
        decay_steps: how many steps both take; more than `warmup_steps`.
        end_value: afterwards.
        exponent: of the cosine; see `cosine_decay_schedule`.
    """
    natural("warmup_steps", warmup_steps)
    natural("decay_steps", decay_steps, least=warmup_steps + 1)
    alpha = end_value / peak_value if peak_value else 0.0
    line = linear_schedule(init_value, peak_value, warmup_steps)
    wave = cosine_decay_schedule(
        peak_value, decay_steps - warmup_steps, alpha, exponent
    )
    return join_schedules([line, wave], [warmup_steps])


def warmup_exponential_decay_schedule(
    init_value: float,
    peak_value: float,
    warmup_steps: int,
    transition_steps: int,
    decay_rate: float,
    transition_begin: int = 0,
    staircase: bool = False,
    end_value: float | None = None,
) -> Schedule:
    """Return a schedule that rises linearly to the peak, then decays exponentially.

    Args:
        init_value: at the first step.
        peak_value: after `warmup_steps`.
        warmup_steps: how many steps the line takes.
        transition_steps: and the others: see `exponential_decay`.
        decay_rate: of the decay.
        transition_begin: counted from the peak.
        staircase: of the decay.
        end_value: of the decay.
    """
    natural("warmup_steps", warmup_steps)
    decay = exponential_decay(
        peak_value, transition_steps, decay_rate, transition_begin, staircase, end_value
    )
    line = linear_schedule(init_value, peak_value, warmup_steps)
    return join_schedules([line, decay], [warmup_steps])


def _float(count: object) -> Array:
    """Return a step count as an f32 array."""
    return astype(lift(count), "f32")


def _scales(boundaries_and_scales: Any) -> list[tuple[int, float]]:
    """Return (step, scale) pairs in order of steps; raise for invalid ones."""
    fits = isinstance(boundaries_and_scales, Mapping) and all(
        isinstance(step, int) and isinstance(scale, int | float) and scale >= 0
        for step, scale in boundaries_and_scales.items()
    )
    if not fits:
        fail(
            "bad-schedules",
            "expected 'boundaries_and_scales' to have a scale of 0 or more for each "
            f"step; got {shown_value(boundaries_and_scales)}",
        )
    return sorted(boundaries_and_scales.items())
