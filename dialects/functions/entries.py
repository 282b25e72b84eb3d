"""Entries: the functions of a program that can be called, as its module states them.

    func @predict(%w: tensor<4x2xf32> {graph.kind = "weight", graph.name = "dense.w"},
                  %x: tensor<?x4xf32, …> {graph.kind = "input", graph.name = "x"})
      attributes {graph.entry = {inputs = …, outputs = …, reads = …, updates = …}}

Where lowering has replaced a type of the graph dialect, `graph.type` has it.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from typing import Any

from aotc.artifacts.manifest import DeviceAxis
from aotc.core.pytree import Structure
from aotc.dialects.functions.entry_guards import (
    GUARDS,
    EntryGuard,
    guards_attribute,
    guards_of,
)
from aotc.dialects.functions.function_table import erase, insert
from aotc.dialects.functions.functions import (
    ENTRY,
    SYMBOLS,
    functions_of,
    is_entry,
    name_of,
)
from aotc.dialects.functions.parameters import parameter_ops
from aotc.dialects.plain import attribute_of, plain_of, plain_tree, tree_of
from aotc.dialects.sizes.contracts import DYNAMIC, Contract
from aotc.dialects.sizes.symbols import contracts_attribute, contracts_of
from aotc.dialects.types import Tensor
from aotc.errors import InputError
from aotc.mlir import Function, Module, Type, Value, func, ir

_INTERMEDIATES = "graph.intermediates"
_DEVICES = "graph.devices"
SPECIALIZATIONS, SPECIALIZES = "graph.specializations", "graph.specializes"
_SIDES = ("arg_attrs", "res_attrs")
# Facts of a port that it may have, and the attributes that state them.
_FACTS = {
    "layout": "graph.layout",
    "source_layout": "graph.source_layout",
    "where": "graph.where",
}
_NEARBY = 5  # sizes that are tried for each symbol

Sizes = tuple[tuple[str, int], ...]  # of some symbols, sorted by their names


@dataclass(frozen=True)
class Port:
    """An argument or result of a graph function: name, type and kind.

    Args:
        name: dotted path, unique among ports of the kind.
        type: shape and dtype.
        kind: `input`, `weight` or `state` of an argument; `output` or `state` of a
            result.
        layout: of an image, if that was asked for: a letter for each axis, `nhwc`.
        source_layout: that it has in the source.
        where: the line of the model that declares it, where one does.
    """

    name: str
    type: Tensor
    kind: str
    layout: str = ""
    source_layout: str = ""
    where: str = ""


@dataclass(frozen=True)
class SizeSpecialization:
    """The entry that a specialized function computes, and for which sizes of calls.

    Args:
        entry: its name.
        sizes: of the calls.
        padded: names of those that are the largest, of calls that are padded.
    """

    entry: str
    sizes: Sizes
    padded: tuple[str, ...] = ()


@dataclass(frozen=True)
class Entry:
    """A callable function of the model: its signature, symbols and pytrees.

    Args:
        name: of the entry and of its graph function.
        symbols: contract per symbol, in the order of the function's symbols.
        arguments: the graph function's arguments, in order.
        results: the graph function's results, in order.
        input_tree: form of the caller's arguments, a dict by argument name.
        output_tree: form of what the caller gets back.
        reads: names of the weights and states it reads.
        updates: names of the states it updates.
        guards: what must hold of the sizes of a call besides.
        intermediates: the largest tensors in between, where sizes have no limit.
        specializations: sizes of calls that are to have code of their own, until the
            pass `specialize` has made an entry for each.
        specializes: whose calls it is for, and of which sizes, if it is such an entry.
        devices: that compute a call together; None for one.
    """

    name: str
    symbols: tuple[Contract, ...]
    arguments: tuple[Port, ...]
    results: tuple[Port, ...]
    input_tree: Structure
    output_tree: Structure
    reads: tuple[str, ...] = ()
    updates: tuple[str, ...] = ()
    guards: tuple[EntryGuard, ...] = ()
    intermediates: tuple[Tensor, ...] = ()
    specializations: tuple[Sizes, ...] = ()
    specializes: SizeSpecialization | None = None
    devices: DeviceAxis | None = None

    @classmethod
    def flat(
        cls,
        name: str,
        inputs: Sequence[Tensor],
        outputs: Sequence[Tensor],
        symbols: tuple[Contract, ...] = (),
    ) -> "Entry":
        """Return an entry whose arguments are all inputs: for checks of code."""
        leaf = Structure("leaf")
        taken = (Port(f"x{i}", kind, "input") for i, kind in enumerate(inputs))
        returned = (Port(f"y{i}", kind, "output") for i, kind in enumerate(outputs))
        return cls(name, symbols, tuple(taken), tuple(returned), leaf, leaf)

    def allows(self, symbols: Sequence[int]) -> bool:
        """Return whether all guards hold for these symbol values.

        Values are in units of the symbols' multiples; contracts are not checked.
        """
        sizes = {
            contract.name: part * contract.multiple_of
            for contract, part in zip(self.symbols, symbols, strict=True)
        }
        return all(guard.holds(sizes) for guard in self.guards)

    def nearest_allowed(
        self, wanted: Sequence[int], fixed: Collection[str] = ()
    ) -> list[int]:
        """Return the least values from `wanted` up that contracts and guards allow.

        Args:
            wanted: in parts of multiples, within the contracts.
            fixed: names of symbols to leave as they are.

        Raises:
            InputError: `no-sizes`: there are none nearby.
        """
        free = [each.name not in fixed for each in self.symbols]
        if self.allows(wanted):
            return list(wanted)
        for steps in sorted(product(range(_NEARBY), repeat=sum(free)), key=sum):
            moves = iter(steps)
            found = [
                part + next(moves) if is_free else part
                for part, is_free in zip(wanted, free, strict=True)
            ]
            if self._is_within_contracts(found) and self.allows(found):
                return found
        raise InputError(
            "no-sizes",
            f"no sizes near {', '.join(map(str, self.symbols))} hold for entry "
            f"'{self.name}': {'; '.join(each.condition for each in self.guards)}",
            hint="give sizes that hold, for instance with --sizes NAME=N",
        )

    def _is_within_contracts(self, symbols: Sequence[int]) -> bool:
        """Return whether no symbol value is above the maximum of its contract."""
        return all(
            contract.max is None or part * contract.multiple_of <= contract.max
            for contract, part in zip(self.symbols, symbols, strict=True)
        )

    @property
    def padded_symbols(self) -> tuple[str, ...]:
        """Names of the symbols whose sizes in a call are padded to a bucket's."""
        return tuple(each.name for each in self.symbols if each.is_padded)

    @property
    def has_general_code(self) -> bool:
        """Return whether there is code for calls of any sizes, not just some."""
        return all(each.policy == DYNAMIC for each in self.symbols)

    def ports(self, kind: str) -> list[Port]:
        """Return argument ports of a kind, such as `input`; for `output`, results."""
        side = self.results if kind == "output" else self.arguments
        return [port for port in side if port.kind == kind]


