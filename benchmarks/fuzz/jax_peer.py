"""Programs in JAX: the same source with JAX's functions behind the names.

Both sides compute in f64, so that what remains is a difference in meaning.
"""

from __future__ import annotations

import os
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, Literal

import numpy

from aotc import reference
from aotc.passes import run_passes
from aotc.tracing.assembly import trace

from . import rules
from .executing import entry_of, execute
from .failures import Failure
from .generation import example
from .judging import judge, rounding_of
from .programs import Program, Step

# Functions that JAX has under the same name with another meaning.
NOT_ALIKE = {
    "np.bitcast", "np.round", "np.around", "np.empty", "np.empty_like", "np.resize",
    "nn.dropout", "np.unique", "np.cumlogsumexp",
}  # fmt: skip


def jax_library() -> dict[str, Any] | None:
    """Return JAX's functions by the names that programs use; None if missing."""
    # Small programs that run once are not worth optimizing; XLA reads this late.
    os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")
    try:
        import jax
        import jax.numpy as jnp
        import jax.scipy.special
    except ModuleNotFoundError:
        return None
    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_default_matmul_precision", "highest")
    names = ("grad", "jvp", "vjp", "vmap", "checkpoint", "custom_vjp", "custom_jvp")
    ours = SimpleNamespace(**{name: getattr(jax, name) for name in names})
    found = {
        "__name__": "program", "aotc": ours, "numpy": numpy, "np": jnp,
        "control": jax.lax, "fft": SimpleNamespace(), "linalg": jnp.linalg,
        "nn": jax.nn, "random": SimpleNamespace(), "special": jax.scipy.special,
    }  # fmt: skip
    return found | {
        name: _with_globals(getattr(rules, name), {"aotc": ours})
        for name in ("with_vjp", "with_jvp")
    }


def _with_globals(function: Any, names: dict[str, Any]) -> Any:
    """Return a copy of a function with other global names."""
    return type(function)(function.__code__, {**function.__globals__, **names})


def compare_with_jax(
    program: Program, library: Any
) -> Failure | Literal["agrees"] | None:
    """Compare a program with JAX: a failure, "agrees", or None if JAX lacks a
    function.
    """
    if program.functions & NOT_ALIKE or _is_narrow(program):
        return None
    wide = widened(program)
    for sizes in wide.sizes:
        arrays = examples(wide, sizes)
        theirs = _run(wide, library, arrays)
        if theirs is None:
            return None
        module = trace([entry_of(wide, "program")], {}).module
        run_passes(module, ["autodiff"])
        ours = reference.evaluate(module, "program", arrays)
        if [y.shape for y in ours] != [y.shape for y in theirs]:
            return Failure("jax", f"shapes {[y.shape for y in ours]} for {sizes}")
        moved = rounding_of(module, "program", arrays, ours)
        theirs = [y.astype(x.dtype) for x, y in zip(ours, theirs, strict=True)]
        judgement = judge(ours, theirs, moved)
        if judgement.wrong:
            return Failure("jax", f"with sizes {sizes}, {judgement.wrong} by JAX")
    return "agrees"


def examples(program: Program, sizes: dict[str, int]) -> list[Any]:
    """Draw the inputs of a program; the same each time."""
    return [example(x, sizes, program.seed + i) for i, x in enumerate(program.inputs)]


def _run(program: Program, library: Any, arrays: list[Any]) -> list[Any] | None:
    """Run a program by JAX; None if JAX cannot."""
    import jax

    try:
        found = jax.jit(execute(program, library))(*arrays)
    except Exception:  # whatever JAX has not, or has otherwise
        return None
    return [numpy.asarray(x) for x in jax.tree.leaves(found)]


def _is_narrow(program: Program) -> bool:
    """Return whether a program uses half precision."""
    return "float16" in str(program)  # bfloat16 too


def widened(program: Program) -> Program:
    """Return the program with f64 in place of f32."""
    inputs = [
        replace(x, dtype="float64") if x.dtype == "float32" else x
        for x in program.inputs
    ]
    steps = tuple(map(_widened, program.steps))
    return replace(program, inputs=tuple(inputs), steps=steps)


def _widened(step: Step) -> Step:
    """Return a step with f64 in place of f32."""
    arguments = [a.replace('"float32"', '"float64"') for a in step.arguments]
    blocks = [
        replace(block, steps=tuple(map(_widened, block.steps))) for block in step.blocks
    ]
    return replace(step, arguments=tuple(arguments), blocks=tuple(blocks))
