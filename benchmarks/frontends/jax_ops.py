"""JAX's own test cases of its primitives, imported and compared with JAX.

    python benchmarks/frontends/jax_ops.py [--only TEXT] [--most N] [--compiled]

JAX ships, with its internal tests, some 5600 uses of its primitives (`test_harnesses`)
and records of all of `jax.lax`'s elementwise ops (`lax_test_util`); `jax_cases.py` adds
control flow, random numbers, gradients and whole functions. Each is exported by JAX,
imported, and evaluated by the reference; the outcome is

    pass          equal to JAX's result within the tolerance of the dtype
    unsupported   refused, by op and reason
    wrong         anything else

`--compiled` also compiles what passed for this CPU, in batches, and compares again.
Needs `pip install 'aotc[jax]' absl-py`.
"""

from __future__ import annotations

import argparse
import collections
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax_cases
import numpy as np
from jax._src.internal_test_util import lax_test_util, test_harnesses

from aotc.errors import AotcError
from aotc.fft import Complex
from aotc.frontends.stablehlo import from_jax

# relative to the larger of 1 and the value
TOLERANCES = {"float16": 1e-2, "bfloat16": 6e-2, "float32": 2e-4, "complex64": 2e-4}
# outputs whose signs nobody fixes are compared by their sizes
UP_TO_SIGN = ("svd", "eigh")
# positions of equal elements are in any order
ONLY_FIRST = ("approx_top_k",)


@dataclass(frozen=True)
class Case:
    """A function of JAX with arguments."""

    name: str
    function: Callable[..., Any]
    args: tuple[Any, ...]

    @property
    def group(self) -> str:
        """The primitive."""
        return self.name.split("/")[0]


def cases(own: bool = False) -> Iterator[Case]:
    """All cases, made one after the other from one seed."""
    for name, function, *args in jax_cases.CASES:
        yield Case(name, function, tuple(args))
    if own:
        return
    for harness in test_harnesses.all_harnesses:
        if harness.filter("cpu"):
            args = harness.dyn_args_maker(np.random.RandomState(0))
            name = f"{harness.group_name}/{harness.name}"
            yield Case(name, harness.dyn_fun, tuple(args))
    for record in lax_test_util.lax_ops():
        yield from _of_record(record)


def _of_record(record: Any) -> Iterator[Case]:
    make = record.rng_factory(np.random.RandomState(0))
    dtypes = dict.fromkeys(jax.dtypes.canonicalize_dtype(d) for d in record.dtypes)
    for dtype in dtypes:
        args = tuple(make((3, 4), dtype) for _ in range(record.nargs))
        name = f"lax.{record.op}/{np.dtype(dtype).name}"
        yield Case(name, getattr(jax.lax, record.op), args)


# ---- one case -----------------------------------------------------------------------


def outcome(case: Case) -> tuple[str, str]:
    """(status, reason)."""
    try:
        want = jax.tree.leaves(case.function(*map(_device, case.args)))
    except Exception as error:  # JAX itself cannot
        return "skipped", f"{type(error).__name__}: {error}".splitlines()[0][:100]
    try:
        got = evaluated(case)
    except AotcError as error:
        return _refused(error)
    except Exception:
        return "wrong", traceback.format_exc().strip().splitlines()[-1][:200]
    return compared(case, got, want)


def _device(x: Any) -> Any:
    return jax.tree.map(jax.numpy.asarray, x)


def _given(x: Any) -> Any:
    array = np.asarray(x)
    if array.dtype.kind != "c":
        return array
    return Complex(np.array(array.real), np.array(array.imag))


def evaluated(case: Case) -> list[Any]:
    """The results of the imported function by the reference."""
    args = jax.tree.map(lambda x: np.asarray(_device(x)), case.args)
    network = from_jax(case.function, args)
    given = [jax.tree.map(_given, x) for x in args]
    with np.errstate(all="ignore"):
        found = network(*given)
    return [_plain(x) for x in jax.tree.leaves(found, is_leaf=_is_complex)]


def _is_complex(x: Any) -> bool:
    return isinstance(x, Complex)


def _plain(x: Any) -> Any:
    """A NumPy array of a result."""
    if isinstance(x, Complex):
        parts = np.asarray(x.real), np.asarray(x.imag)
        return parts[0] + parts[1] * parts[0].dtype.type(1) * 1j
    return np.asarray(x)


def _refused(error: AotcError) -> tuple[str, str]:
    if error.code == "unsupported-ops":
        lines = error.message.splitlines()
        return "unsupported", " | ".join(line.strip() for line in lines[1:] or lines)
    return "unsupported", f"[{error.code}] {error.call or ''} {error.message}"


def compared(case: Case, got: Sequence[Any], want: Sequence[Any]) -> tuple[str, str]:
    """Whether all results are JAX's."""
    if len(got) != len(want):
        return "wrong", f"{len(got)} results for {len(want)}"
    compared = 1 if case.group in ONLY_FIRST else len(got)
    pairs = zip(got[:compared], map(np.asarray, want[:compared]), strict=True)
    for number, (mine, theirs) in enumerate(pairs):
        wrong = _difference(case, mine, theirs)
        if wrong:
            return "wrong", f"result {number}: {wrong}"
    return "pass", ""


def _difference(case: Case, got: Any, want: Any) -> str:
    if got.shape != want.shape or got.dtype != want.dtype:
        return f"{got.dtype}{got.shape} for {want.dtype}{want.shape}"
    tolerance = TOLERANCES.get(want.dtype.name, 0)
    if not tolerance:
        return "" if np.array_equal(got, want) else "other integers"
    wide = "c16" if want.dtype.kind == "c" else "f8"
    got, want = got.astype(wide), want.astype(wide)
    if case.group in UP_TO_SIGN:
        got, want = np.abs(got), np.abs(want)
    with np.errstate(all="ignore"):
        apart = np.abs(got - want) / np.maximum(1.0, np.abs(want))
    same = (got == want) | (np.isnan(got) & np.isnan(want)) | (apart <= tolerance)
    if np.all(same):
        return ""
    return (
        f"apart by {np.nanmax(np.where(same, 0, apart)):.2g} at {np.sum(~same)} places"
    )


# ---- all ----------------------------------------------------------------------------


def main() -> int:
    """Run the sweep; the exit code is 1 if anything is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="cases with this in their name")
    parser.add_argument("--own", action="store_true", help="only jax_cases.py")
    parser.add_argument("--most", type=int, default=0, help="cases of each primitive")
    options = parser.parse_args()
    counts: dict[str, int] = collections.Counter()
    reasons: dict[str, list[str]] = {}
    seen: dict[str, int] = collections.Counter()
    for case in cases(options.own):
        if options.only not in case.name:
            continue
        seen[case.group] += 1
        if options.most and seen[case.group] > options.most:
            continue
        status, reason = outcome(case)
        counts[status] += 1
        if status == "wrong":
            print(f"WRONG {case.name}: {reason}", flush=True)
        elif status != "pass":
            reasons.setdefault(f"{status}: {reason}", []).append(case.name)
    for reason, names in sorted(reasons.items(), key=lambda pair: -len(pair[1])):
        print(f"{len(names):5} {reason}   e.g. {names[0]}")
    print(", ".join(f"{status} {count}" for status, count in sorted(counts.items())))
    return 1 if counts["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
