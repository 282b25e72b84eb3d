"""Verbs that answer questions about aotc and this machine."""

from __future__ import annotations

from typing import Any

import pytest

from aotc.cli.main import main
from aotc.machine.target import TARGETS
from tests.cli.asking import ask


@pytest.fixture(autouse=True)
def own_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setenv("AOTC_HOME", str(tmp_path / "home"))


def test_targets_are_those_of_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    answer = ask(capsys, "targets")
    assert answer["schema"] == "aotc.targets/1"
    assert [target["name"] for target in answer["targets"]] == list(TARGETS)
    assert set(answer["cpu"]) | set(answer["native"]) <= set(TARGETS)


def test_targets_as_text_has_a_line_for_each(
    capsys: pytest.CaptureFixture[str],
) -> None:
    main(["targets"])
    text = capsys.readouterr().out
    assert all(f"\n{name} " in text for name in TARGETS)


def test_doctor_describes_device_packages_and_settings(
    capsys: pytest.CaptureFixture[str],
) -> None:
    answer = ask(capsys, "doctor")
    assert answer["schema"] == "aotc.doctor/1"
    assert answer["device"]["schema"] == "aotc.device/1"
    assert answer["packages"]["numpy"]
    assert "iree-base-compiler" in answer["extras"]["compiler"]
    assert "AOTC_DEBUG" in answer["options"]
    assert answer["development_key"] is None
    assert "local-sync" in answer["drivers"]


def test_doctor_finds_the_development_key(capsys: pytest.CaptureFixture[str]) -> None:
    from aotc.artifacts.trust import development_key

    key_id = development_key().key_id
    assert ask(capsys, "doctor")["development_key"] == key_id


def test_doctor_names_settings_that_do_not_exist(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AOTC_DEBUGG", "1")
    main(["doctor"])
    assert "unknown settings: AOTC_DEBUGG" in capsys.readouterr().out


def test_doctor_as_text_names_what_is_missing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aotc.cli.doctor.package_version", lambda name: None)
    assert main(["doctor"]) == 0
    assert "not installed: torch" in capsys.readouterr().out


@pytest.mark.parametrize(
    "error",
    [MemoryError(), OSError(12, "Cannot allocate memory")],
    ids=["python", "os"],
)
def test_too_little_memory_is_no_bug(error):
    from aotc.cli import failure

    assert failure.report(error, []) == 5
