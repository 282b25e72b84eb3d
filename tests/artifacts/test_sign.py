"""Signatures, keys and trust."""

import base64
import hashlib
import json
import multiprocessing
import os
import stat

import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, utils

from aotc.artifacts import keys, sign, strict_json
from aotc.artifacts.trust import Trust, development_key
from aotc.errors import InputError, SetupError, VerificationError
from tests.refusals import refused

DIGESTS = {"manifest.json": "aa" * 32, "variants/a.vmfb": "bb" * 32}


@pytest.fixture
def signature(signer):
    return sign.sign("small.aotc", DIGESTS, signer)


def resigned(signer, change):
    """A signature by the right key over a statement that was changed before."""
    bundle = json.loads(sign.sign("small.aotc", DIGESTS, signer))
    envelope = bundle["dsseEnvelope"]
    statement = json.loads(base64.b64decode(envelope["payload"]))
    change(statement)
    payload = strict_json.dump(statement)
    kind = envelope["payloadType"]
    encoded = f"DSSEv1 {len(kind)} {kind} {len(payload)} ".encode() + payload
    value = signer.key.sign(encoded, ec.ECDSA(hashes.SHA256()))
    envelope["payload"] = base64.b64encode(payload).decode()
    envelope["signatures"][0]["sig"] = base64.b64encode(value).decode()
    return strict_json.dump(bundle)


def test_gives_back_what_was_signed(signature, signer, trust):
    signed = sign.verify(signature, trust.keys)
    assert signed == sign.Signed(signer.key_id, "small.aotc", DIGESTS, True)


def spelled(signature, change):
    """The same signature with other bytes; `change` gets r and s."""
    bundle = json.loads(signature)
    row = bundle["dsseEnvelope"]["signatures"][0]
    value = change(*utils.decode_dss_signature(base64.b64decode(row["sig"])))
    row["sig"] = base64.b64encode(value).decode()
    return strict_json.dump(bundle)


def high_s(r, s):
    return utils.encode_dss_signature(r, sign._ORDER - s)


def long_r(r, s):
    """DER with a length in two bytes, where one does."""
    body = utils.encode_dss_signature(r, s)[2:]
    return b"\x30\x81" + bytes([len(body)]) + body


def test_writes_a_low_s_and_tells_when_it_is_not(signer, trust):
    for number in range(20):
        digests = {"manifest.json": f"{number:064x}"}
        signature = sign.sign("x", digests, signer)
        assert sign.verify(signature, trust.keys).has_low_s
        assert not sign.verify(spelled(signature, high_s), trust.keys).has_low_s


@pytest.mark.parametrize(
    "change",
    [
        long_r,
        lambda r, s: utils.encode_dss_signature(r, s) + b"\0",
        lambda r, s: utils.encode_dss_signature(r, s)[:-1],
        lambda r, s: b"",
    ],
)
def test_refuses_what_is_not_der(signature, trust, change):
    data = spelled(signature, change)
    refused(VerificationError, "signature-malformed", sign.verify, data, trust.keys)


def test_is_deterministic(signature, signer):
    assert sign.sign("small.aotc", dict(reversed(DIGESTS.items())), signer) == signature


def test_follows_the_model_signing_format(signature, signer):
    bundle = json.loads(signature)
    envelope = bundle["dsseEnvelope"]
    statement = json.loads(base64.b64decode(envelope["payload"]))
    root = hashlib.sha256(bytes.fromhex("aa" * 32 + "bb" * 32)).hexdigest()
    assert bundle["mediaType"] == "application/vnd.dev.sigstore.bundle.v0.3+json"
    assert envelope["payloadType"] == "application/vnd.in-toto+json"
    assert statement["subject"] == [{"name": "small.aotc", "digest": {"sha256": root}}]
    assert statement["predicateType"] == "https://model_signing/signature/v1.0"
    hint = hashlib.sha256(signer.public_pem).hexdigest()
    assert bundle["verificationMaterial"]["publicKey"]["hint"] == hint


