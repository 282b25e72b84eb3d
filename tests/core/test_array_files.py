"""Files of arrays: whoever reads them, arrays and errors are the same."""

import numpy as np
import pytest
from safetensors.numpy import save_file

import aotc
from aotc.artifacts.manifest import Leaf
from aotc.cli.arrays import load_array
from aotc.core.array_files import open_arrays
from aotc.errors import InputError
from aotc.quantization.data import Data
from aotc.training import inputs

X = np.arange(12, dtype="f4").reshape(4, 3)
READERS = {
    "weights": lambda path: aotc.Weights.load(path).tree["x"],
    "data of training": lambda path: inputs.arrays_for(path, [LEAF])["x"],
    "data of quantisation": lambda path: Data.read(path).arrays["x"],
    "an input": lambda path: load_array(f"{path}:x"),
}
LEAF = Leaf("x", "f32", ("rows", 3))


@pytest.mark.parametrize(
    ("reader", "suffix"),
    [
        *((reader, "npz") for reader in READERS),
        *((reader, "safetensors") for reader in READERS if reader != "an input"),
    ],
)
def test_arrays_are_those_that_were_written(tmp_path, reader, suffix):
    path = tmp_path / f"data.{suffix}"
    if suffix == "npz":
        np.savez(path, x=X, others=X)
    else:
        save_file({"x": X, "others": X}, path)
    np.testing.assert_array_equal(READERS[reader](path), X)


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize(
    ("name", "content", "code"),
    [
        ("text.npz", b"text", "bad-file"),
        ("torn.npz", None, "bad-file"),
        ("empty.npz", b"", "bad-file"),
        ("pickle.npz", "pickle", "bad-file"),
        ("none.npz", "none", "no-such-file"),
    ],
)
def test_errors_are_those_of_the_file(tmp_path, reader, name, content, code):
    path = tmp_path / name
    if content == "pickle":
        np.savez(path, x=np.array([{}]))
    elif content is None:
        np.savez(path, x=X)
        whole = bytearray(path.read_bytes())
        whole[whole.find(X.tobytes()) + 5] ^= 1
        path.write_bytes(whole)
    elif content != "none":
        path.write_bytes(content)
    with pytest.raises(InputError) as refused:
        READERS[reader](path)
    assert refused.value.code == code
    assert name in f"{refused.value.message} {refused.value.where}"
    assert refused.value.hint


def test_arrays_are_views_until_they_are_copied(tmp_path):
    path = tmp_path / "x.npz"
    np.savez(path, x=X)
    stored = open_arrays(path)
    assert [*stored] == ["x"]
    assert not stored["x"].flags.writeable
    copy = stored.copy("x")
    copy += 1
    np.testing.assert_array_equal(stored["x"], X)
