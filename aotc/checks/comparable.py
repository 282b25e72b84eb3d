"""The targets and entries of a build that can be compared on this machine."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

from aotc.artifacts.backends import BACKENDS
from aotc.artifacts.rollout.candidates import reasons_against
from aotc.dialects.functions.entries import Entry
from aotc.dialects.functions.functions import functions_of
from aotc.errors import InputError, SetupError
from aotc.machine.target import Target
from aotc.passes.record_devices import ops_over_devices
from aotc.programs.program import Program
from aotc.runtime import engine


def has_code_for_here(targets: Sequence[Target]) -> bool:
    """Return whether this machine's processor runs one of some targets."""
    on_cpu = [target for target in targets if BACKENDS[target.backend].on_cpu]
    host = engine.host({target.backend for target in on_cpu})
    return any(not reasons_against(target, host) for target in on_cpu)


def comparable_targets(targets: Sequence[Target]) -> tuple[Target, ...]:
    """Return the targets that run here; warn of the others.

    Raises:
        SetupError: `incompatible`: none of them does.
    """
    host = engine.host({target.backend for target in targets})
    against = {target: reasons_against(target, host) for target in targets}
    found = tuple(target for target in targets if not against[target])
    left_out = "; ".join(
        f"{target}: {', '.join(map(str, reasons))}"
        for target, reasons in against.items()
        if reasons
    )
    if not found:
        raise SetupError(
            "incompatible",
            f"nothing can be compared with the source, as no target runs here: "
            f"{left_out}",
            hint="name a target of this machine, too; a build may leave --parity out",
        )
    if left_out:
        compared = ", ".join(map(str, found))
        warnings.warn(
            f"code for {compared} is compared with the source, and not what this "
            f"machine does not run ({left_out})",
            stacklevel=2,
        )
    return found


def entries_over_devices(program: Program) -> set[str]:
    """Return the names of entries whose calls several devices compute together."""
    functions = functions_of(program.module)
    entries = program.entry_points
    return {x.name for x in entries if any(ops_over_devices(functions, x.name))}


def comparable_entries(program: Program) -> list[Entry]:
    """Return the entries that one device computes; warn of the others.

    Raises:
        InputError: `needs-devices`: there are only others.
    """
    several = entries_over_devices(program)
    found = [x for x in program.entry_points if x.name not in several]
    left_out = ", ".join(sorted(several))
    if not found:
        raise InputError(
            "needs-devices",
            "nothing can be compared with the source, as several devices compute each "
            f"entry together ({left_out}), and a comparison has one",
            hint="give parts of the network that need no other device entries of their "
            "own, which are compared; a build may leave out --parity",
        )
    if several:
        warnings.warn(
            f"{', '.join(x.name for x in found)} {'are' if len(found) > 1 else 'is'} "
            f"compared with the source, and not {left_out}, which several devices "
            "compute together",
            stacklevel=2,
        )
    return found
