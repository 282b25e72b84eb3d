"""Weights stream from their file into the bundle: they are never held, written once."""

import threading
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

import aotc
from aotc import backend, packager
from aotc.artifacts.manifest import FILE, SIGNATURE_FILE
from aotc.checks import self_check
from aotc.core import options
from aotc.errors import InputError, VerificationError
from aotc.machine.target import Target
from aotc.pipeline import build
from aotc.programs.parameter_archive import read_archive

MODEL = """
import numpy
import aotc
import aotc.numpy as np

weights = aotc.Weights.load("weights.safetensors")
state = aotc.State(numpy.zeros((512, 2048), "f4"))


@aotc.entry(state=state, x=aotc.Spec((2, 2048)))
def f(weights, state, x):
    for name in "abcd":
        x = np.tanh(x @ weights[name].T)
    return state + x[0], x + state[0]
"""
pytestmark = pytest.mark.usefixtures("compile_anew")
TENSOR = 4 * 2048 * 2048  # bytes of a weight, of which there are four
TARGETS = ("x86_64-v4", "x86_64-v3")


def bytes_written():
    """What this process and the children that it waited for have written."""
    rows = Path("/proc/self/io").read_text().splitlines()
    return int(dict(row.split(": ") for row in rows)["wchar"])


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    rng = np.random.default_rng(0)
    weights = {n: rng.standard_normal((2048, 2048), "f4") / 64 for n in "abcd"}
    save_file(weights, folder / "weights.safetensors")
    (folder / "model.py").write_text(MODEL)
    return folder / "model.py"


def built(source, folder, **asked):
    targets = [Target.parse(name) for name in TARGETS]
    return build(source, output=folder, targets=targets, sign=False, **asked).bundle


def test_a_build_holds_no_weights_and_writes_them_once(source, tmp_path):
    written = bytes_written()
    tracemalloc.start()
    bundle = built(source, tmp_path, self_check="off", cache=False)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    written = bytes_written() - written
    stored = sum(path.stat().st_size for path in bundle.glob("*.irpa"))
    assert stored >= 4 * TENSOR
    assert peak < 1.5 * TENSOR * len(TARGETS) + (32 << 20)
    assert written < stored + TENSOR / 2


def test_a_state_of_one_value_takes_no_room(source, tmp_path):
    bundle = built(source, tmp_path, self_check="off")
    entries = read_archive(bundle / "weights.irpa")
    assert entries["state"].is_splat
    model = aotc.load(bundle, allow_unsigned=True, threads=1)
    assert not model.read_state().any()
    x = np.ones((2, 2048), "f4")
    first = model.f(x=x)
    np.testing.assert_array_equal(model.read_state()[3], first[0])
    np.testing.assert_array_equal(model.f(x=x), first + first[0])


def file_numbers(bundle):
    """Which file each path of a bundle is, but for the manifest and the signature."""
    paths = (each for each in bundle.rglob("*") if each.is_file())
    found = {str(x.relative_to(bundle)): x.stat().st_ino for x in paths}
    return {
        name: number
        for name, number in found.items()
        if name not in (FILE, SIGNATURE_FILE)
    }


def test_what_is_checked_are_the_files_that_are_delivered(tmp_path, monkeypatch):
    source, out, seen = tmp_path / "model.py", tmp_path / "out", {}
    small = MODEL.replace("2048", "8").replace(
        'aotc.Weights.load("weights.safetensors")',
        'aotc.Weights({name: numpy.eye(8, dtype="f4") for name in "abcd"})',
    )
    source.write_text(small)
    check = self_check.check_entries

    def look(program, graph, packed, *rest, **asked):
        seen.update(file_numbers(packed.bundle))
        assert packed.bundle.suffix != ".aotc"
        return check(program, graph, packed, *rest, **asked)

    monkeypatch.setattr(self_check, "check_entries", look)
    bundle = built(source, out, cache=False)
    assert {"provenance.json", "weights.irpa", "variants/x86_64-v4.vmfb"} <= {*seen}
    assert seen == file_numbers(bundle)
    assert [*out.iterdir()] == [bundle]


def test_weights_are_written_while_the_compilers_work(source, tmp_path, monkeypatch):
    is_written = threading.Event()
    compile_one, write = backend._compile, packager.write_archives

    def compile_later(*given):
        assert is_written.wait(60)
        return compile_one(*given)

    def write_and_tell(*given):
        found = write(*given)
        is_written.set()
        return found

    monkeypatch.setattr(backend, "_compile", compile_later)
    monkeypatch.setattr(packager, "write_archives", write_and_tell)
    assert built(source, tmp_path, self_check="off", cache=False).is_dir()


def resident():
    """Bytes of this process that files are mapped to, and of its own memory."""
    rows = Path("/proc/self/status").read_text().splitlines()
    facts = dict(row.split(":", 1) for row in rows if ":" in row)
    return [int(facts[name].split()[0]) << 10 for name in ("RssFile", "RssAnon")]


def test_mapped_weights_are_verified_and_take_no_memory_of_their_own(source, tmp_path):
    bundle = built(source, tmp_path, self_check="off")
    x = np.random.default_rng(1).standard_normal((2, 2048), "f4")
    expected = aotc.load(bundle, allow_unsigned=True, threads=1).f(x=x)
    before = resident()
    model = aotc.load(bundle, allow_unsigned=True, threads=1, weights="mapped")
    np.testing.assert_array_equal(model.f(x=x), expected)
    of_files, of_process = (b - a for a, b in zip(before, resident(), strict=True))
    assert of_files > 3.5 * TENSOR
    assert of_process < TENSOR
    with options.override("AOTC_WEIGHTS", "mapped"):
        again = aotc.load(bundle, allow_unsigned=True, threads=1)
    np.testing.assert_array_equal(again.f(x=x), expected)
    with pytest.raises(InputError, match="private or mapped"):
        aotc.load(bundle, allow_unsigned=True, weights="shared")
    archive = bundle / f"weights-{model.variant.id}.irpa"
    with archive.open("r+b") as file:
        file.seek(3 * TENSOR)
        file.write(b"changed")
    for mode in ("private", "mapped"):
        with pytest.raises(VerificationError) as refused:
            aotc.load(bundle, allow_unsigned=True, weights=mode)
        assert refused.value.code == "digest-mismatch"
