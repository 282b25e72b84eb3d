"""Random programs, the same for the same seed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy

from aotc.core import dtypes

from . import control_forms, forms, templates
from .forms import Form
from .programs import TRAINING, TRANSFORMS, Input, Program, names_in
from .scope import Bug, Refused, Scope

FORMS: tuple[tuple[float, Form], ...] = (
    (8, forms.unary), (8, forms.binary), (3, forms.whole), (1, forms.far),
    (5, forms.compared),
    (2, forms.clipped), (2, forms.converted), (8, forms.reduced), (2, forms.counted),
    (4, forms.running), (1, forms.log_sums), (8, forms.moved), (10, forms.sliced),
    (4, forms.taken), (6, forms.updated), (10, forms.joined), (9, forms.created),
    (1, forms.random_numbers), (6, forms.product), (2, forms.loss),
    (2, control_forms.branch), (3, control_forms.scan), (2, control_forms.mapped),
    (2, control_forms.loop), (1, control_forms.folded), (3, control_forms.ruled),
    (9, templates.any_template),
)  # fmt: skip
WEIGHTS = numpy.array([weight for weight, _ in FORMS], "f8")
INPUTS = ("float32",) * 12 + ("float64", "float16", "bfloat16", "int32", "int8", "bool")
SIZES = (1, 2, 3, 4, 5, 7)
RESULTS = 4


@dataclass(frozen=True)
class Choice:
    """Options of generating programs: a function to use, a dtype, a length.

    Args:
        only: a function that each of them uses.
        dtype: of all float inputs.
        longest: how many steps there may be, without those that a form adds.
    """

    only: str | None = None
    dtype: str | None = None
    longest: int = 6


def random_program(
    seed: int, choice: Choice | None = None
) -> tuple[Program, list[Bug]]:
    """Return a random forward program, and the bugs found while it was traced."""
    choice = choice or Choice()
    for attempt in range(100):
        rng = numpy.random.default_rng([seed, attempt])
        try:
            program, bugs = _drawn(rng, seed, choice)
        except Refused:
            continue
        return program, bugs
    raise Refused(f"no program of {choice} in 100 attempts")


def variants(program: Program) -> list[Program]:
    """Return the program under each transformation that applies to it."""
    if not has_derivatives(program):
        return [program]
    plain = [program.transformed(name) for name in TRANSFORMS]
    again = [program.transformed(name, True) for name in _WITH_CHECKPOINT]
    return [*plain, *again]


def training_steps(program: Program) -> list[Program]:
    """Return programs that train the program's float inputs by an optimizer."""
    if not has_derivatives(program):
        return []
    return [program.transformed(TRAINING, checkpoint) for checkpoint in (False, True)]


def has_derivatives(program: Program) -> bool:
    """Return whether a program can be differentiated."""
    return any(x.dtype in FLOAT_INPUTS for x in program.inputs)


_WITH_CHECKPOINT = ("grad", "grad of grad")
# as `Program.variant` calls them
VARIANTS = (
    *TRANSFORMS,
    *(f"{name} with checkpoint" for name in _WITH_CHECKPOINT),
    *(TRAINING, f"{TRAINING} with checkpoint"),
)


FLOAT_INPUTS = ("float32", "float64", "float16", "bfloat16")


def _drawn(
    rng: numpy.random.Generator, seed: int, choice: Choice
) -> tuple[Program, list[Bug]]:
    """Draw one program; raise `Refused` if a step cannot be made."""
    least = {name: int(rng.integers(0, 3)) for name in _symbols(rng)}
    sizes = {name: int(rng.choice([3, 4, 5])) for name in least}
    inputs = _inputs(rng, list(least), choice)
    scope = Scope(rng, inputs, sizes, least)
    with scope.tracing([example(x, sizes, seed + i) for i, x in enumerate(inputs)]):
        length = int(rng.integers(1, choice.longest + 1))
        forced = int(rng.integers(length)) if choice.only else -1
        for number in range(length):
            if number == forced:
                _force(scope, str(choice.only))
            _step(scope)
        results = _results(scope)
    calls = (sizes, *_other_sizes(rng, least))
    program = Program(seed, inputs, tuple(scope.steps), results, calls, least)
    return without_unused_inputs(without_dead_steps(program)), scope.bugs


def _symbols(rng: numpy.random.Generator) -> list[str]:
    """Draw the names of symbolic sizes."""
    return ["n", "m"][: int(rng.choice([0, 1, 2], p=[0.45, 0.4, 0.15]))]


