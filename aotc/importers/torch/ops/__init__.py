"""Meanings of ATen ops: one table per family, one line per op.

A key is an overload (`aten.sum.dim_IntList`) or an op with all of its overloads
(`aten.sum`). A function gets the arguments of the op in the order of its schema,
tensors as traced arrays; what says only how tensors lie in memory is left out. An op
with several results returns a list.

An op that is listed here stays whole, but for `composites`; torch decomposes the others
(see `exporting.py`), so to support an op is to add a line. `aten.add_` is `aten.add`
whose result takes the place of its first argument.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from aotc.importers.common.padded.op_rules import by_op_rules
from aotc.importers.torch.ops import (
    activations,
    attention,
    bags,
    complexes,
    composites,
    control,
    convolution,
    creation,
    elementwise,
    indexing,
    matrices,
    normalization,
    ordering,
    padded,
    pooling,
    products,
    quantization,
    quantization_torchao,
    recurrent,
    reductions,
    resizing,
    sampling,
    shapes,
    size_ops,
)
from aotc.importers.torch.ops.refused import DEFAULT, NOT_COMPLEX, REFUSED

FAMILIES = (
    elementwise,
    activations,
    attention,
    reductions,
    ordering,
    shapes,
    creation,
    indexing,
    bags,
    products,
    matrices,
    convolution,
    pooling,
    sampling,
    resizing,
    normalization,
    recurrent,
    quantization,
    quantization_torchao,
    control,
    size_ops,
    composites,
)

OPS: dict[str, Callable[..., Any]] = {
    **{name: rule for family in FAMILIES for name, rule in family.OPS.items()},
    **padded.SOURCES,
}

COMPLEX_OPS: dict[str, Callable[..., Any]] = {**size_ops.OPS, **complexes.OPS}


def name_of(target: Any) -> str:
    """Return the name of an fx target: `aten.add.Tensor`, `_operator.add`, …."""
    if hasattr(target, "overloadpacket"):
        return str(target)
    if hasattr(target, "namespace"):
        return f"{target.namespace}.{target}"
    return f"{target.__module__}.{target.__name__}"


def _entry(table: Mapping[str, object], name: str) -> Any:
    """Return a table's value for an overload, or for its op with any overload."""
    return table.get(name) or table.get(name.rpartition(".")[0])


def function_for(
    target: object, is_complex: bool = False
) -> Callable[..., object] | None:
    """Return the import function of an fx target; None if there is none."""
    name = name_of(target)
    table = COMPLEX_OPS if is_complex else OPS
    found: Callable[..., Any] | None = _entry(table, name)
    if found is None and not is_complex and (pure := _functional_name(name)):
        found = _entry(OPS, pure)
        return found and _in_place(found)
    return found


def padded_function_for(target: object) -> Callable[..., object] | None:
    """Return the import function of a target on data-dependent sizes; None if none.

    Where no rule of its own is listed, it is that for arrays, op by op.
    """
    name = name_of(target)
    found: Callable[..., Any] | None = _entry(padded.PADDED, name)
    if found is None and (pure := _functional_name(name)):
        found = _entry(padded.PADDED, pure)
        found = found and padded.written_into_first(found)
    if found is None and _entry(control.OPS, name) is None:
        function = function_for(target)
        found = function and by_op_rules(function)
    return found


def takes_floats_of_sizes(target: Any) -> bool:
    """Return whether a target's function takes `SymbolicFloat`s, not only arrays."""
    return _entry(size_ops.IN_FLOATS, name_of(target)) is not None


def _functional_name(name: str) -> str | None:
    """Return the name of an in-place op's functional form; None for other ops."""
    parts = name.split(".")
    if parts[0] != "aten" or not parts[1].endswith("_") or parts[1].endswith("__"):
        return None
    return ".".join(["aten", parts[1].removesuffix("_"), *parts[2:]])


def _in_place(function: Callable[..., Any]) -> Callable[..., object]:
    """Wrap a function to cast and broadcast its result to the first argument."""
    return lambda x, *rest, **named: elementwise.copy(x, function(x, *rest, **named))


def is_listed(target: Any, is_complex: bool = False) -> bool:
    """Return whether an op has an import function or a refusal in the tables."""
    known = function_for(target, is_complex) or _entry(REFUSED, name_of(target))
    return bool(known)


def stays_whole(target: Any) -> bool:
    """Return whether torch must not decompose an op, since a table has it."""
    listed = is_listed(target) or is_listed(target, is_complex=True)
    return listed and _entry(composites.OPS, name_of(target)) is None


def reason_against(target: Any, is_complex: bool = False) -> tuple[str, str] | None:
    """Return (reason, help) if a target cannot be imported; None if it can."""
    if function_for(target, is_complex) is not None:
        return None
    default = NOT_COMPLEX if is_complex and function_for(target) else DEFAULT
    found: tuple[str, str] = _entry(REFUSED, name_of(target)) or default
    return found
