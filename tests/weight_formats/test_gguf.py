"""GGUF files are read as the package of their own project reads them."""

import os
import struct
import subprocess
import sys
from itertools import accumulate

import numpy as np
import pytest

import aotc
from aotc import nn
from aotc.errors import InputError
from aotc.programs.computed_arrays import ComputedArray
from tests.weight_formats.refusing import refused_weights

gguf = pytest.importorskip("gguf")

RNG = np.random.default_rng(34)
# where the scales of a block lie, which random bytes would make NaN
SCALES = {
    "Q4_1": (0, 2),
    "Q5_1": (0, 2),
    "Q4_K": (0, 2),
    "Q5_K": (0, 2),
    "Q6_K": (208,),
}
CODES = (None, "bad-file", "unsupported-format", "unsupported-type")
QUANTISED = ("Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q4_K", "Q5_K", "Q6_K")


def blocks(name, shape):
    """The bytes of a random tensor, and its type."""
    kind = gguf.GGMLQuantizationType[name]
    block, size = gguf.GGML_QUANT_SIZES[kind]
    if name not in QUANTISED:
        return gguf.quants.quantize(RNG.standard_normal(shape).astype("f4"), kind), kind
    rows = (*shape[:-1], shape[-1] // block)
    raw = RNG.integers(0, 256, (*rows, size), dtype="u1")
    for start in SCALES.get(name, (0,)):
        scale = RNG.standard_normal((*rows, 1)).astype("f2")
        raw[..., start : start + 2] = scale.view("u1")
    return raw.reshape(*shape[:-1], -1), kind


def write(file, tensors, metadata=lambda writer: None, endian="LITTLE"):
    """A file with tensors, of each its bytes and its type."""
    writer = gguf.GGUFWriter(file, "llama", endianess=gguf.GGUFEndian[endian])
    metadata(writer)
    for name, (raw, kind) in tensors.items():
        writer.add_tensor(name, raw, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return file


def code_of(file):
    """That of the error that a file is refused with, if it is."""
    try:
        aotc.Weights.load(file)
    except InputError as error:
        return error.code
    return None


@pytest.mark.parametrize("shape", [(256,), (3, 512), (2, 3, 256)])
def test_tensors_of_all_types_are_what_the_package_makes_of_them(tmp_path, shape):
    tensors = {x: blocks(x, shape) for x in ("F32", "F16", "BF16", *QUANTISED)}
    found = aotc.Weights.load(write(tmp_path / "x.gguf", tensors)).tree
    for name, (raw, kind) in tensors.items():
        weights = found[name]
        assert weights.shape == shape
        if name in QUANTISED:
            assert isinstance(weights, nn.QuantizedWeights)
            assert isinstance(weights.data, ComputedArray)  # not before it is asked for
            weights = weights.dequantize()
        expected = gguf.quants.dequantize(raw, kind)
        np.testing.assert_array_equal(np.asarray(weights).astype("f4"), expected)


def test_plain_tensors_are_views_of_the_mapped_file(tmp_path):
    file = write(tmp_path / "x.gguf", {"a": blocks("F32", (4, 8))})
    array = aotc.Weights.load(file).tree["a"]
    while isinstance(array.base, np.ndarray):
        array = array.base
    assert isinstance(array, np.memmap)


def test_a_number_is_a_tensor_without_axes(tmp_path):
    file = tmp_path / "x.gguf"
    number = np.float32(2.5).tobytes()
    file.write_bytes(header((b"a", (), 0, 0), tail=number))
    assert aotc.Weights.load(file).tree["a"].tolist() == 2.5


def test_metadata_are_numbers_texts_and_arrays(tmp_path):
    def metadata(writer):
        writer.add_uint32("llama.block_count", 3)
        writer.add_float32("llama.eps", 0.5)
        writer.add_bool("yes", True)
        writer.add_array("tokens", ["<s>", "ü"])
        writer.add_array("kinds", [1, 2, 3])

    file = write(tmp_path / "x.gguf", {"a": blocks("F32", (4,))}, metadata)
    found = aotc.Weights.load(file).metadata
    assert found["general.architecture"] == "llama"
    assert (found["llama.block_count"], found["llama.eps"]) == (3, 0.5)
    assert found["yes"] is True
    assert found["tokens"] == ["<s>", "ü"]
    assert found["kinds"].tolist() == [1, 2, 3]


def test_names_may_have_any_signs(tmp_path):
    names = ["blk.0.attn_q.weight", "a b/ü[0].", ".", "x..y"]
    tensors = {name: blocks("F32", (n + 1,)) for n, name in enumerate(names)}
    weights = aotc.Weights.load(write(tmp_path / "x.gguf", tensors))
    for number, name in enumerate(names):
        found = weights.tree
        for key in name.split("."):
            found = found[key]
        assert found.shape == (number + 1,)


def split(folder, count, **changes):
    """A model of one tensor a file."""
    for number in range(count):
        facts = {"split.no": number, "split.count": count, **changes}

        def metadata(writer, facts=facts):
            for key, value in facts.items():
                writer.add_uint16(key, value)
            writer.add_int32("split.tensors.count", count)

        file = folder / f"m-{number + 1:05}-of-{count:05}.gguf"
        write(file, {f"a.{number}": blocks("Q8_0", (2, 32))}, metadata)
    return file


def test_a_split_model_is_all_of_its_files(tmp_path):
    last = split(tmp_path, 3)
    assert aotc.Weights.load(last).tree["a"].keys() == {"0", "1", "2"}
    (tmp_path / "m-00002-of-00003.gguf").unlink()
    refused_weights(
        "missing-data", last, "one of 3 files; missing: m-00002-of-00003.gguf"
    )
    none = tmp_path / "m-00000-of-00000.gguf"
    none.write_bytes(last.read_bytes())
    refused_weights("bad-file", none, "a part from 1 to 0")


def test_parts_of_other_models_are_refused(tmp_path):
    last = split(tmp_path, 2, **{"split.count": 4})
    refused_weights("bad-file", last, "says that it is part 1 of 4")


@pytest.mark.parametrize("name", ["Q2_K", "IQ4_XS", "MXFP4"])
def test_other_types_are_refused_by_name(tmp_path, name):
    kind = gguf.GGMLQuantizationType[name]
    block, size = gguf.GGML_QUANT_SIZES[kind]
    raw = np.zeros((2, size), "u1")
    file = write(tmp_path / "x.gguf", {"a": (raw, kind), "b": blocks("F32", (2,))})
    error = refused_weights("unsupported-type", file, rf"{name} \(1\)")
    assert "llama-quantize" in error.hint


def test_files_of_big_endian_machines_are_refused(tmp_path):
    file = write(tmp_path / "x.gguf", {"a": blocks("F32", (2,))}, endian="BIG")
    error = refused_weights("unsupported-format", file, "big-endian")
    assert "gguf-convert-endian" in error.hint


def header(*tensors, version=3, magic=b"GGUF", tail=b""):
    """A file whose tensors are given as (name, sizes, type, offset)."""
    parts = [struct.pack("<4sIQQ", magic, version, len(tensors), 0)]
    for name, sizes, kind, offset in tensors:
        parts.append(struct.pack("<Q", len(name)) + name)
        parts.append(struct.pack(f"<I{len(sizes)}Q", len(sizes), *sizes))
        parts.append(struct.pack("<IQ", kind, offset))
    whole = b"".join(parts)
    return whole + b"\0" * (-len(whole) % 32) + tail


@pytest.mark.parametrize(
    ("content", "code", "message"),
    [
        (header(magic=b"GGML"), "bad-file", "begins with"),
        (b"", "bad-file", "empty"),
        (header(version=1), "unsupported-format", "version 1"),
        (header(version=4), "unsupported-format", "newer aotc"),
        (header((b"a", (33,), 8, 0)), "bad-file", "whole blocks of 32"),
        (header((b"a", (128,), 12, 0)), "bad-file", "whole blocks of 256"),
        (header((b"a", (32,), 8, 0), tail=b"\0" * 33), "bad-file", "expected 34 bytes"),
        (header((b"a", (2**62, 2**62), 0, 0)), "bad-file", "bytes of 'a'"),
        (header((b"a", (1,), 0, 2**63)), "bad-file", "expected 4 bytes"),
        (header((b"a", (1,) * 5, 0, 0)), "bad-file", "5 axes"),
        (header((b"\xff", (1,), 0, 0), tail=b"\0" * 4), "bad-file", "utf-8"),
        (header(*[(b"a", (1,), 0, 0)] * 2, tail=b"\0" * 4), "bad-file", "two tensors"),
    ],
)
def test_damaged_files_are_refused(tmp_path, content, code, message):
    file = tmp_path / "x.gguf"
    file.write_bytes(content)
    refused_weights(code, file, message)


def test_files_that_end_anywhere_are_refused(tmp_path):
    whole = write(
        tmp_path / "x.gguf",
        {"a": blocks("Q4_K", (2, 256)), "b": blocks("F32", (8,))},
        lambda writer: writer.add_array("tokens", ["a", "b"]),
    ).read_bytes()
    file = tmp_path / "y.gguf"
    for end in accumulate([7] * (len(whole) // 7 - 1)):
        file.write_bytes(whole[:end])
        with pytest.raises(InputError):
            aotc.Weights.load(file)


def test_random_changes_of_the_head_are_read_or_refused(tmp_path):
    file = write(
        tmp_path / "x.gguf",
        {"a": blocks("Q4_K", (2, 256)), "b": blocks("F32", (8,))},
        lambda writer: writer.add_array("tokens", [[1, 2], [3]]),
    )
    whole, other = np.frombuffer(file.read_bytes(), "u1"), tmp_path / "y.gguf"
    for _ in range(200):
        changed = whole.copy()
        changed[RNG.integers(0, 220, 3)] = RNG.integers(0, 256, 3)
        other.write_bytes(changed.tobytes())
        assert code_of(other) in CODES


def test_files_are_mapped_whatever_their_size(tmp_path):
    rows = 2**28  # 64 GiB in f32, 9 GiB in blocks: a hole in the file
    file = tmp_path / "x.gguf"
    file.write_bytes(header((b"a", (256, rows), 12, 0)))
    os.truncate(file, file.stat().st_size + rows * 144)
    found = aotc.Weights.load(file).tree["a"]
    assert (found.shape, found.data.nbytes) == ((rows, 256), rows * 256)


def test_weights_are_known_without_the_compiler():
    script = "import sys, aotc; aotc.Weights({}); print('torch_mlir' in sys.modules)"
    command = [sys.executable, "-c", script]
    found = subprocess.run(command, check=True, capture_output=True, text=True)
    assert found.stdout.strip() == "False"
