"""`aotc run --loop`: batches in order, metrics, checkpoints, and every way to end."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aotc.cli.main import main
from tests.cli.loop.data import ROWS, X, Y, answer, records


def expected(steps: int, seed: int = 0) -> list[float]:
    """The losses that NumPy finds."""
    w, losses = np.zeros(2), []
    for step in range(steps):
        epoch, index = divmod(step, 5)
        order = np.random.default_rng((seed, epoch)).permutation(ROWS)
        rows = order[index * 4 : index * 4 + 4]
        w = w * 0.9 + np.sin(X[rows] * Y[rows, None]).sum(0)
        losses.append(w.sum())
    return losses


@pytest.mark.parametrize("data", ["data.npz", "data.safetensors"])
def test_every_epoch_takes_the_rows_in_an_order_of_its_own(
    run: list[str], capsys: pytest.CaptureFixture[str], data: str
) -> None:
    arguments = [*run, "--entry", "train", "--loop", data, "--metrics", "m.jsonl"]
    document = answer(capsys, [*arguments, "--epochs", "3", "--seed", "7"])
    found = records()
    losses = [record["metrics"]["loss"] for record in found]
    np.testing.assert_allclose(losses, expected(15, seed=7), rtol=1e-5)
    assert [record["step"] for record in found] == list(range(1, 16))
    assert [record["epoch"] for record in found] == [1] * 5 + [2] * 5 + [3] * 5
    assert found[-1]["metrics"] == {"loss": losses[-1], "count": 15}
    assert document["schema"] == "aotc.loop/1"
    assert (document["steps"], document["steps_per_epoch"]) == (15, 5)
    assert document["metrics"] == found[-1]["metrics"]
    assert document["stopped"] is None


@pytest.mark.parametrize(
    ("arguments", "steps"),
    [
        ([], 5),
        (["--steps", "7"], 7),
        (["--epochs", "2", "--steps", "7"], 7),
        (["--epochs", "1", "--steps", "7"], 5),
    ],
)
def test_ends_after_the_epochs_or_steps_that_were_asked_for(
    train: list[str],
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    steps: int,
) -> None:
    assert answer(capsys, [*train, *arguments])["steps"] == steps


def test_a_batch_of_any_size_is_given_and_inputs_may_stay_the_same(
    run: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [*run, "--entry", "train_any", "--loop", "data.npz", "-i", "rate=0"]
    document = answer(capsys, [*arguments, "--batch-size", "7"])
    assert document["steps"] == 3
    assert document["metrics"] == {"loss": 0, "count": 3}


def test_a_state_is_handed_from_one_command_to_the_next(
    run: list[str], train: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*train, "--save-state", "s.safetensors"]) == 0
    once = [*run, "--entry", "train_any", "-i", "x=[[0,0]]", "-i", "rate=0"]
    once += ["--load-state", "s.safetensors", "--save-state", "s.safetensors"]
    capsys.readouterr()
    for count in (6, 7):
        document = answer(capsys, once)
        outputs = {output["name"]: output["values"] for output in document["outputs"]}
        assert outputs["count"] == count
        assert document["state_file"] == "s.safetensors"


def test_says_in_a_few_lines_how_it_went(
    train: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*train, "--checkpoint", "ck", "--save-state", "s.safetensors"]) == 0
    printed = capsys.readouterr()
    first, *rest = printed.out.splitlines()
    assert first.startswith("train: 5 steps of 4 rows, 1 epoch, ")
    assert rest[1].startswith("loss = ")
    assert [rest[0], *rest[2:]] == [
        "count = 5",
        "checkpoint: ck/checkpoint.safetensors",
        "wrote the states to s.safetensors",
    ]
    assert printed.err == ""


BAD_DATA: dict[str, dict[str, Any]] = {
    "names.npz": {"X": X, "y": Y},
    "rank.npz": {"x": X[:, 0], "y": Y},
    "shape.npz": {"x": X[:, :1], "y": Y},
    "dtype.npz": {"x": X.astype("f8"), "y": Y},
    "endian.npz": {"x": X.astype(">f4"), "y": Y},
    "unequal.npz": {"x": X[1:], "y": Y},
    "empty.npz": {"x": X[:0], "y": Y[:0]},
    "few.npz": {"x": X[:3], "y": Y[:3]},
}


@pytest.mark.parametrize(
    ("data", "code", "words"),
    [
        ("names.npz", "missing-input", "no array for the input x; there are X, y"),
        ("rank.npz", "rank-mismatch", "expected f32[rows, 2], got float32[22]"),
        ("shape.npz", "shape-mismatch", "expected f32[rows, 2], got float32[22, 1]"),
        ("dtype.npz", "dtype-mismatch", "x.astype('float32')"),
        ("endian.npz", "dtype-mismatch", ">f4[22, 2]"),
        ("unequal.npz", "unequal-arrays", "x: 21, y: 22"),
        ("empty.npz", "too-few-rows", "one batch of 4 rows, got 0"),
        ("few.npz", "too-few-rows", "got 3"),
        ("pickle.npz", "bad-file", "pickled"),
        ("text.npz", "bad-file", "text.npz"),
        ("torn.npz", "bad-file", "torn.npz"),
        ("flipped.npz", "bad-file", "flipped.npz"),
        ("none.npz", "no-such-file", "none.npz"),
        ("torn.safetensors", "bad-file", "torn.safetensors"),
        ("data.csv", "unknown-format", ".npz or .safetensors"),
    ],
)
def test_data_that_does_not_fit_is_refused(
    run: list[str],
    capsys: pytest.CaptureFixture[str],
    data: str,
    code: str,
    words: str,
) -> None:
    for name, arrays in BAD_DATA.items():
        np.savez(name, **arrays)
    pickled = np.array([{}], dtype=object)
    np.savez("pickle.npz", x=pickled, y=Y)
    Path("text.npz").write_text("not an archive")
    whole = Path("data.npz").read_bytes()
    Path("torn.npz").write_bytes(whole[: len(whole) // 2])
    Path("flipped.npz").write_bytes(whole[:150] + b"\xff\xfe" + whole[152:])
    whole = Path("data.safetensors").read_bytes()
    Path("torn.safetensors").write_bytes(whole[:-5])
    Path("data.csv").write_text("1,2\n")
    assert main([*run, "--entry", "train", "--loop", data, "--metrics", "m.jsonl"]) == 2
    message = capsys.readouterr().err
    assert f"[{code}]" in message
    assert words in message
    assert not Path("m.jsonl").exists()


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ([], "unknown-entry", "several entries to train with"),
        (["--entry", "train", "--batch-size", "8"], "batch-size", "8 by --batch-size"),
        (["--entry", "train_any"], "no-batches", "--input rate=VALUE"),
        (["--entry", "train_any", "-i", "rate=1"], "batch-size", "--batch-size 32"),
        (["--entry", "train_any", "-i", "q=1"], "unknown-input", "rate"),
        (
            ["--entry", "measure", "-o", "o.npz"],
            "batch-size",
            "2 for 'batch.other', 4 for 'batch.x'",
        ),
        (
            ["--entry", "measure", "-o", "o", "-i", "batch.x=1", "-i", "batch.other=1"],
            "no-batches",
            "no input",
        ),
        (["--entry", "train", "--output", "o.npz"], "usage", "'train' trains"),
        (["--entry", "predict_four"], "usage", "results would be lost"),
        (["--entry", "predict_four", "-o", "o", "--epochs", "2"], "usage", "--epochs"),
        (["--entry", "predict_four", "-o", "o", "--resume", "c"], "usage", "--resume"),
        (["--entry", "predict_four", "-o", "o"], "batch-size", "2 are left over"),
        (
            ["--entry", "distances", "-o", "o", "--batch-size", "4"],
            "batch-size",
            "results of two sizes of 'output'",
        ),
        (["--resume", "ck", "--load-state", "s"], "usage", "exclude each other"),
        (["--every", "3"], "usage", "--every needs --checkpoint"),
        (["--epochs", "0"], "usage", "--epochs"),
        (["--entry", "train", "--resume", "ck"], "no-checkpoint", "checkpoint.safe"),
        (["--entry", "train", "--load-state", "none"], "no-such-file", "none"),
        (["--entry", "train", "--load-state", "data.npz"], "bad-state-file", "header"),
        (["--entry", "train", "--checkpoint", "data.npz/ck"], "cannot-write", "Not a"),
        (["--entry", "train", "--metrics", "no/m.jsonl"], "usage", "no folder"),
        (["--entry", "train", "--metrics", "/dev/full"], "bad-metrics", "regular"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_runs(
    run: list[str],
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    code: str,
    words: str,
) -> None:
    before = sorted(Path().iterdir())
    exit_code = 5 if code == "cannot-write" else 2
    assert main([*run, "--loop", "data.npz", *arguments]) == exit_code
    message = capsys.readouterr().err
    assert f"[{code}]" in message
    assert words in message
    assert sorted(Path().iterdir()) == before


def test_an_entry_that_trains_nothing_gives_its_results_for_all_rows_in_order(
    run: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [*run, "--entry", "predict", "--loop", "data.npz", "-i", "rate=3"]
    arguments += ["--batch-size", "4", "--output", "out.npz", "--metrics", "m.jsonl"]
    document = answer(capsys, arguments)
    with np.load("out.npz") as results:
        each, total, columns = (results[n] for n in ("each", "sum", "columns"))
    np.testing.assert_allclose(each, 3 * X.sum(1), rtol=1e-5)
    batches = [X[start : start + 4] for start in range(0, ROWS, 4)]
    np.testing.assert_allclose(total, [3 * b.sum() for b in batches], rtol=1e-4)
    np.testing.assert_allclose(columns, [b.sum(0) for b in batches], rtol=1e-4)
    assert (document["steps"], document["file"]) == (6, "out.npz")
    assert [r["metrics"]["sum"] for r in records()] == total.tolist()


def test_fixed_batches_leave_rows_out_only_when_told(run: list[str]) -> None:
    arguments = [*run, "--entry", "predict_four", "--loop", "data.npz", "-o", "o.npz"]
    assert main([*arguments, "--steps", "5"]) == 0
    np.testing.assert_allclose(np.load("o.npz")["output"], X[:20].sum(1), rtol=1e-5)


@pytest.mark.parametrize("option", [["--seed", "0"], ["--allow-nan"], ["--steps", "1"]])
def test_options_of_the_loop_need_it(
    run: list[str], capsys: pytest.CaptureFixture[str], option: list[str]
) -> None:
    assert main([*run, "--entry", "train", *option]) == 2
    assert f"{option[0]} needs --loop" in capsys.readouterr().err


def test_a_loop_needs_nothing_of_the_compiler(train: list[str]) -> None:
    program = (
        "import sys; sys.modules.update(dict.fromkeys("
        "('iree.compiler', 'torch_mlir', 'aotc.dialects', 'aotc.importers'))); "
        "from aotc.cli.main import main; sys.exit(main(sys.argv[1:]))"
    )
    arguments = [*train, "--checkpoint", "ck", "--save-state", "s.safetensors"]
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
