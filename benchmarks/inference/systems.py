"""The systems that are compared: who runs what, and how its form of a model is made."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import ClassVar, NamedTuple

TOLERANCE = 1e-4  # of the largest value of each output
BENCHMARKS = Path(__file__).parents[1]

# What the pools of OpenMP and of XLA are as large as
THREADS = ("OMP_NUM_THREADS", "NPROC")

# What holds the libraries to AVX2. MLAS, of ONNX Runtime and OpenVINO, heeds none of it
AVX2 = {
    "ONEDNN_MAX_CPU_ISA": "AVX2",
    "ATEN_CPU_CAPABILITY": "avx2",
    "MKL_ENABLE_INSTRUCTIONS": "AVX2",
    "XLA_FLAGS": "--xla_cpu_max_isa=AVX2",
}


class Unsupported(Exception):
    """Raised if a system has no form of a model; the message says why."""


@dataclass
class Artifact:
    """A model in the form that one system loads.

    Attributes:
        path: what the runner loads.
        bytes: what is shipped to a device.
        facts: what its making told, by the names of the results.
    """

    path: Path
    bytes: int
    facts: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class System:
    """A library that runs models, with its interpreter and runner.

    Attributes:
        name: in tables.
        python: the interpreter that has the library.
        runner: its module in `runners`.
        distribution: the package that has to be installed to run models.
        package: of `serve` and `runners`, in this folder's parent.
        tolerance: the largest error of its results, by their largest value.
        precision: that it is told to compute in; none leaves the dtypes of the model.
    """

    name: str
    python: Path
    runner: str
    distribution: str
    precision: str | None = field(default=None, kw_only=True)
    is_peer: ClassVar[bool] = True
    package: ClassVar[str] = "inference"
    tolerance: ClassVar[float] = TOLERANCE

    @property
    def label(self) -> str:
        """The system's name as a file name."""
        return self.name.replace(" ", "-")

    def prepare(self, case: Path, folder: Path) -> Artifact:
        """Create the system's form of an exported model in `folder`; return it.

        Raises:
            Unsupported: it has none.
            subprocess.CalledProcessError: making it failed.
        """
        raise NotImplementedError

    def install_bytes(self) -> int | None:
        """Return the installed bytes of the system with its requirements; None if
        unknown.
        """
        return installed_bytes(self.python, self.distribution)


@dataclass(frozen=True)
class OnnxRuntime(System):
    """ONNX Runtime, which loads the .onnx file as it is."""

    def prepare(self, case: Path, folder: Path) -> Artifact:
        """Return the exported .onnx file."""
        files = [case / "model.onnx", case / "model.onnx.data"]
        return Artifact(files[0], sum(f.stat().st_size for f in files if f.exists()))


@dataclass(frozen=True)
class OpenVino(System):
    """OpenVINO, which loads its own form, converted from the .onnx file."""

    def prepare(self, case: Path, folder: Path) -> Artifact:
        """Convert the .onnx file unless that is done; return the result."""
        model = folder / "model.xml"
        source = case / "model.onnx"
        if not model.exists() or model.stat().st_mtime < source.stat().st_mtime:
            folder.mkdir(parents=True, exist_ok=True)
            module = f"inference.runners.{self.runner}"
            run_module(self.python, module, str(source), str(model))
        return Artifact(model, size(folder))


@dataclass(frozen=True)
class PyTorch(System):
    """PyTorch, which loads the pickled module."""

    def prepare(self, case: Path, folder: Path) -> Artifact:
        """Return the exported module's file."""
        file = case / "module.pt"
        return Artifact(file, file.stat().st_size)


@dataclass(frozen=True)
class Jax(System):
    """JAX, which loads the weights of a network of `models_zoo_jax`."""

    def prepare(self, case: Path, folder: Path) -> Artifact:
        """Return the exported weights' file."""
        if has_symbols(case):
            raise Unsupported("one program for each size")
        file = case / "weights.npz"
        return Artifact(file, file.stat().st_size)


