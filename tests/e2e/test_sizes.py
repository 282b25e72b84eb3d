"""Products of symbolic sizes that no machine can hold are refused before a call."""

import json

import numpy as np
import pytest

from aotc import runtime
from aotc.errors import InputError
from aotc.pipeline import build

MODEL = """
import aotc
from aotc import numpy as np

n, m, k = (aotc.Dim(name, min=0) for name in "nmk")
x, y, z = aotc.Spec((n,), "f32"), aotc.Spec((m,), "f32"), aotc.Spec((k,), "f32")


@aotc.entry(x=x, y=y, z=z)
def outer(x, y, z):
    return x[:, None, None] * y[None, :, None] * z[None, None, :]


@aotc.entry(x=x, y=y, z=z)
def total(x, y, z):
    product = x[:, None, None] * y[None, :, None] * z[None, None, :]
    return np.sum(product / np.sum(product, axis=0, keepdims=True))


@aotc.entry(x=x)
def linear(x):
    return np.sum(np.sin(x) + 2)


@aotc.entry(x=aotc.Spec((aotc.Dim("b", max=4096), 784), "f32"))
def bounded(x):
    return x @ np.ones((784, 10))
"""


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sizes")
    (folder / "model.py").write_text(MODEL)
    return build(folder / "model.py", output=folder).bundle


@pytest.mark.parametrize(("entry", "small"), [("outer", 24), ("total", 12)])
def test_refuses_sizes_whose_product_wraps(bundle, entry, small):
    """2642246**3 elements of 4 bytes are 2**66 and a little: a small buffer."""
    call = runtime.load(bundle, threads=1).entry(entry)
    x = np.ones(2_642_246, np.float32)
    with pytest.raises(InputError) as caught:
        call(x=x, y=x, z=x)
    assert caught.value.code == "size-limit"
    assert "73786980514786811744" in caught.value.message
    assert np.sum(call(x=x[:2], y=x[:3], z=x[:4])) == small


def test_lists_only_what_may_be_too_large(bundle):
    manifest = json.loads((bundle / "manifest.json").read_bytes())
    listed = {
        entry["name"]: [leaf["shape"] for leaf in entry.get("intermediates", ())]
        for entry in manifest["entry_points"]
    }
    assert ["n", "m", "k"] in listed["total"]
    assert listed["linear"] == listed["bounded"] == []
