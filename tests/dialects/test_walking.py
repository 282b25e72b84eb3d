"""A walk hands each op what stands for its operands, and keeps what comes back."""

import pytest

from aotc.dialects import context
from aotc.dialects.builder import Builder
from aotc.dialects.functions.functions import define, find
from aotc.dialects.functions.walking import backward_slice, clone, in_order, walk
from aotc.dialects.types import Tensor
from aotc.mlir import func, ir

F32 = Tensor((3,), "f32")


@pytest.fixture
def block():
    """That of a function of x and y: (x * y + x, y), with its ops in lines 1 and 2."""

    def body(values):
        x, y = values
        with at_line(1):
            product = Builder().multiply(x, y)
        with at_line(2):
            return [Builder().add(product, x), y]

    with context(), ir.Location.unknown():
        module = ir.Module.create()
        with ir.InsertionPoint(module.body):
            function = func.FuncOp("main", ([], []))
        with ir.InsertionPoint(function.add_entry_block()):
            yield find(define("f", [F32, F32], body)).entry_block


def at_line(number):
    return ir.Location.file("model.py", number, 0)


def test_hands_on_what_stands_for_a_value_whatever_that_is(block):
    lines = []

    def visit(op, operands):
        lines.append(ir.Location.current)
        return [f"{type(op)._op_name}({', '.join(operands)})"]

    assert walk(block, ["x", "y"], visit) == ["add(multiply(x, y), x)", "y"]
    assert lines == [at_line(1), at_line(2)]


def test_a_copy_is_of_the_same_ops_at_the_same_lines(block):
    copy = find(define("copy", [F32, F32], lambda values: walk(block, values, clone)))
    assert text_of(copy.entry_block).replace("@copy", "@f") == text_of(block)


def text_of(block):
    return block.owner.get_asm(enable_debug_info=True, use_local_scope=True)


def test_ops_in_order_are_each_there_once(block):
    product, total, _ = block.operations
    assert in_order([total, product, total]) == [product, total]


def test_a_backward_slice_has_each_value_once_however_often_it_is_read():
    def body(values):
        (x,) = values
        for _ in range(60):  # 2**60 paths lead to the argument
            x = Builder().add(x, x)
        return [x]

    with context(), ir.Location.unknown():
        module = ir.Module.create()
        with ir.InsertionPoint(module.body):
            function = func.FuncOp("main", ([], []))
        with ir.InsertionPoint(function.add_entry_block()):
            block = find(define("f", [F32], body)).entry_block
    *_, before, last, end = block.operations
    assert len([*backward_slice(end.operands)]) == 61
    followed = backward_slice(end.operands, lambda value: value == last.result)
    assert [*followed] == [last.result, before.result]


@pytest.mark.parametrize("count", [0, 2])
def test_refuses_more_or_fewer_results_than_the_op_has(block, count):
    with pytest.raises(ValueError, match="zip"):
        walk(block, ["x", "y"], lambda op, operands: ["z"] * count)


def test_refuses_more_or_fewer_arguments_than_the_block_has(block):
    with pytest.raises(ValueError, match="zip"):
        walk(block, ["x"], lambda op, operands: ["z"])
