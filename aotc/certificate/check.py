"""The two tests of a derivative: dot products, and differences along a direction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from aotc import dtypes, reference
from aotc.dialects.functions import (
    SYMBOLS,
    call,
    functions_of,
    signature,
)
from aotc.dialects.transform import Jvp, Vjp, derive, floats
from aotc.dialects.types import Tensor, evaluate_size
from aotc.frontends.program import Entry, Port
from aotc.mlir import func, ir
from aotc.pytree import Structure

STEPS = (1e-3, 1e-4, 1e-5, 1e-6, 1e-7)  # the best counts: kinks and digits differ
ROUNDING = 1e-6  # a slope this much smaller than the values is none
TINY = 1e-300

Arrays = list[Any]
Run = Callable[[Arrays], Arrays]


@dataclass(frozen=True)
class Check:
    """A function of arguments, tangents and cotangents in f64.

    It returns the results of the function that it checks, the cotangents of the
    arguments in `wrt`, and the tangents of the results. A function with a rule for
    reverse mode only has no tangents to compare with.

    Args:
        name: of the function.
        of: the function that it checks.
        inputs: the types of the arguments.
        outputs: of the results.
        wrt: the arguments that are moved.
        both: whether it has both modes.
    """

    name: str
    of: str
    inputs: list[Tensor]
    outputs: list[Tensor]
    wrt: tuple[int, ...]
    both: bool

    @staticmethod
    def declare(
        module: Any, name: str, of: str, wrt: tuple[int, ...], both: bool
    ) -> Check:
        """Write the function `name`, which checks `of`, into a module that has that."""
        primal = functions_of(module)[of]
        inputs, outputs = signature(primal)
        check = Check(name, of, inputs, outputs, wrt, both)
        types = [tensor.to_mlir() for tensor in check.taken]
        with ir.InsertionPoint(primal), primal.location:
            function = func.FuncOp(name, (types, []))
        if SYMBOLS in primal.attributes:
            function.attributes[SYMBOLS] = primal.attributes[SYMBOLS]
        values = list(function.add_entry_block().arguments)
        x, v = values[: len(inputs)], values[len(inputs) :][: len(wrt)]
        w = values[len(inputs) + len(wrt) :]
        with ir.InsertionPoint(function.entry_block), primal.location:
            results = call(derive(Vjp(of, wrt)), [*x, *w])
            if both:
                results += call(derive(Jvp(of, wrt)), [*x, *v])[len(outputs) :]
            func.ReturnOp(results)
        whole = ir.FunctionType.get(types, [y.type for y in results])
        function.attributes["function_type"] = ir.TypeAttr.get(whole)
        return check

    @property
    def taken(self) -> list[Tensor]:
        """The types of what the function takes."""
        return [*self.inputs, *self._moved_types, *floats(self.outputs)]

    @property
    def returned(self) -> list[Tensor]:
        """The types of what it returns."""
        slopes = floats(self.outputs) if self.both else []
        return [*self.outputs, *self._moved_types, *slopes]

    @property
    def _moved_types(self) -> list[Tensor]:
        return [self.inputs[i] for i in self.wrt]

    def entry(self) -> Entry:
        """As the backend exports it."""
        leaf = Structure("leaf")
        inputs = [Port(f"x{i}", t, "input") for i, t in enumerate(self.taken)]
        outputs = [Port(f"y{i}", t, "output") for i, t in enumerate(self.returned)]
        return Entry(self.name, (), tuple(inputs), tuple(outputs), leaf, leaf)

    def symbols(self, x: Arrays) -> list[int]:
        """The values of the symbols for these arguments."""
        return reference.bind_symbols(self.inputs, x)

    def measure(self, run: Run, x: Arrays, rng: Any) -> tuple[float | None, float]:
        """How far the two tests are from equality, relative to the slope.

        Args:
            run: computes the function.
            x: the arguments.
            rng: of the directions.

        Returns:
            The figure of the dot-product test, None without both modes; and the least
            of the directional test.
        """
        sizes = self.symbols(x)
        v, w = (
            [
                rng.standard_normal([evaluate_size(n, sizes) for n in t.shape])
                for t in each
            ]
            for each in (self._moved_types, floats(self.outputs))
        )
        found = run([*x, *v, *w])
        values, found = self._floats(found), found[len(self.outputs) :]
        gradients = found[: len(v)]
        backward, slopes = _dot(gradients, v), found[len(v) :]
        size = _dot(gradients, gradients) ** 0.5
        scale = abs(backward) + size + ROUNDING * abs(_dot(w, values)) + TINY
        errors = [
            abs(self._slope(run, x, v, w, step) - backward) / scale for step in STEPS
        ]
        difference = float(np.nanmin([*errors, np.inf]))
        if not self.both:
            return None, difference
        return abs(_dot(w, slopes) - backward) / scale, difference

    def _slope(self, run: Run, x: Arrays, v: Arrays, w: Arrays, step: float) -> float:
        """The central difference of ⟨w, f⟩ along v."""
        ahead, behind = (
            self._floats(run([*self._moved(x, v, by), *v, *w])) for by in (step, -step)
        )
        return (_dot(w, ahead) - _dot(w, behind)) / (2 * step)

    def _moved(self, x: Arrays, v: Arrays, by: float) -> Arrays:
        moved = list(x)
        for i, direction in zip(self.wrt, v, strict=True):
            moved[i] = x[i] + by * direction
        return moved

    def _floats(self, found: Arrays) -> Arrays:
        pairs = zip(self.outputs, found, strict=False)
        return [y for kind, y in pairs if dtypes.is_float(kind.dtype)]


def _dot(x: Sequence[Any], y: Sequence[Any]) -> float:
    return float(sum(np.vdot(a, b) for a, b in zip(x, y, strict=True)))
