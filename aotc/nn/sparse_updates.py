"""Sparse updates: a network of which some layers learn, and the others stay.

    tuned = nn.sparse_update(network, layers=["head.*", "*.bias"])
    learned = tuned.init(params, images)            # once, before training
    logits = tuned(learned, params, images)         # in a training step

What an optimizer changes are copies of the weights that learn. The backward pass ends
at the first of them: what the function computes before is not kept for it, and has no
derivative (Lin et al., "On-Device Training Under 256KB Memory", NeurIPS 2022).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import numpy

from aotc.core import dtypes
from aotc.core.options import bytes_of
from aotc.core.pytree import PyTree, flatten, leaf_names
from aotc.dialects.types import Tensor
from aotc.mlir import Operation, Value, ir
from aotc.nn.trial_traces import is_array, trial_trace
from aotc.tracing.array import Array
from aotc.tracing.calls import guard
from aotc.tracing.conversion import ArrayLike, astype, lift
from aotc.tracing.source_locations import fail

__all__ = ["SparseUpdate", "sparse_update"]

_LISTED = 12


def sparse_update(
    function: Callable[..., object],
    layers: str | Sequence[str] | None = None,
    *,
    memory: int | str | None = None,
    moments: int = 2,
) -> SparseUpdate:
    """Return the function with only some of its weights trainable.

    Args:
        function: of a pytree of weights, and other arguments.
        layers: patterns, such as `block_3.*` or `*.bias`, of the names of weights that
            may learn; by default all of floats.
        memory: bytes, such as `"64MB"`, that learning may take beside the weights and a
            call without derivatives: of the weights that may learn those nearest to the
            result are taken, as many as fit. It is estimated, rather too high: learned
            weights, their gradients and moments, and all values between the first of
            them and the result.
        moments: arrays of its size that the optimizer keeps of each learned weight; 2
            for Adam. They only count for `memory`.

    Returns:
        A function of learned weights and the arguments; see `SparseUpdate`.

    Raises:
        InputError: `bad-memory`: that is no number of bytes.
    """
    patterns = (layers,) if isinstance(layers, str) else tuple(layers or ("*",))
    return SparseUpdate(function, patterns, _byte_count(memory), moments)


@dataclass(frozen=True)
class SparseUpdate:
    """A function of which only some weights are trained.

    Learned weights are a dict of arrays, by the names that they have in the first
    argument, such as `head.kernel`.

    Args:
        function: of weights, and other arguments.
        patterns: of the names of weights that may learn.
        memory: bytes that learning may take; None if that is not bounded.
        moments: arrays that the optimizer keeps of each learned weight.
    """

    function: Callable[..., Any]
    patterns: tuple[str, ...]
    memory: int | None
    moments: int

    def __call__(
        self,
        learned: Mapping[str, ArrayLike],
        params: PyTree,
        *args: PyTree,
        **kwargs: PyTree,
    ) -> Any:
        """Call the function with trained weights in place of the given ones."""
        return self.function(_replaced(params, learned, _in_graph), *args, **kwargs)

    def init(
        self, params: PyTree, *args: PyTree, **kwargs: PyTree
    ) -> dict[str, numpy.ndarray]:
        """Return copies of the trainable weights, by name.

        Args:
            params: of the function, as arrays.
            args: of the function: arrays, or `aotc.Spec`s of static shapes.
            kwargs: likewise.

        Raises:
            InputError: `no-layers`: a pattern matches no weight of floats, or none
                learns within the memory.
        """
        named = _weights(params)
        found = {
            name: numpy.array(weight)
            for name, weight in named.items()
            if any(fnmatchcase(name, pattern) for pattern in self.patterns)
        }
        for pattern in self.patterns:
            if not any(fnmatchcase(name, pattern) for name in found):
                fail(
                    "no-layers",
                    f"expected weights of floats that match {pattern}; there are "
                    f"{', '.join([*named][:_LISTED]) or 'none'}",
                )
        if self.memory is None:
            return found
        fitting = self._fitting(self.memory, found, params, args, kwargs)
        return {name: weight for name, weight in found.items() if name in fitting}

    def merge(self, learned: Mapping[str, ArrayLike], params: PyTree) -> PyTree:
        """Return all weights of the function, with the trained ones replaced."""
        return _replaced(params, learned, lambda array, _: numpy.asarray(array))

    def _fitting(
        self,
        memory: int,
        weights: Mapping[str, numpy.ndarray],
        params: PyTree,
        args: tuple[PyTree, ...],
        kwargs: Mapping[str, PyTree],
    ) -> set[str]:
        """Choose weights nearest to the result whose training fits into `memory` bytes.

        A weight is as near as the first op that reads it. One that does not fit is left
        out, and those before it are tried all the same: a bias takes less.
        """
        with trial_trace("sparse_update", params, args, kwargs) as (trace, traced):
            given, others, named = traced
            values = {
                name: array._value
                for name, array in _weights(given).items()
                if name in weights
            }
            self.function(given, *others, **named)
            ops = [op.operation for op in trace.block.operations]
        readers = {value: _first_reader(value, ops) for value in values.values()}
        order = [name for name in values if readers[values[name]] < len(ops)]
        order.sort(key=lambda name: readers[values[name]], reverse=True)
        chosen: list[str] = []
        least = 0
        for name in order:
            tried = [*chosen, name]
            copies = sum(weights[each].nbytes for each in tried) * (2 + self.moments)
            taken = copies + _kept_bytes([values[each] for each in tried], ops)
            least = min(least or taken, taken)
            if taken <= memory:
                chosen = tried
        if not chosen:
            fail(
                "no-layers",
                f"expected weights that learn within {memory:,} bytes; the least that "
                f"one takes is {least:,}",
                "a larger `memory`, or a smaller batch",
            )
        return set(chosen)


def _byte_count(memory: int | str | None) -> int | None:
    """Return a user's number or text, such as "64MB", in bytes."""
    if memory is None:
        return None
    try:
        found = bytes_of(str(memory))
    except ValueError as error:
        fail("bad-memory", str(error))
    if found == 0 or isinstance(memory, bool):
        fail("bad-memory", f"expected bytes, such as 64MB; got {memory!r}")
    return found


