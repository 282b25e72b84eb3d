"""Python: runs a model.py and traces the entries that it declares."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import chdir, contextmanager
from pathlib import Path
from types import ModuleType

from aotc.errors import InputError
from aotc.importers.common.imported import Imported
from aotc.programs.program import Program, source_of
from aotc.tracing.assembly import trace
from aotc.tracing.effects import watch_effects
from aotc.tracing.entry import DECLARED, EntryFunction, StoredTree
from aotc.tracing.repeatable import require_repeatable
from aotc.tracing.source_locations import Place, relative_path, source_root
from aotc.tracing.title import declared_title
from aotc.tracing.user_errors import translate_user_errors

__all__ = ["load", "names_in", "run_file", "running", "trace"]


def load(path: Path, entries: tuple[str, ...] = ()) -> Program:
    """Run a model.py and trace its entries (all, or those named) into a program.

    Raises:
        InputError: the file cannot be run, declares no such entry, or an entry is
            invalid; `where` is the line in the model.
    """
    with running(path, entries) as (module, selected):
        owner = ", ".join(f"'{each.name}'" for each in selected)
        with watch_effects(owner, *(each.function for each in selected)):
            program = trace(selected, names_in(module))
        whole = {entry.name for entry in program.entries}  # others a survey has noted
        traced = [each for each in selected if each.name in whole]
        require_repeatable(program, lambda: trace(traced, names_in(module)))
    program.source = source_of(path, "python")
    program.title = declared_title(vars(module))
    return program


@contextmanager
def running(
    path: Path, entries: Sequence[str] = ()
) -> Iterator[tuple[ModuleType, list[EntryFunction]]]:
    """Run a model.py; yield its module and entries, with its folder importable
    meanwhile.

    Raises:
        InputError: the file cannot be run, or declares no such entry.
    """
    folder = path.resolve().parent
    # The model may change the working directory: what is relative is the caller's.
    with source_root(path.parent), _importable(folder), chdir(Path.cwd()):
        module = run_file(path)
        declared, hybrids = _declared_entries(module), _hybrid_functions(module)
        yield module, _select_entries(path, declared, hybrids, entries)


def run_file(path: Path) -> ModuleType:
    """Execute a Python file as a module, and return it.

    Raises:
        InputError: the file raises; the message quotes its line and error.
    """
    module = ModuleType(f"model_{path.stem}")
    module.__file__ = str(path.resolve())
    # dataclasses and the like look their module up
    sys.modules[module.__name__] = module
    with translate_user_errors():
        text, file = path.read_bytes(), module.__file__
        code = compile(text, file, "exec", dont_inherit=True)
        exec(code, vars(module))
    return module


@contextmanager
def _importable(folder: Path) -> Iterator[None]:
    """Put a folder on sys.path within this block, and forget its modules afterwards.

    What was imported from it is forgotten afterwards: the next model may have a helper
    of the same name.
    """
    before = set(sys.modules)
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        for name in set(sys.modules) - before:
            file = getattr(sys.modules[name], "__file__", None)
            if file is not None and Path(file).is_relative_to(folder):
                del sys.modules[name]


def _declared_entries(module: ModuleType) -> dict[str, EntryFunction]:
    """Return a module's entry functions by name, networks included.

    A network is one, unless its name begins with an underscore.
    """
    declared: dict[str, EntryFunction] = {}
    for name, value in vars(module).items():
        if isinstance(value, Imported) and not name.startswith("_"):
            value = value.entry(name)
        if not isinstance(value, EntryFunction):
            continue
        first = declared.setdefault(value.name, value)
        if first is not value:
            raise _clash(first, value)
    found = {id(value) for value in declared.values()}
    for lost in vars(module).get(DECLARED, []):
        if id(lost) not in found and lost.name in vars(module):
            raise _clash(lost, vars(module)[lost.name])
    return declared


def _hybrid_functions(module: ModuleType) -> list[str]:
    """Return the names of a module's hybrid functions, which mix in Python code.

    Their class is asked: `aotc.numpy` and its kin import all that there is before they
    say that they have no such name.
    """
    return [
        name
        for name, value in vars(module).items()
        if getattr(type(value), "aotc_is_hybrid", False)
    ]


def _clash(entry: EntryFunction, other: object) -> InputError:
    """Return the error of two entries, or an entry and something else, of one name."""
    place = other.place if isinstance(other, EntryFunction) else _place_of(other)
    what = "entry" if isinstance(other, EntryFunction) else type(other).__name__
    line = f", {_line(place)}" if place else ""
    return InputError(
        "name-clash",
        f"the entry '{entry.name}', {_line(entry.place)}, and another {what}{line}, "
        "have the same name",
        where=_line(place or entry.place),
        hint="give their functions different names",
    )


def _place_of(value: object) -> Place | None:
    """Return the file and line where a function is defined; None for other values."""
    code = getattr(value, "__code__", None)
    return (code.co_filename, code.co_firstlineno) if code else None


def _line(place: Place) -> str:
    """Return a place as the text `file:line`."""
    return f"{relative_path(place[0])}:{place[1]}"


def _select_entries(
    path: Path,
    declared: dict[str, EntryFunction],
    hybrids: Sequence[str],
    wanted: Sequence[str],
) -> list[EntryFunction]:
    """Return the entries that are wanted, or all; refuse names that are none."""
    for name in wanted or ([] if declared else hybrids):
        if name in hybrids:
            raise InputError(
                "hybrid-in-build",
                f"'{name}' of '{path}' is a hybrid function: Python computes a part of "
                "it, which no bundle can have",
                hint=f"call it and write a package: {name}.export('folder/{name}'); or "
                "make an entry of what can be compiled",
            )
    if not declared:
        raise InputError(
            "no-entries",
            f"'{path}' declares no entry",
            hint="decorate a function: @aotc.entry(x=aotc.Spec(('batch', 8), 'f32'))",
        )
    for name in wanted:
        if name not in declared:
            raise InputError(
                "unknown-entry",
                f"'{path}' has no entry '{name}'; it has {', '.join(declared)}",
            )
    return [declared[name] for name in wanted or declared]


def names_in(module: ModuleType) -> dict[int, str]:
    """Return the names of a module's Weights and States, by id."""
    found: dict[int, str] = {}
    for name, value in vars(module).items():
        if isinstance(value, Imported):
            found |= value.names(name)
    own = {id(v): name for name, v in vars(module).items() if isinstance(v, StoredTree)}
    return found | own
