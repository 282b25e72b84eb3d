"""Public functions at their edges, beside NumPy, SciPy and JAX.

    python -m benchmarks.fuzz.edges                          # one edge at a time
    python -m benchmarks.fuzz.edges --pairs 100 --seed 7     # two at once, at random
    python -m benchmarks.fuzz.edges --peers scipy --only special.

Exits with 1 if a function gives another value than the one that it is named after, or
fails in another way, and no row of `documented.py` says why.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter

from .comparing import compared
from .documented import reason_of

PEERS = ("numpy", "scipy", "jax")


def main() -> int:
    """Print the cases whose result differs, and counts of verdicts."""
    asked = _arguments()
    counts: dict[str, Counter[str]] = {}
    faults, functions, start = 0, set(), time.monotonic()
    for each in compared(frozenset(asked.peers), asked.only, asked.pairs, asked.seed):
        functions.add(each.case.function)
        is_alike = each.verdict in ("same", "refused")
        row = None if is_alike else reason_of(each)
        kind = each.verdict if is_alike else "documented" if row else "fault"
        counts.setdefault(each.library, Counter())[kind] += 1
        if kind == "fault":
            faults += 1
            print(each, flush=True)
    for library, found in counts.items():
        told = ", ".join(f"{count} {kind}" for kind, count in found.most_common())
        print(f"{library}: {sum(found.values())} cases: {told}")
    print(f"{len(functions)} functions, {time.monotonic() - start:.0f} s")
    return int(faults > 0)


def _arguments() -> argparse.Namespace:
    """Return the parsed command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.fuzz.edges", description=__doc__.splitlines()[0]
    )
    add = parser.add_argument
    add("--peers", nargs="+", choices=PEERS, default=["numpy"], help="(numpy)")
    add("--only", default="", help="functions whose names contain this")
    add("--pairs", type=int, default=0, help="cases with two edges for each call")
    add("--seed", type=int, default=0, help="of what is drawn")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
