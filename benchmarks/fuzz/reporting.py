"""The outcome of a run: counts, coverage and failures."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .checking import Checked
from .failures import Failure
from .programs import Program, to_json
from .scope import Bug
from .source import model_source


@dataclass
class Report:
    """Counts of checked programs by outcome.

    A program is a function under one transformation: that is what is compiled.
    """

    programs: int = 0
    passed: int = 0
    elements: int = 0
    open: int = 0
    in_jax: int = 0
    certified: int = 0
    unreached: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    transforms: Counter[str] = field(default_factory=Counter)
    dtypes: Counter[str] = field(default_factory=Counter)
    functions: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    failures: list[tuple[Program, Failure]] = field(default_factory=list)
    right: list[Program] = field(default_factory=list)
    bugs: dict[str, Bug] = field(default_factory=dict)
    seconds: float = 0.0

    def add(self, checked: Checked) -> None:
        """Count a checked program."""
        program = checked.program
        self.programs += 1
        self.elements += checked.elements
        self.open += checked.open
        self.in_jax += checked.in_jax
        self.certified += checked.certified
        self.unreached += checked.unreached
        if checked.failure is None:
            self._cover(program)
        elif checked.failure.is_refusal:
            self.refused[checked.failure.message.partition(":")[0]] += 1
        else:
            self.failures.append((program, checked.failure))

    def _cover(self, program: Program) -> None:
        """Count what a right program covers: functions, dtypes and transformations."""
        self.passed += 1
        self.right.append(program)
        self.transforms[program.variant] += 1
        self.dtypes.update({x.dtype for x in program.inputs})
        for name in program.functions:
            self.functions[name].add(program.variant)

    def add_bug(self, bug: Bug) -> None:
        """Record an exception of a function, one of each kind."""
        self.bugs.setdefault(f"{bug.code.partition('(')[0]} {bug.message[:40]}", bug)

    @property
    def is_clean(self) -> bool:
        """Return whether nothing is wrong."""
        return not self.failures and not self.bugs

    def to_json(self) -> dict[str, Any]:
        """Return the report as JSON."""
        return {
            "schema": "aotc.fuzz/1",
            "programs": self.programs,
            "passed": self.passed,
            "refused": dict(self.refused),
            "elements": self.elements,
            "open": self.open,
            "in_jax": self.in_jax,
            "certified": self.certified,
            "unreached": self.unreached,
            "transforms": dict(self.transforms),
            "dtypes": dict(self.dtypes),
            "functions": {name: sorted(v) for name, v in self.functions.items()},
            "failures": [
                {"kind": f.kind, "message": f.message, "program": to_json(program)}
                for program, f in self.failures
            ],
            "bugs": [
                {"code": b.code, "message": b.message} for b in self.bugs.values()
            ],
            "seconds": round(self.seconds, 1),
        }

    def to_text(self) -> str:
        """Return the report as text."""
        share = self.open / max(self.elements, 1)
        lines = [
            f"{self.programs} programs in {self.seconds:.0f} s: {self.passed} right, "
            f"{sum(self.refused.values())} refused, {len(self.failures)} failed; "
            f"{self.in_jax} compared with JAX",
            f"{self.elements} elements compared, {share:.1%} open to rounding",
            f"{len(self.functions)} functions, under "
            + ", ".join(f"{k} {v}" for k, v in self.transforms.most_common()),
            f"{self.certified} derivatives certified, {self.unreached} not reached",
            "refused: " + ", ".join(f"{k} {v}" for k, v in self.refused.most_common()),
        ]
        lines += [f"BUG: {b.code}\n  {b.message}" for b in self.bugs.values()]
        return "\n".join(lines)


def failure_text(program: Program, failure: Failure) -> str:
    """Return a failure with the model file that shows it, as text."""
    return f"# {failure.kind}: {failure.message}\n{model_source(program)}"


def keep(folder: Path, program: Program, failure: Failure) -> Path:
    """Write a reduced program to a folder of regression tests; return the file's
    path.
    """
    folder.mkdir(parents=True, exist_ok=True)
    variant = program.variant.replace(" ", "-")
    file = folder / f"{failure.kind}-{program.seed}-{variant}.json"
    data = {"was": f"{failure.kind}: {failure.message[:300]}", **to_json(program)}
    file.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    return file
