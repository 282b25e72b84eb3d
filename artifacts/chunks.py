"""Digests of the parts of a large file, so that several threads can verify it.

The manifest lists them beside the digest of the whole, which is what the signature and
other verifiers name: both are of the same bytes, as one writer hashed them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

SIZE = 64 << 20  # bytes of a chunk; files that are no larger have none


@dataclass(frozen=True)
class Chunks:
    """The SHA-256 of each part of a file.

    Args:
        size: of a part in bytes; the last may be shorter.
        sha256: of the parts, in order.
    """

    size: int
    sha256: tuple[str, ...]

    @classmethod
    def of_json(cls, data: Mapping[str, Any] | None) -> Chunks | None:
        """Return those that a manifest lists for a file; None if it lists none."""
        return None if data is None else cls(data["size"], tuple(data["sha256"]))

    def to_json(self) -> dict[str, Any]:
        """Return what a manifest says of them."""
        return {"size": self.size, "sha256": [*self.sha256]}


class Hasher:
    """Hashes what is written to a file: as a whole and, if it is large, in chunks."""

    def __init__(self) -> None:
        self.size = 0
        self._whole = hashlib.sha256()
        self._chunk = self._whole  # of the first one, the digest is the same
        self._done: list[str] = []

    def update(self, data: bytes | memoryview) -> None:
        """Take the bytes that follow."""
        view = memoryview(data)
        while view:
            if self.size and not self.size % SIZE:
                self._done.append(self._chunk.hexdigest())
                self._chunk = hashlib.sha256()
            part = view[: SIZE - self.size % SIZE]
            self._whole.update(part)
            if self._done:
                self._chunk.update(part)
            self.size += len(part)
            view = view[len(part) :]

    @property
    def sha256(self) -> str:
        """The digest of the whole."""
        return self._whole.hexdigest()

    @property
    def chunks(self) -> Chunks | None:
        """Those of its parts; None if there is but one."""
        if not self._done:
            return None
        return Chunks(SIZE, (*self._done, self._chunk.hexdigest()))
