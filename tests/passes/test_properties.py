"""The order of passes has reasons: what each requires, one before it ensures."""

from pathlib import Path

import pytest

from aotc.dialects import context
from aotc.importers import load
from aotc.machine.target import Target
from aotc.mlir import ir
from aotc.passes import PASSES, class_of, properties, run_passes
from aotc.passes.base import Property, Unit
from aotc.passes.stages import PASS_STAGES, all_passes
from aotc.programs.program import LEVELS

ROOT = Path(__file__).parents[2]
MODELS = (  # training, loops, sizes with code of their own, padding, states
    "examples/mlp/model.py",
    "examples/gru/model.py",
    "tests/e2e/specialized_model.py",
    "tests/e2e/padded_model.py",
    "tests/e2e/states_model.py",
)
ALL = {each for each in vars(properties).values() if isinstance(each, Property)}


def _named(passes):
    return ", ".join(
        f"`{name}`" for name in dict.fromkeys(each.name for each in passes)
    )


def test_the_page_of_passes_has_the_properties():
    page = (ROOT / "docs/passes.md").read_text(encoding="utf-8")
    classes = [class_of(name) for name in PASSES]
    for each in ALL:
        ensuring = _named(x for x in classes if each in x.ensures)
        requiring = _named(x for x in classes if each in x.requires)
        row = f"| `{each.name}` | {each.says} | {ensuring} | {requiring} |"
        assert row in page


@pytest.mark.parametrize("level", LEVELS)
def test_what_a_pass_requires_one_before_it_ensures(level):
    ensured = {properties.IS_GRAPH}
    for each in all_passes(level):
        lacking = {wanted.name for wanted in each.requires} - {p.name for p in ensured}
        assert not lacking, each.name
        ensured |= {*each.ensures}
        if not each.keeps_graph:
            ensured.discard(properties.IS_GRAPH)


def test_each_property_is_required_or_stays():
    """One that neither lasts nor is asked for says nothing of the order."""
    asked = {wanted for name in PASSES for wanted in class_of(name).requires}
    assert {each for each in ALL if not each.lasts} <= asked


CONSTANT = """
import aotc
import aotc.numpy as np
@aotc.entry(x=aotc.Spec((2000,)))
def f(x):
    return x + np.sin(np.arange(2000.0))
"""


def test_properties_hold_where_they_are_required_and_as_long_as_they_last(tmp_path):
    (tmp_path / "model.py").write_text(CONSTANT)
    models = [*(ROOT / model for model in MODELS), tmp_path / "model.py"]
    target, false_before = Target.parse("x86_64-v3"), set[Property]()
    for model in models:
        false_before |= _run_stages(Unit(load(model)), target)
    assert ALL - false_before == {properties.IS_GRAPH, properties.REGIONS_UNIQUE}


def test_properties_hold_for_a_target_without_kernels():
    assert _run_stages(Unit(load(ROOT / MODELS[0])), Target.parse("vmvx"))


def _run_stages(unit, target):
    """Run all passes, check their properties; return those that some made true."""
    lasting, made_true = dict[Property, str](), set[Property]()
    for stage in PASS_STAGES:
        if stage.per_target and unit.target is None:
            unit = unit.fork(target)
        for each in stage.passes():
            _check(unit, each.requires, f"before {each}")
            made_true |= {p for p in each.ensures if _violations(unit, p)}
            run_passes(unit, [each], silently=True)
            _check(unit, each.ensures, f"after {each}")
            lasting |= {kept: each.name for kept in each.ensures if kept.lasts}
            _check(unit, lasting, f"after {each}")
    return made_true


def _violations(unit, wanted):
    with context(), ir.Location.unknown():
        return [*wanted.violations(unit)]


def _check(unit, wanted, when):
    for each in wanted:
        assert _violations(unit, each) == [], f"{each.name} {when}"
