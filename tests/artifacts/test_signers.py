"""Where a private key may be, and in which forms."""

import base64
import os
import threading

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from aotc.artifacts import keys
from aotc.artifacts.signers import read_signer, require_no_content, signer_of
from aotc.core import options
from aotc.errors import AotcError, InputError
from tests.refusals import refused

SIGNER = keys.generate()
FORMATS = serialization.PrivateFormat


def pem(form=FORMATS.PKCS8, encryption=None):
    return SIGNER.key.private_bytes(
        serialization.Encoding.PEM, form, encryption or serialization.NoEncryption()
    ).decode()


PEM = pem()
FRAME = "-----{} EC PARAMETERS-----\n"
PARAMETERS = FRAME.format("BEGIN") + "BggqhkjOPQMBBw==\n" + FRAME.format("END")
CONTENTS = {
    "PEM": PEM,
    "SEC 1": pem(FORMATS.TraditionalOpenSSL),
    "as openssl ecparam writes it": PARAMETERS + pem(FORMATS.TraditionalOpenSSL),
    "OpenSSH": pem(FORMATS.OpenSSH),
    "escaped": PEM.replace("\n", "\\n"),
    "escaped twice": PEM.replace("\n", "\\\\n"),
    "Windows": PEM.replace("\n", "\r\n"),
    "blanks": PEM.replace("\n", " ").strip(),
    "joined": PEM.replace("\n", ""),
    "quoted": f'"{PEM}"',
    "base64 of PEM": base64.b64encode(PEM.encode()).decode(),
    "base64 of DER": "".join(PEM.splitlines()[1:-1]),
}


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "release.key"
    path.write_text(PEM)
    path.chmod(0o600)
    return path


@pytest.mark.parametrize("form", CONTENTS)
def test_a_variable_holds_a_key_in_any_form(form, monkeypatch):
    monkeypatch.setenv("CI_KEY", CONTENTS[form])
    assert read_signer("env:CI_KEY").key_id == SIGNER.key_id
    with options.override("AOTC_SIGNING_KEY", CONTENTS[form]):
        assert signer_of(None).key_id == SIGNER.key_id


@pytest.mark.parametrize("form", CONTENTS)
def test_a_file_holds_a_key_in_any_form(form, file):
    file.write_text(CONTENTS[form])
    assert keys.Signer.from_file(file).key_id == SIGNER.key_id


def test_a_file_in_der_form_is_read(file):
    der = SIGNER.key.private_bytes(
        serialization.Encoding.DER, FORMATS.PKCS8, serialization.NoEncryption()
    )
    file.write_bytes(der)
    assert read_signer(str(file)).key_id == SIGNER.key_id


def test_the_setting_names_a_place_as_an_option_does(file, monkeypatch):
    monkeypatch.setenv("CI_KEY", PEM)
    for place in (str(file), "env:CI_KEY"):
        with options.override("AOTC_SIGNING_KEY", place):
            assert signer_of(None).key_id == SIGNER.key_id


def test_a_pipe_is_read_to_its_end():
    read, write = os.pipe()

    def give():
        with open(write, "w") as stream:
            for line in PEM.splitlines(keepends=True):
                stream.write(line)
                stream.flush()

    thread = threading.Thread(target=give)
    thread.start()
    assert read_signer(f"fd:{read}").key_id == SIGNER.key_id
    thread.join()
    with pytest.raises(OSError):  # noqa: PT011
        os.fstat(read)  # closed, so that no child inherits it


@pytest.mark.parametrize(
    ("place", "code"),
    [
        ("env:", "key-missing"),
        ("env:NOT_SET", "key-missing"),
        ("env:EMPTY", "key-missing"),
        ("env:A B", "key-missing"),
        ("env:WORDS", "key-unreadable"),
        ("env:PUBLIC", "key-unreadable"),
        ("env:P384", "key-unreadable"),
        ("env:PASSWORD", "key-unreadable"),
        ("env:DAMAGED", "key-unreadable"),
        ("fd:", "key-missing"),
        ("fd:x", "key-missing"),
        ("fd:-1", "key-missing"),
        ("fd:999", "file-access"),
        ("fd:" + "9" * 5000, "key-missing"),
        ("no.key", "key-missing"),
    ],
)
def test_what_is_no_key_is_refused_and_not_repeated(place, code, monkeypatch):
    p384 = ec.generate_private_key(ec.SECP384R1()).private_bytes(
        serialization.Encoding.PEM, FORMATS.PKCS8, serialization.NoEncryption()
    )
    values = {
        "EMPTY": "",
        "WORDS": "correct horse battery staple",
        "PUBLIC": SIGNER.public_pem.decode(),
        "P384": p384.decode(),
        "PASSWORD": pem(encryption=serialization.BestAvailableEncryption(b"x")),
        "DAMAGED": PEM[:80] + "A" + PEM[81:],
    }
    for name, value in values.items():
        monkeypatch.setenv(name, value)
    said = refused(AotcError, code, read_signer, place)
    assert not [each for each in values.values() if each and each[5:28] in said]
    if place == "env:PASSWORD":
        assert "openssl pkey" in said


def test_a_setting_that_is_neither_is_not_repeated():
    with options.override("AOTC_SIGNING_KEY", "hunter2"):
        assert "hunter2" not in refused(AotcError, "key-missing", signer_of, None)
    for text in ("hunter2hunter2", "x" * 5000, "a/b\0c"):
        assert text not in refused(
            AotcError, "key-missing", read_signer, text, "the setting"
        )


def test_an_argument_may_not_be_the_content():
    for content in CONTENTS.values():
        said = refused(AotcError, "key-exposed", require_no_content, content)
        assert "AOTC_SIGNING_KEY" in said
        assert PEM.splitlines()[1] not in said


def test_python_may_give_the_content_or_a_signer():
    assert read_signer(PEM).key_id == SIGNER.key_id
    assert read_signer(SIGNER) is SIGNER
    with pytest.raises(InputError):
        read_signer(PEM[:100])
