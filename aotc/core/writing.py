"""Files that appear complete or not at all."""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from aotc.errors.system import cannot_write

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2


@contextmanager
def atomic_write(target: Path) -> Iterator[Path]:
    """Yield a temporary path; rename the file written there to `target` after the
    block.

    The file is flushed to the disk before it gets its name. If the block or anything
    after it fails, `target` is what it was and nothing is left behind. Links stay, and
    what they lead to is replaced. A pipe or device is no file to replace: it gets the
    bytes at the end.

    Raises:
        SetupError: `cannot-write`.
    """
    named = target  # as the user wrote it, for messages
    target = Path(os.path.realpath(target))
    if is_stream(target):
        with _copy_afterwards(target) as aside:
            yield aside
        return
    aside = target.with_name(f".{target.name}.{secrets.token_hex(8)}")
    try:
        yield aside
        _flush(aside, os.O_RDONLY)
        os.replace(aside, target)
        flush_directory(target.parent)
    except OSError as error:
        raise cannot_write(named, error) from error
    finally:
        with suppress(OSError):  # after a success it has its final name
            aside.unlink()


def is_stream(path: Path) -> bool:
    """Return whether a path is a pipe or a device, which takes bytes and is never
    replaced.
    """
    return path.exists() and not path.is_file() and not path.is_dir()


@contextmanager
def _copy_afterwards(target: Path) -> Iterator[Path]:
    """Yield a temporary path; copy the file written there into a pipe or device."""
    with tempfile.TemporaryDirectory(prefix="aotc-") as folder:
        aside = Path(folder) / target.name
        yield aside
        try:
            with aside.open("rb") as source, target.open("wb") as stream:
                shutil.copyfileobj(source, stream)
        except OSError as error:
            raise cannot_write(target, error) from error


def write_text(target: Path, text: str) -> None:
    """Write a text in UTF-8 to a file atomically.

    Raises:
        SetupError: `cannot-write`.
    """
    with atomic_write(target) as aside:
        aside.write_text(text, encoding="utf-8")


def make_folder(path: Path, mode: int = 0o777) -> Path:
    """Create a folder and its parents unless it exists; return it.

    Raises:
        SetupError: `cannot-write`.
    """
    try:
        path.mkdir(mode=mode, parents=True, exist_ok=True)
    except OSError as error:
        raise cannot_write(path, error, "the folder") from error
    return path


def write_error(folder: Path) -> OSError | None:
    """Return the error of creating a file in a folder; None if that works."""
    try:
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        return error
    return None


def exchange(one: Path, other: Path) -> bool:
    """Swap two files or folders atomically; return False if the system cannot.

    By Linux's renameat2 with RENAME_EXCHANGE, which Python does not offer.

    Raises:
        OSError: it failed, and both are what they were.
    """
    import ctypes

    try:
        renameat2 = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError, TypeError):
        return False
    names = os.fsencode(one), os.fsencode(other)
    if not renameat2(_AT_FDCWD, names[0], _AT_FDCWD, names[1], _RENAME_EXCHANGE):
        return True
    code = ctypes.get_errno()
    if code in (errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP):
        return False
    raise OSError(code, os.strerror(code), str(other))


def flush_directory(path: Path) -> None:
    """Flush a directory's entries to the disk."""
    _flush(path, os.O_RDONLY | os.O_DIRECTORY)


def _flush(path: Path, flags: int) -> None:
    """Flush a file or directory to the disk."""
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
