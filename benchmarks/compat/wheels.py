"""The releases of the IREE runtime on the package index, as folders to import from."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

PACKAGE = "iree-base-runtime"
_PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
_PLATFORM = "manylinux_2_28_x86_64"


@dataclass(frozen=True)
class Wheel:
    """A downloaded and unpacked wheel of IREE's runtime.

    Args:
        release: such as `3.13.0`.
        file: its name.
        sha256: of the file.
        folder: where it is unpacked: put this on `PYTHONPATH`.
    """

    release: str
    file: str
    sha256: str
    folder: Path


def releases() -> list[str]:
    """Return all releases of the runtime, from the oldest to the newest."""
    said = _pip("index", "versions", PACKAGE)
    listed = re.search(r"^Available versions: (.*)$", said, re.MULTILINE)
    if not listed:
        raise SystemExit(f"pip lists no versions of {PACKAGE}: {said!r}")
    return sorted(listed[1].split(", "), key=release_number)


def download(release: str, folder: Path) -> Wheel:
    """Download a release's wheel for this Python and unpack it, unless it is there."""
    files = folder / release
    unpacked = files / "unpacked"
    if not unpacked.exists():
        _pip(
            *("download", "--no-deps", "--only-binary=:all:", f"--dest={files}"),
            *(f"--python-version={_PYTHON}", f"--platform={_PLATFORM}"),
            f"{PACKAGE}=={release}",
        )
        with zipfile.ZipFile(next(files.glob("*.whl"))) as archive:
            archive.extractall(unpacked)
    (file,) = files.glob("*.whl")
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    return Wheel(release, file.name, digest, unpacked)


def python_tags(release: str, pythons: list[str]) -> list[str]:
    """Return those of `pythons` for which a release has a wheel.

    Of Linux on x86-64; each as the tag in the wheel's name, such as `cp312-abi3`.
    """
    found = []
    for python in pythons:
        try:
            said = _pip(
                *("install", "--dry-run", "--ignore-installed", "--no-deps"),
                *("--only-binary=:all:", f"--python-version={python}"),
                *(f"--platform={_PLATFORM}", "--target=unused", "--report=-"),
                f"{PACKAGE}=={release}",
            )
        except subprocess.CalledProcessError:
            continue
        # Names in a report, as in an address: the last part is the file.
        (chosen,) = json.loads(said)["install"]
        name = chosen["download_info"]["url"].rpartition("/")[2]
        found.append("-".join(name.split("-")[2:4]))
    return sorted(set(found), key=lambda tag: release_number(tag.split("-")[0][3:]))


def _pip(*arguments: str) -> str:
    """Run pip and return its output."""
    command = [sys.executable, "-m", "pip", *arguments]
    return subprocess.run(
        [*command, "--quiet"] if arguments[0] != "index" else command,
        capture_output=True,
        text=True,
        check=True,
    ).stdout


def release_number(release: str) -> list[int]:
    """Return a release as numbers, which sort in the order of releases."""
    return [int(part) for part in release.split(".")]
