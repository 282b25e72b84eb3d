"""`aotc run --stream`: lines and records in, results out, bad items and pipes."""

from __future__ import annotations

import io
import json
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from aotc.cli.main import main

MODEL = Path(__file__).parents[1] / "streaming" / "stream_model.py"
ROWS = [[[1, 2, 3]], [[4, 5, 6], [7, 8, 9]], [[0.5, 0, 0]]]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The bundle, and the home with the key that it is signed with."""
    from aotc.pipeline import build

    folder = tmp_path_factory.mktemp("stream")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AOTC_HOME", str(folder / "home"))
        return Path(build(MODEL, output=folder).bundle), folder / "home"


@pytest.fixture
def run(
    built: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> list[str]:
    """The arguments that every call begins with, in an empty folder."""
    bundle, home = built
    monkeypatch.setenv("AOTC_HOME", str(home))
    monkeypatch.chdir(tmp_path)
    return ["run", str(bundle), "--threads", "1", "--entry"]


def lines(*items: Any) -> str:
    """A file of them, one a line; texts as they are."""
    texts = [each if isinstance(each, str) else json.dumps(each) for each in items]
    Path("in.jsonl").write_text("".join(f"{text}\n" for text in texts))
    return "in.jsonl"


def answers(text: str) -> list[Any]:
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.parametrize("more", [[], ["--depth", "1"], ["--latency", "0.01"]])
def test_results_are_those_of_runs_one_by_one(
    run: list[str], capsys: pytest.CaptureFixture[str], more: list[str]
) -> None:
    source = lines(*({"x": rows} for rows in ROWS), "", {"x": []}, {"x": [["inf"] * 3]})
    # [] has no second size, so that the call of an item without rows is refused
    assert main([*run, "double", "--stream", source, *more]) == 2
    captured = capsys.readouterr()
    found = answers(captured.out)
    assert "in.jsonl, line 5" in captured.err
    assert len(found) == 3
    for rows, result in zip(ROWS, found, strict=True):
        arguments = ["double", "--input", f"x={json.dumps(rows)}", "--format", "json"]
        assert main([*run, *arguments]) == 0
        (output,) = json.loads(capsys.readouterr().out)["outputs"]
        assert result == {output["name"]: output["values"]}


def test_takes_and_gives_structures_by_the_names_of_leaves(
    run: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    item = {
        "pair.a": [[1, -2], [3, 4]],
        "pair.keep[0]": [True, False],
        "pair.keep[1]": [["nan", "-inf"], [0.5, 2]],
    }
    point = json.loads((Path(run[1]) / "manifest.json").read_text())["entry_points"]
    names = {e["name"]: [leaf["name"] for leaf in e["inputs"]] for e in point}["mixed"]
    item = dict(zip(names, [*item.values()], strict=False))
    constant = ["--input", f"{names[-1]}=[10, 1]"]
    assert main([*run, "mixed", "--stream", lines(item), *constant]) == 0
    (found,) = answers(capsys.readouterr().out)
    assert list(found.values()) == [
        [[10, -2], [3, 4]],
        [False, True],
        [["nan", "-inf"], [1, 4]],
    ]


@pytest.mark.parametrize(
    ("bad", "code"),
    [
        ('{"x": [[1, 2, 3]]', "bad-stream-item"),
        ("[[1, 2, 3]]", "bad-stream-item"),
        ('{"x": [[1, 2, "3"]]}', "bad-stream-item"),
        ('{"x": [[1, 2], [3]]}', "bad-stream-item"),
        ('{"x": [[1, 2, 3]], "x": [[1, 2, 3]]}', "bad-stream-item"),
        ("\xff", "bad-stream-item"),
        ("[" * 100_000, "bad-stream-item"),
        ('{"x": [[1, 2, 3]], "y": 1}', "unknown-input"),
        ("{}", "missing-input"),
        ('{"x": [[1, 2]]}', "shape-mismatch"),
        ('{"x": 1}', "rank-mismatch"),
        ('{"x": [[-1, 0, 0]]}', "assertion-failed"),
        (json.dumps({"x": [[1, 2, 3]] * 9}), "shape-contract"),
    ],
)
@pytest.mark.parametrize("more", [[], ["--latency", "60"]])
def test_a_bad_item_ends_a_stream_or_has_its_error_in_its_place(
    run: list[str],
    capsys: pytest.CaptureFixture[str],
    bad: str,
    code: str,
    more: list[str],
) -> None:
    good = {"x": ROWS[0]}
    source = ["double", "--stream", lines(good, "", bad, good), *more]
    assert main([*run, *source]) == 2
    captured = capsys.readouterr()
    said = rf"\[{code}\]\n(  guard: .*\n)?  at in.jsonl, line 3"
    assert re.search(said, captured.err)
    assert len(answers(captured.out)) == 1
    assert main([*run, *source, "--keep-going"]) == 1
    captured = capsys.readouterr()
    assert "1 of 3 items failed [items-failed]" in captured.err
    first, error, last = answers(captured.out)
    assert first == last
    assert error["error"]["schema"] == "aotc.error/1"
    assert (error["error"]["code"], error["error"]["where"]) == (
        code,
        "in.jsonl, line 3",
    )


def test_records_follow_each_other_in_the_order_of_inputs_and_outputs(
    run: list[str], capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    a = np.array([[1, 2]], np.int8)
    keep, h = np.array([True]), np.array([[0.5, 3]], "f4")
    with Path("in.npy").open("wb") as file:
        for count in (1, 3):
            np.save(file, np.repeat(a, count, 0))
            np.save(file, np.repeat(keep, count, 0))
            bf16 = (np.repeat(h, count, 0).view(np.uint32) >> 16).astype(np.uint16)
            np.save(file, bf16.view("V2"))  # as files have bf16
    points = json.loads((Path(run[1]) / "manifest.json").read_text())["entry_points"]
    (names,) = (
        [leaf["name"] for leaf in p["inputs"]] for p in points if p["name"] == "mixed"
    )
    scale = ["--input", f"{names[-1]}=[3, 4]"]
    assert main([*run, "mixed", "--stream", "in.npy", *scale]) == 0
    written = io.BytesIO(capfdbinary.readouterr().out)
    for count in (1, 3):
        kept, rest, doubled = (np.load(written) for _ in range(3))
        np.testing.assert_array_equal(kept, np.repeat(a * [[3, 4]], count, 0))
        assert kept.dtype == np.int8
        np.testing.assert_array_equal(rest, np.zeros(count, bool))
        words = doubled.view(np.uint16).astype(np.uint32) << 16
        np.testing.assert_array_equal(words.view("f4"), np.repeat(h * 2, count, 0))
    assert not written.read()


def test_a_torn_record_is_an_error_at_its_place(
    run: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    with Path("in.npy").open("wb") as file:
        np.save(file, np.ones((2, 3), "f4"))
        whole = file.tell()
        np.save(file, np.ones((2, 3), "f4"))
    data = Path("in.npy").read_bytes()
    objects = io.BytesIO()
    np.save(objects, np.array([{}], object), allow_pickle=True)
    for rest in (data[whole:-1], data[whole : whole + 9], b"x", objects.getvalue()):
        Path("bad.npy").write_bytes(data[:whole] + rest)
        assert main([*run, "double", "--stream", "bad.npy"]) == 2
        captured = capfd.readouterr()
        assert "[bad-stream-item]\n  at bad.npy, record 2" in captured.err
        assert captured.out.count("NUMPY") == 1


def test_states_last_and_counters_are_written(
    run: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    source = ["count", "--stream", lines(*({"x": rows} for rows in ROWS))]
    kept = ["--save-state", "s.safetensors", "--metrics", "m.prom"]
    assert main([*run, *source, *kept]) == 0
    last = answers(capsys.readouterr().out)[-1]
    again = ["--load-state", "s.safetensors"]
    assert main([*run, *source, *again]) == 0
    found = answers(capsys.readouterr().out)
    ((last_rows,), (first_rows,)) = last.values(), found[0].values()
    assert last_rows == [[45.5, 45, 45]]  # with the sum of what came before
    assert first_rows == [[46.5, 47.5, 48.5]]
    families = text_string_to_metric_families(Path("m.prom").read_text())
    samples = {f.name: f.samples for f in families}["aotc_stream_items"]
    assert any(each.labels["entry"] == "count" for each in samples)
    assert main([*run, *source, "--latency", "1"]) == 2
    assert "[not-batchable]" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--depth", "2"], "--depth needs --stream"),
        (["--keep-going"], "--keep-going needs --stream"),
        (["--stream", "none.jsonl"], "does not exist"),
        (["--stream", "in.jsonl", "--depth", "0"], "--depth"),
        (["--stream", "in.jsonl", "--latency", "nan"], "--latency"),
        (["--stream", "in.jsonl", "--max-rows", "2"], "needs --latency"),
        (["--stream", "in.jsonl", "--output", "o.npz"], "exclude each other"),
        (["--stream", "in.jsonl", "--loop", "in.jsonl"], "exclude each other"),
        (["--stream", "in.jsonl", "--format", "json"], "exclude each other"),
        (["--stream", "in.jsonl", "--find-nan", "in.jsonl"], "exclude each other"),
        (["--stream", "in.jsonl", "--input", "x=[[1,2,3]]"], "nothing is left"),
        (["--stream", "in.npy", "--keep-going"], "no place for"),
    ],
)
def test_refuses_what_means_nothing(
    run: list[str],
    capfd: pytest.CaptureFixture[str],
    arguments: list[str],
    said: str,
) -> None:
    lines({"x": ROWS[0]})
    np.save("in.npy", np.ones((1, 3), "f4"))
    assert main([*run, "double", *arguments]) == 2
    captured = capfd.readouterr()
    assert said in captured.err
    assert captured.out == "" or "json" in arguments


# ---- pipes --------------------------------------------------------------------------


def start(run: list[str], *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "aotc.cli.main", *run, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        bufsize=1,
    )


def test_each_result_is_there_before_the_next_item_is(run: list[str]) -> None:
    with start(run, "double", "--stream", "-") as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        for rows in ROWS:
            process.stdin.write(json.dumps({"x": rows}) + "\n")
            (result,) = answers(process.stdout.readline())
            assert list(result.values()) == [(2 * np.array(rows)).tolist()]
        # An error ends it although standard input is still open, and says nothing else.
        process.stdin.write("{}\n")
        assert process.wait(60) == 2
        said = process.stderr.read()
        assert "[missing-input]\n  at standard input, line 4" in said
        assert "leak" not in said


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)]
)
@pytest.mark.usefixtures("interruptible")
def test_a_signal_ends_a_stream_that_waits(
    run: list[str], number: signal.Signals, code: int
) -> None:
    with start(run, "double", "--stream", "-", "--metrics", "m.json") as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps({"x": ROWS[0]}) + "\n")
        process.stdout.readline()
        process.send_signal(number)
        assert process.wait(60) == code
    assert json.loads(Path("m.json").read_text())["schema"] == "aotc.counters/1"


def test_a_reader_that_goes_ends_an_endless_stream_quietly(run: list[str]) -> None:
    item = json.dumps({"x": ROWS[0]})
    command = shlex.join([sys.executable, "-m", "aotc.cli.main", *run, "double"])
    pipe = f"yes '{item}' | {command} --stream - | head -n 1; echo ${{PIPESTATUS[1]}}"
    done = subprocess.run(
        ["bash", "-c", pipe], capture_output=True, text=True, timeout=60, check=True
    )
    result, code = answers(done.stdout)
    assert list(result.values()) == [(2 * np.array(ROWS[0])).tolist()]
    assert (code, done.stderr) == (128 + signal.SIGPIPE, "")


def test_an_empty_stream_has_no_results(
    run: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*run, "double", "--stream", lines()]) == 0
    assert capsys.readouterr().out == ""
