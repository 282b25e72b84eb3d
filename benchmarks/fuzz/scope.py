"""The values that a program under construction has, and how a step is tried.

Each step is executed twice: traced, which says whether it is allowed and what symbolic
type it has, and at once on random arrays of the first sizes, which says what its values
are. Steps that aotc refuses, or that leave tame numbers, are not taken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy

from aotc.complexes import Complex
from aotc.core import dtypes
from aotc.dialects import context
from aotc.dialects.sizes.contracts import Contract
from aotc.dialects.types import SymbolicDim, Tensor, evaluate_size
from aotc.errors import AotcError
from aotc.mlir import ir
from aotc.tracing.array import Array
from aotc.tracing.scopes import without_tracing
from aotc.tracing.tracing import Trace

from .executing import OURS
from .programs import Block, Input, Step, names_in
from .source import step_lines

LARGEST = 4096  # elements of a value
LIMIT = {"f16": 100.0, "bf16": 100.0}  # of floats; 1e4 for the others


class Refused(Exception):
    """A step that cannot be taken."""


@dataclass(frozen=True)
class Value:
    """A value that steps can read: its source, symbolic type and an example."""

    source: str
    kind: Tensor
    data: Any

    @property
    def dtype(self) -> str:
        """The dtype of its elements."""
        return self.kind.dtype

    @property
    def rank(self) -> int:
        """The number of axes."""
        return self.kind.rank

    @property
    def is_float(self) -> bool:
        """Return whether it has derivatives."""
        return dtypes.is_float(self.dtype)

    @property
    def is_static(self) -> bool:
        """Return whether its sizes are known when the program is traced."""
        return all(isinstance(n, int) for n in self.kind.shape)


@dataclass(frozen=True)
class Bug:
    """An exception that is no `AotcError`, or two meanings of one step."""

    code: str
    message: str


@dataclass
class Scope:
    """A program under construction.

    Args:
        rng: of all that is drawn.
        inputs: of the program.
        sizes: of the symbols, in the example.
        least: the least size of each symbol.
    """

    rng: numpy.random.Generator
    inputs: tuple[Input, ...]
    sizes: dict[str, int]
    least: dict[str, int]
    values: list[Value] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    bugs: list[Bug] = field(default_factory=list)
    count: int = 0

    @contextmanager
    def tracing(self, arrays: list[Any]) -> Iterator[None]:
        """Allow steps to be tried within this block."""
        with context(), ir.Location.unknown():
            module = ir.Module.create()
        contracts = [Contract(name, self.least[name]) for name in self.sizes]
        with context():
            symbols = {name: SymbolicDim.symbol(i) for i, name in enumerate(self.sizes)}
            types = [
                Tensor(
                    tuple(symbols.get(n, n) for n in x.shape),
                    dtypes.canonical_dtype(x.dtype),
                )
                for x in self.inputs
            ]
            self.trace = Trace(module, "program", types, contracts)
        self.traced, self.concrete = dict(OURS), dict(OURS)
        with self.trace.active():
            for x, array, data in zip(
                self.inputs, self.trace.arguments, arrays, strict=True
            ):
                self.traced[x.name], self.concrete[x.name] = array, Array(data=data)
                self.values.append(Value(x.name, array.type, data))
            yield

    # ---- choices --------------------------------------------------------------------

    def pick(self, suits: Callable[[Value], bool] = lambda value: True) -> Value:
        """Return a value; those that were made last are likelier."""
        found = [value for value in self.values if suits(value)]
        if not found:
            raise Refused
        weights = numpy.ones(len(found))
        weights[-3:] = 2
        return found[self.rng.choice(len(found), p=weights / weights.sum())]

    def one_of(self, options: Any) -> Any:
        """One of several, each as likely."""
        return options[int(self.rng.integers(len(options)))]

    def chance(self, probability: float) -> bool:
        """Return whether something of this probability happens."""
        return bool(self.rng.random() < probability)

    # ---- steps ----------------------------------------------------------------------

    def emit(self, function: str, *arguments: Any, blocks: Any = ()) -> Value:
        """Apply a function; the first of its results.

        Args:
            function: its name, such as `np.sin`.
            arguments: source of each, or a `Value`.
            blocks: functions that the arguments name.

        Raises:
            Refused: the step cannot be taken.
        """
        sources = tuple(a.source if isinstance(a, Value) else str(a) for a in arguments)
        step = Step(self.fresh("v"), function, sources, tuple(blocks))
        found = self._tried(step)
        self.steps.append(step)
        self.values += found
        return found[0]

    def fresh(self, letter: str) -> str:
        """Return a name that nothing has."""
        self.count += 1
        return f"{letter}{self.count}"

    def _tried(self, step: Step) -> list[Value]:
        code = "\n".join(step_lines(step))
        self._execute(code, self.traced)
        with without_tracing(), numpy.errstate(all="ignore"):
            self._execute(code, self.concrete)
        traced, concrete = (
            _arrays(namespace[step.name]) for namespace in (self.traced, self.concrete)
        )
        if len(traced) != len(concrete):
            self._record(code, f"{len(traced)} results traced, {len(concrete)} at once")
            raise Refused
        found = []
        for number, (kind, data) in enumerate(zip(traced, concrete, strict=True)):
            source = _part_source(step.name, self.traced[step.name], number)
            value = Value(source, kind.type, numpy.asarray(data._data))
            self._require_tame(value, code)
            found.append(value)
        return found

    def _execute(self, code: str, namespace: dict[str, Any]) -> None:
        try:
            exec(compile(code, "<step>", "exec"), namespace)
        except AotcError:
            raise Refused from None
        except Refused:
            raise
        except Exception as error:
            self._record(code, f"{type(error).__name__}: {error}")
            raise Refused from None

    def _record(self, code: str, message: str) -> None:
        """Keep what went wrong, with the types of what the step reads."""
        known = {value.source: value.kind for value in self.values}
        types = ", ".join(
            f"{name}: {known[name]}" for name in sorted(names_in(code) & set(known))
        )
        self.bugs.append(Bug(f"{code}    # {types}", message))

    def _require_tame(self, value: Value, code: str) -> None:
        symbols = list(self.sizes.values())
        shape = tuple(evaluate_size(n, symbols) for n in value.kind.shape)
        if (shape, value.dtype) != (
            value.data.shape,
            dtypes.canonical_dtype(value.data.dtype),
        ):
            got = f"{value.data.dtype}{list(value.data.shape)}"
            self._record(code, f"is {value.kind} traced, {got} at once")
            raise Refused
        if value.data.size > LARGEST:
            raise Refused
        if value.is_float:
            size = abs(value.data.astype("f8")).max(initial=0)
            if not size <= LIMIT.get(value.dtype, 1e4):
                raise Refused

    def within(self, value: Value, low: float, high: float) -> Value:
        """Return the value, or one made of it, with elements from `low` to `high`."""
        data = value.data.astype("f8")
        if data.min(initial=low) >= low and data.max(initial=high) <= high:
            return value
        half, middle = (high - low) / 2, (high + low) / 2
        waves = self.emit("np.sin", value)
        return self.emit("np.add", self.emit("np.multiply", waves, half), middle)

    # ---- blocks ---------------------------------------------------------------------

    @contextmanager
    def body(self, examples: list[str], captures: bool) -> Iterator[list[Value]]:
        """Add steps to a function of values like `examples` within this block."""
        outer_steps, outer_values = self.steps, self.values
        names = [self.fresh("v") for _ in examples]
        parameters = []
        for name, example in zip(names, examples, strict=True):
            code = f"{name} = {example}"
            self._execute(code, self.traced)
            with without_tracing():
                self._execute(code, self.concrete)
            array = self.traced[name]
            data = numpy.asarray(self.concrete[name]._data)
            parameters.append(Value(name, array.type, data))
        self.steps = []
        self.values = [*outer_values, *parameters] if captures else list(parameters)
        try:
            yield parameters
        finally:
            self.steps, self.values = outer_steps, outer_values

    def block(self, parameters: list[Value], result: str) -> Block:
        """Return the function whose steps were emitted."""
        names = tuple(value.source for value in parameters)
        return Block(self.fresh("b"), names, tuple(self.steps), result)


def _part_source(name: str, result: Any, number: int) -> str:
    """Return the source with which a program writes an array of a result."""
    if isinstance(result, Array):
        return name
    if isinstance(result, Complex):
        return f"{name}.{Complex._fields[number]}"
    return f"{name}[{number}]"


def _arrays(result: Any) -> list[Array]:
    """Return the arrays of a result, which may be nested once at most."""
    if isinstance(result, Array):
        return [result]
    parts = list(result) if isinstance(result, (tuple, list)) else []
    if parts and all(isinstance(part, Array) for part in parts):
        return parts
    raise Refused
