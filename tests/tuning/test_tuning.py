"""Tuning files: what they hold, what builds make of them, and how they are measured."""

import hashlib
import json
import re
from pathlib import Path

import numpy as np
import pytest

import aotc
from aotc import tuning
from aotc.checks.process import CompiledProcess
from aotc.cli.main import main
from aotc.dialects import context
from aotc.errors import InputError, SetupError
from aotc.importers import load
from aotc.kernels.capabilities import capabilities_of
from aotc.kernels.planning import tile
from aotc.machine import processor
from aotc.machine.target import Target
from aotc.mlir import ir
from aotc.passes import run_passes
from aotc.passes.base import Unit
from aotc.passes.fuse_regions import FuseRegions
from aotc.passes.stages import PASS_STAGES
from aotc.pipeline import build
from aotc.reference import evaluate
from aotc.tuning.files import MeasuredSchedule, TuningFile
from aotc.tuning.proposals import entry_name, program_of, propose

TARGET = Target.parse("x86_64-v3")
MODEL = """
import aotc
import aotc.numpy as np
from aotc import nn
import numpy

rng = numpy.random.default_rng(0)
weights = aotc.Weights({
    "w": rng.standard_normal((40, 52)).astype("f4"),
    "d": rng.standard_normal((3, 3, 1, 24)).astype("f4"),
})


@aotc.entry(x=aotc.Spec((37, 40)))
def dense(weights, x):
    return nn.gelu(x @ weights["w"])
"""
MORE = """

@aotc.entry(x=aotc.Spec((20, 33)), y=aotc.Spec((33, 30)))
def product(x, y):
    return x @ y


@aotc.entry(images=aotc.Spec((1, 9, 11, 24)))
def depthwise(weights, images):
    return nn.relu(nn.conv2d(images, weights["d"], groups=24, padding="SAME"))


@aotc.entry(x=aotc.Spec((aotc.Dim("rows", max=64), 40)))
def symbolic(weights, x):
    return nn.relu(x @ weights["w"])
"""


@pytest.fixture
def source(tmp_path):
    file = tmp_path / "model.py"
    file.write_text(MODEL)
    return file


def unit_of(path):
    """The program before its regions, for the target."""
    program = load(path, ())
    unit = Unit(program)
    run_passes(unit, PASS_STAGES[0].passes(), silently=True)
    return unit.fork(TARGET)


def proposals_of(unit):
    with unit.module.context, ir.Location.unknown():
        return propose(unit, FuseRegions(), capabilities_of(TARGET), ())


def file_of(source, chosen=-1):
    """A tuning file with one of the schedules of each kernel, by place in the list."""
    file = TuningFile(source.with_name("tuning.json"))
    tuning.tune(unit_of(source), FuseRegions(), file, 0.0, print)
    for each in proposals_of(unit_of(source)):
        found = MeasuredSchedule(each.schedules[chosen], 1.0, 2.0)
        file.targets[str(TARGET)].schedules[each.key] = found
    file.write()
    return file


def edit(file, path, value):
    """Change what is at a path in a tuning file."""
    data = json.loads(file.path.read_text())
    at = data
    *steps, last = path
    for step in steps:
        at = at[step]
    at[last] = value
    file.path.write_text(json.dumps(data))


def test_every_schedule_computes_what_the_reference_does(tmp_path):
    source = tmp_path / "model.py"
    source.write_text(MODEL + MORE)
    unit = unit_of(source)
    proposals = proposals_of(unit)
    kinds = [each.key.partition(":")[0] for each in proposals]
    assert sorted(kinds) == ["contraction", "contraction", "depthwise"]
    assert all(len(each.schedules) > 3 for each in proposals)
    with context(), ir.Location.unknown():
        graph = program_of(unit, proposals)
    with CompiledProcess(tuning._compile(unit, proposals)) as process:
        for each in proposals:
            for schedule, function in zip(each.schedules, each.functions, strict=True):
                name = entry_name(function)
                rng = np.random.default_rng(1)
                inputs = [
                    rng.standard_normal(port.type.shape, "float32")
                    for port in graph.entry(name).arguments
                ]
                found, _ = process.call(name, inputs)
                expected = evaluate(graph.module, name, inputs)
                message = f"{each.key} by {schedule}"
                for x, y in zip(found, expected, strict=True):
                    np.testing.assert_allclose(x, y, 1e-4, 1e-4, err_msg=message)


