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
    """A data-dependent symbol: its run-time value `count` (i32) and its upper bound."""

    count: Array
    bound: Size


@dataclass
class _Symbols:
    """The data-dependent symbols of one imported model, and which are equal."""

    known: list[_Symbol] = field(default_factory=list)
    equal: dict[int, int] = field(default_factory=dict)  # symbol → an earlier one
    made: dict[Hashable, Any] = field(default_factory=dict)  # by what it is made of
    promise: Size | None = None


_current: ContextVar[_Symbols | None] = ContextVar("aotc_padded_sizes", default=None)


@contextmanager
def data_dependent_sizes() -> Iterator[None]:
    """Allow data-dependent sizes within this block, with a fresh set of symbols."""
    token = _current.set(_Symbols())
    try:
        yield
    finally:
        _current.reset(token)


def _symbols() -> _Symbols:
    """Return the data-dependent symbols of the current import."""
    found = _current.get()
    assert found is not None, "an importer enters data_dependent_sizes()"
    return found


@contextmanager
def promise_bound(bound: Size | None) -> Iterator[None]:
    """Bound data-dependent sizes made within this block by what the model promises."""
    symbols = _symbols()
    before, symbols.promise = symbols.promise, bound
    try:
        yield
    finally:
        symbols.promise = before


def new_size(count: Array, natural: Size | None) -> SymbolicDim:
    """Return a new symbolic size whose value is computed at run time.

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
    return _register_symbol(count, _not_none(bound))


def _not_none(size: Size | None) -> Size:
    """Return the size, narrowed in type; assert that it is not None."""
    assert size is not None
    return size


def _register_symbol(count: Array, bound: Size) -> SymbolicDim:
    """Register a data-dependent symbol; return it as a size."""
    symbols = _symbols()
    symbols.known.append(_Symbol(count, bound))
    return SymbolicDim.symbol(_FIRST + len(symbols.known) - 1)


def is_data_dependent(size: object) -> TypeGuard[SymbolicDim]:
    """Return whether a size is computed from data at run time."""
    if not isinstance(size, SymbolicDim):
        return False
    return any(number >= _FIRST for number in affine.symbols_in(size.expr))


def has_data_dependent(shape: Sequence[Any]) -> bool:
    """Return whether a size of a shape is computed from data at run time."""
    return any(map(is_data_dependent, shape))


# ---- what sizes are -----------------------------------------------------------------


def bound_of(size: Size) -> Size:
    """Return a data-dependent size's upper bound; other sizes as they are."""
    if not isinstance(size, SymbolicDim) or not is_data_dependent(size):
        return size
    return maximum(_bound_of_expression(size.expr), 0)


def bounds_of(shape: Shape) -> Shape:
    """Return a shape with data-dependent sizes replaced by their upper bounds."""
    return tuple(map(bound_of, shape))


def _bound_of_expression(expr: Any) -> Size:
    """Return an upper bound of an affine expression; subtracted terms count as 0."""
    expr = expr.maybe_downcast()
    if not is_data_dependent(SymbolicDim(expr)):
        return size_of(expr)
    if isinstance(expr, ir.AffineSymbolExpr):
        return _symbol_of(expr.position).bound
    if isinstance(expr, ir.AffineAddExpr):
        return _bound_of_expression(expr.lhs) + _bound_of_expression(expr.rhs)
    if isinstance(expr, ir.AffineMulExpr):
        by = expr.rhs.maybe_downcast()
        if isinstance(by, ir.AffineConstantExpr) and by.value < 0:
            return 0
        return _bound_of_expression(expr.lhs) * _bound_of_expression(expr.rhs)
    return _refuse_expression(expr)


def count_of(size: Size, dtype: str = "i64") -> Array:
    """Return the run-time value of a size as a scalar array."""
    if isinstance(size, int):
        return np.full((), size, dtype)
    if not is_data_dependent(size):
        return emit("dimension", size=(size,), dtype=dtype)
    return np.astype(_count_of_expression(size.expr), dtype)