@dataclass(frozen=True)
class Aotc(System):
    """aotc, which loads a bundle that is built for one CPU level.

    Attributes:
        level: the target.
        reuse: take the bundle of an earlier run, whatever compiler made it.
        edge: the interpreter of an environment that has only what runs bundles.
        program: the file that is built, unless the case has a `model.py`.
        numerics: of the build; only `strict` is what compilers before it know.

    What a build of a case is to be told besides stands in its `build.json`.
    """

    level: str
    reuse: bool
    edge: Path
    program: str = "program.pt2"
    numerics: str = "strict"
    is_peer: ClassVar[bool] = False

    def prepare(self, case: Path, folder: Path) -> Artifact:
        """Build the bundle unless it may be reused; return it."""
        bundle, file = folder / "model-1.0.0.aotc", folder / "facts.json"
        if not (self.reuse and file.exists()):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            file.write_text(json.dumps(self._build(case, folder)))
        return Artifact(bundle, size(bundle), json.loads(file.read_text()))

    def install_bytes(self) -> int | None:
        """Return the installed bytes of aotc's edge install."""
        return installed_bytes(self.edge, self.distribution)

    def of_static_sizes(self) -> Aotc:
        """Return a copy of this system that builds for static sizes."""
        return replace(self, name=f"{self.name} static", program="static.pt2")

    def _build(self, case: Path, folder: Path) -> dict[str, float]:
        """Build the bundle; return its seconds and dispatches."""
        report, source = folder / "report.json", case / "model.py"
        source = source if source.exists() else case / self.program
        command = [self.python, "-m", "aotc.cli.main", "build", source]
        command += ["-o", folder, "--name", "model", "--target", self.level]
        command += ["--no-cache", "--no-sign", "--self-check", "off", "-q"]
        if self.numerics != "strict":
            command += ["--numerics", self.numerics]
        if self.precision is not None:
            command += ["--precision", self.precision]
        told = case / "build.json"
        command += json.loads(told.read_text()) if told.exists() else []
        start = time.perf_counter()
        subprocess.run(
            [*command, "--report", report],
            check=True,
            stdout=subprocess.DEVNULL,
            cwd=folder,
        )
        seconds = time.perf_counter() - start
        found = json.loads(report.read_text())
        passes = [*found["passes"], *found["variant_passes"].get(self.level, [])]
        return {
            "build_seconds": seconds,
            "pass_seconds": sum(each["seconds"] for each in passes),
            "dispatches": found["variants"][0]["statistics"]["dispatches"],
        }


class Peer(NamedTuple):
    """The recipe of a peer system: its class, runner and environment.

    Attributes:
        kind: its class.
        runner: its module in `runners`.
        environment: the package that it is, after which its environment is named.
    """

    kind: type[System]
    runner: str
    environment: str


PEERS = {
    "onnxruntime": Peer(OnnxRuntime, "onnx_runtime", "onnxruntime"),
    "openvino": Peer(OpenVino, "open_vino", "openvino"),
    "torch": Peer(PyTorch, "eager", "torch"),
    "torch-compile": Peer(PyTorch, "compiled", "torch"),
    "jax": Peer(Jax, "jax_jit", "jax"),
}


def has_symbols(case: Path) -> bool:
    """Return whether an exported model takes inputs of several sizes."""
    return (case / "static.pt2").exists()


@lru_cache
def installed_bytes(python: Path, distribution: str) -> int | None:
    """Return the bytes of a distribution and its requirements; None if not found."""
    command = [python, "-m", "inference.install_size", distribution]
    return json.loads(subprocess.check_output(command, env=environment()))


def size(folder: Path) -> int:
    """Return the bytes of all files below a folder."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def environment(threads: int | None = None, avx2: bool = False) -> dict[str, str]:
    """Return environment variables for a child process of this folder."""
    variables = {**os.environ, "PYTHONPATH": str(BENCHMARKS)}
    if threads is not None:
        variables |= {name: str(threads) for name in THREADS}
    return {**variables, **(AVX2 if avx2 else {})}


def run_module(python: Path, module: str, *arguments: str) -> None:
    """Run a module of this folder in a child process; raise if it fails.

    Raises:
        subprocess.CalledProcessError: it failed; what it said stands in the error.
    """
    subprocess.run(
        [python, "-m", module, *arguments],
        check=True,
        env=environment(),
        stdout=subprocess.DEVNULL,
    )
