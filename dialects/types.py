"""Shapes and types of graph values, and how they are written in MLIR.

A size is an `int` or a `SymbolicDim`: an affine expression over the symbols of the
enclosing function. `Tensor` pairs a shape with a dtype. In MLIR a tensor with symbolic
sizes carries them as an affine_map encoding,

    tensor<?x784xf32, affine_map<()[s0] -> (s0, 784)>>

so that two types are equal exactly when their shapes are. The map mentions no more
symbols than it needs (s0 … the highest one used), which makes the spelling unique.
"""

import math
import operator
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from aotc.core import dtypes
from aotc.dialects.sizes import affine, intervals
from aotc.dialects.sizes.symbols import symbol_optimum
from aotc.errors import InputError
from aotc.mlir import AffineExpr, AffineMap, ElementType, Type, Value, ir

# Types, maps, attributes and shapes are unique in the one context of the process, they
# are few, and every op asks for those of its own, in every pass.
remembered = lru_cache(maxsize=2**16)


def _on_sizes(
    method: Callable[["SymbolicDim", "Size"], "Size"],
) -> Callable[["SymbolicDim", "Size"], "Size"]:
    """Return a binary operator that returns NotImplemented unless given sizes."""

    def operator(self: "SymbolicDim", other: Any) -> Any:
        return (
            method(self, other)
            if isinstance(other, int | SymbolicDim)
            else NotImplemented
        )

    return operator


class SymbolicDim:
    """A symbolic size: an affine expression over symbols, simplified on construction.

    Supports `+ - * // %` with ints and other sizes; `minimum` and `maximum` are
    functions. `==` is that of types: two sizes are equal when their simplified
    expressions are, whatever values they have. `<` and the rest give what the known
    contracts prove, and raise where only values decide. What the code of a model gets
    is another class, which compares by values (`aotc.tracing.call_sizes`).
    """

    __slots__ = ("expr",)

    def __init__(self, expr: AffineExpr) -> None:
        self.expr = expr

    @staticmethod
    def symbol(position: int) -> "SymbolicDim":
        """Return the size that is symbol number `position` alone."""
        return SymbolicDim(ir.AffineSymbolExpr.get(position))

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
        return _divide(ir.AffineExpr.get_floor_div, self, other)

    @_on_sizes
    def __rfloordiv__(self, other: "Size") -> "Size":
        return _divide(ir.AffineExpr.get_floor_div, other, self)

    @_on_sizes
    def __mod__(self, other: "Size") -> "Size":
        return _divide(ir.AffineExpr.get_mod, self, other)

    @_on_sizes
    def __rmod__(self, other: "Size") -> "Size":
        return _divide(ir.AffineExpr.get_mod, other, self)

    def __neg__(self) -> "Size":
        # -(a // b) is (b - 1 - a) // b: so -(-n // b) is spelled as (n + b - 1) // b
        if isinstance(self.expr, ir.AffineFloorDivExpr):
            below = self.expr.rhs + self.expr.lhs * -1 + -1
            return size_of(ir.AffineExpr.get_floor_div(below, self.expr.rhs))
        return size_of(self.expr * -1)

    __radd__ = __add__
    __rmul__ = __mul__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SymbolicDim) and bool(self.expr == other.expr)

    def __hash__(self) -> int:
        return hash(self.expr)

    @_on_sizes
    def __lt__(self, other: "Size") -> bool:
        return _require_answer(self, "<", other)

    @_on_sizes
    def __le__(self, other: "Size") -> bool:
        return _require_answer(self, "<=", other)

    @_on_sizes
    def __gt__(self, other: "Size") -> bool:
        return _require_answer(self, ">", other)

    @_on_sizes
    def __ge__(self, other: "Size") -> bool:
        return _require_answer(self, ">=", other)

    def __bool__(self) -> bool:
        return _require_answer(self, "!=", 0)

    def __index__(self) -> int:
        raise undecided_error(f"'{self}'", "use it as a number")

    def __repr__(self) -> str:
        with self.expr.context:  # messages may be made long after tracing
            return affine.text(self.expr)


Size = int | SymbolicDim
Shape = tuple[Size, ...]


