"""Modules and files → exported programs of ops that are to be interpreted."""

from __future__ import annotations

import logging
import re
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import NoReturn

import numpy as np
import torch
from torch._decomp import decomposition_table
from torch._ops import OpOverload
from torch.export import ExportedProgram
from torch.fx import GraphModule

from aotc.errors import InputError, SetupError
from aotc.errors.system import raise_system_error
from aotc.importers.torch import mapped_archive, recurrences, writes
from aotc.importers.torch.ops import is_listed, stays_whole
from aotc.importers.torch.tensors import is_complex
from aotc.tracing.source_locations import fail, is_own, relative_path, user_line

_TORCH = Path(torch.__file__).parent

# torch 2.13 meets a deprecation of its own wherever it copies a program
warnings.filterwarnings("ignore", r"`isinstance\(treespec", FutureWarning)
_PYTHON = Path(logging.__file__).parents[1]
_OWN = Path(__file__).parent


def export_program(
    model: torch.nn.Module | ExportedProgram,
    args: Sequence[object],
    kwargs: Mapping[str, object] | None,
    dynamic_shapes: object,
) -> ExportedProgram:
    """Export a module by torch.export; return an exported program as it is.

    Raises:
        InputError: torch.export refuses the module, with its own words and the user's
            line.
    """
    if isinstance(model, torch.export.ExportedProgram):
        return model
    if not isinstance(model, torch.nn.Module):
        fail(
            "bad-model",
            "expected a torch.nn.Module or torch.export.ExportedProgram; got "
            f"{type(model).__name__}",
        )
    _require_tensors(args)
    try:
        with torch.no_grad(), recurrences.whole():
            return torch.export.export(
                model, tuple(args), dict(kwargs or {}), dynamic_shapes=dynamic_shapes
            )
    except Exception as error:  # whatever the user's code or torch.export raises
        raise_system_error(error)
        _refuse(error)


def _require_tensors(args: object) -> None:
    """Refuse example arguments that are no tuple, or that hold NumPy arrays."""
    if not isinstance(args, (tuple, list)):
        fail(
            "bad-argument",
            f"expected args to be a tuple of example arguments; got a "
            f"{type(args).__name__}",
            "write (x,) for one argument",
        )
    for number, leaf in enumerate(torch.utils._pytree.tree_leaves(tuple(args))):
        if isinstance(leaf, np.ndarray):
            fail(
                "bad-argument",
                f"expected tensors as example arguments; number {number} is an array "
                "of NumPy",
                "torch.from_numpy(x) is a tensor of it",
            )


@contextmanager
def training(model: torch.nn.Module | ExportedProgram, train: bool) -> Iterator[None]:
    """Put a module in training mode within this block if `train`; restore it
    afterwards.

    Afterwards each of them is in the mode that it was in.
    """
    parts = list(model.modules()) if isinstance(model, torch.nn.Module) else []
    modes = [part.training for part in parts]
    try:
        if train and parts:
            model.train()
        yield
    finally:
        for part, mode in zip(parts, modes, strict=True):
            part.training = mode


def read(path: Path) -> ExportedProgram:
    """Return the exported program that a .pt2 file holds.

    Raises:
        InputError: torch cannot read it.
    """
    try:
        with _logged_errors() as logged:
            return mapped_archive.load(path)
    except Exception as error:  # whatever torch finds wrong with the bytes
        raise_system_error(error, str(path))
        said = _first_paragraph(logged[0] if logged else error)
        missing = _MISSING_MODULE.search(said)
        if missing is not None:
            _require_package(path, missing[1])
        found = _UNREGISTERED_OP.search(said)
        if found is not None:
            if _register_ops(path, found[1]):
                return read(path)
            said = f"it calls torch.ops.{found[1]}.{found[2]}, which is not registered"
        raise InputError(
            "bad-file",
            f"'{path}' cannot be read as what torch.export.save writes: {said}",
            hint=_reading_advice(path, said),
        ) from error


