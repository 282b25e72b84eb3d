"""What the device probe finds, on this machine and on made-up ones."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter

import pytest

from aotc.machine import device, gpus, processor, target

linux = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="reads Linux interfaces"
)


@pytest.fixture(autouse=True)
def fresh_features() -> Iterator[None]:
    processor.cpu_features.cache_clear()
    yield
    processor.cpu_features.cache_clear()


def test_probe_is_json_with_the_promised_fields() -> None:
    found = json.loads(json.dumps(device.probe()))
    assert found["schema"] == "aotc.device/1"
    assert found.keys() >= {"os", "arch", "cpu", "memory", "cuda", "vulkan", "rocm"}
    assert found["cpu"]["cores_logical"] >= 1
    assert found["cpu"]["features"] == sorted(found["cpu"]["features"])


def test_cpu_part_loads_no_driver_and_is_fast() -> None:
    times = []
    for _ in range(5):
        processor.cpu_features.cache_clear()
        start = perf_counter()
        found = device.probe(cpu_only=True)
        times.append(perf_counter() - start)
    assert "cuda" not in found
    assert min(times) < 0.02


@linux
def test_x86_flags_get_their_llvm_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processor, "arch", lambda: "x86_64")
    monkeypatch.setattr(
        processor, "cpuinfo", lambda key: ["fpu pni sse4_2 abm bmi1 tsc"]
    )
    expected = ("bmi", "crc32", "lzcnt", "sse3", "sse4.2", "x87")
    assert processor.cpu_features() == expected


@linux
def test_features_are_those_of_all_cpus(monkeypatch: pytest.MonkeyPatch) -> None:
    flags = ["fpu sse2 avx2 fma", "fpu sse2 avx2", "fpu sse2 fma"]
    monkeypatch.setattr(processor, "arch", lambda: "x86_64")
    monkeypatch.setattr(processor, "cpuinfo", lambda key: flags)
    assert processor.cpu_features() == ("sse2", "x87")


@linux
def test_arm_features_come_from_the_auxiliary_vector(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    words = {16: 1 << 0 | 1 << 1 | 1 << 20, 26: 1 << 13}
    monkeypatch.setattr(processor, "arch", lambda: "aarch64")
    monkeypatch.setattr(processor, "_auxiliary_vector", lambda: words)
    assert processor.cpu_features() == ("dotprod", "fp-armv8", "i8mm", "neon")
    assert target.cpu_level() == "aarch64"


@linux
def test_riscv_features_are_the_letters_of_the_isa(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    words = {16: sum(1 << ord(letter) - ord("a") for letter in "imafdc")}
    monkeypatch.setattr(processor, "arch", lambda: "riscv64")
    monkeypatch.setattr(processor, "_auxiliary_vector", lambda: words)
    assert processor.cpu_features() == ("a", "c", "d", "f", "m")
    assert target.cpu_level() == "riscv64"


@pytest.mark.parametrize(
    ("missing", "level"),
    [("", "x86_64-v4"), ("avx512vl", "x86_64-v3"), ("fma", "x86_64-v2")],
)
def test_level_is_the_highest_whose_features_are_all_there(
    monkeypatch: pytest.MonkeyPatch, missing: str, level: str
) -> None:
    full = set(target.TARGETS["x86_64-v4"].cpu_features_required) - {missing}
    monkeypatch.setattr(processor, "arch", lambda: "x86_64")
    monkeypatch.setattr(processor, "cpu_features", lambda: tuple(full))
    assert target.cpu_level() == level


def test_level_of_a_cpu_below_every_target_is_its_architecture(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(processor, "arch", lambda: "x86_64")
    monkeypatch.setattr(processor, "cpu_features", tuple)
    assert target.cpu_level() == "x86_64"


def test_another_system_promises_only_what_the_architecture_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(processor, "arch", lambda: "aarch64")
    assert processor.cpu_features() == ("fp-armv8", "neon")


def test_missing_kernel_files_give_null_and_no_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(device, "_SYSTEM_CPU", tmp_path)
    cpu = device.probe(cpu_only=True)["cpu"]
    assert cpu["cores_physical"] is None
    assert cpu["caches"] == {"l1d": None, "l2": None, "l3": None}


@linux
def test_memory_is_what_a_container_may_have(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    limit = tmp_path / "memory.max"
    monkeypatch.setattr(device, "_MEMORY_LIMITS", (limit, tmp_path / "none"))
    whole = device.probe(cpu_only=True)["memory"]["total_bytes"]
    for text, expected in (
        ("max\n", whole),
        (f"{1 << 20}\n", 1 << 20),
        (f"{1 << 62}\n", whole),
    ):
        limit.write_text(text)
        assert device.probe(cpu_only=True)["memory"]["total_bytes"] == expected


@linux
def test_auxiliary_vector_holds_the_page_size() -> None:
    at_pagesz = 6
    assert processor._auxiliary_vector()[at_pagesz] == os.sysconf("SC_PAGE_SIZE")


def kfd_node(folder: Path, number: int, version: int, name: str, *sizes: int) -> None:
    """A node as the kernel's driver for AMD GPUs describes it, with memory banks."""
    node = folder / str(number)
    (node / "mem_banks").mkdir(parents=True)
    (node / "name").write_text(f"{name}\n")
    (node / "properties").write_text(f"simd_count 4\ngfx_target_version {version}\n")
    for bank, size in enumerate(sizes):
        path = node / "mem_banks" / str(bank)
        path.mkdir()
        heap = 1 if version else 0
        (path / "properties").write_text(f"heap_type {heap}\nsize_in_bytes {size}\n")


def test_amd_gpus_come_from_the_files_of_their_driver(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    kfd_node(tmp_path, 0, 0, "", 64 << 30)
    for number, version in ((10, 90402), (2, 90010), (1, 110001)):
        kfd_node(tmp_path, number, version, f"chip{number}", 1 << 30, 2 << 30)
    monkeypatch.setattr(gpus, "_KFD_NODES", tmp_path)
    rocm = gpus.probe()["rocm"]
    assert [device["gfx"] for device in rocm["devices"]] == [
        "gfx1101",
        "gfx90a",
        "gfx942",
    ]
    assert rocm["devices"][1] == {
        "name": "chip2",
        "gfx": "gfx90a",
        "memory_bytes": 3 << 30,
    }
    monkeypatch.setattr(gpus, "_KFD_NODES", tmp_path / "none")
    assert gpus.probe()["rocm"] is None
