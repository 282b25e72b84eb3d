"""Every verb that writes, on a disk that refuses: one code, a place, and no remains."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aotc.cli.main import main

MODEL = """
import aotc

@aotc.entry(x=aotc.Spec((2,), "f32"))
def double(x):
    return x + x
"""

# verb → its arguments, after those of the bundle for `run`; and what it writes
VERBS: dict[str, tuple[list[str], str]] = {
    "run": (["--entry", "add", "-i", "a=[1,2,3]", "-i", "b=[1,2,3]", "-o"], "o.npz"),
    "opt": (["graph.mlir", "-o"], "o.mlir"),
    "keygen": ([], "k"),
    "build": (["model.py", "--stop-after", "graph", "--dump"], "ir"),
}


def refuse(monkeypatch: pytest.MonkeyPatch, function: str, number: int) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, function, fail)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EIO])
@pytest.mark.parametrize("verb", VERBS)
def test_a_disk_that_refuses_has_one_code_and_leaves_nothing_half_written(
    shelf: Any,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    verb: str,
    number: int,
) -> None:
    arguments, target = VERBS[verb]
    if verb == "run":
        arguments = [shelf.bundle(), "--trust", shelf.public_key, *arguments]
    monkeypatch.chdir(shelf.folder)
    Path("graph.mlir").write_text("module {}")
    Path("model.py").write_text(MODEL)
    before = {path for path in Path().rglob("*") if path.is_file()}
    refuse(monkeypatch, "fsync", number)
    assert main([verb, *arguments, target]) == 5
    said = capsys.readouterr().err
    assert f"{os.strerror(number)} [cannot-write]" in said
    assert f"at {target}" in said
    assert "hint:" in said
    assert {path for path in Path().rglob("*") if path.is_file()} == before


def test_half_a_pair_of_keys_is_not_left(
    shelf: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(shelf.folder)
    refuse(monkeypatch, "replace", errno.ENOSPC)  # of the public half
    assert main(["keygen", "release"]) == 5
    assert not list(Path().glob("*release*"))


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("form", ["text", "json"])
def test_an_answer_that_finds_no_room_is_an_error_and_no_traceback(form: str) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "aotc.cli.main", "targets", "--format", form],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert done.returncode == 5
    assert "the answer cannot be written: No space left" in done.stderr
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr


def test_data_that_may_not_be_read_is_not_called_damaged(
    shelf: Any,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def forbidden(*_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", "a.npy")

    monkeypatch.chdir(tmp_path)
    np.save("a.npy", np.zeros(3, "f4"))
    monkeypatch.setattr(np, "load", forbidden)
    bundle = [shelf.bundle(), "--trust", shelf.public_key, "--entry", "add"]
    assert main(["run", *bundle, "-i", "a=@a.npy", "-i", "b=[1,2,3]"]) == 5
    assert "Permission denied [file-access]" in capsys.readouterr().err