_UNREGISTERED_OP = re.compile(r"failed to resolve torch\.ops\.(\w+)\.([\w.]+)")
_MISSING_MODULE = re.compile(r"No module named '(\w+)")
# what registers ops that aotc has, by their namespace
_REGISTERED_BY = {
    "quantized_decomposed": "torch.ao.quantization.fx._decomposed",
    "torchao": "torchao.quantization.quant_primitives",
}
_OP_ADVICE = (
    "the op is known once the package that defines it is imported, as PT2E's are by "
    "`import torch.ao.quantization.fx._decomposed`: build a model.py that imports it "
    "and then has `main = aotc.from_torch(torch.export.load('{name}'))`"
)


def _register_ops(path: Path, namespace: str) -> bool:
    """Import the installed package that registers ops of a namespace, if need be.

    Args:
        path: of the file that needs them, for the error.
        namespace: of ops.

    Returns:
        Whether it was imported now.

    Raises:
        SetupError: the package is not installed.
    """
    module = _REGISTERED_BY.get(namespace)
    if module is None or module in sys.modules:
        return False
    try:
        import_module(module)
    except ModuleNotFoundError:
        _require_package(path, module.partition(".")[0])
    return True


def _require_package(path: Path, name: str) -> NoReturn:
    """Raise SetupError: a file needs a package that is not installed."""
    raise SetupError(
        "missing-extra",
        f"'{path.name}' has tensors or ops of the package '{name}', which is not "
        "installed",
        hint=f"pip install {name}",
    ) from None


_UNREGISTERED = re.compile(r"Deserializing ([\w.]+)\.\w+ in pytree is not registered")


def _reading_advice(path: Path, message: str) -> str:
    """Return advice on a .pt2 file that torch fails to read."""
    if "which is not registered" in message:
        return _OP_ADVICE.format(name=path.name)
    found = _UNREGISTERED.search(message)
    if found is None:
        return f"this is torch {torch.__version__}; export the model with it again"
    return (
        "the type is known once its module is imported: build a model.py that has "
        f"`import {found[1]}` and then "
        f"`main = aotc.from_torch(torch.export.load('{path.name}'))`"
    )


