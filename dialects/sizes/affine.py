"""Affine expressions over symbols, of which sizes consist.

MLIR keeps them simplified and compares them; this file evaluates and prints them, and
says `max` and `min` in them.

Note [minimum and maximum]: affine expressions have no max. They can say it: for every
y of less than 2**61 in size, `y floordiv (2**61 - 1)` is -1 where y is negative and 0
elsewhere, so `y * (y floordiv (2**61 - 1))` is max(-y, 0). From that,

    max(a, b) = a + max(b - a, 0)        min(a, b) = a - max(a - b, 0)

and of max(d, 0) = d + max(-d, 0) one spelling is chosen. So a maximum is an expression
like any other: equal ones are equal types, min(n, 3) + max(n - 3, 0) is n, and neither
passes nor control flow need to know. (The divisor is prime, so MLIR cancels no factor.)
`extremum` reads the spelling back, for bounds, printing and lowering.
"""

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any, TypeGuard

from aotc.dialects.sizes.symbols import contract_of
from aotc.mlir import AffineExpr, ir

Expr = AffineExpr
Atoms = dict[Expr, Any]

_HUGE = 2**61 - 1
_ROUNDS = 8  # of simplification, in case two spellings alternate


def constant(value: int) -> Expr:
    """Return an integer as an affine expression."""
    return ir.AffineConstantExpr.get(value)


@lru_cache(maxsize=2**16)
def simplify(expr: Expr) -> Expr:
    """Return an expression simplified by MLIR until nothing changes.

    A quotient of what is negated is spelled as one that is rounded up: -(-n // 8) as
    (n + 7) // 8.
    """
    count = symbol_count([expr])
    with expr.context:  # types are read where no context is entered, too
        for _ in range(_ROUNDS):
            before = expr
            expr = ir.AffineExpr.simplify_affine_expr(
                _round_up_quotients(expr), 0, count
            )
            if expr == before:
                break
        found: Expr = _order_products(expr).maybe_downcast()
        return found


def _order_products(expr: Expr) -> Expr:
    """Return an expression with the symbols of each product sorted.

    MLIR writes a product of three symbols in one order or another, and another one each
    time that it simplifies it.
    """
    expr = expr.maybe_downcast()
    ordered: Expr = expr
    if isinstance(expr, ir.AffineAddExpr):
        ordered = _order_products(expr.lhs) + _order_products(expr.rhs)
    if not isinstance(expr, ir.AffineMulExpr):
        return ordered
    number, symbols, rest = 1, [], [expr]
    while rest:
        each = rest.pop().maybe_downcast()
        if isinstance(each, ir.AffineMulExpr):
            rest += [each.lhs, each.rhs]
        elif isinstance(each, ir.AffineConstantExpr):
            number *= each.value
        elif isinstance(each, ir.AffineSymbolExpr):
            symbols.append(each)
        else:
            return ordered
    ordered = constant(1)
    for symbol in sorted(symbols, key=lambda symbol: symbol.position):
        ordered = ordered * symbol
    return ordered * number


def _round_up_quotients(expr: Expr) -> Expr:
    """Return an expression with each (-a) // b in a sum as -((a + b - 1) // b)."""
    atoms, number = as_sum(expr)
    negated = {
        atom: up for atom in atoms if (up := _negated_quotient(atom)) is not None
    }
    if not negated:
        return expr
    total = constant(number)
    for atom, factor in atoms.items():
        up = negated.get(atom)
        total = total + (atom * factor if up is None else up * -factor)
    return total


def _negated_quotient(atom: Expr) -> Expr | None:
    """Return (a + b - 1) // b for an atom (-a) // b; None for other atoms."""
    if not isinstance(atom, ir.AffineFloorDivExpr):
        return None
    by = atom.rhs.maybe_downcast()
    if _is_huge(by):  # see Note [minimum and maximum]
        return None
    atoms, _ = as_sum(atom.lhs)
    if not atoms or any(factor > 0 for factor in atoms.values()):
        return None
    return ir.AffineExpr.get_floor_div(atom.lhs * -1 + by + -1, by)


def _is_huge(expr: Expr) -> bool:
    """Return whether an expression is the number `_HUGE`; needs no active context."""
    number = expr.maybe_downcast()
    return isinstance(number, ir.AffineConstantExpr) and number.value == _HUGE


def is_number(expr: Expr) -> TypeGuard[ir.AffineConstantExpr]:
    """Return whether the expression is a number."""
    return isinstance(expr.maybe_downcast(), ir.AffineConstantExpr)


