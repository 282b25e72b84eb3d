"""Merge kernels of one structure: the constants that differ become operands.

Texts are compared, in which no numbers stand. See `aotc.kernels.cpu.parameters` for
what a kernel can be told.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from aotc.dialects import iree_text
from aotc.dialects.attributes import DenseElements
from aotc.dialects.calls.callees import calls_in
from aotc.dialects.functions.function_table import erase, index_functions
from aotc.dialects.functions.functions import callee_of, functions_of, name_of
from aotc.dialects.iree_text import bodies
from aotc.dialects.lowering.scalars import constant_of
from aotc.dialects.plain import attribute_of, plain_of
from aotc.kernels.cpu.dispatch import any_size
from aotc.kernels.cpu.parameters import REPLACEABLE, Column, KernelParameters
from aotc.kernels.cpu.vectors import index
from aotc.kernels.lowered import CALL, KERNEL, LAUNCH, called_kernel, kernel_in
from aotc.mlir import Function, Module, Operation, func, ir

_MOST_NUMBERS = 24  # that are added to a dispatch, which takes 64: `worker.constants`

_OF_OPS = {"ops", "flops"}  # a graph adds no zero point of 0, and code adds any

_CONSTANT = re.compile(
    r'"arith\.constant"\(\) <\{value = (?P<value>[^}]*)\}> : \(\) -> '
    rf"(?P<kind>{REPLACEABLE})(?=\s)"
)
_KIND = re.compile(REPLACEABLE)


def share_kernels(module: Module) -> bool:
    """Merge CPU kernels that differ in constants alone; return whether there are any.

    Returns:
        Whether there are any.
    """
    shared = [
        each for alike in _alike_kernels(module) for each in _shared_kernels(alike)
    ]
    if shared:
        with index_functions(module):
            _call_shared(module, shared)
    return bool(shared)


# ---- what is alike ------------------------------------------------------------------


@dataclass(frozen=True)
class _KernelText:
    """A kernel's text, split into its structure and its constants.

    Args:
        holder: the module that holds it.
        structure: its text without its name and its numbers.
        numbers: attributes in the places of these, in order.
    """

    holder: Operation
    structure: tuple[str, str]
    numbers: list[str]

    @classmethod
    def of(cls, holder: Operation) -> _KernelText:
        """Return the text of the kernel that a nested module holds, split up."""
        function = _function_in(holder).operation
        text = function.get_asm(print_generic_op_form=True, use_local_scope=True)
        text = text.replace(f'"{name_of(holder)}"', '""', 1)
        numbers = [found["value"] for found in _CONSTANT.finditer(text)]
        without = _CONSTANT.sub(r"constant \g<kind>", text)
        stated = plain_of(holder.attributes[KERNEL])
        facts = {key: stated[key] for key in stated.keys() - _OF_OPS}
        return cls(holder, (without, str(attribute_of(facts))), numbers)


def _function_in(holder: Operation) -> Function:
    """Return the only function of a nested module."""
    (function,) = holder.regions[0].blocks[0].operations
    assert isinstance(function, Function)
    return function


def _alike_kernels(module: Module) -> Iterator[list[_KernelText]]:
    """Yield groups of several CPU kernels whose texts differ in constants alone."""
    by_type: dict[ir.Attribute, list[Operation]] = {}
    for op in module.body.operations:
        if KERNEL in op.attributes and LAUNCH not in op.attributes:
            kind = _function_in(op).attributes["function_type"]
            by_type.setdefault(kind, []).append(op)
    for holders in by_type.values():
        by_structure: dict[tuple[str, str], list[_KernelText]] = {}
        if len(holders) > 1:
            for written in map(_KernelText.of, holders):
                by_structure.setdefault(written.structure, []).append(written)
        yield from (found for found in by_structure.values() if len(found) > 1)


def _shared_kernels(alike: Sequence[_KernelText]) -> Iterator[_SharedKernels]:
    """Yield groups of kernels that can be merged, with their parameters."""
    constants = _constants_in(_function_in(alike[0].holder))
    columns = _columns_of(constants, alike)
    fixed = [n for n, x in enumerate(columns) if x.differs and not x.is_replaceable]
    groups: dict[tuple[str, ...], list[_KernelText]] = {}
    for each in alike:
        groups.setdefault(tuple(each.numbers[n] for n in fixed), []).append(each)
    for members in groups.values():
        if len(members) > 1:
            constants = _constants_in(_function_in(members[0].holder))
            columns = [x for x in _columns_of(constants, members) if x.differs]
            parameters = KernelParameters(columns)
            if len(parameters.numbers) <= _MOST_NUMBERS:
                yield _SharedKernels([each.holder for each in members], parameters)


def _constants_in(function: Function) -> list[Operation]:
    """Return a kernel's constant ops that parameters can replace, in program order."""
    found: list[Operation] = []

    def visit(op: Operation) -> ir.WalkResult:
        if op.name == "arith.constant" and _KIND.fullmatch(str(op.results[0].type)):
            found.append(op)
        return ir.WalkResult.ADVANCE

    function.operation.walk(visit)
    return found


