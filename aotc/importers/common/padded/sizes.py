"""Sizes that values decide: symbols beside those of the contracts.

Each stands for a number that the running model computes, its count, and is at most its
bound, a size of the inputs. Arithmetic on them is that of `SymbolicDim`, so `3 * u0` is
equal to `u0 * 3` and `(u0, 3)` reshaped to `(-1,)` is `(3 * u0,)`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, NoReturn, TypeGuard, TypeVar

from aotc import debug
from aotc import numpy as np
from aotc.dialects.sizes import affine
from aotc.dialects.sizes.contracts import Contract
from aotc.dialects.sizes.symbols import current_contracts, known_contracts
from aotc.dialects.types import (
    Shape,
    Size,
    SymbolicDim,
    bounds,
    maximum,
    minimum,
    size_of,
    symbols_of,
)
from aotc.mlir import ir
from aotc.tracing.array import Array
from aotc.tracing.conversion import lift
from aotc.tracing.dims import LARGEST
from aotc.tracing.source_locations import fail
from aotc.tracing.tracing import current_trace, emit

_T = TypeVar("_T")
_FIRST = 256  # the first symbol; those before it are of contracts


@dataclass(frozen=True)
class _Symbol:
    """The value of a symbol: `count`, an i32 scalar, which is at most `bound`."""

    count: Array
    bound: Size


@dataclass
class _Symbols:
    """The symbols of one imported model."""

    known: list[_Symbol] = field(default_factory=list)
    equal: dict[int, int] = field(default_factory=dict)  # symbol → an earlier one
    made: dict[Hashable, Any] = field(default_factory=dict)  # by what it is made of
    promise: Size | None = None


_current: ContextVar[_Symbols | None] = ContextVar("aotc_padded_sizes", default=None)


@contextmanager
def data_dependent_sizes() -> Iterator[None]:
    """Allow sizes that depend on values within this block."""
    token = _current.set(_Symbols())
    try:
        yield
    finally:
        _current.reset(token)


def _symbols() -> _Symbols:
    found = _current.get()
    assert found is not None, "an importer enters data_dependent_sizes()"
    return found


@contextmanager
def promise_bound(bound: Size | None) -> Iterator[None]:
    """Use the model's promise that a new size is at most `bound` within this block."""
    symbols = _symbols()
    before, symbols.promise = symbols.promise, bound
    try:
        yield
    finally:
        symbols.promise = before


def new_size(count: Array, natural: Size | None) -> SymbolicDim:
    """A size that values decide.

    Args:
        count: what it is, an integer scalar of at least 0.
        natural: the most that it can be by how it is computed, if that is known. Where
            the model promises less, each call is held to that.

    Raises:
        InputError: nothing says what it is at most.
    """
    promise = _symbols().promise
    if natural is None and promise is None:
        fail(
            "data-dependent-shape",
            "the size of the result depends on values, and nothing says how large it "
            "can be",
            "promise it in the module: torch._check(n <= 64)",
        )
    count = np.astype(count, "i32")
    if natural is None or (promise is not None and bounds(promise - natural)[0] < 0):
        bound = promise if natural is None else minimum(natural, _not_none(promise))
        text = f"at most {promise} elements, as the model promises"
        debug.check(np.less_equal(count, lift(bound, "i32")), text)
    else:
        bound = natural
    return _symbol(count, _not_none(bound))


def _not_none(size: Size | None) -> Size:
    assert size is not None
    return size


def _symbol(count: Array, bound: Size) -> SymbolicDim:
    symbols = _symbols()
    symbols.known.append(_Symbol(count, bound))
    return SymbolicDim.symbol(_FIRST + len(symbols.known) - 1)


def is_data_dependent(size: object) -> TypeGuard[SymbolicDim]:
    """Return whether values decide a size."""
    if not isinstance(size, SymbolicDim):
        return False
    return any(number >= _FIRST for number in affine.symbols_in(size.expr))


def has_data_dependent(shape: Sequence[Any]) -> bool:
    """Return whether values decide one of these sizes."""
    return any(map(is_data_dependent, shape))


# ---- what sizes are -----------------------------------------------------------------


def bound_of(size: Size) -> Size:
    """Return the upper bound of a data-dependent size; other sizes unchanged."""
    if not isinstance(size, SymbolicDim) or not is_data_dependent(size):
        return size
    return maximum(_bound(size.expr), 0)


