"""Specializations: the same entry again, for calls of certain sizes only.

    func @predict(%x: tensor<?x8xf32, affine_map<()[s0] -> (s0, 8)>>)
      attributes {graph.symbols = [{name = "batch", …}]}
    →
    func @predict__batch_4(%x: tensor<4x8xf32>)
      attributes {graph.specializes = {entry = "predict", sizes = {batch = 4}}}

What is known of a size is known to every pass, and no code is made for other sizes. All
functions that an entry reaches share its symbols, so they are copied with it.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from aotc.artifacts.conditions import Condition
from aotc.dialects.calls.callees import reachable_functions
from aotc.dialects.functions.entries import SPECIALIZATIONS, SPECIALIZES, Entry, Sizes
from aotc.dialects.functions.entry_guards import (
    GUARDS,
    EntryGuard,
    guards_attribute,
    guards_of,
)
from aotc.dialects.functions.function_table import insert
from aotc.dialects.functions.functions import SYMBOLS, functions_of, unique_name
from aotc.dialects.plain import Plain, attribute_of
from aotc.dialects.sizes.affine import constant, substitute
from aotc.dialects.sizes.symbols import contracts_attribute
from aotc.dialects.types import Tensor, shape_map, shape_of_map, size_of
from aotc.errors import InputError
from aotc.mlir import Function, Module, Operation, Type, ir

MOST = 64  # of one entry: each is compiled like an entry of its own


def allowed_specializations(entry: Entry, wanted: Iterable[Sizes]) -> tuple[Sizes, ...]:
    """Return the distinct sizes of `wanted` for which guards allow calls of the entry.

    Args:
        entry: with the contracts and guards of its symbols.
        wanted: sizes of some of its symbols, which the contracts allow.

    Raises:
        InputError: `too-many-specializations`.
    """
    found: dict[Sizes, None] = {}
    for each in wanted:
        if _is_allowed(entry, each):
            found[each] = None
        if len(found) > MOST:
            raise InputError(
                "too-many-specializations",
                f"entry '{entry.name}' is to be specialized for more than {MOST} "
                "combinations of sizes, each of which is compiled",
                hint="specialize for the sizes that calls have most often",
            )
    return tuple(found)


def _is_allowed(entry: Entry, sizes: Sizes) -> bool:
    """Return whether guards allow some calls of these sizes, or padded to them."""
    padded = entry.padded_symbols
    terms = {name: str(size) for name, size in sizes if name not in padded}
    rest = (Condition.parse(g.condition).substitute(terms) for g in entry.guards)
    return all(each.symbols or each.holds({}) for each in rest)


def specialization_name(entry: str, sizes: Mapping[str, int]) -> str:
    """Return a specialized function's name, such as `predict__batch_4`."""
    return "__".join([entry, *(f"{name}_{size}" for name, size in sizes.items())])


def add_specialization(module: Module, entry: Entry, sizes: Mapping[str, int]) -> str:
    """Add a copy of an entry with fixed `sizes` to the module; return its name.

    Args:
        module: of the graph dialect, with the entry.
        entry: that has all of these symbols, and is itself no specialization.
        sizes: by name of the symbol, as its contract allows. Other symbols stay.
    """
    functions = functions_of(module)
    name = unique_name(module, specialization_name(entry.name, sizes))
    names = {entry.name: name}
    with module.context:
        for reached in reachable_functions(functions, entry.name)[1:]:
            names[reached] = unique_name(module, f"{reached}.{name}")
        fixing = _SizeFixer(entry, sizes, names)
        for old, new in names.items():
            fixing.fix(_copy(functions[old], new))
        function = functions_of(module)[name]
        stated: Plain = {"entry": entry.name, "sizes": dict(sizes)}
        function.attributes[SPECIALIZES] = attribute_of(stated)
        if SPECIALIZATIONS in function.attributes:
            del function.attributes[SPECIALIZATIONS]
    return name


def specialized_types(
    entry: Entry, sizes: Mapping[str, int]
) -> tuple[list[Tensor], list[Tensor]]:
    """Return the types of the inputs and of the outputs of an entry, for some sizes."""
    fixing = _SizeFixer(entry, sizes, {})
    inputs, outputs = (
        [fixing.fixed_type(port.type) for port in entry.ports(kind)]
        for kind in ("input", "output")
    )
    return inputs, outputs


