"""Texts that are no path are an error of the caller wherever a path is taken."""

from pathlib import Path

import pytest

import aotc
from aotc import artifacts, pipeline
from aotc.artifacts import keys
from aotc.cli.main import VERBS, main
from aotc.errors import InputError

MODEL = """
import aotc

@aotc.entry(x=aotc.Spec((2,)))
def double(x):
    return x + x
"""
NO_PATHS = ["a\0b", "\0", "/tmp/\0", "a\ud800b"]
TAKERS = {
    "load": aotc.load,
    "trust": lambda text: artifacts.Trust.of(text),
    "signer": lambda text: artifacts.Signer.from_file(text),
    "key pair": lambda text: keys.write_key_pair(Path(text)),
    "bundle": lambda text: artifacts.read_bundle(text),
    "written": lambda text: artifacts.write_bundle(
        text, {"name": "a", "version": "1"}, {}, None
    ),
    "weights": lambda text: aotc.Weights.load(text),
    "ONNX": lambda text: aotc.from_onnx(text),
    "StableHLO": lambda text: aotc.from_stablehlo(text),
    "model": pipeline.build,
    "output": lambda text: pipeline.build("m.py", output=Path(text)),
    "dump": lambda text: pipeline.build("m.py", dump=text, stop_after="graph"),
    "tuning": lambda text: pipeline.build("m.py", tuning=Path(text)),
    "traffic": lambda text: pipeline.build("m.py", buckets_from=Path(text)),
    "key": lambda text: pipeline.build("m.py", signing_key=text),
}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AOTC_HOME", str(tmp_path / "home"))
    (tmp_path / "m.py").write_text(MODEL)
    return tmp_path


@pytest.mark.parametrize("taker", TAKERS)
def test_a_text_that_is_no_path_is_an_input_error(taker, folder):
    for text in [*NO_PATHS, "x" * 5000]:
        with pytest.raises(aotc.errors.AotcError) as caught:
            TAKERS[taker](text)
        assert isinstance(caught.value, InputError) or text == "x" * 5000
    assert {path.name for path in folder.iterdir()} <= {"m.py", "home"}


@pytest.mark.parametrize("verb", VERBS)
def test_no_verb_takes_it_for_a_bug(verb, capsys):
    for text in [*NO_PATHS, "x" * 5000]:
        assert main([verb, text]) in (0, 1, 2, 5)
        assert "[internal]" not in capsys.readouterr().err
