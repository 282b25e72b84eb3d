"""A table of what each target can compile: every case of every op, target by target.

    python -m benchmarks.op_targets vmvx aarch64 riscv64 cuda vulkan --write

Cases are compiled many at a time; a batch that fails is compiled in parts, until the
cases that fail stand alone. Prints the counts for each target, and the failures by op
and dtype with IREE's message; `--write` puts what never compiles into
`dialects/limits.json`. `--ops` chooses fewer cases.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from aotc.backend import compile_targets
from aotc.dialects import limits
from aotc.errors import CompileError
from aotc.machine.target import Target
from tests.dialects.cases import Case, all_cases, lowered_program

BATCH = 64
PARTS = 8  # of a batch that fails: often many of its cases do


@dataclass(frozen=True)
class Failure:
    """An op's case that a target does not compile, and the error."""

    case: Case
    code: str
    message: str

    @property
    def reason(self) -> str:
        """IREE's error message without case-specific details."""
        said = self.message.partition("': ")[2] or self.message
        return said.partition(" that was explicitly marked illegal")[0].split(": %")[0]

    def to_json(self) -> dict[str, str]:
        """Return the failure as a JSON row."""
        return {
            "case": str(self.case),
            "op": self.case.op,
            "dtypes": self.case.dtypes,
            "code": self.code,
            "message": self.message,
        }


def failures(cases: Sequence[Case], target: Target) -> Iterator[Failure]:
    """Yield the cases that a target does not compile, bisected from all together."""
    try:
        compile_targets(lowered_program(cases), [target])
    except CompileError as error:
        if len(cases) == 1:
            yield Failure(cases[0], error.code, error.message)
            return
        size = -(-len(cases) // PARTS)
        for first in range(0, len(cases), size):
            yield from failures(cases[first : first + size], target)


def sweep(cases: Sequence[Case], target: Target) -> list[Failure]:
    """Return all failures of a target; similar cases are compiled together."""
    ordered = sorted(cases, key=lambda case: (case.dtypes, case.op))
    found: list[Failure] = []
    for first in range(0, len(ordered), BATCH):
        found += failures(ordered[first : first + BATCH], target)
        done = min(first + BATCH, len(ordered))
        print(f"\r{target}: {done}/{len(ordered)}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return found


def report(target: Target, count: int, found: Sequence[Failure], seconds: float) -> str:
    """Return the report: counts, and a line per op with the messages of its
    failures.
    """
    lines = [f"{target}: {count - len(found)} of {count} cases, {seconds:.0f} s"]
    groups: dict[tuple[str, str], list[str]] = defaultdict(list)
    for failure in found:
        groups[failure.case.op, failure.reason].append(failure.case.label)
    for (op, reason), labels in sorted(groups.items()):
        lines.append(f"  {op:<20} {' '.join(labels)}\n      {reason[:120]}")
    return "\n".join(lines)


def never(cases: Sequence[Case], found: Sequence[Failure]) -> dict[str, dict[str, str]]:
    """Return, by op, the dtypes of which no case compiles, with the reason."""
    failed = {str(failure.case) for failure in found}
    compiled = {(c.op, c.dtypes) for c in cases if str(c) not in failed}
    limits: dict[str, dict[str, str]] = defaultdict(dict)
    for failure in found:
        op, dtypes = failure.case.op, failure.case.dtypes
        if (op, dtypes) not in compiled:
            limits[op].setdefault(dtypes, failure.reason[:80])
    return {op: dict(sorted(limits[op].items())) for op in sorted(limits)}


def write(family: str, ops: set[str], found: dict[str, dict[str, str]]) -> None:
    """Write the table's entries of `ops` for a family of targets."""
    known = limits.table()
    kept = {op: kinds for op, kinds in known.get(family, {}).items() if op not in ops}
    families = {**known, family: {**kept, **found}}
    document = {"schema": "aotc.op-limits/1", "families": families}
    text = json.dumps(document, indent=1, sort_keys=True)
    limits.FILE.write_text(f"{text}\n", encoding="utf-8")
    limits.table.cache_clear()


def main() -> None:
    """Sweep over the targets that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("targets", nargs="+", type=Target.parse)
    parser.add_argument("--ops", nargs="*", help="only these")
    parser.add_argument("--json", help="write all failures to this file")
    parser.add_argument(
        "--write", action="store_true", help="renew the table of limits"
    )
    asked = parser.parse_args()
    cases = [case for case in all_cases() if not asked.ops or case.op in asked.ops]
    document = {}
    for target in asked.targets:
        start = time.perf_counter()
        found = sweep(cases, target)
        seconds = time.perf_counter() - start
        print(report(target, len(cases), found, seconds), flush=True)
        if asked.write:
            write(target.family, {case.op for case in cases}, never(cases, found))
        document[str(target)] = {
            "cases": len(cases),
            "failures": [failure.to_json() for failure in found],
        }
    if asked.json:
        with open(asked.json, "w", encoding="utf-8") as file:
            json.dump(
                {"schema": "aotc.op-targets/1", "targets": document}, file, indent=1
            )


if __name__ == "__main__":
    main()
