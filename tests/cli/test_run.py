"""`aotc run`: inputs from files and literals, outputs to files and as text."""

from __future__ import annotations

import errno
import io
import json
import os
import tempfile
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from aotc.artifacts.manifest import Leaf
from aotc.cli import arrays
from aotc.cli.main import main

X = np.array([[1, 2], [3, 4], [5, 6]], np.float32)


@pytest.fixture
def bundle(shelf: Any, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The arguments that every call here begins with."""
    monkeypatch.chdir(shelf.folder)
    np.save("x.npy", X)
    np.savez("data.npz", x=X, other=X + 1)
    return ["run", shelf.bundle(), "--trust", shelf.public_key]


def outputs(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert main([*arguments, "--format", "json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["schema"] == "aotc.run/1"
    return {output["name"]: output["values"] for output in answer["outputs"]}


@pytest.mark.parametrize("value", ["@x.npy", "@data.npz:x", "[[1,2],[3,4],[5,6]]"])
def test_reads_inputs_from_files_and_literals(
    bundle: list[str], capsys: pytest.CaptureFixture[str], value: str
) -> None:
    found = outputs(
        capsys, *bundle, "--entry", "scale", "--input", f"x={value}", "--input", "k=2"
    )
    assert found == {"y": (X * 2).tolist(), "file": 2.0}


@pytest.mark.parametrize("value", ["pipe", "/dev/stdin", "-", "npz"])
def test_reads_an_input_from_a_pipe(
    bundle: list[str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    value: str,
) -> None:
    data = Path("data.npz" if value == "npz" else "x.npy").read_bytes()
    read, write = os.pipe()
    writers = [write]
    name = value
    if value == "pipe":
        os.mkfifo("pipe")
    else:
        monkeypatch.setattr("sys.stdin", open(read))  # noqa: SIM115
        name = f"/proc/self/fd/{read}" if value == "/dev/stdin" else "-"

    def write_all() -> None:
        target = "pipe" if value == "pipe" else write
        with open(target, "wb") as stream:
            stream.write(data)

    writer = threading.Thread(target=write_all)
    writer.start()
    try:
        source = f"x=@{name}" if value != "npz" else "x=@-:x"
        asked = [*bundle, "--entry", "scale", "-i", source, "-i", "k=2"]
        assert outputs(capsys, *asked)["y"] == (X * 2).tolist()
    finally:
        writer.join()
        del writers


@pytest.mark.parametrize("content", [b"", b"no array"])
def test_a_pipe_without_an_array_is_an_error_of_the_input(
    bundle: list[str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    content: bytes,
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content)))
    asked = [*bundle, "--entry", "scale", "-i", "x=@-", "-i", "k=2"]
    assert main(asked) == 2
    assert "[bad-" in capsys.readouterr().err


def test_literals_take_the_dtype_of_the_manifest(
    bundle: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [*bundle, "--entry", "add", "-i", "a=[1,2,255]", "-i", "b=[1,1,2]"]
    assert outputs(capsys, *arguments) == {"sum": [2, 3, 1]}


def test_writes_outputs_under_their_names(bundle: list[str]) -> None:
    arguments = ["--entry", "scale", "-i", "x=@x.npy", "-i", "k=3", "-o", "out.npz"]
    assert main([*bundle, *arguments]) == 0
    with np.load("out.npz", allow_pickle=False) as archive:
        assert set(archive.files) == {"y", "file"}
        np.testing.assert_array_equal(archive["y"], X * 3)
    assert not list(Path().glob(".out*"))


def test_prints_type_shape_and_values(
    bundle: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*bundle, "--entry", "scale", "-i", "x=@x.npy", "-i", "k=1"]) == 0
    assert "y: f32[3, 2]\n[[1. 2.]\n" in capsys.readouterr().out


def test_entry_may_be_left_out_if_there_is_one(
    shelf: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    name = shelf.bundle(entries=shelf.entries[1:])
    arguments = ["run", name, "--trust", shelf.public_key]
    found = outputs(capsys, *arguments, "-i", "a=[1,2,3]", "-i", "b=[1,1,1]")
    assert found == {"sum": [2, 3, 4]}


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ([], "unknown-entry"),
        (["--entry", "scail"], "unknown-entry"),
        (["--entry", "scale"], "missing-input"),
        (["--entry", "scale", "-i", "x"], "bad-input"),
        (["--entry", "scale", "-i", "z=1"], "unknown-input"),
        (["--entry", "scale", "-i", "k=1", "-i", "k=1"], "repeated-input"),
        (["--entry", "scale", "-i", "x=@no.npy"], "no-such-file"),
        (["--entry", "scale", "-i", "x=@text.npy"], "bad-file"),
        (["--entry", "scale", "-i", "x=@pickle.npy"], "bad-file"),
        (["--entry", "scale", "-i", "x=@empty.npy"], "bad-file"),
        (["--entry", "scale", "-i", "x=@data.npz"], "bad-file"),
        (["--entry", "scale", "-i", "x=@data.npz:z"], "bad-file"),
        (["--entry", "scale", "-i", "x=@damaged.npz:x"], "bad-file"),
        (["--entry", "scale", "-i", "k=one"], "bad-input"),
        (["--entry", "scale", "-i", "k=true"], "bad-input"),
        (["--entry", "scale", "-i", "x=[[1],[2,3]]"], "bad-input"),
        (["--entry", "add", "-i", "a=[1,2,256]"], "bad-input"),
        (["--entry", "add", "-i", "a=[1,2,-1]"], "bad-input"),
        (["--entry", "add", "-i", "a=[1,2,1.5]"], "bad-input"),
        (["--entry", "scale", "-i", "x=[[1,2,3]]", "-i", "k=1"], "shape-mismatch"),
        (["--target", "cuda:sm_80"], "unknown-variant"),
    ],
)
def test_wrong_input_exits_with_2(
    bundle: list[str],
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    code: str,
) -> None:
    Path("text.npy").write_text("not an array")
    Path("empty.npy").touch()
    np.savez_compressed("damaged.npz", x=np.arange(4096))
    content = Path("damaged.npz").read_bytes()
    Path("damaged.npz").write_bytes(content[:60] + b"\xff" * 30 + content[90:])
    np.save("pickle.npy", np.array([{}], dtype=object), allow_pickle=True)
    assert main([*bundle, *arguments]) == 2
    assert f"[{code}]" in capsys.readouterr().err


def test_refuses_a_bundle_that_is_not_trusted(shelf: Any) -> None:
    assert main(["run", shelf.bundle()]) == 4


def test_runs_an_unsigned_bundle_only_when_told_to(
    shelf: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["run", shelf.bundle(signer=None)]
    arguments += ["--entry", "add", "-i", "a=[1,1,1]", "-i", "b=[1,1,1]"]
    assert main(arguments) == 4
    assert main([*arguments, "--allow-unsigned"]) == 0


def test_failed_write_leaves_no_file_behind(tmp_path: Path) -> None:
    broken: dict[str, Any] = {"a": np.zeros(2), "b": np.array([{}], dtype=object)}
    with pytest.raises(ValueError, match="[Oo]bject"):
        arrays.write_npz(tmp_path / "out.npz", broken)
    assert list(tmp_path.iterdir()) == []


def test_output_into_a_missing_folder_is_refused_before_the_run(
    bundle: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*bundle, "--entry", "scale", "--output", "no/out.npz"]) == 2
    assert "there is no folder 'no'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("option", "name", "form"),
    [
        ("--output", "out.safetensors", ".npz"),
        ("--output", "out.txt", ".npz"),
        ("--save-state", "state.npz", ".safetensors"),
    ],
)
def test_a_name_that_promises_another_form_is_refused(
    bundle: list[str],
    capsys: pytest.CaptureFixture[str],
    option: str,
    name: str,
    form: str,
) -> None:
    assert main([*bundle, "--entry", "scale", option, name]) == 2
    assert f"expected a {form} file" in capsys.readouterr().err


def test_output_into_a_folder_that_takes_no_files_is_refused_before_the_run(
    bundle: list[str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def read_only(**_: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(tempfile, "TemporaryFile", read_only)
    assert main([*bundle, "--entry", "scale", "--save-state", "s.safetensors"]) == 5
    said = capsys.readouterr().err
    assert "Read-only file system [cannot-write]" in said
    assert "at s.safetensors" in said
    assert "choose another place" in said


def test_equal_arrays_give_equal_files(tmp_path: Path) -> None:
    for name in ("one.npz", "two.npz"):
        arrays.write_npz(tmp_path / name, {"a": X})
    one, two = (tmp_path / name for name in ("one.npz", "two.npz"))
    assert one.read_bytes() == two.read_bytes()


def test_bf16_survives_a_file(tmp_path: Path) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    values = np.array([1.5, -2], ml_dtypes.bfloat16)
    arrays.write_npz(tmp_path / "b.npz", {"x": values})
    (read,) = arrays.read_inputs(
        [f"x=@{tmp_path / 'b.npz'}"], [Leaf("x", "bf16", (2,))]
    )
    assert read.dtype == values.dtype
    np.testing.assert_array_equal(read, values)


def test_json_has_no_nan_and_no_infinity() -> None:
    leaves = [Leaf("x", "f32", (3,))]
    values = {"x": np.array([np.nan, np.inf, 1], np.float32)}
    (found,) = arrays.to_json(values, leaves)
    assert found["values"] == ["nan", "inf", 1.0]


def test_a_loop_takes_the_only_entry_of_a_bundle_that_trains_nothing(
    shelf: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(shelf.folder)
    bundle = shelf.bundle([e for e in shelf.entries if e["name"] == "scale"])
    np.savez("data.npz", x=X)
    run = ["run", bundle, "--trust", shelf.public_key, "--loop", "data.npz"]
    assert main([*run, "-i", "k=2", "--batch-size", "2", "-o", "out.npz"]) == 0
    with np.load("out.npz") as results:
        np.testing.assert_array_equal(results["y"], X * 2)


def test_more_rows_than_an_entry_takes_are_run_in_batches(
    shelf: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(shelf.folder)
    bundle = ["run", shelf.bundle(largest_batch=2), "--trust", shelf.public_key]
    bundle += ["--entry", "scale", "--input", "k=2"]
    rows = "[[1,2],[3,4],[5,6]]"
    assert main([*bundle, "--input", f"x={rows}"]) == 2
    said = capsys.readouterr().err
    assert "at most 2, got 3 [shape-contract]" in said
    assert "--loop data.npz --batch-size 2, with x in data.npz" in said
    np.savez("data.npz", x=X)
    loop = ["--loop", "data.npz", "--batch-size", "2", "--output", "out.npz"]
    assert main([*bundle, *loop]) == 0
    np.testing.assert_array_equal(np.load("out.npz")["y"], 2 * X)


def test_metrics_are_counters_in_the_form_that_the_name_says(bundle: list[str]) -> None:
    arguments = ["--entry", "add", "-i", "a=[1,2,3]", "-i", "b=[1,1,2]"]
    files = ["--metrics", "run.prom", "--metrics", "run.json"]
    assert main([*bundle, *arguments, *files]) == 0
    text = Path("run.prom").read_text()
    families = {f.name: f for f in text_string_to_metric_families(text)}
    document = json.loads(Path("run.json").read_text())
    assert document["schema"] == "aotc.counters/1"
    calls = {each["name"]: each for each in document["metrics"]}["aotc_calls"]
    (sample,) = (
        each
        for each in calls["samples"]
        if (each["labels"]["model"], each["labels"]["entry"]) == ("toy", "add")
    )
    assert sample["labels"]["variant"] == "general"
    (same,) = (
        each
        for each in families["aotc_calls"].samples
        if (each.labels["model"], each.labels["entry"]) == ("toy", "add")
    )
    assert same.value == sample["value"] >= 1


def test_a_run_that_fails_leaves_its_counters_too(
    bundle: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--entry", "add", "-i", "a=[1,2]", "-i", "b=[1,1,2]"]
    assert main([*bundle, *arguments, "--metrics", "run.prom"]) == 2
    assert 'entry="add",guard="a.shape[0]"} ' in Path("run.prom").read_text()
    assert main([*bundle, *arguments, "--metrics", "run.jsonl"]) == 2
    assert "needs --loop" in capsys.readouterr().err
    files = ["--metrics", "a.jsonl", "--metrics", "b.txt", "--metrics", "c.prom"]
    assert main([*bundle, *arguments, *files]) == 2
    assert "one file for the steps" in capsys.readouterr().err
    assert not Path("c.prom").exists()