def symbol_count(exprs: Iterable[Expr]) -> int:
    """Return one more than the highest symbol that any of `exprs` mentions."""
    return max((max(symbols_in(expr), default=-1) + 1 for expr in exprs), default=0)


def symbols_in(expr: Expr) -> set[int]:
    """Return the indices of the symbols in an expression."""
    expr = expr.maybe_downcast()
    if isinstance(expr, ir.AffineSymbolExpr):
        return {int(expr.position)}
    if isinstance(expr, ir.AffineBinaryExpr):
        return symbols_in(expr.lhs) | symbols_in(expr.rhs)
    return set()


# ---- values -------------------------------------------------------------------------

_BINARY: list[tuple[Any, Callable[[int, int], int]]] = [
    (ir.AffineAddExpr, lambda a, b: a + b),
    (ir.AffineMulExpr, lambda a, b: a * b),
    (ir.AffineFloorDivExpr, lambda a, b: a // b),
    (ir.AffineCeilDivExpr, lambda a, b: -(-a // b)),
    (ir.AffineModExpr, lambda a, b: a % b),
]


def evaluate(expr: Expr, values: Sequence[int]) -> int:
    """Return the value of `expr` where symbol i is `values[i]`."""
    node = expr.maybe_downcast()
    if isinstance(node, ir.AffineConstantExpr):
        return node.value
    if isinstance(node, ir.AffineSymbolExpr):
        return int(values[node.position])
    left, right = evaluate(node.lhs, values), evaluate(node.rhs, values)
    return next(rule for kind, rule in _BINARY if isinstance(node, kind))(left, right)


_REBUILD: list[tuple[Any, Callable[[Expr, Expr], Expr]]] = [
    (ir.AffineAddExpr, lambda a, b: a + b),
    (ir.AffineMulExpr, lambda a, b: a * b),
    (ir.AffineFloorDivExpr, ir.AffineExpr.get_floor_div),
    (ir.AffineCeilDivExpr, ir.AffineExpr.get_ceil_div),
    (ir.AffineModExpr, ir.AffineExpr.get_mod),
]


def substitute(expr: Expr, symbols: Sequence[Expr]) -> Expr:
    """Return `expr` with `symbols[i]` in the place of symbol i, simplified."""

    def rebuild(expr: Expr) -> Expr:
        node = expr.maybe_downcast()
        if isinstance(node, ir.AffineConstantExpr):
            return node
        if isinstance(node, ir.AffineSymbolExpr):
            return symbols[int(node.position)]
        left, right = rebuild(node.lhs), rebuild(node.rhs)
        make = next(rule for kind, rule in _REBUILD if isinstance(node, kind))
        return make(left, right)

    found: Expr = simplify(rebuild(expr))
    return found


# ---- sums ---------------------------------------------------------------------------


def as_sum(expr: Expr) -> tuple[Atoms, int]:
    """Return an expression as {atom: factor} and a number; atoms are not sums.

    `s0 * 2 + s0 floordiv 3 - 1` gives `({s0: 2, s0 floordiv 3: 1}, -1)`.
    """
    atoms: Atoms = {}
    number = _add_terms(expr, 1, atoms)
    return {atom: factor for atom, factor in atoms.items() if factor}, number


def _add_terms(expr: Expr, factor: int, atoms: Atoms) -> int:
    """Add the terms of `factor * expr` to `atoms`; return the constant term."""
    expr = expr.maybe_downcast()
    if isinstance(expr, ir.AffineConstantExpr):
        return factor * int(expr.value)
    if isinstance(expr, ir.AffineAddExpr):
        left = _add_terms(expr.lhs, factor, atoms)
        return left + _add_terms(expr.rhs, factor, atoms)
    if isinstance(expr, ir.AffineMulExpr):
        by = expr.rhs.maybe_downcast()
        if isinstance(by, ir.AffineConstantExpr):
            return _add_terms(expr.lhs, factor * int(by.value), atoms)
    atoms[expr] = atoms.get(expr, 0) + factor
    return 0


def as_difference(expr: Expr) -> tuple[Expr, Expr]:
    """Return two expressions without negative terms whose difference is `expr`."""
    atoms, number = as_sum(expr)
    added = {atom: factor for atom, factor in atoms.items() if factor > 0}
    taken = {atom: -factor for atom, factor in atoms.items() if factor < 0}
    return _sum_of(added, max(number, 0)), _sum_of(taken, max(-number, 0))


def is_misjudged(expr: Expr) -> bool:
    """Return whether IREE would compute a wrong divisor of an expression, or a part.

    Note [multiples less a number]: IREE 3.13 takes the greatest common divisor of the
    terms of a sum, of negative ones as unsigned 64-bit numbers: of `3 * n - 1` that of
    3 and 2**64 - 1, which is 3. Code for GPUs that believes it leaves out the last
    elements of a tensor of such a size. With a subtraction in the place of the negative
    term it makes no claim.
    """
    expr = expr.maybe_downcast()
    atoms, number = as_sum(expr)
    if atoms != {expr: 1}:
        terms = [*atoms.values(), number]
        claimed = math.gcd(*(term % 2**64 for term in terms))
        if claimed and math.gcd(*terms) % claimed:
            return True
        return any(map(is_misjudged, atoms))
    if not isinstance(expr, ir.AffineBinaryExpr):
        return False
    return is_misjudged(expr.lhs) or is_misjudged(expr.rhs)


def _sum_of(atoms: Atoms, number: int) -> Expr:
    """Return the expression of a sum of atoms times factors and a number."""
    total = constant(number)
    for atom, factor in atoms.items():
        total = total + atom * factor
    return simplify(total)


def factors(exprs: Iterable[Expr]) -> tuple[int, Counter[Expr]]:
    """Return the product of `exprs` as a number and a multiset of symbolic factors.

    (MLIR neither orders products nor multiplies them out.)
    """
    number, symbolic = 1, Counter[Expr]()
    rest = [simplify(expr) for expr in exprs]
    while rest:
        expr = rest.pop()
        if isinstance(expr, ir.AffineMulExpr) and above_zero_of(expr) is None:
            rest += [expr.lhs.maybe_downcast(), expr.rhs.maybe_downcast()]
            continue
        atoms, left = as_sum(expr)
        common = math.gcd(left, *atoms.values())
        number *= common if atoms else left
        if atoms:
            parts = {atom: factor // common for atom, factor in atoms.items()}
            symbolic[expr if common == 1 else _sum_of(parts, left // common)] += 1
    return number, symbolic


# ---- minimum and maximum ------------------------------------------------------------


def maximum(a: Expr, b: Expr) -> Expr:
    """Return max(a, b) as an expression; see Note [minimum and maximum]."""
    return simplify(a + _above_zero(simplify(b + a * -1)))


def minimum(a: Expr, b: Expr) -> Expr:
    """Return min(a, b) as an expression; see Note [minimum and maximum]."""
    return simplify(a + _above_zero(simplify(a + b * -1)) * -1)


def _above_zero(d: Expr) -> Expr:
    """Return max(d, 0) in one spelling for all multiples of d and -d."""
    atoms, number = as_sum(d)
    common = math.gcd(number, *atoms.values())
    if not atoms:
        return constant(max(number, 0))
    nested = above_zero_of(*atoms) if len(atoms) == 1 else None
    if nested is not None:  # max(max(e, 0) - 1, 0) is max(e - 1, 0)
        (factor,) = atoms.values()
        if factor == 1 and number <= 0:
            return _above_zero(simplify(nested + number))
        if factor == -1 and number >= 0:
            return d + _above_zero(simplify(nested + -number))
    part = {atom: factor // common for atom, factor in atoms.items()}
    up = _sum_of(part, number // common)
    down = _sum_of({atom: -factor for atom, factor in part.items()}, -number // common)
    if str(down) < str(up):
        return _negative_part(down) * common
    return (up + _negative_part(up)) * common


def _negative_part(y: Expr) -> Expr:
    """Return max(-y, 0) as an expression."""
    return y * ir.AffineExpr.get_floor_div(y, constant(_HUGE))


def above_zero_of(expr: Expr) -> Expr | None:
    """Return the d of an expression that is spelled max(d, 0), or None."""
    if not isinstance(expr, ir.AffineMulExpr):
        return None
    sign = expr.rhs.maybe_downcast()
    if not isinstance(sign, ir.AffineFloorDivExpr) or sign.lhs != expr.lhs:
        return None
    return simplify(expr.lhs * -1) if _is_huge(sign.rhs) else None


def has_extremum(expr: Expr) -> bool:
    """Return whether the expression has a minimum or maximum anywhere in it."""
    if not isinstance(expr, ir.AffineBinaryExpr):
        return False
    parts = (expr.lhs.maybe_downcast(), expr.rhs.maybe_downcast())
    return above_zero_of(expr) is not None or any(map(has_extremum, parts))


def extremum(expr: Expr) -> tuple[str, Expr, Expr] | None:
    """Return ("max" or "min", a, b) if `expr` is the maximum or minimum of a, b."""
    atoms, number = as_sum(expr)
    found = {
        atom: d
        for atom, factor in atoms.items()
        if factor in (1, -1) and (d := above_zero_of(atom)) is not None
    }
    if not found:
        return None
    return _match_clamp(atoms, number, found) or _outermost(atoms, number, found)


def _outermost(atoms: Atoms, number: int, found: Atoms) -> tuple[str, Expr, Expr]:
    """Return ("max" or "min", a, b) for `rest + max(d, 0)` or `rest - max(d, 0)`.

    Others are nested in the longest.
    """
    outer = max(found, key=lambda atom: len(str(atom)))
    factor = atoms.pop(outer)
    rest = _sum_of(atoms, number)
    other = simplify(rest + found[outer] * factor)
    return ("max", other, rest) if factor == 1 else ("min", rest, other)


def _match_clamp(
    atoms: Atoms, number: int, found: Atoms
) -> tuple[str, Expr, Expr] | None:
    """Return ("min" or "max", a, b) for `max(d, 0) - max(d - c, 0)`, or None.

    It is min(max(d, 0), c) for a number c >= 0.
    """
    for upper, lower in itertools.permutations(found, 2):
        limit = simplify(found[upper] + found[lower] * -1)
        if (atoms[upper], atoms[lower]) == (1, -1) and is_number(limit):
            kept = lower if limit.value < 0 else upper
            rest = _sum_of(_drop_atoms(atoms, upper, lower), number)
            both = simplify(rest + kept * atoms[kept]), simplify(rest + limit)
            return ("max" if limit.value < 0 else "min", *both)
    return None


def _drop_atoms(atoms: Atoms, *gone: Expr) -> Atoms:
    """Return the atoms of a sum without those of `gone`."""
    return {atom: factor for atom, factor in atoms.items() if atom not in gone}


# ---- text ---------------------------------------------------------------------------


def text(expr: Expr) -> str:
    """Return an expression as text with symbol names: `n * 2 - 1`, `min(n, 3)`.

    The manifest holds this text, and `aotc.artifacts.shapes.SizeExpression` reads it.
    """
    found = extremum(expr)
    if found is not None:
        kind, a, b = found
        return f"{kind}({text(a)}, {text(b)})"
    atoms, number = as_sum(expr)
    plus = [_term(atom, factor) for atom, factor in atoms.items() if factor > 0]
    minus = [_term(atom, -factor) for atom, factor in atoms.items() if factor < 0]
    if number >= 0:
        plus += [str(number)] if number or not atoms else []
    else:
        minus.append(str(-number))
    return " - ".join([" + ".join(plus) or "0", *minus])


def _term(atom: Expr, factor: int) -> str:
    """Return the text of a positive multiple of an atom."""
    if isinstance(atom, ir.AffineSymbolExpr):
        step = _step(atom.position)
        if factor % step == 0:
            return _times(_name(atom.position), factor // step)
        if step % factor == 0:
            return f"{_name(atom.position)} // {step // factor}"
    words = _atom(atom)
    mixed = factor > 1 and ("//" in words or "%" in words)
    return _times(f"({words})" if mixed else words, factor)


def _times(words: str, factor: int) -> str:
    """Return the text of a product with a number; that of the factor 1 is left out."""
    return words if factor == 1 else f"{words} * {factor}"


def _name(position: int) -> str:
    """Return the name of a symbol; `s0` for one without a contract."""
    contract = contract_of(position)
    return f"s{position}" if contract is None else contract.name


def _step(position: int) -> int:
    """Return the `multiple_of` of a symbol's contract; 1 without a contract."""
    contract = contract_of(position)
    return 1 if contract is None else contract.multiple_of


_SIGNS = [
    (ir.AffineMulExpr, "*"),
    (ir.AffineFloorDivExpr, "//"),
    (ir.AffineModExpr, "%"),
]


def _atom(atom: Expr) -> str:
    """Return the text of an expression that is no sum."""
    if isinstance(atom, ir.AffineSymbolExpr):
        return f"{_name(atom.position)} // {_step(atom.position)}"
    if above_zero_of(atom) is not None:
        return text(atom)
    assert isinstance(atom, ir.AffineBinaryExpr)
    left, right = _factor(atom.lhs), _factor(atom.rhs)
    if isinstance(atom, ir.AffineCeilDivExpr):
        return f"({left} + {right} - 1) // {right}"
    return f"{left} {next(s for kind, s in _SIGNS if isinstance(atom, kind))} {right}"


def _factor(expr: Expr) -> str:
    """Return the text of an operand, in parentheses unless it is one word."""
    words = text(expr.maybe_downcast())
    plain = words.isidentifier() or words.isdigit() or extremum(expr) is not None
    return words if plain else f"({words})"
