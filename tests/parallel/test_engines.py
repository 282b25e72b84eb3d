"""Engines: ranks get the same bits whoever moves them, and nobody waits for ever."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from importlib.util import find_spec

import numpy as np
import pytest

from aotc.parallel import Group
from aotc.parallel.engine import Alone
from aotc.parallel.launching import run_ranks

PROGRAM = """
import json, sys
import numpy as np
from aotc import parallel
from aotc.errors import AotcError

group = parallel.current()
rank, size = group.rank, group.size
x = np.random.default_rng(rank).standard_normal((4, 8)).astype("f4")
found = [
    group.all_reduce(x), group.all_reduce(x, "max"), group.all_gather(x, 1),
    group.reduce_scatter(x), group.all_to_all(x, 1, 0),
    group.permute(x, [(0, size - 1)]), group.broadcast(x, size - 1),
    group.all_reduce(np.zeros((0, 3), "f4")), group.all_gather(np.array([rank > 0])),
    group.all_reduce(np.full(300_000, rank, "i8")),  # more than the first memory holds
    group.all_reduce(x.astype("f2")), group.all_reduce(np.array(rank, "u1")),
]
group.barrier()
np.savez(f"{group.engine.name}-{size}-{rank}.npz", *found)
assert group.texts(f"I am {rank}") == [f"I am {n}" for n in range(size)]
try:
    group.all_reduce(np.zeros(rank + 1))
except AotcError as error:
    print(error.code, file=sys.stderr)
group.close()
"""


def expected(size, rank):
    """What a rank finds, by NumPy."""
    xs = [
        np.random.default_rng(r).standard_normal((4, 8)).astype("f4")
        for r in range(size)
    ]
    total = sum(xs[1:], xs[0])
    return [
        total,
        np.max(xs, 0),
        np.concatenate(xs, 1),
        np.split(total, size)[rank],
        np.concatenate([np.split(x, size, 1)[rank] for x in xs]),
        xs[0] if rank == size - 1 else np.zeros_like(xs[0]),
        xs[-1],
        np.zeros((0, 3), "f4"),
        np.arange(size) > 0,
        np.full(300_000, sum(range(size)), "i8"),
        sum(x.astype("f2").astype("f4") for x in xs).astype("f2"),
        np.array(sum(range(size)), "u1"),
    ]


def require_right(name, size):
    for rank in range(size):
        with np.load(f"{name}-{size}-{rank}.npz") as found:
            for ours, wanted in zip(found.values(), expected(size, rank), strict=True):
                assert ours.tobytes() == wanted.tobytes()
                assert (ours.dtype, ours.shape) == (wanted.dtype, wanted.shape)


def test_shared_memory_gives_the_same_bits_as_numpy_in_the_order_of_ranks(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    for size in (2, 4):
        ended = run_ranks([sys.executable, "-c", PROGRAM], size)
        assert [each.code for each in ended] == [0] * size
        assert all("devices-diverge" in each.errors for each in ended[1:])
        require_right("shared-memory", size)


def test_a_rank_that_ends_is_told_of_at_once_however_it_ended():
    program = """
import os, sys
from aotc import parallel
group = parallel.current()
group.barrier()
if group.rank == 0:
    os.kill(os.getpid(), 9)
if group.rank == 1:
    sys.exit(3)
try:
    group.barrier()
except Exception as error:
    print(error.code, *sorted(group.engine.lost_ranks() & {0, 1}), file=sys.stderr)
"""
    first, second, third = run_ranks([sys.executable, "-c", program], 3)
    assert (first.code, second.code, third.code) == (-signal.SIGKILL, 3, 0)
    assert third.errors.startswith("rank-lost ")


def test_a_process_by_itself_is_a_group_of_one():
    group, x = Group(Alone()), np.arange(4.0)
    for found in (
        group.all_reduce(x),
        group.all_gather(x),
        group.reduce_scatter(x),
        group.all_to_all(x),
        group.permute(x, [(0, 0)]),
        group.broadcast(x),
    ):
        np.testing.assert_array_equal(found, x)


def test_iree_opens_its_devices_in_processes_of_mpirun():
    """Without the library of Open MPI, which it looks for by these variables."""
    program = "from aotc.runtime import engine; engine.device('llvm-cpu', 1)"
    subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | {"PMI_SIZE": "1", "PMI_RANK": "0"},
        check=True,
    )


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def start_as_torchrun(size, *command):
    """Processes with the variables that torchrun sets."""
    port = str(free_port())
    return [
        subprocess.Popen(
            [sys.executable, *command],
            env=os.environ
            | {"RANK": str(rank), "WORLD_SIZE": str(size)}
            | {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port},
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(size)
    ]


@pytest.mark.skipif(not find_spec("torch"), reason="needs torch")
def test_gloo_gives_the_same_bits_and_ends_in_order(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    leaves_nothing = PROGRAM.replace("group.close()", "")  # as programs do
    processes = start_as_torchrun(2, "-c", leaves_nothing)
    said = [process.communicate()[1] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], said
    assert all("devices-diverge" in text for text in said)
    require_right("gloo", 2)


@pytest.mark.skipif(not find_spec("mpi4py"), reason="needs mpi4py")
def test_mpi_gives_the_same_bits(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    subprocess.run(
        ["mpirun", "-n", "2", sys.executable, "-c", PROGRAM], check=True, env=os.environ
    )
    require_right("mpi", 2)


@pytest.mark.parametrize(
    ("variables", "package"),
    [
        ({"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "localhost"}, "torch"),
        ({"OMPI_COMM_WORLD_SIZE": "2"}, "mpi4py"),
    ],
)
def test_a_starter_whose_package_is_missing_is_named(variables, package):
    program = f'''
import sys
sys.modules["{package}"] = None
from aotc import parallel
try:
    parallel.current()
except Exception as error:
    print(json.dumps(error.to_json()))
'''
    done = subprocess.run(
        [sys.executable, "-c", "import json" + program],
        env=os.environ | variables,
        capture_output=True,
        text=True,
    )
    found = json.loads(done.stdout)
    assert found["code"] == "no-engine"
    assert package in found["hint"]
