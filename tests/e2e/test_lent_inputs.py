"""Inputs that are used where they lie are never written to, and never kept."""

import numpy as np
import pytest

import aotc
from aotc.machine.target import Target
from aotc.pipeline import build
from tests.fake_gpu import Lent, pretend

# Each entry reads its input once, so that it could be updated in place.
_ENTRIES = """
import numpy

import aotc
import aotc.numpy as np
from aotc import control

x, ids = aotc.Spec(("n", 4)), aotc.Spec(("m",), "i32")
kept = aotc.State(numpy.zeros((3, 4), "f4"))


@aotc.entry(x=x)
def set_row(x):
    return x.at[0].set(7.0)


@aotc.entry(x=x, ids=ids)
def add_rows(x, ids):
    return x.at[ids].add(1.0)


@aotc.entry(x=x)
def in_order(x):
    return np.sort(x, 0)


@aotc.entry(x=x)
def negated(x):
    return -x


@aotc.entry(x=x)
def carried(x):
    return control.fori_loop(0, 3, lambda i, x: x.at[i].multiply(2.0), x)


@aotc.entry(x=aotc.Spec((3, 4)))
def remember(kept, x):
    return x, x.sum()


@aotc.entry(x=aotc.Spec((3, 4)))
def collect(kept, x):
    return kept + x, kept.sum()
"""


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """The same model on the processor, and on one that stands in for a GPU."""
    folder = tmp_path_factory.mktemp("lent")
    source = folder / "lent.py"
    source.write_text(_ENTRIES)
    options = {"sign": False, "self_check": "off"}
    report = build(source, targets=Target.named("native"), output=folder, **options)
    load = {"allow_unsigned": True, "threads": 1}
    with pytest.MonkeyPatch.context() as patch:
        pretend(patch, lambda: None)
        on_gpu = aotc.load(report.bundle, **load)
    return aotc.load(report.bundle, **load), on_gpu


@pytest.mark.parametrize(
    "name", ["set_row", "add_rows", "in_order", "negated", "carried"]
)
def test_what_could_be_updated_in_place_is_not(models, name):
    model, on_gpu = models
    given = {"x": np.arange(20, 0, -1).astype("f4").reshape(5, 4)}
    if name == "add_rows":
        given["ids"] = np.array([1, 3, 1], "i4")
    lent = {key: Lent(array) for key, array in given.items()}
    found = on_gpu.entry(name)(**lent)
    np.testing.assert_array_equal(found.numpy(), model.entry(name)(**given))
    for key, array in given.items():
        np.testing.assert_array_equal(lent[key].array, array)


def test_a_state_that_becomes_an_input_is_a_copy_of_it(models):
    model, on_gpu = models
    x = np.ones((3, 4), np.float32)
    lent = Lent(x)
    on_gpu.remember(x=lent)
    lent.array[:] = 9
    for _ in range(2):
        total = on_gpu.collect(x=Lent(x))
    assert total.numpy() == 24
    np.testing.assert_array_equal(on_gpu.read_state(), 3)
    np.testing.assert_array_equal(lent.array, 9)
