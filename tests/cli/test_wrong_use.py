"""Wrong arguments of every kind: one diagnosed error each, and nothing half-written."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from aotc.cli.main import main

MODEL = """
import aotc

@aotc.entry(x=aotc.Spec((2,)))
def double(x):
    return x + x
"""
LONG = 300 * "x"
GRAPH = ("--stop-after", "graph")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory, and a home beside it."""
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("AOTC_HOME", str(tmp_path / "home"))
    return folder


@pytest.fixture
def refused(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Run a command that is refused with this code, and leaves no new file."""

    def run(code: str, *arguments: str, exit_code: int = 2) -> str:
        before = sorted(Path().rglob("*"))
        assert main(list(arguments)) == exit_code
        said = capsys.readouterr().err
        assert f"[{code}]" in said
        assert sorted(Path().rglob("*")) == before
        return said

    return run


@pytest.mark.parametrize(
    "source",
    [
        "raise GeneratorExit",
        "class E(BaseException): pass\nraise E('no')",
        "import sys; sys.exit(3)",
        "def f(): f()\nf()",
        "import nothing_of_that_name",
        "def (:",
        "x = 1\0",
    ],
)
def test_whatever_a_model_raises_is_the_models(
    refused: Callable[..., str], source: str
) -> None:
    Path("model.py").write_text(source)
    refused("model-raised", "build", "model.py", *GRAPH)


def test_an_interrupt_in_a_model_interrupts(capsys: pytest.CaptureFixture[str]) -> None:
    Path("model.py").write_text("raise KeyboardInterrupt")
    assert main(["build", "model.py"]) == 130
    assert capsys.readouterr().err == "interrupted\n"


def test_a_model_that_goes_elsewhere_leaves_relative_paths_as_they_were(
    folder: Path,
) -> None:
    Path("model.py").write_text("import os\nos.chdir('/')\n" + MODEL)
    assert main(["build", "model.py", "--dump", "ir", *GRAPH]) == 0
    assert (folder / "ir" / "graph.mlir").is_file()
    assert Path.cwd() == folder


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("none.py", "no such file"),
        ("folder.py", "a directory"),
        ("loop.py", "no such file"),
        ("dangling.py", "no such file"),
        (f"{LONG}.py", "no such file"),
        ("file/model.py", "no such file"),
        ("pipe.py", "no such file"),
    ],
)
def test_a_model_that_cannot_be_read_is_named(
    refused: Callable[..., str], path: str, words: str
) -> None:
    Path("file").touch()
    Path("folder.py").mkdir()
    Path("loop.py").symlink_to("loop.py")
    Path("dangling.py").symlink_to("nowhere")
    os.mkfifo("pipe.py")
    for verb in ("build", "explain", "parity"):
        assert words in refused("no-such-file", verb, path)


def test_what_is_no_ir_and_no_traffic_is_said_so(refused: Callable[..., str]) -> None:
    Path("model.py").write_text(MODEL)
    Path("bytes.mlir").write_bytes(b"\xff\xfe")
    assert "it is no text" in refused("bad-file", "opt", "bytes.mlir")
    refused("no-such-file", "build", "model.py", "--buckets-from", "none.csv", *GRAPH)
    refused("no-such-file", "bench", "model.py", "--traffic", "none.csv")


@pytest.mark.parametrize("name", ["größe mit leer.py", "line\nbreak.py", "co:lon.py"])
def test_odd_names_are_names(name: str) -> None:
    Path(name).write_text(MODEL)
    assert main(["build", name, *GRAPH]) == 0


@pytest.mark.parametrize(
    ("code", "arguments"),
    [
        ("usage", ["-o", ""]),
        ("usage", ["-o", "file"]),
        ("cannot-write", ["-o", "file/below"]),
        ("usage", ["--dump", ""]),
        ("cannot-write", ["--dump", "file/below"]),
        ("cannot-write", ["--dump", "/proc/none"]),
        ("usage", ["--report", ""]),
        ("usage", ["--report", "none/report.json"]),
        ("key-missing", ["--sign", "none.key"]),
        ("usage", ["--sign", ""]),
        ("bad-bundle-name", ["--name", LONG]),
        ("bad-bundle-name", ["--name", "../x"]),
        ("bad-bundle-name", ["--version", ""]),
    ],
)
def test_a_place_that_cannot_be_written_to_is_refused_before_the_work(
    refused: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
    code: str,
    arguments: list[str],
) -> None:
    monkeypatch.setattr("aotc.pipeline.stages.compile_units", None)  # not reached
    Path("file").touch()
    Path("model.py").write_text(MODEL)
    signing = [] if "--sign" in arguments else ["--no-sign"]
    exit_code = 5 if code == "cannot-write" else 2
    refused(code, "build", "model.py", *signing, *arguments, exit_code=exit_code)


@pytest.mark.parametrize("name", ["AOTC_JOBS", "AOTC_THREADS"])
@pytest.mark.parametrize("value", ["0", "-1", "many"])
def test_settings_that_count_are_at_least_one(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    from aotc.core import options
    from aotc.errors import InputError

    monkeypatch.setenv(name, value)
    with pytest.raises(InputError) as caught:
        options.get(name)
    assert caught.value.code == "bad-option"


def test_the_time_of_the_sources_is_one_that_there_can_be(
    refused: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from aotc.errors import InputError
    from aotc.packager import manifests

    monkeypatch.setenv("SOURCE_DATE_EPOCH", "9" * 20)
    with pytest.raises(InputError, match="SOURCE_DATE_EPOCH"):
        manifests._creation_time()


def test_a_build_does_not_need_the_folder_that_tmpdir_names(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", "/proc/none")
    Path("model.py").write_text(MODEL)
    assert main(["build", "model.py"]) == 0
    assert (folder / "model-1.0.0.aotc").is_dir()


def test_a_key_of_an_impossible_name_is_no_crash(refused: Callable[..., str]) -> None:
    refused("cannot-write", "keygen", LONG, exit_code=5)
