"""Plants faults in the code generator of this process, and checks what it makes."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import wraps
from math import inf
from pathlib import Path
from typing import Any
from unittest.mock import patch

from aotc.checks import failures, self_check
from aotc.errors import CompileError
from aotc.kernels.planning import winograd as winograd_tile
from aotc.machine.target import Target
from aotc.pipeline import build


@dataclass(frozen=True)
class Fault:
    """A fault to plant: a function of aotc and its faulty replacement.

    Args:
        says: what is wrong, in words.
        family: of kernels, or `IREE` for what it compiles from linalg.
        entry: of the model, that it spoils.
        owner: the module or class that has what is replaced.
        name: of that.
        wrong: gives what it is replaced with, given what is right.
        touches: names of what it spoils besides its own family, so that no other fault
            there is planted at the same time.
        model: the module of this package with the entry.
    """

    says: str
    family: str
    entry: str
    owner: Any
    name: str
    wrong: Callable[[Any], Any]
    touches: frozenset[str] = frozenset()
    model: str = "model"

    @property
    def spoils(self) -> frozenset[str]:
        """The entries or kernel families that no other fault may spoil at the same
        time.
        """
        own = self.entry if self.family == "IREE" else self.family
        return self.touches | {own}


@dataclass(frozen=True)
class Outcome:
    """The outcome of a planted fault: if it ran, and the self-check's message.

    Args:
        fault: that was planted.
        calls: how many times the code generator ran into it.
        message: of the self-check; empty if it has found nothing.
    """

    fault: Fault
    calls: int
    message: str

    @property
    def is_caught(self) -> bool:
        """Return whether the fault ran and the self-check found it."""
        return bool(self.calls and self.message)

    def __str__(self) -> str:
        verdict = "caught" if self.is_caught else "MISSED"
        if not self.calls:
            verdict = "NOT PLANTED"
        first = self.message.partition("\n")[2].partition("\n")[0].strip()
        said = f"\n      {first}" if first else ""
        fault = self.fault
        return f"  {verdict:<8} {fault.family:<12} {fault.entry}: {fault.says}{said}"


def rounds_of(faults: Sequence[Fault]) -> list[list[Fault]]:
    """Group faults that can be planted together, for one build each."""
    rounds: list[list[Fault]] = []
    for fault in faults:
        for group in rounds:
            is_free = all(not fault.spoils & other.spoils for other in group)
            if is_free and all(fault.model == other.model for other in group):
                group.append(fault)
                break
        else:
            rounds.append([fault])
    return rounds


def outcomes(group: Sequence[Fault]) -> list[Outcome]:
    """Build a model with planted faults; return the self-check's outcome for each."""
    calls = dict.fromkeys(group, 0)
    with ExitStack() as stack:
        for fault in group:
            stack.enter_context(_planted(fault, calls))
        # small convolutions are computed by Winograd's algorithm, too
        stack.enter_context(patch.object(winograd_tile, "_WORTH", inf))
        module = group[0].model
        wanted = [fault.entry for fault in group]
        source = f"from benchmarks.planted_faults.{module} import {', '.join(wanted)}"
        found = check(source, numerics="relaxed" if module == "relaxed" else None)
    return [Outcome(fault, calls[fault], found[fault.entry]) for fault in group]


@contextmanager
def _planted(fault: Fault, calls: dict[Fault, int]) -> Iterator[None]:
    """Replace a function by the faulty one in this context; count its calls."""
    own = vars(fault.owner).get(fault.name)
    is_property = isinstance(own, property)
    right = own.fget if is_property else getattr(fault.owner, fault.name)
    wrong = fault.wrong(right)

    @wraps(wrong)
    def counted(*given: Any, **named: Any) -> Any:
        calls[fault] += 1
        return wrong(*given, **named)

    replaced = property(counted) if is_property else counted
    if isinstance(own, (staticmethod, classmethod)):
        replaced = staticmethod(counted)
    with patch.object(fault.owner, fault.name, replaced):
        yield


def check(source: str, *, numerics: str | None = None) -> Mapping[str, str]:
    """Build a model and self-check each entry; return its message, empty if right.

    Args:
        source: of the model.
        numerics: as `aotc build` takes it.

    Returns:
        For each entry what the self-check says of it; empty if it was compared, and
        nothing is wrong.
    """
    found: dict[str, str] = {}
    check_entries = self_check.check_entries

    def check_each(program: Any, graph: Any, *given: Any, **named: Any) -> list[Any]:
        named |= {"started": None}  # which is of all entries
        for name in (entry.name for entry in program.entry_points):
            try:
                (row,) = check_entries(program, graph, *given, entries=[name], **named)
            except CompileError as error:
                found[name] = error.message
            else:
                found[name] = "" if row.checked else str(row)
        return []

    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        stack.enter_context(patch.object(self_check, "check_entries", check_each))
        # where a difference begins takes many compiles, and is not asked here
        nowhere = patch.object(
            failures, "locate_divergence", lambda *_: (None, "not sought")
        )
        stack.enter_context(nowhere)
        path = Path(folder) / "planted.py"
        path.write_text(f"{source}\n")
        build(
            path,
            output=Path(folder),
            targets=[Target.parse("cpu")],
            sign=False,
            cache=False,
            numerics=numerics,
        )
    return found
