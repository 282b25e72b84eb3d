"""Loops that are one kernel compute what the reference computes."""

import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import aotc
from aotc import reference
from aotc.core import dtypes
from aotc.core.pytree import flatten
from aotc.dialects.functions.function_table import index_functions
from aotc.dialects.functions.functions import functions_of
from aotc.dialects.functions.fusion import fused_of
from aotc.dialects.ops.trigonometric import Sin, Tanh
from aotc.dialects.ops.unary import Exp, Log
from aotc.dialects.sizes.symbols import contracts_of, known_contracts
from aotc.dialects.types import evaluate_size
from aotc.importers import load
from aotc.kernels.planning.nests import applied_in
from aotc.kernels.planning.scan import ScanLoop
from aotc.kernels.term_builder import term_of
from aotc.machine.target import Target
from aotc.passes import run_passes
from aotc.passes.base import Unit
from aotc.passes.stages import PASS_STAGES
from aotc.pipeline.forms import text_of

MODEL = Path(__file__).parent / "loops.py"
ENTRIES = [entry.name for entry in load(MODEL).entries]
SIZES = [(0, 3), (1, 1), (2, 0), (5, 7), (33, 16)]  # steps and batch
OF_ANY_SIZE = ["forwards", "backwards", "masked", "gradients", "added"]


def drawn(program, name, steps=5, batch=4, scale=1.0):
    """Random inputs of an entry, by name."""
    rng, known = np.random.default_rng(3), {"steps": steps, "batch": batch, "n": steps}
    inputs = {}
    contracts = contracts_of(functions_of(program.module)[name])
    symbols = [known[each.name] for each in contracts]
    for port in program.entry(name).ports("input"):
        shape = [evaluate_size(size, symbols) for size in port.type.shape]
        kind = dtypes.to_numpy(port.type.dtype)
        values = rng.normal(size=shape) * (scale if port.name != "w" else 0.3)
        if port.name == "lengths":
            values = rng.integers(0, steps + 2, shape)
        inputs[port.name] = np.asarray(values).astype(kind)
    return inputs


def compare(compiled, program, name, inputs):
    expected = reference.evaluate(program.module, name, [*inputs.values()])
    found, _ = flatten(compiled.entries[name](**inputs))
    for mine, theirs in zip(found, expected, strict=True):
        assert np.asarray(mine).dtype == theirs.dtype
        relative = {"bfloat16": 1e-2, "float64": 1e-12}.get(str(theirs.dtype), 2e-5)
        mine, theirs = (np.asarray(x).astype("f8") for x in (mine, theirs))
        largest = np.max(abs(theirs), initial=1.0)
        np.testing.assert_allclose(mine, theirs, relative, relative * largest)
    return found


@pytest.fixture(scope="module")
def regions():
    """The model, with its regions."""
    unit = Unit(load(MODEL), Target.parse("x86_64-v4"))
    for stage in PASS_STAGES[:2]:
        run_passes(unit, stage.passes(), silently=True)
    return unit


def test_each_loop_that_a_core_can_run_is_one_kernel(regions):
    functions = functions_of(regions.module)

    def loops_in(name):
        text = str(functions[name])
        called = re.findall(r"call @([\w.]+)", text)
        fused = [fused_of(functions[x]) for x in called]
        return sum(x is not None and x.kernel == "scan" for x in fused)

    # those of a `while` are in its body
    several = {"recomputed": 3, "equation_gradients": 2, "until": 0}
    found = {name: loops_in(name) for name in ENTRIES}
    assert found == {name: several.get(name, 1) for name in ENTRIES}


def test_a_region_of_a_step_applies_each_costly_function_once(regions):
    """Also where several sums of the step read what it gives."""
    counted = Counter()
    for function in functions_of(regions.module).values():
        fused = fused_of(function)
        if fused is None or fused.kernel != "nests":
            continue
        with function.context, known_contracts(contracts_of(function)):
            term = term_of(function)
        ops = [type(op) for op in function.entry_block.operations]
        applied = [type(x.op) for each in term.statements for x in applied_in(each)]
        for costly in (Tanh, Exp, Log, Sin):
            assert applied.count(costly) == ops.count(costly), str(term)
            counted[costly] += applied.count(costly)
    assert min(counted.values()) > 0


def test_the_regions_of_steps_are_printed_with_their_terms(regions):
    assert "# nests(" in text_of(regions.module, readable=True)


def test_sums_are_updated_in_place_where_nothing_else_reads_them(regions):
    functions = functions_of(regions.module)

    def updated(name):
        (region,) = (
            functions[each]
            for each in re.findall(r"call @([\w.]+)", str(functions[name]))
            if fused_of(functions[each]) and fused_of(functions[each]).kernel == "scan"
        )
        with index_functions(regions.module):
            return {*ScanLoop.of(region.entry_block.operations[0]).updated_in_place}

    assert updated("accumulated") == {0, 1}
    assert updated("forwards") == updated("swapped") == set()
    assert updated("added") == set()  # tiles of rows may overlap


@pytest.mark.parametrize("name", [x for x in ENTRIES if x not in OF_ANY_SIZE])
def test_a_loop_gives_what_the_reference_gives(compiled, program, name):
    compare(compiled, program, name, drawn(program, name))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", OF_ANY_SIZE)
def test_a_call_decides_how_many_steps_and_sequences(compiled, program, name, size):
    compare(compiled, program, name, drawn(program, name, *size))


@pytest.mark.parametrize("name", ["masked", "gradients", "lstm"])
def test_threads_and_values_that_are_no_numbers_change_nothing(bundles, program, name):
    bundle = bundles(Target.parse("x86_64-v3"))
    inputs = drawn(program, name, 9, 5)
    inputs["xs"][3, 1] = np.nan
    first, second = (
        flatten(
            aotc.load(bundle, allow_unsigned=True, threads=n).entries[name](**inputs)
        )[0]
        for n in (1, 2)
    )
    expected = reference.evaluate(program.module, name, [*inputs.values()])
    for one, two, theirs in zip(first, second, expected, strict=True):
        np.testing.assert_array_equal(one, two)
        np.testing.assert_array_equal(np.isnan(one), np.isnan(theirs))
