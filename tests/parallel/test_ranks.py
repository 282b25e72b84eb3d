"""`aotc run --ranks`: the same bits for any number of processes; one that dies."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from aotc import training
from aotc.artifacts.manifest import DeviceAxis
from aotc.errors import InputError
from aotc.errors.exit_status import exit_cause
from aotc.parallel import Group, LocalDevices
from aotc.parallel.engine import Alone
from aotc.runtime import load_devices
from tests.parallel.conftest import write_data

EPOCHS = 100
AOTC = [sys.executable, "-m", "aotc.cli.main"]


def run(bundle, *arguments):
    command = [*AOTC, "run", str(bundle), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True)


def train(bundle, *, checkpoint, epochs=3):
    """Train in this process alone; the bytes of its checkpoint."""
    training.fit(
        load_devices(bundle),
        "data.npz",
        entry="step",
        batch_size=8,
        epochs=epochs,
        checkpoint=checkpoint,
    )
    return content(checkpoint)


def content(folder):
    return Path(folder, "checkpoint.safetensors").read_bytes()


def test_one_two_and_four_ranks_train_to_the_same_bits(bundle):
    wanted = train(bundle, checkpoint="one")
    for ranks in (2, 4):
        loop = ["--loop", "data.npz", "--entry", "step", "--batch-size", 8]
        kept = ["--checkpoint", f"ck{ranks}", "--metrics", f"m{ranks}.jsonl"]
        done = run(bundle, *loop, *kept, "--epochs", 3, "--ranks", ranks)
        assert done.returncode == 0, done.stderr
        assert "24 steps of 8 rows" in done.stdout
        assert content(f"ck{ranks}") == wanted
    steps = [
        [json.loads(line)["metrics"] for line in Path(f).read_text().splitlines()]
        for f in ("m2.jsonl", "m4.jsonl")
    ]
    assert steps[0] == steps[1]
    assert len(steps[0]) == 24


def test_a_call_has_parts_for_each_device_and_the_outputs_of_all(bundle):
    x = np.arange(4 * 2 * 8, dtype="f4").reshape(4, 2, 8)
    np.save("x.npy", x)
    given = ["--entry", "exchange", "-i", "x=@x.npy", "-i", "k=[1, 2, 3, 4, 5]"]
    done = run(bundle, *given, "--ranks", 2, "-o", "two.npz", "--format", "json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["entry"] == "exchange"
    two = np.load("two.npz")
    leaves = [[part, np.arange(1, 6, dtype="u1")] for part in x]
    one = load_devices(bundle).call("exchange", leaves)
    for array, parts in zip(two.values(), zip(*one, strict=True), strict=True):
        assert array.tobytes() == np.stack(parts).tobytes()
    np.testing.assert_array_equal(two["sum"], np.broadcast_to(x.sum(0), x.shape))
    np.testing.assert_array_equal(two["number"], np.arange(4))


@pytest.fixture(scope="module")
def wanted(built, tmp_path_factory):
    """The checkpoint at the end of a run that nothing stops."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AOTC_HOME", str(built[1]))
        patch.chdir(tmp_path_factory.mktemp("whole"))
        write_data()
        return train(built[0], checkpoint="ck", epochs=EPOCHS)


@pytest.mark.parametrize("victim", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_a_rank_that_is_killed_ends_the_others_and_the_run_goes_on(
    bundle, wanted, victim
):
    loop = ["--loop", "data.npz", "--entry", "step", "--batch-size", "8"]
    loop += ["--epochs", str(EPOCHS), "--ranks", "2", "--checkpoint", "ck"]
    with subprocess.Popen(
        [*AOTC, "run", str(bundle), *loop], stderr=subprocess.PIPE, text=True
    ) as process:
        while not Path("ck/checkpoint.safetensors").exists():
            assert process.poll() is None
            time.sleep(0.01)
        os.kill(rank_of(process.pid, victim), signal.SIGKILL)
        _, said = process.communicate()
    assert process.returncode == 5
    assert "[rank-lost]" in said
    assert exit_cause(-signal.SIGKILL) in said
    assert "--resume ck goes on after step" in said
    assert content("ck") != wanted
    training.fit(
        load_devices(bundle), "data.npz", entry="step", epochs=EPOCHS, resume="ck"
    )
    assert content("ck") == wanted


def test_no_checkpoint_is_named_where_none_was_written(bundle):
    loop = ["--loop", "data.npz", "--entry", "step", "--batch-size", "8"]
    loop += ["--epochs", str(EPOCHS), "--ranks", "2", "--metrics", "m.jsonl"]
    loop += ["--checkpoint", "ck", "--every", str(10**6)]
    with subprocess.Popen(
        [*AOTC, "run", str(bundle), *loop], stderr=subprocess.PIPE, text=True
    ) as process:
        while not Path("m.jsonl").exists() or not Path("m.jsonl").stat().st_size:
            assert process.poll() is None
            time.sleep(0.01)
        os.kill(rank_of(process.pid, 0), signal.SIGKILL)
        _, said = process.communicate()
    assert process.returncode == 5
    assert "no checkpoint has been written" in said
    assert "--resume" not in said


def rank_of(pid, rank):
    """The process of a rank, of those that another has started."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    for child in children:
        variables = Path(f"/proc/{child}/environ").read_bytes().split(b"\0")
        if any(each.startswith(f"AOTC_GROUP={rank},".encode()) for each in variables):
            return int(child)
    raise AssertionError(children)


def test_states_that_differ_between_devices_are_not_written_as_one(bundle):
    entry = ("--entry", "forgets_to_reduce", "-i", "x=[[1, 2]]")
    done = run(bundle, *entry, "--save-state", "s.safetensors", "--ranks", 2)
    assert done.returncode == 2
    assert "states-differ" in done.stderr
    assert not Path("s.safetensors").exists()


def test_what_ranks_cannot_divide_is_refused(bundle, monkeypatch):
    done = run(bundle, "--entry", "whole", "-i", "x=0.0", "--ranks", 2)
    assert done.returncode == 2
    assert done.stderr.count("takes one device; got 2") == 1  # not once for each rank
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "2")
    done = run(bundle, "--entry", "whole", "-i", "x=0.0", "--ranks", 2)
    assert done.returncode == 2
    assert "mpirun has started this one, of 2" in done.stderr
    monkeypatch.delenv("OMPI_COMM_WORLD_SIZE")
    command = [*AOTC, "bench", str(bundle), "step"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2
    assert "one device computes, to measure its calls; 'step' takes 4" in done.stderr
    group = Group(Alone())
    group.size = 3
    with pytest.raises(InputError, match="divides the devices of the model, 4; got 3"):
        LocalDevices(group, DeviceAxis("data", 4))
    with pytest.raises(InputError, match="devices of the model, 1; got 3") as failure:
        LocalDevices(group, DeviceAxis("", 1))
    assert "all_reduce" in failure.value.hint
    with pytest.raises(InputError, match="one device computes"):
        training.map_batches(
            load_devices(bundle).first, {"x": np.ones((2, 8), "f4")}, entry="exchange"
        )
