"""JAX's own test cases of its primitives, imported and compared with JAX.

    python benchmarks/frontends/jax_ops.py [--only TEXT] [--most N] [--compiled N]

JAX ships, with its internal tests, some 5600 uses of its primitives (`test_harnesses`)
and records of all of `jax.lax`'s elementwise ops (`lax_test_util`); `jax_cases.py` adds
control flow, random numbers, gradients and whole functions. Each is lowered by JAX,
imported, and evaluated by the reference; the outcome is

    pass          equal to JAX's result within the tolerance of the dtype
    unsupported   refused, by op and reason
    wrong         anything else

`--compiled N` also compiles the first N of each primitive that pass for this CPU, many
to a module, and compares again.
`--write` puts the figures into docs/stablehlo-ops.md.
Needs `pip install -e '.[jax]' absl-py`.
"""

from __future__ import annotations

import argparse
import collections
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jax
import jax_cases
import numpy as np
from batches import Compiled, add_options, run_compiled, settings_of
from jax._src.internal_test_util import lax_test_util, test_harnesses

from aotc.complexes import Complex
from aotc.errors import AotcError
from aotc.importers.stablehlo import from_jax

TABLE = Path(__file__).parents[2] / "docs" / "stablehlo-ops.md"
# relative to the larger of 1 and the value
TOLERANCES = {
    "float16": 1e-2,
    "bfloat16": 6e-2,
    "float32": 2e-4,
    "complex64": 2e-4,
    "float64": 1e-9,
    "complex128": 1e-9,
}
# outputs whose signs nobody fixes are compared by their sizes
UP_TO_SIGN = ("svd", "eigh")
# positions of equal elements are in any order
ONLY_FIRST = ("approx_top_k",)
UNSTABLE = "isstable_False"  # equal keys in any order
CACHED = 200  # cases after which what JAX compiled is dropped


@dataclass(frozen=True)
class Case:
    """A JAX function and its arguments, to be imported and compared."""

    name: str
    function: Callable[..., Any]
    args: tuple[Any, ...]

    @property
    def group(self) -> str:
        """The JAX primitive's name."""
        return self.name.split("/")[0]


@dataclass(frozen=True)
class Outcome:
    """The outcome of a case: its status and reason, and what to compile if it
    passed.
    """

    case: Case
    status: str
    reason: str = ""
    flat: Flat | None = None


@dataclass(frozen=True)
class Flat:
    """A case with complex arrays split into real ones, and its expected results."""

    name: str
    network: Network
    inputs: list[Any]
    outputs: list[Any]
    rtol: float = 0.0
    atol: float = 0.0


@dataclass(frozen=True)
class Network:
    """An imported function that takes and returns real arrays for complex ones."""

    imported: Any
    args: tuple[Any, ...]

    @property
    def weights(self) -> Any:
        """The weights of the imported function."""
        return self.imported.weights

    def __call__(self, *given: Any) -> dict[str, Any]:
        """Call the function; return its results as real arrays."""
        count = 0 if self.weights is None else 1
        rest = iter(given[count:])
        args = jax.tree.map(lambda x: paired(x, rest), self.args)
        found = jax.tree.leaves(self.imported(*given[:count], *args), is_leaf=is_pair)
        return dict(enumerate(part for x in found for part in parts(x)))


def cases(own: bool = False) -> Iterator[Case]:
    """Yield all cases, with arguments drawn in order from one seed."""
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
    """Yield cases of one of JAX's test records, for each of its dtypes."""
    make = record.rng_factory(np.random.RandomState(0))
    dtypes = dict.fromkeys(jax.dtypes.canonicalize_dtype(d) for d in record.dtypes)
    for dtype in dtypes:
        args = tuple(make((3, 4), dtype) for _ in range(record.nargs))
        name = f"lax.{record.op}/{np.dtype(dtype).name}"
        yield Case(name, getattr(jax.lax, record.op), args)


# ---- complex numbers are pairs ------------------------------------------------------


def is_pair(x: Any) -> bool:
    """Return whether something is aotc's complex array."""
    return isinstance(x, Complex)


def paired(x: Any, rest: Iterator[Any]) -> Any:
    """Return the next real array, or a complex one of the next two if `x` is
    complex.
    """
    first = next(rest)
    return Complex(first, next(rest)) if x.dtype.kind == "c" else first


