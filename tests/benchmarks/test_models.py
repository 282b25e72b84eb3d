"""`python benchmarks/models.py` and what it computes of its times."""

import importlib
import json
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks.inference.clocks import seconds_of_calls
from benchmarks.inference.install_size import is_editable, required, size
from benchmarks.inference.measuring import Times, alternate
from benchmarks.inference.results import (
    Row,
    compare_with_peers,
    fact_table,
    mean_table,
    static_table,
    time_table,
    write_json,
)
from benchmarks.inference.serve import relative_error
from benchmarks.inference.systems import Jax, Unsupported

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


def test_a_system_is_compared_with_peers_of_its_own_precision(monkeypatch):
    monkeypatch.syspath_prepend(COMMAND.parent)
    memory_ratio = importlib.import_module("training.results").memory_ratio
    times = {
        "aotc": Times([[6.0]]),
        "torch": Times([[3.0]]),
        "aotc mixed": Times([[2.0]]),
        "torch mixed": Times([[1.0]]),
        "aotc f16": Times([[1.0]]),
    }
    peers = [name for name in times if name.startswith("torch")]
    rows = [Row("mlp", 1, 1, name, name in peers) for name in times]
    rows[2].precision = rows[3].precision = "mixed:bf16"
    rows[4].precision = "mixed:f16"
    for row, held in zip(rows, (60, 30, 20, 10, 10), strict=True):
        row.warm_peak_bytes = held
    compare_with_peers(rows, times)
    assert [row.ratio for row in rows[:4]] == [2.0, 1.0, 2.0, 1.0]
    assert [row.ratio_of_minima for row in rows[:4]] == [2.0, 1.0, 2.0, 1.0]
    assert [memory_ratio(row, rows) for row in rows[:4]] == [2.0, 1.0, 2.0, 1.0]
    assert math.isnan(rows[4].ratio)
    assert math.isnan(memory_ratio(rows[4], rows))


def test_means_are_geometric_and_of_models_that_have_times():
    rows = []
    for name, seconds in (("mlp", 0.5), ("lstm", 2.0), ("moe", None)):
        found = [Row(name, 8, 2, "aotc", False), Row(name, 8, 2, "fast", True)]
        times = {"aotc": Times([[seconds]])} if seconds else {}
        compare_with_peers(found, {**times, "fast": Times([[1.0]])})
        rows += found
    assert mean_table(rows).splitlines()[2:] == ["| 8 | 2 | aotc | 2 | 1.00 / 1.00 |"]
    assert mean_table([row for row in rows if row.peer]) == ""


def test_a_system_without_right_results_has_no_times_in_the_table():
    rows = rows_of("aotc", "fast")
    rows[0].failure = "error 3.0e-01"
    compare_with_peers(rows, {"fast": Times([[0.001]])})
    assert time_table(rows).splitlines()[-1] == (
        "| mlp | 1 | 1 | – (error 3.0e-01) | 1 / 1 |"
    )


def test_without_right_results_there_are_no_times_and_no_error():
    assert alternate({}, 3, 0.1, "wall") == {}


def test_a_build_for_any_size_is_compared_with_that_for_one():
    times = {
        "aotc v3": Times([[2.0], [30.0]]),
        "aotc v3 static": Times([[1.0], [10.0]]),
        "fast": Times([[1.0], [10.0]]),
    }
    rows = [Row("bert-dynamic", 1, 2, name, peer=name == "fast") for name in times]
    compare_with_peers(rows, times)
    assert static_table(rows).splitlines()[2:] == [
        "| bert-dynamic | 1 | 2 | aotc v3 | 2.50 / 2.00 |"
    ]
    assert static_table(rows[1:]) == ""


def test_what_is_not_known_of_a_system_is_left_empty():
    row = Row("mlp", 1, 1, "fast", True, cold_start_seconds=1.0, artifact_bytes=2**20)
    row.peak_bytes = 3 * 10**6
    assert fact_table([row]).splitlines()[-1] == (
        "| mlp | 1 | 1 | fast | 1.00 | 3 | 1.0 |  |  |  |  |"
    )
    row.install_bytes = 7 * 10**6
    assert "| 1.0 | 7 |" in fact_table([row])


