"""StableHLO and JAX: modules and functions of theirs as models.

reading       a file or text → an MLIR module
unsupported   all in it that cannot be imported, as one error
contracts     what it promises of its open sizes
interpreter   walks it and calls a function of `ops` for each op, on traced arrays
network       it as an `Imported`
copying       calls inlined, and some of its ops as a module of their own
jax           functions of JAX as networks
exports       what `jax.export` serialized
symbolic      Specs and Dims in terms of JAX
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from aotc.core.pytree import PyTree
from aotc.errors import InputError

if TYPE_CHECKING:
    from aotc.importers.common.imported import Imported
    from aotc.importers.stablehlo.network import ModuleReader
    from aotc.programs.program import Program
    from aotc.tracing.entry import Spec

__all__ = ["from_jax", "from_stablehlo", "load"]


def from_stablehlo(
    source: str | bytes | Path,
    specs: Mapping[str, Spec] | None = None,
    module_class: ModuleReader | None = None,
) -> Imported:
    """Return a StableHLO module (text, bytes or file) as a network.

    Its inputs are the arguments of `main`, by the names that debug information has for
    them. Sizes that the module leaves open become symbols, with what its shape
    assertions say of them. Large literals are its weights.

    Args:
        source: the path of a file (text, bytecode, a portable artifact, or what
            `jax.export` serialized, for which jax must be installed), or such contents.
        specs: of inputs, by their names, where more is known of a module's open sizes
            than it says itself.
        module_class: what computes the module; by default a `network.Module`.

    Raises:
        InputError: it cannot be read, or has ops that aotc does not take.
    """
    from aotc.importers.stablehlo import exports, network

    data, name = _contents(source)
    made = module_class or network.StableHloModule
    if isinstance(data, bytes) and exports.is_export(data):
        return exports.from_export(data, name, made)
    return network.from_module(made(data, name), specs)


def _contents(source: str | bytes | Path) -> tuple[bytes | str, str]:
    """Return the content of a module's file or text, and its name for messages."""
    if isinstance(source, bytes):
        return source, "module"
    if isinstance(source, str) and ("\n" in source or "func.func" in source):
        return source, "module"
    path = Path(source)
    if not os.path.isfile(path):
        raise InputError("no-such-file", f"there is no StableHLO module at '{path}'")
    return path.read_bytes(), path.name


def from_jax(function: Callable[..., object], specs: PyTree) -> Imported:
    """Return a JAX function as a network; see
    `aotc.importers.stablehlo.jax.from_jax`.
    """
    from aotc.importers.stablehlo import jax

    return jax.from_jax(function, specs)


def load(path: Path, entries: tuple[str, ...] = ()) -> Program:
    """Return a program of a StableHLO file, with entry `main` alone.

    Raises:
        InputError: it cannot be read, or another entry is asked for.
    """
    from aotc.programs.program import source_of

    if any(name != "main" for name in entries):
        raise InputError(
            "unknown-entry", f"'{path}' has no entry '{entries[0]}'; it has main"
        )
    program = from_stablehlo(path).program()
    program.source = source_of(path, "stablehlo")
    return program
