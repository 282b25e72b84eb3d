"""The stubs of the MLIR bindings declare only what the bindings have."""

import ast
from pathlib import Path

import pytest

from aotc import mlir

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