@contextmanager
def _logged_errors() -> Iterator[list[BaseException]]:
    """Collect errors that torch.export catches within this block, instead of their
    logs.
    """
    found: list[BaseException] = []

    def keep(record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        if error is not None:
            found.append(error)
        return error is None

    logger = logging.getLogger(torch.export.__name__)
    logger.addFilter(keep)
    try:
        yield found
    finally:
        logger.removeFilter(keep)


@cache
def decompositions() -> dict[OpOverload, Callable[..., object]]:
    """Return torch's decompositions of ops that have no import function in `ops/`."""
    table = {**decomposition_table, **torch.export.default_decompositions()}
    return {op: rule for op, rule in table.items() if not stays_whole(op)}


def decompose(program: ExportedProgram) -> ExportedProgram:
    """Return a functional program, with ops that `ops/` lacks decomposed by torch.

    An op that `ops/` lists stays whole. Every other one becomes simpler ones by torch's
    decomposition, if it has one. To look for these, torch traces the graph twice more,
    so a program without any is taken as it is.
    """
    if _is_plain(program):
        return program
    _forget_ranges_of_terms(program)
    try:
        with torch.no_grad(), recurrences.whole():
            return program.run_decompositions(decompositions())
    except Exception as error:
        raise_system_error(error)
        _refuse(error)


def _forget_ranges_of_terms(program: ExportedProgram) -> None:
    """Remove the ranges of size expressions such as `2*s0` from a program, in place.

    It takes them for symbols and ends with an AssertionError when it traces the program
    again (torch 2.13). They follow from those of the symbols.
    """
    for node in program.graph.find_nodes(op="placeholder"):
        for size in getattr(node.meta.get("val"), "shape", ()):
            if isinstance(size, torch.SymInt):
                ranges = size.node.shape_env.var_to_range
                for term in [each for each in ranges if not each.is_Symbol]:
                    del ranges[term]
                return


def _is_plain(program: ExportedProgram) -> bool:
    """Return whether a program can be imported as it is, without decomposition by
    torch.
    """
    module = program.graph_module
    if any(isinstance(part, GraphModule) for part in module.children()):
        return False
    calls = [node for node in module.graph.nodes if node.op == "call_function"]
    known = (is_listed(node.target, is_complex(node)) for node in calls)
    if not all(known) or any(map(writes.trains, calls)):
        return False
    return writes.are_private(module.graph)


# ---- what torch says ----------------------------------------------------------------

_ADVICE = {
    "Unsupported input type": "give tensors, and tuples, lists and dicts of them. A "
    "cache that forward writes to is state if its tensors are buffers of a module; one "
    "that forward returns can be made of a tuple of tensors in forward; see 'Caches' "
    "in docs/frontends.md",
    "is mutated in the forward method": "register the tensor as a buffer of its module "
    "(self.register_buffer(name, tensor)), which becomes state; see 'Caches' in "
    "docs/frontends.md",
    "expected compiled_fn to be GraphModule": "forward writes to a tensor that "
    "torch.export does not know as a part of the module, such as a buffer that a cache "
    "object holds as well. It follows that with strict=True: "
    "aotc.from_torch(torch.export.export(module, args, kwargs, strict=True))",
    "is not in the constants dictionary": "the class of an argument makes tensors when "
    "it is put together, as the DynamicCache of transformers does: give its tensors as "
    "a tuple, and make the object in forward; see 'Caches' in docs/frontends.md",
    "Constraints violated": "say so in dynamic_shapes, as in "
    "`8 * torch.export.Dim('n')` for multiples of 8, or leave it to Dim.AUTO",
    "missing a required argument": "give example arguments: "
    "aotc.from_torch(module, (x,))",
    "but got Dim(name=": "write dynamic_shapes with torch.export.Dim",
    "GuardOnDataDependentSymNode": "Python cannot branch on values of a tensor, nor "
    "on sizes that depend on them; use torch.where, or torch.cond for a branch, and "
    "promise what holds of sizes: torch._check(n > 0), torch._check(n <= 64)",
    "UserError": "see what torch.export says of its arguments",
}


def _refuse(error: Exception) -> NoReturn:
    """Raise a torch.export error as an InputError at the user's line."""
    kind = type(error).__name__
    raise InputError(
        "torch-export",
        f"torch.export refuses the model: {kind}: {_first_paragraph(error)}",
        where=_user_line(error) or user_line(),
        hint=next(
            (advice for key, advice in _ADVICE.items() if key in f"{kind}: {error}"),
            "torch.export must be able to trace the model",
        ),
    ) from error


def _first_paragraph(error: BaseException) -> str:
    """Return the first paragraph of an error's message."""
    return str(error).strip().split("\n\n")[0] or type(error).__name__


def _user_line(error: Exception) -> str | None:
    """Return the innermost file and line of the user's code in an error's traceback."""
    lines = [
        f"{relative_path(frame.f_code.co_filename)}:{number}"
        for frame, number in traceback.walk_tb(error.__traceback__)
        if not is_own(frame.f_globals.get("__name__", ""))
        and not frame.f_code.co_filename.startswith("<")
        and not is_library(frame.f_code.co_filename)
    ]
    return lines[-1] if lines else None


def is_library(filename: str) -> bool:
    """Return whether a source file belongs to PyTorch, Python or this importer."""
    path = Path(filename)
    if path.is_relative_to(_PYTHON) and "site-packages" not in path.parts:
        return True
    return path.is_relative_to(_TORCH) or path.is_relative_to(_OWN)
