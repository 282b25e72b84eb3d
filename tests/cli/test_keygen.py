"""`aotc keygen`: key files that are safe from the start."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from aotc.artifacts.keys import Signer
from aotc.artifacts.trust import Trust
from aotc.cli.main import main


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_writes_a_pair_that_belongs_together(
    capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    assert main(["keygen", "team", "--format", "json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["private"] == "team.key"
    signer = Signer.from_file(folder / "team.key")
    assert list(Trust.of(folder / "team.pub").keys) == [signer.key_id]
    assert signer.key_id == answer["key_id"]


def test_only_the_owner_can_read_the_private_key(folder: Path) -> None:
    main(["keygen", "team"])
    assert (folder / "team.key").stat().st_mode & 0o777 == 0o600


def test_name_may_be_given_with_its_suffix(folder: Path) -> None:
    main(["keygen", "team.key"])
    assert sorted(path.name for path in folder.iterdir()) == ["team.key", "team.pub"]


@pytest.mark.parametrize("existing", ["team.key", "team.pub"])
def test_never_overwrites_a_key(
    existing: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / existing).write_text("precious")
    assert main(["keygen", "team"]) == 2
    assert "[key-exists]" in capsys.readouterr().err
    assert (folder / existing).read_text() == "precious"
    assert len(list(folder.iterdir())) == 1
