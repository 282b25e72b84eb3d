"""A private key is shown by no verb, whichever way it was handed over."""

import ast
import base64
import json
import subprocess
import traceback
from pathlib import Path

import click
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

import aotc
from aotc import pipeline
from aotc.artifacts import Signer, Trust, keys, read_bundle
from aotc.cli.main import VERBS, VerbGroup, main
from aotc.core import options
from aotc.errors import AotcError, InputError
from aotc.errors.redaction import redact

ROOT = Path(__file__).parents[2]
KEY = ec.derive_private_key(0xC0FFEE << 200 | 0x1234567890ABCDEF, ec.SECP256R1())
MODEL = """
import os, subprocess
import aotc

inherited = subprocess.run(["env"], capture_output=True, text=True).stdout
assert "PRIVATE" not in inherited + str(dict(os.environ))

@aotc.entry(x=aotc.Spec((2,)))
def double(x):
    return x + x
"""
# what a verb needs before it looks at options
ARGUMENTS = {
    "build": ["m.py"],
    "explain": ["m.py"],
    "quantize": ["m.py", "--recipe", "int8"],
    "parity": ["m.py"],
    "inspect": ["b.aotc"],
    "verify": ["b.aotc"],
    "compat": ["b.aotc", "--self"],
    "run": ["b.aotc"],
    "bench": ["b.aotc"],
    "keygen": ["k"],
    "opt": ["m.mlir"],
    "cache": ["ls"],
    "completion": ["bash"],
}


def pem(key, form=serialization.PrivateFormat.PKCS8, password=None):
    encryption = serialization.NoEncryption()
    if password:
        encryption = serialization.BestAvailableEncryption(password)
    return key.private_bytes(serialization.Encoding.PEM, form, encryption).decode()


PEM = pem(KEY)
BODY = "".join(PEM.splitlines()[1:-1])
FORMS = {
    "PEM": PEM,
    "escaped": PEM.replace("\n", "\\n"),
    "blanks": PEM.replace("\n", " "),
    "joined": PEM.replace("\n", ""),
    "cut": PEM[:110],
    "base64": base64.b64encode(PEM.encode()).decode(),
    "DER": BODY,
}


def pieces(body):
    return {body[at : at + 12] for at in range(len(body) - 11)}


PLANTED = pieces(BODY) | pieces(FORMS["base64"]) | {f"{0xC0FFEE << 200:x}"[:12]}


def leaks(text, planted=PLANTED):
    return {piece for piece in planted if piece in text}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AOTC_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("AOTC_DEBUG", "1")  # tracebacks, too
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    return tmp_path


def written(folder):
    """Names and contents of all files, the keys themselves apart."""
    return "".join(
        f"{path}\n" + ("" if path.is_dir() else path.read_text("latin-1"))
        for path in folder.rglob("*")
        if path.suffix != ".key"
    )


def options_of(verb):
    command = VerbGroup().get_command(click.Context(click.Group()), verb)
    for parameter in command.params:
        if isinstance(parameter, click.Option) and not parameter.is_flag:
            yield parameter.opts[-1]


@pytest.mark.parametrize("verb", VERBS)
def test_no_verb_shows_a_key_given_as_an_argument(verb, folder, capfd):
    given = ARGUMENTS.get(verb, [])
    lines = [[verb, *given, option, PEM] for option in options_of(verb)]
    for form in FORMS.values():
        lines += [
            [verb, form],
            [verb, *form.split()],  # not quoted in a shell
            [verb, *given, "--no-such-option", form],
            [verb, *given, f"--format={form}"],
        ]
    for arguments in lines:
        assert main(arguments) in (0, 1, 2, 4, 5), arguments
        said = "".join(capfd.readouterr())
        assert not leaks(said), arguments
        assert "Traceback" not in said or "[internal]" not in said
    assert not leaks(written(folder))


@pytest.mark.parametrize("name", options.OPTIONS)
def test_no_verb_shows_a_key_in_a_variable(name, folder, capfd, monkeypatch):
    monkeypatch.delenv("AOTC_HOME")
    monkeypatch.setenv("HOME", str(folder))
    is_secret = options.OPTIONS[name].is_secret
    for form in FORMS if is_secret else ("PEM", "cut"):
        monkeypatch.setenv(name, FORMS[form])
        for verb in VERBS:
            for shape in ([], ["--format", "json"]):
                main([verb, *ARGUMENTS.get(verb, []), *shape])
                said = "".join(capfd.readouterr())
                assert not leaks(said), (verb, form)
                assert "[internal]" not in said
    assert not leaks(written(folder))


@pytest.fixture
def children(compile_anew, monkeypatch):
    """What each process that is started gets."""
    found = []

    class Recorded(subprocess.Popen):
        def __init__(self, args, *rest, **named):
            found.append(f"{args} {named.get('env') or dict(options.os.environ)}")
            super().__init__(args, *rest, **named)

    monkeypatch.setattr(subprocess, "Popen", Recorded)
    return found


