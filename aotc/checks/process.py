"""Compiled entries in a process of their own, so that crashes do not spread."""

from __future__ import annotations

import shutil
import sys
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from aotc.artifacts.backends import vulkan
from aotc.artifacts.manifest import Leaf
from aotc.backend import CompiledVariant
from aotc.checks.compiled import Arrays, Export, Loadable, UnbundledCode
from aotc.core import options
from aotc.dialects.types import Tensor, evaluate_size
from aotc.errors import SetupError
from aotc.machine import gpus, processor
from aotc.machine.target import TARGETS
from aotc.processes.asking import Child, LateError, NoAnswer

DIED = "compiled-code-died"


class DidNotEnd(Exception):
    """Raised for a call that took longer than its time limit."""

    is_lasting = False  # whether another run on this machine would find the same


class CompiledProcess:
    """A child process that has loaded compiled code; a context manager.

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
        """Start the child process and let it load the code."""
        self._child = Child("aotc.checks.serve", _python_for(self._target))
        try:
            self._ask("load", self._code, self._seconds)
        except BaseException:
            self.close()
            raise

    def call(
        self,
        entry: str,
        arrays: Sequence[np.ndarray],
        before: Mapping[str, Arrays] | None = None,
        after: Sequence[str] = (),
        seconds: float | None = None,
    ) -> tuple[Arrays, Arrays]:
        """Make one call in the child; return outputs and leaves of states after it.

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
        if self._child.is_stopped:
            self.close()
            self._start()
        limits = [each for each in (seconds, self._seconds) if each is not None]
        question = entry, list(arrays), dict(before or {}), list(after)
        outputs, states = self._ask(entry, question, min(limits, default=None))
        return outputs, states

    def _ask(self, name: str, question: object, seconds: float | None) -> Any:
        """Send a question to the child and return its answer; raise `DidNotEnd` if it
        is late.
        """
        try:
            return self._child.ask(question, seconds)
        except LateError as error:
            self._endless.add(name)
            raise DidNotEnd(f"it {error.how}") from None
        except NoAnswer as error:
            code = f"the code for '{self._target}'"
            raise error.error(code, f" in '{name}'") from None

    def close(self) -> None:
        """End the process."""
        self._child.close()

    def __enter__(self) -> CompiledProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _python_for(target: str) -> str:
    """Return the Python that runs code for a target: this one, or AOTC_PYTHONS's.

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
    """Return the CPU architecture of a target, by its name or id; None for others."""
    found = [each.arch for each in TARGETS.values() if target in (each.id, each.name)]
    return found[0] if found else None


def _run_by(target: str) -> str:
    """Return what runs code for a target here: `machine` or `emulator`."""
    arch = _arch_of(target)
    if arch is not None and arch != processor.arch():
        return "emulator"
    if target.startswith("vulkan"):
        device = vulkan.best_device(gpus.probe())
        if device is not None and vulkan.is_software(device):
            return "emulator"
    return "machine"


# ---- code that is in no bundle ------------------------------------------------------


def code_of(variant: CompiledVariant, exports: Sequence[Export]) -> UnbundledCode:
    """Return a variant without parameters as loadable code with these functions."""
    target = variant.target
    return UnbundledCode(variant.vmfb, str(target), target.backend, tuple(exports))


def export_at(
    name: str,
    inputs: Sequence[Tensor],
    outputs: Sequence[Tensor],
    symbols: Sequence[int],
) -> Export:
    """Return an `Export` of tensor types, with sizes evaluated for these symbol
    values.
    """
    return Export(name, _leaves("x", inputs, symbols), _leaves("y", outputs, symbols))


def _leaves(
    name: str, kinds: Sequence[Tensor], symbols: Sequence[int]
) -> tuple[Leaf, ...]:
    """Return tensor types as numbered `Leaf`s, with sizes evaluated."""
    return tuple(
        Leaf(
            f"{name}{number}",
            kind.dtype,
            tuple(evaluate_size(size, symbols) for size in kind.shape),
        )
        for number, kind in enumerate(kinds)
    )
