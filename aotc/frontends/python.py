"""The Python frontend: runs a model.py and traces the entries that it declares."""

from __future__ import annotations

import hashlib
import importlib.util
import inspect
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from aotc import dtypes
from aotc.dialects import context
from aotc.dialects.types import Dim as SymbolicDim
from aotc.dialects.types import Size, Tensor
from aotc.errors import AotcError, InputError
from aotc.frontends.entry import (
    Dim,
    EntryFunction,
    Frozen,
    Spec,
    State,
    Stored,
    Weights,
    parameter_sources,
)
from aotc.frontends.program import Contract, Entry, Port, Program, StateSpec
from aotc.frontends.tracing import Array, Trace, lift, source_root
from aotc.mlir import ir
from aotc.pytree import Structure, flatten, leaf_names


def load(path: Path, entries: tuple[str, ...] = ()) -> Program:
    """Trace `entries` (or all) of the model at `path`.

    Raises:
        InputError: the file cannot be run, declares no such entry, or an entry is
            invalid; `where` is the line in the model.
    """
    with source_root(path.parent):
        module = run_file(path)
        declared = {
            value.name: value
            for value in vars(module).values()
            if isinstance(value, EntryFunction)
        }
        program = trace(_selected(path, declared, entries), names_in(module))
    program.source = {
        "kind": "python",
        "file": path.name,
        "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
    }
    return program


def _selected(
    path: Path, declared: dict[str, EntryFunction], wanted: Sequence[str]
) -> list[EntryFunction]:
    if not declared:
        raise InputError(
            "no-entries",
            f"'{path}' declares no entry",
            hint="decorate a function: @aotc.entry(x=aotc.Spec(('batch', 8), 'f32'))",
        )
    for name in wanted:
        if name not in declared:
            raise InputError(
                "no-such-entry",
                f"'{path}' has no entry '{name}'; it has {', '.join(declared)}",
            )
    return [declared[name] for name in wanted or declared]


def run_file(path: Path) -> ModuleType:
    """The module that the Python file defines.

    Its folder is importable meanwhile, as when the file is run as a script.

    Raises:
        InputError: the file raises; the message quotes its line and error.
    """
    spec = importlib.util.spec_from_file_location(f"model_{path.stem}", path.resolve())
    if spec is None or spec.loader is None:
        raise InputError("bad-file", f"'{path}' is not a Python file")
    module = importlib.util.module_from_spec(spec)
    with _importable(path.resolve().parent), _user_errors(path):
        spec.loader.exec_module(module)
    return module


@contextmanager
def _importable(folder: Path) -> Iterator[None]:
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))


@contextmanager
def _user_errors(path: Path) -> Iterator[None]:
    """Whatever the user's code raises becomes one message at the user's line.

    What aotc itself raises without a diagnosis is a bug, and stays what it is.
    """
    try:
        yield
    except AotcError:
        raise
    except Exception as error:
        if _raised_by_aotc(error):
            raise
        raise InputError(
            "model-raised",
            f"{type(error).__name__}: {error}",
            where=_line_in(path, error),
            hint="the model itself raised this while it was loaded or traced",
        ) from error


def _raised_by_aotc(error: BaseException) -> bool:
    innermost = error.__traceback__
    while innermost is not None and innermost.tb_next is not None:
        innermost = innermost.tb_next
    module = innermost.tb_frame.f_globals.get("__name__", "") if innermost else ""
    return str(module).startswith("aotc.") and not isinstance(error, TypeError)


def _line_in(path: Path, error: BaseException) -> str:
    if isinstance(error, SyntaxError) and error.lineno:
        return f"{path.name}:{error.lineno}"
    folder = path.resolve().parent
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if Path(f.filename).is_relative_to(folder)]
    return f"{Path(own[-1].filename).name}:{own[-1].lineno}" if own else path.name


def names_in(module: ModuleType) -> dict[int, str]:
    """The module's own names of its Weights and States, by identity."""
    return {id(v): name for name, v in vars(module).items() if isinstance(v, Stored)}


# ---- tracing ------------------------------------------------------------------------