# ---- in the module ------------------------------------------------------------------


def entries_of(module: Module, *, with_declared: bool = False) -> list[Entry]:
    """Return the entries of a module, read from function attributes, at any stage.

    Args:
        module: of functions.
        with_declared: also those that have no code of their own any more, because
            specializations of them compute all calls.
    """
    return [
        _read_entry(name, function)
        for name, function in functions_of(module).items()
        if is_entry(function) and (with_declared or not function.is_external)
    ]


def specializations_in(module: Module) -> dict[str, SizeSpecialization]:
    """Return the SizeSpecialization of each specialized function, by its name."""
    found = {
        name: _specialization(function)
        for name, function in functions_of(module).items()
        if is_entry(function) and not function.is_external
    }
    return {name: special for name, special in found.items() if special is not None}


def declare_entry(function: Function) -> Function:
    """Replace an entry's function by a declaration without a body, and return it."""
    with ir.InsertionPoint(function.operation), function.operation.location:
        declared = func.FuncOp(name_of(function), function.type, visibility="private")
    for name in function.attributes:
        if name.startswith("graph.") or name in _SIDES:
            declared.attributes[name] = function.attributes[name]
    erase(function)
    insert(declared)
    return declared


def write_entry(module: Module, entry: Entry) -> None:
    """Write an entry into the attributes of the graph function of its name."""
    function = functions_of(module)[entry.name]
    with module.context:
        attributes = function.attributes
        sides = (entry.arguments, entry.results)
        for side, ports in zip(_SIDES, sides, strict=True):
            attributes[side] = _ports_attribute(ports)
        attributes[ENTRY] = attribute_of(
            {
                "inputs": plain_tree(entry.input_tree),
                "outputs": plain_tree(entry.output_tree),
                "reads": list(entry.reads),
                "updates": list(entry.updates),
            }
        )
        if entry.symbols:
            attributes[SYMBOLS] = contracts_attribute(entry.symbols)
        if entry.guards:
            attributes[GUARDS] = guards_attribute(entry.guards)
        if entry.specializations:
            rows = [dict(sizes) for sizes in entry.specializations]
            attributes[SPECIALIZATIONS] = attribute_of(rows)
        if entry.specializes is not None:
            attributes[SPECIALIZES] = attribute_of(
                _specialization_facts(entry.specializes)
            )


