"""A program in a file of IR, with its parameters in an archive beside it.

`read_program(file)` is the program that `write_program` wrote there, or what an editor
has made of it. The IR names the archive by a path from its own folder, and holds it to
its digest.
"""

from __future__ import annotations

import hashlib
import math
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from aotc.core import dtypes
from aotc.core.writing import atomic_write, write_text
from aotc.dialects import context
from aotc.dialects.calls import callee_verifier
from aotc.dialects.calls.callees import callees
from aotc.dialects.functions.functions import functions_of
from aotc.dialects.functions.parameters import Parameter, parameters_of
from aotc.dialects.plain import attribute_of, plain_of
from aotc.errors import InputError
from aotc.mlir import Module, ir
from aotc.programs.parameter_archive import ArchiveEntry, ArchiveParts, read_archive
from aotc.programs.program import STAGE, Program

_ARCHIVE = "graph.archive"
# attributes of a program, or an op of the graph dialect at the beginning of a line
_OWN_IR = re.compile(
    rb"\bgraph\.(stage|entry) = |^\s*(%[^\"=\n]+ = )?\"?graph\.\w+", re.MULTILINE
)


def ir_text(module: Module) -> str:
    """Return a module as text that can be parsed again, with source locations."""
    return str(
        module.operation.get_asm(enable_debug_info=True, pretty_debug_info=False)
    )


def write_program(program: Program, file: Path, archive: Path) -> None:
    """Write a program's IR to a file that names the archive of its parameters.

    Args:
        program: at any stage.
        file: replaced if it is there.
        archive: of its parameters, written before; not read if it has none.
    """
    attributes = program.module.operation.attributes
    with program.module.context:
        if program.parameters:
            place = os.path.relpath(archive, file.parent)
            facts = {"file": Path(place).as_posix(), "sha256": _digest(archive)}
            attributes[_ARCHIVE] = attribute_of(facts)
        write_text(file, f"{ir_text(program.module)}\n")
        if program.parameters:
            del attributes[_ARCHIVE]


def rename_archive(module: Module, source: Path, folder: Path) -> None:
    """Rewrite the archive's relative path in a module that moves to another folder.

    Args:
        module: changed, if it names an archive.
        source: the folder from which it does.
        folder: that it is to be written into.
    """
    attributes = module.operation.attributes
    if _ARCHIVE in attributes:
        facts = dict(plain_of(attributes[_ARCHIVE]))
        place = os.path.relpath(source.resolve() / facts["file"], folder.resolve())
        facts["file"] = Path(place).as_posix()
        with module.context:
            attributes[_ARCHIVE] = attribute_of(facts)


def holds_program(path: Path) -> bool:
    """Return whether a file of IR is aotc's, and not StableHLO."""
    return _OWN_IR.search(path.read_bytes()) is not None


def read_program(path: Path, entries: tuple[str, ...] = ()) -> Program:
    """Read and verify a program from a file of IR, with all of its entries or those
    named.

    Raises:
        InputError: `bad-ir`, `unknown-entry`, or `bad-parameters`: the archive is not
            there, or another.
    """
    from aotc.programs.verifier import require_whole  # with all kernels

    with context(), ir.Location.unknown():
        module = parse_module(_text(path), str(path))
        try:
            _require_stage(module)
            program = Program(module, _parameters(module, path))
            require_whole(program)
        except InputError as error:
            error.where = error.where or str(path)
            raise
        except (AttributeError, KeyError, RuntimeError, TypeError, ValueError) as error:
            why = f"an attribute is missing or malformed ({error})"
            raise InputError("bad-ir", why, where=str(path)) from None
        if program.parameters:
            del module.operation.attributes[_ARCHIVE]
    _keep_entries(program, path, entries)
    return program


def _require_stage(module: Module) -> None:
    """Refuse a module without the attribute of its stage."""
    if STAGE not in module.operation.attributes:
        raise InputError(
            "bad-ir",
            f"expected the attribute {STAGE} of the module, which says at which stage "
            "of a build it is; there is none",
            hint=f'`aotc build --dump` writes it, such as {STAGE} = "graph"; for IR '
            "without it there is `aotc opt`",
        )


