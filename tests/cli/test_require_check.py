"""Code that was never run can be refused: by a build, by verify and by compat."""

import json

import pytest

from aotc.checks.process import _run_by
from aotc.cli.main import main
from aotc.machine import processor

HERE = "x86_64-v3"
ELSEWHERE = "aarch64"
MODEL = """
import aotc
import aotc.numpy as np

@aotc.entry(x=aotc.Spec(("n", 2)))
def double(x):
    return x + x
"""
ASSERTING = """
import aotc
import aotc.numpy as np

@aotc.entry(x=aotc.Spec((2,)))
def never(x):
    aotc.debug.check(np.all(x > 1e30), "x is large")
    return x + x
"""
pytestmark = pytest.mark.skipif(
    processor.arch() != "x86_64", reason="the targets are named for an x86_64 machine"
)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AOTC_HOME", str(tmp_path / "home"))
    (tmp_path / "m.py").write_text(MODEL)
    return tmp_path


def run(*arguments):
    return main([str(each) for each in arguments])


def document(capsys):
    return json.loads(capsys.readouterr().out)


def test_verify_and_compat_ask_what_the_build_ran(folder, capsys):
    targets = ("--target", HERE, "--target", ELSEWHERE)
    assert run("build", "m.py", *targets, "--require-check", HERE) == 0
    bundle = "m-1.0.0.aotc"
    capsys.readouterr()

    assert run("verify", bundle, "--format", "json") == 0
    rows = {row["target"]: row for row in document(capsys)["checks"]}
    assert (rows[HERE]["checked"], rows[HERE]["by"]) == (True, "machine")
    assert (rows[ELSEWHERE]["checked"], rows[ELSEWHERE]["by"]) == (False, None)

    assert run("inspect", bundle) == 0
    assert f"double on {ELSEWHERE}: NOT CHECKED: this" in capsys.readouterr().out
    assert run("verify", bundle, "--require-check", HERE) == 0
    assert "checked by the machine that built it" in capsys.readouterr().out
    for required in (ELSEWHERE, "all"):
        assert run("verify", bundle, "--require-check", required) == 1
        said = capsys.readouterr().err
        assert "[not-checked]" in said
        assert f"double on {ELSEWHERE}: NOT CHECKED" in said
    assert run("verify", bundle, "--require-check", "cuda") == 2

    device = ("--device", "raspberry-pi-5")
    capsys.readouterr()
    assert run("compat", bundle, *device) == 0
    assert "NOT CHECKED" not in capsys.readouterr().out
    assert run("compat", bundle, *device, "--require", "checked") == 1
    said = capsys.readouterr().out
    assert f"double on {ELSEWHERE}: NOT CHECKED" in said
    assert f"✗ {ELSEWHERE}, not checked" in said
    assert "--require-check" in said
    for form in ("json", "html", "markdown", "junit", "sarif"):
        assert run("compat", bundle, *device, "--require=checked", f"--format={form}")
        assert "NOT CHECKED" in capsys.readouterr().out


def test_a_build_is_refused_before_it_compiles_what_nothing_here_runs(
    folder, capsys, monkeypatch
):
    monkeypatch.setattr("aotc.pipeline.stages.compile_units", None)  # not reached
    for target in (ELSEWHERE, "riscv64", "cuda", "vulkan", "rocm:gfx942"):
        if target == "vulkan" and _run_by("vulkan") == "emulator":
            continue
        targets = ("--target", HERE, "--target", target)
        assert run("build", "m.py", *targets, "--require-check", "all") == 1
        said = capsys.readouterr().err
        assert "[not-checked]" in said
        assert target in said
        assert "AOTC_PYTHONS" in said
    assert {path.name for path in folder.iterdir()} <= {"m.py", "home"}


def test_a_build_is_refused_whose_check_compared_nothing(folder, capsys):
    (folder / "m.py").write_text(ASSERTING)
    assert run("build", "m.py", "--target", HERE, "--format", "json") == 0
    before = (folder / "m-1.0.0.aotc/manifest.json").read_bytes()
    capsys.readouterr()
    again = ("build", "m.py", "--target", HERE, "--force", "--format", "json")
    assert run(*again, "--require-check", HERE) == 1
    refused = document(capsys)
    assert (refused["code"], refused["exit_code"]) == ("not-checked", 1)
    assert "the model refuses the random inputs" in refused["message"]
    assert (folder / "m-1.0.0.aotc/manifest.json").read_bytes() == before
    assert {p.name for p in folder.iterdir()} == {"m.py", "home", "m-1.0.0.aotc"}


@pytest.mark.parametrize(
    "wrong",
    [
        ("--require-check", "all", "--self-check", "off"),
        ("--require-check", "cuda"),
        ("--require-check", "no-such-target"),
        ("--require-check", ""),
        ("--require-check", "all", "--stop-after", "graph"),
    ],
)
def test_a_requirement_without_effect_is_refused(wrong, capsys):
    assert run("build", "m.py", "--target", HERE, *wrong) == 2


def test_an_emulator_is_named_as_such():
    assert _run_by(HERE) == "machine"
    assert _run_by(ELSEWHERE) == "emulator"
    assert _run_by("riscv64-v") == "emulator"