def parts(x: Any) -> list[Any]:
    """Return the real arrays of an array: itself, or real and imaginary part."""
    if isinstance(x, Complex):
        return [x.real, x.imag]
    if getattr(x.dtype, "kind", "") == "c":
        return [np.array(x.real), np.array(x.imag)]
    return [x]


def whole(x: Any) -> Any:
    """Return a result as a NumPy array, complex if it is a pair."""
    if isinstance(x, Complex):
        real, imag = np.asarray(x.real), np.asarray(x.imag)
        return real + imag * real.dtype.type(1) * 1j
    return np.asarray(x)


# ---- one case -----------------------------------------------------------------------


def outcome(case: Case) -> Outcome:
    """Import a case and compare its reference results with JAX's."""
    args = tuple(jax.tree.map(lambda x: np.asarray(jax.numpy.asarray(x)), case.args))
    try:
        want = [np.asarray(x) for x in jax.tree.leaves(jax.jit(case.function)(*args))]
    except Exception as error:  # JAX itself cannot
        reason = f"{type(error).__name__}: {error}".splitlines()[0][:100]
        return Outcome(case, "skipped", reason)
    try:
        network = from_jax(case.function, args)
        given = jax.tree.map(
            lambda x: Complex(*parts(x)) if x.dtype.kind == "c" else x, args
        )
        stored = [] if network.weights is None else [network.weights.tree]
        with np.errstate(all="ignore"):
            found = network(*stored, *given)
    except AotcError as error:
        return Outcome(case, "unsupported", refusal(error))
    except Exception:
        said = traceback.format_exc().strip().splitlines()[-1][:200]
        return Outcome(case, "wrong", said)
    got = [whole(x) for x in jax.tree.leaves(found, is_leaf=is_pair)]
    wrong = difference(case, got, want)
    if wrong:
        return Outcome(case, "wrong", wrong)
    inputs = [part for x in jax.tree.leaves(args) for part in parts(x)]
    outputs = [part for x in got for part in parts(x)]
    return Outcome(
        case, "pass", "", Flat(case.name, Network(network, args), inputs, outputs)
    )


def refusal(error: AotcError) -> str:
    """Return the op or feature that an error names as unsupported."""
    if error.code == "unsupported-ops" and "\n" in error.message:
        lines = error.message.splitlines()[1:]
        return "; ".join(line.strip().partition("; at ")[0] for line in lines)
    return f"{error.call or ''}: {error.message}"


def difference(case: Case, got: Sequence[Any], want: Sequence[Any]) -> str:
    """Describe how the results differ from JAX's; empty if they are the same."""
    if len(got) != len(want):
        return f"{len(got)} results for {len(want)}"
    if UNSTABLE in case.name:
        got, want = reordered(got), reordered(want)
    count = 1 if case.group in ONLY_FIRST else len(got)
    for number, (mine, theirs) in enumerate(
        zip(got[:count], want[:count], strict=True)
    ):
        if case.group in UP_TO_SIGN and mine.dtype == theirs.dtype:
            mine, theirs = np.abs(mine), np.abs(theirs)
        wrong = mismatch(mine, theirs)
        if wrong:
            return f"result {number}: {wrong}"
    return ""


def reordered(results: Sequence[Any]) -> list[Any]:
    """Sort rows of results, so that the order of ties does not matter."""
    if results[0].ndim != 1:
        return list(results)
    order = np.lexsort(results[::-1])
    return [x[order] for x in results]


def mismatch(got: Any, want: Any, rtol: float = 0.0, atol: float = 0.0) -> str | None:
    """Describe how two arrays differ beyond the tolerance of their dtype."""
    if got.shape != want.shape or got.dtype != want.dtype:
        return f"{got.dtype}{got.shape} for {want.dtype}{want.shape}"
    tolerance = TOLERANCES.get(want.dtype.name, 0)
    if not tolerance:
        return None if np.array_equal(got, want) else "other integers"
    wide = "c16" if want.dtype.kind == "c" else "f8"
    got, want = got.astype(wide), want.astype(wide)
    with np.errstate(all="ignore"):
        apart = np.abs(got - want) / np.maximum(1.0, np.abs(want))
    same = (got == want) | (np.isnan(got) & np.isnan(want)) | (apart <= tolerance)
    if np.all(same):
        return None
    return (
        f"apart by {np.nanmax(np.where(same, 0, apart)):.2g} at {np.sum(~same)} places"
    )


# ---- all ----------------------------------------------------------------------------


