"""The wheels of the edge install, for a machine without a network."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PLATFORM = "x86_64"
# pip matches the number of a manylinux tag exactly
_TAGS = ("manylinux_2_28", "manylinux_2_27", "manylinux_2_17", "manylinux2014")
# What entries with bf16 return is of a dtype of this package.
_MORE = ("ml_dtypes>=0.5.4,<0.7",)
_LARGE = "numpy"  # 15 MB, and wherever there is PyTorch it is there


def settings() -> dict[str, Any]:
    """Return the `project` table of pyproject.toml."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    project: dict[str, Any] = tomllib.loads(text)["project"]
    return project


def download(folder: Path, python: str, *, with_numpy: bool) -> None:
    """Download the wheels of the edge install, and build aotc's own.

    Args:
        folder: for the wheels.
        python: version that they are for, such as 3.12.
        with_numpy: whether NumPy is among them.
    """
    wanted = [*settings()["dependencies"], *_MORE]
    # All are resolved together, or a machine could get versions that do not fit.
    _pip(
        *("download", "--only-binary=:all:", "--implementation=cp"),
        *(f"--python-version={python}", f"--dest={folder}"),
        *(f"--platform={tag}_{PLATFORM}" for tag in _TAGS),
        *wanted,
    )
    if not with_numpy:
        for wheel in folder.glob(f"{_LARGE}-*.whl"):
            wheel.unlink()
    _own_wheel(folder)


def _own_wheel(folder: Path) -> None:
    """Build aotc's wheel from a copy of the sources; return its path."""
    with tempfile.TemporaryDirectory() as scratch:
        for path in _sources():
            target = Path(scratch, path.name)
            if path.is_dir():
                ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
                shutil.copytree(path, target, ignore=ignored)
            else:
                shutil.copy(path, target)
        _pip("wheel", "--no-deps", f"--wheel-dir={folder}", scratch)


def _sources() -> Iterator[Path]:
    """Yield the paths that the distribution is built from."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    mapped = tomllib.loads(text)["tool"]["setuptools"]["package-dir"].values()
    for name in ("pyproject.toml", "README.md", "LICENSE", "aotc", *mapped):
        yield ROOT / name


def _pip(*arguments: str) -> None:
    """Run pip; exit if it fails."""
    command = [sys.executable, "-m", "pip", *arguments, "--quiet"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"pip {arguments[0]} failed:\n{done.stderr.strip()}")
