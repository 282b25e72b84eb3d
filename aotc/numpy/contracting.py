"""`aotc.numpy.einsum`: sums of products by labelled axes, as a chain of `dot_general`.

The order of pairs is the one with the fewest products, searched as by opt_einsum (Smith
and Gray, "opt_einsum - A Python package for optimizing contraction order for
einsum-like expressions", JOSS 2018): all orders for few operands, greedily for more.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from aotc.dialects.types import Size, SymbolicDim, bounds
from aotc.numpy.diagonals import diagonal
from aotc.numpy.products import dot_general
from aotc.numpy.reducing import sum as total
from aotc.numpy.shaping import squeeze, transpose
from aotc.tracing.array import Array
from aotc.tracing.conversion import ArrayLike, one_dtype
from aotc.tracing.source_locations import fail

__all__ = ["einsum"]

Labels = list[str]

# how large a size without an upper bound is taken to be
_TYPICAL = 128

# of so many operands every order is tried
_SEARCHED = 6


@dataclass(frozen=True)
class _Term:
    """An operand or intermediate result of an einsum, with one label per axis."""

    labels: Labels
    array: Array


def einsum(subscripts: str, /, *operands: ArrayLike) -> Array:
    """Sum products by Einstein's notation: one letter per axis.

    Letters that stand twice for one operand take its diagonal; `...` stands for axes
    that broadcast; without an arrow the letters that stand once are kept, in order.
    """
    if not isinstance(subscripts, str):
        fail("bad-subscripts", f"expected text such as 'ij,jk->ik'; got {subscripts!r}")
    arrays = one_dtype(*operands)
    inputs, output = _parse_subscripts(subscripts, arrays)
    terms = [_Term(*each) for each in zip(inputs, arrays, strict=True)]
    terms = _without_stretched_axes([_take_diagonals(term) for term in terms])
    while len(terms) > 1:
        terms = _contract_pair(terms, output)
    (result,) = (_sum_unused_axes(term, set(output)) for term in terms)
    return transpose(result.array, [result.labels.index(label) for label in output])


# ---- notation -----------------------------------------------------------------------


def _parse_subscripts(
    subscripts: str, arrays: Sequence[Array]
) -> tuple[list[Labels], Labels]:
    """Return the axis labels of each operand and of the result of an einsum."""
    left, arrow, right = subscripts.replace(" ", "").partition("->")
    texts = left.split(",")
    if len(texts) != len(arrays):
        fail(
            "bad-subscripts",
            f"'{subscripts}' is for {len(texts)} arrays; got {len(arrays)}",
        )
    inputs = [_labels(text, array) for text, array in zip(texts, arrays, strict=True)]
    used = [label for labels in inputs for label in labels]
    dots = sorted({label for label in used if label.startswith(".")}, reverse=True)
    if arrow:
        output = _split_dots(right, dots)
    else:
        output = dots + sorted(
            c for c in set(left) if c.isalpha() and left.count(c) == 1
        )
    if not set(dots) <= set(output):
        fail("bad-subscripts", f"'...' is missing in the result; got '{subscripts}'")
    if len(set(output)) != len(output) or not set(output) <= set(used):
        fail(
            "bad-subscripts",
            f"expected each letter of the result once, and in an operand; got "
            f"'{subscripts}'",
        )
    return inputs, output


def _labels(text: str, array: Array) -> Labels:
    """Return one label per axis of an operand; raise if the subscripts do not fit."""
    named = len(text.replace("...", ""))
    hidden = array.ndim - named
    fits = hidden >= 0 if "..." in text else hidden == 0
    if not fits:
        fail("bad-subscripts", f"'{text}' does not name each axis of {array.type} once")
    return _split_dots(text, [f".{place}" for place in reversed(range(hidden))])


def _split_dots(text: str, dots: Labels) -> Labels:
    """Return one label per axis; those of `...` count from its end, as broadcasting
    does.
    """
    before, ellipsis, after = text.partition("...")
    if not all(c.isalpha() and c.isascii() for c in before + after):
        fail("bad-subscripts", f"expected letters and one '...'; got '{text}'")
    return [*before, *(dots if ellipsis else []), *after]


# ---- one operand --------------------------------------------------------------------


def _take_diagonals(term: _Term) -> _Term:
    """Return the operand with repeated labels merged, by taking diagonals."""
    labels, array = list(term.labels), term.array
    for label in dict.fromkeys(term.labels):
        while labels.count(label) > 1:
            first = labels.index(label)
            second = labels.index(label, first + 1)
            if array.type.shape[first] != array.type.shape[second]:
                fail(
                    "shape-mismatch",
                    f"'{label}' stands for the sizes {array.type.shape[first]} and "
                    f"{array.type.shape[second]} of {array.type}",
                )
            array = diagonal(array, 0, first, second)
            del labels[second], labels[first]
            labels.append(label)
    return _Term(labels, array)


def _without_stretched_axes(terms: list[_Term]) -> list[_Term]:
    """Return the terms without axes of size 1 that broadcast to another term's axis."""
    sizes: dict[str, Size] = {}
    for term in terms:
        for label, size in zip(term.labels, term.array.type.shape, strict=True):
            known = sizes.setdefault(label, size)
            if known == 1:
                sizes[label] = size
            elif size not in (1, known):
                name = "..." if label.startswith(".") else label
                fail(
                    "shape-mismatch",
                    f"'{name}' stands for sizes {known} and {size}, which are not "
                    "provably equal",
                )
    return [_without_unit_axes(term, sizes) for term in terms]


