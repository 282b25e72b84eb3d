"""Kernels of convolutions of several groups compute what the graph says."""

from pathlib import Path

import numpy as np
import pytest

import aotc
from aotc import reference
from aotc.dialects.functions.functions import functions_of
from aotc.dialects.functions.fusion import fused_of
from aotc.importers import load
from aotc.machine import processor
from aotc.machine.target import Target
from aotc.passes import run_passes
from aotc.passes.base import Unit
from aotc.passes.stages import PASS_STAGES
from aotc.pipeline import build
from aotc.programs.files import read_program

MODEL = Path(__file__).parent / "groups.py"
LEVELS = ["x86_64-v3", "x86_64-v4"]
ENTRIES = [entry.name for entry in load(MODEL).entries]


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    """The bundle for the levels that this processor runs."""
    features = set(processor.cpu_features())
    targets = [Target.parse(level) for level in LEVELS]
    targets = [t for t in targets if set(t.cpu_features_required) <= features]
    if not targets:
        pytest.skip("this processor runs no code of these levels")
    report = build(
        MODEL,
        targets=targets,
        output=tmp_path_factory.mktemp("kernels"),
        self_check="off",
        sign=False,
    )
    return report.bundle, [target.id for target in targets]


def _arguments(program, entry, images):
    rng = np.random.default_rng(1)
    shapes = {
        port.name: [n if isinstance(n, int) else images for n in port.type.shape]
        for port in entry.ports("input")
    }
    inputs = {n: rng.normal(size=shape).astype("f") for n, shape in shapes.items()}
    values = [
        inputs.get(p.name, program.parameters.get(p.name)) for p in entry.arguments
    ]
    return inputs, values


@pytest.mark.parametrize("level", LEVELS)
def test_kernels_compute_what_the_graph_says(bundle, terms, program, level):
    folder, levels = bundle
    if level not in levels:
        pytest.skip("this processor does not run it")
    model = aotc.load(folder, allow_unsigned=True, target=level)
    for name in ENTRIES:
        entry = program.entry(name)
        for images in (1, 3) if name.endswith("_of_any_batch") else (1,):
            inputs, values = _arguments(program, entry, images)
            expected = reference.evaluate(program.module, name, values)
            found = model.entries[name](**inputs)
            found = found if isinstance(found, tuple) else (found,)
            by_terms = terms.evaluate(name, inputs)
            for mine, theirs in zip([*found, *by_terms], expected * 2, strict=True):
                scale = max(1.0, abs(theirs).max())
                np.testing.assert_allclose(
                    mine, theirs, rtol=2e-5, atol=2e-5 * scale, err_msg=name
                )


@pytest.mark.parametrize("level", [*LEVELS, "aarch64", "riscv64-v"])
def test_every_convolution_of_groups_is_a_region(level):
    unit = Unit(load(MODEL)).fork(Target.parse(level))
    for stage in PASS_STAGES[:2]:
        run_passes(unit, stage.passes())
    functions = functions_of(unit.module)
    families = {fused.kernel for fused in map(fused_of, functions.values()) if fused}
    assert families >= {"contraction", "depthwise"}
    for name in ENTRIES:
        ops = [op.operation.name for op in functions[name].entry_block.operations]
        assert "graph.conv_general" not in ops, name
        assert "func.call" in ops, name


def test_regions_that_a_build_has_written_are_read(tmp_path):
    target = Target.parse("x86_64-v4")
    build(MODEL, targets=[target], dump=tmp_path, stop_after="regions")
    assert read_program(tmp_path / "x86_64-v4" / "regions.mlir").stage == "regions"


def test_what_vectors_would_hold_too_little_of_is_refused(tmp_path):
    """Groups of many channels and few features."""
    file = tmp_path / "narrow.py"
    file.write_text(
        "import aotc\nfrom aotc import nn\n"
        "x, k = aotc.Spec((1, 99, 9, 64)), aotc.Spec((1, 1, 32, 4))\n"
        "@aotc.entry(x=x, k=k)\ndef f(x, k):\n    return nn.conv(x, k, groups=2)\n"
    )
    unit = Unit(load(file)).fork(Target.parse("x86_64-v4"))
    for stage in PASS_STAGES[:2]:
        run_passes(unit, stage.passes())
    text = str(unit.module)
    assert "2 groups of 32 channels and 2 features fill too little of a vector" in text
