"""Temporary folders that say whose they are, so that those of dead processes can go.

A process that is killed leaves its folders behind. Their names hold the boot and the
process namespace of the system, the process and the time of its start: whoever comes
next sees that the owner is gone. Folders of other boots and namespaces (other machines
or containers that share the disk) are left alone, and on systems without Linux's /proc
nothing is collected.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

_PREFIX = "aotc-work-"
_OWNER = re.compile(r"(?P<system>[0-9a-z]+)-(?P<pid>[0-9]+)-(?P<start>[0-9]+)-")


def unique_name() -> str:
    """Return a new name that identifies this process, so that `collect` can tell if it
    is alive.
    """
    pid = os.getpid()
    return f"{_system()}-{pid}-{_start(pid) or 0}-{secrets.token_hex(8)}"


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """Yield a private temporary folder, which is removed after the block."""
    parent = Path(tempfile.gettempdir())
    collect(parent, _PREFIX)
    folder = parent / f"{_PREFIX}{unique_name()}"
    folder.mkdir(mode=0o700)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def collect(parent: Path, prefix: str) -> None:
    """Remove folders in `parent`, named `prefix` and a `unique_name`, of dead
    processes.
    """
    try:
        names = os.listdir(parent)
    except OSError:
        return
    for name in names:
        owner = _OWNER.match(name[len(prefix) :]) if name.startswith(prefix) else None
        if owner and owner["system"] == _system() and _is_gone(owner):
            shutil.rmtree(parent / name, ignore_errors=True)


def _is_gone(owner: re.Match[str]) -> bool:
    """Return whether the process that a folder's name identifies has ended."""
    return owner["start"] != "0" and _start(int(owner["pid"])) != int(owner["start"])


@cache
def _system() -> str:
    """Return an id of this boot and process namespace; "unknown" without /proc."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii")
        space = os.stat("/proc/self/ns/pid").st_ino
    except OSError:
        return "unknown"
    return f"{boot[:8]}{space:x}"


def _start(pid: int) -> int | None:
    """Return the start time of a process in ticks since boot; None if there is none."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # The name of the program, in brackets, may hold anything; field 22 is the start.
    return int(stat.rpartition(")")[2].split()[19])
