"""Kernels of depthwise convolutions and pooling compute what the graph says."""

from pathlib import Path

import numpy as np
import pytest

import aotc
from aotc import reference
from aotc.dialects.functions.functions import functions_of
from aotc.dialects.functions.fusion import fused_of
from aotc.importers import load
from aotc.kernels.geometry import ConvolutionGeometry
from aotc.kernels.machine import machine_of
from aotc.kernels.planning.depthwise import Sweep, choose_sweep
from aotc.machine.target import Target
from aotc.passes import run_passes
from aotc.passes.base import Unit
from aotc.passes.stages import PASS_STAGES
from aotc.pipeline import build
from tests.machines import require_runs_here

MODEL = Path(__file__).parent / "windows.py"
LEVELS = ["x86_64-v3", "x86_64-v4"]
ENTRIES = [entry.name for entry in load(MODEL).entries]
# what is no part of the region
BEFORE = {"not_a_number": ["graph.log"]}


@pytest.fixture(scope="module", params=LEVELS)
def bundle(request, tmp_path_factory):
    target = Target.parse(request.param)
    require_runs_here(target)
    report = build(
        MODEL,
        targets=[target],
        output=tmp_path_factory.mktemp("kernels"),
        self_check="off",
        sign=False,
    )
    return aotc.load(report.bundle, allow_unsigned=True)


@pytest.mark.parametrize("name", ENTRIES)
@pytest.mark.filterwarnings("ignore:invalid value")
def test_a_kernel_computes_what_the_graph_says(bundle, terms, program, name):
    rng, entry = np.random.default_rng(1), program.entry(name)
    inputs = {
        port.name: rng.normal(size=port.type.shape).astype("f")
        for port in entry.ports("input")
    }
    given = [
        inputs.get(p.name, program.parameters.get(p.name)) for p in entry.arguments
    ]
    expected = reference.evaluate(program.module, name, given)
    found = bundle.entries[name](**inputs)
    found = found if isinstance(found, tuple) else (found,)
    by_terms = terms.evaluate(name, inputs)
    for mine, theirs in zip([*found, *by_terms], expected * 2, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("level", LEVELS)
def test_windows_with_what_follows_are_one_region(level):
    unit = Unit(load(MODEL)).fork(Target.parse(level))
    for stage in PASS_STAGES[:2]:
        run_passes(unit, stage.passes())
    functions = functions_of(unit.module)
    for name in ENTRIES:
        ops = [op.operation.name for op in functions[name].entry_block.operations]
        assert ops == [*BEFORE.get(name, ()), "func.call", "func.return"], name
    families = {fused.kernel for fused in map(fused_of, functions.values()) if fused}
    assert families == {"depthwise", "pooling"}


def _depthwise(size, channels, window):
    padding = tuple(n // 2 for n in window)
    return ConvolutionGeometry(
        1, size, channels, window, channels, size, padding=padding, groups=channels
    )


def test_workgroups_are_some_lines_or_some_channels_of_a_long_line():
    machine = machine_of(Target.parse("x86_64-v4"))
    image = _depthwise((112, 112), 32, (3, 3))
    assert choose_sweep(image, machine) == Sweep(16, 7, 1, 2, 1)
    small = _depthwise((7, 7), 64, (3, 3))
    assert choose_sweep(small, machine).block == 7
    line = _depthwise((1, 2048), 768, (1, 3))
    assert choose_sweep(line, machine).workgroups(line) == (5, 1)
