"""`aotc run --find-nan`: the op that makes the first NaN or infinity, and its line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aotc.cli.main import main
from aotc.machine.target import Target

MODEL = Path(__file__).with_name("nan_model.py")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The bundle, and the home with the key that it is signed with."""
    from aotc.pipeline import build

    folder = tmp_path_factory.mktemp("nan")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AOTC_HOME", str(folder / "home"))
        return Path(build(MODEL, output=folder).bundle), folder / "home"


@pytest.fixture
def call(
    built: tuple[Path, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Any:
    """Runs the bundle in a folder with data; exit code and document."""
    bundle, home = built
    monkeypatch.setenv("AOTC_HOME", str(home))
    monkeypatch.chdir(tmp_path)
    np.savez("data.npz", x=np.ones((40, 2), "f4"))

    def run(*arguments: str) -> tuple[int, dict[str, Any]]:
        code = main(["run", str(bundle), *arguments, "--format", "json"])
        return code, json.loads(capsys.readouterr().out)

    return run


def line(text: str) -> str:
    """Where the model says `text`."""
    lines = MODEL.read_text().splitlines()
    return f"nan_model.py:{next(i for i, x in enumerate(lines, 1) if text in x)}"


@pytest.mark.parametrize(
    ("entry", "x", "said", "call_", "where"),
    [
        (
            "root",
            "[1, 0, 4]",
            "in the derivative of that line: divide(0.5, 0) = inf at [1]",
            "divide(f32[3], f32[3])",
            "np.sqrt",
        ),
        ("root", "[1, -1, 4]", "sqrt(-1) = nan at [1]", "sqrt(f32[3])", "np.sqrt"),
        ("chosen", "[1, 0, 4]", "log(0) = -inf at [1]", "log(f32[3])", "np.log"),
        ("looped", "[1, 2, 4]", "nan at [0]", "divide(f32[3], f32[3])", "(y - y)"),
    ],
)
def test_the_op_that_makes_the_first_is_named_with_its_line(
    call: Any, entry: str, x: str, said: str, call_: str, where: str
) -> None:
    code, found = call("--entry", entry, "-i", f"x={x}", "--find-nan", str(MODEL))
    assert (code, found["exit_code"], found["code"]) == (1, 1, "made-not-finite")
    assert said in found["message"]
    assert found["call"] == call_
    assert found["where"] == line(where)
    assert found["hint"]


@pytest.mark.parametrize(
    ("stage", "model", "code", "said"),
    [
        ("graph", MODEL, "made-not-finite", "log(0) = -inf at [1]"),
        ("optimized", MODEL, "no-graph", "IR of the stage 'optimized' after autodiff"),
        ("linalg", MODEL, "no-graph", "IR of the stage 'linalg'"),
        ("graph", None, "other-source", "nan_model.py that the bundle was built from"),
    ],
)
def test_ir_of_the_model_stands_for_it_before_its_derivatives_are_written_out(
    call: Any, tmp_path: Path, stage: str, model: Path | None, code: str, said: str
) -> None:
    from aotc.pipeline import build

    other = tmp_path / "other.py"
    other.write_text(MODEL.read_text() + "\n# another text\n")
    target = [Target.parse("vmvx")]
    build(model or other, dump=tmp_path / "ir", stop_after=stage, targets=target)
    (ir,) = (tmp_path / "ir").rglob(f"{stage}.mlir")
    _, found = call("--entry", "chosen", "-i", "x=[1, 0, 4]", "--find-nan", str(ir))
    assert found["code"] == code
    assert said in found["message"]
    if code == "made-not-finite":
        assert found["where"] == line("np.log")


def test_ir_of_the_graph_says_which_ops_are_of_a_derivative(
    call: Any, tmp_path: Path
) -> None:
    from aotc.pipeline import build, optimize

    build(MODEL, dump=tmp_path, stop_after="graph")
    ir, derived = tmp_path / "graph.mlir", tmp_path / "derived.mlir"
    inputs = ("--entry", "root", "-i", "x=[1, 0, 4]", "--find-nan")
    _, found = call(*inputs, str(ir))
    assert "in the derivative of that line: divide(0.5, 0)" in found["message"]
    derived.write_text(optimize(ir.read_text(), "autodiff"))
    code, found = call(*inputs, str(derived))
    assert (code, found["code"]) == (2, "no-graph")
    assert "stage 'graph' after autodiff" in found["message"]
    assert "graph.mlir" in found["hint"]


def test_the_first_nan_is_told_beside_the_infinity_that_it_comes_from(
    call: Any,
) -> None:
    _, found = call("--entry", "chosen", "-i", "x=[1, 0, 4]", "--find-nan", str(MODEL))
    assert ", then graph.multiply at" in found["message"]
    assert "multiply(inf, 0) = nan" in found["message"]


@pytest.mark.parametrize("entry", ["root", "masked"])
def test_finite_results_are_given_as_always(call: Any, entry: str) -> None:
    inputs = ("--entry", entry, "-i", "x=[1, 2, 4]")
    code, found = call(*inputs, "--find-nan", str(MODEL))
    assert code == 0
    assert found == call(*inputs)[1]


def test_a_loop_that_stops_names_the_option_and_with_it_the_op(call: Any) -> None:
    loop = ("--entry", "train", "--loop", "data.npz", "--checkpoint", "ck")
    code, found = call(*loop, "--every", "1")
    assert (code, found["code"]) == (2, "not-finite")
    assert found["hint"].startswith("--resume ck --find-nan nan_model.py names")
    step = found["message"].split(" in step ")[1].split()[0]
    again = (*loop[:4], "--resume", "ck", "--find-nan", str(MODEL))
    code, found = call(*again)
    assert code == 1
    assert found["message"].startswith(f"step {step}: train: 'loss' is not finite")
    assert found["where"] == line("np.exp(w)")


def test_what_was_not_finite_from_the_beginning_is_named(call: Any) -> None:
    np.save("x.npy", np.array([1, np.nan, 4], "f4"))
    _, found = call("--entry", "root", "-i", "x=@x.npy", "--find-nan", str(MODEL))
    assert "because 'x' is not when the call begins" in found["message"]


def test_another_model_and_contradicting_options_are_refused(
    call: Any, tmp_path: Path
) -> None:
    (tmp_path / "other.py").write_text("import aotc\n")
    code, found = call("--entry", "root", "-i", "x=[1, 2, 4]", "--find-nan", "other.py")
    assert (code, found["code"]) == (2, "other-source")
    code, found = call("--entry", "root", "-i", "x=[1, 2, 4]", "--find-nan", "no.py")
    assert (code, found["code"]) == (2, "no-such-file")
    loop = ("--entry", "train", "--loop", "data.npz", "--allow-nan")
    assert call(*loop, "--find-nan", str(MODEL))[0] == 2
