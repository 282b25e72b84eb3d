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

from aotc import device
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
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    program = tmp_path_factory.mktemp("probe") / "aotc-probe"
    warnings = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"]
    subprocess.run(
        [compiler, "-std=c11", "-O2", *warnings, SOURCE, "-o", program, "-ldl"],
        check=True,
    )
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