def test_refuses_a_key_that_is_not_trusted(signature, signer):
    other = keys.generate()
    trusted = Trust.of(other.public_pem).keys
    message = refused(
        VerificationError, "untrusted-key", sign.verify, signature, trusted
    )
    assert signer.key_id in message
    assert other.key_id in message


def test_refuses_a_key_under_the_id_of_another(signature, signer):
    trusted = {signer.key_id: keys.generate().key.public_key()}
    refused(VerificationError, "signature-mismatch", sign.verify, signature, trusted)


def test_refuses_every_single_bit_flip(signature, trust):
    for offset in range(len(signature)):
        data = bytearray(signature)
        data[offset] ^= 1 << offset % 8
        with pytest.raises(VerificationError):
            sign.verify(bytes(data), trust.keys)


@pytest.mark.parametrize(
    "change",
    [
        lambda b: b["dsseEnvelope"]["signatures"].append({"sig": "AA==", "keyid": ""}),
        lambda b: b["dsseEnvelope"]["signatures"].clear(),
        lambda b: b["dsseEnvelope"].update(payloadType="text/plain"),
        lambda b: b["dsseEnvelope"].update(payload="%"),
        lambda b: b.update(mediaType="application/json"),
        lambda b: b.update(more=1),
        lambda b: b.pop("verificationMaterial"),
    ],
)
def test_refuses_other_shapes(signature, trust, change):
    bundle = json.loads(signature)
    change(bundle)
    data = strict_json.dump(bundle)
    refused(VerificationError, "signature-malformed", sign.verify, data, trust.keys)


@pytest.mark.parametrize(
    "change",
    [
        lambda s: s.update(_type="x"),
        lambda s: s.update(predicateType="https://model_signing/Digests/v0.1"),
        lambda s: s["subject"].append(s["subject"][0]),
        lambda s: s["subject"][0]["digest"].update(sha256="00" * 32),
        lambda s: s["predicate"]["serialization"].update(ignore_paths=["evil"]),
        lambda s: s["predicate"]["serialization"].update(allow_symlinks=True),
        lambda s: s["predicate"]["resources"].reverse(),
        lambda s: s["predicate"]["resources"].append(s["predicate"]["resources"][1]),
        lambda s: s["predicate"]["resources"][0].update(algorithm="md5"),
        lambda s: s["predicate"]["resources"][0].update(digest="zz"),
        lambda s: s["predicate"].pop("resources"),
    ],
)
def test_refuses_other_statements_even_if_well_signed(signer, trust, change):
    data = resigned(signer, change)
    refused(VerificationError, "signature-malformed", sign.verify, data, trust.keys)


def test_parses_no_payload_before_its_signature_is_good(signature, trust, monkeypatch):
    seen = []
    parse = strict_json.parse
    monkeypatch.setattr(strict_json, "parse", lambda d: seen.append(d) or parse(d))
    bundle = json.loads(signature)
    bundle["dsseEnvelope"]["payload"] = "AAAA"
    data = strict_json.dump(bundle)
    refused(VerificationError, "signature-mismatch", sign.verify, data, trust.keys)
    assert seen == [data]


