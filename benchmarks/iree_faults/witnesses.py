"""Witnesses: small inputs by which a fault of IREE shows, and what is seen of it.

`look` of a witness says in one line what of the fault it sees, or returns None where
IREE does what is right. It raises `Differs` where IREE does something else that is
wrong. A witness may end the process, so it is looked at in one of its own (`looking`).
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import iree.compiler
import iree.runtime
import numpy as np

from aotc.backend import target_flags
from aotc.machine.target import Target

Array = np.ndarray[Any, Any]

FOLDER = Path(__file__).parent / "mlir"
_LEVEL = "--iree-opt-level="
_MESSAGE = 160  # characters of what IREE says that are shown


class Differs(Exception):
    """Raised if IREE behaves neither right nor as the fault describes."""


class Witness(Protocol):
    """Protocol of a reproducer of a fault."""

    def look(self) -> str | None:
        """Run the reproducer; return what is seen of the fault, None if it is gone.

        Raises:
            Differs: something else is wrong.
        """

    def describe(self) -> str:
        """Return the input and the expectation as text, for a table."""


@dataclass(frozen=True)
class Source:
    """An MLIR module file, and how IREE compiles it.

    Args:
        name: of its file in `mlir/`.
        target: that it is compiled for, as `--target` has it.
        level: of optimisation, `O0` or `O2`; a fault may show at one of them alone.
        flags: for IREE, besides those that builds give.
        without: those that builds give, and that hide the fault.
    """

    name: str
    target: str = "x86_64-v3"
    level: str = "O2"
    flags: tuple[str, ...] = ()
    without: tuple[str, ...] = ()

    @property
    def path(self) -> Path:
        """The path of the module file."""
        return FOLDER / f"{self.name}.mlir"

    @cached_property
    def arguments(self) -> list[str]:
        """The arguments for IREE's compiler."""
        left_out = (_LEVEL, *self.without)
        usual = target_flags(Target.parse(self.target))
        kept = (flag for flag in usual if not flag.startswith(left_out))
        return [*kept, _LEVEL + self.level, *self.flags]

    def compile(self, *more: str) -> bytes:
        """Compile the module; return the code.

        Raises:
            CompilerToolError: IREE refuses it.
        """
        text = self.path.read_text(encoding="utf-8")
        found: bytes = iree.compiler.compile_str(
            text, extra_args=[*self.arguments, *more]
        )
        return found

    def refusal(self, *more: str) -> str | None:
        """Compile the module; return IREE's error, None if it compiles."""
        try:
            self.compile(*more)
        except iree.compiler.CompilerToolError as error:
            return str(error)
        return None


@dataclass(frozen=True)
class Refused:
    """Witness: a module that IREE does not compile.

    Args:
        source: the module.
        message: what IREE says, a part of it.
    """

    source: Source
    message: str

    def look(self) -> str | None:
        """Return IREE's error line with the message; None if the module compiles."""
        said = self.source.refusal()
        if said is None:
            return None
        lines = [line for line in said.splitlines() if self.message in line]
        if not lines:
            raise Differs(f"it is refused for another reason: {_first_error(said)}")
        return f"IREE says: {_shortened(lines[0])}"

    def describe(self) -> str:
        """Return the file and the message."""
        return f'`{self.source.name}.mlir`: "{self.message}"'


@dataclass(frozen=True)
class Wrong:
    """Witness: a module whose compiled `main` returns wrong results.

    Args:
        source: the module.
        inputs: of the call.
        right: what the call should return, from the inputs: an array or several.
        slack: how far numbers may be from that, relative to them or to `unit`.
        unit: what is compared absolutely, below it; the larger of both counts.
    """

    source: Source
    inputs: tuple[Any, ...]
    right: Callable[..., Any]
    slack: float = 1e-5
    unit: float = 1.0

    def look(self) -> str | None:
        """Describe how many elements are wrong; None if none is."""
        refused, found = _call(self.source, self.inputs)
        if refused is not None:
            raise Differs(f"it is refused: {_first_error(refused)}")
        wanted = self.right(*self.inputs)
        wanted = wanted if isinstance(wanted, tuple) else (wanted,)
        counts = [
            (_wrong_elements(got, want, self.slack, self.unit), np.size(want))
            for got, want in zip(found, wanted, strict=True)
        ]
        seen = ", ".join(f"{wrong} of {of}" for wrong, of in counts if wrong)
        return f"wrong elements: {seen}" if seen else None

    def describe(self) -> str:
        """Return the module's file."""
        return f"`{self.source.name}.mlir`: a wrong result"


