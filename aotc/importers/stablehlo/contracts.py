"""Contracts of a module's open sizes: names, equalities and bounds.

An exporter checks its assumptions first: it reads sizes, computes with them, and gives
the outcome to `shape_assertion`. Those checks are read here as facts. Equalities that
are linear let one size follow from the others, bounds and multiples go into contracts;
whatever else they say is left to be checked by each call.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from aotc.dialects import context
from aotc.dialects.sizes import affine
from aotc.dialects.sizes.contracts import Contract
from aotc.dialects.sizes.symbols import known_contracts
from aotc.dialects.types import Size, SymbolicDim, evaluate_size
from aotc.importers.stablehlo.interpreter import functions_of
from aotc.importers.stablehlo.known_sizes import computed_sizes
from aotc.importers.stablehlo.operation import Op
from aotc.importers.stablehlo.ops.shapes import make_constant
from aotc.importers.stablehlo.values import KnownTensor, Token, Value, as_known, number
from aotc.mlir import ir
from aotc.tracing.dims import Dim, DimTerm

_LARGEST_MULTIPLE = 128  # that is looked for


@dataclass
class _Facts:
    """The facts known so far about the dynamic sizes of a module's arguments."""

    dims: list[Dim]  # by the number of their symbols
    terms: dict[int, DimTerm]  # number of a size that follows from others → from what
    names: dict[str, str] = field(default_factory=dict)  # new names of Dims

    def size(self, number: int) -> Size:
        """Return dynamic size number `number` in terms of symbols."""
        term = self.terms.get(number, self.dims[number])
        return term.value(
            {
                dim.name: SymbolicDim.symbol(i) * dim.multiple_of
                for i, dim in self.numbered_dims()
            }
        )

    def numbered_dims(self) -> list[tuple[int, Dim]]:
        """Return the Dims with the numbers of their symbols."""
        return list(enumerate(self.dims))

    @property
    def contracts(self) -> list[Contract]:
        """Contracts (bounds, divisors) of all symbols."""
        return [dim.contract() for dim in self.dims]


def open_sizes(module: ir.Module, main: str) -> dict[tuple[int, int], DimTerm]:
    """Return each dynamic size of main's arguments as a Dim term, by (argument,
    axis).
    """
    function = functions_of(module)[main]
    block = function.regions[0].blocks[0]
    places = [
        (n, axis)
        for n, argument in enumerate(block.arguments)
        for axis in range(_rank(argument.type))
        if argument.type.is_dynamic_dim(axis)
    ]
    facts = _Facts([Dim(f"d{n}", min=0) for n in range(len(places))], {})
    checks = sum(1 for each in block.operations if _is_check(each.operation))
    with context():
        for _ in range(checks + 1):
            if not _SizeInterpreter(module, places, facts).learns(block):
                break
    renamed = [replace(d, name=facts.names.get(d.name, d.name)) for d in facts.dims]
    by_name = {old.name: new for old, new in zip(facts.dims, renamed, strict=True)}
    return {
        place: _substitute(facts.terms.get(n, facts.dims[n]), by_name)
        for n, place in enumerate(places)
    }


def _rank(mlir_type: ir.Type) -> int:
    """Return the rank of a tensor type; 0 for other types."""
    return int(mlir_type.rank) if isinstance(mlir_type, ir.RankedTensorType) else 0


def _is_check(operation: ir.Operation) -> bool:
    """Return whether an op is a `shape_assertion` custom call."""
    custom = operation.name == "stablehlo.custom_call"
    return custom and Op(operation).text("call_target_name") == "shape_assertion"


def _substitute(term: DimTerm, dims: dict[str, Dim]) -> DimTerm:
    """Return a term with its Dims replaced by others of the same names."""
    if isinstance(term, Dim):
        return dims[term.name]
    found: DimTerm = term.value(dims)  # type: ignore[assignment, arg-type]
    return found


_UNKNOWN = Token()  # a value that is not about sizes


