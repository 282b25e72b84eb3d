"""Kinds of failures of a program."""

from __future__ import annotations

import re
from dataclasses import dataclass

from aotc.errors import AotcError

# What passes refuse by a rule: ops without a derivative, limits of targets.
_RULES = ("not-differentiable", "not-batched", "not-on-target")
# What the backend says of a step with more sizes and offsets than a CPU takes.
_TOO_MANY = "sizes and offsets, and a CPU takes"


@dataclass(frozen=True)
class Failure:
    """The failure of a random program: its kind and message.

    Args:
        kind: what it does not do, or does wrongly: `traces`, `passes` (the pipeline),
            `compiles`, `loads`, `evaluates` (by the reference), `runs`, `differs` (from
            the reference), `jax` (differs from JAX) or `certificate` (of a gradient).
            `refused` is a refusal of aotc with a message of its own, such as of a
            derivative that there is not: no failure, but counted by the code that its
            message starts with.
        message: in words; its first line tells failures apart.
    """

    kind: str
    message: str

    @property
    def is_refusal(self) -> bool:
        """Return whether aotc refused the program with an error of its own."""
        return self.kind == "refused"

    @property
    def cause(self) -> str:
        """The message without names and numbers, equal for similar failures."""
        text = self.message.partition("; expected")[0]
        if self.kind in ("differs", "jax"):
            return self.kind
        return f"{self.kind}: {re.sub(r'[0-9]+|%[a-z0-9]+', '#', text)[:160]}"


def failure_of(kind: str, error: Exception) -> Failure:
    """Turn an exception of a stage into a failure: a refusal, or one of this kind.

    All that aotc raises while it traces says that a program cannot be written so; later
    on, only what a rule refuses does.
    """
    if not isinstance(error, AotcError):
        return Failure(kind, f"{type(error).__name__}: {error}")
    if kind == "traces" or error.code in _RULES:
        return Failure("refused", f"{error.code}: {error.message}")
    if _TOO_MANY in error.message:
        return Failure("refused", f"too-many-sizes: {error.message}")
    return Failure(kind, f"{error.code}: {error.message}")
