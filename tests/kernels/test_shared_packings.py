"""A weight that several products read is packed once, for all of them, by the build."""

import numpy as np
import pytest

import aotc
from aotc.dialects import context
from aotc.dialects.functions.functions import functions_of
from aotc.importers import load
from aotc.machine.target import Target
from aotc.mlir import ir
from aotc.passes import run_passes
from aotc.passes.base import Unit
from aotc.passes.stages import PASS_STAGES
from aotc.pipeline import build
from aotc.programs.parameter_archive import read_archive

TARGET = Target.parse("x86_64-v3")
TWO_ENTRIES = """
import numpy
import aotc
import aotc.numpy as np
draw = numpy.random.default_rng(0).standard_normal
w = aotc.Weights([draw((512, 768), "f4"), draw((512, 512), "f4")])
@aotc.entry(x=aotc.Spec((1, 512)))
def step(w, x):
    return np.tanh(x @ w[1].T) @ w[0]
@aotc.entry(x=aotc.Spec((96, 512)))
def prompt(w, x):
    return np.tanh(x @ w[1].T) @ w[0]
"""
TIED = """
import numpy
import aotc
import aotc.numpy as np
from aotc import nn
draw = numpy.random.default_rng(0).standard_normal
w = aotc.Weights(draw((1024, 256), "f4"))
@aotc.entry(x=aotc.Spec((8,), "i32"))
def f(w, x):
    return np.tanh(nn.embedding(w, x)) @ w.T
"""


def lowered(source, text):
    """The program of a target, with its regions."""
    source.write_text(text)
    unit = Unit(load(source))
    with context(), ir.Location.unknown():
        run_passes(unit, PASS_STAGES[0].passes())
        unit.program.stage = "optimized"
        unit = unit.fork(TARGET)
        run_passes(unit, PASS_STAGES[1].passes())
    return unit.program


def tiles_of(program):
    """The packed products of a program, by how many rows a tile has."""
    fused = [
        function.attributes["graph.fused"]
        for function in functions_of(program.module).values()
        if "graph.fused" in function.attributes
    ]
    return [str(each) for each in fused if "contraction" in str(each)]


@pytest.fixture
def source(tmp_path):
    return tmp_path / "model.py"


def ops_of_weights(program):
    """The ops outside of regions all of whose operands are weights."""
    found = []
    for entry in program.entries:
        block = functions_of(program.module)[entry.name].entry_block
        ports = zip(block.arguments, entry.arguments, strict=True)
        known = {value for value, port in ports if port.kind == "weight"}
        for op in block.operations:
            if op.operands and all(x in known for x in op.operands):
                known |= {*op.results}
                found.append(op.operation.name)
    return found


def test_entries_of_few_and_of_many_rows_read_one_packing(source):
    program = lowered(source, TWO_ENTRIES)
    assert ops_of_weights(program) == []
    weights = {e.name: {p.name for p in e.arguments} for e in program.entries}
    assert weights["step"] - {"x"} == weights["prompt"] - {"x"} == {*program.parameters}
    assert len(program.parameters) == 2
    tiles = tiles_of(program)
    assert len({*tiles}) > 1  # the rows and blocks are those of each
    assert len({each.partition("vectors = ")[2][:1] for each in tiles}) <= 2


def test_a_weight_that_is_read_as_it_is_too_is_stored_in_both_orders(source):
    program = lowered(source, TIED)
    assert ops_of_weights(program) == []
    kept, packed = sorted(program.parameters)
    assert kept == "w"
    assert packed.startswith("w.folded")


def test_what_reads_a_shared_packing_computes_the_same(source, tmp_path):
    source.write_text(TWO_ENTRIES)
    bundle = build(source, output=tmp_path, targets=[TARGET], sign=False).bundle
    entries = read_archive(bundle / "weights.irpa")
    assert sum(each.length for each in entries.values()) < 1.1 * 4 * 512 * 1280
    model = aotc.load(bundle, allow_unsigned=True, threads=1)
    x = np.random.default_rng(0).standard_normal((96, 512), "f4")
    whole = model.prompt(x=x)
    one = model.step(x=x[5:6])
    np.testing.assert_allclose(whole[5:6], one, rtol=1e-4, atol=1e-4)
