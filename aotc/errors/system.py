"""Errors with a code for refusals of the machine: memory, space, permission.

Python, the system and other libraries say it in many ways, and none of them is a fault
of aotc or of a file that is being read. Every place that meets such a failure asks
this module, so that it has one code and the exit code 5 everywhere:

| code | when |
|---|---|
| `out-of-memory` | there is not the memory for it, or a limit allows no more |
| `cannot-write` | a file or folder cannot be written |
| `file-access` | a file cannot be opened, read or found any more |

A text that is no path, as it has a NUL character or a lone surrogate, is the caller's
mistake: `bad-path`.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from aotc.errors import AotcError, InputError, SetupError
from aotc.errors.redaction import has_secret

# Only writing fails for these reasons, whatever else is known of an error.
_OF_WRITING = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS}

# The user's disk, folder or limits, not our mistake.
_OF_FILES = _OF_WRITING | {
    errno.EACCES,
    errno.EPERM,
    errno.EIO,
    errno.ENOENT,
    errno.ENOTDIR,
    errno.EISDIR,
    errno.ENAMETOOLONG,
    errno.ELOOP,
    errno.ESTALE,
    errno.ENODEV,
    errno.ENXIO,
    errno.EMFILE,
    errno.ENFILE,
}

# How libraries say that there is no memory, in exceptions of types of their own.
_MEMORY_TEXTS = (
    "annot allocate memory",  # the system
    "can't allocate memory",  # PyTorch
    "RESOURCE_EXHAUSTED",  # JAX, IREE
    "MemoryError",  # Python, in the log of a process
    "bad_alloc",  # C++
    "LLVM ERROR: out of memory",
    "failed to map segment from shared object",  # the dynamic linker
    "can't start new thread",  # Python, for want of memory for its stack, or by a limit
)
# … and that a disk is full; IREE does not know the reason why a write failed.
_DISK_TEXTS = (os.strerror(errno.ENOSPC), "write failed, possibly out of disk space")
_MEMORY_HINT = "free some memory, or raise the limits (ulimit -v, ulimit -u)"
_NOT_PERMITTED = "Operation not permitted"  # of code on a disk mounted without `exec`

_HINTS = {
    errno.ENOSPC: "free some space there, or choose a place that has it",
    errno.EDQUOT: "your quota is used up: free some space, or choose another place",
    errno.EFBIG: "raise the limit of the size of files (ulimit -f)",
    errno.EROFS: "it is mounted read-only: choose another place",
    errno.EACCES: "choose a place that you may use, or change its permissions",
    errno.EPERM: "choose a place that you may use, or change its permissions",
    errno.EIO: "the disk or its connection fails; see the log of the system",
    errno.EMFILE: "raise the limit of open files (ulimit -n)",
    errno.ENFILE: "the system has too many files open",
}


def system_error(error: BaseException, where: str | None = None) -> AotcError | None:
    """Return the error for an exception due to the machine (memory, disk, permission),
    or None.

    Args:
        error: any exception, also one of another library.
        where: the file or line that the user knows; by default the exception's file.
    """
    if is_out_of_memory(str(error)) or isinstance(error, MemoryError):
        return out_of_memory(where)
    if is_disk_full(str(error)) and not isinstance(error, OSError):
        full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return _refusal("cannot-write", "a file cannot be written", full, where)
    if isinstance(error, ValueError) and _is_no_path(error):
        message = "expected a path, got a text with a character that no path has"
        return InputError("bad-path", message, where=where)
    if not isinstance(error, OSError):
        return None
    if error.errno == errno.ENOMEM or _is_about_processes(error):
        return out_of_memory(where)
    if error.errno not in _OF_FILES:
        return None
    where = where or (os.fsdecode(error.filename) if error.filename else None)
    if error.errno in _OF_WRITING:
        return _refusal("cannot-write", "the file cannot be written", error, where)
    return _refusal("file-access", "the file cannot be used", error, where)


def require_path(path: object) -> None:
    """Refuse a path whose text contains a private key.

    Raises:
        InputError: `bad-path`.
    """
    if has_secret(str(path)):
        raise InputError("bad-path", "expected a path, got a private key")


def _is_no_path(error: ValueError) -> bool:
    """Return whether an error says that a text is invalid as a path."""
    if isinstance(error, UnicodeEncodeError):
        return error.reason == "surrogates not allowed"
    return "embedded null" in str(error)


def no_memory(error: BaseException) -> AotcError | None:
    """Return the error for an exception due to lack of memory, or None for others."""
    found = system_error(error)
    return found if found is not None and found.code == "out-of-memory" else None


def _is_about_processes(error: OSError) -> bool:
    """Return whether an error says that no process can be created."""
    return error.errno == errno.EAGAIN and error.strerror == os.strerror(errno.EAGAIN)


def is_disk_full(text: str) -> bool:
    """Return whether a message or log says that a disk is full."""
    return any(each in text for each in _DISK_TEXTS)


def is_out_of_memory(text: str) -> bool:
    """Return whether a message or log says that memory ran out."""
    if is_disk_full(text) or _NOT_PERMITTED in text:  # IREE calls both exhausted
        return False
    return any(each in text for each in _MEMORY_TEXTS)


def out_of_memory(where: str | None = None) -> SetupError:
    """Return the error for a lack of memory."""
    message = "this machine, or a limit set for the process, has not the memory for it"
    return SetupError("out-of-memory", message, where=where, hint=_MEMORY_HINT)


def ended_for_memory(process: str) -> SetupError:
    """Return the error for a process that died for lack of memory."""
    return SetupError(
        "out-of-memory",
        f"{process} was ended, as systems do when memory runs out",
        hint=_MEMORY_HINT,
    )


def cannot_write(
    target: Path | str, error: OSError, what: str = "the file"
) -> SetupError:
    """Return the error for a file or folder, `what` in words, that cannot be
    written.
    """
    return _refusal("cannot-write", f"{what} cannot be written", error, str(target))


def cannot_read(
    source: Path | str, error: OSError | MemoryError, what: str = "the file"
) -> SetupError:
    """Return the error for a file, `what` in words, that cannot be read."""
    found = system_error(error, str(source))
    if isinstance(found, SetupError) and found.code == "out-of-memory":
        return found
    return _refusal("file-access", f"{what} cannot be read", error, str(source))


def _refusal(
    code: str, message: str, error: OSError | MemoryError, where: str | None
) -> SetupError:
    """Return the error for an OSError, with a hint by its number."""
    number = error.errno if isinstance(error, OSError) else None
    reason = os.strerror(number) if number else str(error)
    hint = _HINTS.get(number or 0)
    return SetupError(code, f"{message}: {reason}", where=where, hint=hint)


def raise_system_error(error: BaseException, where: str | None = None) -> None:
    """Raise an aotc error as it is, or the error for a machine's refusal; else return.

    For those who take everything that a library raises for the fault of its input.
    """
    if isinstance(error, AotcError):
        _forget_secret_cause(error)
        raise error
    if (found := system_error(error, where)) is not None:
        raise found from (None if has_secret(str(error)) else error)


def _forget_secret_cause(error: AotcError) -> None:
    """Remove the cause of an error if its text contains a private key."""
    cause = error.__cause__ or error.__context__
    if cause is not None and has_secret(str(cause)):
        error.__cause__ = error.__context__ = None


@contextmanager
def translate_system_errors() -> Iterator[None]:
    """Turn exceptions of the block that are due to the machine into SetupErrors."""
    try:
        yield
    except Exception as error:
        raise_system_error(error)
        raise
