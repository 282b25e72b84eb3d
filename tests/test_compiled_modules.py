"""What tests have compiled is compiled once, and kept for the next run."""

import os
from types import SimpleNamespace

import pytest

from aotc import backend
from aotc.machine.target import Target
from tests.compiled_modules import CompiledModules, remove_unused


def job(flag="-O0", dump=None, kernels=None):
    settings = {"flags": [flag], "dump": dump}
    return SimpleNamespace(
        crossed=(b"module {}", "frame"),
        target=Target.parse("x86_64-v3"),
        settings=settings,
        device_kernels=kernels,
    )


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Make the modules of a run of the tests, whose compiler notes what it is asked."""
    asked = []

    def compiler(job, running):
        asked.append(job.settings["flags"])
        return {"number": len(asked)}, b"code"

    def start(number):
        monkeypatch.setattr(backend, "_run", compiler)
        folders = tmp_path / f"run{number}", tmp_path / "kept"
        for each in folders:
            each.mkdir(exist_ok=True)
        return CompiledModules(*folders)

    return SimpleNamespace(start=start, asked=asked)


def test_a_second_run_compiles_only_what_is_new(run):
    first = run.start(1)
    assert first(job(), None) == first(job(), None) == ({"number": 1}, b"code")
    second = run.start(2)
    assert second(job(), None) == ({"number": 1}, b"code")
    assert second(job("-O2"), None) == ({"number": 2}, b"code")
    assert len(run.asked) == 2


def test_kernels_of_gpus_and_what_is_dumped_are_not_taken_from_another_run(run):
    run.start(1)(job(kernels="kernels"), None)
    second = run.start(2)
    second(job(kernels="kernels"), None)
    second(job(dump="folder"), None)
    second(job(dump="folder"), None)
    assert len(run.asked) == 4


def test_modules_unused_for_longest_are_removed(tmp_path):
    for age, name in enumerate(("new", "middle", "old")):
        (tmp_path / name).write_bytes(bytes(10))
        os.utime(tmp_path / name, (1000 - age, 1000 - age))
    remove_unused(tmp_path, most=25)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["middle", "new"]
