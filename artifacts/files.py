"""Reading the files of a directory that somebody else may have prepared or may change.

Every step goes through directory descriptors with `O_NOFOLLOW`, so that no link is ever
followed. `load` copies a file into memory that nobody can write to and hashes what it
copies: what was hashed is what is used, whatever happens to the file afterwards.
"""

from __future__ import annotations

import errno
import hashlib
import mmap
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from aotc.artifacts.chunks import Chunks
from aotc.errors import InputError, VerificationError
from aotc.errors.system import cannot_read

if TYPE_CHECKING:
    from concurrent.futures import Executor

Buffer = mmap.mmap | bytes

_PART = 1 << 20  # bytes that are read and hashed at once
_MOST_THREADS = 8  # that read one file
_DEPTH_LIMIT = 8
_COUNT_LIMIT = 10_000
_OPEN = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
_MEMFD = hasattr(os, "memfd_create")


@contextmanager
def open_root(path: Path) -> Iterator[int]:
    """Yield a descriptor of the bundle's directory (which itself may be reached by a
    link).

    Raises:
        InputError: `bundle-missing` or `bundle-not-directory`.
        SetupError: `file-access` or `out-of-memory`.
    """
    try:
        root = os.open(path, _OPEN | os.O_DIRECTORY)
    except OSError as error:
        known = {
            FileNotFoundError: ("bundle-missing", "there is no bundle here"),
            NotADirectoryError: ("bundle-not-directory", "a bundle is a directory"),
        }
        if type(error) not in known:
            raise cannot_read(path, error, "the bundle") from error
        code, message = known[type(error)]
        hint = "`aotc build` makes one, NAME-VERSION.aotc, of a model"
        raise InputError(code, message, where=str(path), hint=hint) from None
    try:
        yield root
    except (OSError, MemoryError) as error:
        raise cannot_read(path, error, "the bundle") from error
    finally:
        os.close(root)


def sizes(root: int) -> dict[str, int]:
    """Return the size of every file below `root`, by relative path.

    A folder that holds nothing stands among them too, with a `/` at the end.

    Raises:
        VerificationError: `file-irregular` for links, devices, and hard-linked files,
            and for more files and folders than a bundle can have.
    """
    found: dict[str, int] = {}
    _list(root, "", found, _DEPTH_LIMIT)
    return found


def _list(folder: int, prefix: str, found: dict[str, int], depth: int) -> None:
    """Add the files of a folder, recursively, to `found`; raise for irregular ones."""
    with os.scandir(folder) as entries:
        names = sorted(entry.name for entry in islice(entries, _COUNT_LIMIT + 1))
    if len(found) + len(names) > _COUNT_LIMIT:
        raise _irregular_error(prefix or ".", f"more than {_COUNT_LIMIT} files")
    for name in names:
        path = prefix + name
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if not stat.S_ISDIR(status.st_mode):
            _check_regular(status, path)
            found[path] = status.st_size
            continue
        if not depth:
            raise _irregular_error(path, "a directory nested too deeply")
        before = len(found)
        with _open_at(folder, name, path, os.O_DIRECTORY) as child:
            _list(child, path + "/", found, depth - 1)
        if len(found) == before:
            found[path + "/"] = 0