def test_what_a_build_with_a_key_in_a_variable_leaves_behind(
    folder, capfd, monkeypatch, children
):
    (folder / "m.py").write_text(MODEL)
    (folder / "r.pub").write_bytes(keys.Signer(KEY).public_pem)
    monkeypatch.setenv("AOTC_SIGNING_KEY", FORMS["escaped"])
    monkeypatch.setenv("AOTC_CACHE", str(folder / "cache"))
    build = "build m.py -v --target native --dump ir --report r.json --format json"
    trust = ["--trust", "r.pub"]
    assert main(build.split()) == 0
    assert main(["verify", "m-1.0.0.aotc", *trust]) == 0
    assert main(["inspect", "m-1.0.0.aotc", *trust, "--format", "json"]) == 0
    assert main(["run", "m-1.0.0.aotc", *trust, "--input", "x=[1, 2]"]) == 0
    assert main(["compat", "m-1.0.0.aotc", *trust, "--self"]) == 0
    for form in ("text", "json"):
        assert main(["doctor", "--format", form]) == 0
    assert not leaks("".join(capfd.readouterr()))
    assert not leaks(written(folder))
    assert len(children) > 2  # the model's, the compiler's, the self-check's
    assert not leaks("".join(children))


def test_every_process_is_started_without_the_variables_of_secrets():
    """Read from the sources: a new process must say its environment."""
    started = {"Popen", "run", "call", "check_call", "check_output"}
    found = 0
    for part in ("aotc", "artifacts", "cli", "dialects", "passes"):
        for file in (ROOT / part).rglob("*.py"):
            text = file.read_text()
            for node in ast.walk(ast.parse(text)) if "subprocess" in text else ():
                if (
                    isinstance(node, ast.Call)
                    and isinstance(node.func, ast.Attribute)
                    and node.func.attr in started
                    and ast.unparse(node.func.value) == "subprocess"
                ):
                    found += 1
                    env = [each for each in node.keywords if each.arg == "env"]
                    assert env, f"{file}:{node.lineno}"
    assert found >= 5


def test_processes_do_not_inherit_a_named_variable(monkeypatch):
    monkeypatch.setenv("CI_KEY", PEM)
    monkeypatch.setenv("AOTC_SIGNING_KEY", "release.key")
    with options.hold_secrets():
        assert options.take_secret("CI_KEY") == PEM
        assert options.get("AOTC_SIGNING_KEY") == "release.key"
        assert not {"CI_KEY", "AOTC_SIGNING_KEY"} & set(options.os.environ)
    assert options.os.environ["CI_KEY"] == PEM
    assert not {"CI_KEY", "AOTC_SIGNING_KEY"} & set(options.child_environment())


def test_an_error_in_python_shows_no_key():
    error = InputError("x", f"no {PEM}", where=repr(PEM), hint=FORMS["blanks"])
    assert not leaks(f"{error} {error!r} {error.args} {json.dumps(error.to_json())}")


@pytest.mark.parametrize("form", ["PEM", "escaped", "cut", "DER"])
@pytest.mark.parametrize(
    "call",
    [
        aotc.load,
        aotc.from_onnx,
        aotc.Weights.load,
        Signer.from_file,
        Trust.of,
        read_bundle,
        pipeline.build,
        lambda key: aotc.load("b.aotc", trust=key),
        lambda key: pipeline.build("m.py", output=Path(key)),
        lambda key: pipeline.build("m.py", signing_key=Path(key)),
    ],
)
def test_a_key_in_the_place_of_a_path_is_in_no_traceback(call, form, folder):
    (folder / "m.py").write_text(MODEL)
    with pytest.raises(AotcError) as caught:
        call(FORMS[form])
    shown = "".join(traceback.format_exception(caught.value, limit=0))
    assert not leaks(shown)
    assert not leaks(written(folder))


FORMATS = serialization.PrivateFormat


@pytest.mark.parametrize(
    ("key", "form", "password"),
    [
        (KEY, FORMATS.PKCS8, None),
        (KEY, FORMATS.PKCS8, b"x"),
        (KEY, FORMATS.TraditionalOpenSSL, None),
        (KEY, FORMATS.TraditionalOpenSSL, b"x"),
        (KEY, FORMATS.OpenSSH, None),
        (rsa.generate_private_key(65537, 2048), FORMATS.PKCS8, None),
        (rsa.generate_private_key(65537, 2048), FORMATS.TraditionalOpenSSL, None),
        (ed25519.Ed25519PrivateKey.generate(), FORMATS.PKCS8, None),
        (ed25519.Ed25519PrivateKey.generate(), FORMATS.OpenSSH, None),
    ],
)
def test_keys_of_all_kinds_are_recognised(key, form, password):
    text = pem(key, form, password)
    lines = text.splitlines()[1:-1]
    forms = [text, text.replace("\n", "\\n"), text.replace("\n", ""), repr(text)]
    forms += [text.replace("\n", "\r\n"), "".join(text.split()), text[:-30], text[:120]]
    forms += [base64.b64encode(text.encode()).decode()]
    if "DEK-Info" not in text:
        forms += ["".join(lines), "\n".join(lines)]
        forms += [base64.b64decode("".join(lines)).hex()]
        forms += ["".join(lines).replace("+", "-").replace("/", "_")]
    planted = pieces("".join(lines[-2:]))
    for each in forms:
        shown = redact(f"expected a path, got '{each}' of model.py")
        assert not leaks(shown, planted), each
        assert "[private key]" in shown


@pytest.mark.parametrize(
    "text",
    [
        "'/home/MAMA/MIIB/model-1.0.0.aotc' is not there",
        "expected sha256 3082" + "0f" * 30,
        "-----BEGIN PUBLIC KEY-----\nMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE\n-----END",
        "the private key of BEGIN",
        "https://example.org/simple?x=a:b@c",
    ],
)
def test_what_is_no_secret_stays(text):
    assert redact(text) == text


def test_a_password_in_an_address_is_not_shown():
    shown = redact("from https://user:hunter2@example.org/simple and git://a:b@c")
    assert "hunter2" not in shown
    assert "example.org/simple" in shown
