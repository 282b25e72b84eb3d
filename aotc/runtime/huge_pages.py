"""Weights in huge pages, in the place of the file that IREE maps them from.

Linux keeps memory in pages of 4 KiB and, where it is asked to, private memory in huge
ones (transparent huge pages, of 2 MiB on most processors). What every call reads once,
such as the weights of a decoder's step, comes from these faster: at 28 GB/s and not 22
on a Zen 4 in a virtual machine. The memory files that IREE maps weights from have small
ones, unless an administrator says otherwise.

IREE takes weights from a file, or from a Python object, which it must not (Note [no
Python memory in IREE] in `loader`). So it maps a memory file that has the right size
and no more than the header of the weights in it; and mremap(2) puts private memory with
all of them in the place of that mapping. IREE gives the addresses back as ever.

Huge pages stay huge where the address that they move to is as far from a multiple of
their size as that which they come from. A mapping of the same size tells beforehand
which address the next one will have. Where another thread was faster, what moves is
small pages, and all else is the same.
"""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from aotc.artifacts.files import seal, write_all
from aotc.core import options
from aotc.errors import SetupError

_SYSTEM = Path("/sys/kernel/mm/transparent_hugepage")
_LEAST = 4 << 20  # bytes; the TLB of a processor has room for fewer pages
_ARCHIVE = b"IRPA"

# <sys/mman.h> of Linux
_NONE, _READ, _WRITE = 0, 1, 2
_SHARED, _PRIVATE, _ANONYMOUS = 1, 2, 0x20
_MOVE = 1 | 2  # MREMAP_MAYMOVE | MREMAP_FIXED
_HUGE = 14  # MADV_HUGEPAGE
_FAILED = ctypes.c_void_p(-1).value


@cache
def huge_page_size() -> int | None:
    """Return the size of a huge page; None where private memory can have none."""
    try:
        modes = (_SYSTEM / "enabled").read_text()
        size = int((_SYSTEM / "hpage_pmd_size").read_text())
    except (OSError, ValueError):
        return None
    is_on = "[madvise]" in modes or "[always]" in modes
    return size if is_on and hasattr(os, "memfd_create") else None


@contextmanager
def huge_pages_for(size: int) -> Iterator[HugePages | None]:
    """Yield memory of `size` bytes in huge pages, or None; free it unless it was put in
    place.

    None where small pages will do (see AOTC_HUGE_PAGES), or where there are no others.
    """
    pages = None
    is_on = options.get("AOTC_HUGE_PAGES") and huge_page_size() is not None
    if size >= _LEAST and is_on:
        with suppress(OSError):  # what is wrong, small pages will tell
            pages = HugePages(size)
    try:
        yield pages
    finally:
        if pages is not None:
            pages.close()


def header_size(archive: memoryview) -> int | None:
    """Return the bytes before the parameters in an IREE parameter archive, or None if
    unknown.

    Returns:
        None for an archive that is laid out in another way.

    Source: `iree/schemas/parameter_archive.h` of IREE, version 0 of the format: the
    magic number, a version of 4 bytes, and numbers of 8 bytes: the size of the header,
    the offset of a next one, flags, how many entries there are, and offset and length
    of entries, metadata and storage.
    """
    if len(archive) < 88 or archive[:4] != _ARCHIVE or any(archive[4:8]):
        return None
    size, following = (int.from_bytes(archive[i : i + 8], "little") for i in (8, 16))
    storage = int.from_bytes(archive[72:80], "little")
    is_known = size == 88 and not following and size <= storage <= len(archive)
    return storage if is_known else None