def _expr(size: Size) -> AffineExpr:
    """Return a size as an affine expression."""
    if isinstance(size, SymbolicDim):
        return size.expr
    if not -(2**63) <= size < 2**63:
        raise InputError("bad-shape", f"expected sizes of 64 bits; got {size}")
    return ir.AffineConstantExpr.get(size)


def _divide(kind: Callable[..., AffineExpr], size: "Size", by: "Size") -> "Size":
    """Return a floor quotient or remainder of sizes; the divisor must be positive."""
    if bounds(by)[0] < 1:
        raise InputError(
            "symbolic-size",
            f"cannot divide the size '{size!r}' by '{by!r}', which may be less than 1",
            hint="promise more of the sizes, such as aotc.Dim('n', min=1)",
        )
    exact = quotient((size,), (by,))
    if exact is not None:
        return exact if kind is ir.AffineExpr.get_floor_div else 0
    return size_of(kind(_expr(size), _expr(by)))


COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def compare_sizes(left: "Size", sign: str, right: "Size") -> bool | None:
    """Return the provable result of a comparison of sizes; None if calls may differ.

    Args:
        left: a size.
        sign: one of `COMPARISONS`.
        right: another size.
    """
    difference = left - right
    low, high = bounds(difference)
    may_be = {-1: low < 0, 0: low <= 0 <= high and _divides(difference), 1: high > 0}
    answers = {COMPARISONS[sign](n, 0) for n, possible in may_be.items() if possible}
    return answers.pop() if len(answers) == 1 else None


def _divides(size: "Size") -> bool:
    """Return whether a size may be 0: the gcd of its factors divides its constant."""
    if isinstance(size, int):
        return True
    atoms, number = affine.as_sum(size.expr)
    return number % (math.gcd(*atoms.values()) or 1) == 0


def _require_answer(left: "Size", sign: str, right: "Size") -> bool:
    """Return the provable result of a comparison; raise InputError without one."""
    answer = compare_sizes(left, sign, right)
    if answer is None:
        question = f"'{left} {sign} {right}'"
        raise undecided_error(question, "compare or branch on it")
    return answer


def undecided_error(what: str, wish: str, hint: str = "") -> InputError:
    """Return the error for Python code that needs a size before it is known.

    Args:
        what: it asks for.
        wish: to do with it.
        hint: what to do instead, before what helps with any of them.
    """
    return InputError(
        "symbolic-size",
        f"{what} is only known when the model runs, so Python cannot {wish}",
        hint=hint
        + "promise what decides it in the Spec (aotc.Dim with min, max, multiple_of), "
        "or use a fixed size, an entry for each kind of call (Dim's policy 'route:'), "
        "or aotc.jit; what each call decides is an array, aotc.numpy.asarray(size) in "
        "aotc.numpy.where, aotc.control.cond or fori_loop",
    )


def size_of(expr: AffineExpr) -> Size:
    """Return the size that an affine expression over symbols is, simplified."""
    expr = affine.simplify(expr)
    if isinstance(expr, ir.AffineConstantExpr):
        return int(expr.value)
    return SymbolicDim(expr)


def static_size(size: Size) -> int:
    """Return a size that is known to be a number."""
    assert isinstance(size, int)
    return size


def bounds(size: Size) -> intervals.Bounds:
    """Return a lower and an upper bound of `size`, by the known contracts."""
    return (size, size) if isinstance(size, int) else intervals.bounds(size.expr)


def optimum(size: Size) -> int | None:
    """Return `size` in typical calls; None if a symbol's optimum is unknown."""
    if isinstance(size, int):
        return size
    known = {symbol: symbol_optimum(symbol) for symbol in symbols_of(size)}
    if None in known.values():
        return None
    values = [known.get(symbol) or 0 for symbol in range(max(known, default=-1) + 1)]
    return affine.evaluate(size.expr, values)


def maximum(a: Size, b: Size) -> Size:
    """Return the larger size; one of the two if the contracts decide which."""
    difference = bounds(a - b)
    if difference[0] >= 0 or difference[1] <= 0:
        return a if difference[0] >= 0 else b
    return size_of(affine.maximum(_expr(a), _expr(b)))


