"""Executing the source of programs with the functions of aotc, or with those of JAX."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy

import aotc
import aotc.numpy as anp
from aotc import control, fft, linalg, nn, random, special
from aotc.frontends.entry import EntryFunction, Spec

from . import rules
from .programs import Program
from .source import function_source

OURS: dict[str, Any] = {
    "__name__": "program",  # errors name its lines
    "aotc": aotc,
    "numpy": numpy,
    "np": anp,
    "control": control,
    "fft": fft,
    "linalg": linalg,
    "nn": nn,
    "random": random,
    "special": special,
    "with_vjp": rules.with_vjp,
    "with_jvp": rules.with_jvp,
}


def entry_of(program: Program, name: str) -> EntryFunction:
    """The program as an entry called `name`."""
    function = execute(program, OURS)
    function.__name__ = name
    dims = {name: aotc.Dim(name, min=least) for name, least in program.least.items()}
    specs = {
        x.name: Spec(tuple(dims.get(n, n) for n in x.shape), x.dtype)
        for x in program.inputs
    }
    return EntryFunction(function, specs)


def execute(program: Program, library: dict[str, Any]) -> Any:
    """The entry function, made of the functions of a library."""
    namespace = dict(library)
    code = compile(function_source(program), f"<program {program.seed}>", "exec")
    exec(code, namespace)
    return namespace["program"]


# ---- JAX ----------------------------------------------------------------------------

# Functions that JAX has under the same name with another meaning.
NOT_ALIKE = {
    "np.bitcast", "np.round", "np.around", "np.empty", "np.empty_like", "np.resize",
    "nn.dropout", "np.unique", "np.cumlogsumexp",
}  # fmt: skip


def jax_library() -> dict[str, Any] | None:
    """The same names with JAX's functions behind them; None where it is missing."""
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
    return type(function)(function.__code__, {**function.__globals__, **names})


def run_in_jax(program: Program, library: dict[str, Any], arrays: list[Any]) -> Any:
    """The results in JAX with f64 in the place of f32; None if it refuses."""
    import jax

    if program.functions & NOT_ALIKE:
        return None
    try:
        found = jax.jit(execute(program, library))(*arrays)
    except Exception:  # whatever JAX has not, or has otherwise
        return None
    return [numpy.asarray(x) for x in jax.tree.leaves(found)]
