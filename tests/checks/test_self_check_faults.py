"""The self-check finds wrong code and what is to blame, and outlives code that dies."""

import json
import signal

import pytest

from aotc.artifacts.manifest import FILE
from aotc.checks import process, self_check
from aotc.checks.work import TOO_LONG
from aotc.cli.main import main
from aotc.dialects import OPS
from aotc.dialects.functions.functions import functions_of
from aotc.dialects.types import Tensor
from aotc.errors import CompileError, SetupError
from aotc.machine.target import Target
from aotc.mlir import arith, ir, linalg
from aotc.passes.rematerialize import Rematerialize
from aotc.passes.update_in_place import UpdateInPlace
from tests.checks.building import build
from tests.checks.models import refused_build


def test_a_wrong_lowering_fails_the_build_with_op_and_line(model, monkeypatch):
    monkeypatch.setattr(OPS["tanh"], "lower", OPS["sin"].lower)
    error = refused_build(model)
    assert (error.code, error.exit_code) == ("self-check", 3)
    assert "graph.tanh" in error.message
    assert error.where.endswith("small.py:11")


SMALL = """
import aotc
import aotc.numpy as np


@aotc.entry(x=aotc.Spec((2, 40), "f32"))
def f(x):
    small = np.tanh(x)
    return np.concatenate([x * 1e5, small], axis=1)
"""


def test_a_wrong_element_beside_much_larger_ones_fails_the_build(model, monkeypatch):
    monkeypatch.setattr(OPS["tanh"], "lower", OPS["sin"].lower)
    model.write_text(SMALL)
    error = refused_build(model)
    assert "of 160 elements wrong: at [" in error.message
    assert "graph.tanh" in error.message
    assert error.where.endswith("small.py:8")


def test_a_sum_that_is_wrong_only_beyond_a_block_fails_the_build(model, monkeypatch):
    right = OPS["tanh"].lower

    def cut_off(low, op, x):
        kind = ir.IndexType.get()

        def body(element):
            row = linalg.IndexOp(ir.IntegerAttr.get(ir.IntegerType.get_signless(64), 0))
            block = arith.ConstantOp(kind, 4096).result
            inside = arith.cmpi(arith.CmpIPredicate.ult, row.result, block)
            none = arith.ConstantOp(element.type, 0.0).result
            return arith.select(inside, element, none)

        result = Tensor.of(op.y)
        return low.pointwise([right(low, op, x)], result, body)

    monkeypatch.setattr(OPS["tanh"], "lower", cut_off)
    error = refused_build(model)
    assert "at n=4099" in error.message
    assert "graph.tanh" in error.message
    assert error.where.endswith("small.py:11")


INTEGERS = """
import aotc
import aotc.numpy as np


@aotc.entry(k=aotc.Spec((5,), "i32"), rows=aotc.Spec((3,), "i32"))
def f(k, rows):
    table = np.arange(4) * 7
    size = np.abs(k)
    return size, np.bitwise_not(k), table[rows]
"""


def without_sign(low, op, x):
    """Right where no element is negative."""
    return low.pointwise([x], Tensor.of(op.y), lambda element: element)


def in_16_bits(low, op, x):
    """Right where elements have no more than 16 bits."""

    def body(element):
        ones = arith.ConstantOp(element.type, -1).result
        few = arith.ConstantOp(element.type, 16).result
        cut = arith.shrsi(arith.shli(element, few), few)
        return arith.xori(cut, ones)

    return low.pointwise([x], Tensor.of(op.y), body)


@pytest.mark.parametrize(
    ("op", "rule", "rows", "line"),
    [
        ("abs", without_sign, "rows", 9),
        ("abs", without_sign, "k + rows[0]", 9),
        ("bitwise_not", in_16_bits, "rows", 10),
    ],
    ids=["negative", "negative-and-an-index", "large"],
)
def test_integers_that_are_wrong_if_negative_or_large_fail_the_build(
    model, monkeypatch, op, rule, rows, line
):
    monkeypatch.setattr(OPS[op], "lower", rule)
    model.write_text(INTEGERS.replace("[rows]", f"[{rows}]"))
    error = refused_build(model)
    assert f"graph.{op}" in error.message
    assert error.where.endswith(f"small.py:{line}")


