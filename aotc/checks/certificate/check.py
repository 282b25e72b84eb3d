"""The tests of a derivative: dot products, differences, and with checkpoints or not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from aotc import reference
from aotc.checks.certificate.modules import Modes
from aotc.core import dtypes
from aotc.dialects.functions.entries import Entry
from aotc.dialects.functions.functions import (
    SYMBOLS,
    call,
    functions_of,
    signature,
)
from aotc.dialects.functions.transform import Jvp, Vjp, derive, floats
from aotc.dialects.sizes.contracts import Contract
from aotc.dialects.types import SymbolicDim, Tensor, evaluate_size
from aotc.mlir import Module, Value, func, ir

DIFFERENCE = 1e-5  # at most, of the directional test
_POINTS = 3  # at most, where that fails
STEPS = (1e-3, 1e-4, 1e-5, 1e-6, 1e-7)  # the best counts: kinks and digits differ
ROUNDING = 1e-6  # a slope this much smaller than the values is none
TINY = 1e-300

Arrays = list[np.ndarray]
Run = Callable[[Arrays], Arrays]


@dataclass(frozen=True)
class Evaluated:
    """A function and its derivatives at a point.

    Args:
        x: the arguments.
        v: the direction of the arguments that are moved.
        w: the direction of the results.
        values: the float results; in reverse mode, those that forward rules of the
            user's give.
        gradients: the cotangents of the moved arguments, if there is reverse mode.
        slopes: the tangents of the results, if there is forward mode.
    """

    x: Arrays
    v: Arrays
    w: Arrays
    values: Arrays
    gradients: Arrays
    slopes: Arrays

    @property
    def is_finite(self) -> bool:
        """Return whether the results of the function are finite."""
        return _are_finite(self.values)


@dataclass(frozen=True)
class DerivativeCheck:
    """A function that computes another one in f64, with its JVP and VJP.

    It returns the results of the function that it checks, the cotangents of the
    arguments in `wrt` if there is reverse mode, and the tangents of the results if
    there is forward mode. Between arguments and tangents it takes arrays whose sizes
    say what the symbols are, which the arguments of an inner function may not do.

    Args:
        name: of the function.
        of: the function that it checks.
        inputs: the types of the arguments.
        outputs: of the results.
        wrt: the arguments that are moved.
        modes: of the two, those that it has.
        symbols: the values of the symbols.
    """

    name: str
    of: str
    inputs: list[Tensor]
    outputs: list[Tensor]
    wrt: tuple[int, ...]
    modes: Modes
    symbols: list[int]

    @staticmethod
    def declare(
        module: Module,
        name: str,
        of: str,
        wrt: tuple[int, ...],
        modes: Modes,
        symbols: list[int],
    ) -> DerivativeCheck:
        """Add a function that computes `of` and its derivatives; return its check.

        Args:
            module: gets the function `name`.
            name: of the new function.
            of: the name of the function to differentiate.
            wrt: numbers of the arguments to differentiate by.
            modes: whether forward, in reverse, or both.
            symbols: the values of the entry's size symbols, in order.
        """
        primal = functions_of(module)[of]
        check = DerivativeCheck(name, of, *signature(primal), wrt, modes, symbols)
        types = [tensor.to_mlir() for tensor in check.argument_types]
        with ir.InsertionPoint(primal), primal.location:
            function = func.FuncOp(name, (types, []))
        if SYMBOLS in primal.attributes:
            function.attributes[SYMBOLS] = primal.attributes[SYMBOLS]
        values = list(function.add_entry_block().arguments)
        with ir.InsertionPoint(function.entry_block), primal.location:
            results = check._derivatives(values)
            func.ReturnOp(results)
        function_type = ir.FunctionType.get(types, [y.type for y in results])
        function.attributes["function_type"] = ir.TypeAttr.get(function_type)
        return check

    def _derivatives(self, values: list[Value]) -> list[Value]:
        """Write calls of the VJP and JVP at the insertion point; return their
        results.
        """
        x, rest = values[: len(self.inputs)], values[len(self.inputs) :]
        moves = rest[len(self.symbols) :]
        v, w = moves[: len(self.wrt)], moves[len(self.wrt) :]
        results: list[Value] = []
        if self.modes.reverse:
            results = call(derive(Vjp(self.of, self.wrt)), [*x, *w])
        if self.modes.forward:
            found = call(derive(Jvp(self.of, self.wrt)), [*x, *v])
            results += found[len(self.outputs) :] if results else found
        return results

    @property
    def argument_types(self) -> list[Tensor]:
        """Return the types of the function's arguments."""
        rulers = [
            Tensor((SymbolicDim.symbol(number),), "i32")
            for number in range(len(self.symbols))
        ]
        return [
            *self.inputs,
            *rulers,
            *self._differentiated_types,
            *floats(self.outputs),
        ]

    @property
    def result_types(self) -> list[Tensor]:
        """Return the types of the function's results."""
        gradients = self._differentiated_types if self.modes.reverse else []
        slopes = floats(self.outputs) if self.modes.forward else []
        return [*self.outputs, *gradients, *slopes]

    @property
    def _differentiated_types(self) -> list[Tensor]:
        """The types of the arguments that are differentiated."""
        return [self.inputs[i] for i in self.wrt]

    def entry(self) -> Entry:
        """Return the function as an `Entry`, as the backend exports it."""
        symbols = tuple(Contract(f"s{i}") for i in range(len(self.symbols)))
        return Entry.flat(self.name, self.argument_types, self.result_types, symbols)

    def directions(self, rng: np.random.Generator) -> tuple[Arrays, Arrays]:
        """Draw random tangents of the differentiated arguments and cotangents of
        results.
        """
        v, w = (
            [
                rng.standard_normal([evaluate_size(n, self.symbols) for n in t.shape])
                for t in each
            ]
            for each in (self._differentiated_types, floats(self.outputs))
        )
        return v, w

    def evaluate(self, run: Run, x: Arrays, rng: np.random.Generator) -> Evaluated:
        """Evaluate the function and its derivatives at a point, in random directions.

        Args:
            run: computes the function.
            x: the arguments.
            rng: of the directions.
        """
        v, w = self.directions(rng)
        return Evaluated(x, v, w, *self._parts(run(self._arguments(x, v, w))))

    def is_defined_at(self, graph: Module, x: Arrays) -> bool:
        """Return whether the function itself has finite results at a point.

        Args:
            graph: the module that it is in, which the reference evaluator runs.
            x: the arguments.
        """
        with graph.context, np.errstate(all="ignore"):
            evaluation = reference.Evaluation(functions_of(graph), self.symbols)
            return _are_finite(evaluation.call(self.of, x))

    def measure(
        self, run: Run, found: Evaluated, rng: np.random.Generator
    ) -> tuple[float | None, float]:
        """Measure the relative errors of the dot-product and finite-difference tests.

        A kink that is nearer than the smallest step, such as a tie in a maximum, fails
        the directional test at its point; a wrong rule fails it around, too.

        Args:
            run: computes the function.
            found: by `evaluate`, at the first point.
            rng: of other points, and of their directions.

        Returns:
            The largest figure of the dot-product test, None without both modes; and
            the least of the directional test.
        """
        products, differences = [], []
        for number in range(_POINTS):
            if number:
                found = self.evaluate(run, self._nearby_point(found.x, rng), rng)
            product, difference = self._measure_at(run, found)
            products.append(product)
            differences.append(difference)
            if difference <= DIFFERENCE:
                break
        known = [each for each in products if each is not None]
        return max(known, default=None), min(differences)

    def _nearby_point(self, x: Arrays, rng: np.random.Generator) -> Arrays:
        """Return arguments near `x`, each with the same sign."""
        moved = list(x)
        for i in self.wrt:
            moved[i] = x[i] * (1 + 1e-2 * rng.standard_normal(np.shape(x[i])))
        return moved

    def _measure_at(self, run: Run, at: Evaluated) -> tuple[float | None, float]:
        """Return the relative errors of the dot-product test (None without both modes)
        and the finite-difference test at one point.
        """
        products = [_dot(at.gradients, at.v)] if self.modes.reverse else []
        products += [_dot(at.w, at.slopes)] if self.modes.forward else []
        slope, size = products[0], _norm(at.gradients or at.slopes)
        scale = abs(slope) + size + ROUNDING * abs(_dot(at.w, at.values)) + TINY
        errors = [
            abs(self._slope(run, at.x, at.v, at.w, step) - slope) / scale
            for step in STEPS
        ]
        difference = float(np.nanmin([*errors, np.inf]))
        if len(products) < 2:
            return None, difference
        return abs(products[1] - slope) / scale, difference

    def compare(
        self,
        run: Run,
        other: DerivativeCheck,
        run_other: Run,
        x: Arrays,
        rng: np.random.Generator,
    ) -> float:
        """Return the relative distance of the gradients from those of another check.

        Args:
            run: computes the function.
            other: of a function of the same meaning.
            run_other: computes that one.
            x: the arguments.
            rng: of the directions.
        """
        given = self._arguments(x, *self.directions(rng))
        _, here, _ = self._parts(run(given))
        _, there, _ = other._parts(run_other(given))
        difference = [a - b for a, b in zip(here, there, strict=True)]
        return _norm(difference) / (_norm(there) + TINY)

    def _arguments(self, x: Arrays, v: Arrays, w: Arrays) -> Arrays:
        """Return the function's arguments: x, arrays of the symbols' sizes, v, w."""
        rulers = [np.zeros(size, np.int32) for size in self.symbols]
        return [*x, *rulers, *v, *w]

    def _slope(self, run: Run, x: Arrays, v: Arrays, w: Arrays, step: float) -> float:
        """Return the central difference of ⟨w, f⟩ along v."""
        ahead, behind = (
            self._parts(run(self._arguments(self._point_along(x, v, by), v, w)))[0]
            for by in (step, -step)
        )
        return (_dot(w, ahead) - _dot(w, behind)) / (2 * step)

    def _point_along(self, x: Arrays, v: Arrays, by: float) -> Arrays:
        """Return `x` with `by * v` added to its differentiated arguments."""
        moved = list(x)
        for i, direction in zip(self.wrt, v, strict=True):
            moved[i] = x[i] + by * direction
        return moved

    def _parts(self, results: Arrays) -> tuple[Arrays, Arrays, Arrays]:
        """Split the function's results into float results, gradients and tangents."""
        count = len(self.outputs)
        end = count + (len(self.wrt) if self.modes.reverse else 0)
        values = [
            y
            for kind, y in zip(self.outputs, results, strict=False)
            if dtypes.is_float(kind.dtype)
        ]
        return values, results[count:end], results[end:]


def _dot(x: Sequence[np.ndarray], y: Sequence[np.ndarray]) -> float:
    """Return the sum of the dot products of paired arrays."""
    return float(sum(np.vdot(a, b) for a, b in zip(x, y, strict=True)))


def _norm(x: Sequence[np.ndarray]) -> float:
    """Return the Euclidean norm of all arrays together."""
    return float(_dot(x, x) ** 0.5)


def _are_finite(arrays: Arrays) -> bool:
    return all(bool(np.isfinite(each).all()) for each in arrays)
