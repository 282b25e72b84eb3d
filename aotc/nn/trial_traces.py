"""Traces of functions with given arrays, made once to learn which ops read which.

Neither the trace nor its module is built.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy

from aotc.core import dtypes
from aotc.core.pytree import PyTree, flatten
from aotc.dialects import context
from aotc.dialects.functions.function_table import index_functions
from aotc.dialects.types import Tensor
from aotc.mlir import ir
from aotc.tracing.entry import Spec
from aotc.tracing.source_locations import fail
from aotc.tracing.tracing import Trace

if TYPE_CHECKING:
    from aotc.tracing.array import Array

    ArrayOrSpec = numpy.ndarray | Array | Spec


def is_array(leaf: object) -> TypeGuard[ArrayOrSpec]:
    """Return whether a pytree leaf is an array or a spec of one."""
    return isinstance(leaf, Spec) or (hasattr(leaf, "dtype") and hasattr(leaf, "shape"))


@contextmanager
def trial_trace(name: str, *trees: PyTree) -> Iterator[tuple[Trace, tuple[Any, ...]]]:
    """Open a temporary trace whose arguments are the arrays of pytrees.

    Args:
        name: of the traced function.
        trees: pytrees; their arrays and `aotc.Spec`s are of static shapes.

    Yields:
        The trace, and the pytrees with traced arrays in the place of theirs.

    Raises:
        InputError: `bad-spec`: a size has no number.
    """
    leaves, structure = flatten(trees)
    numbers = [n for n, leaf in enumerate(leaves) if is_array(leaf)]
    types = [_static_type(leaves[n]) for n in numbers]
    with context(), ir.Location.unknown():
        module = ir.Module.create()
    with index_functions(module):
        trace = Trace(module, name, types, ())
        with trace.active():
            for number, array in zip(numbers, trace.arguments, strict=True):
                leaves[number] = array
            yield trace, structure.unflatten(leaves)


def _static_type(leaf: ArrayOrSpec) -> Tensor:
    """Return the type of an array or spec; raise for symbolic sizes."""
    shape = tuple(leaf.shape)
    if not all(isinstance(size, (int, numpy.integer)) for size in shape):
        sizes = ", ".join(str(getattr(size, "name", size)) for size in shape)
        fail(
            "bad-spec",
            f"expected static sizes; got [{sizes}]",
            "any will do, such as aotc.Spec((1, …)): what is asked for depends on the "
            "shapes of weights",
        )
    return Tensor(tuple(map(int, shape)), dtypes.canonical_dtype(leaf.dtype))
