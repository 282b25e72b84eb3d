"""Parameter archives: the bytes that IREE's writer makes, and what it reads of them."""

import hashlib
import tracemalloc

import iree.runtime as iree
import numpy as np
import pytest

from aotc.core import dtypes
from aotc.packager import WeightFile, write_archives
from aotc.programs.parameter_archive import (
    LARGE,
    PART,
    ArchiveParts,
    have_same_bytes,
    parts_of,
    read_archive,
)

RNG = np.random.default_rng(0)
ARRAYS = {
    "ä.weight": RNG.standard_normal((3, 5)).astype("f4"),
    "none": np.zeros((0, 4), "f4"),
    "one": np.array(3, "i8"),
    "odd": np.arange(67, dtype="u1"),
    "narrow": np.ones(7, dtypes.to_numpy("bf16")),
    "large": RNG.standard_normal((1200, 1300)),
}
SPLATS = {
    "state.0": np.zeros((256, 100), "f4"),
    "state.1": np.full((256, 200), 1.5, dtypes.to_numpy("bf16")),
    "state.2": np.broadcast_to(np.uint8(3), (LARGE,)),
}


def written(parameters, path):
    with path.open("wb") as file:
        parts = ArchiveParts(parameters)
        file.writelines(parts)
        file.seek(0)
        file.write(parts.head)
    return path


@pytest.mark.parametrize(
    "names",
    [[], ["one"], ["none"], ["state.0"], [*ARRAYS], [*SPLATS, *ARRAYS], [*SPLATS]],
    ids=str,
)
def test_an_archive_is_what_irees_own_writer_makes(tmp_path, names):
    index, known = iree.ParameterIndex(), {**ARRAYS, **SPLATS}
    for name in names:
        array = known[name]
        if name in SPLATS:
            index.add_splat(name, array.reshape(-1)[:1].view("u1"), array.nbytes)
        else:
            index.add_buffer(name, np.ascontiguousarray(array).reshape(-1).view("u1"))
    theirs = tmp_path / "theirs.irpa"
    index.create_archive_file(str(theirs))
    ours = written({name: known[name] for name in names}, tmp_path / "ours.irpa")
    assert ours.read_bytes() == theirs.read_bytes()


def test_what_is_read_is_what_was_written(tmp_path):
    known = {**SPLATS, **ARRAYS}
    found = read_archive(written(known, tmp_path / "w.irpa"))
    assert [*found] == [*known]
    for name, array in known.items():
        got = found[name].array(array.dtype, array.shape)
        np.testing.assert_array_equal(got, array)
        assert found[name].is_splat == (name in SPLATS)
        assert not got.flags.writeable
    again = {
        name: found[name].array(array.dtype, array.shape)
        for name, array in known.items()
    }
    first = (tmp_path / "w.irpa").read_bytes()
    assert written(again, tmp_path / "again.irpa").read_bytes() == first


def test_an_element_that_differs_at_the_end_makes_no_splat(tmp_path):
    array = np.zeros((1 << 20,), "f4")
    array[-1] = -0.0
    found = read_archive(written({"w": array}, tmp_path / "w.irpa"))
    assert not found["w"].is_splat
    assert found["w"].data.tobytes() == array.tobytes()


@pytest.mark.parametrize("shape", [(7, 300, 31), (3, 100_000), (70_000,), ()])
def test_the_parts_of_a_view_are_its_bytes_in_row_major_order(shape):
    whole = RNG.standard_normal(shape).astype("f4")
    for view in (whole, whole.T, whole[::-1] if shape else whole):
        parts = [*parts_of(view, 4096)]
        assert b"".join(parts) == view.tobytes()
        assert max(map(len, parts)) <= 4096


def test_a_view_is_written_without_a_copy_of_it(tmp_path):
    whole = np.ones((4096, 4096), "f4")
    whole[0, 0] = 2
    tracemalloc.start()
    written({"w": whole.T}, tmp_path / "w.irpa")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < whole.nbytes / 2


class Late:
    """An array that is evaluated when it is asked for."""

    def __init__(self, array):
        self._array = array
        self.shape, self.dtype, self.nbytes = array.shape, array.dtype, array.nbytes

    def __array__(self, dtype=None, copy=None):
        return self._array


def test_equal_tensors_are_written_once_however_they_are_made(tmp_path):
    w = RNG.standard_normal((1300, 1000)).astype("f4")
    assert w.nbytes > PART
    end = w.copy()
    end[-1, -1] += 1
    known = {
        "w": Late(w),
        "as.another.view": Late(np.asfortranarray(w)),
        "bits": w.reshape(-1).view("i4"),
        "end": Late(end),
        "small": np.ones(3, "f4"),
        "same.small": np.ones(3, "f4"),
        "end.again": end.copy(),
    }
    folder = tmp_path / "a"
    folder.mkdir()
    weights = WeightFile("weights.irpa", known, ("x86_64-v3",))
    file = write_archives([weights], folder)["weights.irpa"]
    content = file.path.read_bytes()
    assert 2 * w.nbytes < len(content) < 2 * w.nbytes + (64 << 10)
    assert hashlib.sha256(content).hexdigest() == file.sha256
    assert len(content) == file.size
    assert written(known, tmp_path / "b.irpa").read_bytes() == content
    found, theirs = read_archive(file.path), iree.ParameterIndex()
    theirs.load(str(file.path))
    assert {key for key, _ in theirs.items()} == {*known}
    for name, array in known.items():
        expected = np.asarray(array)
        np.testing.assert_array_equal(
            found[name].array(expected.dtype, expected.shape), expected
        )


def test_arrays_are_compared_by_their_bytes_in_row_major_order():
    w = RNG.integers(0, 9, (3000, 1100))
    one = np.asfortranarray(w)
    assert have_same_bytes(w, one)
    assert have_same_bytes(one[:0], w[:0])
    assert not have_same_bytes(w, w.T)
    assert not have_same_bytes(w[:-1], one)
    one[-1, -1] += 1
    assert not have_same_bytes(w, one)


def test_what_is_no_archive_or_is_cut_off_is_refused(tmp_path):
    path = written(ARRAYS, tmp_path / "w.irpa")
    content = path.read_bytes()
    for damaged in (b"", b"IRPB" + content[4:], content[:90], content[:9000]):
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match="empty|expected|buffer"):
            read_archive(path)