def test_the_same_file_gives_the_same_bundle_with_the_same_results(source, tmp_path):
    file = file_of(source)
    choices = {"targets": [TARGET], "sign": False, "self_check": "off"}
    dump = tmp_path / "ir"
    planned = build(source, output=tmp_path / "planned", **choices)
    tuned = build(source, output=tmp_path / "a", tuning=file.path, dump=dump, **choices)
    manifest = (tuned.bundle / "manifest.json").read_bytes()
    again = build(
        source, output=tmp_path / "b", tuning=file.path, cache=False, **choices
    )
    assert (again.bundle / "manifest.json").read_bytes() == manifest
    for stage in ("graph", "optimized"):
        [ir_file] = dump.rglob(f"{stage}.mlir")
        more = {"tuning": file.path, "output": tmp_path / stage, **choices}
        assert (build(ir_file, **more).bundle / "manifest.json").read_bytes() == (
            manifest
        )
    [ir_file] = dump.rglob("regions.mlir")
    on = build(ir_file, output=tmp_path / "regions", **choices)
    assert (on.bundle / "manifest.json").read_bytes() == manifest
    data = json.loads(manifest)
    digest = hashlib.sha256(file.path.read_bytes()).hexdigest()
    assert data["tuning"] == {"file": "tuning.json", "sha256": digest}
    provenance = (tuned.bundle / "provenance.json").read_text()
    assert digest in provenance
    [schedule] = file.targets[str(TARGET)].schedules.values()
    [region] = data["variants"][0]["kernels"]["regions"]
    assert region["tile"] == schedule.schedule
    rows = json.loads((planned.bundle / "manifest.json").read_bytes())
    assert rows["variants"][0]["kernels"]["regions"][0]["tile"] != region["tile"]
    assert "tuning" not in rows
    assert [str(each) for each in tuned.tuning] == ["x86_64-v3: 1 measured schedules"]
    x = np.linspace(-1, 1, 37 * 40, dtype="f4").reshape(37, 40)
    results = [
        aotc.load(each.bundle, allow_unsigned=True).dense(x=x)
        for each in (planned, tuned)
    ]
    np.testing.assert_array_equal(*results)


def test_schedules_are_measured_once_and_used(source, tmp_path, monkeypatch):
    monkeypatch.setattr(tile, "_MOST_CANDIDATES", 2)
    path = tmp_path / "tuning.json"
    choices = {"targets": [TARGET], "tuning": path, "stop_after": "regions"}
    report = build(source, tune=60.0, **choices)
    assert [(each.used, each.unknown) for each in report.tuning] == [(1, 0)]
    [[key, found]] = TuningFile.read(path).targets[str(TARGET)].schedules.items()
    assert key.startswith("contraction: dot_general(f32[37, 40], f32[40, 52])")
    assert key.endswith("; gelu")
    assert 0 < found.microseconds <= found.planned_microseconds
    before = path.read_bytes()

    def fail(*_):
        raise AssertionError("measured again")

    monkeypatch.setattr(tuning, "measure", fail)
    build(source, tune=60.0, **choices)
    assert path.read_bytes() == before


def test_a_budget_of_nothing_measures_nothing(source, tmp_path):
    path = tmp_path / "tuning.json"
    choices = {"targets": [TARGET], "stop_after": "regions"}
    report = build(source, tune=0.0, tuning=path, **choices)
    assert TuningFile.read(path).targets[str(TARGET)].schedules == {}
    assert [(each.used, each.unknown) for each in report.tuning] == [(0, 0)]


def test_targets_share_the_time(source, tmp_path, monkeypatch):
    given = []

    def spend(unit, fusing, file, seconds, tell):
        given.append(seconds)

    monkeypatch.setattr(tuning, "tune", spend)
    levels = [Target.parse(name) for name in ("x86_64-v3", "vmvx", "x86_64-v4")]
    monkeypatch.setattr(tuning, "require_tunable", lambda targets: None)
    choices = {"targets": levels, "tuning": tmp_path / "t.json"}
    build(source, tune=60.0, stop_after="regions", **choices)
    first, second = given
    assert first == pytest.approx(30, abs=1)
    assert second == pytest.approx(60, abs=1)  # the first has left all of its own