def fix_sizes(entry: Entry, sizes: Mapping[str, int]) -> Entry:
    """Return an entry with the types for some sizes, and without the fixed symbols."""
    fixing = _SizeFixer(entry, sizes, {})
    arguments, results = (
        tuple(replace(port, type=fixing.fixed_type(port.type)) for port in ports)
        for ports in (entry.arguments, entry.results)
    )
    kept = tuple(each for each in entry.symbols if each.name not in sizes)
    return replace(entry, symbols=kept, arguments=arguments, results=results)


def _copy(function: Function, name: str) -> Function:
    """Insert a copy of a function, named `name`, behind it; return the copy."""
    with ir.InsertionPoint.after(function.operation):
        copy: Function = function.operation.clone().opview
    copy.attributes["sym_name"] = ir.StringAttr.get(name)
    insert(copy)
    return copy


class _SizeFixer:
    """Replaces some symbols of functions by numbers, in types and attributes.

    Args:
        entry: whose symbols they are.
        sizes: of symbols, by name; the others are numbered anew.
        names: of functions, old and new.
    """

    def __init__(
        self, entry: Entry, sizes: Mapping[str, int], names: Mapping[str, str]
    ) -> None:
        self._kept = [each for each in entry.symbols if each.name not in sizes]
        numbers = {each.name: number for number, each in enumerate(self._kept)}
        self._symbols = [
            ir.AffineSymbolExpr.get(numbers[each.name])
            if each.name in numbers
            else constant(sizes[each.name] // each.multiple_of)
            for each in entry.symbols
        ]
        self._terms = {name: str(size) for name, size in sizes.items()}
        self._names = names

    def fix(self, function: Function) -> None:
        """Replace symbols in a function's signature, attributes and ops, in place."""
        self._fix_attributes(function.operation)
        attributes = function.attributes
        if SYMBOLS in attributes:
            del attributes[SYMBOLS]
            if self._kept:
                attributes[SYMBOLS] = contracts_attribute(self._kept)
        if GUARDS in attributes:
            guards = list(self._remaining_guards(guards_of(function)))
            del attributes[GUARDS]
            if guards:
                attributes[GUARDS] = guards_attribute(guards)
        for block in function.regions[0].blocks:
            for argument in block.arguments:
                argument.set_type(self._type(argument.type))
            for op in block.operations:
                self._fix_attributes(op.operation)
                for result in op.results:
                    result.set_type(self._type(result.type))

    def _remaining_guards(self, guards: list[EntryGuard]) -> Iterator[EntryGuard]:
        """Yield the guards that still mention a symbol, with fixed sizes inserted."""
        for guard in guards:
            condition = Condition.parse(guard.condition).substitute(self._terms)
            if condition.symbols:
                yield replace(guard, condition=condition.text)

    def _fix_attributes(self, op: Operation) -> None:
        """Replace the fixed symbols in all attributes of an op, in place."""
        for name in list(op.attributes):
            old = op.attributes[name]
            new = self._attribute(old)
            if new is not old:
                op.attributes[name] = new

    def _attribute(self, attribute: ir.Attribute) -> ir.Attribute:
        """Return an attribute with fixed sizes, and the names of copied callees."""
        if isinstance(attribute, ir.AffineMapAttr):
            return ir.AffineMapAttr.get(self._map(attribute.value))
        if isinstance(attribute, ir.FlatSymbolRefAttr):
            name = self._names.get(attribute.value)
            return attribute if name is None else ir.FlatSymbolRefAttr.get(name)
        if isinstance(attribute, ir.TypeAttr):
            return ir.TypeAttr.get(self._type(attribute.value))
        if isinstance(attribute, ir.ArrayAttr):
            return ir.ArrayAttr.get([self._attribute(each) for each in attribute])
        if isinstance(attribute, ir.DictAttr):
            facts = {each.name: self._attribute(each.attr) for each in attribute}
            return ir.DictAttr.get(facts)
        return attribute

    def _map(self, shape: ir.AffineMap) -> ir.AffineMap:
        """Return the affine map of a shape with the fixed symbols replaced."""
        sizes = (substitute(expr, self._symbols) for expr in shape.results)
        return shape_map(tuple(map(size_of, sizes)))

    def _type(self, kind: Type) -> Type:
        """Return a function or tensor type with the fixed symbols replaced."""
        if isinstance(kind, ir.FunctionType):
            return ir.FunctionType.get(
                [self._type(each) for each in kind.inputs],
                [self._type(each) for each in kind.results],
            )
        tensor = Tensor.of(kind)
        return kind if tensor.is_static else self.fixed_type(tensor).to_mlir()

    def fixed_type(self, tensor: Tensor) -> Tensor:
        """Return a tensor type with the fixed symbols replaced by numbers."""
        return tensor.with_shape(shape_of_map(self._map(shape_map(tensor.shape))))