def test_a_wrong_state_fails_the_build(model, monkeypatch):
    monkeypatch.setattr(OPS["cos"], "lower", OPS["sin"].lower)
    error = refused_build(model)
    assert "train_step" in error.message
    assert "graph.cos" in error.message


def keep_old_states(right):
    """A pass that in addition returns every state as it was."""

    def run(self, unit):
        right(self, unit)
        functions = functions_of(unit.module)
        for entry in unit.program.entries:
            block = functions[entry.name].entry_block
            old = {
                port.name: value
                for port, value in zip(entry.arguments, block.arguments, strict=True)
            }
            returned = block.operations[len(block.operations) - 1].operation.operands
            for number, port in enumerate(entry.results):
                if port.kind == "state":
                    returned[number] = old[port.name]
        return True

    return run


def test_a_pass_that_spoils_an_update_is_named(model, monkeypatch):
    monkeypatch.setattr(UpdateInPlace, "run", keep_old_states(UpdateInPlace.run))
    error = refused_build(model)
    assert "train_step" in error.message
    assert "first differs after: update-in-place" in error.message


DEEP = """
import aotc
import aotc.numpy as np
import numpy

kernels = [numpy.full((16, 16), 0.05 * i, "f4") for i in range(8)]
state = aotc.State({"w": kernels})


def loss(kernels, x):
    for kernel in kernels:
        x = np.tanh(x @ kernel) * 1.5
    return np.square(x - 1.0).mean()


@aotc.entry(x=aotc.Spec((512, 16), "f32"))
def train_step(state, x):
    value, grads = aotc.value_and_grad(loss)(state["w"], x)
    return {"w": [w - 0.1 * g for w, g in zip(state["w"], grads)]}, value


@aotc.entry(x=aotc.Spec((2,), "f32"))
def other(x):
    return np.tanh(x)
"""


@pytest.mark.slow
def test_a_pass_that_a_budget_of_memory_asked_for_is_named(model, monkeypatch):
    model.write_text(DEEP)
    (variant,) = build(model, self_check="off", force=True).variants
    most = variant.memory["train_step"].peak_bytes * 3 // 4
    monkeypatch.setattr(Rematerialize, "run", keep_old_states(Rematerialize.run))
    with pytest.raises(CompileError) as caught:
        build(model, peak_memory=most, force=True)
    assert "first differs after: rematerialize{entry=train_step" in caught.value.message


def test_passes_for_a_target_know_it_where_the_op_at_fault_is_sought(
    model, monkeypatch
):
    right, targets = UpdateInPlace.run, []

    def note_target(self, unit):
        targets.append(unit.target)
        return right(self, unit)

    monkeypatch.setattr(UpdateInPlace, "run", note_target)
    monkeypatch.setattr(OPS["tanh"], "lower", OPS["sin"].lower)
    refused_build(model)
    assert len(targets) > 1
    assert set(targets) == set(Target.default())


MANY = """
import aotc
import aotc.numpy as np
import numpy
from aotc import optim

kernels = [numpy.full((16, 16), 0.05 * i, "f4") for i in range(24)]
optimizer = optim.adam(1e-3)
state = aotc.State({"w": kernels, "moments": optimizer.init(kernels)})


def loss(kernels, x):
    for kernel in kernels:
        x = np.sin(x @ kernel)
    return np.square(x - 1.0).mean()


@aotc.entry(x=aotc.Spec((32, 16), "f32"))
def train_step(state, x):
    value, grads = aotc.value_and_grad(loss)(state["w"], x)
    updates, moments = optimizer.update(grads, state["moments"], state["w"])
    return {"w": optim.apply_updates(state["w"], updates), "moments": moments}, value
"""


def test_the_op_at_fault_is_found_beside_a_kernel_that_updates_many_states(
    model, monkeypatch
):
    """More arguments of the entry's own than IREE binds to a dispatch."""
    monkeypatch.setattr(OPS["sin"], "lower", OPS["cos"].lower)
    monkeypatch.setenv("AOTC_TARGETS", "x86_64-v3")
    model.write_text(MANY)
    assert "first differs after: compile, in graph.sin" in refused_build(model).message


