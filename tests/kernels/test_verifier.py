"""IR whose regions cannot have the kernels that they say is refused when it is read."""

import re

import pytest

from aotc.errors import InputError
from aotc.machine.target import Target
from aotc.pipeline import build
from aotc.programs.files import read_program

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


SECOND = """
import aotc
from aotc import numpy as np


@aotc.entry(
    x=aotc.Spec((40, 40), "f32"), q=aotc.Spec((40, 40), "i8"), s=aotc.Spec((40,), "f32")
)
def f(x, q, s):
    return x @ (q.astype("f32") * s)
"""
BITS, FLOATS, SCALE = (
    f"tensor<{kind}>" for kind in ("40x40xi8", "40x40xf32", "40xf32")
)


@pytest.fixture(scope="module")
def of_few_bits(tmp_path_factory):
    folder = tmp_path_factory.mktemp("second")
    (folder / "model.py").write_text(SECOND, encoding="utf-8")
    target = Target.parse("x86_64-v4")
    asked = {"dump": folder / "ir", "stop_after": "regions"}
    build(folder / "model.py", targets=[target], **asked)
    return folder / "ir" / "x86_64-v4" / "regions.mlir"


@pytest.mark.parametrize(
    ("op", "attributes", "of", "kind", "words"),
    [
        ("transpose", "permutation = array<i64: 1, 0>", "%arg1", BITS, "a view of its"),
        ("reverse", "axes = array<i64: 1>", "%arg1", BITS, "a view of its second"),
        ("reverse", "axes = array<i64: 0>", "%arg2", SCALE, "more than columns"),
        ("transpose", "permutation = array<i64: 1, 0>", "%0", FLOATS, "what elem"),
        ("transpose", "permutation = array<i64: 1, 0>", "%2", FLOATS, "what elem"),
        ("softmax", "axis = 1 : i64", "%0", FLOATS, "by 'graph.softmax'"),
        ("softmax", "axis = 1 : i64", "%2", FLOATS, "by 'graph.softmax'"),
    ],
)
def test_what_makes_a_second_operand_is_elementwise_and_reads_it_as_it_lies(
    of_few_bits, op, attributes, of, kind, words
):
    """An op that is written before a reader of what it is made of is refused."""
    text = of_few_bits.read_text(encoding="utf-8")
    head, region = text.split("func.func private @contraction")
    reader = re.search(rf"^ *%\d+ = .*[(, ]{of}[,)] ?.*$", region, re.MULTILINE)
    written = f'%new = "graph.{op}"({of}) {{{attributes}}} : ({kind}) -> {kind}\n'
    line = re.sub(rf"{of}\b", "%new", reader[0])
    region = region.replace(reader[0], written + line, 1)
    edited = of_few_bits.with_name("edited.mlir")
    edited.write_text(f"{head}func.func private @contraction{region}", encoding="utf-8")
    with pytest.raises(InputError, match=words) as caught:
        read_program(edited)
    assert caught.value.code == "bad-ir"
