"""The builder of graph ops."""

from aotc.dialects import OPS
from aotc.dialects.builder import Builder
from aotc.mlir import ext


def test_builder_declares_the_ops_of_several_results():
    several = {
        name
        for name, op in OPS.items()
        if sum(isinstance(field, ext.ResultDef) for field in op._fields) > 1
    }
    assert set(Builder.__annotations__) == several