def test_writes_private_keys_for_the_owner_only(tmp_path):
    path = tmp_path / "release.key"
    signer = keys.write_key_pair(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.stat().st_nlink == 1
    assert keys.Signer.from_file(path).key_id == signer.key_id
    assert (tmp_path / "release.pub").read_bytes() == signer.public_pem
    assert sorted(p.name for p in tmp_path.iterdir()) == ["release.key", "release.pub"]


def test_never_overwrites_a_key(tmp_path):
    path = tmp_path / "release.key"
    keys.write_key_pair(path)
    before = path.read_bytes()
    refused(InputError, "key-exists", keys.write_key_pair, path)
    (tmp_path / "release.pub").unlink()
    refused(InputError, "key-exists", keys.write_key_pair, path)
    assert path.read_bytes() == before


def test_refuses_a_key_that_others_can_read(tmp_path):
    path = tmp_path / "release.key"
    keys.write_key_pair(path)
    path.chmod(0o640)
    message = refused(InputError, "key-exposed", keys.Signer.from_file, path)
    assert "chmod 600" in message


def test_a_half_of_a_key_pair_in_place_of_the_other_is_called_so(tmp_path):
    keys.write_key_pair(tmp_path / "x.key")
    message = refused(InputError, "key-unreadable", Trust.of, tmp_path / "x.key")
    assert "got a private key" in message
    public = tmp_path / "x.pub"  # which anyone may read
    message = refused(InputError, "key-unreadable", keys.Signer.from_file, public)
    assert "got a public key" in message


@pytest.mark.parametrize("text", [b"", b"-----BEGIN PRIVATE KEY-----\n", b"\0" * 99])
def test_refuses_what_is_no_key(tmp_path, text):
    path = tmp_path / "x.key"
    path.write_bytes(text)
    path.chmod(0o600)
    refused(InputError, "key-unreadable", keys.Signer.from_file, path)
    refused(InputError, "key-unreadable", Trust.of, path)
    refused(InputError, "key-missing", keys.Signer.from_file, tmp_path / "none")
    refused(InputError, "key-missing", Trust.of, tmp_path / "none")


@pytest.mark.parametrize("make", [os.mkfifo, lambda p: p.symlink_to("/dev/zero")])
def test_waits_for_no_pipe_or_device_in_place_of_a_key(tmp_path, make):
    make(tmp_path / "x")
    refused(InputError, "key-unreadable", Trust.of, tmp_path / "x")
    refused(InputError, "key-unreadable", keys.Signer.from_file, tmp_path / "x")


@pytest.mark.parametrize(
    "key",
    [ed25519.Ed25519PrivateKey.generate(), ec.generate_private_key(ec.SECP384R1())],
)
def test_refuses_other_kinds_of_keys(tmp_path, key):
    path = tmp_path / "x.key"
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    path.chmod(0o600)
    message = refused(InputError, "key-unreadable", keys.Signer.from_file, path)
    assert "P-256" in message


def test_trusts_only_the_own_development_key_by_default(home):
    assert not Trust.default().keys
    signer = development_key()
    assert signer.development
    assert list(Trust.default().keys) == [signer.key_id]
    assert development_key().key_id == signer.key_id
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    names = sorted(p.name for p in home.iterdir())
    assert names == ["development.key", "development.pub"]


def test_refuses_a_development_key_that_others_can_read_or_replace(home):
    development_key()
    (home / "development.key").chmod(0o604)
    refused(InputError, "key-exposed", development_key)
    refused(InputError, "key-exposed", Trust.default)
    (home / "development.key").chmod(0o600)
    home.chmod(0o777)
    refused(InputError, "key-exposed", development_key)


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="needs POSIX users")
def test_refuses_a_development_key_of_another_user(monkeypatch):
    development_key()
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    refused(InputError, "key-exposed", development_key)


def _key_id(_):
    return development_key().key_id


def test_processes_that_race_get_one_development_key(home):
    with multiprocessing.get_context("fork").Pool(8) as pool:
        assert len(set(pool.map(_key_id, range(8), chunksize=1))) == 1
    names = sorted(p.name for p in home.iterdir())
    assert names == ["development.key", "development.pub"]


def test_leaves_no_part_of_a_key_when_the_disk_is_full(home, monkeypatch):
    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    refused(SetupError, "cannot-write", development_key)
    assert not list(home.iterdir())


def test_takes_trust_as_file_or_text(signer, tmp_path):
    path = tmp_path / "a.pub"
    path.write_bytes(signer.public_pem)
    for source in (path, str(path), signer.public_pem, signer.public_pem.decode()):
        assert list(Trust.parse(source).keys) == [signer.key_id]
    trust = Trust.of(path, keys.generate().public_pem)
    assert Trust.parse(trust) is trust
    assert len(trust.keys) == 2


def test_the_public_half_of_the_development_key_lies_beside_it(tmp_path, monkeypatch):
    monkeypatch.setenv("AOTC_HOME", str(tmp_path))
    signer = development_key()
    assert (tmp_path / "development.pub").read_bytes() == signer.public_pem
    assert development_key().key_id == signer.key_id
