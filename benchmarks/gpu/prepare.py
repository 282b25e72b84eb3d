"""`prepare`: a folder that holds all that a run on another machine needs."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from aotc import __version__
from aotc.artifacts import keys
from aotc.machine.target import Target
from aotc.runtime import engine
from benchmarks.gpu import wheels
from benchmarks.gpu.bundles import Builder, Bundle
from benchmarks.gpu.cases import CaseWriter
from benchmarks.gpu.networks import write_networks
from benchmarks.gpu.programs import ROOT, Subject, fuzz_subjects, model_subjects
from benchmarks.gpu.schedules import write_schedules
from benchmarks.gpu.there import seconds

SCRIPTS = Path(__file__).with_name("there")
DRIVER = ROOT / "aotc/tuning/cuda_driver.py"  # by which `schedules.py` launches
PROBE = ROOT / "aotc/machine/native/probe.c"
PROGRAMS = "programs.tar.xz"
MOST_BYTES = 60_000_000


@dataclass(frozen=True)
class Plan:
    """The options of preparing a folder: models, targets, networks and wheels.

    Args:
        models: names of the models.
        programs: how many programs of the fuzzer.
        seed: of the first.
        targets: names of what all is compiled for.
        python: version that the wheels are for; None for no wheels.
        with_numpy: whether NumPy is among them.
        networks: names of whole networks, which need PyTorch here.
        dtypes: of their weights.
        schedules: the chip that kernels are compiled for in many schedules, if any.
    """

    models: tuple[str, ...]
    programs: int
    seed: int
    targets: tuple[str, ...]
    python: str | None
    with_numpy: bool = False
    networks: tuple[str, ...] = ()
    dtypes: tuple[str, ...] = ()
    schedules: str | None = None


def prepare(plan: Plan, folder: Path) -> None:
    """Write the folder for the other machine, replacing an older one.

    Raises:
        SystemExit: pip fails, or the folder is larger than `MOST_BYTES`.
    """
    # A random program need not use all its inputs.
    warnings.filterwarnings("ignore", message=".*is not used")
    start = time.monotonic()
    _empty(folder)
    for script in (*SCRIPTS.glob("*.py"), DRIVER):
        shutil.copy(script, folder)
    shutil.copy(PROBE, folder)
    _compile_probe(folder / "aotc-probe")
    if plan.python is not None:
        wheels.download(folder / "wheels", plan.python, with_numpy=plan.with_numpy)
    with tempfile.TemporaryDirectory() as scratch:
        document = _programs(plan, Path(scratch), folder)
    targets = [*map(Target.parse, plan.targets)]
    gpus = [each for each in targets if each.sm] or targets
    document["networks"], document["schedules"] = [], 0
    if plan.networks:
        names = write_networks(folder, plan.networks, plan.dtypes, gpus)
        document["networks"] = names
    if plan.schedules is not None:
        document["schedules"] = write_schedules(folder, plan.schedules)
    text = json.dumps(document, indent=1)
    (folder / "folder.json").write_text(text + "\n", encoding="utf-8")
    print(_sizes(folder, time.monotonic() - start))
    parts = seconds.estimate(document, [each.id for each in gpus])
    print(seconds.told(parts))
    if _bytes_in(folder) > MOST_BYTES:
        raise SystemExit(f"the folder is larger than {MOST_BYTES / 1e6:.0f} MB")


def _empty(folder: Path) -> None:
    """Create an empty folder in place of an earlier one."""
    if folder.exists() and any(folder.iterdir()):
        if not (folder / "run.py").exists():
            raise SystemExit(f"{folder} is not empty, and no folder of `prepare`")
        shutil.rmtree(folder)
    folder.mkdir(parents=True, exist_ok=True)


def _compile_probe(program: Path) -> None:
    """Compile the C probe for this architecture into `program`."""
    command = ["cc", "-std=c11", "-O1", str(PROBE), "-o", str(program), "-ldl"]
    if shutil.which("cc"):
        subprocess.run(command, check=True)


def _programs(plan: Plan, scratch: Path, folder: Path) -> dict[str, Any]:
    """Build, evaluate and archive all models; return their rows of folder.json."""
    targets = [Target.parse(name) for name in plan.targets]
    drawn, refused = fuzz_subjects(plan.programs, plan.seed, targets, _made(scratch))
    subjects = [*model_subjects(plan.models, targets), *drawn]
    signer = keys.write_key_pair(scratch / "run.key")
    (folder / "run.pub").write_bytes(signer.public_pem)
    builder = Builder(scratch / "run.key", scratch / "run.pub", _tell)
    out = scratch / "programs"
    rows = [_subject(subject, builder, out) for subject in subjects]
    for name, why in builder.refused.items():
        refused.setdefault(name, {}).update(why)
    with tarfile.open(folder / PROGRAMS, "w:xz") as archive:
        archive.add(out, ".")
    return {
        "schema": "aotc.gpu-folder/1",
        "aotc": __version__,
        "iree": engine.iree_version(),
        "python": plan.python,
        "targets": {target.id: str(target) for target in targets},
        "backends": {target.id: target.backend for target in targets},
        "programs": rows,
        "refused": refused,
    }


def _made(scratch: Path) -> Path:
    """Create and return the folder for model files."""
    folder = scratch / "models"
    folder.mkdir()
    return folder


def _subject(subject: Subject, builder: Builder, out: Path) -> dict[str, Any]:
    """Build a subject and write its cases; return its row of folder.json."""
    folder = out / subject.name
    bundles = builder.build(subject, folder)
    _tell(f"{subject.name}: reference")
    cases = CaseWriter()
    cases.add_model(subject.model, subject.compared)
    cases.write(folder)
    return {
        "name": subject.name,
        "cases": cases.count,
        "bundles": [_row(bundle, out) for bundle in bundles],
        "timed": [asdict(call) for call in subject.timed],
    }


def _row(bundle: Bundle, out: Path) -> dict[str, Any]:
    """Return a bundle's row of folder.json."""
    return {
        "path": bundle.path.relative_to(out).as_posix(),
        "entries": bundle.entries,
        "variants": bundle.variants,
    }


def _tell(text: str) -> None:
    """Print progress to standard error."""
    print(text, file=sys.stderr, flush=True)


def _sizes(folder: Path, seconds: float) -> str:
    """Return a line with the size and time of each part of the folder."""
    parts = [folder / PROGRAMS, *sorted(folder.glob("wheels/*.whl"))]
    lines = [f"{path.stat().st_size / 1e6:8.2f} MB  {path.name}" for path in parts]
    return "\n".join(
        [*lines, f"{_bytes_in(folder) / 1e6:8.2f} MB  {folder}, {seconds:.0f} s"]
    )


def _bytes_in(folder: Path) -> int:
    """Return the bytes of all files below a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def names(text: str, known: Sequence[str]) -> tuple[str, ...]:
    """Split a comma-separated list of names; exit if one is unknown.

    Raises:
        SystemExit: one of them is unknown.
    """
    found = tuple(name for name in text.split(",") if name)
    if unknown := [name for name in found if name not in known]:
        raise SystemExit(f"unknown: {', '.join(unknown)}; known: {', '.join(known)}")
    return found
