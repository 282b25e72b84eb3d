"""Is the code for GPUs right there, and how fast? Prepared here, run there.

    python -m benchmarks.gpu prepare --out FOLDER
    python FOLDER/run.py                     # there; needs Python, and no network
    python FOLDER/networks.py FOLDER/networks OUT    # with --peers in PyTorch
    python FOLDER/schedules.py               # kernels in many schedules
    python -m benchmarks.gpu run FOLDER      # the same, of a checkout

`prepare` compiles models, and programs of the fuzzer, for GPUs and for processors, and
puts them into a folder with inputs, results of the reference evaluator, the tolerances
of the self-check, and wheels of the edge install. docs/gpu.md says what is run.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

TARGETS = ("cuda:sm_80", "cuda:sm_90a", "vulkan", "x86_64-v3", "x86_64-v4")
OUT = Path("build/gpu")


def main() -> int:
    """Prepare a folder for a machine with a GPU, or run one there."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.gpu",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    verbs = parser.add_subparsers(dest="verb", required=True)
    prepares = verbs.add_parser("prepare", help="make a folder")
    runs = verbs.add_parser("run", help="run one; further options are run.py's")
    add = prepares.add_argument
    add("--out", type=Path, default=OUT, help=f"the folder ({OUT})")
    add("--models", help="some models, such as digits,scan (all)")
    add("--programs", type=int, default=300, help="of the fuzzer (300)")
    add("--seed", type=int, default=31_000, help="of the first program (31000)")
    add("--targets", default=",".join(TARGETS), help=f"({','.join(TARGETS)})")
    add("--python", default="3.12", help="version that the wheels are for (3.12)")
    add("--networks", default="", help="such as bert,train:bert; train or all (none)")
    add("--dtypes", default="f32,bf16", help="of their weights (f32,bf16)")
    add("--schedules", metavar="ARCH", help="of kernels, for a chip such as sm_90")
    add("--no-wheels", action="store_true", help="aotc is installed there")
    add("--with-numpy", action="store_true", help="NumPy is not there")
    runs.add_argument("folder", type=Path)
    asked, rest = parser.parse_known_args()
    if asked.verb == "run":
        command = [sys.executable, str(asked.folder / "run.py"), *rest]
        return subprocess.run(command, check=False).returncode
    if rest:
        parser.error(f"unknown: {' '.join(rest)}")
    return _prepare(asked)


def _prepare(asked: argparse.Namespace) -> int:
    """Build all bundles and cases into the folder that the command line names."""
    from aotc.machine.target import TARGETS as KNOWN
    from benchmarks.gpu.networks import DTYPES, NETWORKS, STEPS_OF_TRAINING
    from benchmarks.gpu.prepare import Plan, names, prepare
    from benchmarks.gpu.programs import MODEL_NAMES

    models = MODEL_NAMES if asked.models is None else names(asked.models, MODEL_NAMES)
    sets = {"train": STEPS_OF_TRAINING, "all": NETWORKS}
    networks = ",".join(sets.get(asked.networks, (asked.networks,)))
    plan = Plan(
        models=models,
        programs=asked.programs,
        seed=asked.seed,
        targets=names(asked.targets, tuple(KNOWN)),
        python=None if asked.no_wheels else asked.python,
        with_numpy=asked.with_numpy,
        networks=names(networks, NETWORKS),
        dtypes=names(asked.dtypes, DTYPES),
        schedules=asked.schedules,
    )
    prepare(plan, asked.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