class _SizeInterpreter:
    """Evaluates size arithmetic of a function, and records facts from its
    assertions.
    """

    def __init__(
        self, module: ir.Module, places: Sequence[tuple[int, int]], facts: _Facts
    ) -> None:
        self.functions = functions_of(module)
        self.places = places
        self.facts = facts

    def learns(self, block: ir.Block) -> bool:
        """Evaluate main's size ops up to an assertion with a new fact; return if one
        was found.
        """
        with known_contracts(self.facts.contracts):
            values: dict[ir.Value, Value] = {}
            for each in block.operations:
                operation = each.operation
                if _is_check(operation) and self._learn_check(operation, values):
                    return True
                self._step(operation, values, block)
        return False

    def _step(
        self, operation: ir.Operation, values: dict[ir.Value, Value], block: ir.Block
    ) -> None:
        """Evaluate an op on known sizes, and record its results in `values`."""
        op = Op(operation)
        operands = [values.get(operand, _UNKNOWN) for operand in operation.operands]
        found: Sequence[Value | None] = []
        if op.name == "stablehlo.constant" and not op.kind.is_complex:
            found = [make_constant(op)]
        elif op.name == "stablehlo.get_dimension_size":
            found = [self._read_size(op, block)]
        elif op.name == "func.call":
            found = self._call(op.text("callee"), operands)
        elif len(op.op.results) == 1:
            found = [computed_sizes(op, operands)]
        for result, value in zip(operation.results, found, strict=False):
            if isinstance(value, KnownTensor):
                values[result] = value

    def _read_size(self, op: Op, block: ir.Block) -> KnownTensor | None:
        """Return the size that a get_dimension_size op reads from an argument, if
        known.
        """
        arguments = list(block.arguments)
        operand, axis = op.op.operands[0], op.integer("dimension")
        if operand not in arguments:
            return None
        place = (arguments.index(operand), axis)
        if place not in self.places:
            return as_known(operand.type.get_dim_size(axis), op.kind.dtype)
        return as_known(self.facts.size(self.places.index(place)), op.kind.dtype)

    def _call(self, name: str, operands: Sequence[Value]) -> list[Value]:
        """Return the results of a function call on sizes; nothing if an operand is
        unknown.
        """
        self._learn_names(name, operands)
        if _UNKNOWN in operands:
            return []
        block = self.functions[name].regions[0].blocks[0]
        values = dict(zip(block.arguments, operands, strict=True))
        for each in block.operations:
            self._step(each.operation, values, block)
        last = list(block.operations)[-1].operation
        return [values.get(operand, _UNKNOWN) for operand in last.operands]

    def _learn_names(self, name: str, operands: Sequence[Value]) -> None:
        """Name Dims after the JAX variables that a callee takes their values by."""
        for title, value in zip(
            global_constants(self.functions[name]), operands, strict=True
        ):
            size = number(value)
            for position, dim in self.facts.numbered_dims():
                whole = SymbolicDim.symbol(position) * dim.multiple_of
                if title and title.isidentifier() and size == whole:
                    self.facts.names.setdefault(dim.name, title)

    # ---- learning from a check ------------------------------------------------------

    def _learn_check(self, check: ir.Operation, values: dict[ir.Value, Value]) -> bool:
        """Record what an assertion says about sizes; return whether that is new."""
        condition = check.operands[0]
        if condition in values or isinstance(condition.owner, ir.Block):
            return False
        test = Op(condition.owner)
        if test.name != "stablehlo.compare":
            return False
        sides = [number(values[x]) for x in test.op.operands if x in values]
        if len(sides) < 2 or None in sides:
            return False
        one, other = sides[0], sides[1]
        assert one is not None
        assert other is not None
        rules = {
            "EQ": lambda: self._learn_zero(one - other),
            "GE": lambda: self._learn_bound(one - other),
            "LE": lambda: self._learn_bound(other - one),
        }
        direction = test.word("comparison_direction")
        return direction in rules and rules[direction]()

    def _learn_zero(self, difference: Size) -> bool:
        """Record that a difference of sizes is zero; return whether that is new."""
        if isinstance(difference, int):
            return False
        atoms, rest = affine.as_sum(difference.expr)
        symbols = {
            place: factor
            for atom, factor in atoms.items()
            if (place := _symbol_number(atom)) is not None
        }
        if len(symbols) < len(atoms):
            return self._learn_multiple(difference)
        for position, factor in sorted(symbols.items(), reverse=True):
            if self._learn_value(position, factor, symbols, rest):
                return True
        return False

    def _learn_value(
        self, position: int, factor: int, symbols: dict[int, int], rest: int
    ) -> bool:
        """Record that `factor * size + others + rest` is 0 as a size's value; return
        success.
        """
        dim = self.facts.dims[position]
        others = {n: f for n, f in symbols.items() if n != position}
        steps = [self.facts.dims[n].multiple_of for n in others]
        if abs(factor) != 1 or dim.multiple_of != 1 or any(s != 1 for s in steps):
            return False
        term: Any = -factor * rest
        for n, f in others.items():
            multiple = -factor * f
            part = (
                self.facts.dims[n] if multiple == 1 else multiple * self.facts.dims[n]
            )
            term = part if isinstance(term, int) and term == 0 else term + part
        if isinstance(term, int):
            return False
        for number_, other in list(self.facts.terms.items()):
            self.facts.terms[number_] = _substitute(
                other, {**_dims_by_name(self), dim.name: term}
            )
        self.facts.terms[position] = term
        return True

    def _learn_multiple(self, difference: SymbolicDim) -> bool:
        """Record that a size is a multiple, if only multiples make the difference 0."""
        (position, *others) = affine.symbols_in(difference.expr)
        dim = self.facts.dims[position]
        if others or dim.multiple_of != 1:
            return False
        values = range(2 * _LARGEST_MULTIPLE)
        zeros = [
            n for n in values if evaluate_size(difference, [n] * (position + 1)) == 0
        ]
        step = zeros[1] if len(zeros) > 1 else 0
        if step < 2 or zeros != list(range(0, 2 * _LARGEST_MULTIPLE, step)):
            return False
        self.facts.dims[position] = replace(dim, multiple_of=step)
        return True

    def _learn_bound(self, difference: Size) -> bool:
        """Record a bound of a size from a difference that is at least 0; return whether
        new.
        """
        if isinstance(difference, int):
            return False
        atoms, rest = affine.as_sum(difference.expr)
        symbols = [(_symbol_number(atom), factor) for atom, factor in atoms.items()]
        if len(symbols) != 1 or symbols[0][0] is None:
            return False
        position, factor = symbols[0]
        assert position is not None
        dim = self.facts.dims[position]
        if factor > 0:
            least = -(rest // factor) * dim.multiple_of
            new = replace(dim, min=max(dim.min, least))
        else:
            most = rest // -factor * dim.multiple_of
            new = replace(dim, max=most if dim.max is None else min(dim.max, most))
        self.facts.dims[position] = new
        return new != dim


def _dims_by_name(reader: _SizeInterpreter) -> dict[str, Any]:
    """Return the Dims of an interpreter by name."""
    return {dim.name: dim for dim in reader.facts.dims}


def _symbol_number(atom: object) -> int | None:
    """Return the number of an affine symbol; None for any other expression."""
    return int(atom.position) if isinstance(atom, ir.AffineSymbolExpr) else None


def global_constants(function: Any) -> list[str]:
    """Return JAX's dimension variable for each argument of a function, or ""."""
    if "arg_attrs" not in function.attributes:
        return [""] * len(function.regions[0].blocks[0].arguments)
    rows = map(ir.DictAttr, ir.ArrayAttr(function.attributes["arg_attrs"]))
    key = "jax.global_constant"
    return [str(ir.StringAttr(row[key]).value) if key in row else "" for row in rows]