@dataclass
class _Builder:
    """The program under construction; knows every Weights and State met so far."""

    program: Program
    names: dict[int, str]
    stored: dict[int, list[str]] = field(default_factory=dict)

    def parameters_of(self, stored: Stored, parameter: str) -> list[str]:
        """The names of the leaves of a Weights or State, registered on first sight."""
        if id(stored) not in self.stored:
            name = self.names.setdefault(id(stored), parameter)
            if any(leaf.split(".")[0] == name for leaf in self.program.parameters):
                raise InputError(
                    "name-clash",
                    f"two different Weights or States are called '{name}'",
                    hint="define them in the module under different names",
                )
            leaves = leaf_names(stored.structure, name)
            self.program.parameters.update(zip(leaves, stored.arrays, strict=True))
            self.stored[id(stored)] = leaves
            if isinstance(stored, State):
                types = tuple(map(array_type, stored.arrays))
                self.program.states.append(
                    StateSpec(name, tuple(leaves), types, stored.structure)
                )
        return self.stored[id(stored)]


def trace(declared: Sequence[EntryFunction], names: dict[int, str]) -> Program:
    """The program of these entries."""
    with context(), ir.Location.unknown():
        module = ir.Module.create()
        module.operation.attributes["sym_name"] = ir.StringAttr.get("aotc")
    builder = _Builder(Program(module, []), dict(names))
    for function in declared:
        builder.program.entries.append(_trace_entry(builder, function))
    return builder.program


def array_type(array: Any) -> Tensor:
    """The type of a NumPy array."""
    return Tensor(array.shape, dtypes.canonical(array.dtype))


@dataclass
class _Argument:
    """One parameter of an entry, flattened."""

    parameter: str
    source: Any
    structure: Structure
    ports: list[Port]


def _trace_entry(builder: _Builder, declared: EntryFunction) -> Entry:
    sources = parameter_sources(declared)
    symbols: dict[str, Contract] = {}
    with context():
        arguments = [
            _flattened(builder, declared, parameter, source, symbols)
            for parameter, source in sources.items()
        ]
        ports = [port for argument in arguments for port in argument.ports]
        types = [port.type for port in ports]
        contracts = tuple(symbols.values())
        _require_bound(declared, ports, contracts)
        tracing = Trace(builder.program.module, declared.name, types, contracts)
        with tracing.active(), _user_errors(_file_of(declared)):
            values, remaining = {}, tracing.arguments
            for argument in arguments:
                count = len(argument.ports)
                values[argument.parameter] = argument.structure.unflatten(remaining[:count])
                remaining = remaining[count:]
            result = declared.function(**values)
        results, output_tree = _results(declared, arguments, result, tracing)
    return Entry(
        name=declared.name,
        symbols=contracts,
        arguments=tuple(ports),
        results=tuple(port for port, _ in results),
        input_tree=_input_tree(arguments),
        output_tree=output_tree,
        reads=tuple(_stored_names(builder, arguments, (Weights, State, Frozen))),
        updates=tuple(_stored_names(builder, arguments, (State,))),
    )


def _file_of(declared: EntryFunction) -> Path:
    return Path(inspect.getsourcefile(declared.function) or "model.py")


def _flattened(
    builder: _Builder,
    declared: EntryFunction,
    parameter: str,
    source: Any,
    symbols: dict[str, Contract],
) -> _Argument:
    stored = source.state if isinstance(source, Frozen) else source
    if isinstance(stored, Stored):
        names = builder.parameters_of(stored, parameter)
        kind = "weight" if isinstance(stored, Weights) else "state"
        ports = [
            Port(name, array_type(array), kind)
            for name, array in zip(names, stored.arrays, strict=True)
        ]
        return _Argument(parameter, source, stored.structure, ports)
    specs, structure = flatten(source)
    ports = []
    for name, spec in zip(leaf_names(structure, parameter), specs, strict=True):
        if not isinstance(spec, Spec):
            raise InputError(
                "bad-entry",
                f"expected Specs, Weights or State for '{name}' of entry "
                f"'{declared.name}'; got {type(spec).__name__}",
                where=declared.where,
            )
        shape = tuple(_symbolic(size, symbols, declared) for size in spec.shape)
        ports.append(Port(name, Tensor(shape, spec.dtype), "input"))
    return _Argument(parameter, source, structure, ports)


def _symbolic(
    size: int | str | Dim, symbols: dict[str, Contract], declared: EntryFunction
) -> Size:
    if not isinstance(size, Dim):
        return int(size)
    known = symbols.get(size.name)
    contract = size.contract()
    if known is None or known == Contract(size.name):
        symbols[size.name] = contract
    elif contract not in (known, Contract(size.name)):
        raise InputError(
            "bad-contract",
            f"entry '{declared.name}' gives two contracts for size '{size.name}'",
            where=declared.where,
        )
    return SymbolicDim.symbol(list(symbols).index(size.name))


