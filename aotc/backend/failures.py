"""The output of a compiler that failed → an error with advice."""

from __future__ import annotations

import re
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from aotc.core.writing import write_text
from aotc.errors import CompileError, SetupError
from aotc.errors.exit_status import exit_cause
from aotc.errors.system import ended_for_memory, is_disk_full, is_out_of_memory
from aotc.machine.target import Target
from aotc.worker import IO_ERROR as WORKER_IO_ERROR

# `loc(callsite("model.py":48:0 at …)): error: what is wrong`
_DIAGNOSTIC = re.compile(r"^(?P<place>.*?): error: (?P<message>.*)$", re.MULTILINE)
_PLACE = re.compile(r'"(?P<file>[^"]+)":(?P<line>\d+)')


def refusal_of(target: Target, code: int, log: str, folder: Path) -> SetupError | None:
    """Return the error for a compiler that failed for lack of disk or memory, or
    None.
    """
    if code == WORKER_IO_ERROR or is_disk_full(log):
        return _disk_error(folder, (log.strip().splitlines() or ["no output"])[-1])
    if code == -signal.SIGKILL or is_out_of_memory(log):
        return ended_for_memory(f"IREE's compiler for target '{target}'")
    return None


@contextmanager
def translate_disk_errors(folder: Path) -> Iterator[None]:
    """Turn OSErrors of the `with` block into `cannot-write` for a folder."""
    try:
        yield
    except OSError as error:
        raise _disk_error(folder, str(error)) from error


def _disk_error(folder: Path, reason: str) -> SetupError:
    """Return the error for compiler files that cannot be written."""
    return SetupError(
        "cannot-write",
        f"the compiler's files cannot be written: {reason}",
        where=str(folder),
        hint="free some space, or set TMPDIR to a folder that has it",
    )


def failure_of(target: Target, code: int, log: str) -> CompileError:
    """Return the error for a compiler's failure, with the first diagnostic of its
    log.
    """
    kept = _write_log(target, log)
    if code < 0:
        cause = f"IREE's compiler died of {exit_cause(code)}"
        return CompileError(
            "compiler-crashed", f"{cause} for target '{target}'", hint=kept
        )
    found = _DIAGNOSTIC.search(log)
    place = _PLACE.search(found["place"]) if found else None
    message = (
        found["message"] if found else (log.strip().splitlines() or ["no output"])[-1]
    )
    return CompileError(
        "compile-failed",
        f"IREE could not compile for target '{target}': {message[:400]}",
        where=f"{place['file']}:{place['line']}" if place else None,
        hint=kept,
    )


def _write_log(target: Target, log: str) -> str:
    """Write a log to a temporary file; return a hint on where it is."""
    try:
        file = Path(tempfile.mkdtemp(prefix="aotc-log-")) / f"{target.id}.log"
        write_text(file, log)
    except (OSError, SetupError):  # what failed is to be told, not this
        return "its log could not be written into the folder for temporary files"
    return f"log: {file}"
