"""Children that may crash, hang, or find that the device has: started and watched."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

HERE = Path(__file__).parent
SILENT_SECONDS = 40  # without a new step, a child hangs
RESTARTS = 12  # of the children of one variant of one bundle
ALONE = 6  # cases of one variant of a bundle that are tried again by themselves
_TAIL = 400  # characters of what a child said last


class Deadline:
    """The time at which the run must end."""

    def __init__(self, seconds):
        self._end = time.monotonic() + seconds

    @property
    def left(self):
        """Seconds left until the deadline."""
        return self._end - time.monotonic()

    def earlier(self, seconds):
        """Return a deadline that is some seconds before this one."""
        return Deadline(self.left - seconds)


class Python:
    """The Python interpreter of child processes, and where it finds aotc.

    Args:
        program: the interpreter.
        site: folder of unpacked wheels; None if aotc is installed.
        work: folder for whatever children keep, in which they start: where this script
            was called from there may be sources of aotc, which Python would find first.
    """

    def __init__(self, program, site, work):
        self.program, self.site, self.work = program, site, work

    def environment(self, flags=""):
        """Return a child's environment variables, with IREE runtime flags."""
        found = dict(os.environ)
        if flags:
            found["IREE_PY_RUNTIME_FLAGS"] = flags
        if self.site is not None:
            before = [found["PYTHONPATH"]] if found.get("PYTHONPATH") else []
            found["PYTHONPATH"] = os.pathsep.join([str(self.site), *before])
        found["AOTC_HOME"] = str(self.work / "home")
        found["CUDA_CACHE_PATH"] = str(self.work / "cuda-cache")
        found.pop("AOTC_TARGETS", None)
        return found

    def start(self, script, *words, log, flags=""):
        """Start a child process that runs a script of this folder."""
        return subprocess.Popen(
            [self.program, str(HERE / script), *map(str, words)],
            env=self.environment(flags),
            cwd=self.work,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def run(self, *words, seconds):
        """Run this Python with arguments; return exit code, output and errors."""
        try:
            done = subprocess.run(
                [self.program, *map(str, words)],
                env=self.environment(),
                cwd=self.work,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=max(seconds, 1),
                check=False,
            )
        except subprocess.TimeoutExpired:
            return None, "", f"took more than {seconds:.0f} s"
        return done.returncode, done.stdout, done.stderr

    def aotc(self, *words, seconds):
        """Run a command of aotc; return exit code, output and errors."""
        call = "from aotc.cli.main import main; main()"
        return self.run("-c", call, *words, seconds=seconds)


def stop(child):
    """Kill a child process and its descendants."""
    with suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


def ended(code):
    """Describe how a child process ended, by its exit code."""
    if code is None or code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"


def steps_of(file):
    """Return the steps that a child has written to a file, complete lines only."""
    if not file.exists():
        return []
    lines = file.read_text(encoding="utf-8").split("\n")[:-1]
    return [json.loads(line) for line in lines]


def tail(file):
    """Return the last line of a log that is not indented."""
    lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
    said = [line for line in lines if line.strip() and not line.startswith(" ")]
    return said[-1][-_TAIL:] if said else ""


class Comparison:
    """Runs all cases of a bundle's variant in child processes, restarted after crashes.

    Args:
        python: of the children.
        name: of files that they write.
        words: the arguments of calls.py up to OUT.
        key: the public key.
        cases: numbers of the cases.
        deadline: when it has to be over.
    """

    def __init__(self, python, name, words, key, cases, deadline):
        self._python, self._words, self._key = python, words, key
        self._file = python.work / f"{name}.jsonl"
        self._cases, self._deadline = cases, deadline
        self.facts = {}  # what the first child finds of the variant
        self.outcomes = {}  # by case: what came of it

    def run(self):
        """Run all cases; then run those that are not right once more, each alone."""
        rest, starts = list(self._cases), 0
        while rest and starts <= RESTARTS and self._deadline.left > 1:
            starts += 1
            if not self._child(rest):
                break
            rest = [case for case in rest if case not in self.outcomes]
        bad = [n for n, each in self.outcomes.items() if each["outcome"] != "right"]
        for case in bad[:ALONE] if len(self._cases) > 1 else ():
            if self._deadline.left > 1:
                before = self.outcomes.pop(case)
                self._child([case])
                alone = self.outcomes.get(case, {"outcome": "not run"})
                self.outcomes[case] = {**before, "alone": alone["outcome"]}
        for case in self._cases:
            if case not in self.outcomes and self.facts.get("loads", True):
                self.outcomes[case] = {"outcome": "not run"}

    def _child(self, cases):
        """Run cases in one child; return whether another one is useful."""
        log = self._file.with_suffix(".log")
        self._file.unlink(missing_ok=True)
        with open(log, "wb") as output:
            words = [*self._words, self._file, self._key, *cases]
            child = self._python.start("calls.py", *words, log=output)
            late = self._watch(child)
        code = child.returncode
        open_case = None
        for step in steps_of(self._file):
            kind = step.pop("step")
            if kind == "begin":
                open_case = step
            elif kind == "end":
                self.outcomes[step["case"]] = {**open_case, **step}
                open_case = None
            else:
                self.facts.update(step)
        how = f"{'hung' if late else 'died'}: {'' if late else ended(code)}".rstrip(
            ": "
        )
        if open_case is not None:
            self.outcomes[open_case["case"]] = {
                **open_case,
                "outcome": how,
                "detail": tail(log),
            }
        elif "loads" not in self.facts:
            self.facts.update(loads=False, error=f"{how}; {tail(log)}")
        return self.facts.get("loads", False)

    def _watch(self, child):
        """Wait for a child; return whether it had to be killed."""
        size, since = -1, time.monotonic()
        while child.poll() is None:
            time.sleep(0.05)
            found = self._file.stat().st_size if self._file.exists() else 0
            if found != size:
                size, since = found, time.monotonic()
            silent = time.monotonic() - since > SILENT_SECONDS
            if silent or self._deadline.left < 0:
                stop(child)
                return True
        return False


def timed(python, script, words, out, more, seconds, flags=""):
    """Run a child that times something; return its results, with `error` if it
    failed.
    """
    log = out.with_suffix(".log")
    with open(log, "wb") as output:
        child = python.start(script, *words, out, *more, log=output, flags=flags)
        try:
            code = child.wait(max(seconds, 1))
        except subprocess.TimeoutExpired:
            stop(child)
            code = None
    found = json.loads(out.read_text(encoding="utf-8")) if out.exists() else {}
    if code != 0:
        found["error"] = f"{ended(code)}: {tail(log)}" if code is not None else "hung"
    return found


def python_with(version):
    """Return a Python of this version (any for None); None if there is none."""
    this = ".".join(map(str, sys.version_info[:2]))
    if version in (None, this):
        return sys.executable
    for name in (f"python{version}", "python3", "python"):
        try:
            said = subprocess.run(
                [name, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"],
                capture_output=True,
                text=True,
                check=False,
            ).stdout.strip()
        except OSError:
            continue
        if said == version:
            return name
    return None
