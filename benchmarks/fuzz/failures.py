"""What can be wrong with a program."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Failure:
    """What is wrong with a program.

    Args:
        kind: what it does not do, or does wrongly: `traces`, `passes` (the pipeline),
            `compiles`, `loads`, `evaluates` (by the reference), `runs`, `differs` (from
            the reference) or `jax` (differs from JAX). `refused` is a refusal of aotc
            with a message of its own, such as of a derivative that there is not: no
            failure, but counted.
        message: in words; its first line tells failures apart.
    """

    kind: str
    message: str

    @property
    def is_refusal(self) -> bool:
        """Whether aotc says itself that it does not do this."""
        return self.kind == "refused"

    @property
    def cause(self) -> str:
        """The same for failures that are alike: numbers and names are left out."""
        text = self.message.partition("; expected")[0]
        if self.kind in ("differs", "jax"):
            return self.kind
        return f"{self.kind}: {re.sub(r'[0-9]+|%[a-z0-9]+', '#', text)[:160]}"
