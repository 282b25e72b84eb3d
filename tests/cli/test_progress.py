"""Progress: a live line on a terminal, silence elsewhere, never on standard output."""

from __future__ import annotations

import io
import re
import sys

import pytest

from aotc.cli import progress
from aotc.cli.progress import Bar, Reporter, bar, reporter


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_prints_nothing_when_not_on_a_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    shown = reporter()
    with shown.stage("lower"):
        shown.step("matmul")
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("", "")


def test_verbose_prints_a_line_for_each_stage(
    capsys: pytest.CaptureFixture[str],
) -> None:
    shown = reporter(verbose=True)
    with shown.stage("compile"), shown.stage("cpu"):
        pass
    printed = capsys.readouterr()
    assert printed.out == ""
    assert re.sub(r"[\d.]+ s", "T", printed.err) == "compile › cpu  T\ncompile  T\n"


def test_failed_stage_does_not_claim_to_be_done(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(ValueError, match="no"), reporter(verbose=True).stage("lower"):
        raise ValueError("no")
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("environ", "live"),
    [
        ({"TERM": "xterm"}, True),
        ({"TERM": "xterm", "CI": "true"}, False),
        ({"TERM": "dumb"}, False),
        ({}, False),
    ],
)
def test_live_line_needs_a_capable_terminal(
    environ: dict[str, str], live: bool
) -> None:
    assert progress._is_live(Terminal(), environ) is live
    assert progress._is_live(io.StringIO(), environ) is False


def test_live_line_names_the_stage_and_is_cleared(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    shown = Reporter(live=True)
    with shown.stage("compile [/x]"):
        shown.step("cpu")
    assert "compile [/x] › cpu" in terminal.getvalue()
    assert capsys.readouterr().out == ""


def test_bar_counts_steps_and_shows_metrics_as_they_are_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    with Bar(8, live=True) as shown:
        shown.show(3, {"[red]\x1b": 0.5})
    assert "3/8" in terminal.getvalue()
    assert r"[red]\x1b 0.5" in terminal.getvalue()
    assert capsys.readouterr().out == ""


def test_bar_is_silent_when_not_on_a_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with bar(8) as shown:
        shown.show(3, {"loss": 0.5})
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("", "")
