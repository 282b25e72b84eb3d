"""Signing keys: ECDSA on P-256, private as PKCS #8 PEM, public as SPKI PEM.

A key's id is the SHA-256 of its public PEM file, so `sha256sum KEY.pub` shows it.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from aotc.artifacts.private_keys import is_p256, parse_private
from aotc.core.writing import atomic_write
from aotc.errors import InputError
from aotc.errors.system import cannot_read, cannot_write, translate_system_errors

SIZE_LIMIT = 1 << 16  # bytes of a key


@dataclass(frozen=True)
class Signer:
    """A private key for signing, and whether it is the user's development key."""

    key: ec.EllipticCurvePrivateKey
    development: bool = False

    @classmethod
    def from_file(cls, path: Path | str) -> Signer:
        """Read a private key file that only its owner can read.

        Raises:
            InputError: `key-missing`, `key-exposed` or `key-unreadable`.
            SetupError: `file-access`.
        """
        return cls(parse_private(read_private(Path(path)), str(path)))

    @property
    def key_id(self) -> str:
        """The id of the public key: its PEM's SHA-256."""
        return key_id(self.key.public_key())

    @property
    def public_pem(self) -> bytes:
        """The public key in PEM form, which others need to verify."""
        return public_pem(self.key.public_key())


def generate() -> Signer:
    """Return a signer with a new random key."""
    return Signer(ec.generate_private_key(ec.SECP256R1()))


def key_id(key: ec.EllipticCurvePublicKey) -> str:
    """Return the SHA-256 of the public key's PEM form, in hexadecimal."""
    return hashlib.sha256(public_pem(key)).hexdigest()


def public_pem(key: ec.EllipticCurvePublicKey) -> bytes:
    """Return the PEM form of a public key; `parse_public` reads it back."""
    return key.public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )


def parse_public(pem: bytes, where: str) -> ec.EllipticCurvePublicKey:
    """Parse a P-256 public key in PEM form.

    Raises:
        InputError: it is not a P-256 public key.
    """
    try:
        key = serialization.load_pem_public_key(pem)
    except (ValueError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, ec.EllipticCurvePublicKey) or not is_p256(key.curve):
        got = ", got a private key" if b"PRIVATE KEY-----" in pem else ""
        raise InputError(
            "key-unreadable",
            f"expected a P-256 public key in PEM form{got}",
            where=where,
            hint="`aotc keygen NAME` wrote it to NAME.pub" if got else None,
        )
    return key


@translate_system_errors()
def write_key_pair(path: Path) -> Signer:
    """Generate a key pair: private in `path` (mode 0600), public beside it as `.pub`.

    Raises:
        InputError: `key-exists`; an existing key is never overwritten.
        SetupError: `cannot-write`; neither of the two is there then.
    """
    public = path.with_suffix(".pub")
    signer = generate()
    if os.path.lexists(public) or not write_private(path, signer):
        raise InputError(
            "key-exists",
            f"{path} or {public.name} exists already, and keys are not overwritten",
            hint="choose another name, or move the old key away",
        )
    try:
        write_public(public, signer)
    except BaseException:
        path.unlink()
        raise
    return signer


def write_public(path: Path, signer: Signer) -> None:
    """Write a signer's public key to `path` atomically.

    Raises:
        SetupError: `cannot-write`.
    """
    with atomic_write(path) as aside:
        aside.write_bytes(signer.public_pem)


def write_private(path: Path, signer: Signer) -> bool:
    """Write a signer's private key to a new file atomically; False if the file exists.

    Raises:
        SetupError: `cannot-write`.
    """
    pem = signer.key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    aside = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(descriptor, "wb") as file:
            file.write(pem)
            file.flush()
            os.fsync(descriptor)
        # Unlike a rename, a link never replaces what another process wrote meanwhile.
        os.link(aside, path)
    except FileExistsError:
        return False
    except OSError as error:
        raise cannot_write(path, error, "the key") from error
    finally:
        with suppress(OSError):  # where it could not be made, it is not there
            aside.unlink()
    return True


@translate_system_errors()
def read_key_file(path: Path, what: str) -> tuple[bytes, os.stat_result]:
    """Read a regular file of at most `SIZE_LIMIT` bytes; return its content and `stat`
    result.

    Raises:
        InputError: `key-missing`; or `key-unreadable`: it is a folder, a pipe, a device
            or a large file.
        SetupError: `file-access`.
    """
    try:
        return _read_key_file(path)
    except (FileNotFoundError, NotADirectoryError):
        message = f"{what} is not there"
        raise InputError("key-missing", message, where=str(path)) from None
    except IsADirectoryError:
        message = f"expected a file with {what}, got a folder"
        raise InputError("key-unreadable", message, where=str(path)) from None
    except OSError as error:
        raise cannot_read(path, error, what) from error


def _read_key_file(path: Path) -> tuple[bytes, os.stat_result]:
    """Open and read the file without blocking; raise unless it is regular and small."""
    # Without O_NONBLOCK, a pipe without a writer would be waited for.
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    with open(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size > SIZE_LIMIT:
            raise InputError(
                "key-unreadable",
                f"expected a file of at most {SIZE_LIMIT} bytes with a key, got "
                f"{stat.filemode(status.st_mode)} of {status.st_size} bytes",
                where=str(path),
            )
        return file.read(SIZE_LIMIT), status


def read_private(path: Path) -> bytes:
    """Read a private key file; raise if other users could have read or written it."""
    data, status = read_key_file(path, "the private key")
    is_open = status.st_uid != os.geteuid() or stat.S_IMODE(status.st_mode) & 0o077
    if is_open and b"PUBLIC KEY-----" not in data:  # whose reader says what it is
        raise InputError(
            "key-exposed",
            "expected a key file that only you can read, got "
            f"{stat.filemode(status.st_mode)} of user {status.st_uid}",
            where=str(path),
            hint=f"chmod 600 {path}, or make a new key if others may have read it",
        )
    return data