def chosen(all_cases: Iterable[Case], only: str, most: int) -> Iterator[Case]:
    """Yield the first `most` cases of each primitive (0: all) with `only` in their
    names.
    """
    seen: dict[str, int] = collections.Counter()
    for case in all_cases:
        if only in case.name:
            seen[case.group] += 1
            if not most or seen[case.group] <= most:
                yield case


def swept(cases: Iterable[Case], keep: int) -> list[Outcome]:
    """Run all cases and print what is wrong at once; return the outcomes.

    The first `keep` of each group that pass keep what there is to compile.
    """
    found = []
    kept: dict[str, int] = collections.Counter()
    for number, case in enumerate(cases):
        if number % CACHED == 0:
            jax.clear_caches()
            print(f"{number} cases", file=sys.stderr, flush=True)
        result = outcome(case)
        kept[case.group] += result.status == "pass"
        if kept[case.group] > keep:
            result = replace(result, flat=None)
        found.append(result)
        if result.status == "wrong":
            print(f"WRONG {case.name}: {result.reason}", flush=True)
    return found


def report(found: Sequence[Outcome], compiled: Compiled | None) -> str:
    """Return the report in Markdown: counts, and reasons against cases."""
    counts = collections.Counter(each.status for each in found)
    tried = len(found) - counts["skipped"]
    groups = {each.case.group for each in found}
    given = " ".join(sys.argv[1:])
    lines = [
        "# JAX's test cases",
        "",
        f"Generated by `python benchmarks/frontends/jax_ops.py {given}`, "
        f"with jax {jax.__version__}, in 32 and 64 bits.",
        "",
        f"{len(groups)} primitives and functions, {tried} cases: {counts['pass']} pass "
        f"({100 * counts['pass'] / max(tried, 1):.1f} %), {counts['unsupported']} are "
        f"unsupported, {counts['wrong']} are wrong. JAX itself does not run "
        f"{counts['skipped']} more on a CPU.",
        "",
    ]
    for status in ("wrong", "unsupported", "skipped"):
        lines += section(status, [each for each in found if each.status == status])
    return "\n".join(lines + (of_compiled(compiled) if compiled else []))


def of_compiled(compiled: Compiled) -> list[str]:
    """Return the report's lines on compiled cases."""
    refused = compiled.refused.total()
    lines = [
        f"## {compiled.title()}",
        "",
        f"Of {compiled.passed + refused + len(compiled.failed) + len(compiled.wrong)} "
        f"cases that pass, {compiled.passed} pass compiled, {refused} need to know at "
        f"build time what they compute, {len(compiled.failed)} are not compiled, "
        f"{len(compiled.wrong)} are wrong.",
        "",
    ]
    troubles = [*compiled.failed, *compiled.wrong]
    rows = [f"| {name} | {why.replace('|', '/')} |" for name, why in troubles]
    return [*lines, "| case | why |", "|---|---|", *rows, ""] if rows else lines


def section(status: str, found: Sequence[Outcome]) -> list[str]:
    """Return a report section with the cases of one status, grouped by reason."""
    if not found:
        return []
    reasons: dict[str, list[str]] = {}
    for each in found:
        reasons.setdefault(each.reason.replace("|", "/"), []).append(each.case.group)
    rows = []
    for reason, groups in sorted(reasons.items(), key=lambda pair: -len(pair[1])):
        names = ", ".join(dict.fromkeys(groups))
        rows.append(f"| {len(groups)} | {names} | {reason} |")
    title = status[0].upper() + status[1:]
    return [f"## {title}", "", "| cases | of | reason |", "|---|---|---|", *rows, ""]


def main() -> int:
    """Run the sweep; return 1 if anything is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="cases with this in their name")
    parser.add_argument("--most", type=int, default=0, help="cases of each primitive")
    parser.add_argument("--own", action="store_true", help="only jax_cases.py")
    parser.add_argument(
        "--compiled", type=int, default=0, metavar="N", help="compile N of each group"
    )
    parser.add_argument("--write", action="store_true", help="the table into docs/")
    add_options(parser)
    options = parser.parse_args()
    settings = settings_of(options)
    asked = chosen(cases(options.own), options.only, options.most)
    found = swept(asked, options.compiled)
    ready = [each.flat for each in found if each.flat]
    compiled = run_compiled(ready, mismatch, settings) if ready else None
    text = report(found, compiled)
    print(text)
    if options.write:
        TABLE.write_text(text, encoding="utf-8")
    wrong = any(each.status == "wrong" for each in found)
    return int(wrong or bool(compiled and compiled.wrong))


if __name__ == "__main__":
    sys.exit(main())
