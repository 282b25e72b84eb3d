"""Calibration data: arrays are cut into the calls that entries take."""

import io

import numpy as np
import pytest

from aotc.errors import InputError
from aotc.quantization.data import BATCH, Data
from tests.quantization.models import load

MODEL = """
import aotc

batch = aotc.Dim("batch", min=1, max=20, multiple_of=4)

@aotc.entry(x=aotc.Spec((batch, 3), "f32"), k=aotc.Spec((), "f32"))
def first(x, k):
    return x * k

@aotc.entry(x=aotc.Spec((4, 3), "f32"))
def second(x):
    return x + x

@aotc.entry(x=aotc.Spec(("n", 5), "f32"))
def third(x):
    return x + x

@aotc.entry(x=aotc.Spec((aotc.Dim("m", min=4),), "i32"))
def fourth(x):
    return x + x
"""


@pytest.fixture
def entries(tmp_path):
    """Entries of open and fixed sizes, by name."""
    path = tmp_path / "model.py"
    path.write_text(MODEL)
    return {entry.name: entry for entry in load(path).entries}


def sizes(data, entry):
    """How many samples each call has."""
    return [call[0].shape[0] for call in data.calls(entry)]


def test_arrays_of_no_input_are_named(entries):
    data = Data({"x": 1, "second/x": 2, "first/y": 3, "state": 4}, "d")
    assert data.unread([*entries.values()]) == ["first/y", "state"]


def test_arrays_are_cut_along_the_samples(entries):
    x = np.arange(144, dtype="f").reshape(48, 3)
    data = Data({"x": x, "k": np.float32(2), "third/x": np.zeros((40, 5), "f")}, "d")
    assert sizes(data, entries["first"]) == [20, 20, 8]
    assert sizes(data, entries["second"]) == [4] * 12
    assert sizes(data, entries["third"]) == [BATCH, 40 - BATCH]
    joined = np.concatenate([call[0] for call in data.calls(entries["second"])])
    assert np.array_equal(joined, x)
    assert all(call[1] == 2 for call in data.calls(entries["first"]))
    whole = Data({"x": x.reshape(12, 4, 3)}, "d")
    assert sizes(whole, entries["second"]) == [4] * 12
    assert whole.facts([entries["second"]])["samples"] == 12


def test_entries_without_all_inputs_are_left_out(entries):
    data = Data({"x": np.zeros((8, 3), "f")}, "d")
    assert data.missing(entries["first"]) == ["k"]
    assert data.has(entries["second"])


@pytest.mark.parametrize(
    ("entry", "x", "why"),
    [
        ("second", np.zeros((6, 3), "f"), "a multiple of 4 samples"),
        ("second", np.zeros((8, 5), "f"), "of entry 'second' like"),
        ("second", np.zeros(8, "f"), "like"),
        ("second", np.zeros((8, 3), "c8"), "of f32; got complex64"),
        ("third", np.zeros((0, 5), "f"), "like"),
        ("second", np.full((4, 3), np.nan, "f"), "got 12 NaN, in the samples 0, 1"),
        ("fourth", np.full(4, 2**40), "'x' of i32; got 1099511627776"),
        ("fourth", np.full(3, 7, "i4"), "'x': expected m at least 4, got 3"),
    ],
)
def test_arrays_that_an_entry_does_not_take_are_refused(entries, entry, x, why):
    with pytest.raises(InputError, match=why) as caught:
        Data({"x": x}, "calibration.npz").calls(entries[entry])
    assert caught.value.code == "bad-data"
    assert caught.value.where == "calibration.npz"
    assert caught.value.hint


def damaged():
    """A compressed file whose deflated bytes are none."""
    file = io.BytesIO()
    np.savez_compressed(file, x=np.arange(4096))
    content = bytearray(file.getvalue())
    content[60:90] = b"\xff" * 30
    return bytes(content)


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"text", damaged()])
def test_files_that_are_none_of_arrays_are_refused(tmp_path, content):
    path = tmp_path / "data.npz"
    path.write_bytes(content)
    with pytest.raises(InputError) as caught:
        Data.read(path)
    assert caught.value.code == "bad-file"
    assert "allow_pickle" not in caught.value.message
    assert "numpy.savez" in caught.value.hint


def test_digest_is_that_of_the_arrays_and_not_of_the_file(tmp_path):
    x = np.arange(6, dtype="f")
    np.savez(tmp_path / "a.npz", x=x, y=x)
    np.savez_compressed(tmp_path / "b.npz", y=x, x=x)
    one, other = (Data.read(tmp_path / f"{name}.npz") for name in "ab")
    assert one.sha256 == other.sha256
    assert one.sha256 != Data({"x": x, "y": x + 1}, "").sha256
