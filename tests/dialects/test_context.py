"""The one MLIR context, and how the bindings find the dialect."""

import sys

import pytest

from aotc.core import dtypes
from aotc.dialects import context
from aotc.dialects.types import element_name, element_type
from aotc.errors import InputError
from aotc.mlir import PACKAGE, ir


def test_the_context_is_one_and_knows_the_dialect():
    assert context() is context()
    assert context().is_dialect_loaded("graph")


def test_element_types_are_those_of_dtypes_and_no_others():
    with context(), ir.Location.unknown():
        assert [element_name(element_type(n)) for n in dtypes.NAMES] == [*dtypes.NAMES]
        for text in ("si32", "ui1", "i7", "index", "f8E4M3FN", "complex<f32>"):
            with pytest.raises(InputError, match="not part of the graph"):
                element_name(ir.Type.parse(text))


def test_ops_are_met_without_an_import_each():
    """The bindings retry a failed import of the dialect's module at every op."""
    tried = []

    class Watch:
        def find_spec(self, name, path=None, target=None):
            tried.append(name)

    watch = Watch()
    sys.meta_path.insert(0, watch)
    try:
        with context(), ir.Location.unknown():
            module = ir.Module.parse(
                "func.func @f(%x: tensor<2xf32>) -> tensor<2xf32> {\n"
                '  %0 = "graph.exp"(%x) : (tensor<2xf32>) -> tensor<2xf32>\n'
                "  return %0 : tensor<2xf32>\n}"
            )
            names = [op.operation.name for op in module.body.operations[0].entry_block]
    finally:
        sys.meta_path.remove(watch)
    assert names == ["graph.exp", "func.return"]
    assert f"{PACKAGE}.dialects.graph" not in tried
