"""aotc: ahead-of-time compilation of machine-learning models.

A map of the pipeline, in processing order:

    tracing     functions of arrays → graph dialect     (aotc.tracing, aotc.numpy, …)
    importers   model.py, PyTorch, ONNX, StableHLO → graph dialect   (aotc.importers)
    passes      graph → graph → linalg             (aotc.passes, aotc.dialects)
    backend     linalg → .vmfb through IREE        (aotc.backend, aotc.pipeline)
    artifacts   .vmfb + weights + manifest → signed bundle     (aotc.artifacts)
    runtime     bundle → verified, callable model  (aotc.runtime; needs no compiler)
    training    model + data → a model that has learned  (aotc.training; likewise)

Importing this package imports none of them: names are resolved on first use, so that
the command line starts quickly and a device needs only what the runtime needs.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from aotc.counting import counters
    from aotc.foreign import from_jax, from_onnx, from_stablehlo, from_torch
    from aotc.hybrid_programs import hybrid, island
    from aotc.just_in_time import jit
    from aotc.quantization.aware import quantization_aware
    from aotc.runtime import Model, load
    from aotc.streaming import stream
    from aotc.tracing.custom import checkpoint, custom_jvp, custom_vjp
    from aotc.tracing.dims import Dim, powers_of_two
    from aotc.tracing.entry import Spec, State, Weights
    from aotc.tracing.entry_calls import entry
    from aotc.tracing.specializing import specialize
    from aotc.tracing.title import bundle
    from aotc.transforms import (
        grad,
        hessian,
        hvp,
        jacfwd,
        jacrev,
        jvp,
        linearize,
        mixed_precision,
        value_and_grad,
        vjp,
        vmap,
    )

# name → module that defines it
_EXPORTS = {
    "bundle": "aotc.tracing.title",
    "counters": "aotc.counting",
    "entry": "aotc.tracing.entry_calls",
    "from_jax": "aotc.foreign",
    "from_onnx": "aotc.foreign",
    "from_stablehlo": "aotc.foreign",
    "Dim": "aotc.tracing.dims",
    "powers_of_two": "aotc.tracing.dims",
    "Spec": "aotc.tracing.entry",
    "Weights": "aotc.weight_formats",
    "State": "aotc.tracing.entry",
    "from_torch": "aotc.foreign",
    "grad": "aotc.transforms",
    "value_and_grad": "aotc.transforms",
    "vjp": "aotc.transforms",
    "jvp": "aotc.transforms",
    "linearize": "aotc.transforms",
    "mixed_precision": "aotc.transforms",
    "quantization_aware": "aotc.quantization.aware",
    "jacfwd": "aotc.transforms",
    "jacrev": "aotc.transforms",
    "hessian": "aotc.transforms",
    "hvp": "aotc.transforms",
    "vmap": "aotc.transforms",
    "custom_jvp": "aotc.tracing.custom",
    "custom_vjp": "aotc.tracing.custom",
    "checkpoint": "aotc.tracing.custom",
    "jit": "aotc.just_in_time",
    "hybrid": "aotc.hybrid_programs",
    "island": "aotc.hybrid_programs",
    "specialize": "aotc.tracing.specializing",
    "load": "aotc.runtime",
    "Model": "aotc.runtime",
    "stream": "aotc.streaming",
}

# modules that are imported when they are named: `aotc.nn.relu` after `import aotc`
_MODULES = (
    "collectives", "complexes", "control", "counting", "debug", "errors", "fft",
    "linalg", "nn", "numpy", "optim", "parallel", "random", "runtime", "solvers",
    "special", "streaming", "training", "transforms",
)  # fmt: skip

__all__ = [
    "Dim",
    "Model",
    "Spec",
    "State",
    "Weights",
    "bundle",
    "checkpoint",
    "counters",
    "custom_jvp",
    "custom_vjp",
    "entry",
    "from_jax",
    "from_onnx",
    "from_stablehlo",
    "from_torch",
    "grad",
    "hessian",
    "hvp",
    "hybrid",
    "island",
    "jacfwd",
    "jacrev",
    "jit",
    "jvp",
    "linearize",
    "load",
    "mixed_precision",
    "powers_of_two",
    "quantization_aware",
    "specialize",
    "stream",
    "value_and_grad",
    "vjp",
    "vmap",
]


def __getattr__(name: str) -> Any:
    """Import a public name of the package on first use (PEP 562)."""
    if name in _MODULES:
        return import_module(f"{__name__}.{name}")
    if name not in _EXPORTS:
        raise AttributeError(f"module 'aotc' has no attribute {name!r}")
    if _EXPORTS[name].startswith(("aotc.tracing", "aotc.weight_formats")):
        import_module("aotc.numpy")  # which says what operators of arrays do
    return getattr(import_module(_EXPORTS[name]), name)


def __dir__() -> list[str]:
    """Return the public names of the package."""
    return [*__all__, *_MODULES, "__version__"]
