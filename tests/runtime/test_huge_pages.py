"""Weights in huge pages: the same bytes at the addresses that a file was mapped to."""

import gc
import mmap
import os

import iree.runtime as iree
import numpy as np
import pytest

from aotc.core import options
from aotc.errors import SetupError, VerificationError
from aotc.runtime import huge_pages, load
from aotc.runtime.huge_pages import HugePages, header_size, huge_page_size

MIB = 1 << 20
pytestmark = pytest.mark.skipif(
    huge_page_size() is None, reason="this system has no transparent huge pages"
)


@pytest.fixture
def _all_weights(monkeypatch):
    """Weights of any size are put into huge pages."""
    monkeypatch.setattr(huge_pages, "_LEAST", 1)


def mapped_by(pages, header):
    """The mapping of a file that pages were put in the place of."""
    found = []

    def map_file(path):
        with open(path, "rb") as file:
            found.append(mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ))

    pages.put_in_place(header, map_file)
    return found[0]


def maps():
    with open("/proc/self/maps") as file:
        return sum(1 for _ in file)


@pytest.mark.parametrize("size", [1, 4095, 4096, 4097, 2 * MIB, 9 * MIB + 5])
def test_a_mapping_has_the_whole_content_where_the_file_has_the_header(size):
    content = np.random.default_rng(size).bytes(size)
    pages = HugePages(size)
    pages.view[:] = content
    mapping = mapped_by(pages, header=min(size, 100))
    pages.close()
    assert mapping[:] == content


def test_pages_are_huge_at_the_addresses_that_they_move_to():
    pages = HugePages(16 * MIB)
    pages.view[:] = bytes(16 * MIB)
    mapping = mapped_by(pages, header=0)
    address = np.frombuffer(mapping, np.uint8).ctypes.data
    kilobytes = 0
    with open("/proc/self/smaps") as file:
        inside = False
        for line in file:
            if "-" in line.split()[0]:
                start, end = (int(x, 16) for x in line.split()[0].split("-"))
                inside = start <= address < end
            if inside and line.startswith("AnonHugePages"):
                kilobytes = int(line.split()[1])
    if not kilobytes:
        pytest.skip("the system had no free huge pages to give")
    assert kilobytes >= 12 << 10


def test_what_is_not_put_in_place_is_given_back():
    before = maps()
    for _ in range(50):
        HugePages(3 * MIB).close()
    assert maps() <= before + 5


def test_a_file_that_is_not_mapped_as_a_whole_is_an_error():
    pages = HugePages(MIB)
    with pytest.raises(SetupError, match="not mapped") as caught:
        pages.put_in_place(10, lambda path: None)
    assert caught.value.code == "huge-pages"
    pages.close()


@pytest.mark.usefixtures("_all_weights")
def test_a_model_computes_with_weights_in_huge_pages(bundle, trust, w):
    model = load(bundle, trust=trust, threads=1)
    x = np.ones((2, 4), "f4")
    np.testing.assert_array_equal(model.predict(x=x), x @ w)
    model.train(x=np.ones(3, "f4"), scale=np.float32(2))
    assert model.read_state()["step"] == 1
    pid = os.fork()  # private memory is the child's, too
    if not pid:
        same = np.array_equal(model.predict(x=x), x @ w)
        os._exit(0 if same else 1)
    assert os.waitpid(pid, 0)[1] == 0


@pytest.mark.usefixtures("_all_weights")
def test_loading_again_and_again_leaves_no_mappings_behind(bundle, trust, w):
    x = np.ones((2, 4), "f4")
    for turn in range(30):
        model = load(bundle, trust=trust, threads=1)
        np.testing.assert_array_equal(model.predict(x=x), x @ w)
        del model
        gc.collect()
        if turn == 9:
            before = maps()
    assert maps() <= before + 3


@pytest.mark.usefixtures("_all_weights")
def test_huge_pages_can_be_switched_off(bundle, trust, w, monkeypatch):
    monkeypatch.setattr(huge_pages, "HugePages", None)  # not to be called
    with options.override("AOTC_HUGE_PAGES", "0"):
        model = load(bundle, trust=trust, threads=1)
    x = np.ones((2, 4), "f4")
    np.testing.assert_array_equal(model.predict(x=x), x @ w)


@pytest.mark.usefixtures("_all_weights")
def test_changed_weights_are_refused_before_anything_reads_them(
    manifest, files, signer, trust, tmp_path
):
    from aotc.artifacts import write_bundle

    path = write_bundle(tmp_path, manifest, files, signer)
    weights = path / "weights.irpa"
    original = weights.read_bytes()
    before = maps()
    for changed in (
        original[:-1] + bytes([original[-1] ^ 1]),
        bytes([original[0] ^ 1]) + original[1:],
        original[:-1],
        original + b"x",
    ):
        weights.write_bytes(changed)
        with pytest.raises(VerificationError) as caught:
            load(path, trust=trust, threads=1)
        assert caught.value.code in ("digest-mismatch", "size-mismatch")
    assert maps() <= before + 3


@pytest.mark.usefixtures("_all_weights")
def test_an_archive_that_is_laid_out_in_another_way_is_mapped_as_a_file(
    bundle, trust, w, monkeypatch
):
    monkeypatch.setattr("aotc.runtime.loader.header_size", lambda archive: None)
    model = load(bundle, trust=trust, threads=1)
    x = np.ones((2, 4), "f4")
    np.testing.assert_array_equal(model.predict(x=x), x @ w)


def test_the_header_of_an_archive_ends_where_its_first_parameter_begins(tmp_path):
    path = tmp_path / "weights.irpa"
    iree.save_archive_file(
        {"a": np.full(1000, 7, "u1"), "b": np.full(9, 8, "u1")}, path
    )
    archive = path.read_bytes()
    found = header_size(memoryview(archive))
    assert archive.index(b"\7" * 1000) == found
    for damaged in (
        b"", b"IRPA", b"IRPB" + archive[4:], archive[:80],
        archive[:4] + b"\1" + archive[5:],  # a later version
        archive[:16] + b"\1" + archive[17:],  # of two parts
        archive[:72] + b"\xff" * 8 + archive[80:],  # ends before it begins
    ):  # fmt: skip
        assert header_size(memoryview(damaged)) is None
