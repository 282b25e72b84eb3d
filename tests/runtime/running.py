"""Inputs of the bundle, and processes that load it."""

import subprocess
import sys

import numpy as np

X = np.arange(20, dtype=np.float32).reshape(5, 4)


def run_python(code, **env):
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=env or None
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
