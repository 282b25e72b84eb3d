"""`aotc build`, `opt` and `ops`: what they ask of the compiler and make of its answer.

The compiler itself is replaced here; its own tests are elsewhere.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import aotc
from aotc.cli.main import main
from aotc.machine.target import Target
from aotc.programs.files import read_program

WEIGHTED = """
import aotc
import numpy

weights = aotc.Weights({"w": numpy.ones((2, 3), "f4")})


@aotc.entry(x=aotc.Spec((4, 2), "f32"))
def main(weights, x):
    return x @ weights["w"]
"""


class Pipeline:
    """Stands for `aotc.pipeline` and remembers how it was called."""

    def __init__(self) -> None:
        self.asked: dict[str, Any] = {}

    def build(self, source: str, **choices: Any) -> SimpleNamespace:
        self.asked = {"source": source, **choices}
        with choices["reporter"].stage("lower"):
            pass
        return SimpleNamespace(to_json=lambda: {"size": 5}, to_text=lambda: "done")

    def optimize(self, text: str, passes: str, **choices: Any) -> str:
        self.asked = {"text": text, "passes": passes, **choices}
        return text.upper()


@pytest.fixture
def pipeline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Pipeline:
    monkeypatch.chdir(tmp_path)
    stand_in = Pipeline()
    monkeypatch.setitem(sys.modules, "aotc.pipeline", stand_in)  # type: ignore[arg-type]
    monkeypatch.setattr(aotc, "pipeline", stand_in, raising=False)
    return stand_in


def test_build_takes_defaults_that_suit_most(pipeline: Pipeline) -> None:
    assert main(["build", "model.py"]) == 0
    asked = pipeline.asked
    assert asked["source"] == "model.py"
    assert asked["targets"] == ()  # which is for the pipeline to choose
    assert asked["output"] == Path(".")
    assert (asked["entries"], asked["sign"], asked["force"]) == ((), True, False)
    assert asked["signing_key"] is asked["name"] is asked["version"] is None


def test_build_takes_entries_after_a_colon_and_as_options(pipeline: Pipeline) -> None:
    main(["build", "a/model.py:predict", "--entry", "train"])
    assert pipeline.asked["source"] == "a/model.py"
    assert pipeline.asked["entries"] == ("predict", "train")


def test_build_names_each_target_once(pipeline: Pipeline) -> None:
    main(["build", "model.py", "-t", "cuda", "-t", "cuda:sm_80", "-t", "vmvx"])
    named = [*map(str, Target.named("cuda")), "vmvx"]
    assert list(map(str, pipeline.asked["targets"])) == named


def test_build_hands_on_key_name_version_and_folders(pipeline: Pipeline) -> None:
    arguments = "build m.py -o dist --name n --version 2 --sign k.key --dump ir --force"
    assert main(arguments.split()) == 0
    asked = pipeline.asked
    assert (asked["name"], asked["version"], asked["force"]) == ("n", "2", True)
    assert asked["output"] == Path("dist")
    assert asked["signing_key"] == "k.key"
    assert asked["dump"] == Path("ir")


def test_build_prints_the_report_as_text_json_and_file(
    pipeline: Pipeline, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["build", "model.py", "--report", "report.json"])
    assert capsys.readouterr().out == "done\n"
    main(["build", "model.py", "--format", "json"])
    printed = json.loads(capsys.readouterr().out)
    assert printed == {"schema": "aotc.build/1", "size": 5}
    assert json.loads(Path("report.json").read_text()) == printed


def test_build_shows_stages_unless_quiet(
    pipeline: Pipeline, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["build", "model.py"])
    assert capsys.readouterr().err.startswith("lower  ")
    main(["build", "model.py", "--quiet"])
    assert capsys.readouterr().err == ""
    assert main(["build", "model.py", "--quiet", "--verbose"]) == 2


def test_opt_reads_a_file_and_prints_the_result(
    pipeline: Pipeline, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("m.mlir").write_text("module {}\n")
    assert main(["opt", "m.mlir", "--passes", "simplify, fuse"]) == 0
    assert capsys.readouterr().out == "MODULE {}\n"
    assert pipeline.asked["passes"] == "simplify, fuse"


def test_opt_writes_a_file(pipeline: Pipeline) -> None:
    Path("m.mlir").write_text("module {}")
    assert main(["opt", "m.mlir", "-o", "out.mlir"]) == 0
    assert Path("out.mlir").read_text() == "MODULE {}"


def test_opt_names_the_parameters_from_where_it_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("model.py").write_text(WEIGHTED)
    dump = ["--dump", "ir", "--stop-after", "graph", "--quiet"]
    assert main(["build", "model.py", *dump]) == 0
    Path("far/off").mkdir(parents=True)
    for name in ("far/off/g.mlir", "far/g.mlir", "ir/g.mlir"):
        assert main(["opt", "ir/graph.mlir", "--passes", "cse", "-o", name]) == 0
        assert [*read_program(Path(name)).parameters] == ["weights.w"]
    assert 'file = "parameters.irpa"' in Path("ir/g.mlir").read_text()
    assert 'file = "../../ir/parameters.irpa"' in Path("far/off/g.mlir").read_text()


def test_opt_keeps_the_times_of_passes_out_of_the_ir(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("m.mlir").write_text("module {}")
    asked = ["opt", "m.mlir", "--passes", "simplify,cse", "--timing"]
    assert main([*asked, "-o", "out.mlir"]) == 0
    assert main(asked) == 0
    shown = capsys.readouterr()
    assert re.fullmatch(r"(simplify: .* ms, .*\ncse: .* ms, .*\n){2}", shown.err)
    assert shown.out == Path("out.mlir").read_text()
    assert "ms" not in shown.out


def test_opt_that_only_verifies_prints_nothing(
    pipeline: Pipeline, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("m.mlir").write_text("module {}")
    assert main(["opt", "m.mlir", "--verify-only"]) == 0
    assert pipeline.asked["passes"] == ""
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("content", [None, b"\xff\xfe"])
def test_opt_of_a_file_without_text_is_an_input_error(
    pipeline: Pipeline, content: bytes | None
) -> None:
    if content:
        Path("m.mlir").write_bytes(content)
    assert main(["opt", "m.mlir"]) == 2


def test_opt_names_the_file_that_holds_no_valid_ir(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "m.mlir"
    file.write_text("module { graph.rlu }")
    assert main(["opt", str(file)]) == 2
    assert f"at {file}" in capsys.readouterr().err


@pytest.fixture
def two_ops(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [
        {
            "op": "graph.exp",
            "family": "elementwise",
            "rules": {"verify": "yes", "vjp": "yes"},
            "dtypes": ["f32", "f64"],
            "missing": {"vulkan": ["f64"], "vmvx": ["f16", "f64->i32"]},
            "precision": "f32",
        },
        {
            "op": "graph.iota",
            "family": "creation",
            "rules": {"verify": "yes", "vjp": "integer result"},
            "dtypes": ["i32"],
            "missing": {},
            "precision": "follows",
        },
    ]
    stand_in: Any = SimpleNamespace(matrix=lambda: rows)
    monkeypatch.setitem(sys.modules, "aotc.dialects", stand_in)
    monkeypatch.setattr(aotc, "dialects", stand_in, raising=False)


@pytest.mark.usefixtures("two_ops")
def test_ops_as_text_moves_reasons_into_notes(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["ops"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines == [
        ["OP", "FAMILY", "VERIFY", "VJP", "TARGETS", "PRECISION", "DTYPES"],
        ["graph.exp", "elementwise", "yes", "yes", "[1]", "f32", "f32", "f64"],
        ["graph.iota", "creation", "yes", "[2]", "all", "follows", "i32"],
        ["[1]", "vulkan", "without", "f64;", "vmvx", "without", "f16,", "f64->i32"],
        ["[2]", "integer", "result"],
    ]


@pytest.mark.usefixtures("two_ops")
def test_ops_as_json_and_markdown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ops", "--format", "json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["schema"] == "aotc.ops/1"
    assert answer["ops"][1]["rules"]["vjp"] == "integer result"
    assert main(["ops", "--format", "markdown"]) == 0
    assert capsys.readouterr().out.splitlines()[1:3] == [
        "| --- | --- | --- | --- | --- | --- | --- |",
        "| graph.exp | elementwise | yes | yes "
        "| vulkan without f64; vmvx without f16, f64->i32 | f32 | f32 f64 |",
    ]
