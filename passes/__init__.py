"""Passes over a program, and the runner that every pass goes through.

A pass is a file with a class (see `aotc.passes.base`). The runner measures each, and
turns a failure into one message that names the pass, those before it and the user's
line, beside a reproducer. It verifies the IR that the last pass leaves, and believes
a pass that says that it changed nothing; with AOTC_VERIFY_EACH it verifies what
each leaves, and what it says. As it keeps the bytecode before each, invalid IR is laid
at the door of the pass that made it in both cases.
"""

import re
import shlex
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any

from aotc.core import options
from aotc.core.collecting import collecting_rarely
from aotc.core.writing import make_folder, write_text
from aotc.dialects import control
from aotc.dialects.functions.functions import lowered_op
from aotc.errors import AotcError, CompileError, InputError, SetupError
from aotc.errors.system import system_error
from aotc.mlir import Module, bytecode, ir
from aotc.passes.base import Pass, PassRecord, Unit, lowered_error
from aotc.passes.pass_options import parse_options, require_parsable
from aotc.programs.program import Program

# name → class; what a build runs, in which order, is in `aotc.passes.stages`
PASSES = {
    "set-io-layout": "aotc.passes.set_io_layout:SetIoLayout",
    "mix-precision": "aotc.passes.mix_precision:MixPrecision",
    "recover-attention": "aotc.passes.recover_attention:RecoverAttention",
    "autodiff": "aotc.passes.autodiff:Autodiff",
    "inline": "aotc.passes.inline:Inline",
    "specialize": "aotc.passes.specialize:Specialize",
    "pad-entries": "aotc.passes.pad_entries:PadEntries",
    "drop-general": "aotc.passes.drop_general:DropGeneral",
    "simplify": "aotc.passes.simplify:Simplify",
    "prune": "aotc.passes.prune:Prune",
    "cse": "aotc.passes.cse:Cse",
    "recover-ops": "aotc.passes.recover_ops:RecoverOps",
    "move-bytes": "aotc.passes.move_bytes:MoveBytes",
    "tabulate-bytes": "aotc.passes.tabulate_bytes:TabulateBytes",
    "sink-transposes": "aotc.passes.sink_transposes:SinkTransposes",
    "sink-reshapes": "aotc.passes.sink_reshapes:SinkReshapes",
    "rotate-pairs": "aotc.passes.rotate_pairs:RotatePairs",
    "fold-scales": "aotc.passes.fold_scales:FoldScales",
    "integer-products": "aotc.passes.integer_products:IntegerProducts",
    "integer-sums": "aotc.passes.integer_sums:IntegerSums",
    "keep-quantized": "aotc.passes.keep_quantized:KeepQuantized",
    "scale-sums": "aotc.passes.scale_sums:ScaleSums",
    "scale-weights": "aotc.passes.scale_weights:ScaleWeights",
    "hoist-invariants": "aotc.passes.hoist_invariants:HoistInvariants",
    "join-steps": "aotc.passes.join_steps:JoinSteps",
    "share-steps": "aotc.passes.share_steps:ShareSteps",
    "relax-order": "aotc.passes.relax_order:RelaxOrder",
    "fold-parameters": "aotc.passes.fold_parameters:FoldParameters",
    "delay-dequantization": "aotc.passes.delay_dequantization:DelayDequantization",
    "decompose": "aotc.passes.decompose:Decompose",
    "advance-collectives": "aotc.passes.advance_collectives:AdvanceCollectives",
    "record-devices": "aotc.passes.record_devices:RecordDevices",
    "record-intermediates": "aotc.passes.record_intermediates:RecordIntermediates",
    "gather-packed": "aotc.passes.gather_packed:GatherPacked",
    "compose-ops": "aotc.passes.compose_ops:ComposeOps",
    "split-products": "aotc.passes.split_products:SplitProducts",
    "split-reductions": "aotc.passes.split_reductions:SplitReductions",
    "round-rows": "aotc.passes.round_rows:RoundRows",
    "fuse-regions": "aotc.passes.fuse_regions:FuseRegions",
    "widen-scales": "aotc.passes.widen_scales:WidenScales",
    "fuse-loops": "aotc.passes.fuse_loops:FuseLoops",
    "join-products": "aotc.passes.join_products:JoinProducts",
    "join-updates": "aotc.passes.join_updates:JoinUpdates",
    "lower-to-linalg": "aotc.passes.lower_to_linalg:LowerToLinalg",
    "share-kernels": "aotc.passes.share_kernels:ShareKernels",
    "delay-exchanges": "aotc.passes.delay_exchanges:DelayExchanges",
    "separate-updates": "aotc.passes.separate_updates:SeparateUpdates",
    "advance-updates": "aotc.passes.advance_updates:AdvanceUpdates",
    "rematerialize": "aotc.passes.rematerialize:Rematerialize",
    "update-in-place": "aotc.passes.update_in_place:UpdateInPlace",
    "control-to-blocks": "aotc.passes.control_to_blocks:ControlToBlocks",
}