def is_there(root: int, name: str) -> bool:
    """Return whether a directory has an entry called `name`, of whatever kind."""
    try:
        os.stat(name, dir_fd=root, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def read_small(root: int, path: str, limit: int) -> bytes:
    """Read a file below the directory descriptor `root`; raise if it exceeds `limit`
    bytes.
    """
    with _open_file(root, path) as descriptor:
        size, data = os.fstat(descriptor).st_size, b""
        if size <= limit:
            with open(descriptor, "rb", closefd=False) as file:
                data = file.read(limit + 1)
        if (size := max(size, len(data))) > limit:  # or it grows meanwhile
            raise VerificationError(
                "size-mismatch",
                f"expected at most {limit} bytes, got {size}",
                where=path,
            )
        return data


def load(root: int, path: str, size: int, sha256: str, chunks: Chunks | None) -> Buffer:
    """Read and verify a file into sealed memory; return it as a read-only buffer.

    Args:
        root: the bundle's folder.
        path: of the file in it.
        size: of its content.
        sha256: of its content.
        chunks: digests of its parts, which several threads then read and verify.

    Raises:
        VerificationError: `size-mismatch` or `digest-mismatch`.
    """
    if not size or not _MEMFD:
        memory = bytearray(size)
        load_into(root, path, memoryview(memory), sha256, chunks)
        return bytes(memory)
    with _sealed_memory(root, path, size, sha256, chunks) as descriptor:
        return mmap.mmap(descriptor, size, prot=mmap.PROT_READ)


def load_into(
    root: int, path: str, memory: memoryview, sha256: str, chunks: Chunks | None
) -> None:
    """Read and verify a file into `memory`, which has the file's size.

    Raises:
        VerificationError: `size-mismatch` or `digest-mismatch`; what the memory holds
            is not to be used then.
    """
    with _open_file(root, path) as descriptor:
        _read_verified(descriptor, path, len(memory), sha256, chunks, memory=memory)


def _finish(executor: Executor) -> None:
    """Wait for submitted work, even when interrupted, as it accesses shared memory."""
    interrupted: KeyboardInterrupt | None = None
    while True:
        try:
            executor.shutdown()
        except KeyboardInterrupt as error:
            interrupted = error
        else:
            break
    if interrupted is not None:
        raise interrupted


@contextmanager
def sealed_path(
    root: int, path: str, size: int, sha256: str, chunks: Chunks | None
) -> Iterator[str]:
    """Yield a path to an immutable, verified copy of a file, valid within the block.

    It leads to memory that nobody can change. Where the system has no such memory, it
    is a private temporary file, which only the same user could change. See `load`.

    Raises:
        VerificationError: `size-mismatch` or `digest-mismatch`.
    """
    if _MEMFD:
        with _sealed_memory(root, path, size, sha256, chunks) as descriptor:
            yield f"/proc/self/fd/{descriptor}"
        return
    with tempfile.NamedTemporaryFile(prefix="aotc-") as file:
        with _open_file(root, path) as descriptor:
            _read_verified(descriptor, path, size, sha256, chunks, copy=file.fileno())
        yield file.name


@contextmanager
def mapped_path(
    root: int, path: str, size: int, sha256: str, chunks: Chunks | None
) -> Iterator[str]:
    """Yield a path by which to map the verified file itself, valid within the block.

    It leads to the file itself: whoever may write to that can change what is mapped.
    Where the system has no such paths, it is a copy. See `load`.

    Raises:
        VerificationError: `size-mismatch` or `digest-mismatch`.
    """
    if not _MEMFD:
        with sealed_path(root, path, size, sha256, chunks) as copy:
            yield copy
        return
    with _open_file(root, path) as descriptor:
        _read_verified(descriptor, path, size, sha256, chunks)
        yield f"/proc/self/fd/{descriptor}"


def _read_verified(
    descriptor: int,
    path: str,
    size: int,
    sha256: str,
    chunks: Chunks | None,
    *,
    memory: memoryview | None = None,
    copy: int | None = None,
) -> None:
    """Read a file's chunks in several threads and compare each chunk's digest.

    Each part is hashed right after it was read, while the processor's cache holds it.
    What is hashed is the copy, so a change of the file meanwhile cannot evade it.

    Args:
        descriptor: of the file.
        path: of the file, for errors.
        size: of its content.
        sha256: of its content.
        chunks: digests of its parts; one thread reads all where there are none.
        memory: that is filled with the content.
        copy: a descriptor of a file that the content is written to.

    Raises:
        VerificationError: `size-mismatch` or `digest-mismatch`.
    """
    _require_size(path, size, os.fstat(descriptor).st_size)
    known = chunks or Chunks(max(size, 1), (sha256,))

    def read(number: int) -> None:
        place = number * known.size
        end, digest = min(place + known.size, size), hashlib.sha256()
        own = memoryview(bytearray(min(end - place, _PART) if memory is None else 0))
        while place < end:
            room = own if memory is None else memory[place:]
            part = room[: min(_PART, end - place)]
            part = part[: os.preadv(descriptor, [part], place)]
            if not part:
                _require_size(path, size, place)
            digest.update(part)
            if copy is not None:
                write_all(copy, part, place)
            place += len(part)
        _compare(digest.hexdigest(), known.sha256[number], path)

    count = len(known.sha256)
    if count == 1:
        read(0)
        return
    from concurrent.futures import ThreadPoolExecutor

    pool = ThreadPoolExecutor(min(count, _MOST_THREADS, os.cpu_count() or 1))
    try:
        found = [pool.submit(read, number) for number in range(count)]
    finally:
        _finish(pool)
    for each in found:
        each.result()


def check(root: int, path: str, size: int, sha256: str) -> None:
    """Read a file and discard its content; raise if its size or digest differs."""
    digest = hashlib.sha256()
    for chunk in _chunks(root, path, size):
        digest.update(chunk)
    _compare(digest.hexdigest(), sha256, path)


def _compare(got: str, expected: str, path: str) -> None:
    """Raise if the digests of a file differ."""
    if got != expected:
        raise VerificationError(
            "digest-mismatch",
            f"{path} was changed after signing: expected sha256 {expected}, got {got}",
            where=path,
        )


@contextmanager
def _sealed_memory(
    root: int, path: str, size: int, sha256: str, chunks: Chunks | None
) -> Iterator[int]:
    """Yield a descriptor of sealed memory with the verified content of a file."""
    memory = os.memfd_create("aotc", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        with _open_file(root, path) as file:
            _read_verified(file, path, size, sha256, chunks, copy=memory)
        seal(memory)
        yield memory
    finally:
        os.close(memory)


def seal(descriptor: int) -> None:
    """Seal a memory file against all further changes."""
    import fcntl

    seals = (
        fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
    )
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, seals)


def write_all(descriptor: int, data: bytes | memoryview, place: int = 0) -> None:
    """Write all data to a descriptor from offset `place` on."""
    view = memoryview(data)
    while view:
        count = os.pwrite(descriptor, view, place)
        view, place = view[count:], place + count


def _chunks(root: int, path: str, size: int) -> Iterator[bytes]:
    """Yield exactly `size` bytes of a file; raise if it has more or fewer."""
    with _open_file(root, path) as descriptor:
        found = os.fstat(descriptor).st_size
        left = size
        while found == size and left:
            chunk = os.read(descriptor, min(left, _PART))
            if not chunk:
                found = size - left
            left -= len(chunk)
            yield chunk
    _require_size(path, size, found)


def _require_size(path: str, size: int, actual: int) -> None:
    """Raise if the size of a file differs from the expected one."""
    if actual != size:
        raise VerificationError(
            "size-mismatch",
            f"{path} was changed after signing: expected {size} bytes, got {actual}",
            where=path,
        )


@contextmanager
def _open_file(root: int, path: str) -> Iterator[int]:
    """Open a regular file below `root`, following no link on the way."""
    folder, _, rest = path.partition("/")
    if rest:
        with (
            _open_at(root, folder, path, os.O_DIRECTORY) as child,
            _open_file(child, rest) as descriptor,
        ):
            yield descriptor
    else:
        with _open_at(root, path, path, 0) as descriptor:
            _check_regular(os.fstat(descriptor), path)
            yield descriptor


@contextmanager
def _open_at(folder: int, name: str, path: str, flags: int) -> Iterator[int]:
    """Open an entry of a folder without following links; yield its descriptor."""
    try:
        descriptor = os.open(name, _OPEN | os.O_NOFOLLOW | flags, dir_fd=folder)
    except FileNotFoundError:
        raise VerificationError(
            "file-missing", f"{path} is missing from the bundle", where=path
        ) from None
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR, errno.ENXIO):
            raise _irregular_error(path, "a link or special file") from None
        raise
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _check_regular(status: os.stat_result, path: str) -> None:
    """Raise unless a file is regular and has only one name."""
    if not stat.S_ISREG(status.st_mode):
        raise _irregular_error(path, f"{stat.filemode(status.st_mode)}")
    if status.st_nlink != 1:
        raise _irregular_error(
            path, f"a file with {status.st_nlink} names (hard links)"
        )


def _irregular_error(path: str, got: str) -> VerificationError:
    """Return the error for a link, device, or hard-linked file in a bundle."""
    return VerificationError(
        "file-irregular",
        f"{path}: expected a plain file with one name, got {got}",
        where=path,
    )
