"""Signatures of device profiles and fleets: `device.json` beside `device.json.sig`.

Of the same form and keys as a bundle's (`aotc.artifacts.sign`), over one file. It says
that the holder of the key vouches for the facts, not that they are true.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from aotc.artifacts import sign, strict_json
from aotc.artifacts.keys import Signer
from aotc.artifacts.rollout.regular_files import read_regular
from aotc.artifacts.trust import Trust
from aotc.errors import VerificationError

SUFFIX = ".sig"
# What is signed; a bundle has its manifest here, so that neither passes for the other.
_NAME = "device-profile"


def signature_of(data: bytes, signer: Signer) -> bytes:
    """Return the signature file for a profile or fleet with content `data`."""
    return sign.sign(_NAME, {_NAME: hashlib.sha256(data).hexdigest()}, signer)


def verify(file: Path, data: bytes, trust: Trust) -> None:
    """Raise unless a trusted key signed `data`, the content of `file`.

    Raises:
        VerificationError: `profile-unsigned`, `profile-changed`, or what `sign.verify`
            raises.
    """
    signature = file.with_name(file.name + SUFFIX)
    try:
        content = read_regular(signature, strict_json.SIZE_LIMIT)
    except OSError as error:
        raise VerificationError(
            "profile-unsigned",
            f"expected a signature in {signature.name}: {error.strerror}",
            where=str(file),
            hint="sign it with `aotc doctor --format json --sign KEY -o device.json`",
        ) from None
    try:
        signed = sign.verify(content, trust.keys)
    except VerificationError as error:
        error.where = str(signature)
        raise
    if signed.digests != {_NAME: hashlib.sha256(data).hexdigest()}:
        raise VerificationError(
            "profile-changed",
            f"{signature.name} signs another content than this file has",
            where=str(file),
            hint="let the device write and sign its profile again",
        )