def test_an_interrupt_leaves_what_was_measured_before(source, tmp_path, monkeypatch):
    source.write_text(MODEL + MORE)
    path = tmp_path / "tuning" / "tuning.json"
    path.parent.mkdir()
    measured = []

    def measure(_, proposals):
        if measured:
            raise KeyboardInterrupt
        measured.extend(proposals)
        return {
            each.key: MeasuredSchedule(each.schedules[0], 1.0, 1.0)
            for each in proposals
        }

    monkeypatch.setattr(tuning, "measure", measure)
    monkeypatch.setattr(tuning, "_FUNCTIONS", 1)
    with pytest.raises(KeyboardInterrupt):
        build(source, targets=[TARGET], tuning=path, tune=60.0, stop_after="regions")
    assert [each.name for each in path.parent.iterdir()] == ["tuning.json"]
    [[key, _]] = TuningFile.read(path).targets[str(TARGET)].schedules.items()
    assert key == measured[0].key


WRONG = {
    "no JSON": (None, "{", "is not JSON"),
    "another schema": (("schema",), "aotc.tuning/9", r"\$.schema: expected 'aotc.tuni"),
    "no schedules": (("targets", "x86_64-v3"), {"machine": {}}, "schedules"),
    "another target": (
        ("targets",),
        {"x86_64-v4": {"machine": {}, "schedules": []}},
        "expected schedules for x86_64-v3; got those for x86_64-v4",
    ),
    "another machine": (
        ("targets", "x86_64-v3", "machine", "ways"),
        12,
        "expected schedules for the model .*'ways': 8.* got .*'ways': 12",
    ),
    "a schedule that does not fit": (
        ("targets", "x86_64-v3", "schedules", 0, "schedule", "rows"),
        99,
        "expected one of the .* schedules of the kernel 'contraction: .*'rows': 99",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_bad_file_is_refused(source, case):
    path, value, message = WRONG[case]
    file = file_of(source)
    if path is None:
        file.path.write_text(value)
    else:
        edit(file, path, value)
    with pytest.raises(InputError, match=message) as found:
        build(source, targets=[TARGET], tuning=file.path, stop_after="regions")
    assert found.value.code == "bad-tuning"


def test_schedules_of_other_kernels_are_counted_and_ignored(source, capsys):
    file = file_of(source)
    source.write_text(MODEL.replace("(37, 40)", "(38, 40)"))
    choices = {"targets": [TARGET], "stop_after": "regions"}
    report = build(source, tuning=file.path, **choices)
    assert [(each.used, each.unknown) for each in report.tuning] == [(0, 1)]
    assert str(report.tuning[0]).endswith("1 for kernels that it lacks")
    assert report.to_json()["tuning"][0]["unknown"] == 1


def test_refuses_to_measure_for_what_this_machine_does_not_run(
    source, tmp_path, monkeypatch, capsys
):
    words = ["build", str(source), "-t", "x86_64-v3", "--tune", "1"]
    assert main(words) == 2
    assert "expected a file to add measured schedules to" in capsys.readouterr().err
    monkeypatch.setattr(processor, "cpu_features", lambda: ("avx",))
    words += ["--tuning", str(tmp_path / "new.json")]
    assert main(words) == 5
    assert re.search(r"without .*avx2.*\[cannot-tune\]", capsys.readouterr().err, re.S)
    with pytest.raises(SetupError):
        tuning.require_tunable([TARGET])
    with pytest.raises(InputError, match="expected a target that aotc has kernels for"):
        tuning.require_tunable([Target.parse("vmvx")])
    assert not Path(tmp_path / "new.json").exists()


def test_a_file_that_is_not_there_is_named(source, tmp_path):
    with pytest.raises(InputError, match=r"no tuning file .*none\.json") as found:
        build(source, targets=[TARGET], tuning=tmp_path / "none.json")
    assert found.value.code == "no-such-file"
