"""Padded specializations: an entry again, on tensors of a bucket's sizes.

    func @predict(%x: tensor<?x8xf32, affine_map<()[s0] -> (s0, 8)>>)
    →
    func @predict__batch_4_padded(%x: tensor<4x8xf32>,
                                  %sizes: tensor<?x0xi8, affine_map<()[s0] -> (s0, 0)>>)
      attributes {graph.specializes = {entry = "predict", sizes = {batch = 4},
                                       padded = ["batch"]}}

A caller puts what it has into the first elements of arrays of these sizes, and finds
the results in the first elements of what it gets. The sizes of the call come as those
of one more input, which has no elements. See `aotc.dialects.rules.padding` for what the
ops do; those that cannot be padded get operands cut to the sizes of the call.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from aotc.dialects.calls.specialization import specialization_name
from aotc.dialects.functions.entries import Entry, Port, SizeSpecialization, write_entry
from aotc.dialects.functions.function_table import insert
from aotc.dialects.functions.functions import functions_of, unique_name
from aotc.dialects.functions.walking import clone, walk
from aotc.dialects.graph import GraphOp, Reason, as_tuple, has_effect, where_of
from aotc.dialects.plain import attribute_of
from aotc.dialects.rules.padding import BucketPadding
from aotc.dialects.types import SymbolicDim, Tensor
from aotc.errors import InputError
from aotc.mlir import Function, Module, Operation, Value, func, ir

SIZES = "$sizes"  # the input that tells the sizes of a call
CUT = "graph.cut"  # the ops that are computed in the sizes of the call


def add_padded_entry(module: Module, entry: Entry, sizes: Mapping[str, int]) -> str:
    """Add a copy of an entry for padded calls of at most `sizes`; return its name.

    Args:
        module: of the graph dialect, with the entry and no calls but of control flow.
        entry: that has these symbols, or a specialization for sizes of other symbols.
        sizes: of the bucket, by the names of the symbols.

    Returns:
        Its name.

    Raises:
        InputError: `padding-forbidden`: an input may be larger than in the bucket.
    """
    function = functions_of(module)[entry.name]
    special = _specialization(entry, sizes)
    name = f"{specialization_name(special.entry, dict(special.sizes))}_padded"
    name = unique_name(module, name)
    padding = padding_of(entry, sizes)
    with module.context, function.operation.location, padding.known():
        writer = _PaddedEntryWriter(padding)
        ports = (*map(writer.pad_port, entry.arguments), _sizes_port(entry))
        with ir.InsertionPoint.after(function.operation):
            types = [port.type.to_mlir() for port in ports]
            written = func.FuncOp(name, (types, []))
        insert(written)
        results = writer.write_body(function, written)
        kind = ir.FunctionType.get(types, [value.type for value in results])
        written.attributes["function_type"] = ir.TypeAttr.get(kind)
        written.attributes[CUT] = attribute_of(writer.cut_ops)
        outputs = (
            replace(port, type=Tensor.of(value))
            for port, value in zip(entry.results, results, strict=True)
        )
        padded = replace(
            entry,
            name=name,
            symbols=padding.symbols,
            arguments=ports,
            results=tuple(outputs),
            guards=(),
            specializations=(),
            specializes=special,
        )
        write_entry(module, padded)
    return name


def padded_types(
    entry: Entry, sizes: Mapping[str, int]
) -> tuple[list[Tensor], list[Tensor]]:
    """Return types of a padded entry's inputs, with that of the sizes, and outputs."""
    padding = padding_of(entry, sizes)
    with padding.known():
        inputs, outputs = (
            [padding.type(port.type) for port in entry.ports(kind)]
            for kind in ("input", "output")
        )
    return [*inputs, _sizes_port(entry).type], outputs


def padding_of(entry: Entry, sizes: Mapping[str, int]) -> BucketPadding:
    """Return the BucketPadding from the sizes of a call of `entry` to `sizes`."""
    symbols = (
        replace(each, max=sizes[each.name], optimum=None)
        if each.name in sizes
        else each
        for each in entry.symbols
    )
    return BucketPadding(tuple(symbols), sizes)


def _specialization(entry: Entry, sizes: Mapping[str, int]) -> SizeSpecialization:
    """Return the SizeSpecialization of `entry` padded to `sizes`."""
    before = entry.specializes or SizeSpecialization(entry.name, ())
    every = tuple(sorted({**dict(before.sizes), **sizes}.items()))
    return SizeSpecialization(before.entry, every, tuple(sorted(sizes)))