def test_a_distribution_is_as_large_as_what_it_requires_with_it(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    for name, requires, code in (
        ("up", ["down.low>=2 ; python_version > '3'", "absent"], b"x" * 10),
        ("down-low", ["up", "other ; extra == 'more'"], b"x" * 100),
        ("other", [], b"x" * 1000),
    ):
        module = tmp_path / f"{name}.py"
        module.write_bytes(code)
        facts = tmp_path / f"{name.replace('-', '_')}-2.0.dist-info"
        facts.mkdir()
        lines = [
            f"Name: {name}",
            "Version: 2.0",
            *(f"Requires-Dist: {r}" for r in requires),
        ]
        (facts / "METADATA").write_text("\n".join(lines))
        (facts / "RECORD").write_text(f"{module.name},,\n{name}.pyc,,\n")
        (tmp_path / f"{name}.pyc").write_bytes(code)
    found = required("Up")
    assert [each.metadata["Name"] for each in found] == ["up", "down-low"]
    assert [size(each) for each in found] == [10, 100]
    assert not is_editable(found[0])
    origin = found[0].locate_file("up-2.0.dist-info/direct_url.json")
    origin.write_text('{"url": "file:///up", "dir_info": {"editable": true}}')
    assert is_editable(required("up")[0])


def test_jax_says_that_it_has_no_program_for_all_sizes(tmp_path):
    (tmp_path / "weights.npz").write_bytes(b"1234")
    jax = Jax("jax", Path(sys.executable), "jax_jit", "jax")
    assert jax.prepare(tmp_path, tmp_path).bytes == 4
    (tmp_path / "static.pt2").touch()
    with pytest.raises(Unsupported, match="one program for each size"):
        jax.prepare(tmp_path, tmp_path)


@pytest.mark.parametrize("name", ["mlp", "lstm", "moe"])
def test_networks_in_jax_compute_what_those_in_pytorch_do(name):
    torch, jax = pytest.importorskip("torch"), pytest.importorskip("jax")
    from benchmarks import models_zoo, models_zoo_jax

    module, inputs = models_zoo.module(name), models_zoo.inputs(name, 2)
    state = {key: each.numpy() for key, each in module.state_dict().items()}
    arrays = {key: each.numpy() for key, each in inputs.items()}
    network = jax.jit(models_zoo_jax.MODELS[name])
    with torch.no_grad():
        expected = module(**inputs).numpy()
    found = np.asarray(network(models_zoo_jax.nested(state), **arrays))
    assert relative_error(found, expected) <= 1e-5


def test_the_same_figures_make_the_same_plot(tmp_path):
    pytest.importorskip("matplotlib")
    rows = rows_of("aotc", "fast")
    compare_with_peers(rows, {"aotc": Times([[0.8]]), "fast": Times([[1.0]])})
    rows.append(Row("mlp", 1, 1, "slow", peer=True, failure="not built"))
    write_json(rows, {}, tmp_path / "models.json")
    for name in ("first.svg", "second.svg"):
        words = ["-m", "benchmarks.inference.plot", tmp_path / "models.json"]
        subprocess.run([sys.executable, *words, tmp_path / name], check=True)
    first, second = ((tmp_path / f"{n}.svg").read_text() for n in ("first", "second"))
    assert first == second
    assert "batch 1, threads 1" in first
    assert "fast" in first
    assert "slow" not in first


@pytest.mark.parametrize("tick", [1, 8, 64])
def test_no_call_takes_no_time_by_a_clock_that_ticks_slowly(tick):
    passed = 0

    def call():
        nonlocal passed
        passed += 4

    times = seconds_of_calls(call, 160, lambda: passed // tick * tick)
    assert len(times) == 160
    assert set(times) == {4}


@pytest.mark.parametrize("found", [[1.0, np.nan], [1.0, np.inf], [[1.0, 2.0]]])
def test_results_that_are_not_finite_or_of_another_shape_are_infinitely_wrong(found):
    assert relative_error(np.array(found), np.array([1.0, 2.0])) == np.inf
    assert relative_error(np.array([1.0, 1.5]), np.array([1.0, 2.0])) == 0.25


def test_a_model_that_cannot_be_exported_has_rows_that_say_so(tmp_path):
    options = ["--models", "mlp", "--peers", "--levels", "x86_64-v3", "--threads", "1"]
    options += ["--work", str(tmp_path), "--python", "torch=/bin/false", "--no-plot"]
    options += ["--python", f"aotc={sys.executable}"]
    subprocess.run([sys.executable, COMMAND, *options], check=True, capture_output=True)
    [row] = json.loads((tmp_path / "models.json").read_text())["rows"]
    assert row["failure"] == "not exported"
    assert row["median_ms"] is None


@pytest.mark.slow
def test_the_smallest_model_is_exported_built_checked_and_timed(tmp_path):
    pytest.importorskip("torch")
    options = ["--models", "mlp", "--peers", "--threads", "1", "--levels", "x86_64-v3"]
    options += ["--rounds", "2", "--seconds", "0.01", "--work", str(tmp_path)]
    for package in ("aotc", "torch"):
        options += ["--python", f"{package}={sys.executable}"]
    subprocess.run(
        [sys.executable, COMMAND, *options, "--no-plot"],
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