_SPELLED = re.compile(r"(?P<name>[\w-]+)(\{(?P<options>[^{}]*)\})?")
_BETWEEN = re.compile(r",(?![^{}]*\})")  # no comma within braces


def load(spelled: str) -> Pass:
    """Instantiate the pass that a text spells, such as `cse` or
    `rematerialize{entry=f,bytes=9}`.

    Raises:
        InputError: `unknown-pass`, `bad-pass-option`.
    """
    found = _SPELLED.fullmatch(spelled)
    name = found["name"] if found else spelled
    if name not in PASSES:
        raise InputError(
            "unknown-pass",
            f"there is no pass '{name}'",
            hint=f"passes: {', '.join(PASSES)}",
        )
    made = class_of(name)
    return made(**parse_options(made, (found and found["options"]) or ""))


def class_of(name: str) -> type[Pass]:
    """Import and return the class of the pass registered as `name` in `PASSES`."""
    module, _, kind = PASSES[name].partition(":")
    found: type[Pass] = getattr(import_module(module), kind)
    require_parsable(found)
    return found


def split_names(text: str) -> list[str]:
    """Split a comma-separated list of passes into texts, each a pass with its
    options.
    """
    return [each.strip() for each in _BETWEEN.split(text) if each.strip()]


@collecting_rarely()
def run_passes(
    target: Any,
    passes: Sequence[Pass | str],
    *,
    dump: Path | None = None,
    silently: bool = False,
    verified: bool = True,
) -> list[PassRecord]:
    """Run a pipeline of passes on a module, in place; return a record of each run.

    Args:
        target: a `Unit`, or a valid MLIR module.
        passes: or their names, as `load` reads them.
        dump: folder to write the IR after each pass to; default AOTC_DUMP.
        silently: neither write nor print any.
        verified: whether what they leave is; not for a caller that does so itself.

    Returns:
        What each of them did, which is added to the unit's records; its program notes
        their names.

    Raises:
        InputError: `unknown-pass`, also for what AOTC_PRINT_AFTER names.
        CompileError: a pass failed or left invalid IR.
    """
    unit = target if isinstance(target, Unit) else Unit(Program(target))
    folder = None if silently else dump or options.get("AOTC_DUMP")
    verifies_each = verified and options.get("AOTC_VERIFY_EACH")
    loaded = [load(each) if isinstance(each, str) else each for each in passes]
    printed = None if silently else printed_pass()
    first = len(unit.records)
    written = [bytecode(unit.module)]  # before each pass, and after the last
    for number, each in enumerate(loaded):
        start = time.perf_counter()
        try:
            is_changed = _run_pass(each, unit, written, verifies=verifies_each)
        except Exception as error:
            raise _error(unit, loaded, number, written, error) from error
        seconds = time.perf_counter() - start
        unit.records.append(PassRecord(str(each), seconds, is_changed))
        _dump_ir(unit.module, each.name, len(unit.records), folder)
        if printed in (each.name, "all"):
            print(f"// IR after {each}\n{unit.module}", file=sys.stderr)
    if verified and not verifies_each:
        try:
            verify(unit.module)
        except Exception as error:
            raise _error(unit, loaded, None, written, error) from error
    if unit is target:
        unit.program.note_passes(map(str, loaded))
    return unit.records[first:]


def _run_pass(
    loaded: Pass, unit: Unit, written: list[bytes], *, verifies: bool
) -> bool:
    """Run one pass, append its bytecode to `written`; return whether the bytes changed.

    The output is verified if asked for.

    Args:
        loaded: the pass.
        unit: what it works on.
        written: the IR before it, at the end, behind which goes that after it.
        verifies: whether to verify what it leaves, and what it says.
    """
    with unit.module.context, ir.Location.unknown():
        changed = loaded.run(unit)
    before = after = written[-1]
    if changed or verifies:
        after = bytecode(unit.module)
    is_changed = after != before
    written.append(after if is_changed else before)  # equal bytes once
    if verifies and is_changed:
        verify(unit.module)
        if not changed:
            raise ValueError("it changed the IR, and says that it did not")
        written[-1] = bytecode(unit.module)  # verified ops of linalg note their maps
    return is_changed


