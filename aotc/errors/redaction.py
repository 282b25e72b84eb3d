"""Recognise secrets in text, and leave them out of whatever is shown.

A private key is recognised by its form (`find_secrets`), however a shell or a CI system
has mangled it: line breaks lost, escaped or turned into spaces, its head alone, the
content in base64 without the frame. What has been read as a key (`remember`) is
recognised by value besides, line by line. `redact` is what messages, answers and
tracebacks go through. This module imports nothing of aotc.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterator

REDACTED = "[private key]"

# Note [frames of keys]: PEM (PKCS #8, SEC 1, PKCS #1, encrypted, Sigstore's), OpenSSH,
# PGP and, with four hyphens, SSH2. The blanks may be lost or be URL-encoded.
_GAP = r"(?:[ +_]|%20)?"
_BEGIN = re.compile(
    rf"-{{2,5}}{_GAP}BEGIN{_GAP}(?:[A-Z0-9]{{1,9}}{_GAP}){{0,4}}?PRIVATE{_GAP}KEY"
    rf"(?:{_GAP}BLOCK)?-{{0,5}}",
    re.IGNORECASE,
)
_END = re.compile(rf"-{{2,5}}{_GAP}END[A-Z0-9 +_%]{{0,60}}-{{0,5}}", re.IGNORECASE)
_LONGEST = 1 << 15  # characters of a key
# What a key without its end may consist of, and what stands between its lines.
_BODY = re.compile(r"(?:[A-Za-z0-9+/=_:,%\s-]|\\+[nrt])*")
_LINES = re.compile(
    r"[A-Za-z0-9+/_%-]+=*(?:(?:\s|\\+[nrt]|%0[ADad])+[A-Za-z0-9+/_-]{2,}=*)*"
)

# Where the base64 of a DER sequence, of a PEM file or of an OpenSSH key may begin.
_ENCODED = re.compile(r"(?=M[A-P][A-Za-z0-9+/_-]{22}|LS0tLS1CRUdJT|b3BlbnNzaC1rZXk)")
_OPENSSH = b"openssh-key"
_HEXADECIMAL = re.compile(
    rf"(?=(?:30|{_OPENSSH[:8].hex()})[0-9a-f]{{30}})", re.IGNORECASE
)
_HEX_DIGITS = re.compile(r"[0-9a-fA-F]+")
_OTHERS = (
    re.compile(r"AGE-SECRET-KEY-1[0-9A-Z]{8,}", re.IGNORECASE),
    re.compile(r"(?s)PuTTY-User-Key-File-\d.{0,8192}?Private-Lines:.{0,8192}"),
    re.compile(r'(?s)\{[^{}]{0,4096}"kty"[^{}]{0,4096}"d"\s*:\s*"[^"]*"[^{}]*\}'),
    re.compile(r'(?s)\{[^{}]{0,4096}"d"\s*:\s*"[^"]*"[^{}]{0,4096}"kty"[^{}]*\}'),
)
_PASSWORD = re.compile(r"(?<=://)[^/\s:@'\"]*:[^/\s@'\"]+(?=@)")

_known: dict[str, None] = {}  # values, the most recent last
_MOST_KNOWN = 1000
_SHORTEST = 12  # characters of what is recognised by value


def find_secrets(text: str) -> list[tuple[int, int]]:
    """Return the spans of private keys in `text`, in order and without overlaps."""
    merged: list[tuple[int, int]] = []
    for start, end in sorted(_spans(text)):
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((start, end))
    return merged


def has_secret(text: str) -> bool:
    """Return whether `text` contains a private key."""
    return next(_spans(text), None) is not None


def redact(text: str) -> str:
    """Return a text with private keys, and passwords in URLs, replaced by marks."""
    parts, done = [], 0
    for start, end in find_secrets(text):
        parts += [text[done:start], REDACTED]
        done = end
    text = _PASSWORD.sub("[password]", "".join([*parts, text[done:]]))
    for value in _known:
        if value in text:
            text = text.replace(value, REDACTED)
    return text


def remember(secret: str) -> None:
    """Register a secret that was read, so that `redact` replaces its value from then
    on.
    """
    pieces = re.split(r"[\s/,]+|(?:\\+[nrt])+", secret)
    for piece in [secret.strip(), *pieces]:
        if len(piece) >= _SHORTEST and not piece.startswith("--"):
            _known.pop(piece, None)
            _known[piece] = None
    while len(_known) > _MOST_KNOWN:
        _known.pop(next(iter(_known)))


def is_private_der(data: bytes) -> bool:
    """Return whether bytes begin like a private key in DER.

    PKCS #8 (RFC 5958), plain or encrypted (PBES2), SEC 1 (RFC 5915), PKCS #1
    (RFC 8017), PKCS #12 (RFC 7292).
    """
    if len(data) < 2 or data[0] != 0x30:
        return False
    length_bytes = 0 if data[1] < 0x80 else data[1] & 0x7F
    if length_bytes > 3:
        return False
    body = data[2 + length_bytes :]
    plain = (b"\x02\x01\x00\x30", b"\x02\x01\x01\x30", b"\x02\x01\x01\x04")
    others = (b"\x02\x01\x00\x02", b"\x02\x01\x03\x30")
    encrypted = body[:1] == b"\x30" and b"\x2a\x86\x48\x86\xf7\x0d\x01\x05" in body[:14]
    return body.startswith(plain + others) or encrypted


def _spans(text: str) -> Iterator[tuple[int, int]]:
    """Yield the spans of private keys in a text, possibly overlapping."""
    yield from _scan(text, _BEGIN, _end_of_frame)
    yield from _scan(text, _ENCODED, _end_of_encoded)
    yield from _scan(text, _HEXADECIMAL, _end_of_hexadecimal)
    for form in _OTHERS:
        yield from (found.span() for found in form.finditer(text))


def _scan(
    text: str, pattern: re.Pattern[str], end_of: Callable[[str, re.Match[str]], int]
) -> Iterator[tuple[int, int]]:
    """Yield spans that begin where `pattern` matches and end at `end_of`, without
    overlaps.
    """
    done = 0
    while found := pattern.search(text, done):
        end = end_of(text, found)
        if end > found.start():
            yield found.start(), end
        done = max(end, found.start() + 1)


def _end_of_frame(text: str, begin: re.Match[str]) -> int:
    """Return the end of a PEM-like key after its BEGIN line."""
    end = _END.search(text, begin.end(), begin.end() + _LONGEST)
    found = end or _BODY.match(text, begin.end(), begin.end() + _LONGEST)
    return found.end() if found else begin.end()


def _end_of_encoded(text: str, head: re.Match[str]) -> int:
    """Return the end of a key in base64; its start if it is none."""
    at = head.start()
    lines = _LINES.match(text, at) if _is_encoded_key(text[at : at + 128]) else None
    return lines.end() if lines else at


def _end_of_hexadecimal(text: str, head: re.Match[str]) -> int:
    """Return the end of a key in hexadecimal; its start if it is none."""
    at = head.start()
    data = bytes.fromhex(text[at : at + 32])
    is_key = data.startswith(_OPENSSH) or is_private_der(data)
    digits = _HEX_DIGITS.match(text, at) if is_key else None
    return digits.end() if digits else at


def _is_encoded_key(text: str) -> bool:
    """Return whether base64 (of either alphabet) begins like that of a private key."""
    if text.startswith("b3BlbnNzaC1rZXk"):
        return True
    digits = re.match(r"[A-Za-z0-9+/_-]*", text)
    plain = (digits[0] if digits else "").replace("-", "+").replace("_", "/")
    head = base64.b64decode(plain[: len(plain) // 4 * 4])
    return is_private_der(head) or b"PRIVATE KEY" in head
