"""Entries too large for the reference evaluator are compared block by block."""

import json
from collections import Counter
from dataclasses import asdict, replace
from types import SimpleNamespace

import pytest

from aotc import packager, pipeline, reference
from aotc.artifacts.checked import checks_of
from aotc.artifacts.manifest import FILE
from aotc.checks import reuse, self_check
from aotc.checks.blocks import blocks_of
from aotc.checks.work import TOO_LONG, OverBudget, Work
from aotc.cli.inspect import _self_check
from aotc.dialects import context
from aotc.dialects.functions import functions_of
from aotc.dialects.types import Tensor
from aotc.errors import CompileError
from aotc.importers import load
from aotc.mlir import ir
from aotc.target import Target

LAYERS = 4
MODEL = f"""
import aotc
import aotc.numpy as np
import numpy
from aotc import nn

rng = numpy.random.default_rng(0)


def layer():
    return {{k: rng.normal(size=(16, 16)).astype("f4") / 8 for k in ("a", "b", "c")}}


weights = aotc.Weights({{f"layer{{i}}": layer() for i in range({LAYERS})}})
state = aotc.State({{"sum": numpy.zeros((5, 16), "f4")}})


@aotc.entry(x=aotc.Spec((5, 16), "f32"), i=aotc.Spec((5,), "i32"))
def step(weights, state, x, i):
    x = x + np.eye(16, dtype="f32")[i]
    for n in range({LAYERS}):
        p = weights[f"layer{{n}}"]
        q = np.tanh(nn.layer_norm(x) @ p["a"]) @ p["b"]
        x = x + nn.softmax(q @ p["c"])
    return {{"sum": state["sum"] + x}}, nn.layer_norm(x) @ weights["layer0"]["a"].T
"""


@pytest.fixture
def model(tmp_path, monkeypatch):
    """A model that is too large as a whole, and none of whose blocks is."""
    file = tmp_path / "deep.py"
    file.write_text(MODEL)

    def refuse(self, ops, symbols):
        raise OverBudget(TOO_LONG)

    monkeypatch.setattr(Work, "require", refuse)
    return file


def build(model, **options):
    return pipeline.build(model, output=model.parent, sign=False, **options)


def of_graph(model):
    """The graph of the model, its entry, and the blocks of that."""
    program = load(model, ())
    (entry,) = program.entry_points
    return program.module, entry, blocks_of(program.module, entry, [])


def operations(op):
    """How many operations an op has."""
    count = type(op).flops(op)
    return Tensor.of(op.results[0]).elements if count is None else count


def test_layers_are_blocks_of_one_kind_and_all_ops_are_in_one(model):
    with context():
        module, entry, blocks = of_graph(model)
        kinds = Counter(block.kind for block in blocks)
        assert max(kinds.values()) >= LAYERS - 1
        held = [op for block in blocks for op in (*block.stored, *block.ops)]
        *ops, _ = functions_of(module)[entry.name].entry_block.operations
        assert {*held} == {*ops}
        inner = [op for block in blocks for op in block.ops]
        assert len(inner) == len({*inner})
        for block in blocks[1:]:  # nothing else goes from one to the next
            made = {value for op in (*block.stored, *block.ops) for value in op.results}
            read = {value for op in block.ops for value in op.operands} - made
            assert {x for x in read if not isinstance(x.owner, ir.Block)} == {
                *block.taken
            }


def test_weights_are_packed_once(model, monkeypatch):
    written = []
    write_archives = packager.write_archives

    def note(weights, folder):
        written.extend(name for each in weights for name in each.parameters)
        return write_archives(weights, folder)

    monkeypatch.setattr(packager, "write_archives", note)
    report = build(model, targets=[Target.parse("cpu")])
    assert report.self_checks[0].blocks
    assert len(written) == len({*written}) >= 3 * LAYERS


@pytest.mark.parametrize("work", [2e10, 3e5])
def test_the_share_that_is_told_is_what_was_evaluated(model, monkeypatch, work):
    evaluated = {}
    evaluate_part = reference.evaluate_part

    def note(module, ops, *given, **named):
        found = evaluate_part(module, ops, *given, **named)
        evaluated[tuple(map(str, ops))] = {str(op): operations(op) for op in ops}
        return found

    monkeypatch.setattr(reference, "evaluate_part", note)
    monkeypatch.setattr(self_check, "_WORK", work)
    report = build(model, targets=[Target.parse("cpu")])
    (row,) = report.self_checks
    with context():
        graph = of_graph(model)
        blocks = graph[-1]
        whole = sum(block.operations for block in blocks)
        # what weights alone decide is computed with a block, and not counted
        stored = {str(op) for block in blocks for op in block.stored}
    count = row.blocks
    assert count.blocks == len(blocks)
    assert count.compared == len(evaluated)
    assert count.is_of_all_kinds == bool(row.checked)
    assert (count.compared == count.blocks) == (work > 1e6)
    done = [
        n for ops in evaluated.values() for op, n in ops.items() if op not in stored
    ]
    assert count.operations == pytest.approx(sum(done) / whole)
    stated = json.loads((report.bundle / FILE).read_bytes())
    assert stated["self_check"][0]["blocks"] == count.to_json()
    (line, *_) = _self_check(stated["self_check"])  # as `aotc inspect` says it
    assert f": {count.compared} of {count.blocks} blocks checked (" in line
    (check,) = checks_of(stated, row.target)
    assert check.is_checked == bool(row.checked)
    assert f"{count.compared} of {count.blocks} blocks" in str(row)
    left = [why for _, why in row.unchecked if "of any size" not in why]
    assert len(left) < len(row.unchecked)  # integers of any size, as a whole
    assert bool(left) == (count.compared < count.blocks)
    assert row.operations == count.operations == row.to_json()["operations"]
    assert reuse._row(json.loads(json.dumps(asdict(row)))) == row  # as the cache does


def test_weights_of_one_layer_that_lie_wrong_are_found_in_its_block(model, monkeypatch):
    write_archives = packager.write_archives

    def reversed_in_one_layer(weights, folder):
        if not weights:  # where all are lent
            return write_archives(weights, folder)
        (each,) = weights
        (name,) = (n for n in each.parameters if n.startswith("weights.layer2.b"))
        wrong = {name: each.parameters[name][::-1].copy()}
        parameters = each.parameters | wrong
        return write_archives([replace(each, parameters=parameters)], folder)

    monkeypatch.setattr(packager, "write_archives", reversed_in_one_layer)
    with pytest.raises(CompileError, match=r"in block \d of \d+:\n  FAIL") as caught:
        build(model)
    assert caught.value.code == "self-check"
    assert caught.value.where.startswith("deep.py:")
    assert not list(model.parent.glob("*.aotc"))


def test_targets_have_equal_shares_of_the_work(monkeypatch):
    names = ("known", "a", "b", "c")
    shares = []

    def by_blocks(row, subject, item, code, work):
        shares.append(work.left)
        work.take(work.left)
        return row

    monkeypatch.setattr(self_check, "_by_blocks", by_blocks)
    subject = SimpleNamespace(entry=SimpleNamespace(name="step"))
    rows = {("step", x): SimpleNamespace(checked=x == "known") for x in names}
    codes = [(SimpleNamespace(target=x),) for x in names]
    self_check._check_by_blocks(rows, subject, None, codes, Work(3000.0, 1e9))
    assert shares == [1000.0] * 3