def bounds_of(shape: Shape) -> Shape:
    """The most that each size of a shape can be."""
    return tuple(map(bound_of, shape))


def _bound(expr: Any) -> Size:
    """Return an upper bound of an expression; subtracted terms are at least 0."""
    expr = expr.maybe_downcast()
    if not is_data_dependent(SymbolicDim(expr)):
        return size_of(expr)
    if isinstance(expr, ir.AffineSymbolExpr):
        return _symbol_of(expr.position).bound
    if isinstance(expr, ir.AffineAddExpr):
        return _bound(expr.lhs) + _bound(expr.rhs)
    if isinstance(expr, ir.AffineMulExpr):
        by = expr.rhs.maybe_downcast()
        if isinstance(by, ir.AffineConstantExpr) and by.value < 0:
            return 0
        return _bound(expr.lhs) * _bound(expr.rhs)
    return _refuse_expression(expr)


def count_of(size: Size, dtype: str = "i64") -> Array:
    """Return a size at run time, as a scalar."""
    if isinstance(size, int):
        return np.full((), size, dtype)
    if not is_data_dependent(size):
        return emit("dimension", size=(size,), dtype=dtype)
    return np.astype(_count(size.expr), dtype)


def _count(expr: Any) -> Array:
    """Return the value of an expression at run time, as an i64 scalar."""
    expr = expr.maybe_downcast()
    if not is_data_dependent(SymbolicDim(expr)):
        return count_of(size_of(expr))
    if isinstance(expr, ir.AffineSymbolExpr):
        return np.astype(_symbol_of(expr.position).count, "i64")
    for kind, function in (
        (ir.AffineAddExpr, np.add),
        (ir.AffineMulExpr, np.multiply),
        (ir.AffineFloorDivExpr, np.floor_divide),
        (ir.AffineModExpr, np.remainder),
    ):
        if isinstance(expr, kind):
            return function(_count(expr.lhs), _count(expr.rhs))
    return _refuse_expression(expr)


def _refuse_expression(expr: Any) -> NoReturn:
    fail(
        "data-dependent-shape",
        f"the size '{shown_size(SymbolicDim(expr))}' depends on values, and is no sum "
        "or product of numbers and sizes",
        "compute a result of a simpler size",
    )


def _symbol_of(number: int) -> _Symbol:
    return _symbols().known[number - _FIRST]


def shown_size(size: Size) -> str:
    """Return a size for messages, with u0, u1, … for sizes that values decide."""
    return shown_text(str(size))


def shown_text(text: str) -> str:
    """Return a message with u0, u1, … for the symbols of sizes that values decide."""
    for number in range(len(_symbols().known)):
        text = text.replace(f"s{_FIRST + number}", f"u{number}")
    return text


def shown_shape(shape: Shape) -> str:
    """Return the text of a shape in messages."""
    return f"[{', '.join(map(shown_size, shape))}]"


# ---- which sizes are equal ----------------------------------------------------------


def canonical_size(size: Size) -> Size:
    """The size in the first symbols of all those that are equal."""
    if not isinstance(size, SymbolicDim) or not _symbols().equal:
        return size
    return size_of(_substitute(size.expr, _symbols().equal))


def _substitute(expr: Any, names: dict[int, int]) -> Any:
    expr = expr.maybe_downcast()
    if isinstance(expr, ir.AffineSymbolExpr):
        number = int(expr.position)
        return ir.AffineSymbolExpr.get(names.get(number, number))
    if not isinstance(expr, ir.AffineBinaryExpr):
        return expr
    left, right = _substitute(expr.lhs, names), _substitute(expr.rhs, names)
    kinds = {
        ir.AffineAddExpr: ir.AffineAddExpr.get,
        ir.AffineMulExpr: ir.AffineMulExpr.get,
        ir.AffineFloorDivExpr: ir.AffineFloorDivExpr.get,
        ir.AffineModExpr: ir.AffineModExpr.get,
    }
    return next(make for kind, make in kinds.items() if isinstance(expr, kind))(
        left, right
    )


def is_equal(a: Size, b: Size) -> bool:
    """Return whether two sizes are known to be equal."""
    return canonical_size(a) == canonical_size(b)