def _inputs(
    rng: numpy.random.Generator, symbols: list[str], choice: Choice
) -> tuple[Input, ...]:
    """Draw one to three inputs, whose shapes often fit each other."""
    words: list[Any] = [*symbols, *rng.choice(SIZES, 2).tolist()]
    if rng.random() < 0.03:
        words.append(0)
    rank = int(rng.choice([1, 2, 3], p=[0.2, 0.6, 0.2]))
    shape = tuple(words[i] for i in rng.integers(len(words), size=rank))
    if symbols and not set(symbols) & set(shape):
        shape = (symbols[0], *shape[1:])
    inputs = []
    for number in range(int(rng.integers(1, 4))):
        dtype = str(rng.choice(INPUTS)) if number else str(rng.choice(INPUTS[:15]))
        if choice.dtype and dtype in FLOAT_INPUTS:
            dtype = choice.dtype
        own = shape if number == 0 or rng.random() < 0.6 else shape[-1:]
        inputs.append(Input(f"x{number}", own, dtype))
    missing = [n for n in symbols if not any(n in x.shape for x in inputs)]
    if missing:
        inputs.append(Input(f"x{len(inputs)}", (*missing, 2), "float32"))
    return tuple(inputs)


def _other_sizes(
    rng: numpy.random.Generator, least: dict[str, int]
) -> list[dict[str, int]]:
    """Draw the symbol values of calls: the least ones, 1, and others."""
    some = {name: int(rng.choice([2, 6, 7, 8])) for name in least}
    ones = {name: max(1, low) for name, low in least.items()}
    return [dict(least), ones, some] if least else []


def example(x: Input, sizes: dict[str, int], seed: int) -> Any:
    """Draw an input array: normal floats, small integers."""
    rng, shape = numpy.random.default_rng([seed, 1]), x.sized(sizes)
    dtype = dtypes.to_numpy(dtypes.canonical_dtype(x.dtype))
    if x.dtype == "bool":
        return rng.random(shape) < 0.5
    if x.dtype in FLOAT_INPUTS:
        return rng.standard_normal(shape).astype(dtype)
    return rng.integers(-3, 4, shape).astype(dtype)


def _step(scope: Scope) -> None:
    """Add one random step to the program, of a form that is not refused."""
    for _ in range(20):
        chosen = scope.rng.choice(len(FORMS), p=WEIGHTS / WEIGHTS.sum())
        mark = len(scope.steps), len(scope.values)
        try:
            FORMS[chosen][1](scope)
        except Refused:
            del scope.steps[mark[0] :], scope.values[mark[1] :]
        else:
            return


def _force(scope: Scope, function: str) -> None:
    """Add a step that calls the given function."""
    if function in templates.templates():
        templates.filled(scope, function)
        return
    for _ in range(400):
        before = len(scope.steps)
        _step(scope)
        if any(step.function == function for step in scope.steps[before:]):
            return
    raise Refused


def _results(scope: Scope) -> tuple[str, ...]:
    """Choose the program's results: unread values, and sometimes one more."""
    if not scope.steps:
        raise Refused
    read = set().union(*(step.read for step in scope.steps))
    made = [v for v in scope.values if v.source[0] == "v"]
    unread = [v for v in made if not names_in(v.source) & read]
    found = unread[-RESULTS:]
    if scope.chance(0.4):
        found.append(scope.one_of(made))
    return tuple(dict.fromkeys(v.source for v in found))


def without_dead_steps(program: Program) -> Program:
    """Return the program without steps that its results do not need."""
    needed, kept = names_in(" ".join(program.results)), []
    for step in reversed(program.steps):
        if step.name in needed:
            needed |= step.read
            kept.append(step)
    return replace(program, steps=tuple(reversed(kept)))


def without_unused_inputs(program: Program) -> Program:
    """Return the program without unread inputs and their symbols; one input stays."""
    read = names_in(" ".join(program.results))
    read = read.union(*(step.read for step in program.steps))
    inputs = tuple(x for x in program.inputs if x.name in read) or program.inputs[:1]
    symbols = {n for x in inputs for n in x.shape if isinstance(n, str)}
    sizes = [{k: v for k, v in each.items() if k in symbols} for each in program.sizes]
    least = {k: v for k, v in program.least.items() if k in symbols}
    distinct = tuple(each for i, each in enumerate(sizes) if each not in sizes[:i])
    return replace(program, inputs=inputs, sizes=distinct, least=least)
