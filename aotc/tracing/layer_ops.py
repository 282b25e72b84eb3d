"""Follow the weights of a function while it is called, and change its layers.

    LayerInterceptor(change).call(function, {"dense": {"kernel": kernel}}, (x,), {})

Layers are products and convolutions by weights, and rows that are read of such. Weights
are leaves of the first argument, and what ops make of them and of constants alone.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy

from aotc.core.pytree import PyTree, Structure, flatten, leaf_names
from aotc.tracing.array import Array
from aotc.tracing.conversion import lift
from aotc.tracing.scopes import intercepted_by
from aotc.tracing.tracing import emit_all

Result = TypeVar("Result")

# op → which of its operands is the weight
_OPERAND = {"dot_general": 1, "conv_general": 1, "gather": 0}


@dataclass(frozen=True)
class LayerWeight:
    """A weight of a layer, or an array computed from weights and constants alone.

    Args:
        source: the name of the largest weight that it is made of.
        size: of that, in elements.
        base: what it is a transpose of.
        order: the axes of the base, in its order.
        is_given: whether the base is the weight `source`, and not made of it.
    """

    source: str
    size: int
    base: Array
    order: tuple[int, ...]
    is_given: bool = False

    @property
    def is_transposed(self) -> bool:
        """Return whether the axes are permuted relative to the base."""
        return self.order != tuple(range(len(self.order)))


@dataclass(frozen=True)
class LayerOp:
    """An op that reads a weight: a product, convolution or gather.

    Args:
        op: its name.
        weight: that it reads.
        number: of the operand that is the weight.
        operands: of the op, the weight among them.
        attributes: of the op.
    """

    op: str
    weight: LayerWeight
    number: int
    operands: tuple[Array, ...]
    attributes: Mapping[str, Any]

    @property
    def inputs(self) -> tuple[Array, ...]:
        """The operands other than the weight."""
        return self.operands[: self.number] + self.operands[self.number + 1 :]

    def results(self, operands: Sequence[Array] | None = None) -> list[Array]:
        """Apply the op to its own operands, or to others; return the results."""
        return emit_all(self.op, *(operands or self.operands), **self.attributes)


class LayerInterceptor:
    """Intercepts the ops of a function that read a weight, and replaces their results.

    Args:
        change: gives the results of a layer; it may ask `name_of` once for its name.
    """

    def __init__(self, change: Callable[[LayerOp], list[Array]]) -> None:
        self._change = change
        self._weights: dict[Hashable, tuple[Array, LayerWeight]] = {}
        self._inputs: dict[Hashable, Array] = {}  # and what is made of them
        self._constants: dict[Hashable, Array] = {}  # that are traced
        self._counts: Counter[str] = Counter()

    def call(
        self,
        function: Callable[..., Result],
        params: PyTree,
        args: tuple[PyTree, ...],
        kwargs: Mapping[str, PyTree],
        names_of: Callable[[Structure], Sequence[str]] = leaf_names,
    ) -> Result:
        """Call a function with the layers in it intercepted; return its result.

        Args:
            function: that is called.
            params: a pytree of weights, its first argument.
            args: the others.
            kwargs: likewise.
            names_of: gives the names of the weights.
        """
        leaves, structure = flatten(params)
        arrays = [lift(leaf) for leaf in leaves]
        for name, array in zip(names_of(structure), arrays, strict=True):
            self._add_weight(name, array)
        others, form = flatten((args, kwargs))
        given, named = form.unflatten([*map(self._as_input, others)])
        with intercepted_by(self):
            return function(structure.unflatten(arrays), *given, **named)

    def _add_weight(self, name: str, array: Array) -> None:
        """Register a weight by its name."""
        size = math.prod(map(int, array.type.shape))
        order = tuple(range(array.ndim))
        self._note(array, LayerWeight(name, size, array, order, is_given=True))

    def _as_input(self, leaf: object) -> object:
        """Register an array argument as an input; return it as an Array."""
        if not isinstance(leaf, (Array, numpy.ndarray)):
            return leaf
        array = lift(leaf)
        self._inputs[_key(array)] = array
        return array

    def name_of(self, layer: LayerOp) -> str:
        """Return a weight's name, with `#2`, `#3`, … from the second call for it on."""
        source = layer.weight.source
        self._counts[source] += 1
        count = self._counts[source]
        return source + (f"#{count}" if count > 1 else "")

    def apply(
        self, name: str, operands: Sequence[Array], attributes: dict[str, object]
    ) -> list[Array] | None:
        """Apply an op; for a layer, return the replaced results."""
        weights = [self._weight(x) for x in operands]
        number = _OPERAND.get(name)
        with intercepted_by(None):
            if number is not None and _reads_one(weights, number):
                weight = weights[number]
                assert weight is not None
                layer = LayerOp(name, weight, number, tuple(operands), attributes)
                results = self._change(layer)
                is_computed = True
            else:
                results = emit_all(name, *operands, **attributes)
                is_computed = any(map(self._is_computed, operands))
        if is_computed:
            self._inputs.update((_key(x), x) for x in results)
        else:
            self._follow(name, weights, attributes, results)
        return results

    def _weight(self, x: Array) -> LayerWeight | None:
        """Return the weight that an array is or is computed from; None for others."""
        found = self._weights.get(_key(x))
        return None if found is None else found[1]

    def _is_computed(self, x: Array) -> bool:
        """Return whether an array is an input, or computed from one."""
        known = self._weights, self._constants
        is_known = x._data is not None or any(_key(x) in each for each in known)
        return _key(x) in self._inputs or not is_known

    def _note(self, x: Array, weight: LayerWeight) -> None:
        """Register an array as a weight."""
        self._weights[_key(x)] = x, weight  # held, so that its identity stays

    def _follow(
        self,
        name: str,
        weights: Sequence[LayerWeight | None],
        attributes: Mapping[str, Any],
        results: Sequence[Array],
    ) -> None:
        """Register the results of an op on weights and constants as such, too."""
        known = [each for each in weights if each is not None]
        if not known:
            self._constants.update((_key(x), x) for x in results)
            return
        largest = max(known, key=lambda each: each.size)
        for x in results:
            made = LayerWeight(largest.source, largest.size, x, tuple(range(x.ndim)))
            if name == "transpose":
                (turned,) = known
                order = tuple(turned.order[n] for n in attributes["permutation"])
                made = replace(turned, order=order)
            self._note(x, made)


def _key(x: Array) -> Hashable:
    """Return a key that all arrays of one value share."""
    return id(x) if x._data is not None else x._value


def _reads_one(weights: Sequence[LayerWeight | None], number: int) -> bool:
    """Return whether exactly the operand of this number is a weight."""
    return all((each is not None) == (n == number) for n, each in enumerate(weights))
