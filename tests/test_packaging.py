"""The distribution holds what the repository does, and the edge stays an edge."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import aotc

ROOT = Path(__file__).parent.parent
MAPPED = {"dialects", "passes", "cli", "artifacts"}
BESIDE = {"aotc", "tests", "examples", "benchmarks", "docs"}


def test_every_package_on_disk_is_declared():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]
    declared = set(settings["setuptools"]["packages"])
    on_disk = set()
    for init in ROOT.glob("**/__init__.py"):
        parts = init.parent.relative_to(ROOT).parts
        if parts[0] in MAPPED:
            on_disk.add(".".join(("aotc", *parts)))
        elif parts[0] == "aotc":
            on_disk.add(".".join(parts))
    assert on_disk == declared


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="git knows the tree's files")
def test_no_other_folder_stands_at_the_top():
    files = ["git", "ls-files"]
    listed = subprocess.run(files, cwd=ROOT, capture_output=True, text=True, check=True)
    folders = {name.split("/")[0] for name in listed.stdout.splitlines() if "/" in name}
    assert folders == MAPPED | BESIDE | {".ci"}


def test_no_module_is_imported_twice_under_another_name():
    import aotc.dialects  # noqa: F401

    assert not MAPPED & set(sys.modules)


def test_no_package_files_below_tests():
    assert list((ROOT / "tests").glob("**/__init__.py")) == []


def _edge(code: str) -> str:
    run = subprocess.run(
        [sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True
    )
    return run.stdout


_EDGE = """
import sys, time
start = time.perf_counter()
import aotc, aotc.artifacts, aotc.runtime, aotc.streaming, aotc.training
import aotc.timing.dispatches, aotc.timing.serve
seconds = time.perf_counter() - start
layers = {"artifacts", "parallel", "runtime", "streaming", "training", "timing"}
layers |= {"worker", "processes"}
leaves = {"errors", "counting", "core", "machine"}
others = {"torch_mlir", "mlir", "torch", "jax", "onnx", "click", "rich", "safetensors"}
for name in sorted(sys.modules):
    parts = name.split(".")
    if parts[0] == "aotc" and len(parts) > 1 and parts[1] not in layers | leaves:
        print("unexpected", name)
    if parts[0] in others or name.startswith("iree.compiler"):
        print("unexpected", name)
print(f"{seconds:.3f}", file=sys.stderr)
"""


def test_the_edge_imports_nothing_of_the_compiler():
    run = subprocess.run(
        [sys.executable, "-I", "-c", _EDGE], capture_output=True, text=True, check=True
    )
    assert run.stdout == ""
    folders = ("aotc/runtime", "aotc/parallel", "aotc/training", "aotc/timing")
    folders += ("artifacts",)
    files = [file for folder in folders for file in (ROOT / folder).glob("*.py")]
    size = sum(file.stat().st_size for file in files) / 1024
    print(f"edge: {size:.0f} KiB of source, import {run.stderr.strip()} s")


def test_documented_modules_are_there_when_aotc_alone_is_imported():
    names = {page.stem for page in (ROOT / "docs/api").glob("*.rst")} - {"aotc"}
    names = {name for name in names if "." not in name}
    assert {"nn", "debug", "errors", "control"} <= names
    for name in sorted(names):
        found = aotc.__getattr__(name)  # what Python asks before another has set it
        assert found.__name__ == f"aotc.{name}"
        assert name in dir(aotc)


def test_importing_aotc_alone_imports_nothing_else():
    heavy = "{'iree', 'numpy', 'torch_mlir', 'cryptography'}"
    code = f"import sys, aotc; print({heavy} & set(sys.modules))"
    run = subprocess.run(
        [sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True
    )
    assert run.stdout.strip() == "set()"
