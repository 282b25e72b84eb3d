"""Entries too large for the reference evaluator are compared block by block."""

import itertools
import json
from collections import Counter
from dataclasses import asdict, replace
from types import SimpleNamespace

import pytest

from aotc import packager, reference
from aotc.artifacts.checked import checks_of
from aotc.artifacts.manifest import FILE
from aotc.checks import reuse, self_check
from aotc.checks.blocks import blocks_of
from aotc.checks.work import TOO_LONG, OverBudget, WorkBudget
from aotc.cli.inspect import _self_check
from aotc.dialects import context
from aotc.dialects.functions.functions import functions_of
from aotc.dialects.ops.trigonometric import Cos, Tanh
from aotc.dialects.types import Tensor
from aotc.errors import CompileError
from aotc.importers import load
from aotc.machine.target import Target
from aotc.mlir import ir
from aotc.passes import fold_parameters
from aotc.tracing.deferred_arrays import compute_when_read
from tests.checks.building import build

LAYERS = 4
MODEL = f"""
import aotc
import aotc.numpy as np
import numpy
from aotc import nn
from aotc.tracing.deferred_arrays import compute_when_read

rng = numpy.random.default_rng(0)


def layer():
    a, b, c = (rng.normal(size=(16, 16)).astype("f4") / 8 for _ in range(3))
    return {{"a": a, "b": b, "c": compute_when_read(np.negative, c)}}  # as of a file


weights = aotc.Weights({{f"layer{{i}}": layer() for i in range({LAYERS})}})
state = aotc.State({{"sum": numpy.zeros((5, 16), "f4")}})


@aotc.entry(x=aotc.Spec((5, 16), "f32"), i=aotc.Spec((5,), "i32"))
def step(weights, state, x, i):
    x = x + np.eye(16, dtype="f32")[i]
    for n in range({LAYERS}):
        p = weights[f"layer{{n}}"]
        q = np.tanh(nn.layer_norm(x) @ p["a"]) @ np.abs(p["b"])
        x = x + nn.softmax(q @ p["c"])
    return {{"sum": state["sum"] + x}}, nn.layer_norm(x) @ weights["layer0"]["a"].T
"""


@pytest.fixture
def model(tmp_path, monkeypatch):
    """A model that is too large as a whole, and none of whose blocks is."""
    file = tmp_path / "deep.py"
    file.write_text(MODEL)

    def refuse(self, *given):
        raise OverBudget(TOO_LONG)

    monkeypatch.setattr(WorkBudget, "require", refuse)
    return file


def of_graph(model):
    """The graph of the model, its entry, and the blocks of that."""
    program = load(model, ())
    (entry,) = program.entry_points
    return program.module, entry, blocks_of(program.module, entry, [])


def operations(op):
    """Return how many operations an op has."""
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


FEW = 3e5  # elements: enough for a block of each kind


@pytest.mark.parametrize("work", [2e10, FEW])
def test_the_share_that_is_told_is_what_was_evaluated(model, monkeypatch, work):
    evaluated = {}
    evaluate_part = reference.evaluate_part

    def note(module, ops, *given, **named):
        found = evaluate_part(module, ops, *given, **named)
        evaluated[tuple(map(str, ops))] = {str(op): operations(op) for op in ops}
        return found

    monkeypatch.setattr(reference, "evaluate_part", note)
    monkeypatch.setattr("aotc.checks.work._USUAL", work)
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
    assert not left
    assert count.repeated == count.blocks - count.compared
    assert f"{count.repeated} others" in str(row) or not count.repeated
    assert count.operations + count.repeated_operations == pytest.approx(1)
    assert row.operations == count.operations == row.to_json()["operations"]
    assert reuse._row(json.loads(json.dumps(asdict(row)))) == row  # as the cache does


def reverse_in_one_layer(weights):
    (name,) = (n for n in weights if n.startswith("weights.layer2.b"))
    return {name: weights[name][::-1].copy()}


def exchange_two_layers(weights):
    one, other = ([n for n in weights if f"layer{k}.c" in n][0] for k in (2, 3))
    return {one: weights[other], other: weights[one]}


