"""StableHLO and functions of JAX as JAX computes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy

from aotc.complexes import Complex
from aotc.core.pytree import PyTree
from aotc.importers.common.original import Inputs, Original
from aotc.importers.stablehlo.symbolic import require_jax
from aotc.tracing.entry import State, StoredTree

if TYPE_CHECKING:
    from jax.export import Exported
    from jaxlib.mlir import ir


def of_function(
    function: Callable[..., object], arguments: Mapping[str, PyTree], by_place: bool
) -> Original:
    """Return an `Original` that runs a JAX function in JAX, to compare with.

    Args:
        function: of pytrees.
        arguments: its Specs, Weights and State, by the names of its parameters.
        by_place: whether they are given by place.
    """
    held = {n: v.tree for n, v in arguments.items() if isinstance(v, StoredTree)}
    updates = any(isinstance(value, State) for value in arguments.values())

    def run(inputs: Inputs) -> PyTree:
        given = {name: _as_input({**held, **inputs}[name]) for name in arguments}
        called = require_jax().jit(function)
        result = called(*given.values()) if by_place else called(**given)
        return _as_result(result[1] if updates else result)

    return Original(_framework(), run)


def of_export(exported: Exported, places: int) -> Original:
    """Return an `Original` that runs a `jax.export`; its first inputs are
    positional.
    """

    def run(inputs: Inputs) -> PyTree:
        values = [_as_input(each) for each in inputs.values()]
        named = dict(zip(list(inputs)[places:], values[places:], strict=True))
        return _as_result(exported.call(*values[:places], **named))

    return Original(_framework(), run)


def of_module(text: Callable[[], str]) -> Original | None:
    """Return an `Original` that runs a module in StableHLO's interpreter; None without
    one.

    Args:
        text: gives the module in generic form.
    """
    if find_spec("jaxlib") is None:
        return None
    import jaxlib
    from jaxlib.mlir import ir
    from jaxlib.mlir.dialects import stablehlo

    def run(inputs: Inputs) -> PyTree:
        with jax_context():
            module = ir.Module.parse(text())
            given = [_attribute(_as_input(array)) for array in inputs.values()]
            found = stablehlo.eval_module(module, given)
            results = [numpy.array(ir.DenseElementsAttr(each)) for each in found]
        taken = [_parts(each) for each in results]
        return taken[0] if len(taken) == 1 else tuple(taken)

    return Original(f"StableHLO interpreter of jaxlib {jaxlib.__version__}", run)


def jax_context() -> ir.Context:
    """Return a context of jaxlib's MLIR with StableHLO loaded."""
    from jaxlib.mlir import ir
    from jaxlib.mlir._mlir_libs import _jax_mlir_ext
    from jaxlib.mlir.dialects import chlo, sdy, stablehlo

    registry, context = ir.DialectRegistry(), ir.Context()
    _jax_mlir_ext.register_dialects(registry)
    context.append_dialect_registry(registry)
    context.load_all_available_dialects()
    for dialect in (stablehlo, chlo, sdy):
        dialect.register_dialect(context)
    stablehlo.register_interpreter_dialect(context)
    return context


def _attribute(array: numpy.ndarray) -> ir.DenseElementsAttr:
    """Return an array as an MLIR attribute."""
    from jaxlib.mlir import ir

    array = numpy.ascontiguousarray(array)
    if array.dtype.kind != "u":
        return ir.DenseElementsAttr.get(array)
    kind = ir.IntegerType.get_unsigned(8 * array.itemsize)
    return ir.DenseElementsAttr.get(array, type=kind)


def _framework() -> str:
    """Return JAX's name and version."""
    return f"jax {require_jax().__version__}"


def _as_input(tree: PyTree) -> Any:
    """Return an input tree with complex pairs as NumPy's complex arrays."""
    if isinstance(tree, Complex):
        return numpy.asarray(tree.real) + 1j * numpy.asarray(tree.imag)
    if isinstance(tree, Mapping):
        return {name: _as_input(part) for name, part in tree.items()}
    if isinstance(tree, (list, tuple)):
        parts = [_as_input(part) for part in tree]
        return type(tree)(*parts) if hasattr(tree, "_fields") else type(tree)(parts)
    return tree


def _as_result(result: PyTree) -> PyTree:
    """Return JAX's results as NumPy arrays, with complex ones as pairs."""
    return require_jax().tree.map(_parts, result)


def _parts(value: object) -> numpy.ndarray | Complex:
    """Return an array, or a complex array as a pair."""
    array = numpy.asarray(value)
    if not numpy.iscomplexobj(array):
        return array
    return Complex(array.real, array.imag)  # type: ignore[arg-type]
