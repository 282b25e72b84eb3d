"""Passes ask a callee what it means, and need not know which kinds of it there are."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

from aotc import reference
from aotc.core import dtypes
from aotc.dialects import context
from aotc.dialects.builder import Builder
from aotc.dialects.calls import callees
from aotc.dialects.calls.callees import declaration_of, reachable_functions, rules_of
from aotc.dialects.calls.custom import Checkpoint, CustomJvp, annotate, custom_of
from aotc.dialects.control import Scan, Switch, While, invoke
from aotc.dialects.functions.functions import (
    call,
    declare,
    define,
    find,
    functions_of,
    signature,
)
from aotc.dialects.functions.transform import (
    Batch,
    Jvp,
    Precision,
    Vjp,
    Widened,
    derive,
)
from aotc.dialects.printer import format_module
from aotc.dialects.types import Tensor
from aotc.errors import CompileError
from aotc.mlir import func, ir
from aotc.passes import run_passes

F32, FLAG = Tensor((3,), "f32"), Tensor((), "bool")


@pytest.fixture
def module():
    """A module with the entry `main` of an array; ops are inserted there."""
    with context(), ir.Location.unknown():
        module = ir.Module.create()
        kind = F32.to_mlir()
        with ir.InsertionPoint(module.body):
            function = func.FuncOp("main", ([kind], [kind]))
        with ir.InsertionPoint(function.add_entry_block()):
            yield module


def square(name="square"):
    """Define the square of an array by this name."""
    return define(name, [F32], lambda values: [Builder().multiply(*values, *values)])


def finish(module, results):
    """End `main`; the module then verifies."""
    func.ReturnOp(results)
    assert module.operation.verify()


# ---- the kinds there are ------------------------------------------------------------


def test_control_flow_says_which_functions_it_runs_and_has_rules(module):
    (x,) = module.body.operations[0].arguments
    index = Builder().constant(value=np.int32(0))
    held = define("held", [F32], lambda _: [Builder().constant(value=np.array(True))])
    element = define("step", [F32], lambda values: values)
    for control, operands in (
        (Switch((square(), square())), [index, x]),
        (While((held, element), 1), [x]),
        (Scan((element,), 1, 0, 4, False), [x]),
    ):
        invoke(control, operands)
        function = functions_of(module)[f"main.{control.kind}"]
        assert declaration_of(function) == rules_of(function) == control
        found = reachable_functions(functions_of(module), f"main.{control.kind}")
        assert found[1:] == list(dict.fromkeys(control.functions))


@pytest.mark.parametrize(
    "derived",
    [
        Vjp("square", (0,)),
        Jvp("square", (0,)),
        Batch("square", (0,), 2),
        Precision("square", "bf16"),
        Widened("square", False),
    ],
)
def test_a_transformation_is_made_from_one_function_and_has_no_rules(module, derived):
    square()
    name = derive(derived)
    assert declaration_of(find(name)) == derived
    assert rules_of(find(name)) is None
    assert reachable_functions(functions_of(module), name) == [name, "square"]
    kinds, _ = signature(find(name))
    zeros = [np.zeros(kind.shape, dtypes.to_numpy(kind.dtype)) for kind in kinds]
    with pytest.raises(CompileError, match=name) as failure:
        reference.evaluate(module, name, zeros)
    assert failure.value.code == "undefined-derivative"


def test_a_plain_function_is_neither_declared_nor_has_rules(module):
    function = find(square())
    assert declaration_of(function) is None
    assert rules_of(function) is None


def test_an_annotated_function_has_a_body_and_rules(module):
    function = find(square())
    annotate(function, Checkpoint())
    assert declaration_of(function) is None
    assert rules_of(function) == Checkpoint()


def test_a_transformed_call_has_rules_that_are_transformed_too(module):
    name, rule = square(), define("rule", [F32, F32], lambda values: values)
    annotate(find(name), CustomJvp(rule))
    rules = rules_of(find(name))
    x = module.body.operations[0].arguments[0]
    rules.call_transformed(name, [x], lambda each: derive(Precision(each, "bf16")))
    assert custom_of(find("square.precision")) == CustomJvp("rule.precision")


# ---- a kind that no pass knows ------------------------------------------------------


@dataclass(frozen=True)
class Twice:
    """Runs a function on what it gives."""

    kind: ClassVar[str] = "twice"
    keeps_precision: ClassVar[bool] = False
    functions: tuple[str, ...]

    def evaluate(self, run, arrays, *_):
        return run(self.functions[0], run(self.functions[0], arrays))

    def lower(self, low, op, operands, inline):
        return inline(self.functions[0], inline(self.functions[0], operands))

    def jvp(self, b, op, tangents):
        slope = derive(Jvp(self.functions[0], (0,)))
        return call(slope, call(slope, [*op.operands, *tangents]))[1:]


def test_a_kind_of_callee_that_no_pass_knows_goes_through_the_pipeline(
    module, monkeypatch
):
    known = callees.control_of

    def control_of(function):
        if "test.twice" in function.attributes:
            return Twice(("square",))
        return known(function)

    monkeypatch.setattr(callees, "control_of", control_of)
    square()
    twice = declare("twice", [F32], [F32], {"test.twice": ir.UnitAttr.get()})
    outer = define("outer", [F32], lambda values: call(twice, values))
    (x,) = module.body.operations[0].arguments
    finish(module, call(derive(Jvp(outer, (0,))), [x, x])[1:])
    value = np.array([1, 2, 3], "f4")

    run_passes(module, ("autodiff", "inline"))

    line = "func twice(%arg0: f32[3]) -> f32[3] = twice(square)"
    assert line in format_module(module)
    (found,) = reference.evaluate(module, "main", [value])
    np.testing.assert_allclose(found, 4 * value**3 * value)
    run_passes(module, ("lower-to-linalg",))
    assert "call" not in str(module)
