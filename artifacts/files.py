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
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from aotc.artifacts.chunks import Chunks
from aotc.errors import InputError, VerificationError
from aotc.system_errors import cannot_read

if TYPE_CHECKING:
    from concurrent.futures import Executor

Buffer = mmap.mmap | bytes

_CHUNK = 1 << 20
# From here on a second thread pays for its start.
_LARGE = 4 << 20
_MOST_THREADS = 8  # that read one file
_DEPTH_LIMIT = 8
_COUNT_LIMIT = 10_000
_OPEN = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
_MEMFD = hasattr(os, "memfd_create")


@contextmanager
def open_root(path: Path) -> Iterator[int]:
    """A descriptor of the bundle's directory (which itself may be reached by a link).

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
    """The size of every file below `root` by relative path.

    A folder that holds nothing stands among them too, with a `/` at the end.

    Raises:
        VerificationError: `file-irregular` for links, devices, and hard-linked files,
            and for more files and folders than a bundle can have.
    """
    found: dict[str, int] = {}
    _list(root, "", found, _DEPTH_LIMIT)
    return found


def _list(folder: int, prefix: str, found: dict[str, int], depth: int) -> None:
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
    """Whether there is something called `name`, of whatever kind."""
    try:
        os.stat(name, dir_fd=root, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def read_small(root: int, path: str, limit: int) -> bytes:
    """The bytes of a file of at most `limit` bytes."""
    with _open_file(root, path) as descriptor:
        size = os.fstat(descriptor).st_size
        if size > limit:
            raise VerificationError(
                "size-mismatch",
                f"expected at most {limit} bytes, got {size}",
                where=path,
            )
        with open(descriptor, "rb", closefd=False) as file:
            return file.read(limit + 1)


def load(root: int, path: str, size: int, sha256: str) -> Buffer:
    """The verified content of a file, in memory that cannot change any more.

    Raises:
        VerificationError: `size-mismatch` or `digest-mismatch`.
    """
    chunks = _chunks(root, path, size)
    if not size or not _MEMFD:
        memory = b"".join(chunks)
        _compare(hashlib.sha256(memory).hexdigest(), sha256, path)
        return memory
    with _sealed_memory(chunks, size) as (descriptor, digest):
        _compare(digest, sha256, path)
        return mmap.mmap(descriptor, size, prot=mmap.PROT_READ)


def load_into(
    root: int, path: str, memory: memoryview, sha256: str, chunks: Chunks | None
) -> None:
    """Fill memory of the size of a file with its verified content.

    Args:
        root: the bundle's folder.
        path: of the file in it.
        memory: that is filled.
        sha256: of the content.
        chunks: digests of its parts, which several threads then read and verify.

    Raises:
        VerificationError: `size-mismatch` or `digest-mismatch`; what the memory holds
            is not to be used then.
    """
    from concurrent.futures import ThreadPoolExecutor

    if chunks is not None:
        with _open_file(root, path) as descriptor:
            _read_chunks(descriptor, path, len(memory), chunks, memory)
        return
    digest = hashlib.sha256()
    beside = ThreadPoolExecutor(1)  # hashing takes as long as copying
    try:
        parts = _fill(root, path, memory)
        hashed = [beside.submit(digest.update, part) for part in parts]
    finally:
        _finish(beside)
    for each in hashed:
        each.result()
    _compare(digest.hexdigest(), sha256, path)


def _finish(executor: Executor) -> None:
    """Wait for what has been submitted, also when interrupted: it reads memory."""
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
def sealed_path(root: int, path: str, size: int, sha256: str) -> Iterator[str]:
    """A path to open or map the verified content of a file at, while the block lasts.

    It leads to memory that nobody can change. Where the system has no such memory, it
    is a private temporary file, which only the same user could change.

    Raises:
        VerificationError: `size-mismatch` or `digest-mismatch`.
    """
    chunks = _chunks(root, path, size)
    if _MEMFD:
        with _sealed_memory(chunks, size) as (descriptor, digest):
            _compare(digest, sha256, path)
            yield f"/proc/self/fd/{descriptor}"
        return
    with tempfile.NamedTemporaryFile(prefix="aotc-") as file:
        _compare(_copy(chunks, file.fileno(), size), sha256, path)
        yield file.name


@contextmanager
def mapped_path(
    root: int, path: str, size: int, sha256: str, chunks: Chunks | None
) -> Iterator[str]:
    """A path to map a file at whose content is verified, while the block lasts.

    It leads to the file itself: whoever may write to that can change what is mapped.
    Where the system has no such paths, it is a copy.

    Raises:
        VerificationError: `size-mismatch` or `digest-mismatch`.
    """
    if not _MEMFD:
        with sealed_path(root, path, size, sha256) as copy:
            yield copy
        return
    with _open_file(root, path) as descriptor:
        known = chunks or Chunks(max(size, 1), (sha256,))
        _read_chunks(descriptor, path, size, known)
        yield f"/proc/self/fd/{descriptor}"


def _read_chunks(
    descriptor: int,
    path: str,
    size: int,
    chunks: Chunks,
    memory: memoryview | None = None,
) -> None:
    """Verify the chunks of a file by several threads, which may fill memory with them.

    Raises:
        VerificationError: `size-mismatch` or `digest-mismatch`.
    """
    from concurrent.futures import ThreadPoolExecutor

    _require_size(path, size, os.fstat(descriptor).st_size)

    def read(number: int) -> None:
        place = number * chunks.size
        end, digest = min(place + chunks.size, size), hashlib.sha256()
        aside = memoryview(bytearray(_CHUNK if memory is None else 0))
        while place < end:
            length = min(_CHUNK, end - place)
            kept = aside if memory is None else memory[place:]
            part = kept[:length]
            count = os.preadv(descriptor, [part], place)
            if not count:
                _require_size(path, size, place)
            digest.update(part[:count])
            place += count
        _compare(digest.hexdigest(), chunks.sha256[number], path)

    pool = ThreadPoolExecutor(
        min(len(chunks.sha256), _MOST_THREADS, os.cpu_count() or 1)
    )
    try:
        found = [pool.submit(read, n) for n in range(len(chunks.sha256))]
    finally:
        _finish(pool)
    for each in found:
        each.result()


def check(root: int, path: str, size: int, sha256: str) -> None:
    """Verify the content of a file without keeping it."""
    digest = hashlib.sha256()
    for chunk in _chunks(root, path, size):
        digest.update(chunk)
    _compare(digest.hexdigest(), sha256, path)


def _compare(got: str, expected: str, path: str) -> None:
    if got != expected:
        raise VerificationError(
            "digest-mismatch",
            f"{path} was changed after signing: expected sha256 {expected}, got {got}",
            where=path,
        )


@contextmanager
def _sealed_memory(chunks: Iterator[bytes], size: int) -> Iterator[tuple[int, str]]:
    """Memory that holds `chunks` and cannot change any more: descriptor and SHA-256."""
    descriptor = os.memfd_create("aotc", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        digest = _copy(chunks, descriptor, size)
        seal(descriptor)
        yield descriptor, digest
    finally:
        os.close(descriptor)


def _copy(chunks: Iterator[bytes], descriptor: int, size: int) -> str:
    """Write `chunks`, `size` bytes in all, and return their SHA-256."""
    digest = hashlib.sha256()
    for chunk in _tee(chunks, digest.update, size):
        write_all(descriptor, chunk)
    return digest.hexdigest()


def _tee(
    chunks: Iterator[bytes], update: Callable[[bytes], None], size: int
) -> Iterator[bytes]:
    """The same chunks, each given to `update` too: many by a thread of its own.

    Hashing takes as long as copying, and neither waits for the other.
    """
    if size < _LARGE:
        for chunk in chunks:
            update(chunk)
            yield chunk
        return
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as beside:
        for chunk in chunks:
            taken = beside.submit(update, chunk)
            yield chunk
            taken.result()


def seal(descriptor: int) -> None:
    """Let nobody change a memory file any more."""
    import fcntl

    seals = (
        fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
    )
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, seals)


def write_all(descriptor: int, data: bytes | memoryview) -> None:
    """Write data to a descriptor, which may take it in parts."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _chunks(root: int, path: str, size: int) -> Iterator[bytes]:
    """Exactly `size` bytes of a file, or an error if it has more or fewer."""
    with _open_file(root, path) as descriptor:
        found = os.fstat(descriptor).st_size
        left = size
        while found == size and left:
            chunk = os.read(descriptor, min(left, _CHUNK))
            if not chunk:
                found = size - left
            left -= len(chunk)
            yield chunk
    _require_size(path, size, found)


def _fill(root: int, path: str, memory: memoryview) -> Iterator[memoryview]:
    """The parts of `memory`, one after another filled with those of a file.

    Raises like `_chunks`.
    """
    with _open_file(root, path) as descriptor:
        found, done = os.fstat(descriptor).st_size, 0
        while found == len(memory) and done < found:
            chunk = memory[done : done + _CHUNK]
            count = os.readv(descriptor, [chunk])
            if not count:
                found = done
            yield chunk[:count]
            done += count
    _require_size(path, len(memory), found)


def _require_size(path: str, size: int, found: int) -> None:
    if found != size:
        raise VerificationError(
            "size-mismatch",
            f"{path} was changed after signing: expected {size} bytes, got {found}",
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
    if not stat.S_ISREG(status.st_mode):
        raise _irregular_error(path, f"{stat.filemode(status.st_mode)}")
    if status.st_nlink != 1:
        raise _irregular_error(
            path, f"a file with {status.st_nlink} names (hard links)"
        )


def _irregular_error(path: str, got: str) -> VerificationError:
    return VerificationError(
        "file-irregular",
        f"{path}: expected a plain file with one name, got {got}",
        where=path,
    )
