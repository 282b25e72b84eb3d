"""Functions of arrays on padded values: each op that they apply is padded by its rule.

    total = by_op_rules(np.sum)(x, 0)     # x: f32[u0, 3], at most f32[9, 3]

The function computes with arrays of the sizes that the values have, u0 among them, as
it would with those of a contract. Each op that it applies is written twice, in
functions that are thrown away: in these sizes, which infers the types of its results,
and by its `pad` rule (`aotc.dialects.rules.padding`) in the largest sizes, as for calls
that are padded to a bucket. What the rule has written is what the model computes.

Derivatives are taken afterwards, of the ops in the largest sizes. An op whose elements
do not meet along padded axes takes from padding, and gives to it, only what is padding
as well. Any other reads zeros for it, and has no derivative by that of its results.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any, NoReturn

import numpy

from aotc.core import dtypes
from aotc.dialects import OPS, context
from aotc.dialects.graph import GraphOp, Reason, as_tuple
from aotc.dialects.rules.padding import BucketPadding
from aotc.dialects.types import Shape, Size, SymbolicDim, Tensor
from aotc.errors import InputError
from aotc.importers.common.padded.sizes import (
    bounds_of,
    canonical_size,
    count_of,
    has_data_dependent,
    is_data_dependent,
    shown_text,
)
from aotc.importers.common.padded.values import (
    Padded,
    as_padded,
    fill_padding,
    is_involved,
    mask_padding_gradient,
    refuse,
)
from aotc.mlir import Block, Module, Value, func, ir
from aotc.tracing.array import Array
from aotc.tracing.scopes import Interceptor, current_interceptor, intercepted_by
from aotc.tracing.source_locations import location
from aotc.tracing.tracing import emit_all


def by_op_rules(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a function of arrays to take padded values, by the `pad` rules of
    its ops.
    """

    @wraps(function)
    def rule(*args: object, **named: object) -> Any:
        if not is_involved([args, named]):
            return function(*args, **named)
        try:
            with intercepted_by(_PadRuleInterceptor(current_interceptor())):
                return _rewrap_padded(
                    function(*_unwrap_padded(args), **_unwrap_padded(named))
                )
        except InputError as error:
            raise _data_dependent_error(error) from None

    return rule


class _Exact(Array):
    """A padded value as an array of its data-dependent sizes, outside of any trace."""

    __slots__ = ("padded",)

    def __init__(self, padded: Padded) -> None:
        # it is in no trace: whoever reads it there refuses it
        self._value = self._trace = self._data = self._known = None
        self._is_weak = False
        self._type = Tensor(tuple(map(canonical_size, padded.shape)), padded.dtype)
        self.padded = padded


def _unwrap_padded(tree: object) -> Any:
    """Return a tree of arguments with padded values replaced by `_Exact` arrays."""
    if isinstance(tree, Padded):
        return _Exact(tree)
    if isinstance(tree, (list, tuple)):
        return (list if isinstance(tree, list) else tuple)(map(_unwrap_padded, tree))
    if isinstance(tree, dict):
        return {name: _unwrap_padded(value) for name, value in tree.items()}
    if isinstance(tree, numpy.ndarray) and tree.dtype == object:
        sizes = [_unwrap_padded(size) for size in tree.reshape(-1)]
        return numpy.array(sizes, object).reshape(tree.shape)
    return canonical_size(tree) if isinstance(tree, SymbolicDim) else tree


def _rewrap_padded(tree: object) -> Any:
    """Return a tree of results with `_Exact` arrays replaced by padded values."""
    if isinstance(tree, _Exact):
        return tree.padded
    if isinstance(tree, (list, tuple)):
        return (list if isinstance(tree, list) else tuple)(map(_rewrap_padded, tree))
    return tree


def _data_dependent_error(error: InputError) -> InputError:
    """Return the error for a function that cannot handle data-dependent sizes."""
    message = shown_text(error.message)
    if error.code == "leaked-array":
        message = "a loop, a branch or a function with a rule of its own reads it"
    elif message == error.message:
        return error
    return InputError(
        "data-dependent-shape",
        f"{message}; values decide sizes of an operand (u0, u1, …), and aotc has no "
        "rule for their padding there",
        where=error.where,
        hint="bring it to a known size before, as a sum does, or use masks",
    )


# ---- one op -------------------------------------------------------------------------


@dataclass(frozen=True)
class _PadRuleInterceptor:
    """An interceptor that applies ops on padded values by their `pad` rules.

    Args:
        around: what is given the ops that are applied then.
    """

    around: Interceptor | None

    def apply(
        self, name: str, operands: Sequence[Array], attributes: dict[str, Any], /
    ) -> list[Array]:
        """Return the results of an op, by its `pad` rule if operands are padded."""
        with intercepted_by(self.around):
            if any(isinstance(x, _Exact) for x in operands) or is_involved(attributes):
                with context(), location():
                    return _apply_padded(name, operands, attributes)
            return emit_all(name, *operands, **attributes)


