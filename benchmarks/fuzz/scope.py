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
    """Raised for a random step that cannot be taken."""


@dataclass(frozen=True)
class Value:
    """A value in a random program: its source, symbolic type, and an example."""

    source: str
    kind: Tensor
    data: Any

    @property
    def dtype(self) -> str:
        """The dtype of the value's elements."""
        return self.kind.dtype

    @property
    def rank(self) -> int:
        """The number of axes."""
        return self.kind.rank

    @property
    def is_float(self) -> bool:
        """Return whether the value is of floats."""
        return dtypes.is_float(self.dtype)

    @property
    def is_static(self) -> bool:
        """Return whether all sizes are known at trace time."""
        return all(isinstance(n, int) for n in self.kind.shape)


@dataclass(frozen=True)
class Bug:
    """An unexpected exception, or a difference between traced and eager results, of one
    step.
    """

    code: str
    message: str


@dataclass
class Scope:
    """A random program under construction, traced and executed step by step.

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
        """Open a trace in this context in which steps are tried on example arrays."""
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
        """Draw a value that suits; later ones are likelier."""
        found = [value for value in self.values if suits(value)]
        if not found:
            raise Refused
        weights = numpy.ones(len(found))
        weights[-3:] = 2
        return found[self.rng.choice(len(found), p=weights / weights.sum())]

    def one_of(self, options: Any) -> Any:
        """Draw one of several options, all equally likely."""
        return options[int(self.rng.integers(len(options)))]

    def chance(self, probability: float) -> bool:
        """Draw true with a probability."""
        return bool(self.rng.random() < probability)

    # ---- steps ----------------------------------------------------------------------

    def emit(self, function: str, *arguments: Any, blocks: Any = ()) -> Value:
        """Add a step that calls a function; return its first result.

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
        """Return an unused variable name."""
        self.count += 1
        return f"{letter}{self.count}"

    def _tried(self, step: Step) -> list[Value]:
        """Trace and execute a step; return its results, raise `Refused` if they are
        unfit.
        """
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
        """Execute source; record unexpected exceptions as bugs and raise `Refused`."""
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
        """Record a bug, with the types of what the step reads."""
        known = {value.source: value.kind for value in self.values}
        types = ", ".join(
            f"{name}: {known[name]}" for name in sorted(names_in(code) & set(known))
        )
        self.bugs.append(Bug(f"{code}    # {types}", message))

    def _require_tame(self, value: Value, code: str) -> None:
        """Raise `Refused` for results that are too large or differ between trace and
        eager.
        """
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
        """Return the value, or one computed from it, with elements in [low, high]."""
        data = value.data.astype("f8")
        if data.min(initial=low) >= low and data.max(initial=high) <= high:
            return value
        half, middle = (high - low) / 2, (high + low) / 2
        waves = self.emit("np.sin", value)
        return self.emit("np.add", self.emit("np.multiply", waves, half), middle)

    # ---- blocks ---------------------------------------------------------------------

    @contextmanager
    def body(self, examples: list[str], captures: bool) -> Iterator[list[Value]]:
        """Begin a nested function of values like `examples`; steps go into it in this
        context.
        """
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
        """Return the nested function whose steps were emitted."""
        names = tuple(value.source for value in parameters)
        return Block(self.fresh("b"), names, tuple(self.steps), result)


def _part_source(name: str, result: Any, number: int) -> str:
    """Return the source that reads one array of a nested result."""
    if isinstance(result, Array):
        return name
    if isinstance(result, Complex):
        return f"{name}.{Complex._fields[number]}"
    return f"{name}[{number}]"


def _arrays(result: Any) -> list[Array]:
    """Return the arrays of a result, which may be nested once."""
    if isinstance(result, Array):
        return [result]
    parts = list(result) if isinstance(result, (tuple, list)) else []
    if parts and all(isinstance(part, Array) for part in parts):
        return parts
    raise Refused