def _without_unit_axes(term: _Term, sizes: dict[str, Size]) -> _Term:
    """Drop an operand's axes of size 1 whose label has another size."""
    pairs = list(zip(term.labels, term.array.type.shape, strict=True))
    axes = [i for i, (label, n) in enumerate(pairs) if n == 1 and sizes[label] != 1]
    kept = [label for i, label in enumerate(term.labels) if i not in axes]
    return _Term(kept, squeeze(term.array, axes) if axes else term.array)


def _sum_unused_axes(term: _Term, kept: set[str]) -> _Term:
    """Sum an operand over axes whose labels are not in `kept`."""
    gone = [axis for axis, label in enumerate(term.labels) if label not in kept]
    if not gone:
        return term
    rest = [label for label in term.labels if label in kept]
    return _Term(rest, total(term.array, tuple(gone)))


# ---- two operands -------------------------------------------------------------------


def _contract_pair(terms: list[_Term], output: Labels) -> list[_Term]:
    """Return the terms with the cheapest pair replaced by its product, put last."""
    sizes = {
        label: _typical(size)
        for term in terms
        for label, size in zip(term.labels, term.array.shape, strict=True)
    }
    labels = tuple(frozenset(term.labels) for term in terms)
    _, pair = _cheapest(labels, frozenset(output), sizes)
    rest = [term for number, term in enumerate(terms) if number not in pair]
    kept = set(output).union(*(term.labels for term in rest))
    left, right = (terms[number] for number in pair)
    return [*rest, _product(left, right, kept, output)]


def _cheapest(
    terms: tuple[frozenset[str], ...], output: frozenset[str], sizes: dict[str, float]
) -> tuple[float, tuple[int, int]]:
    """Return the least number of multiplications of any contraction order, and its
    first pair.

    Tries all orders; of more terms than `_SEARCHED` it looks at the next pair only.
    """
    if len(terms) == 1:
        return 0, (0, 0)
    found = []
    for pair in combinations(range(len(terms)), 2):
        rest = tuple(t for number, t in enumerate(terms) if number not in pair)
        both = terms[pair[0]] | terms[pair[1]]
        product = both & output.union(*rest)
        cost = math.prod(sizes[label] for label in both)
        if len(terms) <= _SEARCHED:
            cost += _cheapest((*rest, product), output, sizes)[0]
        found.append((cost, pair))
    return min(found)


def _typical(size: Size) -> float:
    """Return a size as a number; a typical one for a symbol."""
    if not isinstance(size, SymbolicDim):
        return size
    low, high = bounds(size)
    return float(low + high) / 2 if math.isfinite(high) else max(float(low), _TYPICAL)


def _product(left: _Term, right: _Term, kept: set[str], output: Labels) -> _Term:
    """Multiply two operands, and sum over labels that are not in `kept`.

    The operand whose axes come first in the output is the left one, which saves
    transposing the result.
    """
    left = _sum_unused_axes(left, kept | set(right.labels))
    right = _sum_unused_axes(right, kept | set(left.labels))
    shared = [label for label in left.labels if label in right.labels]
    batch = [label for label in shared if label in kept]
    summed = [label for label in shared if label not in kept]
    pairs = [(left, right), (right, left)]
    results = [
        batch + [c for side in pair for c in side.labels if c not in shared]
        for pair in pairs
    ]
    chosen = 1 if results[1] == output else 0
    one, other = pairs[chosen]

    def axes(labels: Labels) -> tuple[list[int], list[int]]:
        return (
            [one.labels.index(label) for label in labels],
            [other.labels.index(label) for label in labels],
        )

    result = dot_general(one.array, other.array, axes(summed), axes(batch))
    return _Term(results[chosen], result)