class HugePages:
    """Private memory in huge pages, which replaces a mapping of a file.

    Args:
        size: in bytes.

    Raises:
        OSError: there is not the memory, or the system refuses a step.
    """

    def __init__(self, size: int) -> None:
        self._length = -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
        self._mapped: dict[int, int] = {}  # what is to be given back: length by address
        self._file = os.memfd_create(
            "aotc-weights", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING
        )
        try:
            os.truncate(self._file, size)
            self._expected = self._map(self._length, _NONE, _SHARED, self._file)
            self._address = self._map_like(self._expected)
        except OSError:
            self.close()
            raise
        array = (ctypes.c_ubyte * size).from_address(self._address)
        self.view = memoryview(array).cast("B")

    def put_in_place(self, header: int, map_file: Callable[[str], None]) -> None:
        """Let IREE map a file, then move this memory to the address of that mapping.

        Args:
            header: how many bytes the file holds, of the content; zeros come after.
            map_file: maps a file, given by its path, as a whole.

        Raises:
            SetupError: `huge-pages`: the system refuses a step.
        """
        write_all(self._file, self.view[:header])
        self._unmap(self._expected)
        seal(self._file)
        map_file(f"/proc/self/fd/{self._file}")
        try:
            target = _address_of(self._file, self._length)
            _call("mprotect", self._address, self._length, _READ)
            _call("mremap", self._address, self._length, self._length, _MOVE, target)
        except OSError as error:
            raise SetupError(
                "huge-pages",
                f"the weights cannot be put into huge pages: {error}",
                hint="set AOTC_HUGE_PAGES=0, and they lie in small ones",
            ) from error
        del self._mapped[self._address]
        self.view = memoryview(b"")

    def close(self) -> None:
        """Unmap the memory that was not put in place."""
        os.close(self._file)
        for address in list(self._mapped):
            self._unmap(address)

    def _map(self, length: int, access: int, kind: int, file: int = -1) -> int:
        """Map memory or a file, and note it for unmapping; return the address."""
        address: int = _call("mmap", None, length, access, kind, file, 0)
        self._mapped[address] = length
        return address

    def _map_like(self, other: int) -> int:
        """Map private memory with the same offset to a huge page's boundary as
        `other`.
        """
        huge = huge_page_size()
        assert huge is not None
        start = self._map(self._length + huge, _READ | _WRITE, _PRIVATE | _ANONYMOUS)
        before = (other - start) % huge
        # What is too much goes at once: to give it back later might hit others' memory.
        del self._mapped[start]
        if before:
            _call("munmap", start, before)
        _call("munmap", start + before + self._length, huge - before)
        self._mapped[start + before] = self._length
        _call("madvise", start + before, self._length, _HUGE)
        return start + before

    def _unmap(self, address: int) -> None:
        """Unmap a noted mapping."""
        _call("munmap", address, self._mapped.pop(address))


def _address_of(file: int, length: int) -> int:
    """Return the address at which this process has mapped the whole of a file."""
    status = os.fstat(file)
    device = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}".encode()
    for line in Path("/proc/self/maps").read_bytes().split(b"\n")[:-1]:
        span, _, offset, *owner = line.split()[:5]
        start, end = (int(each, 16) for each in span.split(b"-"))
        is_whole = end - start == length and not int(offset, 16)
        if is_whole and owner == [device, b"%d" % status.st_ino]:
            return start
    raise OSError("a file of weights is not mapped as a whole")


@cache
def _library() -> ctypes.CDLL:
    """Return the C library with the signatures of the functions used here."""
    number, address = ctypes.c_int, ctypes.c_void_p
    library, size = ctypes.CDLL(None, use_errno=True), ctypes.c_size_t
    for name, result, arguments in (
        ("mmap", address, [address, size, number, number, number, ctypes.c_long]),
        ("munmap", number, [address, size]),
        ("mprotect", number, [address, size, number]),
        ("madvise", number, [address, size, number]),
        ("mremap", address, [address, size, size, number, address]),
    ):
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


def _call(name: str, *arguments: int | None) -> int:
    """Call a function of the C library; raise OSError if it fails.

    Raises:
        OSError: it fails.
    """
    result = getattr(_library(), name)(*arguments)
    if result in (-1, _FAILED):
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
    return int(result or 0)
