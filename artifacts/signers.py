"""Reads the private key that signs: from a file, a variable, a file descriptor.

CI systems hand secrets over in variables, so `AOTC_SIGNING_KEY` may hold the content of
a key as well as its place. An argument may not: every process can read it. No message
here repeats a name that may be a secret itself.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from aotc.artifacts.keys import SIZE_LIMIT, Signer, read_private
from aotc.artifacts.private_keys import parse_private
from aotc.artifacts.trust import development_key
from aotc.core import options
from aotc.errors import InputError
from aotc.errors.redaction import has_secret, remember
from aotc.errors.system import cannot_read

VARIABLE = "AOTC_SIGNING_KEY"
_PLACES = (
    "a file of yours alone, env:NAME for the content of a variable, fd:N for that of a "
    "file descriptor"
)


def signer_of(named: Signer | Path | str | None) -> Signer:
    """Return the signer that is named, else of `AOTC_SIGNING_KEY`, else the development
    key.

    Raises:
        InputError: as `read_signer`.
    """
    if named is not None:
        return read_signer(named)
    content = options.get(VARIABLE)
    if not content:
        return development_key()
    return read_signer(content, f"the variable {VARIABLE}")


def read_signer(named: Signer | Path | str, said_by: str | None = None) -> Signer:
    """Read the private key that a user names: a file, `env:NAME`, `fd:N`, or content.

    Args:
        named: a file, `env:NAME`, `fd:N`, or the content of a key; a `Path` is a file.
        said_by: what messages call it, where the name itself may be a secret.

    Raises:
        InputError: `key-missing`, `key-exposed` or `key-unreadable`.
        SetupError: `file-access`.
    """
    if isinstance(named, Signer):
        return named
    if isinstance(named, str):
        if has_secret(named) or "\n" in named:
            return _signer(named.encode(), said_by or "the given private key")
        place, colon, rest = named.partition(":")
        if colon and place in _READERS:
            return _signer(_READERS[place](rest), f"{place}:{rest}")
    path = Path(named)
    if said_by is not None and not os.path.lexists(path):
        raise InputError(
            "key-missing",
            f"expected a private key, or where one is, in {said_by}",
            hint=f"what a key may be: {_PLACES}, or its content in PEM form",
        )
    return _signer(read_private(path), str(path))


def _signer(data: bytes, where: str) -> Signer:
    """Return the signer with a private key in any supported form."""
    return Signer(parse_private(data, where))


# ---- places -------------------------------------------------------------------------


def _read_variable(name: str) -> bytes:
    """Return the content of an environment variable that holds a private key."""
    if not re.fullmatch("[A-Za-z_][A-Za-z0-9_]{0,100}", name):
        raise InputError(
            "key-missing",
            "expected the name of a variable after env:",
            hint='such as env:RELEASE_KEY; the shell expands "$RELEASE_KEY" itself',
        )
    content = options.take_secret(name)
    if not content:
        state = "is not set" if content is None else "is empty"
        raise InputError(
            "key-missing",
            f"expected a private key in the variable {name}, which {state}",
            hint="a CI system may withhold secrets, as from builds of forks",
        )
    if not has_secret(content):
        raise InputError(
            "key-unreadable",
            f"expected the content of a private key in the variable {name}",
            hint=f'if it holds the name of a file: --sign "${name}"',
        )
    return content.encode("utf-8", "surrogateescape")


def _read_descriptor(number: str) -> bytes:
    """Read a private key from a file descriptor, and close it."""
    where = f"fd:{number}"
    if not re.fullmatch("[0-9]{1,6}", number):
        raise InputError(
            "key-missing",
            "expected the number of a file descriptor after fd:",
            hint="such as --sign fd:3 3< release.key",
        )
    descriptor = int(number)
    content = b""
    try:
        while len(content) <= SIZE_LIMIT and (part := os.read(descriptor, SIZE_LIMIT)):
            content += part
        if descriptor > 2:
            os.close(descriptor)  # no process that is started later inherits it
    except OSError as error:
        raise cannot_read(where, error, "the private key") from None
    if not content or len(content) > SIZE_LIMIT:
        raise InputError(
            "key-missing" if not content else "key-unreadable",
            f"expected a private key of at most {SIZE_LIMIT} bytes there, got "
            + ("nothing" if not content else "more"),
            where=where,
        )
    return content


_READERS = {"env": _read_variable, "fd": _read_descriptor}


def require_no_content(named: str) -> str:
    """Return `named`; raise if it is a key's content, visible as a command argument.

    Raises:
        InputError: `key-exposed`.
    """
    if has_secret(named) or "\n" in named:
        remember(named)
        raise InputError(
            "key-exposed",
            "expected the place of a private key, got its content, which every "
            "process of this machine can read in an argument",
            hint=f"put it into {VARIABLE}, or name {_PLACES}; if others may have seen "
            "it, make a new key",
        )
    return named
