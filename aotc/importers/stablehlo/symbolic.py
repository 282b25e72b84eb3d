"""Conversion between JAX and aotc: symbolic dimensions and Dims, arrays and Specs.

Nothing in aotc but this file, `jax.py` and `exports.py` has to do with jax, and these
import it when they are called.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy

from aotc.complexes import Complex
from aotc.core import dtypes
from aotc.core.dtypes import DTypeLike
from aotc.core.installation import install_command
from aotc.core.pytree import PyTree
from aotc.dialects.types import Size, ceil_divide
from aotc.errors import SetupError
from aotc.importers.stablehlo.values import KnownTensor
from aotc.tracing.array import Array
from aotc.tracing.dims import Dim, DimTerm
from aotc.tracing.entry import Frozen, Spec, StoredTree
from aotc.tracing.source_locations import fail

if TYPE_CHECKING:
    from jax import ShapeDtypeStruct

PLATFORM = "cpu"  # whose variant of a function is taken; it calls LAPACK


def require_jax(module: str = "jax") -> ModuleType:
    """Import and return a module of JAX; raise SetupError if it is not installed.

    Raises:
        SetupError: it is not installed.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        raise SetupError(
            "missing-extra",
            f"importing from JAX needs the package '{error.name}', which is not "
            "installed",
            hint=install_command("jax"),
        ) from None


class SymbolicSizes:
    """The Dims of Specs as JAX's symbolic dimensions, with their bounds.

    A multiple of m is m times a symbol, as which JAX decides all that divides it.
    """

    def __init__(self, arguments: Iterable[PyTree]) -> None:
        self.jax = require_jax()
        self.dims: dict[str, Dim] = {}
        for value in arguments:
            for leaf in leaves_of(value):
                for size in getattr(leaf, "shape", ()):
                    if isinstance(size, DimTerm):
                        self.dims |= {dim.name: dim for dim in size.dims()}
        self.symbols = self._symbols()

    def _symbols(self) -> dict[str, Any]:
        """Return JAX's symbolic dimensions by the names of Dims."""
        if not self.dims:
            return {}
        constraints = []
        for name, dim in self.dims.items():
            least = ceil_divide(dim.min, dim.multiple_of)
            constraints += [f"{name} >= {least}"] * (least > 1)
            if dim.max is not None:
                constraints.append(f"{name} <= {dim.max // dim.multiple_of}")
        symbols = require_jax("jax.export").symbolic_shape(
            ", ".join(self.dims), constraints=constraints
        )
        return {
            name: dim.multiple_of * symbol
            for (name, dim), symbol in zip(self.dims.items(), symbols, strict=True)
        }

    def abstract(self, value: PyTree) -> PyTree:
        """Convert a pytree of Specs (or stored values) to JAX's ShapeDtypeStructs."""
        leaves, tree = self.jax.tree.flatten(contents(value), is_leaf=is_leaf)
        return self.jax.tree.unflatten(tree, [self._abstract(leaf) for leaf in leaves])

    def _abstract(self, leaf: object) -> ShapeDtypeStruct:
        """Return the ShapeDtypeStruct of a Spec or array."""
        shape = getattr(leaf, "shape", None)
        if shape is None:
            fail(
                "bad-entry",
                f"expected Specs, Weights or State; got {leaf!r}",
                "fix other arguments with functools.partial",
            )
        sizes = [
            size.value(self.symbols) if isinstance(size, DimTerm) else size
            for size in shape
        ]
        given = _numpy_dtype(leaf)
        taken = self.jax.dtypes.canonicalize_dtype(given)
        if taken != given:
            fail(
                "dtype-mismatch",
                f"JAX takes {given} as {taken}, and would compute something else",
                f"give {taken}, or jax.config.update('jax_enable_x64', True)",
            )
        return self.jax.ShapeDtypeStruct(tuple(sizes), given)

    def variables(
        self, leaves: Sequence[object], arrays: Sequence[Array | Complex | KnownTensor]
    ) -> dict[str, Size]:
        """Return the size of each Dim, solved from the shapes of arrays given for
        Specs.
        """
        found: dict[str, Size] = {}
        for leaf, array in zip(leaves, arrays, strict=True):
            for size, actual in zip(
                getattr(leaf, "shape", ()), array.shape, strict=True
            ):
                if isinstance(size, DimTerm):
                    _solve(size, actual, found)
        return {
            name: size // self.dims[name].multiple_of for name, size in found.items()
        }


def contents(value: PyTree) -> PyTree:
    """Return the pytree that Weights or a State holds; other values as they are."""
    value = value.state if isinstance(value, Frozen) else value
    return value.tree if isinstance(value, StoredTree) else value


def leaves_of(value: PyTree) -> list[Any]:
    """Return the leaves of a pytree of JAX, with Specs and complex pairs as leaves."""
    return list(require_jax().tree.leaves(contents(value), is_leaf=is_leaf))


def is_leaf(value: object) -> bool:
    """Return whether JAX must treat a value as a leaf: a Spec or a complex pair."""
    return isinstance(value, (Spec, Complex))


def _solve(term: DimTerm, actual: Size, found: dict[str, Size]) -> None:
    """Solve `term == actual` for its one unknown Dim, and record that in `found`."""
    unknown = {dim.name for dim in term.dims()} - set(found)
    if len(unknown) != 1:
        return
    (name,) = unknown
    rest, more = (term.value({**found, name: n}) for n in (0, 1))
    found[name] = (actual - rest) // (more - rest)


_PARTS = {"complex64": "f32", "complex128": "f64"}


def _numpy_dtype(leaf: Any) -> numpy.dtype:
    """Return the NumPy dtype of a Spec or array; complex for a pair of Specs."""
    if isinstance(leaf, Complex):
        return numpy.dtype("complex64" if leaf.dtype == "f32" else "complex128")
    if str(leaf.dtype) in _PARTS:
        return numpy.dtype(str(leaf.dtype))
    return dtypes.to_numpy(dtypes.canonical_dtype(leaf.dtype))


def as_specs(value: PyTree) -> PyTree:
    """Return a pytree with its array descriptions converted to Specs."""
    return require_jax().tree.map(_as_spec, contents(value), is_leaf=is_leaf)


def _as_spec(leaf: Any) -> Spec | Complex:
    """Return the Spec of an array description; Specs as they are."""
    if isinstance(leaf, (Spec, Complex)):
        return leaf
    return spec_of(leaf.shape, leaf.dtype)


def spec_of(shape: Sequence[int | str | DimTerm], dtype: DTypeLike) -> Spec | Complex:
    """Return a Spec; for complex dtypes, a pair of real Specs."""
    part = _PARTS.get(str(dtype))
    if part is None:
        return Spec(shape, dtype)
    return Complex(Spec(shape, part), Spec(shape, part))  # type: ignore[arg-type]
