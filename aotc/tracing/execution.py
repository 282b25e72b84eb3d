"""Executing a model op by op: scopes in which ops compute at once, by NumPy.

`Eager` computes. `Tape` does too, in the scope around it, and notes what was computed
from what, for derivatives (Wengert, "A simple automatic derivative evaluation program",
1964). `Rebound` computes with other arrays in the place of some. Tapes may be nested:
the ops of the inner one are executed in, and so noted by, the outer one.

Arrays of a scope have values that people can look at, while the functions of aotc treat
them like traced ones: what they would do if the model was compiled, they do here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from aotc.core import dtypes
from aotc.dialects import OPS
from aotc.tracing.array import Array
from aotc.tracing.scopes import OpScope, current_scope, enter_scope
from aotc.tracing.source_locations import user_line
from aotc.tracing.tracing import current_trace, emit_all, evaluate, fail_unseen

Cotangents = list[Array]  # of the float ones among some values
ArrayRule = Callable[[Cotangents], Cotangents]

# ---- what a tape holds --------------------------------------------------------------


@dataclass(eq=False)
class Variable:
    """A value on a tape, with its primal array and whether it may have a derivative.

    Args:
        primal: what it is in the scope around the tape.
        is_active: whether it may have a derivative.
    """

    primal: Array
    is_active: bool


@dataclass(frozen=True)
class Applied:
    """A tape node: an executed op with its operands, results and source line."""

    name: str
    attributes: Mapping[str, Any]
    operands: Sequence[Variable]
    results: Sequence[Variable]
    where: str | None


@dataclass(frozen=True)
class ByReverseRule:
    """A tape node: a call of a function with a custom reverse-mode rule.

    Args:
        title: what messages call it.
        operands: flat arguments.
        results: flat results.
        where: the line of the call.
        backward: from cotangents of the float results to those of the float operands.
    """

    title: str
    operands: Sequence[Variable]
    results: Sequence[Variable]
    where: str | None
    backward: ArrayRule


@dataclass(frozen=True)
class ByForwardRule:
    """A tape node: a call of a function with a custom forward-mode rule.

    Args:
        title: what messages call it.
        operands: flat arguments.
        results: flat results.
        where: the line of the call.
        rule: from tangents of the float operands to those of the float results.
    """

    title: str
    operands: Sequence[Variable]
    results: Sequence[Variable]
    where: str | None
    rule: ArrayRule


Node = Applied | ByReverseRule | ByForwardRule


@dataclass(frozen=True)
class CustomCall:
    """A function with a custom derivative rule, as scopes execute or record it.

    Args:
        title: what messages call it.
        evaluate: its flat results, from flat arguments.
        record: the same, and the kind of node with its rule; both in the scope that
            they are called in.
    """

    title: str
    evaluate: Callable[[Sequence[Array]], list[Array]]
    record: Callable[
        [Sequence[Array]],
        tuple[list[Array], type[ByReverseRule | ByForwardRule], ArrayRule],
    ]


# ---- scopes -------------------------------------------------------------------------


@dataclass(eq=False)
class Executing:
    """Base class of scopes that execute ops at once, by the scope around them."""

    parent: OpScope | None = field(default_factory=current_scope, init=False)
    is_recording = False  # not annotated: it is no field

    def apply(
        self, name: str, operands: Sequence[Array], attributes: dict[str, object], /
    ) -> list[Array]:
        """Execute an op; return its results."""
        raise NotImplementedError

    def call(self, custom: CustomCall, arrays: Sequence[Array]) -> list[Array]:
        """Execute a function with a custom derivative rule; return its flat results."""
        return custom.evaluate(arrays)

    def _apply_outside(
        self, name: str, operands: Sequence[Array], attributes: Mapping[str, object]
    ) -> list[Array]:
        """Apply an op in the scope around this one; return its results."""
        with enter_scope(self.parent):
            return emit_all(name, *operands, **attributes)

    def _call_outside(self, custom: CustomCall, arrays: Sequence[Array]) -> list[Array]:
        """Execute a custom-derivative function in the scope around this one; return
        results.
        """
        with enter_scope(self.parent):
            return call_custom(custom, arrays)


class Eager(Executing):
    """A scope that computes ops by NumPy and records nothing."""

    def apply(
        self, name: str, operands: Sequence[Array], attributes: dict[str, object]
    ) -> list[Array]:
        """Compute an op by NumPy; return its results."""
        return [self.wrap(each) for each in evaluate(name, operands, attributes)]

    def wrap(self, values: np.ndarray) -> Array:
        """Return a NumPy array as an Array of this scope."""
        return Array(trace=self, known=values)


@dataclass(eq=False)
class Tape(Executing):
    """A scope that executes ops in the scope around it and records them for
    derivatives.

    Args:
        nodes: what was executed, in order; only what may have a derivative.
        is_finished: whether the function that is noted has returned.
    """

    nodes: list[Node] = field(default_factory=list)
    is_finished: bool = False

    @property
    def is_recording(self) -> bool:  # type: ignore[override]
        """Return whether the differentiated function has not returned yet."""
        return not self.is_finished

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Make the tape the current scope within the `with` block; finish it
        afterwards.
        """
        try:
            with enter_scope(self):
                yield
        finally:
            self.is_finished = True

    def wrap(self, primal: Array, is_active: bool = True) -> Array:
        """Return an array of the outer scope as a variable of the tape."""
        smooth = is_active and dtypes.is_float(primal.dtype)
        value = Variable(primal, smooth)
        return Array(value=value, trace=self, known=primal._known)

    def variable(self, array: Array) -> Variable:
        """Return an array's variable on the tape; an inactive one for an outer
        array.
        """
        settled = settle(array, self)
        if settled._trace is self:
            found: Variable = settled._value
            return found
        return Variable(settled, is_active=False)

    def apply(
        self, name: str, operands: Sequence[Array], attributes: dict[str, object]
    ) -> list[Array]:
        """Execute an op in the outer scope, recorded if an operand is active; return
        results.
        """
        given = [self.variable(array) for array in operands]
        primals = self._apply_outside(name, [x.primal for x in given], attributes)
        active = not OPS[name].is_constant and any(x.is_active for x in given)
        results = [self.wrap(primal, active) for primal in primals]
        values = [array._value for array in results]
        if any(value.is_active for value in values):
            self.nodes.append(Applied(name, attributes, given, values, user_line()))
        return results

    def call(self, custom: CustomCall, arrays: Sequence[Array]) -> list[Array]:
        """Execute a custom-derivative function, recorded if an operand is active;
        return its flat results.
        """
        given = [self.variable(array) for array in arrays]
        primals = [x.primal for x in given]
        if not any(x.is_active for x in given):
            found = self._call_outside(custom, primals)
            return [self.wrap(primal, is_active=False) for primal in found]
        with enter_scope(self.parent):
            outputs, kind, rule = custom.record(primals)
        results = [self.wrap(primal) for primal in outputs]
        values = [array._value for array in results]
        self.nodes.append(kind(custom.title, given, values, user_line(), rule))
        return results


