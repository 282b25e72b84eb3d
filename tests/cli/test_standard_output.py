"""Standard output carries the answer and nothing else, whatever a model prints."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

COMMAND = [sys.executable, "-m", "aotc.cli.main"]
LOUD = """
import ctypes, os, sys, warnings
import aotc

print("loaded")
os.write(1, b"by descriptor\\n")
os.system("echo by child")
ctypes.CDLL(None).puts(b"by C")
warnings.warn("by warning")

@aotc.entry(x=aotc.Spec((2,)))
def double(x):
    print("traced", x.shape)
    return x + x
"""
SAID = ("loaded", "by descriptor", "by child", "by C", "by warning", "traced (2,)")


@pytest.mark.parametrize(
    "arguments",
    [
        ("explain", "--format", "json"),
        ("explain", "--format", "sarif"),
        ("build", "--stop-after", "optimized", "--format", "json"),
        ("build", "--entry", "none", "--format", "json"),
    ],
)
def test_what_a_model_prints_goes_to_standard_error(
    tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    (tmp_path / "model.py").write_text(LOUD)
    verb, *options = arguments
    done = subprocess.run(
        [*COMMAND, verb, "model.py", *options],
        cwd=tmp_path, capture_output=True, text=True,
    )  # fmt: skip
    assert isinstance(json.loads(done.stdout), dict)
    for line in SAID:
        if "none" not in options or line != "traced (2,)":
            assert line in done.stderr


def test_ir_on_standard_output_can_be_fed_back(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(LOUD)
    build = [*COMMAND, "build", "model.py", "--stop-after", "graph"]
    graph = subprocess.run(build, cwd=tmp_path, capture_output=True, check=True).stdout
    checked = subprocess.run([*COMMAND, "opt", "-", "--verify-only"], input=graph)
    assert checked.returncode == 0


def test_a_closed_standard_output_is_no_crash() -> None:
    done = subprocess.run(
        [*COMMAND, "targets"], preexec_fn=lambda: os.close(1), stderr=subprocess.PIPE
    )
    assert (done.returncode, done.stderr) == (0, b"")
