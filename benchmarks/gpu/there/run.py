"""Run what this folder holds on this machine, and write a report.

    python run.py [--targets auto|all|cpu|ID,…] [--out FOLDER] [--seconds 355]
        [--parts compare,times,networks,schedules]

Needs Python, and nothing that is not here: wheels are unpacked beside the report's
folder. NumPy is taken from the Python that there is, unless it is among the wheels.
The report, report.json and report.txt in --out ($OUT, or `report` in this folder), is
written again after each part, so that there is one however the run ends. Exits with 0
if all that was compared is right and compat is, with 1 if not, and with 2 where nothing
could be run.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

import children
import seconds as seconds_of
import text

HERE = Path(__file__).resolve().parent
PARTS = ("compare", "times", "networks", "schedules")
NETWORK_SECONDS, SCHEDULE_SECONDS = 20, 5  # at least for one of them, once begun
PEER_SECONDS = 20  # of times, at most, for PyTorch
AS_GRAPHS = "--cuda_use_streams=false"  # of IREE's runtime
_LIBRARIES = {"cuda": "libcuda.so.1", "vulkan-spirv": "libvulkan.so.1"}


class Run:
    """The state of a run on the machine with the GPU, and its report.

    Args:
        asked: of the command line.
        work: a folder for whatever is needed on the way.
    """

    def __init__(self, asked, work):
        self.asked, self.work = asked, work
        self.plan = json.loads((HERE / "folder.json").read_text(encoding="utf-8"))
        self.deadline = children.Deadline(asked.seconds)
        self.start = time.monotonic()
        self.key = HERE / "run.pub"
        self.report = {
            "schema": "aotc.gpu-run/1",
            "began": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "folder": {key: self.plan[key] for key in ("aotc", "iree", "targets")},
            "refused": self.plan["refused"],
        }

    def write(self, **parts):
        """Update the report with these parts and write it."""
        self.report.update(parts)
        self.report["seconds"] = round(time.monotonic() - self.start, 1)
        self.asked.out.mkdir(parents=True, exist_ok=True)
        document = json.dumps(self.report, indent=1)
        for name, content in (
            ("report.json", document),
            ("report.txt", text.report(self.report)),
        ):
            aside = self.asked.out / f"{name}.part"
            aside.write_text(content + "\n", encoding="utf-8")
            os.replace(aside, self.asked.out / name)

    # ---- before anything runs

    def set_up(self):
        """Unpack programs and wheels; return why children cannot import aotc, or
        None.
        """
        self.programs = self.work / "programs"
        with tarfile.open(HERE / "programs.tar.xz") as archive:
            archive.extractall(self.programs, filter="data")
        wheels = sorted((HERE / "wheels").glob("*.whl"))
        program = children.python_with(self.plan["python"] if wheels else None)
        if program is None:
            return f"needs Python {self.plan['python']}, which is not here"
        site = self.work / "site" if wheels else None
        for wheel in wheels:
            with zipfile.ZipFile(wheel) as archive:
                archive.extractall(site)
        self.python = children.Python(program, site, self.work)
        check = "import numpy, aotc.runtime; print(numpy.__version__)"
        code, said, error = self.python.run("-c", check, seconds=60)
        if code != 0:
            return f"aotc cannot be imported: {error.strip()[-300:]}"
        self.write(python={"program": program, "numpy": said.strip()})
        return None

    def chosen_targets(self):
        """Return the ids of the variants to run on this machine."""
        known, asked = self.plan["targets"], self.asked.targets
        backends = self.plan["backends"]
        on_cpu = [each for each in known if backends[each] == "llvm-cpu"]
        if asked == "all":
            return list(known)
        if asked == "cpu":
            return on_cpu
        if asked != "auto":
            names = {name: each for each, name in known.items()}
            return [names.get(each, each) for each in asked.split(",")]
        here = [
            each
            for each in known
            if each not in on_cpu and is_library(_LIBRARIES.get(backends[each]))
        ]
        return here or on_cpu

    # ---- the machine

    def profile(self):
        """Run `aotc doctor` and the C probe; write their facts to the report."""
        _, said, error = self.python.aotc("doctor", "--format", "json", seconds=60)
        doctor = loaded_json(said) or {"error": error[-600:]}
        probe = self._probe()
        self.write(
            machine={
                "doctor": doctor,
                "probe": probe,
                "differ": differences(doctor.get("device"), probe),
                "nvidia-smi": command_output(
                    "nvidia-smi",
                    "--query-gpu=name,driver_version,memory.total,clocks.sm,power.limit",
                    "--format=csv,noheader",
                ),
                "libraries": {
                    name: is_library(name) for name in _LIBRARIES.values() if name
                },
                "cpus": os.cpu_count(),
            }
        )

    def _probe(self):
        """Compile the C probe if possible, run it, and return its JSON."""
        program = self.work / "aotc-probe"
        source = HERE / "probe.c"
        compiled = False
        for compiler in filter(shutil.which, ("cc", "gcc", "clang")):
            command = [compiler, "-std=c11", "-O1", source, "-o", program, "-ldl"]
            compiled = subprocess.run(command, check=False).returncode == 0
            if compiled:
                break
        if not compiled and (HERE / "aotc-probe").exists():
            shutil.copy(HERE / "aotc-probe", program)
            program.chmod(0o755)
        said = command_output(str(program))
        found = loaded_json(said.get("output", "")) or {"error": said}
        return {**found, "compiled_here": compiled}

    def compat(self):
        """Run `aotc compat --self` on the models' bundles; write the answer to the
        report.
        """
        rows = [r for each in self.plan["programs"] for r in each["bundles"]]
        paths = [self.programs / row["path"] for row in rows]
        options = "--self", "--trust", self.key, "--format", "json"
        code, said, error = self.python.aotc("compat", *paths, *options, seconds=60)
        found = loaded_json(said)
        if found is None:
            self.write(compat={"error": error[-600:], "exit_code": code})
            return
        cells = [
            {
                "bundle": rows[cell["artifact"]]["path"],
                "verdict": cell["verdict"],
                "variant": cell["variant"],
            }
            for cell in found["cells"]
        ]
        self.write(compat={"exit_code": code, "cells": cells})

    # ---- comparisons

    def compare(self):
        """Run every case of every variant, several in parallel."""
        wanted = set(self.report["targets"])
        deadline = self.end_of("compare")
        jobs = [
            (program, row, variant)
            for program in self.plan["programs"]
            for row in program["bundles"]
            for variant in row["variants"]
            if variant in wanted
        ]
        self.report["comparisons"] = rows = []
        with ThreadPoolExecutor(self.asked.jobs) as pool:
            futures = [pool.submit(self._compare, *job, deadline) for job in jobs]
            for future in as_completed(futures):
                rows.append(future.result())
                rows.sort(key=lambda row: (row["program"], row["variant"]))
                self.write()

    def _compare(self, program, row, variant, deadline):
        """Run the cases of one variant of a bundle; return its row."""
        folder = self.programs / program["name"]
        document = json.loads((folder / "cases.json").read_text(encoding="utf-8"))
        cases = [
            number
            for number, case in enumerate(document["cases"])
            if case["entry"] in row["entries"]
        ]
        name = f"{row['path'].replace('/', '-')}-{variant}"
        words = [self.programs / row["path"], variant, folder]
        start = time.monotonic()
        comparison = children.Comparison(
            self.python, name, words, self.key, cases, deadline
        )
        comparison.run()
        return {
            "program": program["name"],
            "bundle": row["path"],
            "variant": variant,
            **comparison.facts,
            "seconds": round(time.monotonic() - start, 2),
            "cases": [
                {**comparison.outcomes[n], "case": n}
                for n in sorted(comparison.outcomes)
            ],
        }

    # ---- times

    def times(self):
        """Time the calls in PyTorch, and then those of bundles.

        On CUDA steps of training are timed again with the graphs of IREE's driver.
        """
        deadline = self.end_of("times")
        self.write(torch=self._peers(deadline))
        self.report["times"] = rows = []
        calls = [*self._timed_calls()]
        backends = self.plan["backends"]
        on_cuda = {each for each in backends if backends[each] == "cuda"}
        again = [x for x in calls if x[-1] in on_cuda and seconds_of.is_graphed(x[1])]
        for flags, some in ("", calls), (AS_GRAPHS, again):
            for call in some:
                rows.append(self._time(*call, flags, deadline))
                self.write()

    def _timed_calls(self):
        """Yield (program, call, bundle, variant) to time, with the loader's choice of
        variant.
        """
        cells = self.report.get("compat", {}).get("cells", ())
        chosen = {cell["bundle"]: cell["variant"] for cell in cells}
        for program in self.plan["programs"]:
            for call in program["timed"]:
                for row in program["bundles"]:
                    if call["entry"] not in row["entries"]:
                        continue
                    here = [x for x in self.report["targets"] if x in row["variants"]]
                    best = chosen.get(row["path"])
                    for variant in [best] if best in here else here:
                        yield program, call, row, variant

    def _time(self, program, call, row, variant, flags, deadline):
        """Time one call of a variant in a child; return its row."""
        head = {"program": program["name"], "variant": variant, "flags": flags, **call}
        if deadline.left < 5:
            return {**head, "error": "no time was left"}
        name = f"time-{program['name']}-{call['entry']}-{variant}-{len(flags)}.json"
        words = [self.programs / row["path"], variant, call["entry"]]
        words += [json.dumps(call["sizes"]), seconds_of.CALL]
        seconds = min(40, deadline.left)
        out, key = self.work / name, [self.key]
        found = children.timed(self.python, "times.py", words, out, key, seconds, flags)
        return {**head, **found}

    # ---- whole networks, and kernels in many schedules

    def networks(self):
        """Time whole networks and their training steps, as time allows."""
        seconds = self.end_of("networks").left
        auto = self.asked.targets == "auto"
        more = [] if auto else ["--target", self.report["targets"][0]]
        more += ["--in-all", seconds - NETWORK_SECONDS]
        out, words = self.work / "networks.json", [HERE / "networks"]
        found = children.timed(self.python, "networks.py", words, out, more, seconds)
        self.write(networks=found)

    def schedules(self):
        """Time kernels in many schedules on NVIDIA GPUs, as time allows."""
        archive = HERE / "schedules.tar.xz"
        seconds = self.end_of("schedules").left
        words = ["--archive", archive, "--out"]
        more = ["--seconds", seconds - SCHEDULE_SECONDS]
        out = self.asked.out / "schedules.json"
        found = children.timed(self.python, "schedules.py", words, out, more, seconds)
        told = {k: x for k, x in found.items() if k != "rows"}
        self.write(schedules={**told, "count": len(found.get("rows", ()))})

    def end_of(self, part):
        """Return the deadline of a part of the run."""
        following = self.parts[self.parts.index(part) :]
        shares = [self.expected[each] for each in following]
        return children.Deadline(self.deadline.left * shares[0] / sum(shares))

    def plan_parts(self):
        """Choose the requested parts that have something to do."""
        targets, jobs = self.report["targets"], self.asked.jobs
        self.expected = seconds_of.estimate(self.plan, targets, jobs)
        asked = [part for part in PARTS if part in self.asked.parts]
        self.parts = [part for part in asked if self.expected[part]]
        self.write(expected=self.expected)

    def _peers(self, deadline):
        """Time the calls in PyTorch, in this script's Python."""
        calls = [
            [program["name"], call["entry"], call["sizes"]]
            for program in self.plan["programs"]
            for call in program["timed"]
        ]
        if deadline.left < 10 or not calls:
            return {"error": "no time was left" if calls else "nothing is timed"}
        plain = children.Python(sys.executable, None, self.work)
        if plain.run("-c", "import torch", seconds=60)[0] != 0:
            return {"error": "PyTorch is not here"}
        out = self.work / "torch.json"
        words = [json.dumps(calls), seconds_of.CALL]
        seconds = min(PEER_SECONDS, deadline.left - 2)
        return children.timed(plain, "peers.py", words, out, [], seconds)