@dataclass(eq=False)
class Rebound(Executing):
    """A scope that executes ops with some arrays replaced, and records captured ones.

    Args:
        replacements: arrays and what stands for them, by identity.
        captured: arrays of tapes around, which a function has read.
    """

    replacements: Mapping[int, Array] = field(default_factory=dict)
    captured: dict[int, Array] = field(default_factory=dict)

    def current(self, array: Array) -> Array:
        """Return an array's replacement, or itself; record it as captured if of a
        tape.
        """
        if isinstance(array._trace, Tape):
            self.captured[id(array)] = array
        return self.replacements.get(id(array), array)

    def apply(
        self, name: str, operands: Sequence[Array], attributes: dict[str, object]
    ) -> list[Array]:
        """Execute an op on the replacements of its operands; return its results."""
        return self._apply_outside(name, list(map(self.current, operands)), attributes)

    def call(self, custom: CustomCall, arrays: Sequence[Array]) -> list[Array]:
        """Execute a custom-derivative function on replaced operands; return its
        results.
        """
        return self._call_outside(custom, list(map(self.current, arrays)))


# ---- in any scope -------------------------------------------------------------------


def settle(array: Array, scope: Executing) -> Array:
    """Return an array in the form that `scope` reads: primals of finished tapes.

    What a function that has returned left elsewhere is what it was outside of it.

    Raises:
        InputError: it belongs to a function that is being differentiated within.
    """
    while isinstance(tape := array._trace, Tape) and tape is not scope:
        if not tape.is_finished:
            if not is_around(tape, scope):
                fail_unseen(array)
            break
        array = array._value.primal
    return array


def is_around(outer: OpScope, scope: OpScope | None) -> bool:
    """Return whether `scope` was entered within `outer`."""
    while isinstance(scope, Executing):
        scope = scope.parent
        if scope is outer:
            return True
    return False


def is_differentiated() -> bool:
    """Return whether ops applied now may be differentiated: traced, or on a tape."""
    scope = current_scope()
    while isinstance(scope, Executing) and not isinstance(scope, Tape):
        scope = scope.parent
    return isinstance(scope, Tape) or current_trace() is not None


def call_custom(custom: CustomCall, arrays: Sequence[Array]) -> list[Array]:
    """Execute a custom-derivative function in the current scope; return its flat
    results.
    """
    scope = current_scope()
    if isinstance(scope, Executing):
        return scope.call(custom, arrays)
    return custom.evaluate(arrays)
