"""Settings of the environment that cannot be read: one error for every verb."""

import json

import pytest

from aotc.cli.main import VERBS, main

UNREADABLE = {
    "AOTC_THREADS": ["", "abc", "0", "-1", "1.5", "1e3", "nan", "1_0", "٣", "9" * 5000,
                     "257", "9999999"],
    "AOTC_JOBS": ["", "abc", "0", "-1"],
    "AOTC_CACHE_SIZE": ["", "abc", "-1", "nan", "1e400", "9" * 400 + "GB", "٣GB"],
    "AOTC_SELF_CHECK": ["", "x", "FULL"],
    "AOTC_PYTHONS": ["python", "aarch64=", "=python"],
    "AOTC_DEBUG": ["2", "x", "yes"],
    "AOTC_EAGER": ["2", "x"],
}  # fmt: skip
PAIRS = [(name, value) for name, values in UNREADABLE.items() for value in values]
MODEL = """
import aotc

@aotc.entry(x=aotc.Spec((2,)))
def double(x):
    return x + x
"""
# enough to be asked to work, where the work would fail later
ARGUMENTS = {
    "build": ["m.py"],
    "explain": ["m.py"],
    "quantize": ["m.py", "--recipe", "int8"],
    "parity": ["m.py"],
    "inspect": ["b"],
    "verify": ["b"],
    "compat": ["b", "--self"],
    "run": ["b"],
    "bench": ["b"],
    "keygen": ["k"],
    "opt": ["m.mlir"],
    "cache": ["ls"],
    "completion": ["bash"],
}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AOTC_HOME", str(tmp_path / "home"))
    return tmp_path


@pytest.mark.parametrize("verb", [verb for verb in VERBS if verb != "doctor"])
def test_every_verb_refuses_what_cannot_be_read(verb, monkeypatch, capsys, folder):
    for name, value in PAIRS:
        monkeypatch.setenv(name, value)
        assert main([verb, *ARGUMENTS.get(verb, [])]) == 2
        printed = capsys.readouterr()
        assert printed.out == ""
        assert printed.err.startswith(
            f"error: {name}='{value[:60]}' cannot be read [bad-"
        )
        assert "Traceback" not in printed.err
        assert list(folder.iterdir()) == []
        monkeypatch.delenv(name)


def test_doctor_names_what_cannot_be_read(monkeypatch, capsys):
    monkeypatch.setenv("AOTC_THREADS", "abc")
    monkeypatch.setenv("AOTC_CACHE_SIZE", "9" * 400 + "GB")
    assert main(["doctor", "--format", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["options"]["AOTC_THREADS"] is None
    assert set(document["unreadable_options"]) == {"AOTC_THREADS", "AOTC_CACHE_SIZE"}
    assert main(["doctor"]) == 0
    printed = capsys.readouterr()
    assert "error: AOTC_THREADS='abc' cannot be read" in printed.out
    assert printed.err == ""


def test_help_needs_no_settings(monkeypatch, capsys):
    monkeypatch.setenv("AOTC_THREADS", "abc")
    assert main(["build", "--help"]) == 0
    assert main(["--version"]) == 0


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("AOTC_TARGETS", "warp"),
        ("AOTC_CACHE", "/dev/null"),
        ("AOTC_HOME", "/dev/null"),
        ("AOTC_SIGNING_KEY", "none.key"),
        ("AOTC_SIGNING_KEY", "/dev/null"),
        ("AOTC_DUMP", "/dev/null/x"),
        ("AOTC_PRINT_AFTER", "no-such-pass"),
    ],
)
def test_settings_that_name_what_is_not_there_are_refused_by_who_needs_it(
    name, value, folder, monkeypatch, capsys
):
    (folder / "m.py").write_text(MODEL)
    monkeypatch.setattr("aotc.pipeline.stages.compile_units", None)  # not reached
    monkeypatch.setenv(name, value)
    assert main(["build", "m.py"]) in (2, 5)
    said = capsys.readouterr().err
    assert "error: " in said
    assert "[internal]" not in said
    assert not list(folder.glob("*.aotc"))


@pytest.mark.parametrize(
    ("name", "value", "code"),
    [
        ("AOTC_DUMP", "/dev/null/x", "cannot-write"),
        ("AOTC_PRINT_AFTER", "no-such-pass", "unknown-pass"),
        ("AOTC_TARGETS", "warp", "unknown-target"),
    ],
)
def test_explain_does_not_blame_the_model_for_a_setting(
    name, value, code, folder, monkeypatch, capsys
):
    (folder / "m.py").write_text(MODEL)
    monkeypatch.setenv(name, value)
    assert main(["explain", "m.py"]) in (2, 5)
    assert f"[{code}]" in capsys.readouterr().err
