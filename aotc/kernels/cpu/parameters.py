"""Constants of a kernel in whose place it reads operands, so that others can share it.

A number is one more symbol of the kernel: an index, of whose lowest bits constants are
made. Tables, which are vectors of several numbers, are the elements of one more memref.
Both are read once, where the function begins.

A constant is replaced where its readers take as long for any number. Others, as those
of divisions, of which LLVM makes something faster, stay constants.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from aotc.dialects.functions.function_table import name_of
from aotc.dialects.lowering.scalars import float_compare
from aotc.dialects.plain import attribute_of, plain_of
from aotc.kernels.cpu import vectors
from aotc.kernels.lowered import KERNEL
from aotc.mlir import Function, Operation, Type, Value, arith, func, ir

# types of the constants that can be replaced
REPLACEABLE = r"(?:f32|i8|i16|i32)|vector<\d+x(?:f32|i8|i16|i32)>"

_TAKE_ANY = {
    "arith.addf",
    "arith.addi",
    "arith.extui",
    "arith.mulf",
    "arith.select",
    "arith.subf",
    "arith.subi",
    "vector.store",
}
# LLVM makes three instructions of each where the bound may be NaN for all it knows
_BOUNDED = {"arith.maxnumf": "OGT", "arith.minnumf": "OLT"}
_TAKE_TABLES = {"llvm.call_intrinsic"}  # whose scalars may have to be constants


@dataclass(frozen=True)
class Column:
    """The constants at one place in the code of kernels that are otherwise equal.

    Args:
        constant: that of the first kernel.
        texts: the attributes of all.
    """

    constant: Operation
    texts: tuple[str, ...]

    @cached_property
    def arrays(self) -> list[np.ndarray]:
        """The constant of each kernel as an array of unsigned bits."""
        return [*map(_bits_of, self.texts)]

    @property
    def differs(self) -> bool:
        """Return whether the kernels have different constants here."""
        return len({*self.texts}) > 1

    @cached_property
    def is_table(self) -> bool:
        """Return whether the constants are parts of lookup tables, not numbers."""
        kind = str(self.constant.results[0].type)
        readers = {use.owner.name for use in self.constant.results[0].uses}
        return kind.endswith("xi16>") and readers <= _TAKE_TABLES

    @property
    def is_replaceable(self) -> bool:
        """Return whether an operand in place of the constant makes code no slower."""
        if self.is_table:
            return True
        uses = self.constant.results[0].uses
        is_number = all((each == each.flat[0]).all() for each in self.arrays)
        return is_number and all(self._takes_any(use) for use in uses)

    def _takes_any(self, use: Any) -> bool:
        """Return whether a use is as fast with an operand as with a constant."""
        reader = use.owner.name
        if reader in _BOUNDED:
            is_bound = use.operand_number == 1
            floats = (each.view(np.float32) for each in self.arrays)
            return is_bound and not any(np.isnan(each).any() for each in floats)
        return reader in _TAKE_ANY


def _bits_of(text: str) -> np.ndarray:
    """Parse a constant attribute's text to an array of unsigned bits."""
    attribute = ir.Attribute.parse(text)
    if isinstance(attribute, ir.DenseElementsAttr):
        found = np.ascontiguousarray(attribute)
    else:
        value = attribute.value
        is_float = isinstance(attribute, ir.FloatAttr)
        kind = "f4" if is_float else f"i{attribute.type.width // 8}"
        found = np.array([value], kind)
    return found.view(f"u{found.itemsize}")


