"""Functions of the caller's that compute calls of sizes without code."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from aotc.artifacts.manifest import EntryPoint, Symbol
from aotc.artifacts.shapes import SizeExpression
from aotc.errors import InputError
from aotc.runtime.arguments import flattener, suggestion
from aotc.runtime.contract import Input
from aotc.runtime.host_arrays import Array

_PREFIX = "callback:"
Callbacks = Mapping[str, Callable[..., object]]  # by the names in policies


def require_callbacks(callbacks: Callbacks, symbols: Iterable[Symbol]) -> None:
    """Raise for callbacks that no policy names, and values that are not callable.

    Raises:
        InputError: `bad-option`.
    """
    policies = [each.policy for each in symbols]
    known = {x.removeprefix(_PREFIX) for x in policies if x.startswith(_PREFIX)}
    for name, function in callbacks.items():
        if name not in known:
            names = ", ".join(sorted(known)) or "none, as no policy names one"
            raise InputError(
                "bad-option",
                f"expected callbacks of {names}; got {name!r}",
                hint=suggestion(str(name), known),
            )
        if not callable(function):
            raise InputError(
                "bad-option",
                f"expected a function as the callback {name!r}; got {function!r}",
            )


def checked_result(
    name: str, spec: EntryPoint, sizes: Mapping[str, int], result: object
) -> list[Array]:
    """Return the leaves of a callback's result as arrays; raise if they differ from the
    entry's.

    Args:
        name: of the callback.
        spec: of the entry.
        sizes: of the call, by name of the symbol.
        result: of the callback.

    Raises:
        InputError: `callback-result`: it has another form, dtype or shape.
    """
    leaves: list[Any] = [None] * len(spec.outputs)
    try:
        flattener(name, spec.result)(result, leaves, "")
        arrays = [
            Input(name, leaf).array(value)
            for leaf, value in zip(spec.outputs, leaves, strict=True)
        ]
    except InputError as error:
        said = error.message.replace(": input ", ": result ")
        said = said.replace("the inputs", "the results")
        raise _refusal(spec, said) from None
    for leaf, array in zip(spec.outputs, arrays, strict=True):
        shape = tuple(
            n if isinstance(n, int) else SizeExpression.parse(n).value(sizes)
            for n in leaf.shape
        )
        if array.shape != shape:
            raise _refusal(
                spec,
                f"{name}: result {leaf.name!r}: expected the shape {[*shape]} "
                f"({leaf}), got {[*array.shape]}",
            )
    return arrays


def _refusal(spec: EntryPoint, said: str) -> InputError:
    """Return the error for a callback's result."""
    return InputError(
        "callback-result",
        f"{spec.name}: {said}",
        hint="a callback returns what the entry returns, in its dtypes and shapes",
    )