def _columns_of(
    constants: Sequence[Operation], alike: Sequence[_KernelText]
) -> list[Column]:
    """Return a `Column` for each constant: its attributes in all kernels."""
    numbers = zip(*(each.numbers for each in alike), strict=True)
    return [Column(*each) for each in zip(constants, numbers, strict=True)]


# ---- what calls it ------------------------------------------------------------------


@dataclass(frozen=True)
class _SharedKernels:
    """Kernels to merge: the first one, with parameters, replaces all.

    Args:
        holders: the modules that hold them.
        parameters: what they are told.
    """

    holders: Sequence[Operation]
    parameters: KernelParameters

    def call(self, call: func.CallOp, member: int) -> str:
        """Replace a kernel's call by one of the merged kernel; return the callee.

        Args:
            call: of the function that dispatches the kernel.
            member: which of the kernels that is.

        Returns:
            The name of the function that is called now.
        """
        kernel = kernel_in(self.holders[0])
        count, parameters = len(kernel.memories) - kernel.results, self.parameters
        given = [*call.operands]
        tensors, symbols = given[:count], given[count : count + kernel.symbols]
        rest = given[count + kernel.symbols :]
        results = [each.type for each in call.results]
        scratch = [any_size()] * (kernel.results - len(results))
        with ir.InsertionPoint(call), call.location:
            if parameters.tables:
                array = parameters.tables_of(member)
                tensors.append(constant_of(DenseElements.encode(array)))
            symbols += [*map(index, parameters.numbers_of(member))]
            given = [*tensors, *symbols, *rest]
            operands = [each.type for each in tensors]
            body = bodies.dispatch(
                kernel.name, operands, len(symbols), results, scratch
            )
            types = [each.type for each in given]
            callee = iree_text.declare(f"{kernel.name}{CALL}", types, results, body)
            made = iree_text.call_declared(callee, given)
        for old, new in zip(call.results, made, strict=True):
            old.replace_all_uses_with(new)
        call.operation.erase()
        return name_of(callee)

    def keep_first(self) -> None:
        """Rewrite the first kernel to take parameters, and erase the others."""
        first, *others = self.holders
        self.parameters.replace_in(first)
        for each in others:
            each.operation.erase()


def _call_shared(module: Module, shared: Sequence[_SharedKernels]) -> None:
    """Redirect all calls of merged kernels, and erase the kernels they replace."""
    members = {
        name_of(holder): (each, number)
        for each in shared
        for number, holder in enumerate(each.holders)
    }
    before, after = set[str](), set[str]()
    for function in [*functions_of(module).values()]:
        if function.is_external:
            continue
        for call in calls_in(function):
            kernel = called_kernel(call)
            if kernel in members:
                before.add(callee_of(call))
                each, number = members[kernel]
                after.add(each.call(call, number))
    functions = functions_of(module)
    for name in before - after:  # kernels without numbers are called as before
        erase(functions[name])
    for each in shared:
        each.keep_first()
