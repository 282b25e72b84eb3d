"""Callers of a stream: of an entry in two steps, of a function in one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from time import perf_counter_ns
from typing import Any

from aotc.core.pytree import PyTree
from aotc.errors import InputError
from aotc.runtime.foreign_tensors import DlpackTensor
from aotc.runtime.function import Prepared
from aotc.runtime.model import LoadedEntry
from aotc.streaming.batching import Batching, Leaves, require_same_rows
from aotc.streaming.outcomes import PreparedCall


class EntryCaller:
    """Calls an entry of a loaded model for items of a stream, perhaps in batches.

    Args:
        entry: to call.
        batching: how calls are put together; None if each is one by itself.
    """

    def __init__(self, entry: LoadedEntry, batching: Batching | None = None) -> None:
        self.name = entry.name
        self.batching = batching
        self._entry = entry
        self._is_checked = bool(entry.spec.updates)  # calls again would update again
        names = list(entry.spec.arguments["dict"])
        self._only: str | None = names[0] if len(names) == 1 else None

    def accept(self, item: object) -> Sequence[object]:
        """Return the leaves of an item; check them if they may join a batch.

        Raises:
            AotcError: they are not those of the entry, or break its contract.
        """
        if self._only is not None and not isinstance(item, Mapping):
            item = {self._only: item}
        leaves = self._entry.flatten(item)
        if self.batching is None:
            return leaves
        arrays, _ = self._entry.function.check(leaves)
        for leaf, array in zip(self._entry.spec.inputs, arrays, strict=True):
            if isinstance(array, DlpackTensor):
                raise InputError(
                    "input-device",
                    f"{self.name}: input {leaf.name!r}: expected rows of a batch in "
                    "the memory of the host, where they are joined; got a tensor on "
                    "the GPU",
                    hint=f"copy it to the host: {leaf.name}.cpu()",
                )
        return arrays

    def prepare(self, inputs: Sequence[Leaves]) -> Prepared:
        """Prepare a call for one item, or for the joined rows of several.

        Raises:
            AotcError: the inputs break the contract.
        """
        joined = self.batching.join_calls(inputs) if self.batching else inputs[0]
        return self._entry.function.prepare(joined)

    def run(self, call: PreparedCall) -> list[Leaves]:
        """Run a prepared call; return the result leaves of each item.

        Raises:
            AotcError: as the entry raises it.
        """
        began = perf_counter_ns() - call.nanoseconds  # its wait is not its time
        leaves = self._entry.function.invoke(call.prepared._replace(began=began))
        if self.batching is None or len(call.items) == 1:
            return [leaves]
        return list(self.batching.split(leaves, [item.inputs for item in call.items]))

    def require_same_alone(self, call: PreparedCall, results: Sequence[Leaves]) -> None:
        """Raise if the first batch's results differ from those of its items called
        alone.

        Raises:
            InputError: `not-batchable`.
        """
        if not self._is_checked and len(call.items) > 1:
            alone = [self._entry.call_flat(item.inputs) for item in call.items]
            require_same_rows(self._entry, results, alone)
            self._is_checked = True

    def build(self, leaves: Leaves) -> PyTree:
        """Return result leaves in the structure that the entry returns."""
        return self._entry.build(leaves)


class FunctionCaller:
    """Calls a Python function for items of a stream, with its inputs by name."""

    batching = None

    def __init__(self, function: Callable[..., object]) -> None:
        self.name = str(getattr(function, "__name__", type(function).__name__))
        self._function = function

    def accept(self, item: object) -> object:
        """Return the item as it is."""
        return item

    def prepare(self, inputs: Sequence[object]) -> object:
        """Return the inputs of the only item."""
        return inputs[0]

    def run(self, call: PreparedCall) -> list[Any]:
        """Call the function; return its result in a list."""
        given = call.prepared
        is_named = isinstance(given, Mapping)
        return [self._function(**given) if is_named else self._function(given)]

    def require_same_alone(self, call: PreparedCall, results: Sequence[object]) -> None:
        """Do nothing, as no calls are batched."""

    def build(self, result: object) -> object:
        """Return the result as it is."""
        return result


Caller = EntryCaller | FunctionCaller
