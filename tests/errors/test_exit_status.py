"""What ended a child process is named, whatever the signal."""

import signal
import subprocess
import sys

import pytest

from aotc.errors.exit_status import exit_cause


@pytest.mark.parametrize(
    ("code", "cause"),
    [(3, "exit code 3"), (-signal.SIGSEGV, "SIGSEGV"), (-(signal.SIGRTMIN + 1), None)],
)
def test_names_what_ended_a_process(code, cause):
    end = f"os.kill(os.getpid(), {-code})" if code < 0 else f"sys.exit({code})"
    child = subprocess.run(
        [sys.executable, "-c", f"import os, sys; {end}"], check=False
    )
    assert exit_cause(child.returncode) == (cause or f"signal {-code}")
