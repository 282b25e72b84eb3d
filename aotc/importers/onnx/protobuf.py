"""An ONNX file without its tensors' data, which stays where it is in the file.

A model's protobuf message is mostly the raw data of initialisers. Reading it as a whole
makes two copies of that. So the message is walked first, at the level of its encoding
(fields of a number, a kind and bytes), and copied without large raw data; each tensor
gets the data's place in the file instead, as if it were external.
"""

from __future__ import annotations

from collections.abc import Iterator

from aotc.errors import InputError
from aotc.importers.onnx.tensors import Content

LARGE = 1 << 12  # bytes of a message below which nothing in it is moved

# (message, field) → the message in that field, as far as tensors can be inside
_INSIDE = {
    ("model", 7): "graph",
    ("graph", 1): "node",
    ("graph", 5): "tensor",
    ("node", 5): "attribute",
    ("attribute", 5): "tensor",
    ("attribute", 6): "graph",
    ("attribute", 11): "graph",
}
_RAW_DATA = ("tensor", 9)
_EXTERNAL_DATA = 13
_FIXED = {1: 8, 5: 4}  # wire kinds of fixed size
_LENGTH = 2


def skeleton(data: Content) -> bytes:
    """Return a serialized model with large raw data replaced by offsets in its file.

    Each tensor that lost its data has external data without a location: the offset and
    the length in this file.

    Raises:
        InputError: this is no protobuf message.
    """
    return b"".join(_copy_fields(data, 0, len(data), "model"))


def _copy_fields(data: Content, start: int, end: int, message: str) -> Iterator[bytes]:
    """Yield the encoded fields of a message, large raw data replaced by its offset."""
    position = start
    while position < end:
        before = position
        tag, position = _decode_varint(data, position, end)
        field, kind = tag >> 3, tag & 7
        if kind != _LENGTH:
            position = _field_end(data, position, end, kind)
            yield bytes(data[before:position])
            continue
        length, body = _decode_varint(data, position, end)
        position = body + length
        if position > end:
            raise _corrupt(before)
        if length < LARGE:
            yield bytes(data[before:position])
        elif (message, field) == _RAW_DATA:
            yield _encode_external_entry("offset", body) + _encode_external_entry(
                "length", length
            )
        elif (message, field) in _INSIDE:
            inside = _INSIDE[message, field]
            yield _encode_field(
                field, b"".join(_copy_fields(data, body, position, inside))
            )
        else:
            yield bytes(data[before:position])


def _field_end(data: Content, position: int, end: int, wire_type: int) -> int:
    """Return the end of a varint or fixed-width field."""
    if wire_type == 0:
        return _decode_varint(data, position, end)[1]
    if wire_type not in _FIXED or position + _FIXED[wire_type] > end:
        raise _corrupt(position)
    return position + _FIXED[wire_type]


def _decode_varint(data: Content, position: int, end: int) -> tuple[int, int]:
    """Return a varint's value and the position behind it."""
    value = shift = 0
    while position < end and shift < 70:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
    raise _corrupt(position)


def _corrupt(position: int) -> InputError:
    """Return the error of a file that is damaged at a byte."""
    return InputError(
        "bad-file",
        f"expected an ONNX model; the file is damaged or cut off at byte {position}",
    )


def _encode_external_entry(key: str, value: int) -> bytes:
    """Return an encoded (key, value) pair of a tensor's external data."""
    pair = _encode_field(1, key.encode()) + _encode_field(2, str(value).encode())
    return _encode_field(_EXTERNAL_DATA, pair)


def _encode_field(number: int, body: bytes) -> bytes:
    """Return an encoded length-delimited field."""
    return _encode_varint(number << 3 | _LENGTH) + _encode_varint(len(body)) + body


def _encode_varint(value: int) -> bytes:
    """Return a number encoded as a varint."""
    groups = []
    while value > 0x7F:
        groups.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*groups, value])
