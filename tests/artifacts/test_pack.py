"""Writing bundles, and refusing changed ones."""

import base64
import hashlib
import itertools
import json
import os
import shutil
import threading
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import utils
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aotc.artifacts import files as disk
from aotc.artifacts import keys, pack, sign, strict_json
from aotc.artifacts.pack import read_bundle, retry_if_replaced, write_bundle
from aotc.artifacts.trust import Trust, development_key
from aotc.errors import AotcError, InputError, SetupError, VerificationError
from tests.refusals import refused


def load_all(bundle):
    return {path: bytes(bundle.load(path)) for path in bundle.manifest.files}


def tree(folder):
    return {
        str(p.relative_to(folder)): p.read_bytes()
        for p in folder.rglob("*")
        if p.is_file()
    }


def test_gives_back_what_was_packed(bundle, trust, signer, contents):
    read = read_bundle(bundle, trust)
    assert bundle.name == "small-1.0.0.aotc"
    assert read.key_id == signer.key_id
    assert read.manifest.channel == "release"
    assert load_all(read) == contents
    read.check()
    files = read.manifest.files
    assert files["weights.irpa"].role == "weights"
    assert files["variants/a.vmfb"].media_type == "application/vnd.iree.vmfb"


def test_equal_builds_give_equal_bytes(bundle, data, contents, signer, tmp_path):
    again = write_bundle(tmp_path / "again", data, contents, signer)
    assert tree(again) == tree(bundle)


def test_copies_large_files_from_paths(bundle, data, contents, signer, tmp_path):
    source = tmp_path / "w"
    source.write_bytes(contents["weights.irpa"])
    files = contents | {"weights.irpa": source}
    assert tree(write_bundle(tmp_path / "b", data, files, signer)) == tree(bundle)


@pytest.mark.parametrize("large", [disk._PART, 2 * disk._PART + 1])
def test_hashes_large_files_while_it_copies_them(
    data, contents, signer, trust, tmp_path, large
):
    weights = os.urandom(large)
    path = write_bundle(tmp_path, data, contents | {"weights.irpa": weights}, signer)
    bundle = read_bundle(path, trust)
    assert bytes(bundle.load("weights.irpa")) == weights
    with bundle.sealed_path("weights.irpa") as sealed:
        assert Path(sealed).read_bytes() == weights
    for place in (0, disk._PART - 1, large - 1):
        changed = bytearray(weights)
        changed[place] ^= 1
        (path / "weights.irpa").write_bytes(changed)
        refused(VerificationError, "digest-mismatch", bundle.load, "weights.irpa")


def test_survives_renaming_and_a_link_to_the_bundle(bundle, trust, tmp_path):
    renamed = bundle.rename(tmp_path / "renamed")
    (tmp_path / "link").symlink_to(renamed)
    read_bundle(tmp_path / "link", trust).check()


def test_loaded_bytes_cannot_change(bundle, trust, contents):
    buffer = read_bundle(bundle, trust).load("weights.irpa")
    (bundle / "weights.irpa").write_bytes(b"\0" * 2048)
    assert bytes(buffer) == contents["weights.irpa"]
    with pytest.raises((TypeError, ValueError)):
        buffer[0] = 1


@settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.data())
def test_refuses_a_bit_flip_anywhere(bundle, trust, data):
    path = data.draw(st.sampled_from(sorted(tree(bundle))))
    original = (bundle / path).read_bytes()
    if not original:
        return
    bit = data.draw(st.integers(0, 8 * len(original) - 1))
    changed = bytearray(original)
    changed[bit // 8] ^= 1 << bit % 8
    (bundle / path).write_bytes(changed)
    try:
        with pytest.raises(VerificationError):
            read_bundle(bundle, trust).check()
        with pytest.raises(VerificationError):
            load_all(read_bundle(bundle, trust))
    finally:
        (bundle / path).write_bytes(original)


@pytest.mark.parametrize(
    "path", ["manifest.json", "signature.json", "weights.irpa", "variants/a.vmfb"]
)
def test_refuses_a_truncated_or_longer_file(bundle, trust, path):
    original = (bundle / path).read_bytes()
    for changed in (original[:-1], b"", original + b"\0"):
        (bundle / path).write_bytes(changed)
        with pytest.raises(VerificationError):
            read_bundle(bundle, trust)


def _link(bundle):
    (bundle / "weights.irpa").rename(bundle.parent / "w")
    (bundle / "weights.irpa").symlink_to(bundle.parent / "w")


def _linked_folder(bundle):
    (bundle / "variants").rename(bundle.parent / "v")
    (bundle / "variants").symlink_to(bundle.parent / "v")


def _second_name(bundle):
    os.link(bundle / "weights.irpa", bundle.parent / "other-name")


def _pipe(bundle):
    (bundle / "weights.irpa").unlink()
    os.mkfifo(bundle / "weights.irpa")


def _folder_for_file(bundle):
    (bundle / "weights.irpa").unlink()
    (bundle / "weights.irpa").mkdir()


@pytest.mark.parametrize(
    ("attack", "code"),
    [
        (lambda b: (b / "extra").write_bytes(b""), "file-unlisted"),
        (lambda b: (b / ".gitignore").write_bytes(b""), "file-unlisted"),
        (lambda b: ((b / ".git").mkdir(), (b / ".git/x").touch()), "file-unlisted"),
        (lambda b: (b / "empty").mkdir(), "file-unlisted"),
        (lambda b: (b / "variants/a/b").mkdir(parents=True), "file-unlisted"),
        (lambda b: (b / "weights.irpa").unlink(), "file-missing"),
        (lambda b: shutil.rmtree(b / "variants"), "file-missing"),
        (lambda b: (b / "manifest.json").unlink(), "manifest-missing"),
        (lambda b: (b / "signature.json").unlink(), "unsigned"),
        (_link, "file-irregular"),
        (_linked_folder, "file-irregular"),
        (_second_name, "file-irregular"),
        (_pipe, "file-irregular"),
        (_folder_for_file, "file-missing"),
    ],
)
def test_refuses_a_changed_directory(bundle, trust, attack, code):
    attack(bundle)
    refused(VerificationError, code, read_bundle, bundle, trust)


@pytest.mark.parametrize("attack", [_link, _second_name, _pipe, _folder_for_file])
def test_refuses_a_file_swapped_after_the_signature_check(bundle, trust, attack):
    opened = read_bundle(bundle, trust)
    attack(bundle)
    refused(VerificationError, "file-irregular", opened.load, "weights.irpa")
    refused(VerificationError, "file-irregular", opened.check)


def test_refuses_a_file_that_vanishes_or_grows_meanwhile(bundle, trust):
    opened = read_bundle(bundle, trust)
    (bundle / "weights.irpa").write_bytes(b"\0" * 5000)
    refused(VerificationError, "size-mismatch", opened.load, "weights.irpa")
    (bundle / "weights.irpa").unlink()
    refused(VerificationError, "file-missing", opened.load, "weights.irpa")


def test_refuses_a_manifest_of_another_bundle(bundle, data, contents, signer, trust):
    data["version"] = "0.9.0"
    old = write_bundle(bundle.parent, data, contents, signer)
    shutil.copy(old / "manifest.json", bundle / "manifest.json")
    refused(VerificationError, "digest-mismatch", read_bundle, bundle, trust)


def test_refuses_a_signature_that_was_given_a_high_s(bundle, trust):
    path = bundle / "signature.json"
    document = json.loads(path.read_bytes())
    row = document["dsseEnvelope"]["signatures"][0]
    r, s = utils.decode_dss_signature(base64.b64decode(row["sig"]))
    other = utils.encode_dss_signature(r, sign._ORDER - s)
    row["sig"] = base64.b64encode(other).decode()
    path.write_bytes(strict_json.dump(document))
    refused(VerificationError, "signature-malformed", read_bundle, bundle, trust)


def test_refuses_weights_of_another_bundle(bundle, data, contents, signer, trust):
    files = contents | {"weights.irpa": contents["weights.irpa"][::-1]}
    data["version"] = "0.9.0"
    old = write_bundle(bundle.parent, data, files, signer)
    shutil.copy(old / "weights.irpa", bundle / "weights.irpa")
    opened = read_bundle(bundle, trust)
    refused(VerificationError, "digest-mismatch", opened.load, "weights.irpa")


def test_refuses_a_signature_that_lists_other_files(bundle, signer, trust):
    signature = (bundle / "signature.json").read_bytes()
    digests = dict(sign.verify(signature, trust.keys).digests)
    for change in ({"extra": "00" * 32}, {"weights.irpa": "00" * 32}):
        text = sign.sign(bundle.name, digests | change, signer)
        (bundle / "signature.json").write_bytes(text)
        refused(VerificationError, "signature-mismatch", read_bundle, bundle, trust)


def test_refuses_signed_names_that_lead_outside(bundle, signer, trust):
    manifest = json.loads((bundle / "manifest.json").read_bytes())
    manifest["files"][0]["path"] = "../outside"
    raw = strict_json.dump(manifest)
    (bundle / "manifest.json").write_bytes(raw)
    digests = {f["path"]: f["sha256"] for f in manifest["files"]}
    digests["manifest.json"] = hashlib.sha256(raw).hexdigest()
    (bundle / "signature.json").write_bytes(sign.sign("x", digests, signer))
    refused(VerificationError, "manifest-invalid", read_bundle, bundle, trust)


def test_refuses_another_signer(bundle, signer):
    other = keys.generate()
    message = refused(
        VerificationError,
        "untrusted-key",
        read_bundle,
        bundle,
        Trust.of(other.public_pem),
    )
    assert signer.key_id in message
    assert other.key_id in message


def test_names_what_is_not_a_bundle(tmp_path):
    refused(InputError, "bundle-missing", read_bundle, tmp_path / "none")
    (tmp_path / "file").write_text("x")
    refused(InputError, "bundle-not-directory", read_bundle, tmp_path / "file")
    (tmp_path / "empty").mkdir()
    refused(InputError, "bundle-empty", read_bundle, tmp_path / "empty")


def test_a_development_key_vouches_for_development_only(data, contents, tmp_path):
    signer = development_key()
    own = write_bundle(tmp_path / "a", data, contents, signer)
    assert read_bundle(own).manifest.channel == "development"
    claims = keys.Signer(signer.key)
    released = write_bundle(tmp_path / "b", data, contents, claims)
    message = refused(VerificationError, "channel-mismatch", read_bundle, released)
    assert "release" in message
    assert read_bundle(released, Trust.of(signer.public_pem)).key_id


def test_unsigned_bundles_must_be_asked_for(data, contents, tmp_path, bundle, trust):
    unsigned = write_bundle(tmp_path / "u", data, contents, None)
    assert "--allow-unsigned" in refused(
        VerificationError, "unsigned", read_bundle, unsigned
    )
    read = read_bundle(unsigned, allow_unsigned=True)
    assert read.key_id is None
    read.check()
    (unsigned / "weights.irpa").write_bytes(b"\0" * 2048)
    refused(VerificationError, "digest-mismatch", read.check)
    # Taking the signature away does not make a signed bundle an unsigned one, …
    (bundle / "signature.json").rename(tmp_path / "s")
    refused(
        VerificationError,
        "signature-missing",
        read_bundle,
        bundle,
        trust,
        allow_unsigned=True,
    )
    # … and a signature that is there is always checked.
    (tmp_path / "s").rename(unsigned / "signature.json")
    with pytest.raises(VerificationError):
        read_bundle(unsigned, trust, allow_unsigned=True)


def test_keeps_an_existing_bundle_unless_forced(bundle, data, contents, signer, trust):
    before = tree(bundle)
    files = contents | {"notes.txt": b"new"}
    args = (bundle.parent, data, files, signer)
    assert "--force" in refused(InputError, "output-exists", write_bundle, *args)
    assert tree(bundle) == before
    write_bundle(*args, force=True)
    assert bytes(read_bundle(bundle, trust).load("notes.txt")) == b"new"
    assert [p.name for p in bundle.parent.iterdir()] == [bundle.name]


def test_a_bundle_is_there_and_whole_while_it_is_replaced(
    bundle, data, contents, signer, trust
):
    """Another process builds again and again; every load succeeds."""
    stop = threading.Event()

    def build():
        for number in itertools.count():
            if stop.is_set():
                return
            files = contents | {"notes.txt": b"%d" % number}
            write_bundle(bundle.parent, data, files, signer, force=True)

    builder = threading.Thread(target=build)
    builder.start()
    try:
        for _ in range(100):
            retry_if_replaced(bundle, lambda: load_all(read_bundle(bundle, trust)))
    finally:
        stop.set()
        builder.join()


def test_is_read_again_when_a_file_that_was_listed_is_gone(
    bundle, data, contents, signer, trust, monkeypatch
):
    def replace_first(status, path):
        monkeypatch.undo()
        write_bundle(bundle.parent, data, contents, signer, force=True)

    monkeypatch.setattr(disk, "_check_regular", replace_first)
    found = retry_if_replaced(bundle, lambda: load_all(read_bundle(bundle, trust)))
    assert found == contents


def test_says_where_a_bundle_cannot_be_replaced_in_one_step(
    bundle, data, contents, signer, trust, monkeypatch
):
    monkeypatch.setattr(pack, "exchange", lambda *_: False)
    with pytest.warns(UserWarning, match="missing for a moment"):
        write_bundle(bundle.parent, data, contents, signer, force=True)
    read_bundle(bundle, trust).check()
    assert [p.name for p in bundle.parent.iterdir()] == [bundle.name]


def test_never_replaces_what_is_not_a_bundle(data, contents, signer, tmp_path):
    target = tmp_path / "precious.aotc"
    target.mkdir()
    (target / "thesis.txt").write_text("x")
    args = (target, data, contents, signer)
    refused(InputError, "not-a-bundle", write_bundle, *args, force=True)
    assert tree(target) == {"thesis.txt": b"x"}
    link = tmp_path / "link.aotc"
    link.symlink_to(tmp_path / "nowhere")
    args = (link, data, contents, signer)
    refused(InputError, "not-a-bundle", write_bundle, *args, force=True)


@pytest.mark.parametrize(
    "path", ["../x", "/x", ".git/x", "a/.git", "a//b", "", "manifest.json", "a b"]
)
def test_refuses_to_write_bad_names(data, contents, signer, tmp_path, path):
    files = contents | {path: b""}
    args = (tmp_path / "o", data, files, signer)
    refused(InputError, "bad-file-name", write_bundle, *args)
    assert not list((tmp_path / "o").iterdir())


def attempt(call, *args, **kwargs):
    try:
        call(*args, **kwargs)
    except (SetupError, KeyboardInterrupt) as error:
        return error
    return None


@pytest.mark.parametrize(
    "failure",
    [OSError(28, "No space left on device"), KeyboardInterrupt()],
    ids=["full-disk", "ctrl-c"],
)
@pytest.mark.parametrize("function", ["fsync", "rename"])
@pytest.mark.parametrize("replacing", [False, True], ids=["new", "replacing"])
@pytest.mark.parametrize("after", range(9))
def test_a_failure_leaves_nothing_half_written(
    data, contents, signer, tmp_path, monkeypatch, failure, function, replacing, after
):
    folder, reference = tmp_path / "out", tmp_path / "reference"
    folder.mkdir()
    if replacing:
        write_bundle(folder, data, contents, signer)
    before = tree(folder)
    new = contents | {"notes.txt": b"new"}
    write_bundle(reference, data, new, signer)
    real, calls = getattr(os, function), iter(range(100))

    def failing(*args):
        if next(calls) == after:
            raise failure
        return real(*args)

    with monkeypatch.context() as patch:
        patch.setattr(os, function, failing)
        error = attempt(write_bundle, folder, data, new, signer, force=True)
    if isinstance(error, SetupError):
        assert error.code == "cannot-write"
        assert "No space left" in error.message
    assert tree(folder) == (before if error else tree(reference))
    assert len(list(folder.iterdir())) <= 1


def test_another_folder_is_not_a_bundle_whatever_it_holds(tmp_path):
    (tmp_path / "link").symlink_to("nowhere")
    os.mkfifo(tmp_path / "pipe")
    said = refused(VerificationError, "manifest-missing", read_bundle, tmp_path)
    assert "not a bundle" in said
    assert "NAME-VERSION.aotc" in said


def test_says_why_it_cannot_write(data, contents, signer, tmp_path):
    (tmp_path / "file").write_text("x")
    where = tmp_path / "file" / "out"
    refused(SetupError, "cannot-write", write_bundle, where, data, contents, signer)
    files = contents | {"weights.irpa": tmp_path / "missing"}
    args = (tmp_path / "o", data, files, signer)
    assert "missing" in refused(SetupError, "file-access", write_bundle, *args)
    assert not list((tmp_path / "o").iterdir())


def test_a_manifest_that_does_not_fit_its_files_is_not_written(
    data, contents, signer, tmp_path
):
    del contents["weights.irpa"]
    with pytest.raises(AotcError, match=r"weights\[0\].file"):
        write_bundle(tmp_path / "o", data, contents, signer)
    assert not list((tmp_path / "o").iterdir())
