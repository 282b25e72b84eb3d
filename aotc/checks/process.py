"""Compiled entries in a process of their own, so that crashes do not spread.

The two sides talk through pipes, one pickled request and one pickled answer at a time.
Both are this package, so what they read is what they wrote.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from tempfile import TemporaryFile
from types import TracebackType
from typing import Any, BinaryIO

from aotc.artifacts.backends import vulkan
from aotc.artifacts.manifest import Leaf
from aotc.backend import Compiled
from aotc.checks.compiled import Arrays, Code, Export, Loadable
from aotc.core import options
from aotc.dialects.types import Tensor, evaluate_size
from aotc.errors import CompileError, SetupError
from aotc.errors.exit_status import exit_cause
from aotc.errors.system import ended_for_memory, system_errors
from aotc.machine import gpus, processor
from aotc.machine.target import TARGETS
from aotc.worker.messages import receive, send

DIED = "compiled-code-died"


class DidNotEnd(Exception):
    """A call took longer than it may."""

    is_lasting = False  # whether another run on this machine would find the same


class CompiledProcess:
    """Code that is loaded in another process, as a context manager.

    Args:
        code: to load.
        seconds: that a call may take at most; None for no limit.

    Raises:
        AotcError: the code cannot be loaded on this machine.
        CompileError: `compiled-code-died`: it ends the process when it is loaded.
    """

    def __init__(self, code: Loadable, seconds: float | None = None) -> None:
        self._target = code.target
        self.run_by = _run_by(code.target)
        self._code = code
        self._seconds = seconds
        self._endless: set[str] = set()  # entries, a call of which did not end
        self.lock = threading.Lock()  # of calls of one state, which follow each other
        self._start()

    def _start(self) -> None:
        self._is_late = False
        with ExitStack() as stack:
            self._log = stack.enter_context(TemporaryFile())
            self._process = subprocess.Popen(
                # -P: the user's folder may hold a pickle.py
                [_python_for(self._target), "-P", "-m", "aotc.checks.serve"]
                + [str(os.getpid())],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._log,
                env=options.child_environment(),
            )
            stack.callback(self._end)
            self._ask(self._code)
            self._answer("load", self._seconds)
            self._resources = stack.pop_all()

    def call(
        self,
        entry: str,
        arrays: Sequence[Any],
        before: Mapping[str, Arrays] | None = None,
        after: Sequence[str] = (),
        seconds: float | None = None,
    ) -> tuple[Arrays, Arrays]:
        """The outputs of one call, and the leaves of states after it.

        After a call that did not end, another entry has a process of its own.

        Args:
            entry: its name.
            arrays: the leaves of its inputs.
            before: leaves of the states to write first, by state.
            after: names of the states to return.
            seconds: that this call may take at most, if it is fewer than any may.

        Raises:
            AotcError: what the loaded model raised.
            CompileError: `compiled-code-died`, with the signal.
            SetupError: `out-of-memory`.
            DidNotEnd: the time is up, or was in an earlier call of the entry.
        """
        if entry in self._endless:
            raise DidNotEnd("an earlier call did not end")
        if self._is_late:
            self.close()
            self._start()
        limits = [each for each in (seconds, self._seconds) if each is not None]
        with system_errors():
            self._ask((entry, list(arrays), dict(before or {}), list(after)))
            outputs, states = self._answer(entry, min(limits, default=None))
        return outputs, states

    def _ask(self, question: Any) -> None:
        with suppress(BrokenPipeError):  # reading says why
            send(_stream(self._process.stdin), question)

    def _answer(self, what: str, seconds: float | None) -> Any:
        timer = threading.Timer(seconds, self._stop) if seconds else None
        if timer:
            timer.start()
        try:
            kind, answer = receive(_stream(self._process.stdout))
        except EOFError:
            if self._is_late:
                self._endless.add(what)
                raise DidNotEnd(f"it did not end within {seconds} s") from None
            raise self._exit_error(what) from None
        finally:
            if timer:
                timer.cancel()
        if kind == "error":
            error, code, message, where, hint = answer
            raise error(code, message, where=where, hint=hint)
        return answer

    def _stop(self) -> None:
        self._is_late = True
        self._process.kill()

    def _exit_error(self, what: str) -> CompileError | SetupError:
        code = self._process.wait()
        if code == -signal.SIGKILL:
            return ended_for_memory(
                f"the process that runs the code for '{self._target}' in '{what}'"
            )
        cause = exit_cause(code)
        said = f": {line}" if (line := self._last_line()) else ""
        return CompileError(
            "compiled-code-died",
            f"the process that runs the code for '{self._target}' died of {cause} in "
            f"'{what}'{said}",
            hint="this is a wrong result of compilation, please report it",
        )

    def _last_line(self) -> str:
        self._log.seek(0)
        lines = self._log.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else ""

    def _end(self) -> None:
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            with suppress(BrokenPipeError):
                _stream(stream).close()

    def close(self) -> None:
        """End the process."""
        self._resources.close()

    def __enter__(self) -> CompiledProcess:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _python_for(target: str) -> str:
    """The Python that runs code for a target: this one, or one for its processor.

    Raises:
        SetupError: `no-python`: the one that AOTC_PYTHONS names cannot be started.
    """
    arch = _arch_of(target)
    if arch is None or arch == processor.arch():
        return sys.executable
    python: str = options.get("AOTC_PYTHONS").get(arch, sys.executable)
    if shutil.which(python) is None:
        raise SetupError(
            "no-python",
            f"AOTC_PYTHONS names '{python}' for {arch}, which is no program",
            hint="name a Python for that processor, such as one under an emulator",
        )
    return python


def _arch_of(target: str) -> str | None:
    """The processor that a target, by its name or id, is for."""
    found = [each.arch for each in TARGETS.values() if target in (each.id, each.name)]
    return found[0] if found else None


def _run_by(target: str) -> str:
    """Name the runner of code for a target here, as `aotc.artifacts.checked` names
    it.
    """
    arch = _arch_of(target)
    if arch is not None and arch != processor.arch():
        return "emulator"
    if target.startswith("vulkan"):
        device = vulkan.best_device(gpus.probe())
        if device is not None and vulkan.is_software(device):
            return "emulator"
    return "machine"


def _stream(pipe: Any) -> BinaryIO:
    stream: BinaryIO = pipe
    return stream


# ---- code that is in no bundle ------------------------------------------------------


def code_of(variant: Compiled, exports: Sequence[Export]) -> Code:
    """The code of a variant that has no parameters, and its functions."""
    target = variant.target
    return Code(variant.vmfb, str(target), target.backend, tuple(exports))


def export_at(
    name: str,
    inputs: Sequence[Tensor],
    outputs: Sequence[Tensor],
    symbols: Sequence[int],
) -> Export:
    """A function of these types, where the symbols have these values."""
    return Export(name, _leaves("x", inputs, symbols), _leaves("y", outputs, symbols))


def _leaves(
    name: str, kinds: Sequence[Tensor], symbols: Sequence[int]
) -> tuple[Leaf, ...]:
    return tuple(
        Leaf(
            f"{name}{number}",
            kind.dtype,
            tuple(evaluate_size(size, symbols) for size in kind.shape),
        )
        for number, kind in enumerate(kinds)
    )
