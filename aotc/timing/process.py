"""A bundle that is loaded and called in a process of its own.

So load, first call and memory are those of a fresh process, and no idle thread of one
bundle takes time from another.
"""

from __future__ import annotations

from typing import Any

from aotc.errors import AotcError
from aotc.processes.asking import Child, NoAnswer
from aotc.timing.messages import Budget, LoadedBundle, Round, TimedBundle


class Server(Child):
    """A child process that loads a bundle and answers requests; a context manager.

    Args:
        subject: that it loads and calls, named in errors.
        question: the first one.
        module: that the process runs, such as `aotc.timing.serve`.

    Raises:
        AotcError: as the process raises it.
    """

    def __init__(self, subject: TimedBundle, question: object, module: str) -> None:
        super().__init__(module)
        self._subject = subject
        try:
            self.loaded: Any = self.ask(question)
        except BaseException:
            self.close()
            raise

    def ask(self, question: object, seconds: float | None = None) -> Any:
        """Send a request to the process, and return its answer.

        Raises:
            AotcError: as the process raises it.
            CompileError: `compiled-code-died`.
        """
        bundle, what = self._subject.bundle, repr(self._subject.entry)
        try:
            return super().ask(question, seconds)
        except NoAnswer as end:
            if end.code is not None and end.code >= 0:  # no signal: a mistake of ours
                said = f"the process that runs {what} {end.how}:\n{end.log}"
                raise RuntimeError(said) from None
            raise end.error(what, where=bundle) from None
        except AotcError as error:
            error.where = error.where or bundle
            raise


class TimingProcess(Server):
    """A child process that times calls of a bundle's entry; a context manager.

    Raises:
        AotcError: as `aotc.load` and the first call raise it.
    """

    loaded: LoadedBundle

    def __init__(self, subject: TimedBundle) -> None:
        super().__init__(subject, subject, "aotc.timing.serve")

    def call(self, budget: Budget) -> Round:
        """Time calls until the budget is spent, from the initial states; return the
        round.

        Raises:
            AotcError: as the call raises it.
            CompileError: `compiled-code-died`.
        """
        found: Round = self.ask(budget)
        return found
