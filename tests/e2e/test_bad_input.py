"""Whatever goes wrong: one clear message, the right exit code, nothing left behind."""

import contextlib
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

DIGITS = Path(__file__).parents[2] / "examples" / "digits"
AOTC = [sys.executable, "-m", "aotc.cli.main"]

ENTRY = """
import aotc
import aotc.numpy as np

@aotc.entry(x=aotc.Spec(("batch", 4)))
def f(x):
"""


def require_refusal(run, code, error):
    """The command failed as documented: exit code, error code, no traceback."""
    assert run.returncode == code, (run.returncode, run.stderr)
    assert f"[{error}]" in run.stderr
    assert "Traceback" not in run.stderr


@pytest.mark.parametrize(
    ("body", "code", "error"),
    [
        ("", 2, "no-entries"),
        ("import aotc\nx = 1 / 0\n", 2, "model-raised"),
        ("def broken(:\n", 2, "model-raised"),
        (ENTRY + "    return x if x.sum() > 0 else -x\n", 2, "traced-value"),
        (ENTRY + "    raise ValueError('no')\n", 2, "model-raised"),
        (ENTRY + "    return np.ones((3, 5)) @ x\n", 2, "shape-mismatch"),
        (ENTRY + "    return x + np.ones(4, 'f64')\n", 2, "dtype-mismatch"),
    ],
)
def test_a_bad_model_is_refused_at_its_line(aotc, tmp_path, body, code, error):
    (tmp_path / "m.py").write_text(body)
    run = aotc("build", "m.py")
    require_refusal(run, code, error)
    if error != "no-entries":
        assert "m.py:" in run.stderr
    assert list(tmp_path.glob("*.aotc")) == []


def test_a_missing_model_an_unknown_target_and_an_unknown_entry_are_named(aotc):
    require_refusal(aotc("build", "nowhere.py"), 2, "no-such-file")
    require_refusal(
        aotc("build", DIGITS / "model.py", "--target", "x86_64-v9"), 2, "unknown-target"
    )
    require_refusal(
        aotc("build", DIGITS / "model.py", "--entry", "predictt"), 2, "unknown-entry"
    )


def test_an_existing_bundle_is_not_overwritten(aotc, tmp_path):
    (tmp_path / "digits-1.0.0.aotc").mkdir()
    require_refusal(aotc("build", DIGITS / "model.py"), 2, "output-exists")
    assert list((tmp_path / "digits-1.0.0.aotc").iterdir()) == []


def test_an_output_folder_that_cannot_be_made_is_named(aotc, tmp_path):
    (tmp_path / "file").write_text("")
    run = aotc("build", DIGITS / "model.py", "-o", "file/below")
    require_refusal(run, 5, "cannot-write")


def test_a_full_disk_leaves_no_bundle(tmp_path, home):
    def limit_files():
        resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000))

    run = subprocess.run(
        [*AOTC, "build", str(DIGITS / "model.py")],
        cwd=tmp_path, env={**os.environ, "AOTC_HOME": str(home)},
        preexec_fn=limit_files, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert run.returncode == 5, run.stderr
    assert "error" in run.stderr
    assert "Traceback" not in run.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_stops_at_once_and_leaves_nothing(tmp_path, home):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with subprocess.Popen(
        [*AOTC, "build", str(DIGITS / "model.py"), "-v"],
        cwd=tmp_path, env={**os.environ, "AOTC_HOME": str(home)},
        stderr=subprocess.PIPE, text=True, start_new_session=True,
    ) as process:  # fmt: skip
        while "linalg" not in process.stderr.readline():
            assert process.poll() is None
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        sent = processor_time_of_session(process.pid)
        assert process.wait(timeout=60) == 130
    # Not by the clock: a busy machine gives a process nothing for seconds at times.
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    assert used - sent < 2
    assert list(tmp_path.iterdir()) == []


def processor_time_of_session(leader):
    """Return the seconds of processor time that the processes of a session used."""
    ticks = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # the process has ended since
            fields = stat.read_text().rpartition(")")[2].split()
            if int(fields[3]) == leader:
                ticks += sum(map(int, fields[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def test_an_unsigned_bundle_is_loud_and_needs_a_flag(aotc, tmp_path):
    (tmp_path / "m.py").write_text(ENTRY + "    return x * 2\n")
    built = aotc("build", "m.py", "--no-sign")
    assert built.returncode == 0, built.stderr
    assert "unsigned" in built.stdout + built.stderr
    call = ("run", "m-1.0.0.aotc", "--input", "x=[[1, 2, 3, 4]]", "--output", "o.npz")
    require_refusal(aotc(*call), 4, "unsigned")
    assert aotc(*call, "--allow-unsigned").returncode == 0
    assert np.load(tmp_path / "o.npz")["output"].tolist() == [[2, 4, 6, 8]]


def test_a_development_bundle_is_refused_by_another_account(aotc, tmp_path):
    (tmp_path / "m.py").write_text(ENTRY + "    return x * 2\n")
    assert aotc("build", "m.py").returncode == 0
    assert aotc("verify", "m-1.0.0.aotc").returncode == 0
    stranger = str(tmp_path / "other-home")
    require_refusal(
        aotc("verify", "m-1.0.0.aotc", AOTC_HOME=stranger), 4, "untrusted-key"
    )


@pytest.mark.parametrize(
    ("literal", "error"),
    [
        ("[[1, 2, 3]]", "shape-mismatch"),
        ("@missing.npy", "no-such-file"),
        ("[1, 2, 3, 4]", "shape-mismatch"),
    ],
)
def test_a_wrong_input_is_refused_before_the_module_runs(
    aotc, release, keys, literal, error
):
    run = aotc(
        "run", release, "--entry", "predict", "--input", f"x={literal}",
        "--output", "o.npz", "--trust", keys / "release.pub",
    )  # fmt: skip
    assert run.returncode == 2, run.stderr
    assert "Traceback" not in run.stderr


def test_a_batch_beyond_the_contract_is_refused(aotc, release, keys, tmp_path):
    np.save(tmp_path / "big.npy", np.zeros((4097, 8, 8, 1), "f4"))
    run = aotc(
        "run", release, "--entry", "predict", "--input", "x=@big.npy",
        "--output", "o.npz", "--trust", keys / "release.pub",
    )  # fmt: skip
    assert run.returncode == 2
    assert "4096" in run.stderr
    assert "4097" in run.stderr


def test_any_flipped_bit_and_any_truncation_is_refused(aotc, release, keys, tmp_path):
    names = [f.relative_to(release) for f in release.glob("**/*") if f.is_file()]
    assert len(names) >= 5
    for name in names:
        for damage in (_flip, _truncate):
            copy = tmp_path / "copy.aotc"
            shutil.copytree(release, copy)
            damage(copy / name)
            run = aotc("verify", copy, "--trust", keys / "release.pub")
            assert run.returncode == 4, (name, damage, run.stderr)
            assert "Traceback" not in run.stderr
            shutil.rmtree(copy)


def _flip(file):
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)


def _truncate(file):
    file.write_bytes(file.read_bytes()[:-1])
