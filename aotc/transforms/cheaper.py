"""Mixed precision where ops compute at once: the scope in which they do so cheaper.

It does what `aotc.passes.sweeps.precision` does to functions of the graph.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from aotc.core import dtypes
from aotc.core.pytree import flatten
from aotc.dialects import OPS, context
from aotc.dialects.graph import FOLLOWS, GIVEN, LOW, WIDE, as_tuple
from aotc.dialects.rules.mixing import (
    kind_of,
    kind_of_constant,
    kind_of_padding,
    nearest_finite,
)
from aotc.tracing.array import Array
from aotc.tracing.bodies import returned_arrays
from aotc.tracing.conversion import astype, lift
from aotc.tracing.execution import CustomCall, Executing
from aotc.tracing.scopes import enter_scope

Result = TypeVar("Result")


class _DtypeVariants:
    """A value converted on demand to the cheaper dtype or its original one; cached.

    Args:
        dtype: of the value in the function as it is written.
        primal: what it is, in this dtype or the cheaper one.
        kind: how ops take it; see `aotc.dialects.rules.mixing`.
    """

    def __init__(self, dtype: str, primal: Array, kind: str) -> None:
        self.dtype, self.kind = dtype, kind
        self._primal = primal
        self._known = {primal.dtype: primal}

    def read(self, kind: str, compute: str) -> Array:
        """Return the value in the dtype in which an op of this kind computes."""
        wanted = compute if self.dtype == "f32" and kind == LOW else self.dtype
        if wanted not in self._known:
            self._known[wanted] = self._converted(wanted)
        return self._known[wanted]

    def _converted(self, dtype: str) -> Array:
        """Return the value in another dtype; constants stay finite."""
        known = self._primal._known
        if known is None or self.kind != FOLLOWS:
            return astype(self._primal, dtype)
        return lift(nearest_finite(known, dtype))


@dataclass(eq=False)
class Cheaper(Executing):
    """A scope in which ops compute in a cheaper float dtype where that is safe."""

    compute: str

    def wrap(self, dtype: str, primal: Array, kind: str) -> Array:
        """Return an array of the outer scope as one of this scope, declared as
        `dtype`.
        """
        known = None
        if primal._known is not None:
            known = primal._known.astype(dtypes.to_numpy(dtype), copy=False)
        return Array(value=_DtypeVariants(dtype, primal, kind), trace=self, known=known)

    def apply(
        self, name: str, operands: Sequence[Array], attributes: dict[str, object]
    ) -> list[Array]:
        """Compute an op in the cheaper dtype where its kind allows; return the
        results.
        """
        given = [self._variants(array) for array in operands]
        kind = kind_of(OPS[name], given, self.compute)
        if name == "pad":
            value = attributes["value"]
            assert isinstance(value, float)
            kind = kind_of_padding(kind, value, self.compute)
        with context():
            types = OPS[name].infer(*(array.type for array in operands), **attributes)
        with enter_scope(self.parent):
            primals = [each.read(kind, self.compute) for each in given]
        results = self._apply_outside(name, primals, attributes)
        pairs = zip(as_tuple(types), results, strict=True)
        return [self.wrap(tensor.dtype, array, kind) for tensor, array in pairs]

    def call(self, custom: CustomCall, arrays: Sequence[Array]) -> list[Array]:
        """Call a function with custom rules, in its own dtypes; return the results."""
        found = self._call_outside(custom, [self.wide(array) for array in arrays])
        return [self.wrap(array.dtype, array, LOW) for array in found]

    def wide(self, array: Array) -> Array:
        """Return an array of this scope in the outer scope, in its declared dtype."""
        with enter_scope(self.parent):
            return self._variants(array).read(WIDE, self.compute)

    def _variants(self, array: Array) -> _DtypeVariants:
        """Return the dtype variants of an array of this or the outer scope."""
        if array._trace is self:
            found: _DtypeVariants = array._value
            return found
        data = array._data
        kind = GIVEN if data is None else kind_of_constant(data, self.compute)
        return _DtypeVariants(array.dtype, array, kind)


def executed_in(
    compute: str, function: Callable[..., Result], *args: object, **kwargs: object
) -> Result:
    """Call a function with ops computed in the dtype `compute` where that is safe."""
    leaves, structure = flatten((args, kwargs))
    arrays = [lift(leaf) for leaf in leaves]
    scope = Cheaper(compute)
    inputs = [scope.wrap(array.dtype, array, GIVEN) for array in arrays]
    with enter_scope(scope):
        given, named = structure.unflatten(inputs)
        found, tree = flatten(function(*given, **named))
        outputs = returned_arrays(function, found, tree)
    result: Result = tree.unflatten([scope.wide(array) for array in outputs])
    return result
