"""However an op is malformed: it is refused by name, in words, and nothing crashes.

The malformed ops are derived from the samples: another dtype, rank or size of an
operand, and each attribute left out, of another kind, or with a value that may not be.
"""

import re

import numpy as np
import pytest

from aotc.dialects import OPS, context, control
from aotc.dialects.attributes import (
    Bool,
    DenseElements,
    Float,
    Int,
    Ints,
    Sizes,
    Str,
    SymbolReference,
    SymbolReferences,
)
from aotc.dialects.types import Tensor
from aotc.errors import InputError
from aotc.mlir import ir
from aotc.tracing.tracing import Trace
from tests.dialects.cases import cases_of

# values that no sample has; some ops take them
UNUSUAL = {
    Int: [-1, 99, -(2**63), 2**63 - 1],
    Ints: [(), (0,), (-1,), (5, 5, 5, 5, 5, 5, 5), (2**63 - 1, -(2**63))],
    Float: [float("nan"), float("inf"), -1.0],
    Str: ["", "nonsense", "{}{:d}"],
    Bool: [True, False],
    Sizes: [(), (0,), (2**40, 2**40)],
    SymbolReference: ["nowhere"],
    SymbolReferences: [(), ("nowhere",)],
    DenseElements: [np.zeros((2, 0), "i4")],
}


def kinds(operands):
    """Operand types of which one is of another dtype, rank or size, or no tensor's."""
    for place, kind in enumerate(map(Tensor.of, operands)):
        others = [kind.with_dtype(dtype) for dtype in ("bool", "u8", "i64", "f16")]
        others += [kind.with_shape(s) for s in ((*kind.shape, 3), kind.shape[1:], ())]
        others += [kind.with_shape((9, *kind.shape[1:]))]
        others = [other.to_mlir() for other in others]
        others += map(ir.Type.parse, ("f32", "tensor<*xf32>", "tensor<?xf32>", "index"))
        for other in others:
            yield [*operands[:place], other, *operands[place + 1 :]]


def attributes(cls, given):
    """Attributes of which one is missing, of another kind, or unusual."""
    for name, codec in cls.codecs.items():
        rest = {other: given[other] for other in given if other != name}
        yield rest
        yield {**rest, name: ir.UnitAttr.get()}
        yield {**rest, name: ir.StringAttr.get("x") if codec is Int else _integer()}
        for value in UNUSUAL[codec]:
            yield {**rest, name: codec.encode(value)}


def _integer():
    return ir.IntegerAttr.get(ir.IntegerType.get_signless(8), -1)


def malformed(case, op):
    """(operand types, attributes) that differ from those of `op` in one place."""
    operands = [operand.type for operand in op.operands]
    stored = op.operation.attributes
    given = {name: stored[name] for name in stored}
    for types in kinds(operands):
        yield types, given
    for changed in attributes(case.cls, given):
        yield operands, changed
    yield operands[:-1], given
    yield [*operands, Tensor((), "f32").to_mlir()], given


def verified(graph, cls, types, given, results):
    """What the verifier says of an op; nothing for one that it accepts."""
    trace = Trace(graph, "f", (), ())
    with context(), ir.Location.unknown() as here, ir.InsertionPoint(trace.block):
        op = ir.Operation.create(
            cls.OPERATION_NAME,
            results=results,
            operands=[trace.block.add_argument(kind, here) for kind in types],
            attributes=given,
        )
    try:
        op.verify()
    except ir.MLIRError as error:
        return str(error)
    finally:
        trace.function.erase()
    return None


@pytest.mark.parametrize("name", OPS)
def test_malformed_ops_are_refused_by_name(name, graph):
    for case in samples_of(name):
        said = refusals(case, graph)
        assert said
        for text in said:
            assert f"graph.{name}: " in text
            assert re.search(r"expected|but the result|differ|not|cannot", text), text


def samples_of(name):
    """The samples as they are: malformed ones differ little in other dtypes."""
    return list(cases_of(name))[: len(OPS[name].samples)]


def refusals(case, graph):
    trace = case.build(graph)
    (op, _) = trace.block.operations
    results = [result.type for result in op.results]
    said = []
    with context(), trace.active(), ir.Location.unknown():
        for types, given in malformed(case, op):
            found = verified(graph, case.cls, types, given, results)
            said += [] if found is None else [found]
    return said


# ---- control flow -------------------------------------------------------------------

SCAN = {
    "kind": '"scan"',
    "functions": "[@body]",
    "carries": "1 : i64",
    "scanned": "1 : i64",
    "length": "affine_map<() -> (3)>",
    "reverse": "false",
}
MODULE = """
    func.func private @body(%c: tensor<f32>, %x: tensor<f32>)
        -> (tensor<f32>, tensor<f32>) {{
      return %c, %x : tensor<f32>, tensor<f32>
    }}
    func.func private @loop(%c: tensor<f32>, %x: tensor<3xf32>)
        -> (tensor<f32>, tensor<3xf32>) attributes {{graph.control = {control}}}
"""
STRANGE = (
    "unit", '"x"', "-1 : i64", "99 : i64", "[]", "[1]", "@body", "[@nowhere]",
    "[@body, @body]", "[@loop]", "affine_map<() -> ()>", "affine_map<() -> (5)>",
    '"while"', "{}",
)  # fmt: skip


def refused_control(facts):
    """What is said of a loop with these facts; None if it is valid."""
    text = facts if isinstance(facts, str) else _dictionary(facts)
    with context():
        module = ir.Module.parse(MODULE.format(control=text))
        module.operation.verify()
        try:
            control.verify(module)
        except InputError as error:
            return error.message
    return None


def _dictionary(facts):
    return f"{{{', '.join(f'{name} = {value}' for name, value in facts.items())}}}"


def test_a_loop_is_valid_as_it_was_meant():
    assert refused_control(SCAN) is None


@pytest.mark.parametrize("name", SCAN)
def test_malformed_control_flow_is_refused_by_name(name):
    others = {other: value for other, value in SCAN.items() if other != name}
    for facts in ("unit", others, *({**others, name: value} for value in STRANGE)):
        said = refused_control(facts)
        assert said.startswith("'loop': ")
        assert "expected" in said or "does not have" in said