@dataclass(frozen=True)
class Fails:
    """Witness: a module that compiles, and cannot be loaded or called.

    Args:
        source: the module.
        inputs: of the call.
        message: what IREE's runtime says, a part of it.
    """

    source: Source
    inputs: tuple[Any, ...]
    message: str

    def look(self) -> str | None:
        """Return IREE's error on loading or calling; None if it computes."""
        try:
            refused, _ = _call(self.source, self.inputs)
        except (RuntimeError, ValueError, IndexError) as error:  # as IREE raises
            if self.message not in str(error):
                raise Differs(f"it fails: {_shortened(str(error))}") from error
            return f"IREE says: {self.message}"
        if refused is not None:
            raise Differs(f"it is refused: {_first_error(refused)}")
        return None

    def describe(self) -> str:
        """Return the file and the message."""
        return f'`{self.source.name}.mlir`, when it is run: "{self.message}"'


@dataclass(frozen=True)
class Code:
    """Witness: a module whose code has some text too often or too rarely.

    Args:
        source: the module.
        phase: of `iree-compile --compile-to`.
        text: that is counted.
        right: how often it is there in the right code.
    """

    source: Source
    phase: str
    text: str
    right: int

    def look(self) -> str | None:
        """Describe how often the text occurs; None where that is right."""
        try:
            code = self.source.compile(f"--compile-to={self.phase}")
        except iree.compiler.CompilerToolError as error:
            raise Differs(f"it is refused: {_first_error(str(error))}") from error
        count = code.decode(errors="replace").count(self.text)
        return None if count == self.right else f"`{self.text}` {count} times"

    def describe(self) -> str:
        """Return the file and the text."""
        return (
            f"`{self.source.name}.mlir`: `{self.text}` is not there "
            f"{self.right} times in phase {self.phase}"
        )


@dataclass(frozen=True)
class CompilerDies:
    """Witness: a module on which IREE's compiler crashes.

    Args:
        source: the module.
        signal: by which it dies, such as `SIGFPE`.
    """

    source: Source
    signal: str

    def look(self) -> str | None:
        """Return the signal that ends the compiler; None if it compiles."""
        said = self.source.refusal()
        if said is None:
            return None
        if f"Error code: -{signal.Signals[self.signal].value}" not in said:
            raise Differs(f"it is refused: {_first_error(said)}")
        return f"the compiler dies of {self.signal}"

    def describe(self) -> str:
        """Return the file and the signal."""
        return f"`{self.source.name}.mlir`: the compiler dies of {self.signal}"


@dataclass(frozen=True)
class Dies:
    """Witness: a function of runs.py that crashes its process.

    Args:
        run: a function of `runs.py`, which returns where the fault is gone.
        signal: by which the process ends, such as `SIGSEGV`.
    """

    run: Callable[[], object]
    signal: str

    def look(self) -> str | None:
        """Run the function; return None if the process survives."""
        self.run()
        return None

    def describe(self) -> str:
        """Return the function and the signal."""
        return f"`runs.{self.run.__name__}`: the process dies of {self.signal}"


@dataclass(frozen=True)
class Shows:
    """Witness: a function of runs.py that returns what is wrong."""

    run: Callable[[], str | None]

    def look(self) -> str | None:
        """Call the function; return what it says, None if nothing is wrong."""
        return self.run()

    def describe(self) -> str:
        """Return the function."""
        return f"`runs.{self.run.__name__}`"


@dataclass(frozen=True)
class Elsewhere:
    """Witness: a fault that needs hardware which this machine lacks.

    Args:
        how: what it takes, or where it is looked at.
    """

    how: str

    def look(self) -> str | None:
        """Raise `Differs`, as nothing can be checked here."""
        raise Differs(self.how)

    def describe(self) -> str:
        """Return what is needed to check the fault."""
        return self.how


def load(code: bytes) -> Any:
    """Return the function `main` of compiled code, on one thread."""
    config = iree.runtime.Config("local-sync")
    module = iree.runtime.VmModule.copy_buffer(config.vm_instance, code)
    return iree.runtime.load_vm_module(module, config)


def _call(
    source: Source, inputs: Sequence[Array]
) -> tuple[str | None, tuple[Array, ...]]:
    """Compile and call `main`; return (error text, None) or (None, results)."""
    try:
        code = source.compile()
    except iree.compiler.CompilerToolError as error:
        return str(error), ()
    found = load(code).main(*inputs)
    several = found if isinstance(found, (tuple, list)) else (found,)
    return None, tuple(np.asarray(each) for each in several)


def _wrong_elements(got: Array, want: Any, slack: float, unit: float) -> int:
    """Return the number of elements that differ by more than a relative tolerance."""
    got, want = got.astype(np.float64), np.asarray(want, np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        error = np.abs(got - want) / np.maximum(np.abs(want), unit)
    same = (got == want) | (np.isnan(got) & np.isnan(want)) | (error <= slack)
    return int(np.sum(~same))


def _first_error(said: str) -> str:
    """Return the first error line of a compiler's output, shortened."""
    errors = [line for line in said.splitlines() if "error:" in line]
    return _shortened(errors[0] if errors else said.strip().splitlines()[-1])


def _shortened(line: str) -> str:
    """Return a line without its location, cut to a length."""
    said = line.partition("error: ")[2] or line
    return said.strip()[:_MESSAGE]
