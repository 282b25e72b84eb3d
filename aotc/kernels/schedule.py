"""Schedules: how a kernel cuts its work up, as a few integers with names.

A family of kernels declares a subclass, whose fields are the names and usual values of
its own. What they look like elsewhere is written here, once:

- the mapping that `graph.fused` and tuning files hold, without usual values,
  `S.of_plain(schedule.to_plain()) == schedule`;
- the text of listings, `6 rows × 4 vectors of 16, block 2, fetches ahead`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from functools import cache
from typing import Any, ClassVar, Self

from aotc.errors import InputError


@dataclass(frozen=True)
class Schedule:
    """A kernel's schedule: named integers that say how its work is tiled.

    `phrases` are what the text says of fields that have not their usual values, in the
    place of the name and the value; `{}` in one stands for the value.
    """

    phrases: ClassVar[Mapping[str, str]] = {}

    def to_plain(self) -> dict[str, int]:
        """Return the fields by name, without those that have their default values."""
        kind: Any = type(self)  # which counts as hashable only so
        found = ((name, getattr(self, name), usual) for name, usual in _usual(kind))
        return {name: value for name, value, usual in found if value != usual}

    @classmethod
    def of_plain(cls, plain: object) -> Self:
        """Parse a schedule from fields by name: the inverse of `to_plain`.

        Raises:
            InputError: `bad-schedule`: a name is unknown or missing, or it is something
                else than integers by name.
        """
        kind: Any = cls
        known = dict(_usual(kind))
        needed = {name for name, usual in known.items() if usual is MISSING}
        if (
            not isinstance(plain, Mapping)
            or not needed <= plain.keys() <= known.keys()
            or not all(isinstance(value, int) for value in plain.values())
        ):
            listed = (name if name in needed else f"{name} (or none)" for name in known)
            raise InputError(
                "bad-schedule",
                "expected a schedule with an integer for each of "
                f"{', '.join(listed) or 'no names'}; got {plain}",
            )
        return cls(**plain)

    def __str__(self) -> str:
        """Return the schedule as text for listings, the register tile first."""
        rest = self.to_plain()
        text = ""
        if {"rows", "vectors", "lanes"} <= rest.keys():
            rows, vectors, lanes = (rest.pop(x) for x in ("rows", "vectors", "lanes"))
            text = f"{_plural(rows, 'row')} × {_plural(vectors, 'vector')} of {lanes}"
        phrases = [
            said.format(rest[name])
            for name, said in self.phrases.items()
            if name in rest
        ]
        rest = {name: x for name, x in rest.items() if name not in self.phrases}
        others = [f"{name.replace('_', ' ')} {rest[name]}" for name in sorted(rest)]
        return ", ".join(filter(None, [text, *others, *phrases]))


@cache  # every region asks, several times
def _usual(schedule: type[Schedule]) -> tuple[tuple[str, object], ...]:
    """Return the (name, default) pairs of a schedule's fields; `MISSING` for none."""
    return tuple((each.name, each.default) for each in fields(schedule))


def _plural(count: int, what: str) -> str:
    """Return a count with a noun, in the plural unless it is 1."""
    return f"{count} {what}" if count == 1 else f"{count} {what}s"
