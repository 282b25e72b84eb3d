"""Schedules of GPU kernels are timed on a device, which a timer stands in for here."""

from __future__ import annotations

import json
from math import inf

import pytest

from aotc import tuning
from aotc.backend.device_kernels import DeviceKernels
from aotc.cli.main import main
from aotc.errors import InputError, SetupError
from aotc.kernels.gpu import candidates
from aotc.kernels.gpu.compiling import GpuCode
from aotc.machine.target import Target
from aotc.pipeline import build
from aotc.tuning import devices, gpu
from aotc.tuning.files import TuningFile
from tests.kernels.gpu.conftest import with_triton  # noqa: F401

pytestmark = pytest.mark.usefixtures("with_triton")

TARGET = Target.parse("cuda:sm_80")
MODEL = """
import aotc
import aotc.numpy as np
from aotc import nn


@aotc.entry(x=aotc.Spec((96, 64)), y=aotc.Spec((64, 128)))
def dense(x, y):
    return nn.relu(x @ y)


@aotc.entry(x=aotc.Spec((64, 2000)))
def rows(x):
    return nn.softmax(x)


@aotc.entry(x=aotc.Spec(("n", 64)), y=aotc.Spec((64, 128)))
def symbolic(x, y):
    return x @ y
"""


class FakeTimer:
    """Stands in for a device: a kernel takes as long as its code says."""

    def __init__(self, ends_after=inf):
        self.timed, self._ends_after = [], ends_after

    def microseconds(self, kernel):
        if len(self.timed) >= self._ends_after:
            raise KeyboardInterrupt
        self.timed.append(kernel)
        return float(kernel.code.split()[1])


@pytest.fixture
def source(tmp_path):
    file = tmp_path / "model.py"
    file.write_text(MODEL)
    return file


@pytest.fixture
def device(monkeypatch):
    """A machine with a GPU of sm_80, and code of each kernel that says its time.

    The later a schedule comes, the faster it is; each third one spills.
    """
    monkeypatch.setattr(candidates, "MOST", 6)
    timer = FakeTimer()
    monkeypatch.setattr(gpu, "timer_of", lambda target: timer)
    monkeypatch.setattr(devices, "chips_here", lambda: ["sm_80"])

    def compile_all(_, missing, __):
        for number, source in enumerate(missing):
            text = f"microseconds {100 - number}".encode()
            spilled = 8 if number % 3 == 2 else 0
            yield source, GpuCode(text, 32 * source.warps, 0, 1, 40, spilled)

    monkeypatch.setattr(DeviceKernels, "_compile_all", compile_all)
    return timer


def tuned(source, path, **more):
    choices = {"targets": [TARGET], "tuning": path, "stop_after": "regions"}
    return build(source, **choices, **more)


def rows_of(path, target=TARGET):
    return TuningFile.read(path).targets[str(target)].schedules


def test_the_fastest_schedule_that_does_not_spill_is_kept_and_used(
    source, tmp_path, device
):
    path, dump = tmp_path / "tuning.json", tmp_path / "ir"
    report = tuned(source, path, tune=60.0, dump=dump)
    found = rows_of(path)
    assert [key.partition(":")[0] for key in sorted(found)] == ["contraction", "rows"]
    assert [(each.used, each.unknown) for each in report.tuning] == [(2, 0)]
    times = {kernel.code: kernel for kernel in device.timed}
    assert not {b"microseconds 98", b"microseconds 95"} & times.keys()  # they spill
    for each in found.values():
        assert each.microseconds < each.planned_microseconds
        fastest = times[f"microseconds {each.microseconds:.0f}".encode()]
        assert fastest.threads == 32 * each.schedule["warps"]
    (ir,) = dump.rglob("regions.mlir")
    text = ir.read_text()
    for each in found.values():
        assert all(f"{name} = {n}" in text for name, n in each.schedule.items())
    inputs = {kernel.buffers for kernel in device.timed}
    product = (("f32", 96 * 64), ("f32", 64 * 128), ("f32", 96 * 128))
    assert inputs == {product, (("f32", 128000),) * 2}
    assert all(kernel.programs > 0 for kernel in device.timed)


def test_kernels_that_all_spill_are_left_to_the_model(
    source, tmp_path, device, monkeypatch
):
    def compile_all(_, missing, __):
        for source in missing:
            yield source, GpuCode(b"", 32 * source.warps, 0, 1, 255, 8)

    monkeypatch.setattr(DeviceKernels, "_compile_all", compile_all)
    report = tuned(source, tmp_path / "tuning.json", tune=60.0)
    assert rows_of(tmp_path / "tuning.json") == {}
    assert [(each.used, each.unknown) for each in report.tuning] == [(0, 0)]
    assert device.timed == []


def test_what_was_measured_before_an_interrupt_is_not_measured_again(
    source, tmp_path, device, monkeypatch
):
    path = tmp_path / "tuning.json"
    monkeypatch.setattr(tuning, "_FUNCTIONS", 1)
    ends = FakeTimer(ends_after=6)
    monkeypatch.setattr(gpu, "timer_of", lambda target: ends)
    with pytest.raises(KeyboardInterrupt):
        tuned(source, path, tune=60.0)
    ((key, first),) = rows_of(path).items()
    monkeypatch.setattr(gpu, "timer_of", lambda target: device)
    tuned(source, path, tune=60.0)
    found = rows_of(path)
    assert len(found) == 2
    assert found[key] == first
    (other,) = found.keys() - {key}
    names = {kernel.function.removeprefix("aotc_") for kernel in device.timed}
    assert names == {other.partition(":")[0]}


def test_a_file_of_another_chip_is_for_no_build(source, tmp_path, device):
    path = tmp_path / "tuning.json"
    tuned(source, path, tune=60.0)
    other = {"targets": [Target.parse("cuda:sm_90a")], "stop_after": "regions"}
    with pytest.raises(InputError, match="for cuda:sm_90a; got those for cuda:sm_80"):
        build(source, tuning=path, **other)
    data = json.loads(path.read_text())
    data["targets"]["cuda:sm_90a"] = data["targets"].pop("cuda:sm_80")
    path.write_text(json.dumps(data))
    with pytest.raises(InputError, match="expected schedules for the model") as found:
        build(source, tuning=path, **other)
    assert found.value.code == "bad-tuning"


def test_a_machine_without_the_chip_is_told_what_to_do(
    source, tmp_path, monkeypatch, capsys
):
    words = ["build", str(source), "--tune", "1", "--tuning", str(tmp_path / "t.json")]
    said = {
        "cuda:sm_80": "on a GPU of sm_80; this machine has none",
        "rocm:gfx942": "no timer launches its code",
    }
    for target, why in said.items():
        assert main([*words, "-t", target]) == 5
        told = " ".join(capsys.readouterr().err.split())
        assert "[cannot-tune]" in told
        assert why in told
        assert "take its file with --tuning" in told
    monkeypatch.setattr(devices, "chips_here", lambda: ["sm_90"])
    with pytest.raises(SetupError, match="its first GPU is of sm_90"):
        tuning.require_tunable([TARGET])
    both = [TARGET, Target.parse("cuda:sm_90a")]
    tuning.require_tunable(both)
    assert [not tuning.why_not_tunable(each) for each in both] == [False, True]
    assert not (tmp_path / "t.json").exists()
