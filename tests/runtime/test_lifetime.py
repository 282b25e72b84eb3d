"""Processes that fork or end while a model is loaded, or in the middle of a call."""

import subprocess
import sys

import pytest

HEAD = """
import os, sys, threading, time
import numpy as np
from aotc import runtime
from aotc.errors import AotcError

path, trust, threads = sys.argv[1], sys.argv[2], int(sys.argv[3])
load = lambda: runtime.load(path, trust=trust, threads=threads)
model, x = load(), np.ones(5_000_000, np.float32)

def work():
    while True:
        model.echo(x=x)

def begin():
    threading.Thread(target=work, daemon=True).start()
    time.sleep(0.05)

def said(call):
    try:
        return str(call().echo(x=x[:4]).sum())
    except AotcError as error:
        return error.code

model.echo(x=x)
"""
FORK = """
child = os.fork()
if not child:
    print(said(lambda: model), said(load), flush=True)
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
assert said(lambda: model) == "4.0"
"""


@pytest.fixture
def run(bundle, signer, tmp_path):
    (tmp_path / "signer.pem").write_bytes(signer.public_pem)

    def run(code, threads):
        arguments = [bundle, tmp_path / "signer.pem", str(threads)]
        done = subprocess.run(
            [sys.executable, "-c", HEAD + code, *arguments],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.split()

    return run


@pytest.mark.parametrize("threads", [1, 2])
def test_a_process_can_end_in_the_middle_of_a_call(run, threads):
    assert run("begin()", threads) == []


@pytest.mark.parametrize("during", ["", "begin()"], ids=["idle", "in-a-call"])
def test_a_fork_computes_in_its_own_thread(run, during):
    assert run(during + FORK, 1) == ["4.0", "4.0"]


@pytest.mark.parametrize("during", ["", "begin()"], ids=["idle", "in-a-call"])
def test_a_fork_says_that_the_pool_of_threads_is_lost(run, during):
    assert run(during + FORK, 2) == ["forked", "forked"]
