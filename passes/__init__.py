"""Passes over a module, and the runner that every pass goes through.

A pass is a file with `run(module) -> bool` (whether it changed anything), which runs
within the module's MLIR context. The runner verifies what each has changed, measures
it, and turns a failure into one message that names the pass, those before it and the
user's line, beside a reproducer.
"""

import functools
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from aotc import options
from aotc.dialects import control
from aotc.errors import AotcError, CompileError, InputError, SetupError
from aotc.mlir import Module, bytecode, ir
from aotc.system_errors import system_error
from aotc.writing import make_folder, write_text

# name → module with run(module); the order is that of a build
PASSES = {
    "autodiff": "aotc.passes.autodiff",
    "inline": "aotc.passes.inline",
    "decompose": "aotc.passes.decompose",
    "simplify": "aotc.passes.simplify",
    "cse": "aotc.passes.cse",
    "relax-order": "aotc.passes.relax_order",
    "lower-to-linalg": "aotc.passes.lower_to_linalg",
    "advance-updates": "aotc.passes.advance_updates",
    "update-in-place": "aotc.passes.update_in_place",
}


@dataclass(frozen=True)
class PassRecord:
    """What one pass did: name, wall time in seconds, whether it changed the IR."""

    name: str
    seconds: float
    changed: bool

    def to_json(self) -> dict[str, Any]:
        """As the build report holds it."""
        return {"pass": self.name, "seconds": self.seconds, "changed": self.changed}


def load(name: str) -> Callable[[Module], bool]:
    """The pass called `name`.

    Raises:
        InputError: `unknown-pass`.
    """
    if name not in PASSES:
        raise InputError(
            "unknown-pass",
            f"there is no pass '{name}'",
            hint=f"passes: {', '.join(PASSES)}",
        )
    run: Callable[[Module], bool] = import_module(PASSES[name]).run
    return run


def run_passes(
    module: Module, names: Sequence[str], *, dump: Path | None = None, first: int = 1
) -> list[PassRecord]:
    """Run passes in order on `module`, in place.

    Args:
        module: a valid MLIR module.
        names: passes, by the names in `PASSES`.
        dump: folder to write the IR after each pass to; default AOTC_DUMP.
        first: number of the first pass, in the names of these files.

    Raises:
        InputError: `unknown-pass`, also for what AOTC_PRINT_AFTER names.
        CompileError: a pass failed or left invalid IR.
    """
    folder = dump or options.get("AOTC_DUMP")
    passes = [(name, load(name)) for name in names]
    printed = printed_pass()
    records: list[PassRecord] = []
    after = bytecode(module)
    for name, run in passes:
        before = after
        start = time.perf_counter()
        try:
            with module.context, ir.Location.unknown():
                changed = run(module)
                after = bytecode(module)
                if after != before:  # whatever the pass says
                    module.operation.verify()
                    control.verify(module)
        except Exception as error:
            text = functools.partial(_text, before, module.context)
            raise _failure(name, [r.name for r in records], text, error) from error
        records.append(PassRecord(name, time.perf_counter() - start, changed))
        _show(module, name, first + len(records) - 1, folder)
        if printed in (name, "all"):
            print(f"// IR after {name}\n{module}", file=sys.stderr)
    return records


def printed_pass() -> str | None:
    """The pass after which the IR is printed, or `all`; None for none.

    Raises:
        InputError: `unknown-pass`: AOTC_PRINT_AFTER names one that there is not.
    """
    name: str | None = options.get("AOTC_PRINT_AFTER") or None
    if name not in (None, "all", *PASSES):
        raise InputError(
            "unknown-pass",
            f"there is no pass '{name}'",
            where="AOTC_PRINT_AFTER",
            hint=f"passes: all, {', '.join(PASSES)}",
        )
    return name


def _text(written: bytes, context: ir.Context) -> str:
    module = ir.Module.parse(written, context)
    return str(module.operation.get_asm(enable_debug_info=True))


def _failure(
    name: str, earlier: list[str], before: Callable[[], str], error: Exception
) -> AotcError:
    """One message for a failed pass; a reproducer is left beside it."""
    after = f" after {', '.join(earlier)}" if earlier else ""
    if (refused := system_error(error)) is not None:
        refused.message = f"pass '{name}'{after}: {refused.message}"
        return refused
    repro = _write_reproducer(name, before)
    if isinstance(error, AotcError):
        error.message = f"pass '{name}'{after}: {error.message}"
        error.hint = error.hint or f"reproduce with: {repro}"
        return error
    return CompileError(
        "pass-failed",
        f"pass '{name}'{after} failed: {error}",
        hint=f"this is a bug in aotc; reproduce with: {repro}",
    )


def _write_reproducer(name: str, before: Callable[[], str]) -> str:
    try:
        file = Path(tempfile.mkdtemp(prefix="aotc-repro-")) / f"before-{name}.mlir"
        command = f"aotc opt {file} --passes {name}"
        write_text(file, f"// {command}\n{before()}\n")
    except (OSError, SetupError, ir.MLIRError):  # what failed is to be told, not this
        return f"aotc opt IR --passes {name}, where the IR can be written (--dump)"
    return command


def _show(module: Module, name: str, number: int, folder: str | Path | None) -> None:
    if folder is not None:
        file = make_folder(Path(folder)) / f"{number:02d}-{name}.mlir"
        write_text(file, f"{module}\n")
