"""The signature of a bundle: writing and checking it, in pure functions over bytes.

The format is the OpenSSF Model Signing bundle, version 1.0: a Sigstore bundle (v0.3)
around a DSSE envelope around an in-toto statement, which names every file of the
directory with its SHA-256. Keys are ECDSA on P-256, and signing is deterministic
(RFC 6979), so that the same files and key give the same bytes.

With (r, s) also (r, n - s) is a signature, which anybody can compute. `sign` writes the
one with the low s (BIP 62 does so for secp256k1); whether a low s is asked for is up to
the caller of `verify`, as the first signers did not choose.

`verify` goes through these steps, and looks into the payload only after step 4:

1. size: at most `strict_json.SIZE_LIMIT` bytes
2. shape: canonical JSON, media type, one signature in DER, payload type
3. trust: the key that the hint names is one of ours
4. signature: ECDSA over the pre-authentication encoding of the raw payload
5. statement: type, predicate type, serialization, unique names, root digest

Stricter than the specification: the JSON has one spelling, nothing is ignored in the
directory, and links are refused. What `verify` accepts, other verifiers of the format
accept as well; not the other way round.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import (
    decode_dss_signature,
    encode_dss_signature,
)

from aotc.artifacts import fields, strict_json
from aotc.artifacts.keys import Signer
from aotc.artifacts.manifest import SIGNATURE_FILE
from aotc.errors import VerificationError

_BUNDLE_TYPE = "application/vnd.dev.sigstore.bundle.v0.3+json"
_PAYLOAD_TYPE = "application/vnd.in-toto+json"
_STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
_PREDICATE_TYPE = "https://model_signing/signature/v1.0"
# of P-256 (FIPS 186-5 and SP 800-186)
_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
_SERIALIZATION = {
    "method": "files",
    "hash_type": "sha256",
    "allow_symlinks": False,
    "ignore_paths": [],
}


@dataclass(frozen=True)
class Signed:
    """The verified content of a signature file: the signer, and the digest of every
    file.
    """

    key_id: str
    name: str
    digests: Mapping[str, str]
    has_low_s: bool


def sign(name: str, digests: Mapping[str, str], signer: Signer) -> bytes:
    """Return a signature file over a directory `name` whose files have these SHA-256
    digests.

    `verify(sign(name, digests, signer), keys)` gives back `name` and `digests`.
    """
    payload = strict_json.dump(_statement(name, digests))
    algorithm = ec.ECDSA(hashes.SHA256(), deterministic_signing=True)
    r, s = decode_dss_signature(signer.key.sign(_encode(payload), algorithm))
    signature = encode_dss_signature(r, min(s, _ORDER - s))
    return strict_json.dump(_bundle(signer.key_id, payload, signature))


def verify(data: bytes, keys: Mapping[str, ec.EllipticCurvePublicKey]) -> Signed:
    """Verify a signature file against trusted public keys by id; return what it signs.

    Raises:
        VerificationError: `signature-malformed`, `untrusted-key` or
            `signature-mismatch`.
    """
    # 1. size, 2. shape
    hint, payload, signature = _open_bundle(data)
    # 3. trust
    if hint not in keys:
        trusted = ", ".join(sorted(keys)) or "none"
        raise VerificationError(
            "untrusted-key",
            f"signed with key {hint}, which is not trusted (trusted: {trusted})",
            where=SIGNATURE_FILE,
            hint="if you trust the signer, pass its public key: --trust PUB, "
            "in Python trust=PUB",
        )
    # 4. signature
    try:
        keys[hint].verify(signature, _encode(payload), ec.ECDSA(hashes.SHA256()))
    except InvalidSignature:
        raise VerificationError(
            "signature-mismatch",
            f"the signature was not made by key {hint} over this content",
            where=SIGNATURE_FILE,
        ) from None
    # 5. statement
    name, digests = _read_statement(payload)
    return Signed(hint, name, digests, _low_s(signature))


def _encode(payload: bytes) -> bytes:
    """Return DSSE's pre-authentication encoding of the payload, which is what is
    signed.
    """
    head = f"DSSEv1 {len(_PAYLOAD_TYPE)} {_PAYLOAD_TYPE} {len(payload)} "
    return head.encode("ascii") + payload


def _bundle(hint: str, payload: bytes, signature: bytes) -> dict[str, object]:
    """Return the Sigstore bundle, as JSON, of a payload and its signature."""
    return {
        "mediaType": _BUNDLE_TYPE,
        "verificationMaterial": {"publicKey": {"hint": hint}, "tlogEntries": []},
        "dsseEnvelope": {
            "payload": base64.b64encode(payload).decode("ascii"),
            "payloadType": _PAYLOAD_TYPE,
            "signatures": [
                {"keyid": "", "sig": base64.b64encode(signature).decode("ascii")}
            ],
        },
    }


_text = fields.text()
_digest = fields.text("[0-9a-f]{64}", "a SHA-256 in hexadecimal")
_bundle_shape = fields.record(
    {
        "mediaType": fields.one_of(_BUNDLE_TYPE),
        "verificationMaterial": fields.record(
            {"publicKey": fields.record({"hint": _digest})}
        ),
        "dsseEnvelope": fields.record(
            {
                "payload": _text,
                "payloadType": fields.one_of(_PAYLOAD_TYPE),
                "signatures": fields.listing(fields.record({"sig": _text}), least=1),
            }
        ),
    }
)


def _open_bundle(data: bytes) -> tuple[str, bytes, bytes]:
    """Parse a signature file strictly; return key id, payload and signature."""
    try:
        bundle = strict_json.parse(data)
        _bundle_shape(bundle)
        envelope = bundle["dsseEnvelope"]
        hint = bundle["verificationMaterial"]["publicKey"]["hint"]
        payload = base64.b64decode(envelope["payload"], validate=True)
        signature = base64.b64decode(envelope["signatures"][0]["sig"], validate=True)
        is_der = encode_dss_signature(*decode_dss_signature(signature)) == signature
    except ValueError as error:
        raise _malformed_signature(str(error)) from None
    if not is_der:
        raise _malformed_signature("is not in DER form")
    # One spelling: this excludes further signatures, unknown fields and loose base64.
    if strict_json.dump(_bundle(hint, payload, signature)) != data:
        raise _malformed_signature("is not a bundle of one signature in canonical form")
    return hint, payload, signature


def _statement(name: str, digests: Mapping[str, str]) -> dict[str, object]:
    """Return the in-toto statement, as JSON, that names files with their digests."""
    resources = [
        {"name": path, "algorithm": "sha256", "digest": digests[path]}
        for path in sorted(digests)
    ]
    joined = b"".join(bytes.fromhex(digests[path]) for path in sorted(digests))
    root = hashlib.sha256(joined).hexdigest()
    return {
        "_type": _STATEMENT_TYPE,
        "subject": [{"name": name, "digest": {"sha256": root}}],
        "predicateType": _PREDICATE_TYPE,
        "predicate": {"serialization": _SERIALIZATION, "resources": resources},
    }


_statement_shape = fields.record(
    {
        "subject": fields.listing(fields.record({"name": _text}), least=1),
        "predicate": fields.record(
            {
                "resources": fields.listing(
                    fields.record({"name": _text, "digest": _digest})
                )
            }
        ),
    }
)


def _low_s(signature: bytes) -> bool:
    """Return whether the s of an ECDSA signature is in the lower half of the order."""
    return decode_dss_signature(signature)[1] <= _ORDER // 2


def _read_statement(payload: bytes) -> tuple[str, dict[str, str]]:
    """Parse the signed statement strictly; return the name and the digests."""
    try:
        statement = strict_json.parse(payload)
        _statement_shape(statement)
    except ValueError as error:
        raise _malformed_signature(f"payload {error}") from None
    name = statement["subject"][0]["name"]
    resources = statement["predicate"]["resources"]
    digests = {item["name"]: item["digest"] for item in resources}
    # Built again from what was understood, the statement must be the same. That covers
    # its types, the serialization, repeated names, their order and the root digest.
    if payload != strict_json.dump(_statement(name, digests)):
        raise _malformed_signature("payload is not a statement of model signing v1.0")
    return name, digests


def _malformed_signature(message: str) -> VerificationError:
    """Return the error for a malformed signature file."""
    return VerificationError(
        "signature-malformed", f"the signature {message}", where=SIGNATURE_FILE
    )
