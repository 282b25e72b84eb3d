"""`aotc run --loop` trains the digits model as on a device, and survives a stop."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

import aotc as package

DIGITS = Path(__file__).parents[2] / "examples" / "digits"


@pytest.fixture
def command(release, keys, tmp_path):
    """The arguments of a training run, in a folder with the data."""
    data = np.load(DIGITS / "digits.npz")
    images, labels = data["train_x"].astype("f4"), data["train_y"].astype("i4")
    np.savez(tmp_path / "data.npz", images=images, labels=labels)
    return ["run", release, "--trust", keys / "release.pub", "--loop", "data.npz"]


def records(file):
    """The lines of a metrics file, times left out."""
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    return [(line["step"], line["epoch"], line["metrics"]) for line in lines]


def test_training_from_the_command_line_reaches_the_accuracy(
    aotc, release, keys, command, tmp_path
):
    arguments = ["--epochs", "5", "--save-state", "s.safetensors", "--format", "json"]
    run = aotc(*command, *arguments, "--metrics", "m.jsonl")
    assert run.returncode == 0, run.stderr
    assert run.stderr == ""
    assert json.loads(run.stdout)["steps"] == 110
    losses = [metrics["output"] for _, _, metrics in records(tmp_path / "m.jsonl")]
    assert np.mean(losses[-22:]) < 0.2 * np.mean(losses[:5])
    model = package.load(release, trust=keys / "release.pub", target="x86_64-v3")
    model.load_state(tmp_path / "s.safetensors")
    test_x, test_y = np.load(DIGITS / "test_x.npy"), np.load(DIGITS / "test_y.npy")
    assert (model.evaluate(images=test_x) == test_y).mean() > 0.94


def test_a_run_that_is_told_to_end_goes_on_to_the_same_bits(
    aotc, command, tmp_path, home
):
    arguments = [*command, "--steps", "300"]
    straight = aotc(*arguments, "--metrics", "m.jsonl", "--checkpoint", "a")
    assert straight.returncode == 0, straight.stderr
    arguments += ["--metrics", "n.jsonl"]
    process = subprocess.Popen(
        [sys.executable, "-m", "aotc.cli.main", *map(str, arguments)]
        + ["--checkpoint", "b"],
        cwd=tmp_path,
        env={**os.environ, "AOTC_HOME": str(home)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    metrics = tmp_path / "n.jsonl"
    while process.poll() is None and not (metrics.exists() and metrics.stat().st_size):
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    printed = process.communicate(timeout=60)
    assert process.returncode == 143, printed
    assert printed[1].startswith("stopped by SIGTERM after step ")
    assert len(records(metrics)) < 300
    resumed = aotc(*arguments, "--resume", "b")
    assert resumed.returncode == 0, resumed.stderr
    assert records(metrics) == records(tmp_path / "m.jsonl")
    one, two = (
        load_file(tmp_path / name / "checkpoint.safetensors") for name in ("a", "b")
    )
    assert one.keys() == two.keys()
    for name, array in one.items():
        assert array.tobytes() == two[name].tobytes(), name
