"""Tracing: Python functions over `Array`s → functions of the graph dialect.

A `Trace` is one function under construction. While it is current, every operation on an
`Array` appends a graph op that remembers the user's source line. Outside of any trace
the same operations compute at once, by the ops' NumPy references; their results are
constants to a later trace.

What is current is an `OpScope`. A `Trace` is one; those of `aotc.tracing.execution`
compute at once as well, and note what derivatives need. `emit` asks it, nobody else.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

import numpy as np

from aotc.dialects import OPS, context
from aotc.dialects.functions.entry_guards import GUARDS, EntryGuard, guards_attribute
from aotc.dialects.functions.function_table import insert
from aotc.dialects.functions.functions import SYMBOLS, name_of, unique_name
from aotc.dialects.graph import as_tuple, in_dtype
from aotc.dialects.sizes.contracts import Contract
from aotc.dialects.sizes.symbols import contracts_attribute, known_contracts
from aotc.dialects.types import Tensor
from aotc.errors import AotcError
from aotc.mlir import Module, Value, func, ir
from aotc.tracing.array import Array, as_number
from aotc.tracing.call_sizes import in_compiler_sizes
from aotc.tracing.scopes import OpScope, current_interceptor, current_scope, enter_scope
from aotc.tracing.source_locations import fail, location, user_line

# Larger arrays would bloat the module's text; they belong into Weights.
LARGEST_CONSTANT = 4 << 20


class Trace:
    """A graph function under construction.

    Args:
        module: the MLIR module it goes into.
        name: of the function; made unique within the module.
        arguments: their types.
        contracts: the symbols that types may mention.
        parent: the trace that this one is nested in; its arrays may be captured.
    """

    is_recording = False

    def __init__(
        self,
        module: Module,
        name: str,
        arguments: Sequence[Tensor],
        contracts: Sequence[Contract],
        parent: Trace | None = None,
    ) -> None:
        self.module = module
        self.contracts = tuple(contracts)
        self.parent = parent
        self.guards: dict[str, EntryGuard] = {}  # by condition; of the entry, the root
        self.captures: dict[Value, Value] = {}
        self.captured: list[Array] = []
        visibility = None if parent is None else "private"
        with context(), location(), ir.InsertionPoint(module.body):
            types = [tensor.to_mlir() for tensor in arguments]
            name = unique_name(module, name)
            self.function = func.FuncOp(name, (types, []), visibility=visibility)
            self.function.attributes[SYMBOLS] = contracts_attribute(self.contracts)
            insert(self.function)
            self.block = self.function.add_entry_block()

    @property
    def name(self) -> str:
        """The name of the function."""
        return name_of(self.function)

    @property
    def root(self) -> Trace:
        """The outermost trace, whose function is the entry."""
        return self if self.parent is None else self.parent.root

    @property
    def arguments(self) -> list[Array]:
        """The function's arguments so far as Arrays, captures included."""
        return [Array(value=v, trace=self) for v in self.block.arguments]

    @contextmanager
    def active(self) -> Iterator[None]:
        """Make the trace the current scope within the `with` block: ops are appended
        to it.
        """
        with enter_scope(self), context(), known_contracts(self.contracts):
            yield

    def apply(
        self, name: str, operands: Sequence[Array], attributes: dict[str, object]
    ) -> list[Array]:
        """Append an op to the function; return its results as Arrays."""
        values = [self.value_of(operand) for operand in operands]
        built = as_tuple(self.build(name, *values, **attributes))
        return [Array(value=value, trace=self) for value in built]

    def value_of(self, array: Array) -> Value:
        """Return an Array's MLIR value here; add a capture or constant if need be."""
        if array._known is not None:
            return self._constant(array._known)
        if array._trace is self:
            value: Value = array._value
            return value
        if not self._is_nested_in(array._trace):
            fail_leaked(array)
        if array._value not in self.captures:
            with context(), location():
                self.captures[array._value] = self.block.add_argument(
                    array._value.type, ir.Location.current
                )
            self.captured.append(array)
        return self.captures[array._value]

    def _constant(self, data: np.ndarray) -> Value:
        """Append a constant op; refuse a large array."""
        if data.nbytes > LARGEST_CONSTANT:
            fail(
                "large-constant",
                f"an array of {data.nbytes} bytes would become a constant in the code",
                "pass it to the entry as aotc.Weights",
            )
        value: Value = self.build("constant", value=data)
        return value

    def _is_nested_in(self, trace: OpScope | None) -> bool:
        """Return whether a trace is an ancestor of this one."""
        ancestor = self.parent
        while ancestor is not None and ancestor is not trace:
            ancestor = ancestor.parent
        return ancestor is not None

    def build(self, name: str, *operands: Value, **attributes: object) -> Any:
        """Append an op on MLIR values; return its result or results."""
        with location(), ir.InsertionPoint(self.block):
            return OPS[name].build(*operands, **attributes)

    def finish(self, results: Sequence[Array]) -> None:
        """Append the return op, and set the function's type and guards."""
        values = [self.value_of(array) for array in results]
        with context(), location(), ir.InsertionPoint(self.block):
            func.ReturnOp(values)
            inputs = [value.type for value in self.block.arguments]
            function_type = ir.FunctionType.get(
                inputs, [value.type for value in values]
            )
            self.function.attributes["function_type"] = ir.TypeAttr.get(function_type)
            if self.guards:
                rows = list(self.guards.values())
                self.function.attributes[GUARDS] = guards_attribute(rows)