def drop_wanted_specializations(module: Module, name: str) -> None:
    """Remove the attribute of an entry that lists sizes to specialize it for."""
    attributes = functions_of(module)[name].attributes
    if SPECIALIZATIONS in attributes:
        del attributes[SPECIALIZATIONS]


def weight_arguments(function: Function) -> list[Value]:
    """Return the arguments of an entry's function that are weights; [] of any other."""
    if _SIDES[0] not in function.attributes:
        return []
    rows = map(ir.DictAttr, ir.ArrayAttr(function.attributes[_SIDES[0]]))
    return [
        value
        for row, value in zip(rows, function.entry_block.arguments, strict=True)
        if "graph.kind" in row and plain_of(row["graph.kind"]) == "weight"
    ]


def weight_ports(function: Function, entry: Entry) -> Iterator[tuple[Value, Port]]:
    """Yield the arguments of an entry's function that are weights, and their ports."""
    for value, port in zip(
        function.entry_block.arguments, entry.arguments, strict=True
    ):
        if port.kind == "weight":
            yield value, port


def write_intermediates(function: Function, tensors: Sequence[Tensor]) -> None:
    """Set the attribute for an entry's largest intermediate tensors."""
    types = [ir.TypeAttr.get(tensor.to_mlir()) for tensor in tensors]
    function.attributes[_INTERMEDIATES] = ir.ArrayAttr.get(types)


def write_devices(function: Function, devices: DeviceAxis) -> None:
    """Set the attribute for the devices that compute a call of an entry together."""
    function.attributes[_DEVICES] = attribute_of(asdict(devices))


def lower_signature(function: Function, lowered: Function) -> None:
    """Copy the `graph.…` attributes of a graph function to the lowered one.

    Types of the graph dialect go with it: they say what symbolic sizes are.
    """
    kind = function.type
    for name in function.attributes:
        if name.startswith("graph."):
            lowered.attributes[name] = function.attributes[name]
    for side, types in zip(_SIDES, (kind.inputs, kind.results), strict=True):
        if side in function.attributes:
            rows = ir.ArrayAttr(function.attributes[side])
            lowered.attributes[side] = ir.ArrayAttr.get(
                [
                    _with_fact(row, "graph.type", ir.TypeAttr.get(each))
                    for row, each in zip(rows, types, strict=True)
                ]
            )


def rename_ports(module: Module, names: Mapping[str, str]) -> None:
    """Rename weights and states in the port attributes of all functions."""
    for function in functions_of(module).values():
        for side in _SIDES:
            if side in function.attributes:
                rows = map(ir.DictAttr, ir.ArrayAttr(function.attributes[side]))
                function.attributes[side] = ir.ArrayAttr.get(
                    [_rename_row(row, names) for row in rows]
                )


def _rename_row(row: Any, names: Mapping[str, str]) -> Any:
    """Return a port's attributes, a weight or state renamed as in `names`."""
    stored = "graph.kind" in row and plain_of(row["graph.kind"]) in ("weight", "state")
    if not stored or (name := plain_of(row["graph.name"])) not in names:
        return row
    return _with_fact(row, "graph.name", ir.StringAttr.get(names[name]))


