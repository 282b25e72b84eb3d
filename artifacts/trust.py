"""Trusted keys: whose signatures a machine accepts.

Given public keys are trusted for every bundle. Without any, only the user's own
development key is, and only for bundles of the channel `development`: what one builds
runs at once on one's own account, and nowhere else without a decision.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import ec

from aotc.artifacts import keys
from aotc.core import options
from aotc.core.writing import make_folder
from aotc.errors import InputError, SetupError
from aotc.errors.system import translate_system_errors

_KEY_FILE = "development.key"


@dataclass(frozen=True)
class Trust:
    """Trusted public keys by id, and the channels that they may sign."""

    keys: Mapping[str, ec.EllipticCurvePublicKey]
    channels: frozenset[str] = frozenset({"development", "release"})

    @classmethod
    @translate_system_errors()
    def of(cls, *sources: str | bytes | os.PathLike[str]) -> Trust:
        """Return trust in the given public keys, each a file or PEM text.

        Raises:
            InputError: `key-missing` or `key-unreadable`.
        """
        found = [_public_key(source) for source in sources]
        return cls({keys.key_id(key): key for key in found})

    @classmethod
    def default(cls) -> Trust:
        """Return trust in the user's own development key, if there is one."""
        path = home() / _KEY_FILE
        channels = frozenset({"development"})
        if not path.exists():
            return cls({}, channels)
        signer = _read_development_key(path)
        return cls({signer.key_id: signer.key.public_key()}, channels)

    @classmethod
    def parse(cls, value: Trust | str | bytes | os.PathLike[str] | None) -> Trust:
        """Return the `Trust` for an argument `trust`: itself, one public key, or the
        default.
        """
        if isinstance(value, Trust):
            return value
        return cls.default() if value is None else cls.of(value)


def home() -> Path:
    """Return the folder of the development key: `AOTC_HOME`, else `aotc` in
    `XDG_DATA_HOME` (if absolute) or `~/.local/share`.

    Raises:
        InputError: `no-home`, for an account without a home folder.
    """
    chosen = options.get("AOTC_HOME")
    data = os.environ.get("XDG_DATA_HOME", "")
    try:
        if chosen:
            return Path(chosen)
        folder = Path(data) if os.path.isabs(data) else Path.home() / ".local/share"
        return folder / "aotc"
    except RuntimeError:
        raise InputError(
            "no-home",
            "this account has no home folder to keep a development key in",
            hint="set AOTC_HOME, or name the keys to use",
        ) from None


def development_key() -> keys.Signer:
    """Return the user's development key; generate it, and its `.pub`, on first use.

    Raises:
        InputError: `key-exposed` if others can read the key or change its folder.
    """
    path = home() / _KEY_FILE
    try:
        make_folder(path.parent, 0o700)
        if not os.path.lexists(path):
            # If two processes come here at once, the second finds the first one's key.
            keys.write_private(path, keys.generate())
        signer = _read_development_key(path)
        if not (public := path.with_suffix(".pub")).exists():
            keys.write_public(public, signer)
    except SetupError as error:
        error.hint = "set AOTC_HOME to a folder of yours, or name a key: --sign KEY"
        raise
    return signer


def _read_development_key(path: Path) -> keys.Signer:
    """Read the development key; raise if others can write to its folder."""
    folder = path.parent.stat()
    if folder.st_uid != os.geteuid() or folder.st_mode & 0o022:
        raise InputError(
            "key-exposed",
            "expected the key's folder to be yours alone to write to, got mode "
            f"{folder.st_mode & 0o777:o} of user {folder.st_uid}",
            where=str(path.parent),
            hint=f"chmod 700 {path.parent}",
        )
    return replace(keys.Signer.from_file(path), development=True)


def _public_key(source: str | bytes | os.PathLike[str]) -> ec.EllipticCurvePublicKey:
    """Return a public key from a file, PEM text or bytes."""
    if isinstance(source, bytes):
        return keys.parse_public(source, "the given public key")
    if isinstance(source, str) and source.lstrip().startswith("-----BEGIN"):
        return keys.parse_public(source.encode(), "the given public key")
    pem, _ = keys.read_key_file(Path(source), "the public key")
    return keys.parse_public(pem, str(source))
