"""Choose what a plain `pytest` leaves out, by the processor time that tests take.

    pytest --full --cpu-times FOLDER      # all of them; on a busy machine, too
    python benchmarks/quick_tests.py FOLDER [--budget 1100] [--write]

Leaves out what takes the most time, until the rest takes no more than the budget: in
seconds of one processor, of which two of them have 1440 in twelve minutes. `KEPT`, at
least one strong test of each area, stays. Prints what each folder keeps, and with
`--write` writes `tests/full.txt`.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
FILE = ROOT / "tests/full.txt"
BUDGET = 1100.0
HEAD = """\
# What only `pytest --full` runs, as CI does: files, or functions of them, with the
# seconds of a processor that they take. Written by benchmarks/quick_tests.py.
"""
KEPT = (
    "tests/e2e/test_digits.py",
    "tests/fuzz/test_programs.py",
    "tests/dialects/test_compiled_programs.py",
    "tests/passes/test_meaning.py",
    "tests/kernels/test_contraction.py",
    "tests/checks/test_self_check_faults.py::"
    "test_a_wrong_lowering_fails_the_build_with_op_and_line",
    "tests/importers/test_compiled.py",
    "tests/just_in_time/test_jit.py",
    "tests/hybrid_programs/test_semantics.py",
    "tests/examples/test_models.py::test_a_dense_network_reads_digits_better",
    "tests/runtime/test_runtime.py",
    "tests/training/test_fit.py",
    "tests/cli/test_run.py",
)


def read_times(folder: Path) -> dict[str, float]:
    """Return the seconds of each test function, summed over its parameters."""
    found: defaultdict[str, float] = defaultdict(float)
    for file in sorted(folder.glob("*.jsonl")):
        for line in file.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            found[row["test"].partition("[")[0]] += row["seconds"]
    return dict(found)


def units_of(times: Mapping[str, float]) -> dict[str, float]:
    """Return the seconds of each unit that can be left out: a function or a file.

    That one makes the fixtures of the file, which another would make in its place.
    """
    files: defaultdict[str, dict[str, float]] = defaultdict(dict)
    for name, seconds in times.items():
        files[name.partition("::")[0]][name] = seconds
    units = {}
    for file, functions in files.items():
        whole, most = sum(functions.values()), max(functions.values())
        units.update({file: whole} if most > whole / 2 else functions)
    return units


def left_out(
    units: Mapping[str, float], budget: float, kept: Sequence[str] = KEPT
) -> dict[str, float]:
    """Return the costliest units whose omission brings the rest within a budget.

    Raises:
        SystemExit: what is kept takes more than that.
    """
    rest, found = sum(units.values()), {}
    for name, seconds in sorted(units.items(), key=lambda pair: -pair[1]):
        if rest <= budget:
            break
        if not any(one.startswith(other) for one, other in _pairs(name, kept)):
            found[name] = seconds
            rest -= seconds
    if rest > budget:
        raise SystemExit(f"what is always kept takes {rest:.0f} s, over {budget:.0f}")
    return found


def _pairs(name: str, kept: Sequence[str]) -> list[tuple[str, str]]:
    """Return pairs of a name with each kept unit."""
    return [pair for each in kept for pair in ((name, each), (each, name))]


def to_text(found: Mapping[str, float]) -> str:
    """Return the text of the file that lists left-out tests."""
    rows = [f"{name}  # {seconds:.0f}\n" for name, seconds in sorted(found.items())]
    return HEAD + "".join(rows)


def folders_text(units: Mapping[str, float], found: Mapping[str, float]) -> str:
    """Return a line per folder: its seconds, and how many of them are kept."""
    whole: defaultdict[str, float] = defaultdict(float)
    kept: defaultdict[str, float] = defaultdict(float)
    for name, seconds in units.items():
        folder = Path(name.partition("::")[0]).parent.as_posix()
        whole[folder] += seconds
        kept[folder] += 0 if name in found else seconds
    rows = [f"{whole[x]:8.0f} s {kept[x]:8.0f} s kept  {x}" for x in sorted(whole)]
    total = f"{sum(whole.values()):8.0f} s {sum(kept.values()):8.0f} s kept"
    return "\n".join([*rows, total])


def main() -> None:
    """Choose the tests to leave out, and write their list."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--budget", type=float, default=BUDGET, help="seconds (1100)")
    parser.add_argument("--write", action="store_true", help=f"write {FILE.name}")
    asked = parser.parse_args()
    units = units_of(read_times(asked.folder))
    found = left_out(units, asked.budget)
    print(folders_text(units, found))
    if asked.write:
        FILE.write_text(to_text(found), encoding="utf-8")


if __name__ == "__main__":
    main()
