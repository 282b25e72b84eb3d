"""Functions executed on a tape, for derivatives where nothing is traced.

A function runs once, in Python, on arrays that have values; everything else is
computed from the tape. `Executed` answers what `aotc.transforms.traced.TracedFunction`
does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from aotc.core import dtypes
from aotc.core.pytree import Structure, flatten
from aotc.dialects.functions.transform import Derived, Jvp, Vjp
from aotc.tracing.array import Array
from aotc.tracing.bodies import AdaptResult, returned_arrays
from aotc.tracing.conversion import lift
from aotc.tracing.execution import Tape, Variable
from aotc.transforms.tape_sweeps import pulled_back, pushed_forward


@dataclass(frozen=True)
class ExecutedBody:
    """The outputs of a function that was executed eagerly, and their structure.

    Args:
        name: that derivatives of it are asked for by.
        outputs: in the scope around the tape.
        tree: their form.
    """

    name: str
    outputs: list[Array]
    tree: Structure


class Executed:
    """A function executed eagerly on its arguments and recorded on a tape.

    Args:
        function: of pytrees of arrays.
        leaves: of its arguments.
        structure: the form of (args, kwargs).
        adapt_result: of the function and what it returned; gives what counts as such.
    """

    def __init__(
        self,
        function: Callable[..., object],
        leaves: Sequence[object],
        structure: Structure,
        adapt_result: AdaptResult = lambda _, result: result,
    ) -> None:
        self.structure = structure
        self.arrays = [lift(leaf) for leaf in leaves]
        tape = Tape()
        inputs = [tape.wrap(array) for array in self.arrays]
        with tape.recording():
            args, kwargs = structure.unflatten(inputs)
            found, tree = flatten(adapt_result(function, function(*args, **kwargs)))
            returned = returned_arrays(function, found, tree)
            outputs = [tape.variable(array) for array in returned]
        self._inputs = [tape.variable(array) for array in inputs]
        self._outputs: list[Variable] = outputs
        self._nodes = tape.nodes
        self.body = ExecutedBody("executed", [y.primal for y in outputs], tree)

    def results(self) -> Any:
        """Return the function's own results."""
        return self.body.tree.unflatten(self.body.outputs)

    def apply(
        self, derived: Derived, more: Sequence[Array]
    ) -> tuple[list[Array], list[Array]]:
        """Return the outputs, and those of a derivative for the (co)tangents `more`."""
        smooth = [y for y in self._outputs if dtypes.is_float(y.primal.dtype)]
        assert isinstance(derived, (Vjp, Jvp))
        wrt = [self._inputs[number] for number in derived.wrt]
        if isinstance(derived, Vjp):
            found = pulled_back(self._nodes, smooth, more, wrt)
        else:
            slopes = dict(zip(wrt, more, strict=True))
            found = pushed_forward(self._nodes, slopes, smooth)
        return self.body.outputs, found
