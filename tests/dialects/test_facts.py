"""What ops say of themselves is asked of their classes, and is true."""

import ast
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from aotc.dialects import OPS, context
from aotc.dialects.graph import GraphOp
from aotc.dialects.lowering.numbers import ScalarLowering
from aotc.dialects.types import Tensor, lowered_element
from aotc.mlir import func, ir
from aotc.tracing.array import Array
from aotc.tracing.tracing import Trace
from tests.dialects.cases import cases_of

ROOT = Path(__file__).parents[2]
FOLDERS = ("aotc/kernels", "aotc/backend", "aotc/checks", "dialects", "passes")


@cache
def _nodes():
    return [*_walk()]


def _walk():
    for folder in FOLDERS:
        for file in sorted((ROOT / folder).glob("**/*.py")):
            tree = ast.parse(file.read_text(encoding="utf-8"))
            for node in ast.walk(tree):
                yield str(file.relative_to(ROOT)), node


def test_no_code_asks_in_which_file_an_op_stands():
    """Ops move from file to file; the tables for readers alone name it."""
    assert not hasattr(GraphOp, "family")
    readers = {
        file
        for file, node in _nodes()
        if isinstance(node, ast.Attribute) and node.attr == "__module__"
    }
    assert readers == {"dialects/table.py"}


LANGUAGE = {  # where ops are named: patterns name them, and builders write them
    "dialects/builder.py",
    "dialects/patterns/structure.py",
    "dialects/patterns/values.py",
    "passes/recovery/matching.py",
}


def _asks_for_a_name(node):
    """Whether a comparison or a `match` is about the name of a graph op."""
    if isinstance(node, ast.Constant):
        return str(node.value).removeprefix("graph.") in OPS and node.value[5:6] == "."
    if not isinstance(node, ast.Compare | ast.Dict):
        return False
    parts = [*ast.walk(node)]
    return any(
        isinstance(each, ast.Attribute) and each.attr in ("_op_name", "op_name")
        for each in parts
    )


def test_no_code_asks_for_the_name_of_an_op():
    """What depends on an op is a fact of its class, or asks for the class itself."""
    asking = {file for file, node in _nodes() if _asks_for_a_name(node)}
    assert asking == LANGUAGE


# ---- what is true of ops ------------------------------------------------------------


def _without_axes(case):
    """The operand types and attributes of a case on tensors of rank 0."""
    attributes = {
        name: value if name == "size" or not isinstance(value, tuple) else ()
        for name, value in case.attributes({}).items()
    }
    if isinstance(attributes.get("value"), np.ndarray):
        attributes["value"] = attributes["value"].reshape(-1)[0]
    return [kind.with_shape(()) for kind in case.types({})], attributes


@pytest.mark.parametrize("name", [name for name, op in OPS.items() if op.on_scalars])
def test_ops_of_scalars_are_written_on_elements(name, graph):
    case = next(case for case in cases_of(name) if not case.symbols)
    kinds, attributes = _without_axes(case)
    trace = Trace(graph, "f", kinds, [])
    with trace.active():
        y = trace.build(name, *trace.block.arguments, **attributes)
        trace.finish([Array(value=y, trace=trace)])
    (op, _) = trace.block.operations
    with context(), ir.Location.unknown():
        elements = [lowered_element(kind.dtype) for kind in kinds]
        with ir.InsertionPoint(graph.body):
            written = func.FuncOp("written", (elements, []))
        with ir.InsertionPoint(written.add_entry_block()):
            lowered = type(op).lower(ScalarLowering([]), op, *written.arguments)
        assert lowered.type == lowered_element(Tensor.of(op.y).dtype)


def test_elementwise_ops_on_vectors_are_on_scalars_too():
    assert all(op.on_scalars for op in OPS.values() if op.on_vectors)


def test_what_is_costly_is_in_memory():
    """No reader computes a product or a factorization again for each element."""
    assert all(op.in_memory for op in OPS.values() if op.is_costly)
