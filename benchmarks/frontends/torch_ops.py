"""PyTorch's operator database through the importer, against PyTorch.

    python benchmarks/frontends/torch_ops.py [--ops NAME …] [--samples N] [--write]

Each op of `torch.testing._internal.common_methods_invocations.op_db` is exported on its
samples, imported, evaluated by the reference and compared. An op passes if all of its
samples do that torch.export can export. `--compiled` compiles samples that pass for the
CPU as well, many to a module. `--write` puts the tables into docs/torch-ops.md.
"""

from __future__ import annotations

import argparse
import functools
import json
import signal
import sys
import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from batches import Compiled, Settings, add_options, run_compiled, settings_of
from torch.export import decomp_utils, exported_program
from torch.testing._internal.common_methods_invocations import op_db
from torch_core import core_table
from torch_samples import VERDICTS, Case, Outcome, as_tensor, distance, outcome, short

TABLE = Path(__file__).parents[2] / "docs" / "torch-ops.md"
SECONDS = 60  # for one sample
COMPILED = 2  # samples of each op

Table = dict[str, list[Outcome]]


# ---- all of them --------------------------------------------------------------------


def swept(names: Sequence[str], dtype: torch.dtype, count: int, kept: Kept) -> Table:
    """Run the samples of each op whose name starts with one of `names`; return outcomes
    by op.
    """
    table: Table = {}
    start = time.time()
    for info in op_db:
        name = f"{info.name}.{info.variant_test_name}".rstrip(".")
        if dtype not in info.dtypes or not name.startswith(tuple(names)):
            continue
        found = kept.found(name, dtype)
        if found is None:
            torch.manual_seed(0)
            samples = list(info.sample_inputs("cpu", dtype, requires_grad=False))
            found = [limited(info, sample) for sample in spread(samples, count)]
            kept.keep(name, dtype, found)
        if found:
            table.setdefault(name, []).extend(found)
            if verdict_of(found).verdict == "WRONG" or names != [""]:
                print(f"{name}: {said(verdict_of(found))}", flush=True)
        if len(table) % 50 == 0:
            print(f"{len(table)} ops, {time.time() - start:.0f} s", file=sys.stderr)
    return table


class Kept:
    """A file of outcomes, so that an interrupted sweep can be continued."""

    def __init__(self, path: Path | None):
        self.path = path
        known = path is not None and path.exists()
        self.rows = json.loads(path.read_text()) if path is not None and known else {}

    def found(self, name: str, dtype: torch.dtype) -> list[Outcome] | None:
        """Return an op's outcomes from the file; None if it has none."""
        rows = self.rows.get(f"{name} {dtype}")
        return (
            None if rows is None else [Outcome(*r[:3], frozenset(r[3])) for r in rows]
        )

    def keep(self, name: str, dtype: torch.dtype, found: Sequence[Outcome]) -> None:
        """Add the outcomes of an op and write the file."""
        if self.path is not None:
            rows = [(e.verdict, e.op, e.reason, sorted(e.ops)) for e in found]
            self.rows[f"{name} {dtype}"] = rows
            self.path.write_text(json.dumps(self.rows), encoding="utf-8")


