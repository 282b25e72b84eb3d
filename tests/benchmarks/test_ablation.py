"""`python benchmarks/ablation.py`: what a build without a part differs in."""

import pytest

from aotc.machine.target import Target
from benchmarks.inference.ablation_builds import Subject
from benchmarks.inference.ablation_results import Change, change_table, idle_passes
from benchmarks.inference.measuring import Times

MODEL = """
import aotc
from aotc import nn
import numpy

kernel = numpy.linspace(-1, 1, 64 * 48, dtype="f4").reshape(64, 48)
weights = aotc.Weights({"w": kernel})


@aotc.entry(x=aotc.Spec((32, 64)))
def predict(weights, x):
    return nn.softmax(x @ weights["w"])
"""


@pytest.fixture
def subject(tmp_path):
    source = tmp_path / "model.py"
    source.write_text(MODEL)
    target = Target.parse("x86_64-v3")
    return Subject("heads", target, source, tmp_path, tmp_path / "expected.npz")


def test_what_changes_the_ir_is_known_without_a_build(subject):
    whole = subject.lower("")
    assert whole.changed["1 autodiff"] is False
    assert any(whole.changed.values())
    assert subject.lower("depthwise").digest == whole.digest
    assert subject.lower("rows").digest != whole.digest


def test_a_build_without_a_kernel_has_less_work_in_kernels(subject):
    full, less = subject.build(""), subject.build("contraction")
    change = Change("heads", "contraction", has_effect=True)
    change.note_builds(full, less)
    assert change.kernel_calls == (2, 1)
    assert change.kernel_gflop[0] - change.kernel_gflop[1] == 2 * 32 * 64 * 48 / 1e9
    assert change.dispatches == (2, 2)
    assert full.kernel_ms > less.kernel_ms


def test_the_table_has_a_line_for_each_effect_and_says_where_there_is_none():
    slower = Change("a", "cse", has_effect=True, dispatches=(3, 5))
    slower.note_times(Times([[1.0, 2.0, 1.0]]), Times([[2.0, 2.0, 3.0]]))
    lines = change_table([slower, Change("b", "cse"), Change("a", "rows")]).split("\n")
    assert lines[2].startswith("| cse | a | 3 → 5 |")
    assert lines[2].endswith("| 2.00 / 2.00 |")
    assert lines[3:] == ["| rows | none |  |  |  |  |  |"]


def test_a_pass_is_idle_where_no_program_is_changed():
    ran = {
        "a": {"0 cse": True, "1 simplify": False, "2 cse": False},
        "b": {"0 cse": False, "1 simplify": True, "2 cse": False},
    }
    assert idle_passes(ran).endswith("by their number: 2 cse.")