def current_trace() -> Trace | None:
    """Return the trace that is the current scope; None if ops are not traced now."""
    scope = current_scope()
    return scope if isinstance(scope, Trace) else None


def fail_leaked(array: Array) -> NoReturn:
    """Raise the error for an array used outside of its trace."""
    fail(
        "leaked-array",
        f"a traced array ({array.type}) is used outside of the function it was "
        "traced in",
        "return it from that function instead of storing it elsewhere",
    )


def fail_unseen(array: Array) -> NoReturn:
    """Raise the error for an array captured by a function with a rule of its own."""
    fail(
        "captured-array",
        f"an array of type {array.type} is used from around a function with a rule of "
        "its own, which that rule would not see",
        "pass it as an argument",
    )


def emit(name: str, *operands: Array, **attributes: object) -> Array:
    """Apply an op with one result to Arrays; see `emit_all`."""
    (result,) = emit_all(name, *operands, **attributes)
    return result


def emit_all(name: str, *operands: Array, **attributes: object) -> list[Array]:
    """Apply an op to Arrays in the current scope: traced, or computed at once.

    Returns:
        Its results.

    Raises:
        InputError: operands or attributes are invalid; `where` is the user's line.
    """
    try:
        scope = current_scope()
        attributes = {name: in_compiler_sizes(x) for name, x in attributes.items()}
        if (interceptor := current_interceptor()) is not None:
            found = interceptor.apply(name, operands, attributes)
            if found is not None:
                return found
        if scope is None:
            return [Array(data=data) for data in evaluate(name, operands, attributes)]
        results = scope.apply(name, operands, attributes)
        return [*map(as_number, results)] if _are_numbers(operands) else results
    except AotcError as error:
        error.where = error.where or user_line()
        raise


def _are_numbers(operands: Sequence[Array]) -> bool:
    """Return whether all operands are numbers, and some of these given by each call."""
    return any(x._is_weak for x in operands) and all(
        x._is_weak or (x._data is not None and not x._data.ndim) for x in operands
    )


def evaluate(
    name: str, operands: Sequence[Array], attributes: dict[str, object]
) -> list[np.ndarray]:
    """Compute an op by its NumPy reference on arrays of known values."""
    op = OPS[name]
    for array in operands:
        if array._known is None:
            fail_leaked(array)
        if array._trace is not None and array._trace.is_recording:
            fail_unseen(array)
    with context():
        types = as_tuple(op.infer(*(array.type for array in operands), **attributes))
        with np.errstate(all="ignore"):
            found = op.ref(*(array._known for array in operands), **attributes)
    pairs = zip(as_tuple(found), types, strict=True)
    return [in_dtype(data, kind) for data, kind in pairs]
