"""Progress reports of a long verb on standard error.

A terminal shows one live line. Anything else (a pipe, CI, a dumb terminal) gets a line
for each stage and target that is finished, as does a terminal with `verbose`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from time import perf_counter
from typing import Any, TextIO

import click

from aotc.cli.output import escape_control_characters


class ProgressReporter:
    """Shows nested stages of work, and steps inside them, on standard error.

    Args:
        live: draw the live line.
        lines: print a line for each stage that ends, and each part, with its time.
        still: draw the line only when it changes.
    """

    def __init__(
        self, *, live: bool = False, lines: bool = False, still: bool = False
    ) -> None:
        self._lines = lines
        self._line = _LiveLine(still) if live else None
        self._stages: list[str] = []

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Context manager: show stage `name` as running, and print its time at the
        end.
        """
        start = perf_counter()
        self._stages.append(name)
        self._draw()
        try:
            yield
            self._print(perf_counter() - start)
        finally:
            self._stages.pop()
            self._draw()

    def step(self, text: str) -> None:
        """Show `text` as the current step of the stage."""
        self._draw(text)

    def report_part(self, part: str, seconds: float) -> None:
        """Print that a part of the current stage is done, with its seconds."""
        self._print(seconds, part)

    def _draw(self, *detail: str) -> None:
        """Redraw the live line with the running stages and a detail."""
        if self._line:
            self._line.show(" › ".join([*self._stages, *detail]))

    def _print(self, seconds: float, *part: str) -> None:
        """Print a finished stage or part with its seconds, if lines are wanted."""
        if not self._lines:
            return
        text = f"{' › '.join([*self._stages, *part])}  {seconds:.2f} s"
        if self._line:
            self._line.print_above(text)
        else:
            click.echo(escape_control_characters(text), err=True)


class _LiveLine:
    """The last line of the terminal, redrawn in place by rich.

    Args:
        still: draw it only when it changes, so that nothing else is disturbed.
    """

    def __init__(self, still: bool) -> None:
        # rich costs some 60 ms to import, and only a terminal sees what it draws.
        from rich.console import Console
        from rich.live import Live
        from rich.spinner import Spinner
        from rich.text import Text

        # As `Text`, because rich would take brackets in a string for its markup.
        self._text = Text
        self._shown = ""
        self._start = perf_counter()
        line: Any = self if still else Spinner("dots", text=self, style="green")
        self._live = Live(
            line,
            console=Console(stderr=True),
            auto_refresh=not still,
            refresh_per_second=10,
            transient=True,
        )

    def show(self, text: str) -> None:
        """Replace the line; an empty text removes it."""
        if not text:
            self._live.stop()
            return
        self._shown = text
        self._live.start()
        self._live.refresh()

    def __rich__(self) -> Any:
        """The line as it is drawn now, cut to the width of the terminal."""
        seconds = int(perf_counter() - self._start)
        text = f"{seconds // 60}:{seconds % 60:02} {self._shown}"
        return self._text(text, no_wrap=True, overflow="ellipsis")

    def print_above(self, text: str) -> None:
        """Print a permanent line above the live one."""
        self._live.console.print(self._text(text))


class Bar:
    """A progress bar over a known number of steps, with the latest metrics.

    Args:
        total: the number of steps.
        live: draw the bar; otherwise nothing is shown.
    """

    def __init__(self, total: int, *, live: bool) -> None:
        self._progress = _bar() if live else None
        self._task = None
        if self._progress:
            self._task = self._progress.add_task("", total=total, metrics="")

    def __enter__(self) -> Bar:
        if self._progress:
            self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._progress:
            self._progress.stop()

    def show(self, done: int, metrics: Mapping[str, object]) -> None:
        """Show the number of steps done and the metrics of the last one."""
        if self._progress:
            text = "  ".join(f"{name} {value:.6g}" for name, value in metrics.items())
            self._progress.update(
                self._task, completed=done, metrics=escape_control_characters(text)
            )


def _bar() -> Any:
    """Return rich's progress bar for standard error."""
    from rich import progress
    from rich.console import Console

    return progress.Progress(
        progress.BarColumn(),
        progress.MofNCompleteColumn(),
        progress.TimeRemainingColumn(),
        # Not markup: the names are the model's.
        progress.TextColumn("{task.fields[metrics]}", markup=False),
        console=Console(stderr=True),
        transient=True,
        refresh_per_second=4,  # drawing takes time from the steps
    )


def bar(total: int) -> Bar:
    """Return a progress bar, drawn only if standard error is a live terminal."""
    return Bar(total, live=_is_live(sys.stderr, os.environ))


def still_reporter() -> ProgressReporter:
    """Return a reporter for measurements, which draws only between steps."""
    return ProgressReporter(live=_is_live(sys.stderr, os.environ), still=True)


def reporter(*, verbose: bool = False, quiet: bool = False) -> ProgressReporter:
    """Return a reporter that suits standard error; `quiet` shows nothing."""
    live = _is_live(sys.stderr, os.environ)
    return ProgressReporter(
        live=live and not quiet, lines=not quiet and (verbose or not live)
    )


def _is_live(stream: TextIO, environ: Mapping[str, str]) -> bool:
    """Return whether a stream is a terminal that can redraw lines, and not in CI."""
    return (
        stream.isatty()
        and not environ.get("CI")
        and environ.get("TERM", "dumb") != "dumb"
    )
