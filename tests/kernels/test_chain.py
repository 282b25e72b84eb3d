"""Chains of convolutions compute what the graph says, a few lines at a time."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from aotc import reference
from aotc.dialects.functions.functions import functions_of
from aotc.dialects.functions.fusion import fused_of
from aotc.errors import InputError
from aotc.importers import load
from aotc.kernels.capabilities import capabilities_of
from aotc.machine.target import Target
from aotc.mlir import ir
from aotc.passes import run_passes
from aotc.passes.base import Unit
from aotc.passes.fuse_regions import FuseRegions
from aotc.passes.stages import PASS_STAGES
from aotc.pipeline import build
from aotc.programs.files import read_program
from aotc.tuning.proposals import propose

MODEL = Path(__file__).parent / "chains.py"
LEVELS = ["x86_64-v3", "x86_64-v4"]
ENTRIES = [entry.name for entry in load(MODEL).entries]
SYMBOLIC = ["any_images"]
STATEFUL = ["recurrent", "state_alone"]
STATIC = [name for name in ENTRIES if name not in (*SYMBOLIC, *STATEFUL)]
# entries with a chain and another kernel
SHORTER = ["read_between", "scaled_between"]


@pytest.fixture(scope="module")
def expected(program):
    """Inputs of an entry, and what the reference makes of them; once for all."""
    known = {}

    def evaluate(name, images=1):
        if (name, images) not in known:
            rng, entry = np.random.default_rng(1), program.entry(name)
            inputs = {}
            for port in entry.ports("input"):
                sizes = (n if isinstance(n, int) else images for n in port.type.shape)
                inputs[port.name] = rng.normal(size=tuple(sizes)).astype("f")
            given = [
                inputs.get(p.name, program.parameters.get(p.name))
                for p in entry.arguments
            ]
            found = reference.evaluate(program.module, name, given)
            known[name, images] = inputs, found
        return known[name, images]

    return evaluate


def compare(compiled, terms, name, inputs, wanted):
    found = compiled.entries[name](**inputs)
    found = found if isinstance(found, (tuple, list)) else (found,)
    by_terms = terms.evaluate(name, inputs)
    for mine, theirs in zip([*found, *by_terms], wanted * 2, strict=True):
        scale = float(abs(theirs).max(initial=1.0))
        np.testing.assert_allclose(mine, theirs, rtol=2e-5, atol=5e-6 * scale)


@pytest.mark.parametrize("name", STATIC)
def test_a_chain_computes_what_the_graph_says(compiled, terms, expected, name):
    compare(compiled, terms, name, *expected(name))


@pytest.mark.parametrize("images", [0, 1, 2, 5])
@pytest.mark.parametrize("name", SYMBOLIC)
def test_a_call_decides_how_many_images_there_are(
    compiled, terms, expected, name, images
):
    compare(compiled, terms, name, *expected(name, images))


@pytest.mark.parametrize("name", STATEFUL)
def test_the_result_takes_the_place_of_the_image_that_was_read(compiled, program, name):
    rng, entry = np.random.default_rng(2), program.entry(name)
    inputs = {
        port.name: rng.normal(size=port.type.shape).astype("f")
        for port in entry.ports("input")
    }
    image = rng.normal(size=(1, 24, 24, 24)).astype("f")
    for _ in range(2):
        known = {**program.parameters, **inputs}
        given = [
            image if port.kind == "state" else known[port.name]
            for port in entry.arguments
        ]
        results = reference.evaluate(program.module, name, given)
        compiled.write_state({"image": image})
        found = compiled.entries[name](**inputs)
        for port, wanted in zip(entry.results, results, strict=True):
            mine = compiled.read_state()["image"] if port.kind == "state" else found
            np.testing.assert_allclose(mine, wanted, rtol=2e-5, atol=1e-4)
            image = wanted if port.kind == "state" else image


@pytest.fixture(scope="module", params=LEVELS)
def regions(request):
    unit = Unit(load(MODEL)).fork(Target.parse(request.param))
    for stage in PASS_STAGES[:2]:
        run_passes(unit, stage.passes(), silently=True)
    return unit


def families_of(regions, name):
    """The families of the kernels that an entry calls, in order."""
    functions = functions_of(regions.module)
    called = [
        op.attributes["callee"].value
        for op in functions[name].entry_block.operations
        if op.operation.name == "func.call"
    ]
    return [fused.kernel for fused in (fused_of(functions[x]) for x in called) if fused]


def test_a_chain_is_one_region(regions):
    expected = dict.fromkeys(STATIC, ["chain"])
    expected |= {"any_images": ["chain"], "twice": ["chain", "chain"], "repeated": []}
    expected |= dict.fromkeys(SHORTER, ["contraction", "chain"])
    expected |= {"small": ["contraction", "depthwise", "contraction"]}
    expected |= {"tied": ["chain", "contraction"]}
    del expected["differentiated"], expected["squeezed"]
    assert {name: families_of(regions, name) for name in expected} == expected
    assert families_of(regions, "squeezed")[0] == "chain"
    assert "chain" not in families_of(regions, "differentiated")


def test_the_memory_of_a_call_is_known(bundles):
    """Threads decide how much scratch is used, but not how much is set aside."""
    manifest = json.loads(
        (bundles(Target.parse("x86_64-v3")) / "manifest.json").read_bytes()
    )
    (variant,) = manifest["variants"]
    assert {*STATIC, *STATEFUL} <= {*variant["memory"]}


def test_chains_whose_windows_differ_are_measured_apart():
    """Even if their last stages, which they are named by, are alike."""
    target = Target.parse("x86_64-v3")
    unit = Unit(load(MODEL)).fork(target)
    run_passes(unit, PASS_STAGES[0].passes(), silently=True)
    with unit.module.context, ir.Location.unknown():
        proposals = propose(unit, FuseRegions(), capabilities_of(target), ())
    keys = [each.key for each in proposals]
    last = "conv_general(f32[1, 24, 24, 144], f32[1, 1, 144, 32])"
    alike = [key for key in keys if key.startswith(f"chain: {last}")]
    assert any("f32[1, 3, 1, 144]" in key for key in alike)
    assert any("f32[3, 3, 1, 144]" in key for key in alike)


def test_regions_are_formed_once(regions):
    formed = [*map(str, functions_of(regions.module).values())]
    run_passes(regions, ("fuse-regions",), silently=True)
    assert [*map(str, functions_of(regions.module).values())] == formed


def test_a_region_means_what_its_ops_meant(program, regions, expected):
    for name in ("images_with_steps", "residual", "squeezed"):
        inputs, wanted = expected(name)
        entry = regions.program.entry(name)
        given = [
            inputs.get(p.name, regions.program.parameters.get(p.name))
            for p in entry.arguments
        ]
        found = reference.evaluate(regions.module, name, given)
        for mine, theirs in zip(found, wanted, strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-4)


@pytest.fixture(scope="module")
def dumped(tmp_path_factory):
    folder, target = tmp_path_factory.mktemp("regions"), Target.parse("x86_64-v3")
    build(MODEL, targets=[target], dump=folder, stop_after="regions")
    return folder / "x86_64-v3" / "regions.mlir"


def test_what_a_build_has_written_is_read(dumped):
    assert read_program(dumped).stage == "regions"


NEGATED = """%w = "graph.negate"(%arg2) : (tensor<1x1x24x144xf32>) ->
    tensor<1x1x24x144xf32>
    %0 = "graph.conv_general"(%arg1, %w)"""


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (r"lines = \d+", "lines = 40", "expected one of the .* schedules"),
        (r"project_rows = \d+", "project_rows = 0", "expected one of the .* schedules"),
        (r'%0 = "graph.conv_general"\(%arg1, %arg2\)', NEGATED, "read its arguments"),
    ],
)
def test_a_chain_that_its_kernel_would_misread_is_refused(dumped, old, new, words):
    text = dumped.read_text(encoding="utf-8")
    assert re.search(old, text)
    changed = dumped.with_name("changed.mlir")
    changed.write_text(re.sub(old, new, text, count=1), encoding="utf-8")
    with pytest.raises(InputError, match=words):
        read_program(changed)
