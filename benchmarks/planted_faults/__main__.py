"""Plants faults in the code generator, and has the self-check of builds look for them.

    python -m benchmarks.planted_faults [--only TEXT] [--right]

Each fault is in the code of an entry of its own; those that do not meet are planted
together, for one build. All are to be caught by what `aotc build` does by default. Then
programs that are hostile to a check (sums that cancel, ties, masks that hide all, near
overflow, half floats, NaN) are built without faults: none may be called wrong. Exits
with 1 if a fault is missed or a program is.
"""

from __future__ import annotations

import argparse
import sys
import time

from .faults import FAULTS
from .hostile import PROGRAMS, alarms
from .planting import outcomes, rounds_of


def main() -> int:
    """Plant faults or build right programs, as asked for; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.planted_faults")
    parser.add_argument("--only", default="", help="faults with this in their line")
    parser.add_argument("--right", action="store_true", help="only programs")
    asked = parser.parse_args()
    chosen = [
        fault
        for fault in FAULTS
        if asked.only in f"{fault.family} {fault.entry}: {fault.says}"
    ]
    return (0 if asked.right else _plant(chosen)) | (0 if asked.only else _build())


def _plant(faults: list) -> int:
    """Plant faults and print the outcomes; return the number missed."""
    missed = 0
    for group in rounds_of(faults):
        start = time.perf_counter()
        for outcome in outcomes(group):
            print(outcome, flush=True)
            missed += not outcome.is_caught
        print(f"  ({time.perf_counter() - start:.0f} s)", flush=True)
    print(f"{len(faults) - missed} of {len(faults)} faults caught")
    return int(missed > 0)


def _build() -> int:
    """Build right programs; print false alarms and return 1 if there are any."""
    found = alarms()
    for name, message in found.items():
        print(f"  FALSE ALARM {name}: {message}")
    print(f"{len(found)} false alarms in {len(PROGRAMS)} right programs")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