@contextmanager
def require_elements(sizes: Sequence[Size], least: int = 1) -> Iterator[None]:
    """Hold each call to axes of these sizes having elements, known within this block.

    As no term of a size is negative, one of them is taken to be as much alone.
    """
    some = set()
    for size in filter(is_data_dependent, sizes):
        enough = np.greater_equal(count_of(size, "i32"), least)
        noun = "one element" if least == 1 else f"{least} elements"
        debug.check(enough, f"at least {noun}, of which the extreme is taken")
        some.add(min(n for n in symbols_of(canonical_size(size)) if n >= _FIRST))
    known = current_contracts()
    if some:
        known += (Contract("", 0),) * (_FIRST - len(known))
        numbers = range(_FIRST, max(some) + 1)
        known += tuple(Contract(f"u{n - _FIRST}", least * (n in some)) for n in numbers)
    with known_contracts(known):
        yield


def equate(a: Size, b: Size) -> None:
    """Hold each call to two sizes being equal; from then on they are known to be.

    Raises:
        InputError: they are not of one bound, so that arrays of them do not fit.
    """
    one, other = canonical_size(a), canonical_size(b)
    if one == other:
        return
    numbers = [_number_of(size) for size in (one, other)]
    if None in numbers or bound_of(one) != bound_of(other):
        fail(
            "data-dependent-shape",
            f"sizes that depend on values are expected to be equal, "
            f"'{shown_size(one)}' and '{shown_size(other)}', but they are at most "
            f"{bound_of(one)} and {bound_of(other)}",
            "take both from the same positions, torch.where(mask), instead of twice "
            "from a mask",
        )
    text = f"{shown_size(one)} and {shown_size(other)} elements, which must be equal"
    debug.check(np.equal(count_of(one), count_of(other)), text)
    first, second = sorted(number for number in numbers if number is not None)
    symbols = _symbols()
    symbols.equal = {
        **{k: first if v == second else v for k, v in symbols.equal.items()},
        second: first,
    }


def _number_of(size: Size) -> int | None:
    """The number of the symbol that a size is, if it is one that values decide."""
    if not isinstance(size, SymbolicDim) or not is_data_dependent(size):
        return None
    expr = size.expr.maybe_downcast()
    return int(expr.position) if isinstance(expr, ir.AffineSymbolExpr) else None


# ---- other sizes made of them -------------------------------------------------------


def smaller(a: Size, b: Size) -> Size:
    """The smaller size of two."""
    if not has_data_dependent((a, b)):
        return minimum(a, b)
    if is_equal(a, b) or is_at_most(a, b):
        return a
    if is_at_most(b, a):
        return b
    return _derived_size(
        ("smaller", canonical_size(a), canonical_size(b)),
        lambda: np.minimum(count_of(a), count_of(b)),
        minimum(bound_of(a), bound_of(b)),
    )


def larger(a: Size, b: Size) -> Size:
    """The larger size of two."""
    if not has_data_dependent((a, b)):
        return maximum(a, b)
    if is_equal(a, b) or is_at_most(b, a):
        return a
    if is_at_most(a, b):
        return b
    return _derived_size(
        ("larger", canonical_size(a), canonical_size(b)),
        lambda: np.maximum(count_of(a), count_of(b)),
        maximum(bound_of(a), bound_of(b)),
    )


def _least(size: Size) -> Size:
    return 0 if is_data_dependent(size) else size


def remaining_size(size: Size, taken: Size) -> Size:
    """Subtract one size from another, down to 0 at least."""
    if not has_data_dependent((size, taken)):
        return maximum(size - taken, 0)
    if taken == 0:
        return size
    if is_equal(size, taken):
        return 0
    return _derived_size(
        ("remaining", canonical_size(size), canonical_size(taken)),
        lambda: np.maximum(np.subtract(count_of(size), count_of(taken)), 0),
        maximum(bound_of(size) - _least(taken), 0),
    )


def is_at_most(a: Size, b: Size) -> bool:
    """Return whether one size is known to be at most another."""
    if isinstance(b, int) and b > LARGEST:
        return True
    return bounds(_least(b) - bound_of(a))[0] >= 0


def _derived_size(
    key: Hashable, count: Callable[[], Array], bound: Size
) -> SymbolicDim:
    def make() -> SymbolicDim:
        return _symbol(np.astype(count(), "i32"), bound)

    return made_once(key, make)


def made_once(key: Hashable, make: Callable[[], _T]) -> _T:
    """Return the result of `make` for `key`, computed once in each trace.

    What is made in the body of a loop or a branch does not leave it.
    """
    made = _symbols().made
    within = (current_trace(), key)
    if within not in made:
        made[within] = make()
    found: _T = made[within]
    return found
