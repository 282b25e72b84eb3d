"""Files that were imported before: the same program, without the importer."""

import warnings
from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest

from aotc import importers
from aotc.checks.reuse import examples_digest
from aotc.core.cache import Cache, arrays_digest
from aotc.mlir import bytecode
from aotc.pipeline import imports
from aotc.programs.program import Program, source_of

MODEL = """
import aotc
import numpy

w = aotc.Weights({"w": numpy.ones((2, 2), "f4")})


@aotc.entry(x=aotc.Spec(("n", 2), "f32"))
def main(w, x):
    return x @ w["w"]
"""
SIDE = 200  # so that an array of its square is large


class Importer:
    """Reads files of numbers as programs whose arrays are views of them."""

    def __init__(self, module):
        self.module, self.calls, self.warns = module, 0, False

    def load(self, path, entries=()):
        self.calls += 1
        if self.warns:
            warnings.warn("half of it is left out", stacklevel=1)
        whole = np.memmap(path, np.uint8, "c")
        square = whole[64 : 64 + 4 * SIDE**2].view("f4").reshape(SIDE, SIDE)
        halves = whole[: 2 * SIDE**2].view(ml_dtypes.bfloat16).reshape(SIDE, SIDE)
        arrays = {
            "plain": square,
            "turned": square[::2].T,
            "halves": halves,
            "computed": -square,
            "changed": square.copy(),
            "small": whole[:4],
        }
        example = SimpleNamespace(original=SimpleNamespace(example={"x": square[:2]}))
        program = Program(self.module, arrays, {"main": example})
        program.source = source_of(path, "test")
        return program


@pytest.fixture
def importer(tmp_path, monkeypatch):
    (tmp_path / "model.py").write_text(MODEL)
    found = Importer(importers.load(tmp_path / "model.py").module)
    monkeypatch.setattr(imports.importers, "load", found.load)
    return found


@pytest.fixture
def file(tmp_path):
    numbers = np.random.default_rng(1).integers(0, 255, 64 + 4 * SIDE**2)
    path = tmp_path / "net.pt2"
    path.write_bytes(numbers.astype(np.uint8).tobytes())
    return path


@pytest.fixture
def cache(tmp_path):
    return Cache(tmp_path / "cache", 1 << 30)


def test_an_equal_file_is_not_imported_again(importer, file, cache):
    first = imports.import_file(file, (), cache)
    again = imports.import_file(file, (), cache)
    assert importer.calls == 1
    assert bytecode(again.program.module) == bytecode(first.program.module)
    assert again.program.source == first.program.source
    assert [*again.parameters] == [*first.parameters]
    assert arrays_digest(again.parameters) == arrays_digest(first.parameters)
    assert (
        again.weights_digest == first.weights_digest == arrays_digest(first.parameters)
    )
    assert examples_digest(again.program) == examples_digest(first.program)
    assert importer.calls == 1
    in_file = ("plain", "turned", "halves")
    assert all(again.parameters[x].nbytes and owner(again, x) for x in in_file)
    assert not owner(again, "computed")
    assert "main" in again.program.networks  # imports the file, to run it
    assert importer.calls == 2


def owner(found, name):
    """Whether an array is a view of its file."""
    array = found.parameters[name]
    while array is not None and not isinstance(array, np.memmap):
        array = getattr(array, "base", None)
    return array is not None


def test_other_bytes_names_and_entries_are_imported(importer, file, cache, tmp_path):
    imports.import_file(file, (), cache)
    file.rename(tmp_path / "other.pt2")
    imports.import_file(tmp_path / "other.pt2", (), cache)
    imports.import_file(tmp_path / "other.pt2", ("main",), cache)
    content = bytearray((tmp_path / "other.pt2").read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    changed = imports.import_file(file, (), cache)
    assert importer.calls == 4
    imports.import_file(file, (), None)
    assert importer.calls == 5
    assert imports.import_file(file, (), cache).weights_digest == (
        changed.weights_digest
    )
    assert importer.calls == 5


def test_a_file_that_changes_meanwhile_or_is_warned_of_is_not_kept(
    importer, file, cache, monkeypatch
):
    before = file.read_bytes()
    importer.warns = True
    for _ in range(2):
        with pytest.warns(UserWarning, match="half of it"):
            imports.import_file(file, (), cache)
    assert importer.calls == 2
    importer.warns = False
    load = importer.load

    def late(path, entries=()):
        path.write_bytes(before[:-1] + bytes([before[-1] ^ 1]))
        return load(path, entries)

    with monkeypatch.context() as patch:
        patch.setattr(imports.importers, "load", late)
        imports.import_file(file, (), cache)
    file.write_bytes(before)
    imports.import_file(file, (), cache)
    assert importer.calls == 4
