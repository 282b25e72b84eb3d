"""PyTorch: modules, exported programs and .pt2 files → graph functions.

    torch.export → decompositions → nodes → `OPS` → aotc's own functions, traced

What `exporting.py` gets from torch is a graph of ATen ops without mutation; what it
keeps whole is what `ops/` has a function for. `interpreter.py` interprets it on aotc's
arrays, so that what comes out is as if the network had been written with aotc.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from aotc.core.installation import install_command
from aotc.errors import AotcError, InputError, SetupError
from aotc.programs.program import source_of
from aotc.tracing.source_locations import at_location

if TYPE_CHECKING:
    import torch

    from aotc.importers.common.imported import Imported
    from aotc.programs.program import Program

__all__ = ["from_torch", "load"]

ENTRY = "main"  # of a file


def from_torch(
    model: torch.nn.Module | torch.export.ExportedProgram,
    args: Sequence[object] = (),
    kwargs: Mapping[str, object] | None = None,
    dynamic_shapes: object = None,
    *,
    train: bool = False,
) -> Imported:
    """Return a PyTorch module, or an exported program, as a network for a model.py.

        net = aotc.from_torch(
            module.eval(), (x,), dynamic_shapes={"x": {0: torch.export.Dim("batch")}}
        )

    Args:
        model: a `torch.nn.Module`, or a `torch.export.ExportedProgram` (which brings
            its own arguments and sizes).
        args: example arguments: tensors of the right shapes and dtypes.
        kwargs: example keyword arguments.
        dynamic_shapes: which of their sizes vary, as torch.export takes it. The names
            and ranges of its Dims become those of aotc's; a minimum of 2 is 1 for a
            module that can be so small.
        train: import the module as it trains, whatever mode it is in: the statistics of
            batch normalization are state, and a module that drops elements takes a
            random `key` (u32[2]) as its last input. An ExportedProgram keeps the mode
            that it was exported in.

    Raises:
        InputError: torch.export refuses the module, or ops in it have no counterpart;
            all of these are named at once.
        SetupError: torch is not installed.
    """
    require_torch()
    from aotc.importers.torch.attributes import watch_attributes
    from aotc.importers.torch.exporting import export_program, training
    from aotc.importers.torch.network import network_of
    from aotc.importers.torch.symbolic import promises_of

    with training(model, train), watch_attributes(model):
        program = export_program(model, args, kwargs, dynamic_shapes)
    network, promises = network_of(program, train), promises_of(dynamic_shapes)
    if promises and _asks_for_promises(network):
        return network_of(program, train, promises.__contains__)
    return network


def _asks_for_promises(network: Imported) -> bool:
    """Return whether tracing a network fails because its sizes need declared bounds."""
    from aotc.importers.torch.interpreter import DIM_ADVICE

    try:
        network.program()
    except AotcError as error:
        return error.hint == DIM_ADVICE
    return False


def load(path: Path, entries: tuple[str, ...] = ()) -> Program:
    """Return a program of a .pt2 file, with entry `main` alone.

    Raises:
        InputError: the file cannot be read, or see `from_torch`.
    """
    require_torch()
    from aotc.importers.torch.exporting import read
    from aotc.importers.torch.interpreter import DIM_ADVICE
    from aotc.importers.torch.network import network_of

    if any(name != ENTRY for name in entries):
        raise InputError(
            "unknown-entry",
            f"'{path}' has no entry '{entries[0]}'; it has {ENTRY}",
        )
    with at_location((str(path), 1)):  # no line of a model runs
        exported = read(path)
        try:
            program = network_of(exported).program(ENTRY)
        except AotcError as error:
            if error.hint != DIM_ADVICE:
                raise
            kept = network_of(exported, are_kept=lambda name: True)
            program = kept.program(ENTRY)
    program.source = source_of(path, "torch")
    return program


def require_torch() -> None:
    """Raise a SetupError if torch is not installed."""
    try:
        import torch.export  # noqa: F401
    except ModuleNotFoundError as error:
        raise SetupError(
            "missing-extra",
            f"PyTorch models need the package '{error.name}'",
            hint=install_command("torch"),
        ) from error
