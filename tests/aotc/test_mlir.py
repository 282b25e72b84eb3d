"""The stubs of the MLIR bindings declare only what they have; plain ops are theirs."""

import ast
from importlib import import_module
from pathlib import Path

import pytest

from aotc import mlir
from aotc.dialects import context
from aotc.mlir import ir

STUBS = sorted(Path(mlir.__file__).parent.glob("*.pyi"))


def _declared(body):
    """The names that a module or a class of a stub declares."""
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.AnnAssign):
            yield node.target.id


def _members(cls):
    """What instances have: the class itself, or each class that derives from it."""
    derived = [set(dir(each)) for each in cls.__subclasses__()]
    own = set(dir(cls)).union(set.intersection(*derived) if derived else ())
    return own | ({"__iter__"} if "__getitem__" in own else set())  # by numbers


@pytest.mark.parametrize("stub", STUBS, ids=lambda stub: stub.stem)
def test_stub_declares_what_the_bindings_have(stub):
    module, tree = getattr(mlir, stub.stem), ast.parse(stub.read_text("utf-8"))
    missing = {name for name in _declared(tree.body) if not hasattr(module, name)}
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and hasattr(module, node.name):
            members = set(_declared(node.body)) - _members(getattr(module, node.name))
            missing |= {f"{node.name}.{name}" for name in members - {"__getattr__"}}
    assert missing - {"__getattr__"} == set()


def _operand_types(dialect, name):
    """What a plain scalar op takes: floats where its name says so, else integers."""
    f32, i32 = ir.F32Type.get(), ir.IntegerType.get_signless(32)
    if name == "select":
        return [ir.IntegerType.get_signless(1), f32, f32]
    if dialect == "arith":
        element = f32 if name.endswith("f") else i32
        return [element] * (1 if name == "negf" else 2)
    count = {"fma": 3, "powf": 2}.get(name, 1)
    return [i32 if name == "absi" else f32] * count


@pytest.mark.parametrize("dialect", ["arith", "math"])
def test_plain_ops_are_what_the_bindings_build(dialect):
    theirs = import_module(f"{mlir.PACKAGE}.dialects.{dialect}")
    with context(), ir.Location.unknown():
        for name in mlir.PLAIN_OPS[dialect].split():
            types = _operand_types(dialect, name)
            texts = []
            for module in (getattr(mlir, dialect), theirs):
                block = ir.Block.create_at_start(
                    ir.Operation.create("builtin.module", regions=1).regions[0], types
                )
                with ir.InsertionPoint(block):
                    made = getattr(module, name)(*block.arguments)
                assert isinstance(made, ir.Value)
                texts.append(str(made.owner))
            assert texts[0] == texts[1], name
