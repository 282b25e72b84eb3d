"""Kernels that concatenate give the elements that the reference gives."""

import re
from pathlib import Path

import numpy as np
import pytest

from aotc import reference
from aotc.core import dtypes
from aotc.dialects.functions.functions import functions_of
from aotc.dialects.functions.fusion import fused_of
from aotc.errors import InputError
from aotc.importers import load
from aotc.machine.target import Target
from aotc.passes import run_passes
from aotc.passes.base import Unit
from aotc.passes.stages import PASS_STAGES
from aotc.pipeline import build
from aotc.programs.files import read_program

MODEL = Path(__file__).parent / "concatenations.py"
ENTRIES = [entry.name for entry in load(MODEL).entries]
SYMBOLIC = ["any_rows", "any_heads"]
STATIC = [name for name in ENTRIES if name not in SYMBOLIC]
SPECIAL = [0.0, -0.0, np.nan, np.inf, -np.inf, 1e-45, 1.0]


def drawn(program, name, rows=1):
    """An input of each port, with some numbers that are special."""
    rng = np.random.default_rng(7)
    given = {}
    for port in program.entry(name).ports("input"):
        shape = [size if isinstance(size, int) else rows for size in port.type.shape]
        values = 9 * rng.normal(size=shape)
        if port.type.dtype == "f32" and name != "in_a_loop":
            is_special = rng.random(shape) < 0.1
            values = np.where(is_special, rng.choice(SPECIAL, shape), values)
        given[port.name] = values.astype(dtypes.to_numpy(port.type.dtype))
    return given


def compare(compiled, terms, program, name, given):
    with np.errstate(all="ignore"):
        expected = reference.evaluate(program.module, name, list(given.values()))
    found = compiled.entries[name](**given)
    by_terms = terms.evaluate(name, given)
    for mine, theirs in zip([*_leaves(found), *by_terms], expected * 2, strict=True):
        assert mine.dtype == theirs.dtype
        np.testing.assert_allclose(mine, theirs, rtol=2e-5, atol=2e-5)
        if name.startswith("parts"):
            np.testing.assert_array_equal(np.signbit(mine), np.signbit(theirs))


def _leaves(found):
    return found if isinstance(found, (tuple, list)) else [found]


@pytest.mark.parametrize("name", STATIC)
def test_a_kernel_gives_the_elements_of_the_graph(compiled, terms, program, name):
    compare(compiled, terms, program, name, drawn(program, name))


@pytest.mark.parametrize("rows", [0, 1, 2, 53])
@pytest.mark.parametrize("name", SYMBOLIC)
def test_a_call_decides_how_many_rows_there_are(compiled, terms, program, name, rows):
    compare(compiled, terms, program, name, drawn(program, name, rows))


def regions_of(model):
    """A model, once its regions are formed."""
    unit = Unit(load(model)).fork(Target.parse("x86_64-v4"))
    for stage in PASS_STAGES[:2]:
        run_passes(unit, stage.passes(), silently=True)
    return unit


def test_a_chain_is_one_region_with_what_makes_its_parts():
    unit = regions_of(MODEL)
    functions = functions_of(unit.module)
    for name in ENTRIES:
        ops = [op.operation.name for op in functions[name].entry_block.operations]
        left = {"graph.concatenate", "graph.add", "graph.gelu"} & {*ops}
        assert left <= ({"graph.add"} if name == "read_twice" else set()), name
    enlarged = [
        op.operation.name for op in functions["enlarged"].entry_block.operations
    ]
    assert enlarged == ["func.call", "func.return"]
    chain = ["graph.concatenate"] * 7
    bodies = [
        [op.operation.name for op in function.entry_block.operations]
        for function in functions.values()
        if fused_of(function) is not None
    ]
    moves = [[op for op in ops if op == "graph.concatenate"] for ops in bodies]
    assert chain in moves


def test_regions_are_formed_once():
    unit = regions_of(MODEL)
    formed = [*map(str, functions_of(unit.module).values())]
    run_passes(unit, ("fuse-regions",), silently=True)
    assert [*map(str, functions_of(unit.module).values())] == formed


OTHERS = """
import aotc
import aotc.numpy as np

n = aotc.Dim("n", min=1)
state = aotc.State({"last": np.zeros((8, 256))})


@aotc.entry(x=aotc.Spec((64, 512)), y=aotc.Spec((64, 512)), z=aotc.Spec((2, 40000)))
def few_rows(x, y, z):
    return np.concatenate([x, y]), np.concatenate([z, z], 1)


@aotc.entry(x=aotc.Spec((900, 3)), y=aotc.Spec((900, 64)), z=aotc.Spec((4, 8)))
def narrow_or_small(x, y, z):
    return np.concatenate([x, y], 1), np.concatenate([z, z], 1)


@aotc.entry(x=aotc.Spec((8, n, 16)), y=aotc.Spec((40, 32), "f64"))
def of_another_form(x, y):
    return np.concatenate([x, x], 1), np.concatenate([y, y], 1)


@aotc.entry(s=state, x=aotc.Spec((8, 16)))
def kept(s, x):
    return {"last": np.concatenate([s["last"][:, 16:], x], 1)}, x
"""


def test_what_is_not_faster_by_a_kernel_has_none(tmp_path):
    model = tmp_path / "model.py"
    model.write_text(OTHERS, encoding="utf-8")
    unit = regions_of(model)  # its functions do not keep it
    fused = map(fused_of, functions_of(unit.module).values())
    assert [each for each in fused if each is not None] == []


EDITED = """
import aotc
import aotc.numpy as np


@aotc.entry(x=aotc.Spec((60, 40)), y=aotc.Spec((60, 60)), z=aotc.Spec((60,)))
def f(x, y, z):
    return np.concatenate([x, y + z], 1)
"""


@pytest.fixture(scope="module")
def regions(tmp_path_factory):
    folder = tmp_path_factory.mktemp("regions")
    model, target = folder / "model.py", Target.parse("x86_64-v3")
    model.write_text(EDITED, encoding="utf-8")
    build(model, targets=[target], dump=folder / "ir", stop_after="regions")
    return folder / "ir" / "x86_64-v3" / "regions.mlir"


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("lanes = 8", "lanes = 16", "such as {'lanes': 8"),
        (r"block = \d+", "block = 0", "such as {'lanes': 8"),
        ("axis = 1 : i64", "axis = 0 : i64", "bad-ir|cannot"),
        ('"graph.add"', '"graph.atan2"', "parts of its arguments"),
        ("axes = array<i64: 1>", "axes = array<i64: 0>", "parts of its arguments"),
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
