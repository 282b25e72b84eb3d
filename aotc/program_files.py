"""A program in a file of IR, with its parameters in an archive beside it.

`read_program(file)` is the program that `write_program` wrote there, or what an editor
has made of it. The IR names the archive by a path from its own folder, and holds it to
its digest.
"""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from aotc import dtypes
from aotc.dialects import context, control
from aotc.dialects.entries import Port
from aotc.dialects.functions import functions_of
from aotc.dialects.parameters import Parameter, parameters_of
from aotc.dialects.plain import attribute_of, plain_of
from aotc.dialects.types import Tensor, lowered_type
from aotc.errors import InputError
from aotc.mlir import Type, ir
from aotc.program import STAGE, Program
from aotc.system_errors import raise_system_error
from aotc.writing import write_text

_ARCHIVE = "graph.archive"


def ir_text(module: Any) -> str:
    """A module as text that can be read back, with the lines of the source."""
    return str(
        module.operation.get_asm(enable_debug_info=True, pretty_debug_info=False)
    )


def write_program(program: Program, file: Path, archive: Path) -> None:
    """Write the IR of a program to `file`.

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


def holds_program(path: Path) -> bool:
    """Whether a file of IR is one of aotc's, and not StableHLO."""
    return f"{STAGE} = ".encode() in path.read_bytes()


def read_program(path: Path, entries: tuple[str, ...] = ()) -> Program:
    """The program in a file of IR, with those of its entries that are named, or all.

    Raises:
        InputError: `bad-ir`, `unknown-entry`, or `bad-parameters`: the archive is not
            there, or another.
    """
    with context(), ir.Location.unknown():
        module = parse_module(path.read_text(encoding="utf-8"), str(path))
        program = Program(module, _parameters(module, path))
        if program.parameters:
            del module.operation.attributes[_ARCHIVE]
        _require_whole(program, path)
    _keep_entries(program, path, entries)
    return program


def parse_module(text: str, where: str | None = None) -> Any:
    """The module that a text holds, in the current context.

    Raises:
        InputError: `bad-ir`.
    """
    try:
        module = ir.Module.parse(text)
        module.operation.verify()
        control.verify(module)
    except ir.MLIRError as error:
        message = f"the IR is not valid: {error}"
        raise InputError("bad-ir", message, where=where) from None
    return module


def _require_whole(program: Program, path: Path) -> None:
    """Refuse IR whose attributes do not say what a program is, or contradict it."""
    try:
        entries, states = program.entries, program.states
        _ = program.source, program.title, program.passes, program.target
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        why = f"an attribute is missing or malformed ({error})"
        raise _not_whole(path, why) from None
    if not entries:
        raise _not_whole(path, "there is no entry")
    declared = {each.name: each.type for each in parameters_of(program.module)}
    for entry in entries:
        kind = functions_of(program.module)[entry.name].type
        sides = (entry.arguments, kind.inputs), (entry.results, kind.results)
        for port, own in ((p, k) for side in sides for p, k in zip(*side, strict=True)):
            if (said := _contradiction(port, own, declared)) is not None:
                raise _not_whole(path, f"'{port.name}' of entry '{entry.name}' {said}")
    for state in states:
        if len(declared.keys() & {*state.leaves}) < state.tree.leaf_count:
            raise _not_whole(path, f"state '{state.name}' lacks a parameter")


def _contradiction(port: Port, own: Type, declared: Mapping[str, Tensor]) -> str | None:
    """What is wrong with what is said of an argument or result, if something is.

    Args:
        port: what is said of it.
        own: its type.
        declared: the types of the parameters.
    """
    if own not in (port.type.to_mlir(), lowered_type(port.type)):
        return f"is of type {own}, and is said to be {port.type}"
    is_stored = port.kind in ("weight", "state")
    if is_stored and declared.get(port.name) != port.type:
        known = declared.get(port.name, "none")
        return f"is {port.type}; the parameter called so is {known}"
    return None


def _not_whole(path: Path, why: str) -> InputError:
    return InputError("bad-ir", f"the IR is no whole program: {why}", where=str(path))


def _keep_entries(program: Program, path: Path, names: tuple[str, ...]) -> None:
    known = [entry.name for entry in program.entries]
    for name in names:
        if name not in known:
            raise InputError(
                "unknown-entry",
                f"'{path}' has no entry '{name}'; it has {', '.join(known)}",
            )
    if names:
        program.keep_entries(names)


# ---- parameters ---------------------------------------------------------------------


def write_parameters(
    parameters: Mapping[str, np.ndarray[Any, Any]], path: Path
) -> None:
    """Write weights and initial states as an IREE parameter archive."""
    import iree.runtime as runtime

    index = runtime.ParameterIndex()
    for name, array in parameters.items():
        data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        index.add_buffer(name, data)
    try:
        index.create_archive_file(str(path))
    except RuntimeError as error:
        raise_system_error(error, str(path.parent))
        raise


def _parameters(module: Any, path: Path) -> dict[str, np.ndarray[Any, Any]]:
    """The arrays of the parameters that a module declares."""
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
    stored = read_archive(archive)
    return {each.name: _array(stored, each, archive) for each in declared}


def read_archive(archive: Path) -> dict[str, bytes]:
    """The bytes of each parameter in an archive, by name."""
    import iree.runtime as runtime

    index = runtime.ParameterIndex()
    index.load(str(archive))
    return {name: bytes(entry.file_view) for name, entry in index.items()}


def _array(
    stored: Mapping[str, bytes], parameter: Parameter, archive: Path
) -> np.ndarray[Any, Any]:
    kind = parameter.type
    dtype = dtypes.to_numpy(kind.dtype)
    size = math.prod(kind.shape) * dtype.itemsize
    data = stored.get(parameter.name)
    if data is None or len(data) != size:
        got = "none" if data is None else f"{len(data)}"
        raise _bad_parameters(
            archive, f"{size} bytes for '{parameter.name}' of {kind}; got {got}"
        )
    return np.ndarray(kind.shape, dtype, data)


def _bad_parameters(where: Path, expected: str) -> InputError:
    return InputError(
        "bad-parameters",
        f"expected {expected}",
        where=str(where),
        hint="keep the file of parameters where `--dump` has put it, beside the IR",
    )


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
