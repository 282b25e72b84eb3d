"""Contracts on sizes that calls decide: a `Contract` each. No MLIR is needed."""

import re
from dataclasses import dataclass, field
from typing import Any

# What becomes of a call whose size has no code of its own: it has code for any size; it
# is refused; it is padded to the largest size, or to the next one that has code. Or
# another entry, or a function that the loader was given, computes it.
DYNAMIC, ERROR, PAD, BUCKET = _PLAIN = ("dynamic", "error", "pad", "bucket")
POLICIES = (*_PLAIN, "route:ENTRY", "callback:NAME")
_ELSEWHERE = re.compile(r"(route|callback):[A-Za-z_][A-Za-z0-9_]*")


def is_policy(value: object) -> bool:
    """Return whether a value is one of the texts in `POLICIES`."""
    is_text = isinstance(value, str)
    return is_text and (value in _PLAIN or bool(_ELSEWHERE.fullmatch(str(value))))


@dataclass(frozen=True)
class Contract:
    """The promised bounds of a symbolic size, and what happens to calls of other sizes.

    `policy` is one of `POLICIES`: what becomes of sizes without code of their own.
    `optimum` is the size that most calls bind, if that is known, and `where` the line
    of the model that declares it, if it has one of its own.
    """

    name: str
    min: int = 1
    max: int | None = None
    multiple_of: int = 1
    policy: str = DYNAMIC
    optimum: int | None = None
    where: str = field(default="", compare=False)

    @property
    def largest(self) -> int | None:
        """The greatest size that a call may bind; None if there is no limit."""
        step = self.multiple_of
        return None if self.max is None else self.max // step * step

    @property
    def is_padded(self) -> bool:
        """Return whether calls are padded to sizes that have code."""
        return self.policy in (PAD, BUCKET)

    def allows(self, size: int) -> bool:
        """Return whether a call may bind this size."""
        most = size if self.max is None else self.max
        return self.min <= size <= most and size % self.multiple_of == 0

    @property
    def route(self) -> str:
        """Name of the entry that computes calls of other sizes; empty without one."""
        kind, _, name = self.policy.partition(":")
        return name if kind == "route" else ""

    def to_json(self) -> dict[str, Any]:
        """Return the contract as JSON data of the manifest."""
        facts = {"min": self.min, "max": self.max, "multiple_of": self.multiple_of}
        more = {
            "policy": None if self.policy == DYNAMIC else self.policy,
            "optimum": self.optimum,
            "where": self.where or None,
        }
        known = {name: fact for name, fact in more.items() if fact is not None}
        return {**facts, **known}

    def __str__(self) -> str:
        """Return text such as `batch >= 1` or `n >= 8 in steps of 8, mostly 64`."""
        bounds = f"{self.name} >= {self.min}"
        if self.max is not None:
            bounds = f"{self.name} in [{self.min}, {self.max}]"
        steps = f" in steps of {self.multiple_of}" if self.multiple_of > 1 else ""
        usual = "" if self.optimum is None else f", mostly {self.optimum}"
        return bounds + steps + usual
