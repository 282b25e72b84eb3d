"""Errors that a user can meet.

An `AotcError` carries a stable kebab-case `code`, a `message` that says what was
expected and what was found, `where` it happened (the user's source line or file) and a
`hint` that can be typed or followed. The subclass decides the exit code, nothing else.
Private keys are left out of all of them: a secret is not repeated.
This module imports nothing of aotc but `redaction`.
"""

from __future__ import annotations

from aotc.errors.redaction import redact


class AotcError(Exception):
    """Base of all diagnosed errors; any other exception is a bug in aotc.

    Args:
        code: stable identifier for scripts, such as ``shape-mismatch``.
        message: one sentence: what is wrong, expected and got.
        where: source line, file or op that the message is about.
        hint: what to do next.
        guard: the name of the guard that refused a call, such as ``dtype of x``.
    """

    exit_code = 70

    def __init__(
        self,
        code: str,
        message: str,
        *,
        where: str | None = None,
        hint: str | None = None,
        guard: str | None = None,
    ) -> None:
        super().__init__(redact(message))
        self.code = code
        self.message = redact(message)
        self.where = where and redact(where)
        self.hint = hint and redact(hint)
        self.guard = guard
        self.call: str | None = None  # of a public function: who raises knows less
        self.callers: tuple[
            str, ...
        ] = ()  # user's lines that led to `where`, nearest first

    def __str__(self) -> str:
        lines = [f"{self.message} [{self.code}]"]
        if self.call:
            lines.append(f"  in {self.call}")
        if self.guard:
            lines.append(f"  guard: {self.guard}")
        if self.where:
            lines.append(f"  at {self.where}")
        lines += [f"  called at {line}" for line in self.callers]
        if self.hint:
            lines.append(f"  hint: {self.hint}")
        return redact("\n".join(lines))

    def to_json(self) -> dict[str, object]:
        """Return the error as a JSON object (schema ``aotc.error/1``)."""
        return {
            "schema": "aotc.error/1",
            "code": self.code,
            "message": self.message,
            "call": self.call,
            "where": self.where and redact(self.where),
            "callers": list(self.callers),
            "hint": self.hint and redact(self.hint),
            "guard": self.guard,
            "exit_code": self.exit_code,
        }


class Finding(AotcError):
    """The negative answer to a user's question, with the reason; no failure."""

    exit_code = 1


class InputError(AotcError):
    """Raised for a wrong command line, model or data of the user."""

    exit_code = 2


class CompileError(AotcError):
    """Raised if a valid model could not be compiled for the target."""

    exit_code = 3


class VerificationError(AotcError):
    """Raised for a bundle that is damaged, unsigned, or signed by no trusted key."""

    exit_code = 4


class SetupError(AotcError):
    """Raised for what this machine lacks: an extra, a toolchain, a driver."""

    exit_code = 5
