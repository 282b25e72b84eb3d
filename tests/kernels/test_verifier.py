"""IR whose regions cannot have the kernels that they say is refused when it is read."""

import re

import pytest

from aotc.errors import InputError
from aotc.pipeline import build
from aotc.program_files import read_program
from aotc.target import Target

MODEL = """
import numpy
import aotc
from aotc import nn

w = aotc.Weights({"a": numpy.ones((64, 96), "f4")})


@aotc.entry(x=aotc.Spec(("n", 64)), y=aotc.Spec((64, 64)))
def f(w, x, y):
    return nn.softmax(x @ w["a"]), y @ y
"""
PACKED = "such as {'lanes': 8, 'vectors': 3"


@pytest.fixture(scope="module")
def regions(tmp_path_factory):
    folder = tmp_path_factory.mktemp("regions")
    (folder / "model.py").write_text(MODEL, encoding="utf-8")
    target = Target.parse("x86_64-v3")
    build(
        folder / "model.py", targets=[target], dump=folder / "ir", stop_after="regions"
    )
    return folder / "ir" / "x86_64-v3" / "regions.mlir"


def test_what_a_build_has_written_is_read(regions):
    assert read_program(regions).stage == "regions"


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('kernel = "rows"', 'kernel = "row"', "expected a family.*got 'row'"),
        ('kernel = "rows"', 'kernel = "depthwise"', "'rows' .*no op that kernels"),
        ("tile = {[^}]*}", "tile = 3 : i64", "got 3"),
        (", tile = {[^}]*}", "", "malformed"),
        ("vectors = 3", "vectors = 1", PACKED),
        ("vectors = 3", "vectors = 0", PACKED),
        ("lanes = 8", "lanes = 16", PACKED),
        (r"rows = \d+", "rows = -4", PACKED),
        (r"rows = \d+ : i64, ", "", "integer for each of lanes, vectors, rows, block"),
        (
            "tile = {",
            "tile = {columns = 3 : i64, ",
            "integer for each .*got .*'columns'",
        ),
        (r"block = \d+", "products = 2 : i64, block = 11", PACKED),
        ("tile = {", "tile = {packed = 0 : i64, ", "second argument"),
        (", packed = 0 : i64", "", r"of the shape \(\d, 64, \d+\)"),
        (r"\(%arg0, %arg0\)", "(%arg1, %arg0)", "first argument to be the left"),
        (
            'target = "x86_64-v3"',
            'target = "x86_64-v2"',
            "need multiply-adds of vectors",
        ),
    ],
)
def test_a_region_without_such_a_kernel_is_refused(regions, old, new, words):
    text, count = re.subn(old, new, regions.read_text(encoding="utf-8"), count=1)
    assert count
    edited = regions.with_name("edited.mlir")
    edited.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=words) as caught:
        read_program(edited)
    assert (caught.value.code, caught.value.where) == ("bad-ir", str(edited))
