"""What `pytest` leaves out: the costliest, and never what an area rests on."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.quick_tests import FILE, KEPT, left_out, read_times, units_of

ROOT = Path(__file__).parents[2]

TIMES = {
    "tests/a/test_x.py::test_first": 90.0,  # and the fixtures of the file
    "tests/a/test_x.py::test_second": 5.0,
    "tests/b/test_y.py::test_slow": 40.0,
    "tests/b/test_y.py::test_strong": 45.0,
    "tests/b/test_y.py::test_quick": 6.0,
}


def names_of(text):
    return [line.partition("#")[0].strip() for line in text.splitlines()]


def test_a_file_whose_fixtures_take_most_is_left_out_as_a_whole():
    units = units_of(TIMES)
    assert units["tests/a/test_x.py"] == 95
    assert left_out(units, 100, ()) == {"tests/a/test_x.py": 95}


def test_what_is_kept_stays_even_if_it_is_the_costliest():
    kept = ["tests/b/test_y.py::test_strong"]
    found = left_out(units_of(TIMES), 60, kept)
    assert [*found] == ["tests/a/test_x.py", "tests/b/test_y.py::test_slow"]
    with pytest.raises(SystemExit, match="always kept"):
        left_out(units_of(TIMES), 40, kept)


def test_times_of_workers_and_parameters_are_added_up(tmp_path):
    for worker, name in enumerate(("test_f[1]", "test_f[2]", "test_g")):
        row = {"test": f"tests/test_z.py::{name}", "seconds": 1.5}
        (tmp_path / f"gw{worker}.jsonl").write_text(json.dumps(row) + "\n")
    found = read_times(tmp_path)
    assert found == {"tests/test_z.py::test_f": 3.0, "tests/test_z.py::test_g": 1.5}


def test_the_list_names_tests_that_there_are_and_none_that_are_kept():
    names = [*filter(None, names_of(FILE.read_text(encoding="utf-8")))]
    for name in (*names, *KEPT):
        file, _, function = name.partition("::")
        source = (ROOT / file).read_text(encoding="utf-8")
        assert not function or f"def {function}(" in source, name
    assert not [n for n in names for k in KEPT if n.startswith(k) or k.startswith(n)]


def test_a_plain_run_leaves_out_what_is_listed_and_says_so(tmp_path):
    """In a project of one file of tests with this `conftest.py`."""
    tests = tmp_path / "tests"
    tests.mkdir()
    settings = '[tool.pytest.ini_options]\ntestpaths = ["tests"]\n'
    settings += 'addopts = "-m \'not slow\'"\nmarkers = ["slow: long"]\n'
    (tmp_path / "pyproject.toml").write_text(settings)
    for name in ("conftest.py", "compiled_modules.py"):
        (tests / name).write_text((ROOT / "tests" / name).read_text())
    (tests / "full.txt").write_text("tests/test_long.py::test_b  # 7\n")
    (tests / "test_long.py").write_text(
        "import pytest\ndef test_a(): pass\n"
        "@pytest.mark.parametrize('x', [1, 2])\ndef test_b(x): pass\n"
        "def test_bc(): pass\n"
        "@pytest.mark.slow\ndef test_c(): pass\n"
    )

    def said(*words):
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *words]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    plain = said()
    assert "worker" in plain
    assert "2 passed" in plain
    assert "left out: 2 tests that `pytest --full` runs, as CI does" in plain
    assert "left out: 1 long sweeps (`pytest -m slow`)" in plain
    full = said("--full")
    assert "4 passed" in full
    assert "--full` runs" not in full
    named = said("tests/test_long.py")
    assert "4 passed" in named
    assert "worker" not in named
    (tests / "full.txt").write_text("tests/test_long.py")
    assert "1 passed" in said("-m", "slow")
    assert "worker" not in said("-s", "--full")
