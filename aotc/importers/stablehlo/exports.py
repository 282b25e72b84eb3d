"""Serialized results of `jax.export`, as networks."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from aotc.complexes import Complex
from aotc.core.pytree import PyTree
from aotc.errors import InputError
from aotc.errors.system import raise_system_error
from aotc.importers.common.imported import Imported
from aotc.importers.stablehlo.network import (
    ModuleReader,
    StableHloModule,
    network_of,
    value_of,
)
from aotc.importers.stablehlo.original import of_export
from aotc.importers.stablehlo.reading import BYTECODE
from aotc.importers.stablehlo.symbolic import PLATFORM, is_leaf, require_jax, spec_of
from aotc.importers.stablehlo.values import Value, as_known
from aotc.processes.running import run_python
from aotc.tracing.entry import Spec

if TYPE_CHECKING:
    from jax.export import Exported

_SHARDY = b"sdy"  # the name of a dialect
CONVENTIONS = (9, 10)  # versions of jax.export's calling convention


def is_export(data: bytes) -> bool:
    """Return whether bytes look like a serialized `jax.export`: binary, but no MLIR."""
    if data.startswith(BYTECODE):
        return False
    return b"\0" in data[:64]


def from_export(
    data: bytes, name: str, module_class: ModuleReader = StableHloModule
) -> Imported:
    """Return the network of bytes that `jax.export` serialized.

    Args:
        data: its contents.
        name: what messages call it.
        module_class: what computes its module.

    Raises:
        InputError: it is damaged, of another version, or for several devices.
    """
    require_jax()
    export = require_jax("jax.export")
    require_jax("flatbuffers")
    try:
        exported = export.deserialize(bytearray(data))
    except Exception as error:  # whatever its reader finds wrong
        raise_system_error(error, name)
        raise InputError(
            "bad-file",
            f"'{name}' cannot be read as a jax.export artifact: {error}",
            hint="give what jax.export.export(...)(...).serialize() returned",
        ) from error
    return from_exported(exported, name, module_class)


def from_exported(
    exported: Exported,
    name: str = "exported",
    module_class: ModuleReader = StableHloModule,
) -> Imported:
    """Return the network of a `jax.export.Exported`, with inputs `arg0`, … and its
    keywords.
    """
    _require_known(exported, name)
    jax = require_jax()
    module = _module_of(exported, name, module_class)
    args, kwargs = jax.tree.unflatten(
        exported.in_tree, _exported_specs(exported, module)
    )
    inputs = {**{f"arg{n}": arg for n, arg in enumerate(args)}, **kwargs}

    def function(
        values: Sequence[object], constants: Mapping[str, np.ndarray]
    ) -> PyTree:
        given = dict(zip(inputs, values, strict=True))
        places = list(given.values())[: len(args)]
        named = {key: given[key] for key in kwargs}
        leaves = [
            value_of(x)
            for x in jax.tree.leaves((tuple(places), named), is_leaf=is_leaf)
        ]
        operands: list[Value] = [leaves[n] for n in exported.module_kept_var_idx]
        if len(exported.platforms) > 1:
            operands.insert(0, as_known(exported.platforms.index(PLATFORM), "i32"))
        results = module.call(operands, constants)
        return jax.tree.unflatten(exported.out_tree, results)

    return network_of(module, function, inputs, original=of_export(exported, len(args)))


def _module_of(
    exported: Exported, name: str, module_class: ModuleReader
) -> StableHloModule:
    """Read the module of an export; via text in a child process if only JAX can parse
    it.

    Calls of LAPACK have rules for shardings, whose bytecode only JAX reads: a process
    of its own turns the artifact into text, as a damaged one may end it.
    """
    try:
        return module_class(exported.mlir_module_serialized, name)
    except InputError as error:
        if error.code != "bad-file" or _SHARDY not in exported.mlir_module_serialized:
            raise
        done = run_python("-m", __name__, given=exported.serialize())
        if done.code:
            raise
    return module_class(done.output.decode(), name)


def _exported_specs(
    exported: Exported, module: StableHloModule
) -> list[Spec | Complex]:
    """Return a Spec for each leaf of an export's arguments."""
    specs: list[Any] = [
        spec_of([n if isinstance(n, int) else str(n) for n in aval.shape], aval.dtype)
        if n not in exported.module_kept_var_idx
        else None
        for n, aval in enumerate(exported.in_avals)
    ]
    found = module.specs()[len(exported.platforms) > 1 :]
    for number, spec in zip(exported.module_kept_var_idx, found, strict=True):
        specs[number] = spec
    return [spec for spec in specs if spec is not None]


def _require_known(exported: Exported, name: str) -> None:
    """Refuse an export of another calling convention or platform, or with effects."""
    version = exported.calling_convention_version
    if not CONVENTIONS[0] <= version <= CONVENTIONS[1]:
        raise InputError(
            "unsupported-version",
            f"'{name}' has version {version} of jax.export's calling convention; "
            f"expected {CONVENTIONS[0]} to {CONVENTIONS[1]}",
            hint="export it with jax 0.5 to 0.10",
        )
    if PLATFORM not in exported.platforms:
        raise InputError(
            "wrong-platform",
            f"'{name}' was exported for {' and '.join(exported.platforms)}; expected "
            f"'{PLATFORM}' among the platforms, whatever the target is",
            hint=f'jax.export.export(function, platforms=["{PLATFORM}"])',
        )
    if exported.nr_devices != 1:
        raise InputError(
            "many-devices",
            f"'{name}' was exported for {exported.nr_devices} devices; expected one",
        )
    if exported.ordered_effects:
        raise InputError(
            "unsupported-ops",
            f"'{name}' has ordered effects: {exported.ordered_effects}",
            hint="export the function without callbacks and prints",
        )


if __name__ == "__main__":
    given = bytearray(sys.stdin.buffer.read())
    print(require_jax("jax.export").deserialize(given).mlir_module())
