"""Executing the source of programs with the functions of aotc, or with those of JAX."""

from __future__ import annotations

from typing import Any

import numpy

import aotc
import aotc.numpy as anp
from aotc import control, fft, linalg, nn, optim, random, special
from aotc.tracing.entry import EntryFunction, Spec

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
    "optim": optim,
    "random": random,
    "special": special,
    "with_vjp": rules.with_vjp,
    "with_jvp": rules.with_jvp,
}


def entry_of(program: Program, name: str) -> EntryFunction:
    """Return a random program as an entry called `name`.

    Its sizes are called after it: entries of one module share a size of one name, and
    so its contract.
    """
    function = execute(program, OURS)
    function.__name__ = name
    dims = {
        size: aotc.Dim(f"{size}_of_{name}", min=least)
        for size, least in program.least.items()
    }
    specs = {
        x.name: Spec(tuple(dims.get(n, n) for n in x.shape), x.dtype)
        for x in program.inputs
    }
    return EntryFunction(function, specs)


def execute(program: Program, library: dict[str, Any]) -> Any:
    """Run a program's source with a library's functions; return the function it
    defines.
    """
    namespace = dict(library)
    code = compile(function_source(program), f"<program {program.seed}>", "exec")
    exec(code, namespace)
    return namespace["program"]
