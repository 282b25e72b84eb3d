"""The distribution holds what the repository does, and the edge stays an edge."""

import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent
MAPPED = {"dialects", "passes", "cli", "artifacts"}


def test_every_package_on_disk_is_declared():
    declared = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"])
    on_disk = set()
    for init in ROOT.glob("**/__init__.py"):
        parts = init.parent.relative_to(ROOT).parts
        if parts[0] in MAPPED:
            on_disk.add(".".join(("aotc", *parts)))
        elif parts[0] == "aotc":
            on_disk.add(".".join(parts))
    assert on_disk == declared


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


def test_the_edge_imports_nothing_of_the_compiler():
    code = """
import sys, time
start = time.perf_counter()
import aotc, aotc.artifacts, aotc.runtime
seconds = time.perf_counter() - start
allowed = {"aotc.artifacts", "aotc.runtime"}
leaves = {"aotc", "aotc.errors", "aotc.options", "aotc.target", "aotc.device", "aotc.dtypes", "aotc.pytree"}
for name in sorted(sys.modules):
    top = ".".join(name.split(".")[:2])
    if name.startswith("aotc") and name not in leaves and top not in allowed:
        print("unexpected", name)
    if name.split(".")[0] in ("torch_mlir", "mlir", "torch", "jax", "onnx", "click", "rich", "safetensors"):
        print("unexpected", name)
    if name.startswith("iree.compiler"):
        print("unexpected", name)
print("import seconds", round(seconds, 3), file=sys.stderr)
"""
    assert _edge(code) == ""
    size = sum(
        file.stat().st_size
        for folder in ("aotc/runtime", "artifacts")
        for file in (ROOT / folder).glob("*.py")
    )
    print(f"edge source size: {size / 1024:.0f} KiB")


def test_importing_aotc_alone_imports_nothing_else():
    code = "import sys, aotc; print([m for m in sys.modules if m.split('.')[0] in ('iree', 'numpy', 'torch_mlir')])"
    assert _edge(code).strip() == "[]"
