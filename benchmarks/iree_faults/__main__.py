"""Check of which faults of IREE are still in the release that is installed.

    python -m benchmarks.iree_faults [NAME …] [--list]

Each row of the table (`table/`) has a witness: a small module, or a few lines of
Python, by which the fault shows. It is looked at in a process of its own, which it may
end. Exits with 1 if a fault is gone that was there, there that was not reproduced, or
shows in another way: then its row, and perhaps the code that avoids it, has to change.
"""

from __future__ import annotations

import argparse
import sys

from .looking import Verdict, look_at_all, look_here, named
from .table import FAULTS


def main() -> int:
    """Check the faults that the command line asks for; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.iree_faults",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", help="of faults; all by default")
    parser.add_argument("--list", action="store_true", help="only say what there is")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    faults = [named(name) for name in asked.names] or list(FAULTS)
    if asked.here:
        print(look_here(faults[0]))
        return 0
    if asked.list:
        for fault in faults:
            print(f"{fault.name}: {fault.witness.describe()}")
        return 0
    return _report(faults)


def _report(faults: list) -> int:
    """Check faults and print the findings; return 1 if one is unexpected."""
    counts = dict.fromkeys(Verdict, 0)
    unexpected = 0
    for finding in look_at_all(faults):
        print(finding, flush=True)
        counts[finding.verdict] += 1
        unexpected += not finding.is_expected
    print(", ".join(f"{count} {verdict.value}" for verdict, count in counts.items()))
    return int(unexpected > 0)


if __name__ == "__main__":
    sys.exit(main())
