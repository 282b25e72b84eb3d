"""Compiled reads and writes at any position equal the reference."""

from pathlib import Path

import numpy as np
import pytest

import aotc
from aotc import reference
from aotc.core.pytree import flatten
from aotc.pipeline import build

MODEL = Path(__file__).with_name("indexing_model.py")


@pytest.fixture(scope="module")
def model(tmp_path_factory, home):
    """The compiled model."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AOTC_HOME", str(home))
        return aotc.load(build(MODEL, output=tmp_path_factory.mktemp("out")).bundle)


def equal_reference(model, program, name, **values):
    entry = program.entry(name)
    arguments = [values[port.name] for port in entry.arguments]
    wanted = reference.evaluate(program.module, name, arguments)
    got, _ = flatten(model.entry(name)(**values))
    for one, other in zip(got, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)


IDS = {
    "duplicates": [1, 3, 1, 1],
    "negative": [-1, 2, -4],
    "out of bounds": [2**31 - 1, -(2**31), 4, -5, 0],
    "none": [],
}


@pytest.mark.parametrize("name", ["rows", "gradients"])
@pytest.mark.parametrize("ids", IDS.values(), ids=IDS)
def test_any_position_may_come_with_the_call(model, program, name, ids):
    rng = np.random.default_rng(len(ids))
    x, rows = rng.normal(size=(4, 3)), rng.normal(size=(len(ids), 3))
    equal_reference(
        model, program, name,
        x=x.astype("f4"), ids=np.array(ids, "i4"), rows=rows.astype("f4"),
    )  # fmt: skip


@pytest.mark.parametrize("ids", [[0, -4, 3], [2**63 - 1, -(2**63), 2**32], []])
def test_positions_may_be_of_any_width(model, program, ids):
    equal_reference(
        model, program, "other_widths",
        x=np.arange(12, dtype="f4").reshape(4, 3), ids=np.array(ids, "i8"),
        bytes=np.array([255, 0, 128][: len(ids)], "u1"),
    )  # fmt: skip


@pytest.mark.parametrize("at", [[0, 0], [9, 1], [-3, 2**40], [-(2**63), 2**63 - 1]])
def test_slices_move_to_fit(model, program, at):
    x = np.arange(20, dtype="f4").reshape(5, 4)
    equal_reference(model, program, "windows", x=x, at=np.array(at, "i8"))