def test_off_says_nothing_and_checks_nothing(model, monkeypatch):
    monkeypatch.setattr(OPS["tanh"], "lower", OPS["sin"].lower)
    monkeypatch.setenv("AOTC_SELF_CHECK", "off")
    report = build(model)
    assert report.self_checks == []
    assert "self_check" not in json.loads((report.bundle / FILE).read_bytes())


def test_what_takes_too_long_for_the_reference_is_said(model, monkeypatch, capsys):
    monkeypatch.setattr("aotc.checks.work._USUAL", 1.0)
    assert main(["build", str(model), "-o", str(model.parent)]) == 0
    assert "predict on x86_64-v3 NOT CHECKED" in capsys.readouterr().out


def test_code_that_dies_is_a_failure_of_the_build_not_its_end(model, monkeypatch):
    def die(self, *_, **__):
        self._child._process.send_signal(11)
        self._ask("predict", (), None)

    monkeypatch.setattr(process.CompiledProcess, "call", die)
    error = refused_build(model)
    assert error.code == "compiled-code-died"
    assert "SIGSEGV" in error.message


def test_the_line_of_code_that_dies_is_named(model, monkeypatch, deadly_lowering):
    monkeypatch.setattr(OPS["tanh"], "lower", deadly_lowering)
    error = refused_build(model)
    assert error.code == "compiled-code-died"
    assert "SIGFPE" in error.message
    assert "graph.tanh" in error.message
    assert error.where.endswith("small.py:11")


def test_too_little_memory_for_a_call_is_said_and_blames_nobody(model, monkeypatch):
    def give_up(*_, **__):
        raise SetupError("out-of-memory", "there is no memory for it")

    monkeypatch.setattr(process.CompiledProcess, "call", give_up)
    for row in build(model).self_checks:
        assert not row.checked
        assert all("memory" in why for _, why in row.unchecked)


def test_a_call_without_end_is_said_and_other_entries_are_compared(model, monkeypatch):
    ask = process.CompiledProcess._ask

    def ask_late(self, what, question, seconds):
        if what == "predict":  # it never gets an answer
            self._child._process.send_signal(signal.SIGSTOP)
            seconds = 0.001
        return ask(self, what, question, seconds)

    monkeypatch.setattr(process.CompiledProcess, "_ask", ask_late)
    predict, train_step = build(model).self_checks
    reasons = [why for _, why in predict.unchecked]
    assert "did not end within" in reasons[0]
    assert set(reasons[1:]) == {"an earlier call did not end"}
    assert train_step.checked
    assert not train_step.unchecked


ENDLESS = """
import aotc
import aotc.numpy as np
from aotc import control


@aotc.entry(x=aotc.Spec(("n", 3), "f32"))
def where_negative(x):
    step = np.maximum(np.min(x), 0.0)
    return control.while_loop(lambda v: v < 9.0, lambda v: v + step, 0.0)


@aotc.entry(x=aotc.Spec((4,), "f32"))
def always(x):
    for _ in range(4):
        x = np.tanh(x) * 2.0
    return control.while_loop(lambda v: np.sum(v) == np.sum(v), np.cos, x), x


@aotc.entry(x=aotc.Spec((3,), "f32"))
def after(x):
    return np.tanh(x)
"""


def test_loops_without_end_keep_nothing_else_from_being_compared(model, monkeypatch):
    model.write_text(ENDLESS)
    monkeypatch.setattr("aotc.checks.work._USUAL", 1e8)
    monkeypatch.setattr(self_check, "_ENDLESS_SECONDS", 0.5)
    rows = {row.entry: row for row in build(model).self_checks}
    # no call waits for what the reference evaluator has not seen to end
    assert rows["where_negative"].checked
    assert {why for _, why in rows["where_negative"].unchecked} == {TOO_LONG}
    reasons = [why for _, why in rows["always"].unchecked]
    assert "it did not end within 0.5 s" in reasons
    assert rows["after"].checked
    assert not rows["after"].unchecked
