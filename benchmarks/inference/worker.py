"""A process that serves one system with one model."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path
from typing import Any

from .systems import Artifact, System, environment


class Worker:
    """A running child process that serves one system's model.

    Attributes:
        cold_start: seconds from its start to the first result.
    """

    def __init__(
        self,
        system: System,
        artifact: Artifact,
        case: Path,
        threads: int,
        avx2: bool,
        log: Path,
    ) -> None:
        self._log = log
        runner = f"{system.package}.runners.{system.runner}"
        command = [system.python, "-m", f"{system.package}.serve", runner]
        command += [artifact.path, case / "inputs.npz", str(threads)]
        start = time.perf_counter()
        with log.open("w") as errors:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env=environment(threads, avx2),
            )
        self._reply()
        self.cold_start = time.perf_counter() - start

    def compare(self, expected: Path) -> float:
        """Return the largest relative error of the worker's outputs."""
        return self._ask("compare", expected)

    def run(self, count: int, clock: str) -> list[float]:
        """Return the seconds of each of `count` calls, by the clock `wall` or
        `processor`.
        """
        return self._ask("run", count, clock)

    def memory(self) -> tuple[int, int]:
        """Return peak resident bytes: of the whole process, and after its first
        result.
        """
        whole, warm = self._ask("memory")
        return whole, warm

    def stop(self) -> None:
        """End the child process."""
        self._process.stdin.close()
        self._process.wait()

    def _ask(self, *words: object) -> Any:
        """Send a command to the child; return its answer."""
        print(*words, sep="\t", file=self._process.stdin, flush=True)
        return self._reply()

    def _reply(self) -> Any:
        """Read the child's answer; raise if it has ended."""
        line = self._process.stdout.readline()
        if not line:
            code = self._process.wait()
            said = self._log.read_text().strip().splitlines()[-1:]
            raise RuntimeError(f"exit code {code}: {' '.join(said)}")
        return json.loads(line)