def _sizes_port(entry: Entry) -> Port:
    """Return a port of an empty tensor, whose shape holds a call's symbol values."""
    sizes = [
        SymbolicDim.symbol(number) * each.multiple_of
        for number, each in enumerate(entry.symbols)
    ]
    return Port(SIZES, Tensor((*sizes, 0), "i8"), "input")


@dataclass
class _Forms:
    """A value in the sizes of the call, in those of the bucket, or in both.

    Args:
        padding: makes the one of the other, where it is needed.
        type: in the sizes of the call.
        exact: the value in the sizes of the call, where it is there.
        padded: that in the sizes of the bucket, likewise.
    """

    padding: BucketPadding
    type: Tensor
    exact: Value | None = None
    padded: Value | None = None

    def in_call(self) -> Value:
        """Return the value in the sizes of the call; emit a slice if need be."""
        if self.exact is None:
            assert self.padded is not None
            self.exact = self.padding.cut(self.padded, self.type)
        return self.exact

    def in_bucket(self) -> Value:
        """Return the value in the sizes of the bucket; emit a pad if need be."""
        if self.padded is None:
            assert self.exact is not None
            self.padded = self.padding.pad(self.exact)
        return self.padded

    def result(self) -> Value:
        """Return the value for the entry to return: padded if the bucket has room."""
        has_room = self.padding.has_room(self.type)
        return self.in_bucket() if has_room else self.in_call()


class _PaddedEntryWriter:
    """Emits the ops of an entry in the sizes of a bucket."""

    def __init__(self, padding: BucketPadding) -> None:
        self.padding = padding
        self.cut_ops: list[dict[str, str]] = []

    def pad_port(self, port: Port) -> Port:
        """Return a port with the bucket's sizes; raise if a call's may be larger."""
        if not self.padding.has_room(port.type):
            raise InputError(
                "padding-forbidden",
                f"cannot pad the input '{port.name}', {port.type}: a smaller call may "
                "have a larger one",
                hint="use the policy 'dynamic' or 'error' for its sizes",
            )
        return replace(port, type=self.padding.type(port.type))

    def write_body(self, function: Function, written: Function) -> list[Value]:
        """Emit the padded entry's body into `written`; return the values it returns."""
        block = written.add_entry_block()
        *arguments, _ = block.arguments
        exact = [Tensor.of(each) for each in function.entry_block.arguments]
        with ir.InsertionPoint(block):
            forms = list(map(self.forms, arguments, exact))
            returned = walk(function.entry_block, forms, self.write)
            results = [each.result() for each in returned]
            func.ReturnOp(results)
        return results

    def forms(self, value: Value, exact: Tensor) -> _Forms:
        """Return the forms of a padded value, whose type in the call is `exact`."""
        forms = _Forms(self.padding, exact, padded=value)
        if not self.padding.axes(exact):
            forms.exact = value
        return forms

    def write(self, op: Operation, operands: list[_Forms]) -> list[_Forms]:
        """Emit an op padded, or else in the call's sizes; return its results' forms."""
        types = [Tensor.of(value) for value in op.results]
        written = self._write_padded(op, operands, types)
        if written is not None:
            return [self.forms(*each) for each in zip(written, types, strict=True)]
        results = clone(op, [each.in_call() for each in operands])
        found = [
            _Forms(self.padding, kind, exact=value)
            for value, kind in zip(results, types, strict=True)
        ]
        if any(self.padding.axes(each.type) for each in (*operands, *found)):
            self.cut_ops.append({"op": op.name, "where": where_of(op) or ""})
        for each in found:
            if not self.padding.axes(each.type):
                each.padded = each.exact
        return found

    def _write_padded(
        self, op: Operation, operands: list[_Forms], types: list[Tensor]
    ) -> list[Value] | None:
        """Emit the op in the bucket's sizes; return None if it cannot be padded."""
        if not isinstance(op, GraphOp) or isinstance(op.pad, Reason) or has_effect(op):
            return None
        every = [*(each.type for each in operands), *types]
        if not all(map(self.padding.has_room, every)):
            return None
        values = [each.in_bucket() for each in operands]
        found = op.pad(self.padding, op, values)
        return None if found is None else [*as_tuple(found)]
