"""A Python for Arm, with the edge install of aotc, which QEMU runs on this machine.

    python -m benchmarks.emulation.python FOLDER

Debian's packages for Arm and the wheels of what aotc needs are unpacked in FOLDER, and
nothing of this machine is changed. It prints a setting for self-checks (AOTC_PYTHONS).
`apt-get` and `dpkg` are Debian's; `qemu-user` is the package that has the emulator.
"""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
from importlib.metadata import requires
from pathlib import Path

ARCH = "aarch64"
EMULATOR = "qemu-aarch64"
CPU = "cortex-a72"  # Armv8.0, unless QEMU_CPU names another one

_DEBIAN_ARCH = "arm64"
_PACKAGES = ("python3", "libstdc++6")
_PLATFORMS = (
    "manylinux_2_28_aarch64",
    "manylinux_2_17_aarch64",
    "manylinux2014_aarch64",
)
_ROOT = Path(__file__).parents[2]
_FOLDERS_OF_PACKAGES = ("dialects", "passes", "cli", "artifacts")


def make_python(folder: Path) -> Path:
    """Make a Python that runs under emulation, unless it is there; return its path."""
    folder = folder.resolve()
    program = folder / "python"
    if program.exists():
        return program
    root, site, tree = (folder / name for name in ("root", "site", "tree"))
    _unpack_system(folder / "apt", root)
    (python,) = (root / "usr/bin").glob("python3.[0-9]*[0-9]")
    _unpack_wheels(python.name.removeprefix("python"), site)
    _link_sources(tree / "aotc")
    path = os.pathsep.join(map(str, (tree, site, _ROOT)))
    lines = [
        "#!/bin/sh",
        f"export PYTHONHOME={shlex.quote(str(root / 'usr'))}",
        f"export PYTHONPATH={shlex.quote(path)}",
        f"export PYTHONPYCACHEPREFIX={shlex.quote(str(folder / 'compiled'))}",
        "export OPENBLAS_NUM_THREADS=1",
        f'exec {EMULATOR} -cpu "${{QEMU_CPU:-{CPU}}}" -L {shlex.quote(str(root))} '
        f'{shlex.quote(str(python))} "$@"',
    ]
    program.write_text("\n".join([*lines, ""]), encoding="utf-8")
    program.chmod(0o755)
    return program


def _unpack_system(apt: Path, root: Path) -> None:
    """Download and unpack Debian's Python for the architecture below `root`."""
    for name in ("state/lists/partial", "cache/archives/partial"):
        (apt / name).mkdir(parents=True, exist_ok=True)
    (apt / "state/status").touch()
    settings = {
        "APT::Architecture": _DEBIAN_ARCH,
        "APT::Architectures": _DEBIAN_ARCH,
        "Dir::State": apt / "state",
        "Dir::State::status": apt / "state/status",
        "Dir::Cache": apt / "cache",
        "APT::Install-Recommends": "false",
    }
    command = ["apt-get", *(f"-o{name}={value}" for name, value in settings.items())]
    subprocess.run([*command, "-q", "update"], check=True)
    subprocess.run(
        [*command, "-q", "-y", "--download-only", "install", *_PACKAGES], check=True
    )
    for package in sorted((apt / "cache/archives").glob("*.deb")):
        subprocess.run(["dpkg", "-x", package, root], check=True)


def _unpack_wheels(version: str, site: Path) -> None:
    """Download and unpack the wheels of aotc's edge install into `site`."""
    needed = [each for each in requires("aotc") or () if "extra ==" not in each]
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", f"--target={site}"]
        + ["--only-binary=:all:", f"--python-version={version}"]
        + [f"--platform={platform}" for platform in _PLATFORMS]
        + needed,
        check=True,
    )


def _link_sources(package: Path) -> None:
    """Link this checkout's packages into `package` under their installed names."""
    package.mkdir(parents=True, exist_ok=True)
    sources = [*(_ROOT / "aotc").iterdir(), *(_ROOT / x for x in _FOLDERS_OF_PACKAGES)]
    for source in sources:
        link = package / source.name
        link.unlink(missing_ok=True)
        link.symlink_to(source)


def main() -> None:
    """Make the emulated Python, and print how self-checks are told of it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="about 300 MB")
    print(f"AOTC_PYTHONS={ARCH}={make_python(parser.parse_args().folder)}")


if __name__ == "__main__":
    main()
