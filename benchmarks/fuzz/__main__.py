"""Random programs, compiled and run, against the reference evaluator and JAX.

    python -m benchmarks.fuzz --programs 200 --seed 1000

Every function of aotc's public packages may be in them, under any transformation.
Programs that fail are made smaller and written to `--keep`. Exits with 1 if any failed.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from aotc.programs.program import LEVELS
from benchmarks.frontends.kernel_sizes import write_kernels_of_any_size

from .building import Settings
from .checking import check
from .failures import Failure
from .generation import (
    VARIANTS,
    Choice,
    random_program,
    training_steps,
    variants,
)
from .jax_peer import jax_library
from .programs import Program, to_json
from .reducing import reduced
from .reporting import Report, failure_text, keep
from .running import Runner
from .scope import Refused

BATCH = 16
ALIKE = 3  # failures with one cause that are reduced


def main() -> int:
    """Run the fuzzer; return 1 if a program failed."""
    asked = _arguments()
    # A random program need not use all its inputs.
    warnings.filterwarnings("ignore", message=".*is not used")
    if asked.kernels:
        write_kernels_of_any_size()
    report, start = Report(), time.monotonic()
    jax = jax_library() if asked.jax else None
    settings = Settings(asked.target, asked.level)
    with Runner() as runner:
        for batch in _batches(asked, report, start):
            for checked in check(batch, runner, jax, settings, asked.certify):
                report.add(checked)
            report.seconds = time.monotonic() - start
            _progress(report, asked.programs)
        failures = _reduced_failures(report, runner, jax, settings, asked)
    print(file=sys.stderr)
    for program, failure in failures:
        print(failure_text(program, failure), flush=True)
        if asked.keep:
            print(f"# written to {keep(asked.keep, program, failure)}")
    print(report.to_text())
    if asked.write:
        rows = [to_json(program) for program in report.right]
        asked.write.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    if asked.json:
        asked.json.write_text(json.dumps(report.to_json(), indent=1), encoding="utf-8")
    return int(not report.is_clean)


def _arguments() -> argparse.Namespace:
    """Return the parsed command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.fuzz", description=__doc__.splitlines()[0]
    )
    add = parser.add_argument
    add("--programs", type=int, default=100, help="how many (100)")
    add("--seed", type=int, default=0, help="of the first one; others count on")
    add("--time-budget", type=float, default=float("inf"), help="in seconds")
    add("--only", help="a function that all use, such as np.sort")
    add("--dtype", help="of float inputs, such as float16")
    add("--steps", type=int, default=6, help="the most in a program (6)")
    add("--transform", choices=VARIANTS, help="only this one, such as grad")
    add("-O", dest="level", type=int, choices=LEVELS, default=LEVELS[-1], help="level")
    add("--target", default="cpu", help="to compile for (cpu)")
    add("--kernels", action="store_true", help="kernels for small operators, too")
    add("--certify", action="store_true", help="certify the gradients they take, too")
    add("--jax", action="store_true", help="compare with JAX as well")
    add("--reduce", type=float, default=120, help="seconds for each failure (120)")
    add("--keep", type=Path, help="a folder for the programs that failed, reduced")
    add("--write", type=Path, help="write the programs that pass to this file")
    add("--json", type=Path, help="write counts and failures to this file")
    return parser.parse_args()


def _batches(
    asked: argparse.Namespace, report: Report, start: float
) -> Iterator[list[Program]]:
    """Yield batches of programs until there are enough or the time is up."""
    batch: list[Program] = []
    for made, program in enumerate(_programs(asked, report), 1):
        batch.append(program)
        if len(batch) == BATCH or made == asked.programs:
            yield batch
            batch = []
        if made == asked.programs or time.monotonic() - start > asked.time_budget:
            return


def _programs(asked: argparse.Namespace, report: Report) -> Iterator[Program]:
    """Yield random programs, each forward and under one transformation in turn."""
    choice, seed = Choice(asked.only, asked.dtype, asked.steps), asked.seed
    while True:
        try:
            program, bugs = random_program(seed, choice)
        except Refused as error:
            raise SystemExit(str(error)) from None
        for bug in bugs:
            report.add_bug(bug)
        plain, *others = variants(program)
        if asked.transform:
            drawn = (plain, *others, *training_steps(program))
            chosen = [p for p in drawn if p.variant == asked.transform]
        else:
            chosen = [plain, *others[seed % len(others) :][:1]] if others else [plain]
        yield from chosen
        seed += 1


def _progress(report: Report, programs: int) -> None:
    """Print how many programs have been checked."""
    line = (
        f"{report.programs}/{programs} programs, {len(report.failures)} failed, "
        f"{report.seconds:.0f} s"
    )
    end = "" if sys.stderr.isatty() else "\n"
    print(f"\r{line}", end=end, file=sys.stderr, flush=True)


def _reduced_failures(
    report: Report,
    runner: Runner,
    jax: Any,
    settings: Settings,
    asked: argparse.Namespace,
) -> list[tuple[Program, Failure]]:
    """Return all failures; the first of each cause is reduced to a small program."""

    def failing(programs: list[Program]) -> dict[int, Failure]:
        found = {id(p): n for n, p in enumerate(programs)}
        return {
            found[id(checked.program)]: checked.failure
            for checked in check(programs, runner, jax, settings, asked.certify)
            if checked.failure is not None and not checked.failure.is_refusal
        }

    counts: dict[str, int] = {}
    results = []
    for program, failure in report.failures:
        counts[failure.cause] = counts.get(failure.cause, 0) + 1
        if (
            counts[failure.cause] > ALIKE
            and failure.kind != "differs"
            or not asked.reduce
        ):
            results.append((program, failure))
            continue
        results.append(reduced(program, failure, failing, asked.reduce))
    return results


if __name__ == "__main__":
    sys.exit(main())
