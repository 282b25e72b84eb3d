"""A build that is told to end, or killed, leaves nothing behind for long."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from aotc.artifacts import leftovers
from aotc.artifacts.pack import read_bundle, scratch_folder
from aotc.errors import AotcError

MODEL = """
import aotc
from aotc import numpy as np


@aotc.entry(x=aotc.Spec((40, 40), "f32"))
def f(x):
    for _ in range(30):
        x = np.sin(x @ x)
    return x
"""

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="reads Linux's /proc"
)


def workers(folder):
    """Processes that were started for a folder in `folder`."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes()
            state = (process / "stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        if b"aotc.worker" in command and bytes(folder) in command and state != "Z":
            found.append(int(process.name))
    return found


def wait_for(condition):
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.fixture
def build(tmp_path):
    (tmp_path / "tmp").mkdir()
    (tmp_path / "model.py").write_text(MODEL)
    code = "import sys; from aotc.cli.main import main; sys.exit(main())"
    process = subprocess.Popen(
        [sys.executable, "-c", code, "build", "model.py", "-o", "."],
        cwd=tmp_path,
        env=os.environ | {"TMPDIR": str(tmp_path / "tmp"), "AOTC_HOME": "home"},
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_for(lambda: workers(tmp_path / "tmp"))
    yield process
    process.kill()
    process.communicate()


def test_sigterm_ends_worker_and_folders(build, tmp_path):
    build.send_signal(signal.SIGTERM)
    assert "SIGTERM" in build.communicate(timeout=60)[1]
    assert build.returncode == 128 + signal.SIGTERM
    assert workers(tmp_path / "tmp") == []
    assert list((tmp_path / "tmp").iterdir()) == []


def test_a_worker_dies_with_its_parent_and_the_next_build_clears_up(
    build, tmp_path, monkeypatch
):
    build.kill()
    build.wait()
    wait_for(lambda: not workers(tmp_path / "tmp"))
    assert len(list((tmp_path / "tmp").iterdir())) == 1
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    foreign = tmp_path / "tmp" / "aotc-work-0000-1-1-other"
    foreign.mkdir()
    with leftovers.temporary_folder() as own, leftovers.temporary_folder() as other:
        assert {*(tmp_path / "tmp").iterdir()} == {own, other, foreign}
    assert list((tmp_path / "tmp").iterdir()) == [foreign]


def test_a_build_that_is_killed_while_it_is_checked_leaves_no_bundle(build, tmp_path):
    trial = ".model-1.0.0.aotc.*/bundle.trial/manifest.json"
    wait_for(lambda: [*tmp_path.glob(trial)])
    build.kill()
    build.wait()
    assert [*tmp_path.rglob("*.aotc")] == []
    with scratch_folder(tmp_path, ("model", "1.0.0")):
        assert [*tmp_path.glob(trial)] == []


LARGE = """
import aotc
from aotc import numpy as np

weights = aotc.Weights.load("weights.npz")


@aotc.entry(x=aotc.Spec((1, 2048), "f32"))
def f(weights, x):
    for name in sorted(weights):
        x = np.tanh(x @ weights[name])
    return x
"""


@pytest.mark.slow  # 30 builds
def test_a_build_that_is_killed_at_any_moment_leaves_a_whole_bundle_or_none(tmp_path):
    rng = np.random.default_rng(0)
    arrays = {str(n): rng.standard_normal((2048, 2048), "f4") for n in range(8)}
    np.savez(tmp_path / "weights.npz", **arrays)
    (tmp_path / "model.py").write_text(LARGE)
    code = "import sys; from aotc.cli.main import main; sys.exit(main())"
    asked = ["build", "model.py", "-o", "out", "--self-check=off", "--no-sign"]
    (tmp_path / "tmp").mkdir()

    def started():
        return subprocess.Popen(
            [sys.executable, "-c", code, *asked],
            cwd=tmp_path,
            env=os.environ | {"TMPDIR": str(tmp_path / "tmp"), "AOTC_CACHE": "off"},
            stderr=subprocess.DEVNULL,
        )

    out, start = tmp_path / "out", time.monotonic()
    assert started().wait() == 0
    longest = time.monotonic() - start
    (bundle,) = out.glob("*.aotc")
    expected = read_bundle(bundle, allow_unsigned=True).manifest.data["files"]
    for seconds in rng.uniform(0, longest, 30):
        shutil.rmtree(out)
        build = started()
        try:
            build.wait(seconds)
        except subprocess.TimeoutExpired:
            build.kill()
            build.wait()
        for manifest in out.rglob("manifest.json"):
            try:
                found = read_bundle(manifest.parent, allow_unsigned=True)
                found.check()
            except AotcError:
                continue  # nobody takes it
            assert found.manifest.data["files"] == expected
        assert {*out.glob("*.aotc")} <= {bundle}
        out.mkdir(exist_ok=True)
