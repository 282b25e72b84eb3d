"""Agreement of results with NumPy, SciPy, JAX and PyTorch, on many settings.

    pip install -e '.[compiler]' torch jax optax scipy && python -m benchmarks.parity

Compared are the NumPy references of all ops of the dialect, the public functions of
aotc.numpy, special, linalg, fft, control, nn and optim, and derivatives and vmap. One
row per function and peer: how many settings agree, of how many, how many the peer
refuses, and the largest difference in ulps. What counts as agreement is in
`agreement.LIMITS`; differences that were examined and stay are in `accepted.ACCEPTED`,
and counted on their own. Exits with 1 if anything else differs.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor

from benchmarks.parity.agreement import LIMITS
from benchmarks.parity.judging import PARTS, VERDICTS, Judged, judge
from benchmarks.parity.ops import NO_PEER


def main() -> int:
    """Compare all functions with their peers, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="only these")
    parser.add_argument("--only", default="", help="names that contain this")
    parser.add_argument("--refusals", action="store_true", help="what peers refuse")
    parser.add_argument("--json", help="write the rows to this file")
    asked = parser.parse_args()
    start, rows, parts = time.perf_counter(), Rows(), asked.parts or [*PARTS]
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(2, spawn) as pool:
        for found in pool.map(judge, parts, [asked.only] * len(parts)):
            rows.take(found)
    rows.print(asked.refusals)
    for name, why in NO_PEER.items():
        print(f"no peer has the op {name}: {why}")
    print(f"{time.perf_counter() - start:.0f} s")
    if asked.json:
        with open(asked.json, "w", encoding="utf-8") as file:
            json.dump(
                {"schema": "aotc.parity/1", "rows": rows.to_json()}, file, indent=1
            )
    return int(bool(rows.differing))


class Rows:
    """Counts of verdicts by part, function and peer."""

    def __init__(self) -> None:
        self.counts: dict[tuple[str, str, str], Counter[str]] = defaultdict(Counter)
        self.largest: dict[tuple[str, str, str], float] = defaultdict(float)
        self.differing: list[Judged] = []
        self.refused: Counter[tuple[str, str, str]] = Counter()

    def take(self, results: Iterable[Judged]) -> None:
        """Count verdicts, and keep the results that differ."""
        for each in results:
            row = (each.part, each.name, each.peer)
            self.counts[row][each.verdict] += 1
            if each.verdict == "refused":
                self.refused[each.name, each.peer, each.refusal] += 1
            elif each.verdict != "accepted":
                self.largest[row] = max(self.largest[row], each.difference)
            if each.verdict == "differ":
                self.differing.append(each)

    def to_json(self) -> list[dict[str, object]]:
        """Return one JSON object per row."""
        return [
            {
                "part": part, "name": name, "peer": peer,
                **{verdict: counts[verdict] for verdict in VERDICTS},
                "largest_ulps": self.largest[part, name, peer],
            }
            for (part, name, peer), counts in self.counts.items()
        ]  # fmt: skip

    def print(self, refusals: bool) -> None:
        """Print the table, what differs, and the totals by peer."""
        head = "".join(f"{verdict:>9}" for verdict in VERDICTS)
        print(f"{'part':9}{'function':32}{'peer':6}{head}{'largest (ulps)':>16}")
        for row, counts in self.counts.items():
            print(_line(row, counts, f"{self.largest[row]:16.3g}"))
        if refusals:
            for (name, peer, text), count in self.refused.items():
                print(f"{peer} refuses {count} settings of {name}: {text[:100]}")
        for each in self.differing:
            print(
                f"DIFFERS: {each.name} {each.part} {each.setting} from {each.peer} by "
                f"{each.difference:.4g} ulps ({each.kind}: {LIMITS[each.kind]})"
            )
        for row, counts in self._totals():
            print(_line(row, counts, ""))

    def _totals(self) -> Iterator[tuple[tuple[str, str, str], Counter[str]]]:
        """Yield the sums of all counts by part and peer."""
        totals: dict[tuple[str, str, str], Counter[str]] = defaultdict(Counter)
        for (part, _, peer), counts in self.counts.items():
            totals[part, "all", peer] += counts
            totals["all", "all", peer] += counts
            totals["all", "all", "all"] += counts
        yield from sorted(totals.items(), key=lambda item: item[0][0] == "all")


def _line(row: tuple[str, str, str], counts: Counter[str], tail: str) -> str:
    """Return a row of counts as text."""
    part, name, peer = row
    numbers = "".join(f"{counts[verdict]:9}" for verdict in VERDICTS)
    return f"{part:9}{name:32}{peer:6}{numbers}{tail}"


if __name__ == "__main__":
    sys.exit(main())
