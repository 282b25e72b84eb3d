"""Table of a module's functions by name, and by kind, without a walk over it.

A module has no index of its functions. Rules that find, name or declare one for each op
would walk over all of them each time; within `index_functions` they ask a table:

    with index_functions(module):
        …                      # find, define, declare, call, derive in functions.py, …

Whoever makes or erases a function of a module says so, by `insert` and `erase`, and
whoever makes another symbol, by `note_symbol`; outside of such a block these only
change the module.
"""

from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

from aotc.core import options
from aotc.mlir import Function, Module, Operation, func, ir

Functions = Mapping[str, Function]  # by name

# what a function is found by; None for a function that is not to be found by this
KeyOf = Callable[[Function], Hashable]


class FunctionTable(Mapping[str, Function]):
    """An index of a module's functions by name; does not change the module.

    Args:
        module: what is looked through once.
    """

    def __init__(self, module: Module) -> None:
        """Index the functions and other symbols that the module has now."""
        self.module = module.operation
        self._functions: dict[str, Function] = {}
        self._others: set[str] = set()  # names of symbols that are no functions
        for op in module.body.operations:
            if isinstance(op, func.FuncOp):
                self._functions[name_of(op)] = op
            elif "sym_name" in op.attributes:
                self._others.add(name_of(op))
        self._numbers: dict[str, int] = {}  # all below are taken
        self._groups: dict[KeyOf, dict[Hashable, list[Function]]] = {}

    def __getitem__(self, name: str) -> Function:
        return self._functions[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._functions)

    def __len__(self) -> int:
        return len(self._functions)

    def unused_name(self, name: str) -> str:
        """Return `name`, or `name` with the least number that makes it unused."""
        number = self._numbers.get(name, 0)
        candidate = _numbered_name(name, number)
        while self.has_symbol(candidate):
            number += 1
            candidate = _numbered_name(name, number)
        self._numbers[name] = number
        return candidate

    def group_by(self, key_of: KeyOf) -> Mapping[Hashable, list[Function]]:
        """Return the functions grouped by `key_of`, without those of key None.

        It is asked once for each function, when that is complete.
        """
        if key_of not in self._groups:
            self._groups[key_of] = {}
            for function in self._functions.values():
                self._put(function, key_of)
        return self._groups[key_of]

    def _put(self, function: Function, key_of: KeyOf) -> None:
        """Add a function to its group of `key_of`."""
        key = key_of(function)
        if key is not None:
            self._groups[key_of].setdefault(key, []).append(function)

    def insert(self, function: Function) -> None:
        """Add a function to the index; it is in the module, with all its attributes."""
        self._functions[name_of(function)] = function
        for key_of in self._groups:
            self._put(function, key_of)

    def remove(self, name: str) -> None:
        """Remove a function, which has left the module, from the index."""
        del self._functions[name]
        self._free_number(name)
        self._groups.clear()

    def _free_number(self, name: str) -> None:
        """Make a removed name available to `unused_name` again."""
        base, _, digits = name.rpartition("_")
        number = int(digits) if digits.isdecimal() else 0
        for known, least in ((name, 0), (base, number)):
            if known in self._numbers:
                self._numbers[known] = min(self._numbers[known], least)

    def has_symbol(self, name: str) -> bool:
        """Return whether the module has a function, or another symbol, of this name."""
        return name in self._functions or name in self._others

    def note_symbol(self, name: str) -> None:
        """Record the name of a symbol in the module that is no function."""
        self._others.add(name)


_active: ContextVar[FunctionTable | None] = ContextVar("aotc_functions", default=None)


@contextmanager
def index_functions(module: Module) -> Iterator[FunctionTable]:
    """Keep an index of the module's functions within this block, and yield it.

    With AOTC_VERIFY_EACH, it is compared with the module at the end.
    """
    table = _table_of(module)
    if table is not None:
        yield table
        return
    table = FunctionTable(module)
    token = _active.set(table)
    try:
        yield table
    finally:
        _active.reset(token)
    if options.get("AOTC_VERIFY_EACH") and {*table} != {*FunctionTable(module)}:
        raise AssertionError("a function was made or erased behind the table's back")


def table_of(module: Module) -> FunctionTable:
    """Return the active index of a module; without one, build one for this call."""
    table = _table_of(module)
    return FunctionTable(module) if table is None else table


def _table_of(module: Module) -> FunctionTable | None:
    """Return the active index if it is of this module; None otherwise."""
    table = _active.get()
    return table if table is not None and table.module == module.operation else None


def insert(function: Function) -> None:
    """Add a complete function, just put into its module, to the active index."""
    table = _table_of(function.operation.parent)
    if table is not None:
        table.insert(function)


def note_symbol(symbol: Operation) -> None:
    """Add a symbol that is no function to the active index of its module."""
    table = _table_of(symbol.parent)
    if table is not None:
        table.note_symbol(name_of(symbol))


def erase(function: Function) -> None:
    """Erase a function from its module, and from the active index."""
    table = _table_of(function.operation.parent)
    if table is not None:
        table.remove(name_of(function))
    function.operation.erase()


def name_of(function: Operation) -> str:
    """Return the symbol name of a function, or of another symbol."""
    return str(ir.StringAttr(function.attributes["sym_name"]).value)


def _numbered_name(name: str, number: int) -> str:
    """Return a name with `_number` behind it; the name alone for 0."""
    return f"{name}_{number}" if number else name
