"""Reads a kernel in the generic form of MLIR into steps that are quick to evaluate."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from aotc.core import dtypes
from aotc.errors import CompileError
from aotc.mlir import Block as MlirBlock
from aotc.mlir import Operation, Value, ir

_DTYPES = {"i1": "bool", "f16": "f16", "bf16": "bf16", "f32": "f32", "f64": "f64"}
_DTYPES |= {f"i{bits}": f"i{bits}" for bits in (8, 16, 32, 64)}
_TENSOR = re.compile(r"tensor<((?:\d+x)*)(.+)>")
_PROPERTIES = re.compile(r"<(\{.*\})>")
_POINTER = re.compile(r"!tt\.ptr<(\w+)>")


@dataclass(frozen=True)
class TritonType:
    """The type of a value in Triton's IR: a number, a pointer or a tensor.

    Args:
        shape: of a tensor; () for a number.
        dtype: of its elements, or of what they point to.
        is_pointer: whether they are pointers.
    """

    shape: tuple[int, ...]
    dtype: np.dtype
    is_pointer: bool = False


@dataclass(frozen=True)
class TritonOp:
    """An op of Triton's IR, its values being numbered.

    Args:
        name: of the op.
        operands: the numbers of the values that it takes.
        results: the numbers of those that it gives.
        kinds: the types of its results.
        attributes: as Python values; of constants, the number.
        blocks: of its regions, one of each.
    """

    name: str
    operands: tuple[int, ...]
    results: tuple[int, ...]
    kinds: tuple[TritonType, ...]
    attributes: Mapping[str, Any]
    blocks: tuple[TritonBlock, ...]


@dataclass(frozen=True)
class TritonBlock:
    """A basic block of Triton's IR: ops in order, the terminator last.

    Args:
        arguments: the numbers of the values that it is given.
        steps: in order; the last one ends it.
    """

    arguments: tuple[int, ...]
    steps: tuple[TritonOp, ...]


@dataclass(frozen=True)
class TritonFunction:
    """A parsed function of Triton's IR.

    Args:
        name: of it.
        kinds: the types of its arguments.
        body: of it.
    """

    name: str
    kinds: tuple[TritonType, ...]
    body: TritonBlock


@lru_cache(maxsize=64)  # a model launches few kernels many times
def read_kernel(text: str) -> TritonFunction:
    """Parse the only function of a module of Triton's IR, in MLIR's generic form.

    Raises:
        CompileError: `bad-kernel`: it is no such module, or it has types that kernels
            of this project do not have.
    """
    context = ir.Context()
    context.allow_unregistered_dialects = True
    with context:
        try:
            module = ir.Module.parse(text)
        except ir.MLIRError as error:
            raise CompileError("bad-kernel", f"no text of MLIR: {error}") from None
        found = [op for op in module.body.operations if op.operation.name == "tt.func"]
        if len(found) != 1:
            count = len(found)
            raise CompileError("bad-kernel", f"expected one function; got {count}")
        (function,) = found
        (block,) = function.regions[0].blocks
        kinds = tuple(kind_of(value.type) for value in block.arguments)
        name = _plain(_attributes_of(function.operation)["sym_name"])
        return TritonFunction(name, kinds, _Reading().block(block))


def kind_of(mlir: ir.Type) -> TritonType:
    """Parse a type of Triton's IR."""
    text = str(mlir)
    tensor = _TENSOR.fullmatch(text)
    shape, element = tensor.groups() if tensor else ("", text)
    pointer = _POINTER.fullmatch(element)
    name = pointer[1] if pointer else element
    if name not in _DTYPES:
        raise CompileError("bad-kernel", f"no kernel has values of the type {text}")
    sizes = tuple(map(int, shape.split("x")[:-1]))
    return TritonType(sizes, dtypes.to_numpy(_DTYPES[name]), pointer is not None)


class _Reading:
    """A converter of MLIR blocks to `TritonBlock`s, which numbers values in order."""

    def __init__(self) -> None:
        self._numbers: dict[Value, int] = {}

    def block(self, block: MlirBlock) -> TritonBlock:
        """Convert a block, with all ops and nested blocks in it."""
        arguments = self._define(block.arguments)
        return TritonBlock(arguments, tuple(map(self._step, block.operations)))

    def _define(self, values: Sequence[Value]) -> tuple[int, ...]:
        """Assign the next numbers to new values; return the numbers."""
        for value in values:
            self._numbers[value] = len(self._numbers)
        return tuple(self._numbers[value] for value in values)

    def _step(self, op: Operation) -> TritonOp:
        """Convert an op, with its nested blocks."""
        op = op.operation
        operands = tuple(self._numbers[value] for value in op.operands)
        blocks = tuple(self.block(each) for region in op.regions for each in region)
        kinds = tuple(kind_of(value.type) for value in op.results)
        attributes = {name: _plain(x) for name, x in _attributes_of(op).items()}
        results = self._define(op.results)
        return TritonOp(op.name, operands, results, kinds, attributes, blocks)


def _attributes_of(op: Operation) -> dict[str, ir.Attribute]:
    """Return the attributes of an op by name, parsed from its text for Triton's ops.

    Those of an op of Triton's are text to the bindings, which do not know the op.
    """
    if not op.name.startswith("tt."):
        return {name: op.attributes[name] for name in op.attributes}
    text = op.get_asm(
        print_generic_op_form=True, skip_regions=True, assume_verified=True
    )
    stated = _PROPERTIES.search(text)
    found = ir.DictAttr.parse(stated[1]) if stated else ()
    return {each.name: each.attr for each in found}


def _plain(attribute: ir.Attribute) -> Any:
    """Return an attribute as plain data, or else its text."""
    if isinstance(attribute, ir.DenseElementsAttr):
        if not attribute.is_splat:
            raise CompileError("bad-kernel", "a constant tensor has several numbers")
        return _plain(attribute.get_splat_value())
    if isinstance(
        attribute, ir.BoolAttr | ir.IntegerAttr | ir.FloatAttr | ir.StringAttr
    ):
        return attribute.value
    if isinstance(attribute, ir.DenseI32ArrayAttr):
        return tuple(attribute)
    return str(attribute)
