"""A bundle that is loaded and called in a process of its own.

So load, first call and memory are those of a fresh process, and no idle thread of one
bundle takes time from another.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import ExitStack, suppress
from tempfile import TemporaryFile
from types import TracebackType
from typing import Any, BinaryIO, Self, cast

from aotc.core import options
from aotc.errors import CompileError
from aotc.errors.exit_status import exit_cause
from aotc.errors.system import ended_for_memory, system_errors
from aotc.timing.messages import Budget, Loaded, Round, Subject
from aotc.worker.messages import receive, send


class Server:
    """A process that answers questions about a `Subject`, as a context manager.

    Args:
        subject: that it loads and calls, named in errors.
        question: the first one.
        module: that the process runs, such as `aotc.timing.serve`.

    Raises:
        AotcError: as the process raises it.
    """

    def __init__(self, subject: Subject, question: Any, module: str) -> None:
        self._subject = subject
        with ExitStack() as stack:
            self._log = stack.enter_context(TemporaryFile())
            self._process = subprocess.Popen(
                # -P: the user's folder may hold a pickle.py
                [sys.executable, "-P", "-m", module, str(os.getpid())],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._log,
                env=options.child_environment(),
            )
            stack.callback(self._end)
            self.loaded: Any = self.ask(question)
            self._resources = stack.pop_all()

    def ask(self, question: Any) -> Any:
        """The answer to a question.

        Raises:
            AotcError: as the process raises it.
            CompileError: `compiled-code-died`.
        """
        with system_errors():
            with suppress(BrokenPipeError):  # reading says why
                send(cast("BinaryIO", self._process.stdin), question)
            try:
                kind, answer = receive(cast("BinaryIO", self._process.stdout))
            except EOFError:
                raise self._exit_error() from None
        if kind == "error":
            error, code, message, where, hint = answer
            raise error(code, message, where=where or self._subject.bundle, hint=hint)
        return answer

    def _exit_error(self) -> Exception:
        code = self._process.wait()
        what = f"the process that runs {self._subject.entry!r}"
        if code == -signal.SIGKILL:
            return ended_for_memory(what)
        if code >= 0:  # no signal: a mistake of ours, told as such
            return RuntimeError(
                f"{what} ended with {exit_cause(code)}:\n{self._said()}"
            )
        return CompileError(
            "compiled-code-died",
            f"{what} died of {exit_cause(code)}",
            where=self._subject.bundle,
            hint="this is a wrong result of compilation, please report it",
        )

    def _said(self) -> str:
        self._log.seek(0)
        return self._log.read().decode(errors="replace").strip()

    def _end(self) -> None:
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            with suppress(BrokenPipeError):
                cast("BinaryIO", stream).close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._resources.close()


class Process(Server):
    """Makes the calls of a `Subject`, as a context manager.

    Raises:
        AotcError: as `aotc.load` and the first call raise it.
    """

    loaded: Loaded

    def __init__(self, subject: Subject) -> None:
        super().__init__(subject, subject, "aotc.timing.serve")

    def call(self, budget: Budget) -> Round:
        """Call until the budget is spent, beginning with the first states.

        Raises:
            AotcError: as the call raises it.
            CompileError: `compiled-code-died`.
        """
        found: Round = self.ask(budget)
        return found