def verify(module: Module) -> None:
    """Raise if a module is invalid: MLIR's verifier, then the checks of control flow.

    Raises:
        MLIRError, InputError: it is.
    """
    with module.context, ir.Location.unknown():
        module.operation.verify()
        control.verify(module)


def printed_pass() -> str | None:
    """Read AOTC_PRINT_AFTER: return the pass after which to print the IR, `all`, or
    None.

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


def _error(
    unit: Unit,
    loaded: Sequence[Pass],
    number: int | None,
    written: Sequence[bytes],
    error: Exception,
) -> AotcError:
    """Return the error to raise for a pipeline in which a pass failed, or left invalid
    IR.

    Args:
        unit: what they ran on.
        loaded: all passes of the run.
        number: of the pass that failed, from 0; None where the IR after all is invalid.
        written: the IR before each pass that ran, and after it if it did not fail.
        error: what that pass, or the verifier, raised.
    """
    context = unit.module.context
    for index, (before, after) in enumerate(pairwise(written)):
        found = None if after is before else _invalidity(after, context)
        if found is not None:  # what came of it is not to be told
            number, error = index, found
            break
    if number is None:
        return CompileError(
            "pass-failed",
            f"one of the passes {', '.join(map(str, loaded))} failed: {error}",
            hint="this is a bug in aotc; AOTC_VERIFY_EACH=1 names the pass",
        )
    failed, earlier = loaded[number], [str(each) for each in loaded[:number]]
    before = written[number]
    if failed.keeps_graph and (op := _lowered_op(before, context)):
        return lowered_error(failed, op)
    return _failure(failed, earlier, partial(_text, before, context), error)


def _invalidity(ir_bytes: bytes, context: ir.Context) -> Exception | None:
    """Return the verifier's error on IR; None for valid IR."""
    try:
        verify(ir.Module.parse(ir_bytes, context))  # which verifies its ops as well
    except (ir.MLIRError, InputError) as error:
        return error
    return None


def _text(ir_bytes: bytes, context: ir.Context) -> str:
    """Return IR stored as bytecode as MLIR text with locations."""
    module = ir.Module.parse(ir_bytes, context)
    return str(module.operation.get_asm(enable_debug_info=True))


def _lowered_op(ir_bytes: bytes, context: ir.Context) -> str | None:
    """Return the name of an op in the bytecode that is not of the graph dialect, if
    any.
    """
    return lowered_op(ir.Module.parse(ir_bytes, context))


def _failure(
    failed: Pass,
    earlier: list[str],
    ir_text_before: Callable[[], str],
    error: Exception,
) -> AotcError:
    """Return the error of a failed pass; write a reproducer, if the hint names it.

    What the user is to mend is not of the pass that found it.
    """
    if isinstance(error, InputError):
        return error
    what = f"pass '{failed}'" + (f" after {', '.join(earlier)}" if earlier else "")
    if (refused := system_error(error)) is not None:
        refused.message = f"{what}: {refused.message}"
        return refused
    if isinstance(error, AotcError):
        error.message = f"{what}: {error.message}"
        error.hint = error.hint or _how_to_reproduce(failed, ir_text_before)
        return error
    advice = _how_to_reproduce(failed, ir_text_before) or "please report it"
    return CompileError(
        "pass-failed",
        f"{what} failed: {str(error) or type(error).__name__}",
        hint=f"this is a bug in aotc; {advice}",
    )


def _how_to_reproduce(failed: Pass, ir_text_before: Callable[[], str]) -> str | None:
    """Write a reproducer of a failed pass to a temporary folder; return a hint with the
    command.
    """
    if failed.name not in PASSES:
        return None
    return f"reproduce with: {_write_reproducer(failed, ir_text_before)}"


def _write_reproducer(failed: Pass, ir_text_before: Callable[[], str]) -> str:
    """Write the IR before a failed pass to a file; return the `aotc opt` command to
    rerun it.
    """
    passes = shlex.quote(str(failed))
    try:
        folder = Path(tempfile.mkdtemp(prefix="aotc-repro-"))
        file = folder / f"before-{failed.name}.mlir"
        command = f"aotc opt {file} --passes {passes}"
        write_text(file, f"// {command}\n{ir_text_before()}\n")
    except (OSError, SetupError, ir.MLIRError):  # what failed is to be told, not this
        return f"aotc opt IR --passes {passes}, where the IR can be written (--dump)"
    return command


def _dump_ir(module: Module, name: str, number: int, folder: str | Path | None) -> None:
    """Write a module's IR to `folder/NN-pass.mlir`; do nothing without a folder."""
    if folder is not None:
        file = make_folder(Path(folder)) / f"{number:02d}-{name}.mlir"
        write_text(file, f"{module}\n")
