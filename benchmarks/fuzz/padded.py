"""Random programs in the sizes of a bucket, by the reference evaluator.

    python -m benchmarks.fuzz.padded --programs 1000 --seed 0

The programs are those of `benchmarks.fuzz`, all of their symbolic sizes padded. What
comes after the elements of a call is garbage: NaN, and the least integers. The results
must be those of the entry in the sizes of the call, as far as rounding leaves that
open. Exits with 1 if any differs.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from aotc import reference
from aotc.core import dtypes
from aotc.dialects import context
from aotc.dialects.calls.padded_entries import CUT, add_padded_entry
from aotc.dialects.functions.entries import Entry
from aotc.dialects.functions.functions import functions_of, signature
from aotc.dialects.plain import plain_of
from aotc.errors import AotcError
from aotc.mlir import ir
from aotc.passes import run_passes
from aotc.programs.program import Program as Traced
from aotc.tracing.assembly import trace

from .executing import entry_of
from .generation import Choice, random_program, variants
from .jax_peer import examples
from .judging import judge, rounding_of
from .programs import Program
from .scope import Refused

BUCKET = 9  # more than any size of a call
PASSES = ("autodiff", "inline", "simplify", "cse", "recover-ops", "simplify")


def main() -> int:
    """Check padded calls of random programs, and print what differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=8)
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    begun, counts, cut = time.monotonic(), Counter[str](), Counter[str]()
    choice = Choice(longest=asked.steps)
    for seed in range(asked.seed, asked.seed + asked.programs):
        for program in _programs(seed, choice):
            outcome = check(program, cut)
            counts[outcome.partition(":")[0]] += 1
            if outcome.startswith("differs"):
                print(f"seed {seed}: {outcome}\n{program}", flush=True)
    seconds = time.monotonic() - begun
    print(f"{dict(counts)} in {seconds:.0f} s; cut: {dict(cut.most_common(12))}")
    return 1 if counts["differs"] else 0


def _programs(seed: int, choice: Choice) -> list[Program]:
    """Return the variants of a random program; none if it was refused."""
    try:
        return variants(random_program(seed, choice)[0])
    except Refused:
        return []


def check(program: Program, cut: Counter[str]) -> str:
    """Compare a program padded to a bucket with the plain one; return the outcome.

    Args:
        program: to pad.
        cut: gets the ops that are computed in the sizes of a call.
    """
    try:
        traced = trace([entry_of(program, "program")], {})
        run_passes(traced.module, PASSES, silently=True)
    except AotcError:
        return "refused"
    (entry,) = traced.entries
    if not entry.symbols:
        return "static"
    with context(), ir.Location.unknown():
        sizes = {each.name: BUCKET for each in entry.symbols}
        name = add_padded_entry(traced.module, entry, sizes)
    traced.module.operation.verify()
    cut.update(
        row["op"] for row in plain_of(functions_of(traced.module)[name].attributes[CUT])
    )
    for sizes in program.sizes:
        outcome = _compare(
            traced, entry, name, examples(program, sizes), program, sizes
        )
        if outcome != "right":
            return outcome
    return "right"


def _compare(
    traced: Traced,
    entry: Entry,
    name: str,
    arrays: Sequence[Any],
    program: Program,
    sizes: dict[str, int],
) -> str:
    """Compare one padded call with the plain call; describe a difference."""
    try:
        wanted = reference.evaluate(traced.module, entry.name, arrays)
    except (AotcError, ValueError, IndexError):  # such as the largest of no elements
        return "right"
    values = [sizes[each.name.removesuffix("_of_program")] for each in entry.symbols]
    told = np.zeros((*values, 0), np.int8)
    types, _ = signature(functions_of(traced.module)[name])
    given = [_pad(*pair) for pair in zip(arrays, types[:-1], strict=True)]
    found = reference.evaluate(traced.module, name, [*given, told])
    parts = [
        got[tuple(map(slice, want.shape))]
        for got, want in zip(found, wanted, strict=True)
    ]
    if all(map(_is_same, parts, wanted)):
        return "right"
    spread = rounding_of(traced.module, entry.name, arrays, wanted)
    judgement = judge(parts, wanted, spread)
    return f"differs: {judgement.wrong} at {sizes}" if judgement.wrong else "right"


def _is_same(one: Any, other: Any) -> bool:
    """Return whether two arrays are bitwise equal, any NaN for NaN."""
    wide = (
        np.float64 if dtypes.is_float(dtypes.canonical_dtype(one.dtype)) else one.dtype
    )
    return np.array_equal(one.astype(wide), other.astype(wide), equal_nan=True)


def _pad(array: Any, kind: Any) -> Any:
    """Return an array in the bucket's sizes, with garbage beyond the original."""
    dtype = dtypes.to_numpy(kind.dtype)
    least = np.nan if dtypes.is_float(kind.dtype) else _least(dtype)
    padded = np.full(kind.shape, least, dtype)
    padded[tuple(map(slice, np.shape(array)))] = array
    return padded


def _least(dtype: Any) -> Any:
    """Return the garbage value of an integer or bool dtype."""
    return True if dtype == np.bool_ else np.iinfo(dtype).min


if __name__ == "__main__":
    sys.exit(main())