def strip_program(module: Module) -> None:
    """Erase parameters and all attributes about entries; leave plain functions."""
    for op in parameter_ops(module):
        op.operation.erase()
    functions = (function.operation for function in functions_of(module).values())
    for stating in (module.operation, *functions):
        attributes = stating.attributes
        for name in list(attributes):
            if name.startswith("graph.") or name in _SIDES:
                del attributes[name]


def _read_entry(name: str, function: Function) -> Entry:
    """Return the entry that the attributes of a function describe."""
    attributes = function.attributes
    stated = plain_of(attributes[ENTRY])
    kind = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
    return Entry(
        name,
        tuple(contracts_of(function)),
        tuple(_ports(function, "arg_attrs", kind.inputs)),
        tuple(_ports(function, "res_attrs", kind.results)),
        tree_of(stated["inputs"]),
        tree_of(stated["outputs"]),
        tuple(stated["reads"]),
        tuple(stated["updates"]),
        tuple(guards_of(function)),
        tuple(_intermediates(function)),
        tuple(_wanted_specializations(function)),
        _specialization(function),
        _devices(function),
    )


def _wanted_specializations(function: Function) -> Iterator[Sizes]:
    """Yield the sizes that an entry is to be specialized for."""
    if SPECIALIZATIONS in function.attributes:
        for sizes in plain_of(function.attributes[SPECIALIZATIONS]):
            yield tuple(sizes.items())


def _specialization(function: Function) -> SizeSpecialization | None:
    """Return what a function is a specialization of; None if it is none."""
    if SPECIALIZES not in function.attributes:
        return None
    stated = plain_of(function.attributes[SPECIALIZES])
    padded = tuple(stated.get("padded", ()))
    return SizeSpecialization(stated["entry"], tuple(stated["sizes"].items()), padded)


def _devices(function: Function) -> DeviceAxis | None:
    """Return the axis of devices in a function's attributes; None for one device."""
    if _DEVICES not in function.attributes:
        return None
    return DeviceAxis(**plain_of(function.attributes[_DEVICES]))


def _specialization_facts(special: SizeSpecialization) -> dict[str, Any]:
    """Return a specialization as plain data for an attribute."""
    facts = {"entry": special.entry, "sizes": dict(special.sizes)}
    return {**facts, "padded": [*special.padded]} if special.padded else facts


def _intermediates(function: Function) -> list[Tensor]:
    """Return the largest intermediate tensors in a function's attributes."""
    if _INTERMEDIATES not in function.attributes:
        return []
    types = ir.ArrayAttr(function.attributes[_INTERMEDIATES])
    return [Tensor.of(ir.TypeAttr(each).value) for each in types]


def _ports(function: Function, side: str, types: Sequence[Type]) -> Iterator[Port]:
    """Yield the ports in a function's argument or result attributes."""
    rows = ir.ArrayAttr(function.attributes[side]) if len(types) else ()
    for row, kind in zip(map(ir.DictAttr, rows), types, strict=True):
        stated = ir.TypeAttr(row["graph.type"]).value if "graph.type" in row else kind
        name, role = plain_of(row["graph.name"]), plain_of(row["graph.kind"])
        facts = {
            field: plain_of(row[key]) for field, key in _FACTS.items() if key in row
        }
        yield Port(name, Tensor.of(stated), role, **facts)


def _ports_attribute(ports: Sequence[Port]) -> Any:
    """Return the argument or result attributes that describe ports."""
    return ir.ArrayAttr.get([attribute_of(_port_facts(port)) for port in ports])


def _port_facts(port: Port) -> dict[str, str]:
    """Return the attributes of a port, by attribute name."""
    facts = {"graph.name": port.name, "graph.kind": port.kind}
    more = {key: getattr(port, field) for field, key in _FACTS.items()}
    return facts | {key: fact for key, fact in more.items() if fact}


def _with_fact(row: ir.DictAttr, name: str, attribute: Any) -> Any:
    """Return a copy of a dictionary attribute with an entry added or replaced."""
    facts = {each.name: each.attr for each in ir.DictAttr(row)}
    return ir.DictAttr.get({**facts, name: attribute})