def minimum(a: Size, b: Size) -> Size:
    """Return the smaller size; one of the two if the contracts decide which."""
    difference = bounds(a - b)
    if difference[0] >= 0 or difference[1] <= 0:
        return b if difference[0] >= 0 else a
    return size_of(affine.minimum(_expr(a), _expr(b)))


def ceil_divide(size: Size, by: Size) -> Size:
    """Return the quotient of sizes, rounded up."""
    return (size + (by - 1)) // by


def evaluate_size(size: Size, values: Sequence[int]) -> int:
    """Return the value of `size` where symbol i is `values[i]`."""
    return size if isinstance(size, int) else affine.evaluate(size.expr, values)


def symbols_of(size: Size) -> set[int]:
    """Return the indices of the symbols that `size` depends on."""
    return set() if isinstance(size, int) else affine.symbols_in(size.expr)


def is_linear(size: Size) -> bool:
    """Return whether a size is a sum of multiples of symbols and a number."""
    if isinstance(size, int):
        return True
    atoms, _ = affine.as_sum(size.expr)
    return all(isinstance(atom, ir.AffineSymbolExpr) for atom in atoms)


def element_count(shape: Shape) -> Size:
    """Return the product of all sizes of a shape; 1 for a scalar."""
    return _product(tuple(shape))


@remembered
def _product(sizes: Shape) -> Size:
    """Return the product of sizes, cached."""
    return math.prod(sizes)


def same_count(one: Shape, other: Shape) -> bool:
    """Return whether two shapes have equally many elements for all symbol values."""
    return factors(one) == factors(other) or (
        element_count(one) == element_count(other)
    )


