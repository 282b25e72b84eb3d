"""`x += …` of Python on what compiled code has computed, which cannot be written to."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np


def augmented(sign: str, target: object, value: object) -> Any:
    """Return the result of `target += value` (or another operator); read-only arrays
    stay so.

    Args:
        sign: of the operator, without `=`.
        target: the value of the variable.
        value: on the right.
    """
    new, in_place = _OPERATORS[sign]
    if not isinstance(target, np.ndarray) or target.flags.writeable:
        return in_place(target, value)
    found = new(target, value)
    if isinstance(found, np.ndarray):
        found.flags.writeable = False
    return found


def augmented_part(sign: str, owner: Any, index: Any) -> Callable[[object], None]:
    """Read `owner[index]` for `+=` or another operator; return a function that applies
    it to a value and stores the result.

    Python reads the part before it evaluates that.
    """
    before = owner[index]

    def store(value: object) -> None:
        owner[index] = augmented(sign, before, value)

    return store


def augmented_attribute(
    sign: str, owner: object, name: str
) -> Callable[[object], None]:
    """Read `owner.name` for `+=` or another operator; return a function that applies it
    to a value and stores the result.
    """
    before = getattr(owner, name)

    def store(value: object) -> None:
        setattr(owner, name, augmented(sign, before, value))

    return store


_OPERATORS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "+": (operator.add, operator.iadd),
    "-": (operator.sub, operator.isub),
    "*": (operator.mul, operator.imul),
    "@": (operator.matmul, operator.imatmul),
    "/": (operator.truediv, operator.itruediv),
    "//": (operator.floordiv, operator.ifloordiv),
    "%": (operator.mod, operator.imod),
    "**": (operator.pow, operator.ipow),
    "<<": (operator.lshift, operator.ilshift),
    ">>": (operator.rshift, operator.irshift),
    "&": (operator.and_, operator.iand),
    "^": (operator.xor, operator.ixor),
    "|": (operator.or_, operator.ior),
}
