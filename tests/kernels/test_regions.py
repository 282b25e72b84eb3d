"""Random models keep their meaning where kernels compute regions of them.

`python -m benchmarks.fuzz.weighted` draws more of them.
"""

import pytest

from aotc.core.numerics import STRICT
from aotc.dialects.functions.functions import functions_of
from aotc.importers import load
from aotc.kernels.facts import facts_of
from aotc.kernels.families import FAMILIES
from aotc.kernels.family import PlannedKernel
from aotc.machine.target import Target
from aotc.passes import run_passes
from aotc.passes.base import Unit
from aotc.passes.stages import PASS_STAGES
from aotc.pipeline import build
from benchmarks.frontends.kernel_sizes import thresholds
from benchmarks.fuzz.weighted import differences, model_source
from tests.machines import require_runs_here

pytestmark = [
    # a random entry need not read all
    pytest.mark.filterwarnings("ignore:.*is not used")
]


@pytest.fixture(autouse=True)
def kernels_for_small_operators(monkeypatch):
    for module, name in thresholds():
        monkeypatch.setattr(module, name, 1)


@pytest.mark.parametrize("level", ["x86_64-v3", "x86_64-v4"])
def test_random_entries_compute_what_their_model_says(level, tmp_path):
    target = Target.parse(level)
    require_runs_here(target)
    model = tmp_path / "model.py"
    model.write_text(model_source(seed=6, entries=6))
    asked = {"targets": [target], "self_check": "off", "sign": False}
    report = build(model, output=tmp_path, **asked)
    assert list(differences(model, report.bundle)) == []


def test_random_entries_have_kernels_of_all_families(tmp_path):
    """But for sorting: it makes another order of numbers that rounding tells apart.

    And for quantisation, by which rounding makes another level. Elementwise ops that
    others compute as well are seldom drawn, and so is the derivative of an attention
    that has no weight for a bias.

    What is told of a kernel has its anchor among the ops.
    """
    model = tmp_path / "model.py"
    model.write_text(model_source(seed=17, entries=16))
    unit = Unit(load(model), Target.parse("x86_64-v3"))
    optimized, regions, *_ = PASS_STAGES
    run_passes(unit, [*optimized.passes(), *regions.passes()])
    every = (PlannedKernel.of(x, FAMILIES) for x in functions_of(unit.module).values())
    found = [kernel for kernel in every if kernel]
    usual = {name for name, each in FAMILIES.items() if each.numerics == STRICT}
    rare = {"sort", "quantization", "elementwise", "nests", "scan"}
    rare.add("attention_gradient")
    assert {kernel.name for kernel in found} - rare == usual - rare
    for kernel in found:
        anchor = kernel.anchor.operation.name
        with kernel.function.context:
            listed = facts_of(kernel, None)["ops"]
        assert anchor.removeprefix("graph.") in listed
