"""Calls of a bundle under other releases of the runtime: verdict and truth."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aotc.artifacts import compat
from aotc.artifacts.host import Host
from aotc.artifacts.manifest import Manifest, Variant
from aotc.artifacts.tables import run_outcome
from aotc.artifacts.verdicts import USABLE, Verdict, verdict_of
from aotc.machine import device, processor
from aotc.runtime import engine
from benchmarks.compat.wheels import download

ROOT = Path(__file__).parents[2]
SECONDS = 600


@dataclass(frozen=True)
class Subject:
    """A bundle to try, a file with its calls, and a folder of trusted keys."""

    path: Path
    manifest: Manifest
    calls: Path
    trust: Path | None = None


@dataclass(frozen=True)
class Outcome:
    """The predicted and the real outcome of a variant under one runtime release.

    Args:
        variant: of a subject.
        release: of the runtime.
        verdict: of `compat`.
        truth: `right`, `wrong`, `refused` or `crashed`.
        said: the last line of what the process said.
    """

    variant: Variant
    release: str
    verdict: Verdict
    truth: str
    said: str

    @property
    def is_contradiction(self) -> bool:
        """Return whether the predicted verdict and the real outcome disagree.

        A release under which another model failed is refused for all.
        """
        if self.verdict in USABLE:
            return self.truth != "right"
        known = run_outcome(engine.iree_version(), self.release, self.variant.backend)
        return self.truth == "right" and known in (None, "right")


def run(it: Subject, variant: Variant, wheel: Path) -> tuple[str, Any]:
    """Run a variant's calls under a wheel's runtime; return its results, or the
    failure.
    """
    path = os.pathsep.join((str(wheel), str(ROOT)))
    command = [sys.executable, "-m", "benchmarks.compat.run_calls"]
    trust = [str(it.trust)] if it.trust else []
    done = subprocess.run(
        [*command, str(it.path), variant.id, str(it.calls), *trust],
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        check=False,
        timeout=SECONDS,
    )
    if done.returncode == 0:
        return "results", pickle.loads(done.stdout)
    # The last line that is not a detail of the one before it.
    lines = done.stderr.decode(errors="replace").splitlines()
    said = [line for line in lines if line and not line.startswith(" ")]
    return ("crashed" if done.returncode < 0 else "refused"), (said or [""])[-1]


def outcome(
    it: Subject, variant: Variant, release: str, wheel: Path, expected: Any
) -> Outcome:
    """Run a variant under a runtime release and compare with the expected results."""
    drivers = ("local-sync", "local-task", "vulkan")
    described = {
        "arch": processor.arch(),
        "cpu": {"features": processor.cpu_features()},
    }
    vulkan = {"vulkan": device.probe()["vulkan"]}
    host = Host.from_device(described | vulkan, release, drivers)
    verdict = verdict_of(compat.check(it.manifest, variant, host))
    truth, found = run(it, variant, wheel)
    if truth != "results":
        return Outcome(variant, release, verdict, truth, found)
    present, results = found
    if present != release:
        raise SystemExit(f"expected IREE {release} to run, got {present}")
    same = _bytes(results) == _bytes(expected)
    return Outcome(variant, release, verdict, "right" if same else "wrong", "")


def _bytes(results: Any) -> list[list[tuple[Any, ...]]]:
    """Return results as dtypes, shapes and bytes, to be compared."""
    return [[(a.dtype.str, a.shape, a.tobytes()) for a in call] for call in results]


def outcomes(
    subjects: list[Subject], names: Sequence[str], wheels: Path
) -> Iterator[Outcome]:
    """Yield the outcome of every variant of every bundle under every release."""
    own = download(engine.iree_version(), wheels).folder
    for it in subjects:
        for variant in it.manifest.variants.values():
            kind, found = run(it, variant, own)
            if kind != "results":
                raise SystemExit(f"{it.path.name} {variant.id}: {kind}: {found}")
            for release in names:
                wheel = download(release, wheels).folder
                yield outcome(it, variant, release, wheel, found[1])
