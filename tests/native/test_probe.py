"""The C probe prints the same device as the Python one."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from aotc.artifacts import tables, vmfb
from aotc.artifacts.compat import check
from aotc.artifacts.manifest import Manifest
from aotc.artifacts.rollout.profiles import Assumptions, read_profile
from aotc.machine import gpus, processor
from aotc.machine.target import TARGETS
from aotc.runtime import engine

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "aotc/machine/native/probe.c"

GOLDEN = ROOT / "tests/golden/format-1/bundle/manifest.json"
# Vulkan as far as the probes ask it; the offsets are those of Vulkan's structures.
VULKAN = """
#include <stdint.h>
#include <string.h>
typedef struct Feature {
  uint32_t type;
  struct Feature *next;
  uint32_t offered[];
} Feature;
int vkEnumerateInstanceVersion(uint32_t *v) {
  *v = 1u << 22 | 3u << 12;
  return 0;
}
int vkCreateInstance(void *c, void *a, void **i) {
  *i = i;
  return 0;
}
void vkDestroyInstance(void *i, void *a) {}
int vkEnumeratePhysicalDevices(void *i, uint32_t *n, void **d) {
  *n = 1, *d = d;
  return 0;
}
void vkGetPhysicalDeviceProperties(void *d, uint32_t *p) {
  p[0] = 1u << 22 | 3u << 12;
  strcpy((char *)(p + 5), "card");
}
void vkGetPhysicalDeviceFeatures2(void *d, Feature *f) {
  f->offered[41] = 1;
  for (; f; f = f->next)
    if (f->type == 1000314007) f->offered[0] = 1;
    else if (f->type == 1000082000) f->offered[1] = 1;
}
void vkGetPhysicalDeviceMemoryProperties(void *d, char *m) {
  struct { uint64_t size; uint32_t flags; } heaps[] = {
      {4ull << 30, 1}, {16ull << 30, 0}, {2ull << 30, 1}};
  const uint32_t count = 3;
  memcpy(m + 260, &count, 4);
  memcpy(m + 264, heaps, sizeof heaps);
}
"""

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
    assert x86 == sorted(processor.KNOWN_FEATURES["x86_64"])
    letters = re.findall(r"""\{"(\w)", AT_HWCAP, '(\w)' - 'a'\}""", source)
    riscv = {(processor._HWCAP, ord(bit) - ord("a")): name for name, bit in letters}
    assert riscv == processor._RISCV_FEATURES
    entries = {"AT_HWCAP": processor._HWCAP, "AT_HWCAP2": processor._HWCAP2}
    arm = {
        (entries[entry], int(bit)): name
        for name, entry, bit in re.findall(r'\{"([\w-]+)", (AT_\w+), (\d+)\}', source)
    }
    assert arm == processor._ARM_FEATURES


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


def library(folder: Path, name: str, source: str) -> None:
    """A library of this name and source, in place of a driver's."""
    compiler = shutil.which("cc")
    assert compiler
    command = [compiler, "-shared", "-fPIC", "-x", "c", "-", "-o", folder / name]
    subprocess.run(command, input=source, text=True, check=True)


def gpus_of_both(
    program: str, libraries: Path, nodes: Path
) -> tuple[dict[str, Any], dict[str, Any]]:
    """What the C probe and the Python one say of GPUs with these drivers."""
    code = (
        "import json, pathlib, sys; from aotc.machine import gpus;"
        "gpus._KFD_NODES = pathlib.Path(sys.argv[1]);"
        "print(json.dumps(gpus.probe()))"
    )
    environment = os.environ | {"LD_LIBRARY_PATH": str(libraries)}
    commands = [program], [sys.executable, "-c", code, str(nodes)]
    found = []
    for command in commands:
        done = subprocess.run(command, env=environment, capture_output=True, check=True)
        document = json.loads(done.stdout)
        found.append({key: document[key] for key in ("cuda", "vulkan", "rocm")})
    return found[0], found[1]


def test_both_probes_say_whether_the_library_of_hip_is_there(tmp_path: Path) -> None:
    nodes = tmp_path / "nodes"
    (nodes / "0/mem_banks").mkdir(parents=True)
    (nodes / "0/properties").write_text("gfx_target_version 90402\n")
    program = compiled(tmp_path, f'-DKFD_NODES="{nodes}"')
    for is_there in (False, True):
        if is_there:
            library(tmp_path, "libamdhip64.so", "")
        ours, other = gpus_of_both(program, tmp_path, nodes)
        assert ours == other
        assert ours["rocm"]["hip"] is is_there


def test_both_probes_add_up_the_memory_of_a_vulkan_device(
    probe: str, tmp_path: Path
) -> None:
    """A driver of one device, whose second heap is the computer's."""
    library(tmp_path, "libvulkan.so.1", VULKAN)
    ours, other = gpus_of_both(probe, tmp_path, tmp_path)
    assert ours == other
    (device_,) = ours["vulkan"]["devices"]
    assert device_["memory_bytes"] == 6 << 30
    assert device_["features"] == ["synchronization2", "shaderInt8", "shaderInt16"]


def test_both_profiles_of_a_machine_get_the_same_verdicts(probe: str) -> None:
    doctor = answer(sys.executable, "-m", "aotc.cli.main", "doctor", "--format=json")
    release = Assumptions(engine.iree_version())
    of_doctor = read_profile(doctor, Assumptions(), "doctor").host
    of_probe = read_profile(answer(probe), release, "probe").host
    manifest = Manifest(json.loads(GOLDEN.read_bytes()))
    for target in TARGETS.values():
        variant = replace(
            manifest.variants["vmvx"],
            id=target.id,
            backend=target.backend,
            target=target.to_json(),
        )
        verdicts = [check(manifest, variant, host) for host in (of_doctor, of_probe)]
        assert verdicts[0] == verdicts[1], target
    # the probe knows no runtime, and nobody guesses one
    unknown = read_profile(answer(probe), Assumptions(), "probe").host
    reasons = check(manifest, manifest.variants["vmvx"], unknown)
    assert [reason.code for reason in reasons] == ["runtime"]


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
        "hip": False,
        "devices": [
            {"name": "chip1", "gfx": "gfx90a", "memory_bytes": 64 << 30},
            {"name": "chip2", "gfx": "gfx1101", "memory_bytes": None},
        ],
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
    source = SOURCE.read_text()
    structures = re.findall(r'\{(1000\d+),\s*\{("\w+"(?:, "\w+")?)\}\}', source)
    assert {
        int(kind): dict(enumerate(re.findall(r"\w+", names)))
        for kind, names in structures
    } == gpus._VULKAN_FEATURES
    core = re.findall(r'\{(\d+), "(shader\w+)"\}', source)
    assert {int(place): name for place, name in core} == gpus._VULKAN_CORE_FEATURES
    core_names = gpus._VULKAN_CORE_FEATURES.values()
    wanted = tables.iree_runtime(engine.iree_version())
    assert wanted is not None
    asked = {name for rows in gpus._VULKAN_FEATURES.values() for name in rows.values()}
    assert wanted.vulkan_features < asked
    used = set(vmfb._VULKAN_FEATURES.values())
    assert used == (asked | {*core_names}) - wanted.vulkan_features
