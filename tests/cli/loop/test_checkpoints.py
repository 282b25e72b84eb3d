"""Checkpoints of `aotc run --loop`: what is kept, resumed and refused."""

from __future__ import annotations

import hashlib
import json
import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

from aotc.cli.main import main
from aotc.training import checkpoints, metrics
from tests.cli.loop.data import ROWS, X, Y, answer, records


def states(file: str) -> dict[str, bytes]:
    return {name: array.tobytes() for name, array in load_file(file).items()}


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
    write = metrics.MetricsLog.write

    def killed(log: metrics.MetricsLog, record: dict[str, Any]) -> None:
        write(log, record)
        if record["step"] == 9:
            raise SystemExit

    arguments = [*train, "--steps", "12", "--metrics", "n.jsonl"]
    with monkeypatch.context() as patch:
        patch.setattr(metrics.MetricsLog, "write", killed)
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
    write = metrics.MetricsLog.write

    def interrupted(log: metrics.MetricsLog, record: dict[str, Any]) -> None:
        write(log, record)
        if record["step"] == 3:
            os.kill(os.getpid(), number)

    handlers = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    capsys.readouterr()
    with monkeypatch.context() as patch:
        patch.setattr(metrics.MetricsLog, "write", interrupted)
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
    save = checkpoints.CheckpointFolder.save

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    def second(
        self: checkpoints.CheckpointFolder,
        position: checkpoints.Position,
        validation: Any,
    ) -> None:
        if position.step > 2:
            monkeypatch.setattr(os, "replace", full)
        save(self, position, validation)

    monkeypatch.setattr(checkpoints.CheckpointFolder, "save", second)
    assert main([*train, "--checkpoint", "ck", "--every", "2"]) == 5
    assert "No space left" in capsys.readouterr().err
    assert checkpoint_step() == 2
    assert [path.name for path in Path("ck").iterdir()] == ["checkpoint.safetensors"]
