"""The code of `aotc.jit` between processes: shared by way of the user's cache alone."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

PROGRAM = """
import json, sys, numpy, aotc, aotc.numpy as np

@aotc.jit
def f(x, y):
    return np.tanh(x) @ y

x, y = numpy.full((3, 4), 0.5, "f4"), numpy.ones((4, 2), "f4")
found = f(x, y)
is_right = numpy.allclose(found, numpy.tanh(x) @ y, 1e-5)
has_compiler = "aotc.backend" in sys.modules or "aotc.packager" in sys.modules
print(json.dumps([is_right, f.report() | {"has_compiler": has_compiler}]))
"""


@pytest.fixture
def start(tmp_path):
    """Starts a process that calls a function, with a cache of its own folder."""
    script = tmp_path / "calls.py"
    script.write_text(PROGRAM)
    cache = tmp_path / "cache"

    def start_process():
        return subprocess.Popen(
            [sys.executable, script],
            env={**os.environ, "AOTC_CACHE": str(cache), "AOTC_HOME": str(tmp_path)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    start_process.cache = cache
    return start_process


def result_of(process):
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    is_right, report = json.loads(out)
    assert is_right
    return report


def test_processes_that_compile_the_same_at_once_all_get_it_right(start):
    reports = [result_of(each) for each in [start() for _ in range(8)]]
    assert all(each["compiles"] + each["from_cache"] == 1 for each in reports)
    assert sum(each["compiles"] for each in reports) == 1  # the others wait for it
    last = result_of(start())
    assert last["from_cache"] == 1
    assert not last["has_compiler"]
    kept = list(start.cache.glob("??/*.cached"))
    # the module, the bundle of the function, the call, and that it was compared
    assert len(kept) == 4
    assert not list(start.cache.glob("??/.*"))  # nothing half-written is left


def test_what_is_damaged_is_made_again(start):
    assert result_of(start())["compiles"] == 1
    call, _, function, module = sorted(start.cache.glob("??/*.cached"), key=kind_of)
    for damaged, again in (
        ([call], "from_cache"),
        ([function], "from_cache"),
        ([call, function], "from_cache"),
        ([call, function, module], "compiles"),
    ):
        for kept in damaged:
            data = bytearray(kept.read_bytes())
            data[len(data) // 2] ^= 1
            kept.write_bytes(data)
        assert result_of(start())[again] == 1
        assert not result_of(start())["has_compiler"]


def kind_of(path):
    return json.loads(path.read_bytes().partition(b"\n")[0])["kind"]


def test_a_killed_compilation_leaves_nothing_that_is_taken_for_whole(start):
    process = start()
    time.sleep(1.5)  # somewhere in the middle; wherever it was, the next is right
    process.send_signal(signal.SIGKILL)
    process.communicate()
    result_of(start())
    assert result_of(start())["from_cache"] == 1


def test_a_cache_that_others_can_write_to_is_refused(start):
    start.cache.mkdir(mode=0o777)
    start.cache.chmod(0o777)
    process = start()
    _, err = process.communicate(timeout=300)
    assert process.returncode != 0
    assert "cache-exposed" in err
