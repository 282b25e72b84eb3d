"""Progress: a live line on a terminal, silence elsewhere, never on standard output."""

from __future__ import annotations

import io
import json
import re
import sys
from pathlib import Path

import pytest

from aotc.cli import progress
from aotc.cli.main import main
from aotc.cli.progress import Bar, ProgressReporter, bar, reporter


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_without_a_terminal_a_line_tells_of_each_stage_and_part_that_is_finished(
    capsys: pytest.CaptureFixture[str],
) -> None:
    shown = reporter()
    with shown.stage("parity"), shown.stage("vmfb"):
        shown.step("not told")
        shown.report_part("cuda:sm_89", 1.5)
        assert "vmfb › cuda:sm_89  1.50 s" in capsys.readouterr().err
    printed = capsys.readouterr()
    assert printed.out == ""
    assert re.sub(r"[\d.]+ s", "T", printed.err) == "parity › vmfb  T\nparity  T\n"


def test_quiet_tells_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    shown = reporter(quiet=True)
    with shown.stage("vmfb"):
        shown.report_part("cpu", 1.0)
    assert capsys.readouterr() == ("", "")


def test_a_build_tells_of_its_stages_and_targets_and_answers_in_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AOTC_HOME", str(tmp_path / "home"))
    source = (
        "import aotc\n@aotc.entry(x=aotc.Spec((2,)))\ndef f(x):\n    return x + x\n"
    )
    (tmp_path / "m.py").write_text(source)
    build = ["build", str(tmp_path / "m.py"), "-o", str(tmp_path), "--format", "json"]
    assert main([*build, "-t", "x86_64-v3", "-t", "vmvx"]) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out)["schema"] == "aotc.build/1"
    told = [line.rpartition("  ")[0] for line in printed.err.splitlines()]
    assert set(told) >= {"graph", "optimized", "regions", "linalg", "vmfb", "bundle"}
    assert {each for each in told if "›" in each} == {"vmfb › x86_64-v3", "vmfb › vmvx"}
    assert all(line.isprintable() for line in printed.err.split("\n"))


def test_failed_stage_does_not_claim_to_be_done(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(ValueError, match="no"), reporter().stage("lower"):
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
    shown = ProgressReporter(live=True)
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
