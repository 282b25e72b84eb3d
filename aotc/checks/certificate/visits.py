"""Visits of the functions that an entry reaches on given arguments.

A program is visited before its derivatives are written, because writing them inlines
the functions that they are of. A call of a derivative visits the function at the same
point; what it returns comes from a copy in which all derivatives are written.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress
from functools import cached_property

import numpy as np

from aotc.dialects.functions.functions import (
    copy_module,
    functions_of,
    keep_only,
    signature,
)
from aotc.dialects.functions.transform import Batch, Derived, derived_of
from aotc.mlir import Module
from aotc.passes import run_passes
from aotc.reference import Evaluation

Arrays = list[np.ndarray]


def visit(
    module: Module,
    entry: str,
    arguments: Sequence[np.ndarray],
    symbols: list[int],
    wanted: Collection[str],
) -> dict[str, Arrays]:
    """Evaluate an entry; return the arguments with which each function was first
    called.

    Args:
        module: whose derivatives are not written yet.
        entry: the name of a function.
        arguments: what it is called with.
        symbols: the values of its symbols.
        wanted: functions; the visit may end when it got to all of them.
    """
    way = _Visit(module, symbols, entry, wanted)
    with module.context, np.errstate(all="ignore"), suppress(_Enough):
        way.call(entry, list(arguments))
    return way.reached


class _Enough(Exception):
    """Raised to end an evaluation once all wanted functions were called."""


class _Visit(Evaluation):
    """An evaluation that records the first arguments of each function it calls."""

    def __init__(
        self, module: Module, symbols: list[int], entry: str, wanted: Collection[str]
    ) -> None:
        super().__init__(functions_of(module), symbols)
        self.reached: dict[str, Arrays] = {}
        self._module, self._entry, self._wanted = module, entry, wanted

    def call(self, name: str, arrays: Arrays) -> Arrays:
        """Compute a function's results, and record its arguments if they are the
        first.
        """
        self.reached.setdefault(name, arrays)
        derived = derived_of(self.functions[name])
        if derived is None:
            return super().call(name, arrays)
        if derived.of not in self.reached:
            self._visit_primal(derived, arrays)
        if all(each in self.reached for each in self._wanted):
            raise _Enough
        written = functions_of(self._graph_with_gradients)
        return Evaluation(written, self.symbols).call(name, arrays)

    def _visit_primal(self, derived: Derived, arrays: Arrays) -> None:
        """Call the function that a derivative is made of; for a batch, on its first
        element.
        """
        count = len(signature(self.functions[derived.of])[0])
        given = arrays[:count]
        if isinstance(derived, Batch):
            if any(not len(given[i]) for i in derived.wrt):
                return
            given = [x[0] if i in derived.wrt else x for i, x in enumerate(given)]
        self.call(derived.of, given)

    @cached_property
    def _graph_with_gradients(self) -> Module:
        """A copy of the entry's module with its derivatives written."""
        module = copy_module(self._module)
        keep_only(module, [self._entry])
        run_passes(module, ["autodiff"])
        return module
