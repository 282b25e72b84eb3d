"""Messages between a process and its child: pickled, after a mark and their length.

Knowing the length, a reader without the memory for a message can skip it: the next one
is where it is expected. By the mark it knows what a library has printed in its place.
"""

from __future__ import annotations

import pickle
from typing import Any, BinaryIO

_CHUNK = 1 << 20
_MARK = b"\x93aotc"
_LENGTH = 8  # bytes


class NoMessageError(Exception):
    """Raised if the bytes read are no message."""


def send(stream: BinaryIO, message: object) -> None:
    """Write a message to a stream, pickled behind a mark and its length.

    Raises:
        MemoryError: nothing of it has been written.
        BrokenPipeError: nobody reads.
    """
    data = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
    stream.write(_MARK + len(data).to_bytes(_LENGTH, "little"))
    stream.write(data)
    stream.flush()


def receive(stream: BinaryIO) -> Any:
    """Read a message from a stream; return the unpickled object.

    Raises:
        EOFError: there is none any more, or a part of one only.
        MemoryError: it has been skipped.
        NoMessageError: the bytes are of something else.
    """
    mark = stream.read(len(_MARK))
    if not _MARK.startswith(mark):
        raise NoMessageError(f"wrote {mark!r} in the place of an answer")
    length = int.from_bytes(_read_exactly(stream, _LENGTH), "little")
    try:
        data = _read_exactly(stream, length)
    except MemoryError:  # raised before anything is read
        for start in range(0, length, _CHUNK):
            _read_exactly(stream, min(_CHUNK, length - start))
        raise
    return pickle.loads(data)


def _read_exactly(stream: BinaryIO, length: int) -> bytes:
    """Read `length` bytes; raise EOFError if there are fewer."""
    data = stream.read(length)
    if len(data) < length:
        raise EOFError
    return data
