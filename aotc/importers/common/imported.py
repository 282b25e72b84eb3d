"""`Imported`: a network of another framework, as a model.py or a build takes it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from aotc.importers.common.original import Original
from aotc.programs.program import Program
from aotc.tracing.assembly import trace
from aotc.tracing.call_sizes import with_compiler_sizes
from aotc.tracing.entry import EntryFunction, State, StoredTree, Weights
from aotc.tracing.source_locations import Place, at_location, user_place


@dataclass(frozen=True, eq=False)
class Imported:
    """An imported network: an entry of a model.py, or a function that entries call.

    At the top level of a model.py it is an entry of the name that it has there, unless
    the name begins with an underscore. Inside
    an entry it is called as `net(weights, state, inputs…)`, without the `weights` or
    `state` that it has not, and returns its result, or `(new_state, result)`.

    Args:
        function: of weights, state and the inputs, in this order.
        inputs: the Specs of the inputs by their names, a pytree each.
        weights: its parameters, or None.
        state: what it updates at each call, or None.
        declared: the user's line that imports it.
        original: how its own framework computes it, where that can be run.
        buffers_in: the names of the weights that are `buffers`.
    """

    function: Callable[..., Any]
    inputs: Mapping[str, Any]
    weights: Weights | None = None
    state: State | None = None
    declared: Place | None = field(default_factory=user_place)
    original: Original | None = None
    buffers_in: frozenset[str] = frozenset()

    @property
    def params(self) -> Any:
        """The weights that training changes: those that are not `buffers`."""
        tree = self._weights()
        if not self.buffers_in:
            return tree
        return {name: x for name, x in tree.items() if name not in self.buffers_in}

    @property
    def buffers(self) -> dict[str, Any]:
        """The weights that training must leave alone, such as running statistics.

        A call takes both: `net({**params, **buffers}, x)`.
        """
        tree = self._weights() if self.buffers_in else {}
        return {name: x for name, x in tree.items() if name in self.buffers_in}

    def _weights(self) -> Any:
        """Return the tree of weights; an empty dict if there are none."""
        return {} if self.weights is None else self.weights.tree

    def __call__(self, *args: object, **kwargs: object) -> Any:
        """Return the network's result on traced arrays."""
        with with_compiler_sizes():
            return self.function(*args, **kwargs)

    def entry(self, name: str) -> EntryFunction:
        """Return an entry function that runs the network on inputs of its Specs."""
        sources = {**self._stored_arguments(), **self.inputs}
        parameters = [
            inspect.Parameter(key, inspect.Parameter.POSITIONAL_OR_KEYWORD)
            for key in sources
        ]

        def run(**values: Any) -> Any:
            with at_location(self.declared):
                return self(*values.values())

        run.__name__ = name
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        return EntryFunction(run, sources, self.declared, self)

    def compute(self, inputs: Mapping[str, object]) -> Any:
        """Return the network's result on NumPy arrays, computed eagerly."""
        stored = [each.tree for each in self._stored_arguments().values()]
        return self(*stored, *(inputs[name] for name in self.inputs))

    def names(self, name: str) -> dict[int, str]:
        """Map the ids of weights and state to names, where a module calls the network
        `name`.
        """
        titles = ((self.weights, name), (self.state, f"{name}_state"))
        return {id(stored): title for stored, title in titles if stored is not None}

    def _stored_arguments(self) -> dict[str, StoredTree]:
        """Return weights and state by argument names that collide with no input."""
        found: dict[str, StoredTree] = {}
        for key, stored in (("weights", self.weights), ("state", self.state)):
            if stored is not None:
                found[key + "_" * (key in self.inputs)] = stored
        return found

    def program(self, name: str = "main") -> Program:
        """Trace the network into a program with it as the only entry."""
        return trace([self.entry(name)], {})