def _require_bound(
    declared: EntryFunction, ports: Sequence[Port], contracts: Sequence[Contract]
) -> None:
    """Every symbol is the size of some input; holds by construction of Specs."""
    sizes = {str(size) for port in ports for size in port.type.shape}
    for number, contract in enumerate(contracts):
        if f"s{number}" not in sizes:
            raise InputError(
                "bad-spec",
                f"size '{contract.name}' of entry '{declared.name}' is no input's size",
                where=declared.where,
            )


def _input_tree(arguments: Sequence[_Argument]) -> Structure:
    inputs = [a for a in arguments if not isinstance(a.source, (Stored, Frozen))]
    ordered = sorted(inputs, key=lambda argument: argument.parameter)
    if ordered != inputs:  # leaves are numbered in the order of the signature
        ordered = inputs
    return Structure(
        "dict",
        tuple(argument.parameter for argument in ordered),
        tuple(argument.structure for argument in ordered),
    )


def _stored_names(
    builder: _Builder, arguments: Sequence[_Argument], kinds: tuple[type, ...]
) -> list[str]:
    names = []
    for argument in arguments:
        if isinstance(argument.source, kinds):
            source = argument.source
            stored = source.state if isinstance(source, Frozen) else source
            names.append(builder.names[id(stored)])
    return names


# ---- results ------------------------------------------------------------------------


def _results(
    declared: EntryFunction, arguments: Sequence[_Argument], result: Any, tracing: Trace
) -> tuple[list[tuple[Port, Array]], Structure]:
    """Ports and arrays: new states first, then the outputs; and the outputs' form."""
    updated = [a for a in arguments if isinstance(a.source, State)]
    states, outputs = _split_result(declared, updated, result)
    rows: list[tuple[Port, Array]] = []
    for argument, value in zip(updated, states, strict=True):
        rows += _state_rows(declared, argument, value)
    leaves, structure = flatten(outputs)
    names = leaf_names(structure)
    for name, leaf in zip(names, leaves, strict=True):
        array = _output_array(declared, name, leaf)
        rows.append((Port(name or "output", array.type, "output"), array))
    if not rows:
        raise InputError(
            "bad-entry", f"entry '{declared.name}' returns nothing", where=declared.where
        )
    with tracing.active():
        tracing.finish([array for _, array in rows])
    return rows, structure


def _output_array(declared: EntryFunction, name: str, leaf: Any) -> Array:
    try:
        return lift(leaf)
    except InputError:
        raise InputError(
            "bad-entry",
            f"entry '{declared.name}' returns {type(leaf).__name__} as "
            f"'{name or 'output'}'; expected arrays",
            where=declared.where,
        ) from None


def _split_result(
    declared: EntryFunction, updated: Sequence[_Argument], result: Any
) -> tuple[list[Any], Any]:
    count = len(updated)
    if not count:
        return [], result
    names = ", ".join(argument.parameter for argument in updated)
    if count == 1 and flatten(result)[1] == updated[0].structure:
        return [result], None
    if not isinstance(result, tuple) or len(result) < count:
        raise InputError(
            "bad-entry",
            f"entry '{declared.name}' takes State ({names}) and must return its new "
            "value first",
            where=declared.where,
            hint="return new_state, result — or take state.frozen to read it only",
        )
    rest = result[count:]
    return list(result[:count]), rest[0] if len(rest) == 1 else (rest or None)


def _state_rows(
    declared: EntryFunction, argument: _Argument, value: Any
) -> list[tuple[Port, Array]]:
    leaves, structure = flatten(value)
    if structure != argument.structure:
        raise InputError(
            "bad-entry",
            f"entry '{declared.name}' returns state '{argument.parameter}' in another "
            f"form: expected {argument.structure}; got {structure}",
            where=declared.where,
            hint="return new_state, result — or take state.frozen to read it only",
        )
    rows = []
    for port, leaf in zip(argument.ports, leaves, strict=True):
        array = lift(leaf, like=port.type.dtype)
        if array.type != port.type:
            raise InputError(
                "bad-entry",
                f"entry '{declared.name}' returns state '{port.name}' as {array.type}; "
                f"it is {port.type}",
                where=declared.where,
            )
        rows.append((Port(port.name, port.type, "state"), array))
    return rows