class _BoundPadding(BucketPadding):
    """The padding of data-dependent sizes to their upper bounds."""

    def __init__(self) -> None:
        super().__init__((), {})

    def is_padded(self, size: Size) -> bool:
        """Return whether a size is data-dependent."""
        return is_data_dependent(size)

    def shape(self, exact: Sequence[Size]) -> Shape:
        """Return a shape with data-dependent sizes replaced by their upper bounds."""
        return bounds_of(tuple(exact))


def _apply_padded(
    name: str, operands: Sequence[Array], attributes: dict[str, Any]
) -> list[Array]:
    """Return an op's results at upper bounds, by its `pad` rule, as `_Exact` arrays."""
    if name == "dimension":
        return [count_of(attributes["size"][0], attributes["dtype"])]
    sketch, padding = ir.Module.create(), _BoundPadding()
    exact = _block(sketch, [x.type for x in operands])
    with ir.InsertionPoint(exact):
        types = [
            Tensor.of(value)
            for value in as_tuple(OPS[name].build(*exact.arguments, **attributes))
        ]
    (op,) = exact.operations
    assert isinstance(op, GraphOp)
    if isinstance(op.pad, Reason):
        _refuse_op(name, operands)
    meets = _meets_padding(op, padding)
    hides = meets and not op.rearranges
    given = [_at_bounds(x, hides) for x in operands]
    largest = _block(sketch, [x.type for x in given])
    with ir.InsertionPoint(largest):
        found = op.pad(padding, op, list(largest.arguments))
    if found is None:
        _refuse_op(name, operands)
    results = _emit_again(largest, given, as_tuple(found))
    shield = mask_padding_gradient if meets else as_padded
    return [
        _Exact(_padded(shield(data, kind.shape)))
        if has_data_dependent(kind.shape)
        else data
        for data, kind in zip(results, types, strict=True)
    ]


def _padded(value: object) -> Padded:
    """Return the value, narrowed in type; assert that it is padded."""
    assert isinstance(value, Padded), "it has sizes that values decide"
    return value


def _block(module: Module, types: Sequence[Tensor]) -> Block:
    """Return the entry block of a new function with arguments of these types."""
    with ir.InsertionPoint(module.body):
        function = func.FuncOp("sketch", ([kind.to_mlir() for kind in types], []))
    return function.add_entry_block()


def _meets_padding(op: GraphOp, padding: BucketPadding) -> bool:
    """Return whether an op's derivative could read padding as elements.

    That is so where an operand lacks a padded axis of the result, as its derivative is
    a sum along it, and where elements meet along a padded axis that the result has.
    """
    kept = padding.axes(Tensor.of(op.results[0]))
    kinds = [Tensor.of(x) for x in op.operands]
    if not kept or not kinds:
        return False
    if any(len(padding.axes(kind)) < len(kept) for kind in kinds):
        return True
    shape = Tensor.of(op.results[0]).shape
    is_elementwise = op.on_scalars and all(kind.shape == shape for kind in kinds)
    if is_elementwise or op.rearranges:
        return False
    axes = _axes_of(op)
    return axes is None or bool(padding.axes(kinds[0], axes))


def _axes_of(op: Any) -> Sequence[int] | None:
    """Return the axes that an op reduces or works along; None if it has no such
    attribute.
    """
    if "axes" in op.codecs:
        found: Sequence[int] = op.axes
        return found
    return (op.axis,) if "axis" in op.codecs else None


def _at_bounds(x: Array, hides: bool) -> Array:
    """Return an operand at upper bounds; with zeros in its padding if `hides`."""
    if not isinstance(x, _Exact):
        return x
    is_hidden = hides and dtypes.is_float(x.dtype)
    return fill_padding(x.padded, 0) if is_hidden else x.padded.data


def _emit_again(
    block: Block, arguments: Sequence[Array], wanted: Sequence[Value]
) -> list[Array]:
    """Emit a block's ops on other arguments; return arrays for the `wanted` values."""
    known = dict(zip(block.arguments, arguments, strict=True))
    for op in block.operations:
        assert isinstance(op, GraphOp)
        name, attributes = op._op_name, op.attributes_of(op)
        if name == "constant":
            found = [Array(data=attributes["value"])]
        elif name == "dimension" and is_involved(attributes):
            found = [count_of(attributes["size"][0], attributes["dtype"])]
        else:
            found = emit_all(name, *(known[x] for x in op.operands), **attributes)
        known.update(zip(op.results, found, strict=True))
    return [known[value] for value in wanted]


_HINTS = {"reshape": "move the axis to the front: it joins with those after it only"}


def _refuse_op(name: str, operands: Sequence[Array]) -> NoReturn:
    """Refuse an op that has no rule for padding along its axes."""
    shown = " and ".join(str(x.padded) for x in operands if isinstance(x, _Exact))
    refuse(
        f"'{name}' works along axes of {shown or 'a shape'} whose sizes depend on "
        "values, and aotc has no rule for their padding there",
        _HINTS.get(
            name, "bring it to a known size before, as a sum does, or use masks"
        ),
    )
