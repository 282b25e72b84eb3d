r"""The content of a private key, in the forms that people and CI systems keep it in.

PEM (PKCS #8 or SEC 1), OpenSSH, DER, and base64 of these; with line breaks that a
variable has lost or spelled `\n`. No message here repeats what was read.
"""

from __future__ import annotations

import base64
import re
import textwrap

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from aotc.errors import InputError
from aotc.errors.redaction import is_private_der, remember

_FRAME = re.compile(
    r"-----BEGIN (?P<kind>[A-Z ]*PRIVATE KEY)-----(?P<body>.*?)-----END (?P=kind)-----",
    re.DOTALL,
)
_NO_PASSWORD = (
    "aotc asks for no passwords: let OpenSSL do, and hand the result over without a "
    "file: --sign fd:3 3< <(openssl pkey -in KEY)"
)


def parse_private(data: bytes, where: str) -> ec.EllipticCurvePrivateKey:
    """Parse a P-256 private key, and register its content to be redacted in output.

    Raises:
        InputError: `key-unreadable`.
    """
    remember(data.decode("ascii", "replace"))
    try:
        key = _load(data)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        key = None
    if isinstance(key, ec.EllipticCurvePrivateKey) and is_p256(key.curve):
        _remember_forms(key)
        return key
    got = ", got a public key" if b"PUBLIC KEY-----" in data else ""
    hint = "`aotc keygen NAME` wrote the private key to NAME.key" if got else None
    raise InputError(
        "key-unreadable",
        f"expected a P-256 private key without a password, in PEM form{got}",
        where=where,
        hint=hint or (_NO_PASSWORD if _has_password(data) else None),
    )


def _load(data: bytes) -> object:
    """Parse a private key of any kind and form: PEM, OpenSSH, DER, base64.

    Raises:
        ValueError: it is none, or damaged.
        TypeError: it has a password.
        UnsupportedAlgorithm: the library does not know its kind.
    """
    if is_private_der(data):
        return serialization.load_der_private_key(data, None)
    text = re.sub(r"\\+r|\\+n", "\n", data.decode("ascii")).strip().strip("'\"")
    if (frame := _FRAME.search(text)) is None:
        content = base64.b64decode("".join(text.split()), validate=True)
        if not (is_private_der(content) or b"PRIVATE KEY-----" in content):
            raise ValueError
        return _load(content)
    body = frame["body"] if ":" in frame["body"] else _wrap(frame["body"])
    kind = frame["kind"]
    pem = f"-----BEGIN {kind}-----\n{body.strip()}\n-----END {kind}-----\n".encode()
    if kind.startswith("OPENSSH"):
        return serialization.load_ssh_private_key(pem, None)
    return serialization.load_pem_private_key(pem, None)


def _wrap(body: str) -> str:
    """Break base64 into lines of PEM's width."""
    return "\n".join(textwrap.wrap("".join(body.split()), 64))


def _remember_forms(key: ec.EllipticCurvePrivateKey) -> None:
    """Register the key's usual encodings to be redacted in output."""
    for encoding, form in (
        (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8),
        (serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL),
    ):
        remember(
            key.private_bytes(encoding, form, serialization.NoEncryption()).decode()
        )
    number = key.private_numbers().private_value
    remember(f"{number:064x}")
    remember(str(number))


def _has_password(data: bytes) -> bool:
    """Return whether key data says that it is encrypted."""
    return b"ENCRYPTED" in data


def is_p256(curve: ec.EllipticCurve) -> bool:
    """Return whether a curve is P-256, on which bundles are signed."""
    return isinstance(curve, ec.SECP256R1)
