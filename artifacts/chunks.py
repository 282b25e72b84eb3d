"""Digests of the parts of a large file, so that several threads can verify it.

The manifest lists them beside the digest of the whole, which is what the signature and
other verifiers name: both are of the same bytes, as one writer hashed them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

SIZE = 64 << 20  # bytes of a chunk; files that are no larger have none


@dataclass(frozen=True)
class Chunks:
    """The SHA-256 digests of a file's fixed-size chunks.

    Args:
        size: of a part in bytes; the last may be shorter.
        sha256: of the parts, in order.
    """

    size: int
    sha256: tuple[str, ...]

    @classmethod
    def of_json(cls, data: Mapping[str, Any] | None) -> Chunks | None:
        """Return the chunk digests that a manifest lists for a file; None if it lists
        none.
        """
        return None if data is None else cls(data["size"], tuple(data["sha256"]))

    def to_json(self) -> dict[str, Any]:
        """Return the chunk digests as a manifest holds them."""
        return {"size": self.size, "sha256": [*self.sha256]}


class Hasher:
    """Incremental SHA-256 of a file: of the whole and, if it is large, of each
    chunk.
    """

    def __init__(self) -> None:
        self.size = 0
        self._whole = hashlib.sha256()
        self._chunk = self._whole  # of the first one, the digest is the same
        self._done: list[str] = []

    def update(self, data: bytes | memoryview) -> None:
        """Hash the next bytes of the file."""
        for work in self.updates(data):
            work()

    def updates(self, data: bytes | memoryview) -> list[Callable[[], None]]:
        """Return functions that together hash the next bytes, each to be run in its own
        thread.

        All of them are to be called before the next bytes are taken.
        """
        view, begin = memoryview(data), self.size
        self.size += len(view)
        if not view:
            return []
        if begin < SIZE:
            return [lambda: self._take(view, begin)]
        if begin == SIZE:  # before the digest of the whole goes on
            self._begin_chunk()
        return [
            lambda: self._whole.update(view),
            lambda: self._take_in_chunks(view, begin),
        ]

    def _take(self, view: memoryview, begin: int) -> None:
        """Hash bytes that begin in the first chunk, whose digest is that of the whole
        so far.
        """
        first, rest = view[: SIZE - begin], view[SIZE - begin :]
        self._whole.update(first)
        if rest:
            self._begin_chunk()
            self._take_in_chunks(rest, SIZE)
            self._whole.update(rest)

    def _take_in_chunks(self, view: memoryview, begin: int) -> None:
        """Add bytes, from offset `begin` behind the first chunk, to the chunk
        digests.
        """
        while view:
            if begin > SIZE and not begin % SIZE:
                self._begin_chunk()
            part = view[: SIZE - begin % SIZE]
            self._chunk.update(part)
            begin += len(part)
            view = view[len(part) :]

    def _begin_chunk(self) -> None:
        """Finish the digest of the current chunk and start the next."""
        self._done.append(self._chunk.hexdigest())
        self._chunk = hashlib.sha256()

    @property
    def sha256(self) -> str:
        """The digest of the whole file so far."""
        return self._whole.hexdigest()

    @property
    def chunks(self) -> Chunks | None:
        """The digests of the chunks; None if the file fits in one."""
        if not self._done:
            return None
        return Chunks(SIZE, (*self._done, self._chunk.hexdigest()))
