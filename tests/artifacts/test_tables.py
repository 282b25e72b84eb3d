"""The tables that compatibility is decided by: whole, sourced, and read right."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from aotc.artifacts import compat, tables
from aotc.artifacts.host import Host
from aotc.artifacts.manifest import Manifest
from aotc.artifacts.verdicts import verdict_of
from aotc.machine import processor
from aotc.machine.target import TARGETS

FOLDER = Path(tables.__file__).parent
GOLDEN = Path(__file__).parents[1] / "golden/format-1/bundle/manifest.json"
FILES = sorted(FOLDER.glob("*.json"))


def document(name):
    return json.loads((FOLDER / name).read_text(encoding="utf-8"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_every_row_names_its_source(file):
    found = document(file.name)
    assert found["schema"].startswith("aotc.table.")
    assert all(row["sources"] for row in found["rows"])
    known = found.get("sources")
    if known is not None:
        cited = {source for row in found["rows"] for source in row["sources"]}
        assert cited == set(known)


def test_has_every_release_of_two_years_in_order():
    releases = [row["release"] for row in document("iree_runtimes.json")["rows"]]
    lines = [f"3.{minor}" for minor in range(14)]
    assert [name.rpartition(".")[0] for name in releases] == ["2.9", *lines]


def test_a_patch_release_is_taken_for_the_newest_known_of_its_line():
    assert tables.iree_runtime("3.11.7") == tables.iree_runtime("3.11.0")
    assert tables.iree_runtime("4.0.0") is None
    assert tables.iree_runtime("") is None


@pytest.mark.parametrize(
    ("release", "verdict", "codes"),
    [
        ("3.13.0", "optimal", set()),
        ("3.12.0", "unsupported", {"runtime-version"}),
        ("3.11.0", "unsupported", {"module", "runtime-version"}),
        (
            "3.10.0",
            "unsupported",
            {"bytecode", "module", "vm-features", "runtime-version"},
        ),
        ("3.14.0", "not_applicable", {"runtime"}),
    ],
)
def test_judges_a_bundle_of_this_compiler_by_release(release, verdict, codes):
    manifest = Manifest(json.loads(GOLDEN.read_bytes()))
    drivers = frozenset({"local-sync"})
    host = Host("x86_64", frozenset(), release, drivers)
    found = compat.check(manifest, manifest.variants["vmvx"], host)
    assert verdict_of(found) == verdict
    assert {mismatch.code for mismatch in found} == codes


def test_newer_ptx_needs_newer_drivers():
    rows = document("ptx.json")["rows"]
    versions = [[int(part) for part in row["ptx_isa"].split(".")] for row in rows]
    assert versions == sorted(versions)
    assert [row["driver_api"] for row in rows] == sorted(
        {row["driver_api"] for row in rows}
    )
    drivers = [row["linux_driver"] for row in rows if row["linux_driver"]]
    numbers = [[int(part) for part in driver.split(".")] for driver in drivers]
    assert numbers == sorted(numbers)


def test_names_the_driver_that_brings_a_cuda_version():
    assert tables.linux_driver(12040) == "550.54.14"
    assert tables.linux_driver(12070) == "570.26"
    assert tables.linux_driver(99990) is None


@pytest.mark.parametrize(
    ("built", "device", "runs"),
    [
        ("gfx942", "gfx942", True),
        ("gfx942", "gfx942:sramecc+:xnack-", True),
        ("gfx942", "gfx950", False),
        ("gfx942:xnack+", "gfx942:sramecc+:xnack-", False),
        ("gfx942:xnack-", "gfx942:sramecc+:xnack-", True),
        ("gfx9-4-generic", "gfx950", True),
        ("gfx9-generic", "gfx90a", False),
        ("gfx10-3-generic", "gfx1033", True),
        ("gfx11-generic", "gfx1151", True),
        ("gfx12-generic", "gfx1100", False),
        ("gfx99-generic", "gfx990", False),
    ],
)
def test_knows_on_which_gpus_a_code_object_loads(built, device, runs):
    assert tables.gfx_runs_on(built, device) is runs


@pytest.mark.parametrize("arch", ["x86_64", "aarch64", "riscv64"])
def test_levels_have_features_that_devices_are_asked_for(arch):
    found = tables.architecture_levels(arch)
    assert set(processor.BASELINE.get(arch, ())) <= found[0].features
    for level in found:
        assert level.features <= processor.KNOWN_FEATURES[arch]
        assert not level.features & level.unseen


def test_targets_need_what_the_level_of_their_name_has():
    for level in tables.architecture_levels("x86_64")[1:]:
        needed = set(
            TARGETS[level.name.replace("x86-64", "x86_64")].cpu_features_required
        )
        assert (
            needed == level.features - tables.architecture_levels("x86_64")[0].features
        )
    for arch in ("aarch64", "riscv64"):
        needed = set(TARGETS[arch].cpu_features_required)
        assert needed == tables.architecture_levels(arch)[0].features


@pytest.mark.parametrize(
    ("name", "level"),
    [
        ("epyc-rome", "x86-64-v3"),
        ("raspberry-pi-4", "armv8.0-a"),
        ("raspberry-pi-5", "armv8.2-a+dotprod+fp16"),
        ("graviton3", "armv8.6-a"),
        ("graviton4", "armv9.0-a"),
        ("milk-v-jupiter", "rv64gc"),
    ],
)
def test_names_the_highest_level_that_is_proved(name, level):
    profile = tables.find_device(name).profile
    features = profile["cpu"]["features"]
    assert tables.highest_level(profile["arch"], features) == level
    assert tables.highest_level(profile["arch"], []) is None


def test_the_page_of_the_tables_is_up_to_date():
    root = Path(__file__).parents[2]
    command = [sys.executable, root / "docs/list_tables.py"]
    made = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert (root / "docs/compatibility-tables.md").read_text() == made
