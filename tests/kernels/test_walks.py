"""Walks visit each element once and in order, whatever the sizes are."""

import operator

import pytest

from aotc.dialects import context
from aotc.dialects.lowering.scalars import int_compare
from aotc.kernels.cpu import loops
from aotc.kernels.cpu.vectors import index
from aotc.kernels.cpu.walks import (
    block_bounds,
    branch_at_rest,
    parts,
    visit_by_size,
    visit_groups,
    visit_parts,
    visit_some_parts,
)
from aotc.kernels.planning.tile import split_groups
from aotc.mlir import Module, ir

OPERATIONS = {
    "arith.addi": operator.add,
    "arith.subi": operator.sub,
    "arith.muli": operator.mul,
    "arith.remui": operator.mod,
    "arith.minsi": min,
    "arith.maxsi": max,
    "arith.cmpi": operator.lt,  # the only one here
}


def visited(write):
    """Return what `visit` is called with when the code that `write` writes runs."""
    seen = []
    with context(), ir.Location.unknown():
        module = Module.create()
        with ir.InsertionPoint(module.body):

            def visit(at, count):
                ir.Operation.create(
                    "test.visit",
                    operands=[at],
                    attributes={"count": ir.IntegerAttr.get(ir.IndexType.get(), count)},
                )

            write(visit)
        _run(module.body, {}, seen)
    return seen


def _run(block, values, seen):
    for op in block.operations:
        operation = op.operation
        taken = [values[x] for x in operation.operands]
        if operation.name == "arith.constant":
            values[op.result] = operation.attributes["value"].value
        elif operation.name == "test.visit":
            seen.append((taken[0], operation.attributes["count"].value))
        elif operation.name == "scf.for":
            for number in range(*taken[:3]):
                _run(op.body, {**values, op.body.arguments[0]: number}, seen)
        elif operation.name == "scf.if":
            branch = operation.regions[0 if taken[0] else 1]
            _run(branch.blocks[0], dict(values), seen)
        elif operation.name in OPERATIONS:
            values[operation.results[0]] = OPERATIONS[operation.name](*taken)


def elements(seen):
    return [at + n for at, count in seen for n in range(count)]


SIZES = [(length, size) for length in range(11) for size in (1, 3, 8)]


@pytest.mark.parametrize(("length", "size"), SIZES)
def test_parts_are_all_of_a_run(length, size):
    found = parts(length, size)
    assert elements(found) == [*range(length)]
    assert all(count == size for _, count in found[:-1])
    assert visited(lambda visit: visit_parts(length, size, visit)) == found


@pytest.mark.parametrize(("length", "size"), SIZES)
def test_some_parts_of_a_run_are_those_that_there_are(length, size):
    found = [(at // size, count) for at, count in parts(length, size)]
    for first in range(0, 5, 2):
        some = found[first : first + 2]
        assert some == visited(
            lambda visit, first=first: visit_some_parts(
                (index(first), 2), length, size, visit
            )
        )


@pytest.mark.parametrize(("length", "size"), SIZES)
def test_what_is_left_by_size_comes_one_by_one(length, size):
    found = visited(lambda visit: visit_by_size(0, index(length), size, visit))
    assert elements(found) == [*range(length)]
    assert [count for _, count in found] == [size] * (length // size) + [1] * (
        length % size
    )


@pytest.mark.parametrize(("length", "size"), [each for each in SIZES if each[0]])
def test_groups_are_all_rows(length, size):
    groups = split_groups(length, size)
    found = visited(lambda visit: visit_groups(groups, visit))
    assert elements(found) == [*range(length)]


@pytest.mark.parametrize(("length", "size"), SIZES)
def test_blocks_end_where_the_last_one_does(length, size):
    def write(visit):
        for number in range(-(-length // size)):
            bounds = block_bounds(index(number), size, index(length))
            loops.repeat_for(*bounds, 1, lambda at: visit(at, 1))

    assert elements(visited(write)) == [*range(length)]


@pytest.mark.parametrize(("counts", "asked"), [((2, 0), 0), ((0, 1), 0), ((2, 1), 3)])
def test_the_rest_is_asked_for_only_where_there_is_one_beside_whole_parts(
    counts, asked
):
    whole, rest = counts
    asks = []

    def write(visit):
        for number in range(whole + rest):
            at = index(number)

            def is_whole(at=at):
                asks.append(at)
                return int_compare("slt", at, index(whole))

            branch_at_rest(
                counts,
                is_whole,
                lambda at=at: visit(at, 8),
                lambda at=at: visit(at, 1),
            )

    assert visited(write) == [(n, 8 if n < whole else 1) for n in range(whole + rest)]
    assert len(asks) == asked
