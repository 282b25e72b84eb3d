"""`x += …` of Python on what compiled code has computed, which cannot be written to."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np


def augmented(sign: str, target: Any, value: Any) -> Any:
    """What a variable is after `target += value`: an array that is constant stays so.

    Args:
        sign: of the operator, without `=`.
        target: the value of the variable.
        value: on the right.
    """
    new, in_place = _OPERATORS[sign]
    is_constant = isinstance(target, np.ndarray) and not target.flags.writeable
    return (new if is_constant else in_place)(target, value)


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
