"""Shapes and types of graph values, and how they are written in MLIR.

A size is an `int` or a `Dim`: an affine expression over the symbols of the enclosing
function. `Tensor` pairs a shape with a dtype. In MLIR a tensor with symbolic sizes
carries them as an affine_map encoding,

    tensor<?x784xf32, affine_map<()[s0] -> (s0, 784)>>

so that two types are equal exactly when their shapes are. The map mentions no more
symbols than it needs (s0 … the highest one used), which makes the spelling unique.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from aotc import dtypes
from aotc.errors import InputError
from aotc.mlir import ir

# symbol names of the function being traced or verified, innermost last
_symbol_names: list[Sequence[str]] = []


@contextmanager
def symbol_names(names: Sequence[str]) -> Iterator[None]:
    """Within this block a `Dim` prints symbol i as `names[i]` instead of `s<i>`."""
    _symbol_names.append(names)
    try:
        yield
    finally:
        _symbol_names.pop()


def _on_sizes(
    method: Callable[["Dim", "Size"], "Size"],
) -> Callable[["Dim", "Size"], "Size"]:
    """Let Python ask the other operand (an array, say) where it is no size."""

    def operator(self: "Dim", other: Any) -> Any:
        return method(self, other) if isinstance(other, int | Dim) else NotImplemented

    return operator


class Dim:
    """A symbolic size: an affine expression over symbols, simplified on construction.

    Supports `+ - * // %` with ints and other sizes. Two sizes are equal when their
    simplified expressions are; a comparison that only values decide raises.
    """

    __slots__ = ("expr",)

    def __init__(self, expr: Any) -> None:
        self.expr = expr

    @staticmethod
    def symbol(position: int) -> "Dim":
        """The size that symbol number `position` stands for."""
        return Dim(ir.AffineSymbolExpr.get(position))

    @_on_sizes
    def __add__(self, other: "Size") -> "Size":
        return size_of(self.expr + _expr(other))

    @_on_sizes
    def __sub__(self, other: "Size") -> "Size":
        return size_of(self.expr + _expr(other) * -1)

    @_on_sizes
    def __rsub__(self, other: "Size") -> "Size":
        return size_of(_expr(other) + self.expr * -1)

    @_on_sizes
    def __mul__(self, other: "Size") -> "Size":
        return size_of(self.expr * _expr(other))

    @_on_sizes
    def __floordiv__(self, other: "Size") -> "Size":
        return size_of(ir.AffineExpr.get_floor_div(self.expr, _expr(other)))

    @_on_sizes
    def __mod__(self, other: "Size") -> "Size":
        return size_of(ir.AffineExpr.get_mod(self.expr, _expr(other)))

    __radd__ = __add__
    __rmul__ = __mul__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Dim) and bool(self.expr == other.expr)

    def __hash__(self) -> int:
        return hash(str(self.expr))

    def _undecided(self, *_: object) -> bool:
        raise InputError(
            "symbolic-size",
            f"the size '{self}' is only known when the model runs, so Python cannot "
            "compare or branch on it",
            hint="use a fixed size in the Spec, or write the model without the branch",
        )

    __lt__ = __le__ = __gt__ = __ge__ = _undecided
    __bool__ = _undecided

    def __index__(self) -> int:
        self._undecided()
        return 0

    def __repr__(self) -> str:
        text = str(self.expr).replace("floordiv", "//").replace("mod", "%")
        if _symbol_names:
            names = _symbol_names[-1]
            for position in reversed(range(len(names))):
                text = text.replace(f"s{position}", f"\0{position}\0")
            for position, name in enumerate(names):
                text = text.replace(f"\0{position}\0", name)
        return text


Size = int | Dim
Shape = tuple[Size, ...]


def _expr(size: Size) -> Any:
    return size.expr if isinstance(size, Dim) else ir.AffineConstantExpr.get(size)


def size_of(expr: Any) -> Size:
    """The simplified size of an affine expression over symbols."""
    expr = ir.AffineExpr.simplify_affine_expr(expr, 0, symbol_count([expr]))
    expr = expr.maybe_downcast()
    if isinstance(expr, ir.AffineConstantExpr):
        return int(expr.value)
    return Dim(expr)


def symbol_count(exprs: Iterable[Any]) -> int:
    """One more than the highest symbol that any of `exprs` mentions."""
    return max((_highest_symbol(expr) + 1 for expr in exprs), default=0)


def _highest_symbol(expr: Any) -> int:
    expr = expr.maybe_downcast()
    if isinstance(expr, ir.AffineSymbolExpr):
        return int(expr.position)
    if isinstance(expr, ir.AffineBinaryExpr):
        return max(_highest_symbol(expr.lhs), _highest_symbol(expr.rhs))
    return -1


def evaluate_size(size: Size, values: Sequence[int]) -> int:
    """The number that `size` is when symbol i has value `values[i]`."""
    if isinstance(size, int):
        return size
    return _evaluate(size.expr, values)


_BINARY: list[tuple[Any, Callable[[int, int], int]]] = [
    (ir.AffineAddExpr, lambda a, b: a + b),
    (ir.AffineMulExpr, lambda a, b: a * b),
    (ir.AffineFloorDivExpr, lambda a, b: a // b),
    (ir.AffineCeilDivExpr, lambda a, b: -(-a // b)),
    (ir.AffineModExpr, lambda a, b: a % b),
]


def _evaluate(expr: Any, values: Sequence[int]) -> int:
    expr = expr.maybe_downcast()
    if isinstance(expr, ir.AffineConstantExpr):
        return int(expr.value)
    if isinstance(expr, ir.AffineSymbolExpr):
        return int(values[expr.position])
    for kind, function in _BINARY:
        if isinstance(expr, kind):
            return function(_evaluate(expr.lhs, values), _evaluate(expr.rhs, values))
    raise AssertionError(f"affine expression of unknown kind: {expr}")


def element_count(shape: Shape) -> Size:
    """The product of all sizes; 1 for a scalar."""
    return math.prod(shape)


def is_nonnegative(size: Size) -> bool:
    """Whether a size is plainly at least 0, whatever the symbols are."""
    if isinstance(size, int):
        return size >= 0
    rest = [size.expr.maybe_downcast()]
    while rest:
        expr = rest.pop()
        if isinstance(expr, ir.AffineConstantExpr):
            if expr.value < 0:
                return False
        elif isinstance(expr, ir.AffineBinaryExpr):
            rest += [expr.lhs.maybe_downcast(), expr.rhs.maybe_downcast()]
    return True


def same_count(one: Shape, other: Shape) -> bool:
    """Whether two shapes hold equally many elements, whatever the symbols are."""
    return _factors(one) == _factors(other) or (
        element_count(one) == element_count(other)
    )


def _factors(shape: Shape) -> tuple[int, list[str]]:
    """A product as a number and sorted symbolic factors: MLIR orders no products."""
    number, symbolic = 1, []
    rest = [_expr(size).maybe_downcast() for size in shape]
    while rest:
        expr = rest.pop()
        if isinstance(expr, ir.AffineMulExpr):
            rest += [expr.lhs.maybe_downcast(), expr.rhs.maybe_downcast()]
        elif isinstance(expr, ir.AffineConstantExpr):
            number *= expr.value
        else:
            symbolic.append(str(expr))
    return number, sorted(symbolic)


def shape_map(shape: Shape) -> Any:
    """`affine_map<()[s0, …] -> (sizes)>`: a shape as an MLIR affine map."""
    exprs = [_expr(size) for size in shape]
    return ir.AffineMap.get(0, symbol_count(exprs), exprs)


def shape_of_map(affine_map: Any) -> Shape:
    """The inverse of `shape_map`."""
    return tuple(size_of(expr) for expr in affine_map.results)


def format_shape(shape: Shape) -> str:
    """`[batch, 784]`: a shape as messages and the printer show it."""
    return f"[{', '.join(map(str, shape))}]"


@dataclass(frozen=True)
class Tensor:
    """The type of a graph value: sizes and element type.

    `Tensor.of(value)` reads the type of an MLIR value, `to_mlir()` writes it; the two
    are inverse.
    """

    shape: Shape
    dtype: str

    @property
    def rank(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def is_static(self) -> bool:
        """Whether all sizes are numbers."""
        return all(isinstance(size, int) for size in self.shape)

    @staticmethod
    def of(value: Any) -> "Tensor":
        """The type of an MLIR value (or the meaning of an MLIR type)."""
        mlir_type = value if isinstance(value, ir.Type) else value.type
        encoding = mlir_type.encoding
        shape = (
            tuple(mlir_type.shape)
            if encoding is None
            else shape_of_map(ir.AffineMapAttr(encoding).value)
        )
        return Tensor(shape, element_name(mlir_type.element_type))

    def to_mlir(self) -> Any:
        """The MLIR type `tensor<…>`, with an encoding if a size is symbolic."""
        element = element_type(self.dtype)
        if self.is_static:
            return ir.RankedTensorType.get(self.shape, element)
        dynamic = ir.ShapedType.get_dynamic_size()
        sizes = [size if isinstance(size, int) else dynamic for size in self.shape]
        encoding = ir.AffineMapAttr.get(shape_map(self.shape))
        return ir.RankedTensorType.get(sizes, element, encoding)

    def with_shape(self, shape: Sequence[Size]) -> "Tensor":
        """The same element type with another shape."""
        return Tensor(tuple(shape), self.dtype)

    def with_dtype(self, dtype: str) -> "Tensor":
        """The same shape with another element type."""
        return Tensor(self.shape, dtype)

    def __str__(self) -> str:
        return f"{self.dtype}{format_shape(self.shape)}"


def element_type(dtype: str) -> Any:
    """The MLIR element type of a dtype: signless for signed, `ui8` for unsigned."""
    if dtype in dtypes.UNSIGNED:
        return ir.IntegerType.get_unsigned(dtypes.bits(dtype))
    if dtype in dtypes.SIGNED:
        return ir.IntegerType.get_signless(dtypes.bits(dtype))
    simple = {
        "bool": lambda: ir.IntegerType.get_signless(1),
        "f16": ir.F16Type.get,
        "bf16": ir.BF16Type.get,
        "f32": ir.F32Type.get,
        "f64": ir.F64Type.get,
    }
    return simple[dtype]()


def element_name(element: Any) -> str:
    """The dtype of an MLIR element type; the inverse of `element_type`."""
    text = str(element)
    if text == "i1":
        return "bool"
    name = text.replace("ui", "u")
    if name not in dtypes.NAMES:
        raise InputError(
            "unknown-dtype", f"tensors of MLIR type '{text}' are not part of the graph"
        )
    return name


def lowered_element(dtype: str) -> Any:
    """The element type of `dtype` below the graph: integers have no sign there."""
    floats = {
        "f16": ir.F16Type,
        "bf16": ir.BF16Type,
        "f32": ir.F32Type,
        "f64": ir.F64Type,
    }
    if dtype in floats:
        return floats[dtype].get()
    return ir.IntegerType.get_signless(1 if dtype == "bool" else dtypes.bits(dtype))


def lowered_type(graph_type: Tensor) -> Any:
    """The tensor type below the graph: no encoding, signless integers."""
    dynamic = ir.ShapedType.get_dynamic_size()
    sizes = [size if isinstance(size, int) else dynamic for size in graph_type.shape]
    return ir.RankedTensorType.get(sizes, lowered_element(graph_type.dtype))