def spread(samples: Sequence[Any], count: int) -> list[Any]:
    """Return `count` samples at even distances; 0 means all."""
    if not 0 < count < len(samples):
        return list(samples)
    return [samples[n * len(samples) // count] for n in range(count)]


def limited(info: Any, sample: Any) -> Outcome:
    """Run a sample within a time limit; return its outcome."""
    signal.alarm(SECONDS)
    try:
        return outcome(info, sample)
    except TimeoutError:
        return Outcome("unsupported", "", f"took longer than {SECONDS} s")
    except Exception as error:  # a bug of the importer counts as wrong
        return Outcome("WRONG", reason=f"{type(error).__name__}: {short(error)}")
    finally:
        signal.alarm(0)


def verdict_of(found: Sequence[Outcome]) -> Outcome:
    """Return the verdict on an op: the worst among its exportable samples."""
    tried = [each for each in found if each.verdict != "not exportable"] or found
    return max(tried, key=lambda each: VERDICTS.index(each.verdict))


def remember_decompositions() -> None:
    """Cache torch's list of composite ops, which each export asks for."""
    for module in (exported_program, decomp_utils):
        listed = functools.cache(module._collect_all_valid_cia_ops)
        module._collect_all_valid_cia_ops = listed


def compiled(tables: Iterable[Table], settings: Settings) -> Compiled:
    """Compile some samples of each op and compare with the reference evaluator."""
    cases = []
    for table in tables:
        for name, found in table.items():
            passed = [each.case for each in found if each.case is not None]
            for number, case in enumerate(passed[:COMPILED]):
                title = f"{name} {number}"
                cases.append(Case(title, case.network, case.inputs, case.outputs))
    return run_compiled(cases, mismatch, settings)


def mismatch(got: Any, want: Any, _rtol: float, _atol: float) -> str | None:
    """Describe how compiled results differ from the expected ones."""
    return distance(as_tensor(got), as_tensor(want))


# ---- report -------------------------------------------------------------------------


def said(found: Outcome) -> str:
    """Return an outcome as one line."""
    return ": ".join(filter(None, (found.verdict, found.op, found.reason)))


def report(tables: dict[torch.dtype, Table], compiled: Compiled | None) -> str:
    """Return the report in Markdown: counts, and reasons against ops."""
    lines = [
        "# PyTorch's operators",
        "",
        f"Generated by `python benchmarks/frontends/torch_ops.py --write` with torch "
        f"{torch.__version__.partition('+')[0]}: its own database of operators "
        "(`op_db`), exported sample by sample, imported, evaluated by the reference, "
        "and compared. The samples are spread over all that the database has of an op, "
        "which passes if all of them do that torch.export can "
        "export.",
        "",
        "| dtype | ops | samples | torch.export exports | pass | unsupported | wrong |",
        "|---|---|---|---|---|---|---|",
    ]
    lines += [figures(dtype, table) for dtype, table in tables.items()]
    if compiled is not None:
        lines += figures_compiled(compiled)
    told: set[tuple[str, str]] = set()
    for dtype, table in tables.items():
        for verdict in VERDICTS[:0:-1]:
            lines += section(verdict, str(dtype).removeprefix("torch."), table, told)
    first = next(iter(tables.values()))
    passed = Counter(
        op for found in first.values() for each in found for op in each.ops
    )
    return "\n".join([*lines, *core_table(passed)])


def figures(dtype: torch.dtype, table: Table) -> str:
    """Return a table row with the counts of each verdict."""
    counts = Counter(verdict_of(found).verdict for found in table.values())
    tried = len(table) - counts["not exportable"]
    share = 100 * counts["pass"] / max(tried, 1)
    samples = sum(map(len, table.values()))
    name = str(dtype).removeprefix("torch.")
    return (
        f"| {name} | {len(table)} | {samples} | {tried} | {counts['pass']} "
        f"({share:.1f} %) | {counts['unsupported']} | {counts['WRONG']} |"
    )


def figures_compiled(compiled: Compiled) -> Iterator[str]:
    """Yield lines with counts of the compiled samples' outcomes."""
    yield ""
    yield (
        f"{compiled.title()}; up to {COMPILED} samples of each op that pass: "
        f"{compiled.passed} give what the reference gives, {len(compiled.wrong)} do "
        f"not, {len(compiled.failed)} do not compile, and "
        f"{sum(compiled.refused.values())} need sizes or values that only a call knows."
    )
    if compiled.failed or compiled.wrong:
        yield from ("", "| sample | compiled |", "|---|---|")
    for name, why in (*compiled.wrong, *compiled.failed):
        yield f"| {name} | {plain(why)} |"


def plain(text: str) -> str:
    """Escape Markdown's special characters in a text."""
    return text.replace("|", "/").replace("<", "‹").replace(">", "›")


def section(
    verdict: str, dtype: str, table: Table, told: set[tuple[str, str]]
) -> Iterator[str]:
    """Yield a report section with the ops of one verdict, which no earlier section
    has.
    """
    reasons = defaultdict(list)
    for name, found in sorted(table.items()):
        last = verdict_of(found)
        if last.verdict == verdict and (name, verdict) not in told:
            told.add((name, verdict))
            reasons[last.op, last.reason].append(name)
    if not reasons:
        return
    yield from ("", f"## {verdict[0].upper()}{verdict[1:]}, {dtype}", "")
    yield from ("| ops | ATen op | reason |", "|---|---|---|")
    for (op, reason), names in reasons.items():
        yield f"| {', '.join(names)} | {op and f'`{op}`'} | {plain(reason)} |"


def main() -> int:
    """Sweep and report; 1 if something is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ops", nargs="+", default=[""], metavar="PREFIX")
    parser.add_argument("--dtypes", nargs="+", default=["float32"])
    parser.add_argument(
        "--samples", type=int, default=0, help="of each op; 0, the default, is all"
    )
    parser.add_argument(
        "--others", type=int, default=6, help="samples in dtypes after the first"
    )
    parser.add_argument(
        "--keep", type=Path, metavar="FILE", help="go on with the outcomes in a file"
    )
    parser.add_argument("--compiled", action="store_true", help="compile some as well")
    parser.add_argument("--write", action="store_true", help="docs/torch-ops.md")
    add_options(parser)
    options = parser.parse_args()
    settings = settings_of(options)
    warnings.filterwarnings("ignore")
    remember_decompositions()

    def late(*_: Any) -> None:
        raise TimeoutError

    signal.signal(signal.SIGALRM, late)
    counts = [options.samples, *[options.others] * (len(options.dtypes) - 1)]
    kept = Kept(options.keep)
    tables = {
        getattr(torch, name): swept(options.ops, getattr(torch, name), count, kept)
        for name, count in zip(options.dtypes, counts, strict=True)
    }
    ran = compiled(tables.values(), settings) if options.compiled else None
    text = report(tables, ran)
    print(text)
    if options.write:
        TABLE.write_text(text + "\n", encoding="utf-8")
    outcomes = [verdict_of(f) for table in tables.values() for f in table.values()]
    is_wrong = any(each.verdict == "WRONG" for each in outcomes)
    return int(is_wrong or bool(ran and ran.wrong))


if __name__ == "__main__":
    sys.exit(main())
