"""Destination of a bundle: its name and version, its folder, and who signs it."""

from __future__ import annotations

import os
import re
from pathlib import Path

from aotc.artifacts import Signer
from aotc.artifacts.pack import bundle_path
from aotc.core.writing import write_error
from aotc.errors import InputError
from aotc.errors.system import cannot_write
from aotc.programs.program import LONGEST_TITLE, Program
from aotc.tracing.title import require_title


def bundle_title(
    path: Path, program: Program, name: str | None, version: str | None
) -> tuple[str, str]:
    """Return name and version of the bundle: as given, as declared, or by default.

    The default depends on the file's name and not on where it lies: a source gives the
    same bundle in every folder.

    Raises:
        InputError: a given name or version is none that a bundle can have.
    """
    for what, value in (("name", name), ("version", version)):
        if value is not None:
            require_title(what, value)
    declared = program.title
    return (
        name or declared.name or default_name(path),
        version or declared.version or "1.0.0",
    )


def default_name(path: Path) -> str:
    """Return the default bundle name of a file: `examples/digits/model.py` →
    `model`.
    """
    plain = re.sub(r"[^A-Za-z0-9._-]", "-", path.stem)
    return plain.lstrip(".")[:LONGEST_TITLE] or "model"


def channel_of(signer: Signer | None) -> str:
    """Return the release channel of a bundle by its signer."""
    if signer is None:
        return "unsigned"
    return "development" if signer.development else "release"


def require_writable(output: Path) -> None:
    """Raise if the output folder cannot be written to."""
    standing = next(p for p in (output, *output.absolute().parents) if p.exists())
    if (found := write_error(standing)) is not None:
        raise cannot_write(output, found, "the bundle")


def require_free(output: Path, title: tuple[str, str], force: bool) -> None:
    """Raise if the bundle exists already, unless `force`."""
    target = bundle_path(output, *title)
    if os.path.lexists(target) and not force:
        raise InputError(
            "output-exists",
            f"there is already something at '{target}'",
            hint="pass --force to replace it, or choose another --version or -o",
        )
