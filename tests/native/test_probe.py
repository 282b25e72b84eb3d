"""The C probe prints the same device as the Python one."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from aotc import device, gpus
from aotc.artifacts import tables
from aotc.runtime import engine
from aotc.target import TARGETS

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "aotc/native/probe.c"

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="the probe reads Linux interfaces"
)


@pytest.fixture(scope="module")
def probe(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The program that ctest built, or one compiled here with the same warnings."""
    if built := os.environ.get("PROBE"):
        return built
    return compiled(tmp_path_factory.mktemp("probe"))


def compiled(folder: Path, *flags: str) -> str:
    """The probe, compiled here."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    program = folder / "aotc-probe"
    flags += ("-std=c11", "-O2", "-Wall", "-Wextra", "-Wpedantic", "-Werror")
    subprocess.run([compiler, *flags, SOURCE, "-o", program, "-ldl"], check=True)
    return str(program)


def answer(*command: str) -> dict[str, Any]:
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def test_prints_the_device_section_of_doctor(probe: str) -> None:
    doctor = answer(sys.executable, "-m", "aotc.cli.main", "doctor", "--format=json")
    assert answer(probe) == doctor["device"]


def test_tables_of_both_probes_name_the_same_features() -> None:
    """Comparing the answers covers only what the machine of the test has."""
    source = SOURCE.read_text()
    x86 = re.findall(r'\{"([\w.-]+)", LEAF_', source)
    assert x86 == sorted(device.KNOWN_FEATURES["x86_64"])
    letters = re.findall(r"""\{"(\w)", AT_HWCAP, '(\w)' - 'a'\}""", source)
    riscv = {(device._HWCAP, ord(bit) - ord("a")): name for name, bit in letters}
    assert riscv == device._RISCV_FEATURES
    entries = {"AT_HWCAP": device._HWCAP, "AT_HWCAP2": device._HWCAP2}
    arm = {
        (entries[entry], int(bit)): name
        for name, entry, bit in re.findall(r'\{"([\w-]+)", (AT_\w+), (\d+)\}', source)
    }
    assert arm == device._ARM_FEATURES


def test_levels_of_both_probes_are_the_same() -> None:
    lists = re.findall(r'#define (V\d) (?:(V\d) )?"(.*)"', SOURCE.read_text())
    features: dict[str, set[str]] = {"": set()}
    for level, below, more in lists:
        features[level] = features[below] | set(more.split())
        target = TARGETS[f"x86_64-{level.lower()}"]
        assert features[level] == set(target.cpu_features_required)
    assert set(features) == {"", "V2", "V3", "V4"}


def test_lists_features_in_the_order_of_their_names(probe: str) -> None:
    features = answer(probe)["cpu"]["features"]
    assert features == sorted(features)


def test_describes_amd_gpus_as_the_other_probe_does(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    nodes = tmp_path / "nodes"
    banks = {0: (0, [(0, 64)]), 1: (90010, [(1, 16), (2, 48), (4, 1)]), 2: (110001, [])}
    for node, (version, sizes) in banks.items():
        (nodes / f"{node}/mem_banks").mkdir(parents=True)
        (nodes / f"{node}/name").write_text(f"chip{node}\n")
        lines = f"cpu_cores_count 0\ngfx_target_version {version}\n"
        (nodes / f"{node}/properties").write_text(lines)
        for bank, (heap, gib) in enumerate(sizes):
            (nodes / f"{node}/mem_banks/{bank}").mkdir()
            lines = f"heap_type {heap}\nsize_in_bytes {gib << 30}\n"
            (nodes / f"{node}/mem_banks/{bank}/properties").write_text(lines)
    monkeypatch.setattr(gpus, "_KFD_NODES", nodes)
    program = compiled(tmp_path, f'-DKFD_NODES="{nodes}"')
    expected = {
        "devices": [
            {"name": "chip1", "gfx": "gfx90a", "memory_bytes": 64 << 30},
            {"name": "chip2", "gfx": "gfx1101", "memory_bytes": None},
        ]
    }
    assert answer(program)["rocm"] == expected
    assert gpus.probe()["rocm"] == expected


def test_memory_is_limited_by_the_container(tmp_path: Path) -> None:
    whole = answer(compiled(tmp_path, '-DCGROUPS="/none"'))["memory"]["total_bytes"]
    program = compiled(tmp_path, f'-DCGROUPS="{tmp_path}"')
    for text, expected in (("max", whole), ("1048576", 1 << 20), ("9" * 18, whole)):
        (tmp_path / "memory.max").write_text(text + "\n")
        assert answer(program)["memory"]["total_bytes"] == expected


def test_both_probes_ask_vulkan_for_the_same_features() -> None:
    found = re.findall(r'\{"(\w+)", (1000\d+)\}', SOURCE.read_text())
    assert {name: int(kind) for name, kind in found} == gpus._VULKAN_FEATURES
    wanted = tables.iree_runtime(engine.iree_version())
    assert wanted is not None
    assert wanted.vulkan_features == set(gpus._VULKAN_FEATURES)