@dataclass(frozen=True)
class KernelParameters:
    """The operands that replace differing constants of otherwise equal kernels.

    Args:
        columns: those that differ.
    """

    columns: Sequence[Column]

    @cached_property
    def numbers(self) -> list[tuple[int, ...]]:
        """The number parameters, without repetitions: tuples of one for each kernel."""
        columns = (each for each in self.columns if not each.is_table)
        return [*dict.fromkeys(map(_numbers_in, columns))]

    @cached_property
    def tables(self) -> list[tuple[np.ndarray, ...]]:
        """The table parameters, without repetitions: tuples of one for each kernel."""
        columns = (each for each in self.columns if each.is_table)
        return [*{each.texts: tuple(each.arrays) for each in columns}.values()]

    @property
    def table_size(self) -> int:
        """The number of elements of all tables of one kernel."""
        return sum(each[0].size for each in self.tables)

    def numbers_of(self, member: int) -> list[int]:
        """Return the numbers to pass for one of the kernels, by its position."""
        return [each[member] for each in self.numbers]

    def tables_of(self, member: int) -> np.ndarray:
        """Return the tables to pass for one of the kernels, concatenated."""
        return np.concatenate([each[member] for each in self.tables]).view(np.int16)

    def replace_in(self, holder: Operation) -> None:
        """Rewrite a kernel in place: new arguments replace its differing constants.

        Args:
            holder: the module of the kernel.
        """
        (old,) = holder.regions[0].blocks[0].operations
        assert isinstance(old, func.FuncOp)
        stated = plain_of(holder.attributes[KERNEL])
        memories = len(stated["elements"])
        reads, count = memories - stated["results"], len(self.numbers)
        *before, share, shares = old.arguments
        parts = before[:reads], before[reads:memories], before[memories:]
        read, written, symbols = ([each.type for each in part] for part in parts)
        tables = [self._tables_type] if self.tables else []
        told = [ir.IndexType.get()] * count
        types = [*read, *tables, *written, *symbols, *told, share.type, shares.type]
        with ir.InsertionPoint(old), old.location:
            function = func.FuncOp(name_of(old), (types, []))
        arguments = [*function.add_entry_block().arguments]
        memory = arguments.pop(reads) if tables else None
        numbers = arguments[-2 - count : -2]
        _move_body(old, function, [*arguments[: len(before)], *arguments[-2:]])
        with ir.InsertionPoint.at_block_begin(function.entry_block), function.location:
            self._replace_constants(numbers, memory)
        elements = [_insert_symbols(x, len(symbols), count) for x in stated["elements"]]
        if tables:
            elements.insert(
                reads,
                f"()[{_symbols(len(symbols) + count + 1)}] -> ({self.table_size})",
            )
        holder.attributes[KERNEL] = attribute_of({**stated, "elements": elements})

    @property
    def _tables_type(self) -> Type:
        """The memref type of all tables of a kernel."""
        element = ir.IntegerType.get_signless(16)
        found: Type = ir.MemRefType.get([self.table_size], element)
        return found

    def _replace_constants(
        self, numbers: Sequence[Value], tables: Value | None
    ) -> None:
        """Replace constants by values made from the new arguments."""
        begins = dict[tuple[str, ...], int]()
        made = dict[tuple[Type, bool, int], Value]()
        end = 0
        for column in self.columns:
            constant = column.constant.results[0]
            kind = constant.type
            if column.is_table:
                if column.texts not in begins:
                    begins[column.texts] = end
                    end += column.arrays[0].size
                place = begins[column.texts]
            else:
                place = self.numbers.index(_numbers_in(column))
            key = kind, column.is_table, place
            if key not in made:
                if column.is_table:
                    assert tables is not None
                    lanes, at = kind.shape[0], vectors.index(place)
                    found = vectors.load_as_is(tables, at, lanes)
                else:
                    found = _constant_of(numbers[place], kind)
                made[key] = found
            _compare_with(constant)
            constant.replace_all_uses_with(made[key])
            column.constant.erase()


def _numbers_in(column: Column) -> tuple[int, ...]:
    """Return, for each kernel, the number in all lanes of a constant, as its bits."""
    return tuple(int(each.flat[0]) for each in column.arrays)


def _constant_of(number: Value, kind: Type) -> Value:
    """Emit a value of a type from the lowest bits of an index value."""
    element = kind.element_type if isinstance(kind, ir.VectorType) else kind
    assert isinstance(element, ir.IntegerType | ir.FloatType)
    bits = ir.IntegerType.get_signless(element.width)
    found = arith.index_cast(bits, number)
    if bits != element:
        found = arith.bitcast(element, found)
    if isinstance(kind, ir.VectorType):
        return vectors.repeat(found, kind.shape[0])
    return found


def _compare_with(bound: Value) -> None:
    """Replace maxnumf and minnumf with a constant, not NaN, by selects, in place."""
    for use in [*bound.uses]:
        op = use.owner
        if op.name in _BOUNDED:
            with ir.InsertionPoint(op), op.location:
                x = op.operands[0]
                is_inside = float_compare(_BOUNDED[op.name], x, bound)
                found = arith.select(is_inside, x, bound)
            op.results[0].replace_all_uses_with(found)
            op.erase()


def _move_body(old: Function, new: Function, arguments: Sequence[Value]) -> None:
    """Move the body of a function into a new one, and erase the old one.

    Args:
        old: the function.
        new: that gets its ops.
        arguments: of the new one, in the place of those of the old one.
    """
    for before, after in zip(old.arguments, arguments, strict=True):
        before.replace_all_uses_with(after)
    for op in [*old.entry_block.operations]:
        op.operation.detach_from_parent()
        new.entry_block.append(op)
    old.operation.erase()


def _insert_symbols(elements: str, symbols: int, more: int) -> str:
    """Return an affine map's text with symbols inserted before its last one.

    Args:
        elements: see `LoweredKernel.elements`.
        symbols: of it.
        more: how many are added.
    """
    _, _, expression = elements.partition("->")
    moved = re.sub(rf"\bs{symbols}\b", f"s{symbols + more}", expression)
    return f"()[{_symbols(symbols + more + 1)}] ->{moved}"


def _symbols(count: int) -> str:
    """Return the text `s0, s1, …` of some symbols of an affine map."""
    return ", ".join(f"s{n}" for n in range(count))
