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
    """A value on a tape.

    Args:
        primal: what it is in the scope around the tape.
        is_active: whether it may have a derivative.
    """

    primal: Array
    is_active: bool


@dataclass(frozen=True)
class Applied:
    """An executed op, with its location and operands."""

    name: str
    attributes: Mapping[str, Any]
    operands: Sequence[Variable]
    results: Sequence[Variable]
    where: str | None


@dataclass(frozen=True)
class ByReverseRule:
    """A call of a function with its own reverse mode.

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
    """A call of a function with its own forward mode.

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
    """A call of a function that says how it is differentiated.

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
    """Base of the scopes here, which compute in the scope around them."""

    parent: OpScope | None = field(default_factory=current_scope, init=False)
    is_recording = False  # not annotated: it is no field

    def apply(
        self, name: str, operands: Sequence[Array], attributes: dict[str, object], /
    ) -> list[Array]:
        """The results of an op."""
        raise NotImplementedError

    def call(self, custom: CustomCall, arrays: Sequence[Array]) -> list[Array]:
        """The results of a function that says how it is differentiated."""
        return custom.evaluate(arrays)

    def _apply_outside(
        self, name: str, operands: Sequence[Array], attributes: Mapping[str, object]
    ) -> list[Array]:
        with enter_scope(self.parent):
            return emit_all(name, *operands, **attributes)

    def _call_outside(self, custom: CustomCall, arrays: Sequence[Array]) -> list[Array]:
        with enter_scope(self.parent):
            return call_custom(custom, arrays)


class Eager(Executing):
    """Ops compute, and nothing is kept; none of the results is a constant."""

    def apply(
        self, name: str, operands: Sequence[Array], attributes: dict[str, object]
    ) -> list[Array]:
        """The results of an op."""
        return [self.wrap(each) for each in evaluate(name, operands, attributes)]

    def wrap(self, values: np.ndarray) -> Array:
        """A NumPy array as one of the model."""
        return Array(trace=self, known=values)


@dataclass(eq=False)
class Tape(Executing):
    """Ops are executed in the scope around, and noted.

    Args:
        nodes: what was executed, in order; only what may have a derivative.
        is_finished: whether the function that is noted has returned.
    """

    nodes: list[Node] = field(default_factory=list)
    is_finished: bool = False

    @property
    def is_recording(self) -> bool:  # type: ignore[override]
        """Return whether the function has not returned yet."""
        return not self.is_finished

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Record ops on the tape within this block."""
        try:
            with enter_scope(self):
                yield
        finally:
            self.is_finished = True

    def wrap(self, primal: Array, is_active: bool = True) -> Array:
        """An array of the scope around as one of the tape."""
        smooth = is_active and dtypes.is_float(primal.dtype)
        value = Variable(primal, smooth)
        return Array(value=value, trace=self, known=primal._known)

    def variable(self, array: Array) -> Variable:
        """Return the variable of `array` on this tape; a constant if from elsewhere."""
        settled = settle(array, self)
        if settled._trace is self:
            found: Variable = settled._value
            return found
        return Variable(settled, is_active=False)

    def apply(
        self, name: str, operands: Sequence[Array], attributes: dict[str, object]
    ) -> list[Array]:
        """The results of an op."""
        given = [self.variable(array) for array in operands]
        primals = self._apply_outside(name, [x.primal for x in given], attributes)
        active = not OPS[name].is_constant and any(x.is_active for x in given)
        results = [self.wrap(primal, active) for primal in primals]
        values = [array._value for array in results]
        if any(value.is_active for value in values):
            self.nodes.append(Applied(name, attributes, given, values, user_line()))
        return results

    def call(self, custom: CustomCall, arrays: Sequence[Array]) -> list[Array]:
        """The results of a function that says how it is differentiated."""
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
    """Ops are executed in the scope around, on other arrays than they are given.

    Args:
        replacements: arrays and what stands for them, by identity.
        captured: arrays of tapes around, which a function has read.
    """

    replacements: Mapping[int, Array] = field(default_factory=dict)
    captured: dict[int, Array] = field(default_factory=dict)

    def current(self, array: Array) -> Array:
        """Return the replacement of an array, or itself."""
        if isinstance(array._trace, Tape):
            self.captured[id(array)] = array
        return self.replacements.get(id(array), array)

    def apply(
        self, name: str, operands: Sequence[Array], attributes: dict[str, object]
    ) -> list[Array]:
        """The results of an op."""
        return self._apply_outside(name, list(map(self.current, operands)), attributes)

    def call(self, custom: CustomCall, arrays: Sequence[Array]) -> list[Array]:
        """The results of a function that says how it is differentiated."""
        return self._call_outside(custom, list(map(self.current, arrays)))


# ---- in any scope -------------------------------------------------------------------


def settle(array: Array, scope: Executing) -> Array:
    """`array` as `scope` may read it: one of itself, of a scope around, or a constant.

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
    """Return whether ops may get a derivative now: they are traced, or on a tape."""
    scope = current_scope()
    while isinstance(scope, Executing) and not isinstance(scope, Tape):
        scope = scope.parent
    return isinstance(scope, Tape) or current_trace() is not None


def call_custom(custom: CustomCall, arrays: Sequence[Array]) -> list[Array]:
    """The results of a function that says how it is differentiated, executed."""
    scope = current_scope()
    if isinstance(scope, Executing):
        return scope.call(custom, arrays)
    return custom.evaluate(arrays)
