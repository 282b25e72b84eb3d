"""Programs as the source of a model file, which is also how they are executed."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from textwrap import indent

from . import rules
from .programs import TRAINING, Program, Step, all_steps

HEADER = """\
import aotc
import numpy
import aotc.numpy as np
from aotc import control, fft, linalg, nn, optim, random, special
"""
RULES = {"with_vjp": rules.with_vjp, "with_jvp": rules.with_jvp}

# How each transformation is written. `f` takes the float inputs, FLOATS, and returns a
# tuple; the others it reads from around it. NUMBERS are their positions.
_LOSS = """\
def smooth(ys):
    return [y for y in ys if "f" in str(y.dtype)]
def loss(FLOATS):
    return sum(np.sum(np.sin(np.astype(y, "WIDE"))) for y in smooth(f(FLOATS)))
"""
_STACKED = "STACKED"
ENTRIES = {
    "forward": "return f(FLOATS)",
    "jvp": _LOSS + "return aotc.jvp(lambda *xs: smooth(f(*xs)), (FLOATS,), (COSINES,))",
    "grad": _LOSS + "return aotc.grad(loss, (NUMBERS,))(FLOATS)",
    "grad of grad": _LOSS
    + """\
def slope(FLOATS):
    grads = aotc.grad(loss, (NUMBERS,))(FLOATS)
    return sum(np.sum(np.sin(np.astype(y, "WIDE"))) for y in grads)
return aotc.grad(slope, (NUMBERS,))(FLOATS)""",
    "vmap": _LOSS + f"return aotc.vmap(lambda *xs: smooth(f(*xs)))({_STACKED})",
    "vmap of grad": _LOSS
    + f"return aotc.vmap(aotc.grad(loss, (NUMBERS,)))({_STACKED})",
    TRAINING: _LOSS
    + """\
params, optimizer = (FLOATS,), optim.adamw(0.01)
value, grads = aotc.value_and_grad(loss, (NUMBERS,))(FLOATS)
updates, moments = optimizer.update(grads, optimizer.init(params), params)
return value, optim.apply_updates(params, updates), moments""",
}
# Functions that make a function of one.
CURRIED = {*RULES, "aotc.checkpoint", "aotc.grad", "aotc.vmap"}
FLOATS = ("float16", "bfloat16", "float32", "float64")


def model_source(program: Program) -> str:
    """Return a model file's text with the program as its entry."""
    used = program.functions
    helpers = [inspect.getsource(RULES[name]) for name in RULES if name in used]
    specs = ", ".join(f"{x.name}={_spec(x.shape, x.dtype)}" for x in program.inputs)
    dims = [
        f'{name} = aotc.Dim("{name}", min={least})'
        for name, least in program.least.items()
    ]
    parts = [HEADER, *helpers, *dims, f"\n@aotc.entry({specs})"]
    return "\n".join(parts) + "\n" + function_source(program) + "\n"


def function_source(program: Program) -> str:
    """Return the source of the program's function, called `program`."""
    taken = [x.name for x in program.inputs if x.dtype in FLOATS]
    lines = [line for step in program.steps for line in step_lines(step)]
    returned = ", ".join(program.results)
    body = [f"def f({', '.join(taken)}):"]
    body += [indent(line, "    ") for line in [*lines, f"return ({returned},)"]]
    if program.checkpoint:
        body.append("f = aotc.checkpoint(f)")
    body.append(_entry_body(program, taken))
    signature = ", ".join(x.name for x in program.inputs)
    return f"def program({signature}):\n" + indent("\n".join(body), "    ")


def _entry_body(program: Program, taken: Sequence[str]) -> str:
    """Return the body of the entry that applies the program's transformation."""
    wide = any(x.dtype == "float64" for x in program.inputs)
    filled = ENTRIES[program.transform]
    for word, text in {
        "FLOATS": ", ".join(taken),
        "COSINES": ", ".join(f"np.cos({name})" for name in taken),
        "NUMBERS": ", ".join(map(str, range(len(taken)))) + ",",
        "STACKED": ", ".join(f"np.stack([{x}, {x} * 0.75])" for x in taken),
        "WIDE": "float64" if wide else "float32",
    }.items():
        filled = filled.replace(word, text)
    return filled.replace(",,", ",")


def step_lines(step: Step) -> Iterator[str]:
    """Yield the source lines of a step."""
    for block in step.blocks:
        yield f"def {block.name}({', '.join(block.parameters)}):"
        for inner in block.steps:
            for line in step_lines(inner):
                yield indent(line, "    ")
        yield f"    return {block.result}"
    yield f"{step.name} = {call_source(step.function, step.arguments)}"


def call_source(function: str, arguments: Sequence[str]) -> str:
    """Return the source of a call, such as `x[key]` for getitem."""
    if function == "getitem":
        return "{}[{}]".format(*arguments)
    if function.startswith("at."):
        x, key, *values = arguments
        return f"{x}.at[{key}].{function[3:]}({', '.join(values)})"
    if function in CURRIED:
        rule, *rest = arguments
        return f"{function}({rule})({', '.join(rest)})"
    return f"{function}({', '.join(arguments)})"


def _spec(shape: Sequence[int | str], dtype: str) -> str:
    """Return the source of a spec."""
    return f'aotc.Spec(({", ".join(map(str, shape))}{"," * bool(shape)}), "{dtype}")'


def step_count(program: Program) -> int:
    """Return the number of function calls in the program."""
    return sum(1 for _ in all_steps(program.steps))