def _count_of_expression(expr: Any) -> Array:
    """Return the run-time value of an affine expression as an i64 scalar."""
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
            return function(
                _count_of_expression(expr.lhs), _count_of_expression(expr.rhs)
            )
    return _refuse_expression(expr)


def _refuse_expression(expr: Any) -> NoReturn:
    """Refuse a data-dependent size that is no sum or product."""
    fail(
        "data-dependent-shape",
        f"the size '{shown_size(SymbolicDim(expr))}' depends on values, and is no sum "
        "or product of numbers and sizes",
        "compute a result of a simpler size",
    )


def _symbol_of(number: int) -> _Symbol:
    """Return the data-dependent symbol with a number."""
    return _symbols().known[number - _FIRST]


def shown_size(size: Size) -> str:
    """Return a size as text, with data-dependent symbols as u0, u1, …."""
    return shown_text(str(size))


def shown_text(text: str) -> str:
    """Return a message with data-dependent symbols renamed to u0, u1, …."""
    for number in range(len(_symbols().known)):
        text = text.replace(f"s{_FIRST + number}", f"u{number}")
    return text


def shown_shape(shape: Shape) -> str:
    """Return a shape as text, with data-dependent symbols as u0, u1, …."""
    return f"[{', '.join(map(shown_size, shape))}]"


# ---- which sizes are equal ----------------------------------------------------------


def canonical_size(size: Size) -> Size:
    """Return a size with each symbol replaced by the first one known to equal it."""
    if not isinstance(size, SymbolicDim) or not _symbols().equal:
        return size
    return size_of(_substitute(size.expr, _symbols().equal))


def _substitute(expr: Any, names: dict[int, int]) -> Any:
    """Return an affine expression with symbols renumbered."""
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
    """Check at run time that axes have `least` elements; rely on it within this block.

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
    """Check at run time that two sizes are equal; treat them as equal from here on.

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
    """Return the number of a data-dependent symbol; None for any other size."""
    if not isinstance(size, SymbolicDim) or not is_data_dependent(size):
        return None
    expr = size.expr.maybe_downcast()
    return int(expr.position) if isinstance(expr, ir.AffineSymbolExpr) else None


# ---- other sizes made of them -------------------------------------------------------


def smaller(a: Size, b: Size) -> Size:
    """Return the minimum of two sizes, a new data-dependent size if need be."""
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
    """Return the maximum of two sizes, a new data-dependent size if need be."""
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


def _lower_bound(size: Size) -> Size:
    """Return the least that a data-dependent size can be, 0; other sizes as
    they are.
    """
    return 0 if is_data_dependent(size) else size


def remaining_size(size: Size, taken: Size) -> Size:
    """Return `max(size - taken, 0)`, a new data-dependent size if need be."""
    if not has_data_dependent((size, taken)):
        return maximum(size - taken, 0)
    if taken == 0:
        return size
    if is_equal(size, taken):
        return 0
    return _derived_size(
        ("remaining", canonical_size(size), canonical_size(taken)),
        lambda: np.maximum(np.subtract(count_of(size), count_of(taken)), 0),
        maximum(bound_of(size) - _lower_bound(taken), 0),
    )


def is_at_most(a: Size, b: Size) -> bool:
    """Return whether one size is known to be at most another."""
    if isinstance(b, int) and b > LARGEST:
        return True
    return bounds(_lower_bound(b) - bound_of(a))[0] >= 0


def _derived_size(
    key: Hashable, count: Callable[[], Array], bound: Size
) -> SymbolicDim:
    """Return a data-dependent size computed by `count`, made once for each key."""

    def make() -> SymbolicDim:
        return _register_symbol(np.astype(count(), "i32"), bound)

    return made_once(key, make)


def made_once(key: Hashable, make: Callable[[], _T]) -> _T:
    """Return `make()`, cached by key within the current trace.

    What is made in the body of a loop or a branch does not leave it.
    """
    made = _symbols().made
    within = (current_trace(), key)
    if within not in made:
        made[within] = make()
    found: _T = made[within]
    return found
