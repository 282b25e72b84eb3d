"""Derivatives of the public functions, and vmap, against JAX's, in f64.

Each smooth setting becomes a scalar function of its f64 arguments: the sum of its float
results, each element with a weight of its own. Reverse mode gives the gradient by every
argument, forward mode the derivative along one direction. Both are functions of the
graph, which the reference evaluates: nothing is compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import aotc
import aotc.numpy as anp
from aotc import reference
from aotc.complexes import Complex
from aotc.core import dtypes
from aotc.passes import run_passes
from aotc.tracing.assembly import trace
from benchmarks.parity.agreement import Compared, asked, leaves
from benchmarks.parity.functions import all_settings, full_name, ours_of, peer_of
from benchmarks.parity.settings import Setting

# How many settings of each function are differentiated and mapped.
MOST = 3


@dataclass(frozen=True)
class Scalar:
    """A setting's call as a function of its f64 arguments alone."""

    setting: Setting

    @property
    def inputs(self) -> list[Any]:
        """The f64 arguments."""
        return [x for x in self._parts[0] if _is_double(x)]

    @property
    def _parts(self) -> tuple[list[Any], Any]:
        """The leaves of all arguments, and their structure."""
        given = (self.setting.args, self.setting.kwargs)
        return jax.tree.flatten(given, is_leaf=lambda x: x is None)

    def results(self, function: Callable[..., Any], inputs: Any) -> Any:
        """Call a function with the f64 arguments replaced by `inputs`."""
        parts, structure = self._parts
        rest = iter(inputs)
        parts = [next(rest) if _is_double(x) else x for x in parts]
        args, kwargs = jax.tree.unflatten(structure, parts)
        return function(*args, **kwargs)

    def weighted(self, of: Any, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function of the inputs that sums the weighted float results."""

        def scalar(*inputs):
            parts = [
                part for y in _flat(self.results(function, inputs)) for part in _real(y)
            ]
            floats = [part for part in parts if _is_float(part)]
            terms = (of.sum(y * _weights(y.shape)) for y in floats)
            return sum(terms, start=of.zeros((), np.float64))

        return scalar


def _is_double(x: Any) -> bool:
    """Return whether something is an f64 array."""
    return isinstance(x, np.ndarray) and x.dtype == np.float64


def _is_float(y: Any) -> bool:
    """Return whether an array is of floats."""
    return dtypes.is_float(dtypes.canonical_dtype(y.dtype))


def _flat(tree: Any) -> list[Any]:
    """Return the leaves of nested tuples and lists."""
    if isinstance(tree, (tuple, list)) and not isinstance(tree, Complex):
        return [leaf for part in tree for leaf in _flat(part)]
    return [tree]


def _real(y: Any) -> list[Any]:
    """Return the real arrays of an array: itself, or both parts of a complex one."""
    is_complex = (
        isinstance(y, Complex) or isinstance(y, jax.Array) and jnp.iscomplexobj(y)
    )
    return [y.real, y.imag] if is_complex else [y]


def _weights(shape: tuple[int, ...]) -> Any:
    """Return fixed random weights of a shape."""
    return np.random.default_rng(len(shape)).uniform(0.5, 1.5, shape)


def evaluated(function: Callable[..., Any], inputs: list[Any]) -> Any:
    """Trace a function and evaluate it by the reference; return its results."""

    @aotc.entry(xs=[aotc.Spec(x.shape, x.dtype) for x in inputs])
    def entry(xs):
        return function(*xs)

    program = trace([entry], {})
    run_passes(program.module, ["autodiff", "inline"])
    results = reference.evaluate(program.module, "entry", inputs)
    return program.entries[0].output_tree.unflatten(results)


def compared() -> Iterator[Compared]:
    """Yield derivatives beside JAX's, for the first settings of every function."""
    seen: dict[str, int] = {}
    for setting in all_settings():
        name = full_name(setting)
        scalar = Scalar(setting)
        found = peer_of(setting, "jax")
        if found is None or not setting.smooth or not scalar.inputs:
            continue
        if not any(x.size for x in scalar.inputs) or not _has_floats(setting):
            continue
        seen[name] = seen.get(name, 0) + 1
        if seen[name] <= MOST:
            yield from _derivatives(scalar, name, found[1])
        if seen[name] == 1:
            yield from _mapped(scalar, name, found[1])


def _has_floats(setting: Setting) -> bool:
    """Return whether a setting's results have floats."""
    ours = ours_of(setting)(*setting.args, **setting.kwargs)
    return any(y.dtype.kind in "fc" for y in map(np.asarray, leaves(ours)))


def _derivatives(scalar: Scalar, name: str, theirs: Any) -> Iterator[Compared]:
    """Yield gradients, tangents and second derivatives beside JAX's."""
    setting, inputs = scalar.setting, scalar.inputs
    places = tuple(range(len(inputs)))
    tangents = [_weights(x.shape) - 1 for x in inputs]
    ours = scalar.weighted(anp, ours_of(setting))
    theirs = scalar.weighted(jnp, theirs)
    kind = "iterated" if setting.kind == "iterated" else "accumulated"

    def rules(library, function):
        return lambda *xs: (
            library.grad(function, places)(*xs),
            library.jvp(function, xs, tuple(tangents))[1],
        )

    found = evaluated(rules(aotc, ours), inputs)
    wanted, refusal = asked("jax", jax.jit(rules(jax, theirs)), *inputs)
    wanted = wanted or (None, None)
    for part, mine, other in zip(("grad", "jvp"), found, wanted, strict=True):
        yield Compared(part, name, str(setting), "jax", kind, mine, other, refusal)


def _mapped(scalar: Scalar, name: str, theirs: Any) -> Iterator[Compared]:
    """Yield the result of vmap over two inputs beside JAX's."""
    setting = scalar.setting
    stacks = [np.stack([x, 1.01 * x]) for x in scalar.inputs]

    def each(library, function):
        def results(*xs):
            found = _flat(scalar.results(function, xs))
            return [part for y in found for part in _real(y)]

        return library.vmap(results)

    found = evaluated(each(aotc, ours_of(setting)), stacks)
    wanted, refusal = asked("jax", jax.jit(each(jax, theirs)), *stacks)
    yield Compared(
        "vmap", name, str(setting), "jax", setting.kind, found, wanted, refusal
    )