def quotient(total: Shape, known: Shape) -> Size | None:
    """Return the element count of `total` divided by `known`'s; None if inexact."""
    (count, left), (by, right) = factors(total), factors(known)
    common = left & right
    left, right = left - common, right - common
    if by == 0 or count % by or right:
        return None
    return math.prod(map(size_of, left.elements()), start=count // by)


def factors(shape: Shape) -> tuple[int, Counter[Any]]:
    """Return the element count as a number and a multiset of affine expressions."""
    number = math.prod(size for size in shape if isinstance(size, int))
    count, symbolic = affine.factors(
        n.expr for n in shape if isinstance(n, SymbolicDim)
    )
    return number * count, symbolic


@remembered
def shape_map(shape: Shape) -> AffineMap:
    """Return a shape as an MLIR affine map: `affine_map<()[s0, …] -> (sizes)>`."""
    exprs = [_expr(size) for size in shape]
    return ir.AffineMap.get(0, affine.symbol_count(exprs), exprs)


@remembered
def shape_of_map(affine_map: AffineMap) -> Shape:
    """Return the shape of an affine map; the inverse of `shape_map`."""
    return tuple(size_of(expr) for expr in affine_map.results)


def format_shape(shape: Shape) -> str:
    """Return a shape as text for messages and the printer, such as `[batch, 784]`."""
    return f"[{', '.join(map(repr, shape))}]"


@dataclass(frozen=True)
class Tensor:
    """The type of a graph value: shape and dtype.

    `Tensor.of(value)` reads the type of an MLIR value, `to_mlir()` writes it; the two
    are inverse.
    """

    shape: Shape
    dtype: str

    def __post_init__(self) -> None:
        """Raise for negative sizes, and for a traced model's size objects."""
        if any(
            isinstance(size, SymbolicDim) and type(size) is not SymbolicDim
            for size in self.shape
        ):
            raise TypeError(f"expected the compiler's sizes; got {self.shape}")
        if any(isinstance(size, int) and size < 0 for size in self.shape):
            raise InputError(
                "bad-shape",
                f"expected sizes of 0 or more; got {format_shape(self.shape)}",
            )

    @property
    def elements(self) -> Size:
        """The number of elements, which may be symbolic."""
        return element_count(self.shape)

    @property
    def rank(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def is_static(self) -> bool:
        """Return whether all sizes are numbers."""
        return all(isinstance(size, int) for size in self.shape)

    @staticmethod
    def of(value: Value | Type) -> "Tensor":
        """Return the graph type of an MLIR value or MLIR type."""
        return _meaning(value if isinstance(value, ir.Type) else value.type)

    def to_mlir(self) -> ir.RankedTensorType:
        """Return the MLIR type `tensor<…>`, with an encoding if a size is symbolic."""
        return _spelling(self)

    def with_shape(self, shape: Sequence[Size]) -> "Tensor":
        """Return the type with another shape."""
        return Tensor(tuple(shape), self.dtype)

    def with_dtype(self, dtype: str) -> "Tensor":
        """Return the type with another dtype."""
        return Tensor(self.shape, dtype)

    def __str__(self) -> str:
        return f"{self.dtype}{format_shape(self.shape)}"


@remembered
def _meaning(mlir_type: Type) -> Tensor:
    """Return the graph type of an MLIR type; refuse all but ranked tensors."""
    if not isinstance(mlir_type, ir.RankedTensorType):
        raise InputError("bad-type", f"expected a ranked tensor; got {mlir_type}")
    encoding = mlir_type.encoding
    if encoding is None and not mlir_type.has_static_shape:
        raise InputError(
            "bad-type", f"expected {mlir_type} to say what its sizes are; see Dim"
        )
    shape = (
        tuple(mlir_type.shape)
        if encoding is None
        else shape_of_map(ir.AffineMapAttr(encoding).value)
    )
    return Tensor(shape, element_name(mlir_type.element_type))


@remembered
def _spelling(kind: Tensor) -> ir.RankedTensorType:
    """Return the MLIR type of a graph type."""
    element = element_type(kind.dtype)
    static = [size for size in kind.shape if isinstance(size, int)]
    if len(static) == kind.rank:
        return ir.RankedTensorType.get(static, element)
    dynamic = ir.ShapedType.get_dynamic_size()
    sizes = [size if isinstance(size, int) else dynamic for size in kind.shape]
    encoding = ir.AffineMapAttr.get(shape_map(kind.shape))
    return ir.RankedTensorType.get(sizes, element, encoding)


def element_type(dtype: str) -> Type:
    """Return the MLIR element type of a dtype: signless, `ui8` if unsigned."""
    if dtype in dtypes.UNSIGNED:
        return ir.IntegerType.get_unsigned(dtypes.bits(dtype))
    if dtype in dtypes.SIGNED:
        return ir.IntegerType.get_signless(dtypes.bits(dtype))
    simple: dict[str, Callable[[], Type]] = {
        "bool": lambda: ir.IntegerType.get_signless(1),
        "f16": ir.F16Type.get,
        "bf16": ir.BF16Type.get,
        "f32": ir.F32Type.get,
        "f64": ir.F64Type.get,
    }
    return simple[dtype]()


def element_name(element: Type) -> str:
    """Return the dtype of an MLIR element type; the inverse of `element_type`.

    The verifier asks for that of every operand and result after every pass, so it is
    not read from the type's text, which takes 20 times as long.
    """
    name = _FLOATS.get(type(element), "")
    if isinstance(element, ir.IntegerType) and not element.is_signed:
        name = f"{'u' if element.is_unsigned else 'i'}{element.width}"
    if name == "i1":
        return "bool"
    if name not in dtypes.NAMES:
        raise InputError(
            "unknown-dtype",
            f"tensors of MLIR type '{element}' are not part of the graph",
        )
    return name


_FLOATS: dict[type[Type], str] = {
    ir.F16Type: "f16",
    ir.BF16Type: "bf16",
    ir.F32Type: "f32",
    ir.F64Type: "f64",
}


def lowered_element(dtype: str) -> ElementType:
    """Return the MLIR element type of a dtype in lowered IR: integers are signless."""
    floats: dict[str, Callable[[], ElementType]] = {
        "f16": ir.F16Type.get,
        "bf16": ir.BF16Type.get,
        "f32": ir.F32Type.get,
        "f64": ir.F64Type.get,
    }
    if dtype in floats:
        return floats[dtype]()
    return ir.IntegerType.get_signless(1 if dtype == "bool" else dtypes.bits(dtype))


@remembered
def lowered_type(graph_type: Tensor) -> ir.RankedTensorType:
    """Return the MLIR type in lowered IR: no encoding, signless integers."""
    dynamic = ir.ShapedType.get_dynamic_size()
    sizes = [size if isinstance(size, int) else dynamic for size in graph_type.shape]
    return ir.RankedTensorType.get(sizes, lowered_element(graph_type.dtype))
