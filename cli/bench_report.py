"""The report of `aotc bench`, as a document and as text."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from aotc import __version__
from aotc.artifacts.manifest import EntryPoint
from aotc.cli import output
from aotc.cli.kernels import ops_text, places_text, winograd_notes
from aotc.timing.dispatches import Dispatch, DispatchProfile
from aotc.timing.rounds import BundleMeasurement
from aotc.timing.statistics import Latency, TimeRatio

_SHOWN = 20  # dispatches
_COLUMNS = ("count", "min", "p50", "p90", "p99", "max", "mean", "std")
_LONG_TAIL = 2.0  # p99 over p50
_LEAST_SHARE = 0.9  # of a processor, that one thread should get
_MANY_FAULTS = 1000  # a call: 4 MB, which take some 2 ms to be filled with zeros


@dataclass(frozen=True)
class BenchReport:
    """The measured calls of a bundle, and of the bundles that it is compared with.

    Args:
        point: the entry.
        machine: before the first call, as `timing.machine.description` tells it.
        measured: the bundle, and then the others.
        limit: what the ratios of medians may be at most, if there is a limit.
        seed: of random inputs.
        profile: the dispatches of a call, if they were asked for.
    """

    point: EntryPoint
    machine: Mapping[str, Any]
    measured: Sequence[BundleMeasurement]
    limit: float | None
    seed: int
    profile: DispatchProfile | None = None

    @property
    def passed(self) -> bool:
        """Return whether all time ratios to the other bundles are at or below the
        limit.
        """
        return self.limit is None or all(
            each.ratio <= self.limit for each in self._comparisons
        )

    @property
    def warnings(self) -> list[str]:
        """The distinct warnings of loading the bundles."""
        said = (text for each in self.measured for text in each.loaded.warnings)
        return list(dict.fromkeys(said))

    @cached_property
    def _comparisons(self) -> list[TimeRatio]:
        """The ratio of call times of the first bundle to each of the others."""
        first, *others = ([r.times for r in each.rounds] for each in self.measured)
        return [TimeRatio.of(first, rounds) for rounds in others]

    @cached_property
    def _latencies(self) -> list[Latency]:
        """The latency statistics of each bundle."""
        return [Latency.of(each.times) for each in self.measured]

    # ---- for scripts ----------------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        """Return the report as JSON (schema `aotc.bench/1`); times are in
        milliseconds.
        """
        arrays = self.measured[0].subject.inputs
        return {
            "schema": "aotc.bench/1",
            "entry": self.point.name,
            "kind": self.point.kind,
            "inputs": [
                {
                    "name": leaf.name,
                    "dtype": leaf.dtype,
                    "shape": list(arrays[leaf.name].shape),
                }
                for leaf in self.point.inputs
            ],
            "seed": self.seed,
            "machine": dict(self.machine),
            "aotc": __version__,
            "bundles": [
                _bundle_document(*pair)
                for pair in zip(self.measured, self._latencies, strict=True)
            ],
            "comparisons": [
                {"bundle": other.subject.bundle, **each.to_json()}
                for other, each in self._compared()
            ],
            "profile": self.profile.to_json() if self.profile else None,
            "at_most": self.limit,
            "passed": self.passed,
            "notes": list(self._notes()),
        }

    @property
    def _names(self) -> list[str]:
        """The label of each bundle in tables; empty if there is only one."""
        count = len(self.measured)
        return [str(number) for number in range(1, count + 1)] if count > 1 else [""]

    def _compared(self) -> Iterator[tuple[BundleMeasurement, TimeRatio]]:
        """Yield each other bundle with the time ratio of the first bundle to it."""
        return zip(self.measured[1:], self._comparisons, strict=True)

    # ---- for people -----------------------------------------------------------------

    def to_text(self) -> str:
        """Return a table of times, with the conditions above and notes below."""
        names = self._names
        rows = [
            (name, latency.count, *(_ms(getattr(latency, c)) for c in _COLUMNS[1:]))
            for name, latency in zip(names, self._latencies, strict=True)
        ]
        costs = [
            (name, *_cost_cells(each, latency))
            for name, each, latency in zip(
                names, self.measured, self._latencies, strict=True
            )
        ]
        lines = [
            f"{self.point.name}({self._inputs()})",
            f"on {_machine(self.machine)}",
            *(
                f"{_prefix(name)}{_title(each)}"
                for name, each in zip(names, self.measured, strict=True)
            ),
            "",
            output.table(("ms", "calls", *_COLUMNS[1:]), rows),
            "",
            output.table(_COSTS, costs),
            *self._ratio_lines(),
            *self._profile_lines(),
            *(f"note: {note}" for note in self._notes()),
        ]
        return "\n".join(lines)

    def _inputs(self) -> str:
        """Return the inputs of the calls as text: name, dtype and shape."""
        arrays = self.measured[0].subject.inputs
        return ", ".join(
            f"{leaf.name}: {leaf.dtype}{list(arrays[leaf.name].shape)}"
            for leaf in self.point.inputs
        )

    def _ratio_lines(self) -> Iterator[str]:
        """Yield lines on the time ratio to each other bundle, and on the limit."""
        for number, (_, each) in enumerate(self._compared(), 2):
            yield (
                f"\n1 takes {each.ratio:.3f} times as long as {number} by the medians, "
                f"{each.ratio_of_minima:.3f} by the minima; "
                f"{each.low:.3f} to {each.high:.3f} in {each.rounds} pairs of rounds"
                f"{': no difference shown' if each.is_noise else ''}"
            )
            if self.limit is not None:
                verdict = "passed" if each.ratio <= self.limit else "failed"
                yield f"at most {self.limit:g}: {verdict}"

    def _profile_lines(self) -> Iterator[str]:
        """Yield a table of the costliest dispatches of a call, if they were
        profiled.
        """
        if self.profile is None:
            return
        shown = self.profile.dispatches[:_SHOWN]
        rows = [
            (
                each.name,
                f"{each.count:g}",
                _ms(each.ms),
                f"{_ratio(each.ms, self.profile.ms):.1%}",
                f"{_ratio(each.processor_ms, each.ms):.2f}",
                *_kernel_cells(each, self.profile.export),
            )
            for each in shown
        ]
        header = ("dispatch", "per call", "ms", "share", "threads busy", *_KERNEL)
        yield "\n" + output.table(header, rows)
        if rest := self.profile.dispatches[_SHOWN:]:
            yield f"and {len(rest)} others, {_ms(sum(each.ms for each in rest))} ms"
        yield (
            f"all dispatches: {_ms(self.profile.ms)} ms (medians of "
            f"{self.profile.calls} calls), of a call's {_ms(self._latencies[0].p50)} ms"
        )
        if self.profile.uneven:
            yield (
                f"note: {len(self.profile.uneven)} have no whole number per call: "
                "calls differ, as loops that end by a condition do, or IREE has lost "
                "notes"
            )
        kernels = (each.kernel for each in shown if each.kernel is not None)
        yield from winograd_notes(kernels)

    def _notes(self) -> Iterator[str]:
        """Yield notes on states, random integers, and disturbances of the
        measurement.
        """
        first = self.measured[0]
        if first.loaded.states:
            states = ", ".join(first.loaded.states)
            yield (
                f"calls advance {states}; each round begins with the first values, "
                "and nothing is saved"
            )
        if integers := self._drawn_integers():
            yield (
                f"{', '.join(integers)}: integers are 0 or 1; if the time depends on "
                "them, give real ones with --input"
            )
        yield from self._disturbances()

    def _drawn_integers(self) -> list[str]:
        """Return the names of integer inputs that were drawn at random."""
        given = self.measured[0].subject.given
        return [
            leaf.name
            for leaf in self.point.inputs
            if leaf.dtype[0] in "iu" and leaf.name not in given
        ]

    def _disturbances(self) -> Iterator[str]:
        """Yield signs that other programs used the machine during the measurement."""
        load, cores = self.machine["load_average"], self.machine["cores_logical"]
        threads = self.measured[0].loaded.threads or 1
        if load is not None and cores and load + threads > cores + 0.5:
            yield (
                f"the machine was busy before the first call: {load} processes on "
                f"average wanted its {cores} processors"
            )
        for name, each, latency in zip(
            self._names, self.measured, self._latencies, strict=True
        ):
            tail = latency.p99 / latency.p50
            if tail > _LONG_TAIL:
                yield (
                    f"{_prefix(name)}p99 is {tail:.1f} times p50: something disturbed "
                    "the calls, or they differ; the minimum says more"
                )
            if each.loaded.threads == 1 and each.busy_processors < _LEAST_SHARE:
                yield (
                    f"{_prefix(name)}its thread got {each.busy_processors:.0%} of a "
                    "processor; other processes had the rest"
                )
            keeps = "MALLOC_MMAP_MAX_" in os.environ or not each.loaded.threads
            if each.page_faults > _MANY_FAULTS and not keeps:
                yield (
                    f"{_prefix(name)}each call takes {each.page_faults:.0f} pages of "
                    "memory from the system; if it gives them back after each, glibc "
                    "keeps them with MALLOC_MMAP_MAX_=0 "
                    "MALLOC_TRIM_THRESHOLD_=17179869184 in the environment"
                )


# ---- parts of the document ----------------------------------------------------------


def _bundle_document(
    measured: BundleMeasurement, latency: Latency
) -> dict[str, object]:
    """Return the JSON object of one measured bundle."""
    loaded, last = measured.loaded, measured.rounds[-1]
    return {
        "bundle": measured.subject.bundle,
        "name": loaded.name,
        "version": loaded.version,
        "manifest_sha256": loaded.digest,
        "variant": loaded.variant,
        "fallback": loaded.fallback,
        "iree_compiler": loaded.compiler,
        "iree_runtime": loaded.runtime,
        "threads": loaded.threads,
        "states": list(loaded.states),
        "load_ms": loaded.load_ns / 1e6,
        "first_call_ms": loaded.first_call_ns / 1e6,
        "warm_up_calls": len(measured.warm_up.times),
        "latency_ms": latency.to_json(),
        "calls_per_second": 1000 / latency.mean,
        "busy_processors": measured.busy_processors,
        "page_faults_per_call": measured.page_faults,
        "memory_bytes": {
            "before_load": loaded.memory_before_load,
            "after_load": loaded.memory_after_load,
            "after_calls": last.memory,
            "peak": last.peak_memory,
        },
        "rounds": [Latency.of(one.times).to_json() for one in measured.rounds],
    }


# ---- parts of the text --------------------------------------------------------------

_COSTS = (
    "", "calls/s", "load ms", "first call ms", "threads busy", "memory", "peak",
    "before load",
)  # fmt: skip


_KERNEL = ("GFLOP/s", "ops", "source")


def _kernel_cells(dispatch: Dispatch, export: str) -> tuple[str, ...]:
    """Return table cells on a dispatch's kernel: speed, ops and source lines; `-` for
    IREE's own code.
    """
    if dispatch.kernel is None:
        return "-", "-", ""
    calls = dispatch.kernel["entries"].get(export)
    where = places_text([calls]) if calls else ""
    speed = "-" if dispatch.gflops is None else f"{dispatch.gflops:.3g}"
    return speed, ops_text(dispatch.kernel), where


def _cost_cells(measured: BundleMeasurement, latency: Latency) -> tuple[str, ...]:
    """Return table cells on rate, loading, first call, processors and memory."""
    threads = measured.loaded.threads
    of = f" of {threads}" if threads else ""
    return (
        f"{1000 / latency.mean:.1f}",
        f"{measured.loaded.load_ns / 1e6:.1f}",
        _ms(measured.loaded.first_call_ns / 1e6),
        f"{measured.busy_processors:.2f}{of}",
        _size(measured.rounds[-1].memory),
        _size(measured.rounds[-1].peak_memory),
        _size(measured.loaded.memory_before_load),
    )


def _prefix(name: str) -> str:
    """Return `name: `, or nothing for an empty name."""
    return f"{name}: " if name else ""


def _title(measured: BundleMeasurement) -> str:
    """Return a line that identifies a measured bundle: path, version, variant,
    runtime.
    """
    loaded = measured.loaded
    threads = f", {loaded.threads} thread{'s' * (loaded.threads != 1)}"
    title = f"{loaded.name} {loaded.version}, {loaded.digest[:12]}"
    return (
        f"{measured.subject.bundle} ({title}): {loaded.variant}"
        f"{threads if loaded.threads else ''}, IREE {loaded.runtime}"
    )


def _machine(machine: Mapping[str, object]) -> str:
    """Format the machine's description as one line: processor, count, load."""
    return (
        f"{machine['model'] or 'an unknown processor'}, {machine['cores_logical']} "
        f"processors, load average {machine['load_average']}"
    )


def _ms(value: float) -> str:
    """Format milliseconds in four digits, or all before the point."""
    return f"{value:.0f}" if value >= 1000 else f"{value:.4g}"


def _ratio(part: float, whole: float) -> float:
    """Return part / whole; 0 for a whole of 0."""
    return part / whole if whole else 0.0


def _size(count: int | None) -> str:
    """Format a number of bytes; `unknown` for None."""
    return "unknown" if count is None else output.size(count)
