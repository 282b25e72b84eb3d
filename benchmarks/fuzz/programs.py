"""Programs as data: inputs, and a list of steps that each apply one function.

The arguments of a step are Python source, in which `x0`, `x1`, … are inputs and `v0`,
`v1`, … results of earlier steps. So a program can be printed as a model file, stored as
JSON, and taken apart step by step.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

_NAME = re.compile(r"\b[xvb]\d+\b")

# What is made of the function f that the steps define; see `source.ENTRIES`.
TRANSFORMS = ("forward", "jvp", "grad", "grad of grad", "vmap", "vmap of grad")
TRAINING = "training step"  # drawn where it is asked for


@dataclass(frozen=True)
class Input:
    """An input array of a program; named sizes are symbolic."""

    name: str
    shape: tuple[int | str, ...]
    dtype: str

    def sized(self, sizes: dict[str, int]) -> tuple[int, ...]:
        """Return the shape for these symbol values."""
        return tuple(sizes[n] if isinstance(n, str) else n for n in self.shape)


@dataclass(frozen=True)
class Block:
    """A nested function of a step, such as a loop body or a branch."""

    name: str
    parameters: tuple[str, ...]
    steps: tuple[Step, ...]
    result: str

    @property
    def read(self) -> set[str]:
        """Names that the block's source mentions."""
        found = names_in(self.result) | set(self.parameters)
        return found.union(*(step.read for step in self.steps))


@dataclass(frozen=True)
class Step:
    """One statement of a program: `name = function(*arguments)`, with nested blocks."""

    name: str
    function: str
    arguments: tuple[str, ...]
    blocks: tuple[Block, ...] = ()

    @property
    def read(self) -> set[str]:
        """Names that the step's source mentions, blocks included."""
        found = names_in(" ".join(self.arguments))
        return found.union(*(block.read for block in self.blocks))


@dataclass(frozen=True)
class Program:
    """A random program.

    Args:
        seed: it was made with.
        inputs: what it takes.
        steps: what it computes, in order.
        results: source of what it returns.
        sizes: values for the symbols, one set for each call.
        least: the least size of each symbol that its contract allows.
        transform: one of `TRANSFORMS`, or `TRAINING`.
        checkpoint: whether the function is computed again for its derivatives.
    """

    seed: int
    inputs: tuple[Input, ...]
    steps: tuple[Step, ...]
    results: tuple[str, ...]
    sizes: tuple[dict[str, int], ...] = ({},)
    least: dict[str, int] = field(default_factory=dict)
    transform: str = "forward"
    checkpoint: bool = False

    @property
    def functions(self) -> set[str]:
        """The library functions that the program calls."""
        return {step.function for step in all_steps(self.steps)}

    @property
    def variant(self) -> str:
        """The kind of transformation of the function."""
        return f"{self.transform}{' with checkpoint' if self.checkpoint else ''}"

    def transformed(self, transform: str, checkpoint: bool = False) -> Program:
        """Return the program under another transformation."""
        return replace(self, transform=transform, checkpoint=checkpoint)


def all_steps(steps: tuple[Step, ...]) -> Iterator[Step]:
    """Yield the steps and those of their blocks."""
    for step in steps:
        for block in step.blocks:
            yield from all_steps(block.steps)
        yield step


def names_in(source: str) -> set[str]:
    """Return the variable names that Python source mentions."""
    return set(_NAME.findall(source))


def renamed(source: str, old: str, new: str) -> str:
    """Return source with a name replaced by another expression."""
    return re.sub(rf"\b{old}\b", lambda _: new, source)


# ---- JSON: to_json(from_json(x)) == x -----------------------------------------------


def to_json(program: Program) -> dict[str, Any]:
    """Return the program as JSON for the file of failures."""
    return {
        "seed": program.seed,
        "transform": program.transform,
        "checkpoint": program.checkpoint,
        "inputs": {x.name: [x.dtype, *x.shape] for x in program.inputs},
        "least": program.least,
        "sizes": list(program.sizes),
        "steps": [_step_to_json(step) for step in program.steps],
        "results": list(program.results),
    }


def from_json(data: dict[str, Any]) -> Program:
    """Rebuild a program from `to_json`'s output."""
    inputs = [
        Input(name, tuple(shape), dtype)
        for name, (dtype, *shape) in data["inputs"].items()
    ]
    return Program(
        seed=data["seed"],
        inputs=tuple(inputs),
        steps=tuple(map(_step_from_json, data["steps"])),
        results=tuple(data["results"]),
        sizes=tuple(data["sizes"]),
        least=data["least"],
        transform=data["transform"],
        checkpoint=data["checkpoint"],
    )


def _step_to_json(step: Step) -> dict[str, Any]:
    """Return a step as JSON."""
    found: dict[str, Any] = {
        "name": step.name,
        "function": step.function,
        "arguments": list(step.arguments),
    }
    if step.blocks:
        found["blocks"] = [
            {
                "name": block.name,
                "parameters": list(block.parameters),
                "steps": [_step_to_json(inner) for inner in block.steps],
                "result": block.result,
            }
            for block in step.blocks
        ]
    return found


def _step_from_json(data: dict[str, Any]) -> Step:
    """Rebuild a step from JSON."""
    blocks = [
        Block(
            block["name"],
            tuple(block["parameters"]),
            tuple(map(_step_from_json, block["steps"])),
            block["result"],
        )
        for block in data.get("blocks", ())
    ]
    return Step(data["name"], data["function"], tuple(data["arguments"]), tuple(blocks))