@pytest.mark.parametrize("work", [2e10, FEW])
@pytest.mark.parametrize("fault", [reverse_in_one_layer, exchange_two_layers])
def test_weights_that_lie_wrong_are_found(model, monkeypatch, fault, work):
    write_archives = packager.write_archives

    def write_wrong(weights, folder):
        if not weights:  # where all are lent
            return write_archives(weights, folder)
        (each,) = weights
        wrong = each.parameters | fault(each.parameters)
        return write_archives([replace(each, parameters=wrong)], folder)

    monkeypatch.setattr(packager, "write_archives", write_wrong)
    monkeypatch.setattr("aotc.checks.work._USUAL", work)
    said = r"in block \d of \d+:\n  FAIL" + (" weight '" if work == FEW else "")
    with pytest.raises(CompileError, match=said) as caught:
        build(model, targets=["x86_64-v3"])
    assert caught.value.code == "self-check"
    assert caught.value.where.startswith("deep.py:")
    assert not list(model.parent.glob("*.aotc"))


def fold_wrong(monkeypatch, _):
    """Let what is computed of one layer's weight come out reversed."""
    evaluated = fold_parameters._evaluated

    def wrong(entry, values, weights):
        for value, array in evaluated(entry, values, weights):
            is_it = entry.source_of.get(value) == "weights.layer2.b"
            yield value, array[::-1].copy() if is_it else array

    monkeypatch.setattr(fold_parameters, "_evaluated", wrong)


def pack_otherwise(monkeypatch, _):
    """Let one layer's weight be brought into another order than the code reads."""
    computed_array = fold_parameters._computed_array

    def wrong(entry, value, weights):
        found = computed_array(entry, value, weights)
        is_it = entry.source_of.get(value) == "weights.layer2.b"
        return compute_when_read(lambda x: x.T, found) if is_it else found

    monkeypatch.setattr(fold_parameters, "MOST_BYTES_AT_ONCE", 0)
    monkeypatch.setattr(fold_parameters, "_computed_array", wrong)


def fold_as_in_others(monkeypatch, model):
    """Let |b| be computed in the one layer that reads -b, in blocks of one kind."""
    own = 'np.negative(p["b"]) if n == 2 else np.abs(p["b"])'
    model.write_text(model.read_text().replace('np.abs(p["b"])', f"({own})"))
    computed_array = fold_parameters._computed_array

    def wrong(entry, value, weights):
        one, other = ("weights.layer1.b", "weights.layer2.b")
        if entry.source_of.get(value) == other:
            sources = entry.source_of.items()
            value = next(x for x, n in sources if n == one and x not in entry.weight_of)
            weights = {**weights, one: weights[other]}
        return computed_array(entry, value, weights)

    monkeypatch.setattr(fold_parameters, "MOST_BYTES_AT_ONCE", 0)
    monkeypatch.setattr(fold_parameters, "_computed_array", wrong)


def lower_otherwise(monkeypatch, _=None):
    """Let the code of one layer be another."""
    lower, numbers = Tanh.lower, itertools.count()

    def wrong(low, op, x):
        is_it = next(numbers) % LAYERS == 2
        return lower(low, op, x) if not is_it else Cos.lower(low, op, x)

    monkeypatch.setattr(Tanh, "lower", staticmethod(wrong))


@pytest.mark.parametrize(
    "plant", [fold_wrong, pack_otherwise, fold_as_in_others, lower_otherwise]
)
def test_a_layer_that_the_passes_make_wrong_is_found(model, monkeypatch, plant):
    plant(monkeypatch, model)
    monkeypatch.setattr("aotc.checks.work._USUAL", 1.4 * FEW)  # one more, and not two
    with pytest.raises(CompileError, match=r"in block 4 of \d+:\n  FAIL") as caught:
        build(model, targets=["x86_64-v3"], cache=False)
    assert caught.value.code == "self-check"


def test_what_is_of_other_code_counts_as_no_repetition(model, monkeypatch):
    """Nor is it called checked where the work does not suffice for it."""
    lower_otherwise(monkeypatch)
    monkeypatch.setattr("aotc.checks.work._USUAL", FEW)
    report = build(model, targets=["x86_64-v3"], cache=False)
    (row,) = report.self_checks
    assert row.blocks.missing.startswith("1 of ")
    assert row.blocks.compared + row.blocks.repeated == row.blocks.blocks - 1


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
    self_check._check_by_blocks(rows, subject, None, codes, WorkBudget(3000.0, 1e9))
    assert shares == [1000.0] * 3
