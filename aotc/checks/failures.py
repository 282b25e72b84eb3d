"""Errors with which a self-check ends a build: what is wrong, and where."""

from __future__ import annotations

from collections.abc import Sequence

from aotc.artifacts.checked import sizes_text
from aotc.backend import CompiledVariant
from aotc.checks.bisect import locate_divergence
from aotc.checks.block_check import BlockFindings
from aotc.checks.checked_devices import CheckedDevicesEntry
from aotc.checks.checked_entry import Arrays, CheckedEntry
from aotc.checks.judging import RoundingRule, Verdict
from aotc.checks.samples import CheckItem
from aotc.errors import AotcError, CompileError
from aotc.machine.target import Target

HINT = (
    "the compiler is at fault, not the model: please report it; --self-check=off "
    "builds all the same"
)


def wrong_results(
    checked: CheckedEntry,
    item: CheckItem,
    variant: CompiledVariant,
    verdicts: Sequence[Verdict],
    arguments: Arrays,
    expected: Arrays,
) -> CompileError:
    """Return the error for a call that failed `verdicts`, with the first op at fault.

    Args:
        checked: the entry.
        item: that it was called with.
        variant: of the entry.
        verdicts: on each result.
        arguments: of the call.
        expected: the results by the reference evaluator.
    """
    where, begins = place_of(checked, variant, arguments, expected)
    lines = [f"  FAIL {each}" for each in verdicts if not each.passed]
    wrong = "\n".join([*lines, f"  {begins}"])
    return CompileError(
        "self-check",
        f"entry '{checked.entry.name}', compiled for '{variant.target}', does "
        f"not compute what its graph says{sizes_text([item.sizes])}"
        f"{item.structure_text}:\n{wrong}",
        where=where,
        hint=HINT,
    )


def place_of(
    checked: CheckedEntry, variant: CompiledVariant, arguments: Arrays, results: Arrays
) -> tuple[str | None, str]:
    """Return the source line where a call begins to differ, and a sentence on it."""
    if isinstance(checked, CheckedDevicesEntry):
        return None, "where it begins is not looked for, as several devices compute it"
    outputs = results[: len(checked.entry.ports("output"))]
    return locate_divergence(
        checked.program,
        checked.graph,
        checked.entry,
        variant,
        arguments,
        outputs,
        RoundingRule(),
    )


def wrong_block(
    checked: CheckedEntry,
    item: CheckItem,
    variant: CompiledVariant,
    found: BlockFindings,
) -> CompileError:
    """Return the error for an entry of which a block of ops is wrong."""
    given = [each for each in found.verdicts if not each.passed]
    wrong = [f"  FAIL {each}" for each in (*given, found.misplaced) if each]
    return CompileError(
        "self-check",
        f"entry '{checked.entry.name}', compiled for '{variant.target}', does not "
        f"compute what its graph says{sizes_text([item.sizes])}, in {found.wrong}:\n"
        + "\n".join(wrong),
        where=found.where,
        hint=HINT,
    )


def load_error(target: Target, error: AotcError) -> AotcError:
    """Return the error for a build whose code cannot be loaded; a CompileError as it
    is.
    """
    if isinstance(error, CompileError):
        return error
    return CompileError(
        "not-loadable",
        f"the code that was compiled for '{target}' cannot be loaded: {error.message}",
        where=error.where,
        hint=HINT,
    )
