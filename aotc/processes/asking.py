"""A child that answers questions, so that its crashes do not spread.

The two sides talk through pipes, one question and one answer at a time. Both are this
package, so what they read is what they wrote.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from tempfile import TemporaryFile
from typing import Any, BinaryIO, Self, cast

from aotc.core import options
from aotc.errors import CompileError, SetupError
from aotc.errors.exit_status import exit_cause
from aotc.errors.system import ended_for_memory, translate_system_errors
from aotc.processes.messages import NoMessageError, receive, send

_GRACE = 10.0  # seconds that a process without pipes has to end


class NoAnswer(Exception):
    """Raised if a child process ended without an answer.

    Args:
        how: it did, as in "died of SIGSEGV".
        code: its exit code, negative for a signal; None if it was ended for `how`.
        log: its standard error.
    """

    def __init__(self, how: str, code: int | None, log: str) -> None:
        super().__init__(how)
        self.how, self.code, self.log = how, code, log

    def error(
        self, what: str, within: str = "", where: str | None = None
    ) -> CompileError | SetupError:
        """Return the error for compiled code of which the child process died.

        Args:
            what: the child runs, as in "the code for x".
            within: which call it died in, as in " in 'main'".
            where: as of all errors.
        """
        if self.code == -signal.SIGKILL:
            return ended_for_memory(f"the process that runs {what}{within}")
        lines = self.log.splitlines()
        said = f": {lines[-1]}" if lines else ""
        return CompileError(
            "compiled-code-died",
            f"the process that runs {what} {self.how}{within}{said}",
            where=where,
            hint="this is a wrong result of compilation, please report it",
        )


class LateError(NoAnswer):
    """Raised if a child process was killed, as its answer took too long."""


class Child:
    """A child process that answers questions, as a context manager.

    Args:
        module: that it runs, whose `main` calls `answer_parent`.
        python: what runs that.
    """

    def __init__(self, module: str, python: str = sys.executable) -> None:
        self.is_stopped = False  # for being late
        with ExitStack() as stack:
            self._log = stack.enter_context(TemporaryFile())
            self._process = subprocess.Popen(
                # -P: the user's folder may hold a pickle.py
                [python, "-P", "-m", module, str(os.getpid())],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._log,
                env=options.child_environment(),
            )
            stack.callback(self._kill)
            self._resources = stack.pop_all()

    def ask(self, question: object, seconds: float | None = None) -> Any:
        """Send a question to the child; return its answer.

        Args:
            question: that can be pickled.
            seconds: that the answer may take at most; None for no limit.

        Raises:
            AotcError: as the child raises it.
            NoAnswer: it has ended.
            LateError: the time is up, and it was ended.
        """
        with translate_system_errors(), self._deadline(seconds):
            with suppress(BrokenPipeError):  # reading says why
                send(cast("BinaryIO", self._process.stdin), question)
            try:
                kind, answer = receive(cast("BinaryIO", self._process.stdout))
            except (EOFError, NoMessageError) as error:
                raise self._no_answer(error, seconds) from None
        if kind == "error":
            error_class, code, message, where, hint = answer
            raise error_class(code, message, where=where, hint=hint)
        return answer

    @contextmanager
    def _deadline(self, seconds: float | None) -> Iterator[None]:
        """Kill the child if the `with` block takes longer than `seconds`."""
        timer = threading.Timer(seconds, self._stop) if seconds else None
        if timer:
            timer.start()
        try:
            yield
        finally:
            if timer:
                timer.cancel()

    def _stop(self) -> None:
        """Kill the child, and note that it was late."""
        self.is_stopped = True
        self._process.kill()

    def _no_answer(self, error: Exception, seconds: float | None) -> NoAnswer:
        """Return the error for a child that ended, or wrote no answer; kill it."""
        if self.is_stopped:
            return LateError(f"did not end within {seconds} s", None, self._log_text())
        how, code = str(error), None
        if isinstance(error, EOFError):
            with suppress(subprocess.TimeoutExpired):
                code = self._process.wait(_GRACE)
            ended = "died of" if code is None or code < 0 else "ended with"
            how = "closed its pipe" if code is None else f"{ended} {exit_cause(code)}"
        self._process.kill()
        return NoAnswer(how, code, self._log_text())

    def _log_text(self) -> str:
        """Return the child's standard error as text."""
        self._log.seek(0)
        return self._log.read().decode(errors="replace").strip()

    def _kill(self) -> None:
        """Kill the child, wait for its end and close its pipes."""
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            with suppress(BrokenPipeError):
                cast("BinaryIO", stream).close()

    def close(self) -> None:
        """Kill the child and free its resources."""
        self._resources.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
