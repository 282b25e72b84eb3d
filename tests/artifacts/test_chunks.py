"""Digests of the parts of large files: written, verified by threads, and refused."""

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import pytest

from aotc.artifacts import chunks, files, pack, schema
from aotc.artifacts.fields import Invalid
from aotc.artifacts.manifest import FILE
from aotc.artifacts.pack import VerifiedBundle, read_bundle, write_bundle
from aotc.errors import VerificationError

FILES = {"variants/a.vmfb": b"a", "variants/b.vmfb": b"b"}
CONTENT = bytes(range(256)) * 40  # 10,240 bytes: chunks of 1,000 do not divide it


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(chunks, "SIZE", 1000)


@pytest.fixture
def bundle(data, tmp_path):
    """A bundle one file of which has chunks, and its name."""
    contents = {**FILES, "weights.irpa": CONTENT}
    path = write_bundle(tmp_path, data, contents, None)
    return read_bundle(path, allow_unsigned=True), "weights.irpa"


@pytest.mark.parametrize("size", [0, 1, 999, 1000, 1001, 2000, 10_240])
@pytest.mark.parametrize("part", [1, 300, 1000, 4096])
def test_a_file_has_the_digests_of_its_parts_if_it_has_several(size, part):
    data, hasher = CONTENT[:size], chunks.Hasher()
    for start in range(0, size, part):
        hasher.update(data[start : start + part])
    assert (hasher.size, hasher.sha256) == (size, hashlib.sha256(data).hexdigest())
    parts = [data[start : start + 1000] for start in range(0, size, 1000)]
    digests = tuple(hashlib.sha256(each).hexdigest() for each in parts)
    found = hasher.chunks
    assert (found.sha256 if found else ()) == (digests if size > 1000 else ())


@pytest.mark.parametrize("part", [300, 1000, 4096])
def test_threads_that_hash_what_is_written_find_the_same(tmp_path, monkeypatch, part):
    parts = [CONTENT[n : n + part] for n in range(0, len(CONTENT), part)]
    alone, head = pack.write_file(tmp_path / "a", parts), b"x" * part
    monkeypatch.setattr(pack, "_LARGE", 0)
    beside = pack.write_file(tmp_path / "b", parts)
    assert replace(beside, path=alone.path) == alone
    changed = pack.write_file(tmp_path / "c", parts, lambda: head)
    content = head + CONTENT[part:]
    assert (tmp_path / "c").read_bytes() == content
    assert changed.sha256 == hashlib.sha256(content).hexdigest()


def into_memory(found, name):
    """The content of a file of a bundle, read into memory of the caller."""
    memory = memoryview(bytearray(len(CONTENT)))
    found.load_into(name, memory)
    return memory


def sealed(found, name):
    """The same by a path to a copy."""
    with found.sealed_path(name) as path:
        return Path(path).read_bytes()


def mapped(found, name):
    """The same by a path to the file itself."""
    with found.mapped_path(name) as path:
        return Path(path).read_bytes()


readers = pytest.mark.parametrize(
    "read", [VerifiedBundle.load, into_memory, sealed, mapped]
)
memory_files = pytest.mark.parametrize("has_memory_files", [True, False])


@readers
@memory_files
def test_a_bundle_lists_them_and_readers_verify_by_them(
    bundle, read, has_memory_files, monkeypatch
):
    monkeypatch.setattr(files, "_MEMFD", has_memory_files)
    found, name = bundle
    assert len(found.manifest.files[name].chunks.sha256) == 11
    assert bytes(read(found, name)) == CONTENT


@readers
@pytest.mark.parametrize("place", [0, 999, 1000, 5555, 10_239])
def test_a_changed_byte_of_any_chunk_is_refused(bundle, place, read):
    found, name = bundle
    path = found.path / name
    content = bytearray(CONTENT)
    content[place] ^= 1
    path.write_bytes(content)
    with pytest.raises(VerificationError) as refused:
        read(found, name)
    assert refused.value.code == "digest-mismatch"


@readers
@pytest.mark.parametrize("content", [CONTENT[:-1], CONTENT + b"x", b""])
def test_a_file_of_another_size_is_refused(bundle, content, read):
    found, name = bundle
    (found.path / name).write_bytes(content)
    with pytest.raises(VerificationError) as refused:
        read(found, name)
    assert refused.value.code == "size-mismatch"


def test_a_file_without_chunks_is_mapped_by_the_digest_of_the_whole(bundle):
    found, name = bundle
    file = found.manifest.files[name]
    with files.open_root(found.path) as root:
        with files.mapped_path(root, name, file.size, file.sha256, None) as path:
            assert open(path, "rb").read() == CONTENT  # noqa: SIM115
        wrong = hashlib.sha256(b"").hexdigest()
        with (
            pytest.raises(VerificationError),
            files.mapped_path(root, name, file.size, wrong, None),
        ):
            pass


@pytest.mark.parametrize("count", [1, 10, 12])
def test_a_manifest_with_too_few_or_too_many_of_them_is_refused(bundle, count):
    found, name = bundle
    data = json.loads((found.path / FILE).read_text())
    for row in data["files"]:
        if row["path"] == name:
            row["chunks"]["sha256"] = [row["sha256"]] * count
    with pytest.raises(Invalid, match="chunks"):
        schema.check(data)
