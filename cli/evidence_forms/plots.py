"""Plots as SVG text, which a page contains as it is.

Axes, lines and a legend; numbers are in the units of the data. Lines differ by colour
and by dashes. The colours are those of the page, for light and dark: after Okabe and
Ito, "Color universal design" (2008), which colour-blind readers can tell.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

Point = tuple[float, float]

_COLOURS = 7  # custom properties --line-0 … of the page
_DASHES = ("", "7 3", "2 3", "9 3 2 3", "12 4", "4 2 1 2", "1 2")
_WIDTH, _HEIGHT = 720, 380
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 150, 16, 48
_TICKS = 5


@dataclass(frozen=True)
class PlotLine:
    """A polyline of a plot: points, with a name for the legend."""

    name: str
    points: Sequence[Point]


@dataclass(frozen=True)
class PlotAxis:
    """A linear or logarithmic plot axis, from the least to the greatest value.

    Args:
        label: with its unit.
        low: the least value; above zero if it is logarithmic.
        high: the greatest, above `low`.
        is_log: whether equal distances are equal ratios.
    """

    label: str
    low: float
    high: float
    is_log: bool = False

    @classmethod
    def over(
        cls, label: str, values: Sequence[float], is_log: bool = False
    ) -> PlotAxis:
        """Return an axis that spans all of the given values."""
        low = min(values) if is_log else min(0.0, *values)
        high = max(values)
        if high <= low:
            high = low * 1.1 if low > 0 else low + 1
        return cls(label, low, high, is_log)

    def share(self, value: float) -> float:
        """Return the position of a value on the axis, clamped from 0 (low) to 1
        (high).
        """
        inside = min(max(value, self.low), self.high)
        if self.is_log:
            return math.log(inside / self.low) / math.log(self.high / self.low)
        return (inside - self.low) / (self.high - self.low)

    @property
    def ticks(self) -> list[float]:
        """A few round values to label on the axis."""
        if self.is_log:
            return self._log_ticks()
        step = _round_step((self.high - self.low) / _TICKS)
        first = math.ceil(self.low / step - 1e-9)
        last = math.floor(self.high / step + 1e-9)
        return [number * step for number in range(first, last + 1)]

    def _log_ticks(self) -> list[float]:
        """Return tick values for a logarithmic axis: powers of ten, or 1, 2, 5 times
        these.
        """
        powers = range(
            math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1
        )
        steps = (1,) if len(powers) > 4 else (1, 2, 5)
        found = [step * 10.0**power for power in powers for step in steps]
        return [value for value in found if self.low <= value <= self.high]


def _round_step(least: float) -> float:
    """Return the least of 1, 2, 5, 10, … times a power of ten that is at least
    `least`.
    """
    power = 10.0 ** math.floor(math.log10(least))
    return next(power * step for step in (1, 2, 5, 10) if power * step >= least * 0.999)


def plot(
    title: str,
    x: PlotAxis,
    y: PlotAxis,
    lines: Sequence[PlotLine],
    limit: float | None = None,
) -> str:
    """Return an SVG line plot.

    Args:
        title: for readers that see no pictures.
        x: the horizontal axis.
        y: the vertical one.
        lines: whose points lie on both, or are moved to their ends.
        limit: a value of `y` to draw a dashed line at.
    """
    parts = [
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img">',
        f"<title>{escape(title)}</title>",
        *_x_axis(x),
        *_y_axis(y),
        *([_limit(y, limit)] if limit is not None else ()),
        *(_line(number, line, x, y) for number, line in enumerate(lines)),
        "</svg>",
    ]
    return "\n".join(parts)


def _at_x(x: PlotAxis, value: float) -> float:
    """Return the x coordinate in pixels of a value."""
    return _LEFT + x.share(value) * (_WIDTH - _LEFT - _RIGHT)


def _at_y(y: PlotAxis, value: float) -> float:
    """Return the y coordinate in pixels of a value."""
    return _HEIGHT - _BOTTOM - y.share(value) * (_HEIGHT - _TOP - _BOTTOM)


def _x_axis(x: PlotAxis) -> Iterator[str]:
    """Yield the SVG elements of the x axis: grid lines, ticks and label."""
    base = _HEIGHT - _BOTTOM
    for value in x.ticks:
        at = f"{_at_x(x, value):.1f}"
        yield f'<line class="grid" x1="{at}" y1="{_TOP}" x2="{at}" y2="{base}"/>'
        yield f'<text x="{at}" y="{base + 18}" text-anchor="middle">{value:g}</text>'
    middle = (_LEFT + _WIDTH - _RIGHT) / 2
    yield (
        f'<text x="{middle}" y="{base + 38}" text-anchor="middle">'
        f"{escape(x.label)}</text>"
    )


def _y_axis(y: PlotAxis) -> Iterator[str]:
    """Yield the SVG elements of the y axis: grid lines, ticks and label."""
    end = _WIDTH - _RIGHT
    for value in y.ticks:
        at = _at_y(y, value)
        row = f'y1="{at:.1f}" y2="{at:.1f}"'
        yield f'<line class="grid" x1="{_LEFT}" x2="{end}" {row}/>'
        yield (
            f'<text x="{_LEFT - 8}" y="{at + 4:.1f}" text-anchor="end">{value:g}</text>'
        )
    middle = (_TOP + _HEIGHT - _BOTTOM) / 2
    yield (
        f'<text transform="translate(16 {middle}) rotate(-90)" text-anchor="middle">'
        f"{escape(y.label)}</text>"
    )


def _limit(y: PlotAxis, value: float) -> str:
    """Return the SVG line that marks a latency limit."""
    at, end = f"{_at_y(y, value):.1f}", _WIDTH - _RIGHT
    return f'<line class="limit" x1="{_LEFT}" y1="{at}" x2="{end}" y2="{at}"/>'


def _line(number: int, line: PlotLine, x: PlotAxis, y: PlotAxis) -> str:
    """Yield the SVG elements of a line, and of its row in the legend."""
    colour = f"var(--line-{number % _COLOURS})"
    # after a round of colours the dashes are those of the next line
    pattern = _DASHES[(number + number // _COLOURS) % len(_DASHES)]
    dashes = f' stroke-dasharray="{pattern}"' if pattern else ""
    points = " ".join(f"{_at_x(x, a):.1f},{_at_y(y, b):.1f}" for a, b in line.points)
    left, at = _WIDTH - _RIGHT + 14, _TOP + 14 + 20 * number
    return (
        f'<polyline points="{points}" style="stroke: {colour}"{dashes}/>'
        f'<line x1="{left}" y1="{at - 4}" x2="{left + 18}" y2="{at - 4}" '
        f'style="stroke: {colour}" stroke-width="2"{dashes}/>'
        f'<text x="{left + 24}" y="{at}">{escape(line.name)}</text>'
    )