def _weights(params: PyTree) -> dict[str, Any]:
    """Return the float arrays among a pytree's leaves, by name."""
    leaves, structure = flatten(params)
    return {
        name: leaf
        for name, leaf in zip(leaf_names(structure), leaves, strict=True)
        if is_array(leaf) and dtypes.is_float(dtypes.canonical_dtype(leaf.dtype))
    }


def _replaced(
    params: PyTree,
    learned: Mapping[str, ArrayLike],
    convert: Callable[[ArrayLike, Any], object],
) -> Any:
    """Return the pytree with leaves replaced by the trained weights of their names.

    Raises:
        InputError: `not-learned`: there is no such weight, or it has another shape.
    """
    leaves, structure = flatten(params)
    names = leaf_names(structure)
    places = {name: number for number, name in enumerate(names)}
    for name, array in learned.items():
        leaf = leaves[places[name]] if name in places else None
        found = tuple(lift(array).shape)
        wanted = tuple(leaf.shape) if is_array(leaf) else None
        if wanted != found:
            fail(
                "not-learned",
                f"expected '{name}' as {'a weight' if wanted is None else [*wanted]}; "
                + ("there is none" if wanted is None else f"got {[*found]}"),
                "learned weights are those of init, for a tree of the same names",
            )
        leaves[places[name]] = convert(array, leaf)
    return structure.unflatten(leaves)


def _in_graph(array: ArrayLike, leaf: Any) -> Array:
    """Cast a trained weight to the dtype of the weight that it replaces."""
    return astype(lift(array), dtypes.canonical_dtype(leaf.dtype))


def _first_reader(value: Value, ops: Sequence[Operation]) -> int:
    """Return the index of the first op that uses a value; len(ops) if none does."""
    readers = {use.owner for use in value.uses}
    return next((n for n, op in enumerate(ops) if op in readers), len(ops))


def _kept_bytes(learned: Sequence[Value], ops: Sequence[Operation]) -> int:
    """Estimate the bytes of values that the backward pass keeps for these weights.

    They are the operands and results of all ops that depend on one of the weights, but
    for the function's own arguments.
    """
    active = set(learned)
    kept: dict[Value, int] = {}
    for op in ops:
        if active.isdisjoint(op.operands):
            continue
        active.update(op.results)
        kept.update((value, _byte_size(value)) for value in _computed(op))
    return sum(kept.values())


def _computed(op: Operation) -> Iterator[Value]:
    """Yield an op's results, and its operands that other ops computed."""
    yield from op.results
    yield from (x for x in op.operands if not isinstance(x.owner, ir.Block))


def _byte_size(value: Value) -> int:
    """Return the bytes of a value of static sizes."""
    tensor = Tensor.of(value)
    elements = numpy.prod([int(size) for size in tensor.shape], dtype=numpy.int64)
    return int(elements) * dtypes.bits(tensor.dtype) // 8


guard(globals(), ["sparse_update"])
