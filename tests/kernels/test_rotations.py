"""Rotated queries and keys with shared heads, compiled: what the graph says."""

from pathlib import Path

import numpy as np
import pytest

from aotc import reference
from aotc.core import dtypes
from aotc.dialects.functions.functions import functions_of
from aotc.dialects.types import Tensor
from aotc.importers import load
from aotc.machine.target import Target
from aotc.passes import run_passes
from aotc.passes.base import Unit
from aotc.passes.stages import PASS_STAGES

MODEL = Path(__file__).parent / "rotations.py"
LEVELS = ["x86_64-v3", "x86_64-v4"]
LENGTH = 20
SIZES = [(1, 1), (1, 40), (2, 17), (3, 0), (0, 5)]
ANY_BATCH = ["two_readers", "of_a_part"]
STATIC = ["attend", "slope", "of_other_floats", "neighbours"]


def compare(compiled, terms, program, name, *, batch=None, length=None):
    """Results of the compiled entry and the reference for the same random inputs."""
    rng, entry = np.random.default_rng(1), program.entry(name)
    inputs = {}
    for port in entry.ports("input"):
        sizes = [length] if port.name == "positions" else [batch, length]
        shape = [
            n if isinstance(n, int) else sizes[axis]
            for axis, n in enumerate(port.type.shape)
        ]
        drawn = rng.integers(0, 64, shape), rng.normal(size=shape)
        dtype = dtypes.to_numpy(port.type.dtype)
        inputs[port.name] = drawn[port.name != "positions"].astype(dtype)
    known = program.parameters | inputs
    given = [known[port.name] for port in entry.arguments]
    expected = reference.evaluate(program.module, name, given)
    found = compiled.entries[name](**inputs)
    found = found if isinstance(found, tuple) else (found,)
    by_terms = terms.evaluate(name, inputs)
    for mine, theirs in zip([*found, *by_terms], expected * 2, strict=True):
        bound = 1e-3 if mine.dtype == np.float16 else 1e-5
        scale = np.abs(theirs).max(initial=0)
        np.testing.assert_allclose(mine, theirs, rtol=bound, atol=bound * scale)


@pytest.mark.parametrize("name", STATIC)
def test_what_is_rotated_is_what_the_graph_says(compiled, terms, program, name):
    compare(compiled, terms, program, name)


@pytest.mark.parametrize(("batch", "length"), SIZES)
def test_a_call_decides_how_many_positions_there_are(
    compiled, terms, program, batch, length
):
    compare(compiled, terms, program, "attend_any", batch=batch, length=length)


@pytest.mark.parametrize("batch", [0, 1, 3])
@pytest.mark.parametrize("name", ANY_BATCH)
def test_a_value_is_rotated_whoever_else_reads_it(
    compiled, terms, program, name, batch
):
    compare(compiled, terms, program, name, batch=batch)


@pytest.mark.parametrize("level", LEVELS)
def test_nothing_is_concatenated_or_repeated_for_an_attention(level):
    unit = Unit(load(MODEL)).fork(Target.parse(level))
    for stage in PASS_STAGES[:2]:
        run_passes(unit, stage.passes(), silently=True)
    block = functions_of(unit.module)["attend"].entry_block
    names = [op.operation.name.removeprefix("graph.") for op in block.operations]
    assert not {"concatenate", "negate", "transpose", "select"} & set(names)
    calls = [op for op in block.operations if op.operation.name == "func.call"]
    *_, query, key, value = (Tensor.of(x) for x in calls[-1].operands[:3])
    assert query.shape == (2, LENGTH, 6, 16)
    assert key.shape == value.shape == (2, LENGTH, 2, 16)
