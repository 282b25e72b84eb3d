"""`aotc run --loop`: batches in order, metrics, checkpoints, and every way to end."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

from aotc.cli.main import main
from aotc.training import checkpoints, metrics

MODEL = Path(__file__).with_name("loop_model.py")
ROWS = 22  # five batches of four, and two rows over
X = np.random.default_rng(0).normal(size=(ROWS, 2)).astype("f4")
Y = np.arange(ROWS, dtype="i4")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The bundle, and the home with the key that it is signed with."""
    from aotc.pipeline import build

    folder = tmp_path_factory.mktemp("loop")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AOTC_HOME", str(folder / "home"))
        return Path(build(MODEL, output=folder).bundle), folder / "home"


@pytest.fixture
def run(
    built: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> list[str]:
    """The arguments that every call begins with, in a folder with data."""
    bundle, home = built
    monkeypatch.setenv("AOTC_HOME", str(home))
    monkeypatch.chdir(tmp_path)
    np.savez("data.npz", x=X, y=Y, unused=X)
    save_file({"x": X, "y": Y}, "data.safetensors")
    return ["run", str(bundle), "--threads", "1"]


@pytest.fixture
def train(run: list[str]) -> list[str]:
    return [*run, "--entry", "train", "--loop", "data.npz"]


def answer(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> dict[str, Any]:
    assert main([*arguments, "--format", "json"]) == 0
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


def records(file: str = "m.jsonl") -> list[dict[str, Any]]:
    """The lines of a metrics file, times left out."""
    lines = [json.loads(line) for line in Path(file).read_text().splitlines()]
    return [{k: v for k, v in line.items() if k != "seconds"} for line in lines]


def states(file: str) -> dict[str, bytes]:
    return {name: array.tobytes() for name, array in load_file(file).items()}


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


def test_twenty_steps_equal_ten_and_ten_resumed(train: list[str]) -> None:
    straight = [
        "--steps",
        "20",
        "--metrics",
        "m.jsonl",
        "--save-state",
        "s.safetensors",
    ]
    assert main([*train, *straight]) == 0
    half = ["--metrics", "n.jsonl", "--seed", "0", "--checkpoint", "ck"]
    assert main([*train, *half, "--steps", "10", "--every", "4"]) == 0
    half = ["--metrics", "n.jsonl", "--save-state", "t.safetensors", "--resume", "ck"]
    assert main([*train, *half, "--steps", "20"]) == 0
    assert states("s.safetensors") == states("t.safetensors")
    assert states("s.safetensors") == states("ck/checkpoint.safetensors")
    assert records("m.jsonl") == records("n.jsonl")
    assert [path.name for path in Path("ck").iterdir()] == ["checkpoint.safetensors"]


def test_a_run_that_was_killed_goes_on_from_its_last_checkpoint(
    train: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main([*train, "--steps", "12", "--metrics", "m.jsonl"]) == 0
    write = metrics.Log.write

    def killed(log: metrics.Log, record: dict[str, Any]) -> None:
        write(log, record)
        if record["step"] == 9:
            raise SystemExit

    arguments = [*train, "--steps", "12", "--metrics", "n.jsonl"]
    with monkeypatch.context() as patch:
        patch.setattr(metrics.Log, "write", killed)
        with pytest.raises(SystemExit):
            main([*arguments, "--checkpoint", "ck", "--every", "4"])
    with open("n.jsonl", "a") as file:
        file.write('{"step": 1')  # the line that it was in
    assert main([*arguments, "--resume", "ck"]) == 0
    assert records("m.jsonl") == records("n.jsonl")


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)]
)
def test_a_signal_ends_the_loop_in_order(
    train: list[str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    number: signal.Signals,
    code: int,
) -> None:
    arguments = [*train, "--steps", "9", "--metrics"]
    assert main([*arguments, "m.jsonl", "--save-state", "s.safetensors"]) == 0
    write = metrics.Log.write

    def interrupted(log: metrics.Log, record: dict[str, Any]) -> None:
        write(log, record)
        if record["step"] == 3:
            os.kill(os.getpid(), number)

    handlers = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    capsys.readouterr()
    with monkeypatch.context() as patch:
        patch.setattr(metrics.Log, "write", interrupted)
        kept = ["--checkpoint", "ck", "--format", "json"]
        assert main([*arguments, "n.jsonl", *kept]) == code
    printed = capsys.readouterr()
    assert json.loads(printed.out)["stopped"] == number.name
    assert json.loads(printed.out)["steps"] == 3
    assert printed.err == f"stopped by {number.name} after step 3\n"
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == (
        handlers
    )
    assert main([*arguments, "n.jsonl", "--resume", "ck"]) == 0
    assert records("m.jsonl") == records("n.jsonl")
    assert states("s.safetensors") == states("ck/checkpoint.safetensors")


def test_a_metric_that_is_not_finite_ends_the_loop_and_keeps_the_checkpoint(
    train: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    x = X.copy()
    order = np.random.default_rng((0, 0)).permutation(ROWS)
    x[order[12]], y = np.nan, np.maximum(Y, 1)
    np.savez("data.npz", x=x, y=y)
    kept = ["--metrics", "m.jsonl", "--checkpoint", "ck", "--every", "1"]
    assert main([*train, *kept]) == 2
    message = capsys.readouterr().err
    assert "train: loss is nan in step 4 (epoch 1) [not-finite]" in message
    assert "hint: --resume ck --find-nan loop_model.py names the op" in message
    assert records()[-1]["metrics"]["loss"] == "nan"
    assert checkpoint_step() == 3
    assert main([*train, "--resume", "ck", "--allow-nan"]) == 0
    assert checkpoint_step() == 5


def checkpoint_step() -> int:
    from aotc.runtime import state_files

    notes = state_files.notes(Path("ck/checkpoint.safetensors"))
    return int(json.loads(notes["loop"])["step"])


def test_states_with_nan_do_not_replace_a_checkpoint(
    train: list[str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    np.savez("data.npz", x=np.full_like(X, np.nan), y=Y)
    monkeypatch.setattr(metrics, "not_finite", lambda _: None)  # a loss that hides it
    assert main([*train, "--checkpoint", "ck", "--every", "1"]) == 2
    assert "state.w holds NaN after step 1" in capsys.readouterr().err
    assert list(Path("ck").iterdir()) == []


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


def test_nothing_of_another_run_is_overwritten(
    train: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    kept = ["--metrics", "m.jsonl", "--checkpoint", "ck"]
    assert main([*train, *kept]) == 0
    checkpoint, lines = Path("ck/checkpoint.safetensors"), Path("m.jsonl").read_bytes()
    whole = checkpoint.read_bytes()
    assert main([*train, "--checkpoint", "ck"]) == 2
    assert "[checkpoint-exists]" in capsys.readouterr().err
    assert main([*train, "--metrics", "m.jsonl"]) == 2
    assert "[output-exists]" in capsys.readouterr().err
    Path("notes.txt").write_text("dear diary\n")
    assert main([*train, "--resume", "ck", "--metrics", "notes.txt"]) == 2
    assert "[bad-metrics]" in capsys.readouterr().err
    assert Path("notes.txt").read_text() == "dear diary\n"
    assert (checkpoint.read_bytes(), Path("m.jsonl").read_bytes()) == (whole, lines)


def test_a_loop_goes_on_only_as_it_began(
    run: list[str], train: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*train, "--checkpoint", "ck"]) == 0
    resume = ["--resume", "ck", "--epochs", "2"]
    other = [*run, "--entry", "train_any", "--loop", "data.npz", "-i", "rate=1"]
    cases = [
        ([*train, *resume, "--seed", "1"], "other-loop", "the seed"),
        ([*other, *resume], "other-loop", "the entry"),
        ([*other, *resume, "--batch-size", "3"], "other-loop", ""),
    ]
    for arguments, code, words in cases:
        assert main(arguments) == 2
        message = capsys.readouterr().err
        assert f"[{code}]" in message
        assert words in message
    np.savez("data.npz", x=X + 1, y=Y)
    assert main([*train, *resume]) == 2
    assert "the data that the checkpoint" in capsys.readouterr().err


def test_damaged_checkpoints_are_refused(
    train: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*train, "--checkpoint", "ck", "--save-state", "s.safetensors"]) == 0
    file = Path("ck/checkpoint.safetensors")
    whole = file.read_bytes()
    for data, code in [
        (whole[:-1], "bad-state-file"),
        (Path("s.safetensors").read_bytes(), "bad-checkpoint"),
        (whole.replace(b'\\"step\\": 5', b'\\"step\\": 4'), "bad-state-file"),
        (whole.replace(b'"loop_model"', b'"lo0p_model"'), "other-model"),
    ]:
        assert data != whole
        file.write_bytes(data)
        assert main([*train, "--resume", "ck"]) == 2
        assert f"[{code}]" in capsys.readouterr().err
        assert file.read_bytes() == data


def test_equal_runs_leave_equal_checkpoints_also_when_they_were_interrupted(
    train: list[str],
) -> None:
    assert main([*train, "--steps", "7", "--checkpoint", "a"]) == 0
    assert main([*train, "--steps", "7", "--checkpoint", "b", "--every", "2"]) == 0
    assert main([*train, "--steps", "3", "--checkpoint", "c"]) == 0
    assert main([*train, "--steps", "7", "--resume", "c"]) == 0
    files = [Path(folder, "checkpoint.safetensors") for folder in "abc"]
    assert len({file.read_bytes() for file in files}) == 1


def test_a_resumed_run_goes_on_with_the_seconds_of_its_metrics(
    train: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    kept = ["--metrics", "m.jsonl"]
    assert main([*train, *kept, "--steps", "2", "--checkpoint", "ck"]) == 0
    lines = [json.loads(line) for line in Path("m.jsonl").read_text().splitlines()]
    lines[-1]["seconds"] = 1000
    Path("m.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    capsys.readouterr()
    found = answer(capsys, [*train, *kept, "--steps", "3", "--resume", "ck"])
    assert 1000 < found["seconds"] < 1100
    last = json.loads(Path("m.jsonl").read_text().splitlines()[-1])
    assert (last["step"], last["seconds"] > 1000) == (3, True)


def test_a_checkpoint_of_an_earlier_release_is_gone_on_with(train: list[str]) -> None:
    """Its position has the seconds, and its digest is of the arrays alone."""
    assert main([*train, "--steps", "3", "--checkpoint", "ck"]) == 0
    file = Path("ck/checkpoint.safetensors")
    with safe_open(file, framework="np") as opened:
        metadata = opened.metadata()
    metadata["loop"] = json.dumps({**json.loads(metadata["loop"]), "seconds": 1.5})
    arrays = load_file(file)
    save_file(arrays, file, metadata)  # in an order of its own
    size = int.from_bytes(file.read_bytes()[:8], "little")
    metadata["content"] = hashlib.sha256(file.read_bytes()[8 + size :]).hexdigest()
    save_file(arrays, file, metadata)
    assert main([*train, "--steps", "4", "--resume", "ck"]) == 0
    assert main([*train, "--steps", "4", "--checkpoint", "straight"]) == 0
    assert file.read_bytes() == Path("straight/checkpoint.safetensors").read_bytes()


def test_a_full_disk_leaves_the_last_checkpoint(
    train: list[str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    save = checkpoints.Checkpoints.save

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    def second(
        self: checkpoints.Checkpoints, position: checkpoints.Position, validation: Any
    ) -> None:
        if position.step > 2:
            monkeypatch.setattr(os, "replace", full)
        save(self, position, validation)

    monkeypatch.setattr(checkpoints.Checkpoints, "save", second)
    assert main([*train, "--checkpoint", "ck", "--every", "2"]) == 5
    assert "No space left" in capsys.readouterr().err
    assert checkpoint_step() == 2
    assert [path.name for path in Path("ck").iterdir()] == ["checkpoint.safetensors"]


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
