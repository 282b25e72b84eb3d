"""The self-check of a build: comparison of the compiled code with its graph.

IREE has compiled wrong results without a word. So before a bundle is signed, each entry
is called as compiled, for every target that runs on this machine, and what it returns
and what it leaves in its states is compared with the reference evaluator's. Results
that are further apart than their dtype allows must be explained by rounding
(`rounding`), or the build fails and says where the difference begins.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from functools import partial, reduce
from itertools import count, groupby
from math import inf
from pathlib import Path

from aotc.artifacts.backends import BACKENDS
from aotc.artifacts.checked import sizes_text
from aotc.backend import CompiledVariant
from aotc.checks.block_check import BlockFindings, check_blocks
from aotc.checks.blocks import blocks_of
from aotc.checks.checked_devices import CheckedDevicesEntry
from aotc.checks.checked_entry import Arrays, CheckedEntry
from aotc.checks.comparable import entries_over_devices
from aotc.checks.compiled import Bundle, DevicesBundle
from aotc.checks.failures import HINT, load_error, place_of, wrong_block, wrong_results
from aotc.checks.judging import Verdict
from aotc.checks.process import DIED, CompiledProcess, DidNotEnd
from aotc.checks.report import SelfCheck
from aotc.checks.samples import (
    CheckItem,
    WorkPriority,
    call_sequence_of,
    check_items_of,
    input_elements,
    parts_of,
    usual_items_of,
)
from aotc.checks.side_by_side import Evaluate, SideBySide
from aotc.checks.spare import Spare
from aotc.checks.trials import REFUSES, SEED, Trial
from aotc.checks.work import (
    TOO_LONG,
    NoMemoryToCompare,
    NothingToCompare,
    OverBudget,
    WorkBudget,
)
from aotc.dialects import context
from aotc.dialects.functions.entries import Entry, entries_of
from aotc.errors import AotcError, CompileError, InputError, SetupError
from aotc.machine.target import Target
from aotc.mlir import Module, ir
from aotc.packager import PackedWeights
from aotc.programs.program import Program

__all__ = ["SelfCheck", "StartedCheck", "check_entries", "skipped_checks"]

_SECONDS = 300  # for one compiled call
_ENDLESS_SECONDS = 20  # where the reference evaluator has not seen it end
_EXTRA_WORK = 2e9  # for each item beyond the usual
# Errors of loading that say what the machine lacks; others are faults of the code.
_NOT_HERE = {
    "incompatible": "this machine does not run it",
    "no-driver": "this machine does not run it",
    "out-of-memory": "this machine has not the memory to load it",
}

_NO_MEMORY = "this machine has not the memory for a call"
_NOT_IN_IR = "the IR of this stage has no code of it for any sizes to compare with"


def check_entries(
    program: Program,
    graph: Module,
    packed: PackedWeights,
    variants: Sequence[CompiledVariant],
    *,
    full: bool = False,
    begin: Callable[[str], None] = lambda _: None,
    entries: Container[str] | None = None,
    regions: Callable[[Target], Program] | None = None,
    started: StartedCheck | None = None,
) -> list[SelfCheck]:
    """Compare compiled entries with the reference evaluator; return the findings.

    Args:
        program: what was compiled.
        graph: a copy of its module in which all derivatives are written.
        packed: the bundle with the compiled code, which may be unsigned.
        variants: those in the bundle.
        full: compare at all sizes, however long the reference evaluator takes.
        begin: is told what is compared next.
        entries: names of those to compare; None for all.
        regions: gives the program with the regions of a target, whose kernels are
            evaluated if this machine does not run them; None for none.
        started: what has begun to evaluate calls of the same entries; None for none.

    Raises:
        CompileError: `self-check`: an entry computes something else.
            `compiled-code-died`: it ends the process that it runs in.
            `not-loadable`: a target runs here, and its code cannot be loaded.
    """
    with context(), ir.Location.unknown(), ExitStack() as stack:
        running, refused = _start(stack, packed.bundle, variants, full)
        asked = [
            entry
            for entry in program.entry_points
            if entries is None or entry.name in entries
        ]
        rows = _refused_rows(asked, refused)
        several = entries_over_devices(program)
        single = [entry for entry in asked if entry.name not in several]
        together = [entry for entry in asked if entry.name in several]
        known = {each.name for each in entries_of(graph)}
        checked_entries = [
            CheckedEntry(program, graph, x) for x in single if x.name in known
        ]
        given = [
            each
            for each in variants
            if each.target in refused and not BACKENDS[each.target.backend].on_cpu
        ]
        if regions is not None and given:
            from aotc.checks.evaluated_entries import evaluate_kernels  # of GPUs

            by_name = {each.entry.name: each for each in checked_entries}
            rows = evaluate_kernels(rows, by_name, given, regions, begin, full=full)
        if not running:
            return rows
        rows += _unknown_rows((*single, *together), known, running)
        work = _whole_work(full)
        begun = stack.enter_context(started or StartedCheck())
        rows += _check(_jobs(checked_entries), running, packed, work, begin, begun)
        jobs = _jobs(
            [
                CheckedDevicesEntry(program, graph, x)
                for x in together
                if x.name in known
            ]
        )
        if jobs:  # of entries over devices, which other processes compute
            here = [variant for variant, _ in running]
            running, _ = _start(stack, packed.bundle, here, full, DevicesBundle)
            begun = stack.enter_context(StartedCheck())
            rows += _check(jobs, running, packed, work, begin, begun)
        return rows


def _whole_work(full: bool) -> WorkBudget:
    """Return the work budget of all check items together."""
    return WorkBudget(inf, inf) if full else WorkBudget.usual()


def _refused_rows(
    entries: Sequence[Entry], refused: Mapping[Target, str]
) -> list[SelfCheck]:
    """Return findings, as not compared, of each entry on targets whose code cannot be
    loaded here.
    """
    return [
        SelfCheck(entry.name, str(target)).skip(
            {}, _NOT_HERE[code], is_lasting=code != "out-of-memory"
        )
        for target, code in refused.items()
        for entry in entries
    ]


def _unknown_rows(
    entries: Sequence[Entry], known: Container[str], running: _Running
) -> list[SelfCheck]:
    """Return findings, as not compared, of entries without a function in the graph."""
    return [
        SelfCheck(entry.name, str(variant.target)).skip({}, _NOT_IN_IR)
        for variant, _ in running
        for entry in entries
        if entry.name not in known
    ]


def _jobs(
    checked_entries: Sequence[CheckedEntry],
) -> list[tuple[CheckedEntry, CheckItem]]:
    """Return the (entry, call to compare) pairs, entry by entry."""
    return [
        (checked, item)
        for checked in checked_entries
        for item in check_items_of(checked.program, checked.graph, checked.entry)
    ]


def skipped_checks(
    program: Program, targets: Sequence[Target], why: str
) -> list[SelfCheck]:
    """Return findings that no entry was compared on these targets, and why."""
    return [
        SelfCheck(entry.name, str(target)).skip({}, why)
        for target in targets
        for entry in program.entry_points
    ]


_Finding = Callable[[SelfCheck], SelfCheck]  # extends the findings on an entry
# of an item: for each target, and why there was nothing to compare, if there was not
_Findings = tuple[dict[Target, _Finding], NothingToCompare | None]
_Rows = dict[tuple[str, Target], SelfCheck]
_Running = Sequence[tuple[CompiledVariant, CompiledProcess]]
# of a variant of its own, with the weights of the bundle
_Code = tuple[CompiledVariant, CompiledProcess, PackedWeights]


class StartedCheck:
    """A self-check that may begin before there is code; a context manager."""

    def __init__(self) -> None:
        self.running: Future[_Running] = Future()
        self.compared = SideBySide(partial(_findings, self.running.result))

    def start(self, program: Program, *, full: bool) -> None:
        """Begin to evaluate the first calls of entries, if it is worth it.

        Args:
            program: that is compiled, as it was imported.
            full: see `check_entries`.
        """
        several = entries_over_devices(program)
        jobs = [
            (CheckedEntry(program, program.module, entry), item)
            for entry in program.entry_points
            if entry.name not in several
            for item in usual_items_of(program, entry)
        ]
        jobs.sort(key=lambda job: job[1].number)
        self.compared.start(jobs, _whole_work(full), is_ahead=True)

    def __enter__(self) -> StartedCheck:
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        """End; without waiting for calls after an error, or if there is no code."""
        if self.running.cancel():
            self.compared.stop()
        self.compared.__exit__(kind, *error)


def _check(
    jobs: Sequence[tuple[CheckedEntry, CheckItem]],
    running: _Running,
    packed: PackedWeights,
    work: WorkBudget,
    begin: Callable[[str], None],
    started: StartedCheck,
) -> list[SelfCheck]:
    """Compare the check items of all entries on all running targets; return the
    findings.

    The first items of all entries come first, and what is beyond the usual comes last;
    before that, entries are compared by blocks of which no call could be as a whole.
    No item may take more than twice its share of the work that is left.
    """
    rows: _Rows = {
        (checked.entry.name, variant.target): SelfCheck(
            checked.entry.name, str(variant.target), by=process.run_by
        )
        for checked, _ in jobs
        for variant, process in running
    }
    ordered = sorted(jobs, key=lambda job: (job[1].priority, job[1].number))
    started.running.set_result(running)
    usual = [job for job in ordered if job[1].priority is WorkPriority.USUAL]
    started.compared.start(usual, work)
    _check_in_order(rows, ordered, started.compared, running, packed, work, begin)
    return list(rows.values())


def _check_in_order(
    rows: _Rows,
    ordered: Sequence[tuple[CheckedEntry, CheckItem]],
    compared: SideBySide[_Findings],
    running: _Running,
    packed: PackedWeights,
    work: WorkBudget,
    begin: Callable[[str], None],
) -> None:
    """Compare check items by priority and write the findings to `rows`."""
    spare = Spare(work)
    to_come = sum(item.priority is not WorkPriority.SPARE for _, item in ordered)
    numbers = count(1)
    for share, group in groupby(ordered, key=lambda job: job[1].priority):
        large: dict[str, tuple[CheckedEntry, CheckItem]] = {}
        for checked, item in group:
            begin(f"{checked.entry.name}, comparison {next(numbers)} of {len(ordered)}")
            limit = 2 * work.left / (to_come + 1)
            to_come -= share is not WorkPriority.SPARE
            if share is WorkPriority.EXTRA and limit < inf:
                limit = min(limit, _EXTRA_WORK)
            if share is WorkPriority.SPARE and not spare.covers(checked, item):
                continue
            before = work.left
            found, reason = compared.findings(checked, item, work.part(limit))
            for target, finding in found.items():
                key = checked.entry.name, target
                rows[key] = finding(rows[key])
            if reason is None:
                spare.note(checked, item, before - work.left)
            # too long, and not too large
            elif type(reason) is OverBudget and share is WorkPriority.USUAL:
                large.setdefault(checked.entry.name, (checked, item))
        for number, job in enumerate(large.values()):
            begin(f"{job[0].entry.name}, block by block")
            limit = 2 * work.left / (to_come + len(large) - number)
            codes = [(*code, packed) for code in running]
            _check_by_blocks(rows, *job, codes, work.part(2 * limit))


def _findings(
    running: Callable[[], _Running],
    checked: CheckedEntry,
    item: CheckItem,
    work: WorkBudget,
    evaluate: Evaluate,
) -> _Findings:
    """Compare a check item on each target; return functions that add it to the
    findings, by target, and why there was nothing to compare, if so.
    """
    try:
        trial = evaluate(checked, item, work)
    except NothingToCompare as reason:
        skip = partial(_skip, item=item, reason=reason)
        return {variant.target: skip for variant, _ in running()}, reason
    found = {v.target: _finding(trial, v, process) for v, process in running()}
    return found, None


def _check_by_blocks(
    rows: _Rows,
    checked: CheckedEntry,
    item: CheckItem,
    codes: Sequence[_Code],
    work: WorkBudget,
) -> None:
    """Compare an entry block by block on targets where no whole call was compared.

    Args:
        rows: what was found of the entries.
        checked: the entry.
        item: the first that took the reference evaluator too long.
        codes: of the targets.
        work: of the reference evaluator, for all targets.
    """
    name = checked.entry.name
    pending = [code for code in codes if not rows[name, code[0].target].checked]
    for number, code in enumerate(pending):
        key = name, code[0].target
        part = work.part(work.left / (len(pending) - number))
        rows[key] = _by_blocks(rows[key], checked, item, code, part)


def _start(
    stack: ExitStack,
    bundle: Path,
    variants: Sequence[CompiledVariant],
    full: bool,
    bundle_class: type[Bundle] = Bundle,
) -> tuple[list[tuple[CompiledVariant, CompiledProcess]], dict[Target, str]]:
    """Start a process per variant that runs here; return them, and error codes of
    others.
    """
    running: list[tuple[CompiledVariant, CompiledProcess]] = []
    refused: dict[Target, str] = {}
    for variant in variants:
        target = variant.target
        try:
            code = bundle_class(str(bundle), target.id)
            process = CompiledProcess(code, None if full else _SECONDS)
        except AotcError as error:
            if error.code not in _NOT_HERE:
                raise load_error(target, error) from error
            refused[target] = error.code
        else:
            running.append((variant, stack.enter_context(process)))
    return running, refused


# ---- an item of an entry ------------------------------------------------------------


def _finding(
    trial: Trial, variant: CompiledVariant, process: CompiledProcess
) -> _Finding:
    """Compare a check item on one target; return a function that adds it to the
    findings.
    """
    sizes = trial.item.sizes
    try:
        results = _verdicts(trial, variant, process)
    except (DidNotEnd, NothingToCompare) as reason:
        return partial(_skip, item=trial.item, reason=reason)
    except SetupError:  # `_guard` lets no other through
        return lambda row: row.skip(sizes, _NO_MEMORY, is_lasting=False)
    return lambda row: row.extend(sizes, results)


def _skip(
    row: SelfCheck, item: CheckItem, reason: DidNotEnd | NothingToCompare
) -> SelfCheck:
    """Return the findings with a check item as not compared, except for a spare one."""
    if item.priority is WorkPriority.SPARE and isinstance(reason, NothingToCompare):
        return row
    return row.skip(item.sizes, f"{item}{reason}", is_lasting=reason.is_lasting)


def _by_blocks(
    row: SelfCheck,
    checked: CheckedEntry,
    item: CheckItem,
    code: _Code,
    work: WorkBudget,
) -> SelfCheck:
    """Compare an entry block by block, if it has several; return the extended findings.

    Args:
        row: what was found of the entry.
        checked: the entry.
        item: the first that took the reference evaluator too long.
        code: of the entry, and the weights of its bundle.
        work: of the reference evaluator.
    """
    variant, process, packed = code
    symbols = parts_of(checked.entry, item.sizes)
    blocks = blocks_of(checked.graph, checked.entry, symbols)
    is_alone = not isinstance(checked, CheckedDevicesEntry)
    if len(blocks) < 2 or not checked.entry.has_general_code or not is_alone:
        return row
    row = row.without_reasons(item.sizes)
    seconds = _ENDLESS_SECONDS if checked.may_be_endless else None
    try:
        work.hold(input_elements(checked.entry, item.sizes))
        calls = call_sequence_of(
            checked.program, checked.graph, checked.entry, item, SEED
        )
        shipped = next(checked.compiled_results(calls, process, seconds))
        given = checked, blocks, calls, symbols, (variant, packed)
        found = check_blocks(*given, shipped, work)
    except (DidNotEnd, NothingToCompare) as reason:
        return _skip(row, item, reason)
    except InputError as error:
        return _skip(row, item, NothingToCompare(f"{REFUSES}: {error.message}"))
    except MemoryError:
        return _skip(row, item, NoMemoryToCompare())
    except SetupError:
        return row.skip(item.sizes, _NO_MEMORY, is_lasting=False)
    if found.wrong:
        raise wrong_block(checked, item, variant, found)
    return _with_blocks(row, item, found)


def _with_blocks(row: SelfCheck, item: CheckItem, found: BlockFindings) -> SelfCheck:
    """Return the findings extended by compared blocks, and why others were not."""
    row = row.extend_by_blocks(found.count, found.verdicts)
    if found.apart:
        why = f"with what goes between blocks, it returns something else: {found.apart}"
        row = row.skip(item.sizes, why)
    elif found.count.is_of_all_kinds:
        row = row.extend(item.sizes, ())
    if found.count.missing:
        row = row.skip(item.sizes, f"{found.count.missing}: {TOO_LONG}")
    return row


def _verdicts(
    trial: Trial, variant: CompiledVariant, process: CompiledProcess
) -> list[Verdict]:
    """Run a check item's calls on a target; return the verdict on each result, or raise
    if one is wrong.

    Raises:
        CompileError: one is wrong.
        NothingToCompare: rounding decides everything, or a check of the model.
    """
    with process.lock:
        results = trial.checked.compiled_results(trial.calls, process)
        found = list(_guard(trial, variant, results))
    rows = trial.judge(found)
    for number, row in enumerate(rows):
        if any(not each.passed for each in row):
            raise wrong_results(
                trial.checked, trial.item, variant, row, *trial.expected[number]
            )
    return [reduce(Verdict.worse_of, column) for column in zip(*rows, strict=True)]


def _guard(
    trial: Trial, variant: CompiledVariant, results: Iterator[Arrays]
) -> Iterator[Arrays]:
    """Yield the results of calls; turn errors of compiled code into build errors.

    Raises:
        SetupError: `out-of-memory`, for which the compiled code is not to blame.
        CompileError: any other.
    """
    done = 0
    try:
        for result in results:
            yield result
            done += 1
    except AotcError as error:
        if error.code == "out-of-memory":
            raise
        where, begins = error.where, ""
        if error.code == DIED:
            where, text = place_of(trial.checked, variant, *trial.expected[done])
            begins = f"\n  {text}"
        raise CompileError(
            error.code if isinstance(error, CompileError) else "self-check",
            f"entry '{trial.checked.entry.name}', compiled for '{variant.target}', "
            f"fails{sizes_text([trial.item.sizes])} where the reference evaluator does "
            f"not: {error.message}{begins}",
            where=where,
            hint=HINT,
        ) from error