def _text(path: Path) -> str:
    """Return the text of a file in UTF-8; refuse other bytes."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise InputError(
            "bad-ir", f"expected text in UTF-8: {error}", where=str(path)
        ) from None


def parse_module(text: str, where: str | None = None) -> Module:
    """Parse and verify the text of a module in the current context.

    Raises:
        InputError: `bad-ir`.
    """
    try:
        module = ir.Module.parse(text)
        module.operation.verify()
        callee_verifier.verify(module)
    except (ir.MLIRError, InputError) as error:
        why = error.message if isinstance(error, InputError) else error
        message = f"the IR is not valid: {why}"
        hint = None if ":" in str(why) else _QUOTED  # the parser gives no reason then
        raise InputError("bad-ir", message, where=where, hint=hint) from None
    if (name := _recursive_function(module)) is not None:
        message = f"function '{name}' calls itself, or is made of itself"
        raise InputError("bad-ir", message, where=where)
    return module


_QUOTED = (
    "ops of the graph stand in quotes, with all types: "
    '%y = "graph.exp"(%x) : (tensor<4xf32>) -> tensor<4xf32>'
)


def _recursive_function(module: Module) -> str | None:
    """Return the name of a function that calls or refers to itself; None if none
    does.
    """
    known = functions_of(module)
    rest = {name: callees(function) for name, function in known.items()}
    while rest:
        free = [name for name, called in rest.items() if not rest.keys() & {*called}]
        if not free:
            return _first_repeated(rest)
        for name in free:
            del rest[name]
    return None


def _first_repeated(reached: Mapping[str, Sequence[str]]) -> str:
    """Return a function on a cycle, where each function reaches another of
    `reached`.
    """
    name, met = next(iter(reached)), set[str]()
    while name not in met:
        met.add(name)
        name = next(each for each in reached[name] if each in reached)
    return name


def _keep_entries(program: Program, path: Path, names: tuple[str, ...]) -> None:
    """Drop a program's entries that are not named; refuse unknown names."""
    known = [entry.name for entry in program.entry_points]
    for name in names:
        if name not in known:
            raise InputError(
                "unknown-entry",
                f"'{path}' has no entry '{name}'; it has {', '.join(known)}",
            )
    if names:
        program.keep_entries(names)


# ---- parameters ---------------------------------------------------------------------


def write_parameters(parameters: Mapping[str, object], path: Path) -> None:
    """Write weights and initial states as an IREE parameter archive.

    Raises:
        SetupError: `cannot-write`.
    """
    with atomic_write(path) as aside, aside.open("wb") as file:
        parts = ArchiveParts(parameters)
        file.writelines(parts)
        file.seek(0)
        file.write(parts.head)


def _parameters(module: Module, path: Path) -> dict[str, np.ndarray]:
    """Read the arrays of a module's declared parameters from the archive that it
    names.
    """
    declared = parameters_of(module)
    if not declared:
        return {}
    if _ARCHIVE not in module.operation.attributes:
        raise _bad_parameters(path, "an archive to be named by the IR; none is")
    facts = plain_of(module.operation.attributes[_ARCHIVE])
    archive = path.parent / facts["file"]
    if not archive.is_file():
        raise _bad_parameters(archive, "the archive of the parameters; it is not there")
    if _digest(archive) != facts["sha256"]:
        raise _bad_parameters(archive, f"SHA-256 {facts['sha256']}; got another")
    try:
        stored = read_archive(archive)
    except ValueError as error:
        raise _bad_parameters(archive, f"an archive of parameters: {error}") from None
    return {each.name: _array(stored, each, archive) for each in declared}


def _array(
    stored: Mapping[str, ArchiveEntry], parameter: Parameter, archive: Path
) -> np.ndarray:
    """Return a parameter's array from an archive; refuse one of another size."""
    kind = parameter.type
    dtype = dtypes.to_numpy(kind.dtype)
    size = math.prod(kind.shape) * dtype.itemsize
    entry = stored.get(parameter.name)
    if entry is None or entry.length != size:
        got = "none" if entry is None else f"{entry.length}"
        raise _bad_parameters(
            archive, f"{size} bytes for '{parameter.name}' of {kind}; got {got}"
        )
    return entry.array(dtype, tuple(map(int, kind.shape)))


def _bad_parameters(where: Path, expected: str) -> InputError:
    """Return the error for an archive of parameters that is not as expected."""
    return InputError(
        "bad-parameters",
        f"expected {expected}",
        where=str(where),
        hint="keep the file of parameters where `--dump` has put it, beside the IR",
    )


def _digest(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
