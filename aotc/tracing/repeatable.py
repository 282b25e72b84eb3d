"""Refuse an entry whose trace depends on more than its source.

Python's part of an entry runs once. A number that it draws with `numpy.random`, or
takes from the clock, becomes a constant: the same in every call, and another one in the
next build. So entries are traced a second time, and both graphs must be the same.

What both traces find alike is not noticed: a date, an environment variable, a file.
Under another clock the second trace would notice dates, but all threads of the process
would see that clock, too.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from itertools import zip_longest

from aotc.dialects.functions.functions import functions_of
from aotc.errors import AotcError, InputError
from aotc.mlir import Function, Operation, Value, bytecode, func, source_of
from aotc.programs.program import Program
from aotc.tracing.survey import without_survey

_HINT = (
    "what Python computes here would be the same in every call: draw random numbers "
    "with aotc.random, from a key that is an input or a State; constants are drawn "
    "outside of the entry, or by a generator that is seeded in it"
)

_END = (None, None)


def require_repeatable(program: Program, trace_again: Callable[[], Program]) -> None:
    """Trace the entries again; refuse a program whose graph differs.

    Raises:
        InputError: `not-repeatable`, at the line whose op or constant differs.
    """
    try:
        with without_survey(), _silence():
            other = trace_again()
    except AotcError as error:
        said = f"traced a second time, the entry fails: {error.message}"
        raise InputError(
            "not-repeatable", said, where=error.where, hint=_HINT
        ) from error
    first, second = functions_of(program.module), functions_of(other.module)
    if bytecode(program.module) == bytecode(other.module):
        return
    for name, function in first.items():
        if name not in second:
            raise _refusal(source_of(function.location))
        pairs = zip_longest(_rows(function), _rows(second[name]), fillvalue=_END)
        for (op, facts), (again, other_facts) in pairs:
            if facts != other_facts:
                at = again if op is None or _is_return(op) else op
                raise _refusal(None if at is None else source_of(at.location))


def _refusal(where: str | None) -> InputError:
    """Return the error for a graph that differs between traces."""
    return InputError(
        "not-repeatable",
        "expected the same graph each time that the entry is traced; this differs",
        where=where,
        hint=_HINT,
    )


@contextmanager
def _silence() -> Iterator[None]:
    """Suppress output and warnings of the model within the `with` block."""
    nowhere = io.StringIO()
    with (
        redirect_stdout(nowhere),
        redirect_stderr(nowhere),
        warnings.catch_warnings(action="ignore"),
    ):
        yield


def _rows(function: Function) -> Iterator[tuple[Operation, object]]:
    """Yield a function and its ops, each with a comparable description."""
    numbers: dict[object, int] = {}
    yield function, _facts(function.operation, numbers)
    for region in function.regions:
        for block in region.blocks:
            _number_values(block.arguments, numbers)
            for op in block.operations:
                yield op, _facts(op.operation, numbers)
                _number_values(op.operation.results, numbers)


def _is_return(op: Operation) -> bool:
    """Return whether an op returns from its function; such have no source line."""
    return isinstance(op, func.ReturnOp)


def _number_values(values: Sequence[Value], numbers: dict[object, int]) -> None:
    """Number values in the order of their definition, in `numbers`."""
    for value in values:
        numbers[value] = len(numbers)


def _facts(op: Operation, numbers: dict[object, int]) -> object:
    """Return an op's name, attributes, result types and operand numbers."""
    return (
        op.name,
        {name: op.attributes[name] for name in op.attributes},
        [result.type for result in op.results],
        [numbers[operand] for operand in op.operands],
    )
