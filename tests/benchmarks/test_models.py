"""`python benchmarks/models.py` and what it computes of its times."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks.inference.measuring import Times
from benchmarks.inference.results import Row, compare_with_peers, time_table
from benchmarks.inference.serve import relative_error

COMMAND = Path(__file__).parents[2] / "benchmarks" / "models.py"


def rows_of(*systems):
    return [Row("mlp", 1, 1, name, peer=name != "aotc") for name in systems]


def test_ratios_are_of_paired_rounds_and_against_the_fastest_peer():
    times = {
        "aotc": Times([[2.0, 2.0, 9.0], [20.0, 20.0, 20.0], [2.0, 3.0, 4.0]]),
        "fast": Times([[1.0, 1.0, 1.0], [10.0, 10.0, 10.0], [1.0, 1.0, 1.0]]),
        "slow": Times([[5.0, 5.0, 5.0], [50.0, 50.0, 50.0], [5.0, 5.0, 0.5]]),
    }
    rows = rows_of(*times)
    compare_with_peers(rows, times)
    ratios = {row.system: row.ratio for row in rows}
    assert ratios == {"aotc": 2.0, "fast": 1.0, "slow": 5.0}
    assert rows[0].ratio_of_minima == 2.0 / 0.5


def test_a_system_without_right_results_has_no_times_in_the_table():
    rows = rows_of("aotc", "fast")
    rows[0].failure = "error 3.0e-01"
    compare_with_peers(rows, {"fast": Times([[0.001]])})
    assert time_table(rows).splitlines()[-1] == (
        "| mlp | 1 | 1 | – (error 3.0e-01) | 1 / 1 |"
    )


@pytest.mark.parametrize("found", [[1.0, np.nan], [1.0, np.inf], [[1.0, 2.0]]])
def test_results_that_are_not_finite_or_of_another_shape_are_infinitely_wrong(found):
    assert relative_error(np.array(found), np.array([1.0, 2.0])) == np.inf
    assert relative_error(np.array([1.0, 1.5]), np.array([1.0, 2.0])) == 0.25


def test_a_model_that_cannot_be_exported_has_rows_that_say_so(tmp_path):
    options = ["--models", "mlp", "--peers", "--levels", "x86_64-v3", "--threads", "1"]
    options += ["--work", str(tmp_path), "--python", "torch=/bin/false"]
    subprocess.run([sys.executable, COMMAND, *options], check=True, capture_output=True)
    [row] = json.loads((tmp_path / "models.json").read_text())["rows"]
    assert row["failure"] == "not exported"
    assert row["median_ms"] is None


@pytest.mark.slow
def test_the_smallest_model_is_exported_built_checked_and_timed(tmp_path):
    pytest.importorskip("torch")
    options = ["--models", "mlp", "--peers", "--threads", "1", "--levels", "x86_64-v3"]
    options += ["--rounds", "2", "--seconds", "0.01", "--work", str(tmp_path)]
    subprocess.run(
        [sys.executable, COMMAND, *options, "--python", f"torch={sys.executable}"],
        check=True,
        capture_output=True,
        timeout=300,
    )
    [row] = json.loads((tmp_path / "models.json").read_text())["rows"]
    assert row["system"] == "aotc x86_64-v3"
    assert row["failure"] is None
    assert row["error"] <= 1e-4
    assert 0 < row["minimum_ms"] <= row["median_ms"]
    assert row["dispatches"] > 0
    assert row["artifact_bytes"] > 4 * 2_913_290  # its parameters
