"""Reading files that strangers name: regular ones alone, and up to a size."""

from __future__ import annotations

import errno
import stat
from pathlib import Path


def read_regular(file: Path, limit: int) -> bytes:
    """Read a regular file of at most `limit` bytes; raise for pipes and devices.

    A pipe would block for ever, and a device such as `/dev/zero` has no end.

    Raises:
        OSError: it is none, or cannot be read.
    """
    if not stat.S_ISREG(file.stat().st_mode):
        raise OSError(errno.EINVAL, "it is no regular file")
    with file.open("rb") as stream:
        data = stream.read(limit + 1)
    if len(data) > limit:
        raise OSError(errno.EFBIG, f"it has more than {limit} bytes")
    return data
