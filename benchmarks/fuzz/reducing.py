"""Failing programs made small: what is not needed for the failure is left out.

Greedy delta debugging (Zeller and Hildebrandt, "Simplifying and isolating
failure-inducing input", 2002) over the parts of a program: transformation, results,
steps, inputs, sizes. Candidates are compiled several at a time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import islice

from .failures import Failure
from .generation import without_dead_steps, without_unused_inputs
from .programs import Block, Input, Program, Step, renamed
from .source import model_source, step_count

TOGETHER = 6  # candidates that are compiled at once

Failing = Callable[[Sequence[Program]], dict[int, Failure]]
Found = tuple[Program, Failure]


def reduced(
    program: Program, failure: Failure, failing: Failing, seconds: float
) -> Found:
    """Shrink a failing program while it still fails in the same way; return it.

    Args:
        program: that fails.
        failure: how it does.
        failing: gives the failures of programs, by their numbers.
        seconds: how long to look for smaller ones.
    """
    end = time.monotonic() + seconds
    smallest: Found = (program, failure)
    while time.monotonic() < end:
        found = _smaller(*smallest, failing, end)
        if found is None:
            break
        smallest = found
    return smallest


def _smaller(
    program: Program, failure: Failure, failing: Failing, end: float
) -> Found | None:
    """Return the first smaller program that fails in the same way; None if none
    does.
    """
    tried = _distinct(program)
    while batch := list(islice(tried, TOGETHER)):
        failures = failing(batch)
        for number, candidate in enumerate(batch):
            other = failures.get(number)
            if other is not None and other.cause == failure.cause:
                return candidate, other
        if time.monotonic() > end:
            return None
    return None


def _distinct(program: Program) -> Iterator[Program]:
    """Yield distinct candidates of lower cost."""
    seen = {model_source(program)}
    for found in candidates(program):
        candidate = without_unused_inputs(without_dead_steps(found))
        text = model_source(candidate) + str(candidate.sizes)
        if text not in seen and cost(candidate) < cost(program):
            seen.add(text)
            yield candidate


def cost(program: Program) -> tuple[int, ...]:
    """Return the costs that reduction lowers, the most important first."""
    plain = int(program.transform != "forward") + int(program.checkpoint)
    elements = sum(max(n if isinstance(n, int) else 9 for n in (*x.shape, 1)) for x in
                   program.inputs)  # fmt: skip
    odd = sum(x.dtype != "float32" for x in program.inputs)
    text = len(model_source(program))
    return (
        plain + step_count(program) + len(program.results) + len(program.sizes),
        len(program.least), len(program.inputs), odd, elements, text,
    )  # fmt: skip


# ---- candidates ---------------------------------------------------------------------


def candidates(program: Program) -> Iterator[Program]:
    """Yield programs with one thing removed; the largest cuts first."""
    if program.checkpoint:
        yield replace(program, checkpoint=False)
    for transform in ("forward", "grad"):
        yield replace(program, transform=transform)
    if len(program.sizes) > 1:
        for sizes in program.sizes:
            yield replace(program, sizes=(sizes,))
    for result in program.results:
        yield replace(program, results=(result,))
    for step in program.steps:
        yield replace(program, results=(step.name,))
    for result in program.results if len(program.results) > 1 else ():
        rest = tuple(r for r in program.results if r != result)
        yield replace(program, results=rest)
    for number in reversed(range(len(program.steps))):
        yield from _without_step(program, number)
    yield from _with_smaller_blocks(program)
    yield from _with_plain_sizes(program)


def _without_step(program: Program, number: int) -> Iterator[Program]:
    """Yield programs where a step's result is replaced by a value it reads."""
    step, later = program.steps[number], program.steps[number + 1 :]
    earlier = {x.name for x in program.inputs} | {
        s.name for s in program.steps[:number]
    }
    for other in sorted(step.read & earlier):
        yield replace(
            program,
            steps=program.steps[:number] + _all_renamed(later, step.name, other),
            results=tuple(renamed(r, step.name, other) for r in program.results),
        )


def _all_renamed(steps: Sequence[Step], old: str, new: str) -> tuple[Step, ...]:
    """Return steps with a name replaced by another."""
    return tuple(
        replace(
            step,
            arguments=tuple(renamed(a, old, new) for a in step.arguments),
            blocks=tuple(
                replace(
                    block,
                    steps=_all_renamed(block.steps, old, new),
                    result=renamed(block.result, old, new),
                )
                for block in step.blocks
            ),
        )
        for step in steps
    )


def _with_smaller_blocks(program: Program) -> Iterator[Program]:
    """Yield programs with one smaller nested block."""
    for number, step in enumerate(program.steps):
        for place, block in enumerate(step.blocks):
            for smaller in _smaller_blocks(block):
                blocks = (*step.blocks[:place], smaller, *step.blocks[place + 1 :])
                changed = replace(step, blocks=blocks)
                steps = program.steps
                yield replace(
                    program, steps=(*steps[:number], changed, *steps[number + 1 :])
                )


def _smaller_blocks(block: Block) -> Iterator[Block]:
    """Yield blocks with one step removed."""
    for number, step in enumerate(block.steps):
        for other in sorted(step.read):
            later = _all_renamed(block.steps[number + 1 :], step.name, other)
            result = renamed(block.result, step.name, other)
            yield replace(block, steps=block.steps[:number] + later, result=result)


def _with_plain_sizes(program: Program) -> Iterator[Program]:
    """Yield programs with numbers for symbols, smaller sizes, or f32 for other
    dtypes.
    """
    if len(program.sizes) == 1 and program.least:
        for name in program.least:
            (sizes,) = program.sizes
            yield _sized(program, name, sizes[name])
    numbers = sorted({n for x in program.inputs for n in x.shape if isinstance(n, int)})
    for number in reversed(numbers):
        for less in range(1, min(number, 4)):
            yield _sized(program, number, less)
    for number, x in enumerate(program.inputs):
        if x.dtype != "float32":
            inputs = list(program.inputs)
            inputs[number] = replace(x, dtype="float32")
            yield replace(program, inputs=tuple(inputs))
    for number, sizes in enumerate(program.sizes):
        for name, size in sizes.items():
            for less in range(max(program.least[name], 1), min(size, 4)):
                changed = list(program.sizes)
                changed[number] = {**sizes, name: less}
                yield replace(program, sizes=tuple(changed))


def _sized(program: Program, old: int | str, new: int) -> Program:
    """Return a program with one size replaced in all inputs."""

    def shape(x: Input) -> tuple[int | str, ...]:
        return tuple(new if n == old else n for n in x.shape)

    inputs = tuple(replace(x, shape=shape(x)) for x in program.inputs)
    sizes = [{k: v for k, v in each.items() if k != old} for each in program.sizes]
    least = {k: v for k, v in program.least.items() if k != old}
    return replace(program, inputs=inputs, sizes=tuple(sizes), least=least)