# ---- small things -------------------------------------------------------------------


def is_library(name):
    """Return whether a shared library of this name can be found."""
    try:
        return bool(name) and ctypes.CDLL(name) is not None
    except OSError:
        return False


def loaded_json(said):
    """Parse a JSON object; None if the text is none."""
    try:
        found = json.loads(said)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def command_output(*command):
    """Return what a command prints, or why it cannot be run."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return {"error": str(error)}
    return {"exit_code": done.returncode, "output": done.stdout.strip()[-4000:]}


def differences(one, other, at=""):
    """Return the paths at which two JSON objects differ."""
    if isinstance(one, dict) and isinstance(other, dict):
        keys = sorted({*one, *other} - {"compiled_here"})
        return [
            each
            for key in keys
            for each in differences(one.get(key), other.get(key), f"{at}.{key}")
        ]
    return [] if one == other else [f"{at[1:]}: {one!r}, the probe says {other!r}"]


def main():
    """Run as the command line says."""
    asked = _arguments()
    with tempfile.TemporaryDirectory(prefix="aotc-gpu-") as scratch:
        run = Run(asked, Path(scratch))
        failed = run.set_up()
        if failed:
            run.write(failed=failed)
            print(failed, file=sys.stderr)
            return 2
        run.write(targets=run.chosen_targets())
        run.plan_parts()
        own = [getattr(run, part) for part in run.parts]
        for part in [run.profile, run.compat, *own]:
            try:
                part()
            except Exception as error:  # the other parts are worth having
                said = f"{part.__name__}: {type(error).__name__}: {error}"
                run.report.setdefault("errors", []).append(said)
        run.write(finished=True)
    print(text.report(run.report))
    return 0 if text.is_clean(run.report) else 1


def _arguments():
    """Return the parsed command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    default = Path(os.environ["OUT"]) if os.environ.get("OUT") else HERE / "report"
    jobs = max(1, min(8, (os.cpu_count() or 1) // 2))
    add = parser.add_argument
    add("--targets", default="auto", help="by default those of the GPU, or else cpu")
    add("--out", type=Path, default=default, help=f"for the report ({default})")
    add(
        "--seconds",
        type=float,
        default=seconds_of.RUN,
        help=f"for all ({seconds_of.RUN})",
    )
    add("--parts", default=",".join(PARTS), help=f"some of {', '.join(PARTS)} (all)")
    add("--jobs", type=int, default=jobs, help=f"comparisons at a time ({jobs})")
    asked = parser.parse_args()
    asked.parts = [part for part in asked.parts.split(",") if part]
    if unknown := [part for part in asked.parts if part not in PARTS]:
        parser.error(f"unknown: {', '.join(unknown)}; parts are {', '.join(PARTS)}")
    return asked


if __name__ == "__main__":
    sys.exit(main())
