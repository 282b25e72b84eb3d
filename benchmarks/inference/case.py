"""One model with one batch: prepared for every system, checked, and timed."""

from __future__ import annotations

import subprocess
import sys
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from .measuring import alternate
from .results import Row, compare_with_peers, time_table
from .systems import (
    Aotc,
    Artifact,
    Jax,
    OnnxRuntime,
    OpenVino,
    System,
    Unsupported,
    has_symbols,
    run_module,
)
from .worker import Worker

NOT_BUILT = "not built"


@dataclass(frozen=True)
class Settings:
    """The rounds, seconds, threads and clock of a measurement.

    Attributes:
        threads: numbers of threads, each measured by itself.
        rounds: in which the systems alternate.
        seconds: how long one system computes in a round.
        clock: `wall` or `processor`.
        avx2: hold the peers to AVX2, where they can be held.
    """

    threads: list[int]
    rounds: int
    seconds: float
    clock: str
    avx2: bool


@dataclass(frozen=True)
class Case:
    """A model with one batch size, and its working folder."""

    model: str
    batch: int
    work: Path

    @property
    def exported(self) -> Path:
        """The folder of the exported forms."""
        return self.work / "cases" / f"{self.model}-b{self.batch}"

    def export(self, torch: Path, systems: list[System]) -> bool:
        """Export the model for the systems, in a Python with PyTorch; false if that
        fails.

        False if PyTorch cannot export the model; it has said why on standard error.
        """
        words = [self.model, str(self.batch), str(self.exported)]
        if any(isinstance(each, (OnnxRuntime, OpenVino)) for each in systems):
            words.append("--onnx")
        if any(isinstance(each, Jax) for each in systems):
            words.append("--weights")
        try:
            run_module(torch, "inference.export", *words)
        except subprocess.CalledProcessError:
            return False
        return True

    def failures(
        self, systems: list[System], settings: Settings, reason: str
    ) -> list[Row]:
        """Return rows with a reason why no system was timed."""
        return [
            self._row(system, threads, reason)
            for threads in settings.threads
            for system in systems
        ]

    def _row(self, system: System, threads: int, failure: str | None = None) -> Row:
        """Return an empty row for a system and number of threads."""
        row = Row(self.model, self.batch, threads, system.name, system.is_peer)
        row.failure, row.precision = failure, system.precision
        return row

    def measure(self, systems: list[System], settings: Settings) -> list[Row]:
        """Prepare all systems, then time them; return a row for each and thread count.

        A model of symbolic sizes is timed beside aotc's builds for the sizes of the
        batch.
        """
        if has_symbols(self.exported):
            ours = [each for each in systems if isinstance(each, Aotc)]
            systems = [*systems, *(each.of_static_sizes() for each in ours)]
        prepared = {system: self._prepare(system) for system in systems}
        rows: list[Row] = []
        for threads in settings.threads:
            with ExitStack() as stack:
                rows += self._measure(prepared, threads, settings, stack)
        return rows

    def _prepare(self, system: System) -> Artifact | str:
        """Return the system's form of the model, or a reason why there is none."""
        print(f"{self.model}, batch {self.batch}: {system.name}", file=sys.stderr)
        folder = self.work / "builds" / system.label / self.exported.name
        try:
            return system.prepare(self.exported, folder)
        except Unsupported as reason:
            return str(reason)
        except subprocess.CalledProcessError:
            return NOT_BUILT

    def _measure(
        self,
        prepared: dict[System, Artifact | str],
        threads: int,
        settings: Settings,
        stack: ExitStack,
    ) -> list[Row]:
        """Time all systems in turns with a number of threads; return their rows."""
        rows, workers = [], {}
        for system, artifact in prepared.items():
            row = self._row(system, threads)
            rows.append(row)
            worker = self._start(system, artifact, row, settings)
            if worker is not None:
                stack.callback(worker.stop)
                workers[system.name] = worker
        times = alternate(workers, settings.rounds, settings.seconds, settings.clock)
        for row in rows:
            if row.system in workers:
                row.peak_bytes, row.warm_peak_bytes = workers[row.system].memory()
        compare_with_peers(rows, times)
        print(time_table(rows), file=sys.stderr)
        return rows

    def _start(
        self, system: System, artifact: Artifact | str, row: Row, settings: Settings
    ) -> Worker | None:
        """Start a worker and check its results; on failure record it in the row."""
        if isinstance(artifact, str):
            row.failure = artifact
            return None
        log = self.exported / f"{system.label}.log"
        avx2 = settings.avx2 and row.peer
        worker = None
        try:
            worker = Worker(system, artifact, self.exported, row.threads, avx2, log)
            row.error = worker.compare(self.exported / "expected.npz")
        except RuntimeError as found:
            row.failure = str(found)
            return None
        row.cold_start_seconds = worker.cold_start
        row.artifact_bytes = artifact.bytes
        row.install_bytes = system.install_bytes()
        for name, value in artifact.facts.items():
            setattr(row, name, value)
        if row.error <= system.tolerance:
            return worker
        worker.stop()
        row.failure = f"error {row.error:.1e}"
        return None
