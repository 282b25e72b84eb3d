"""The matrices of Winograd's minimal filtering: a small convolution as few products.

F(m, r) computes m neighbouring results of a window of r in n = m + r - 1 products
(Winograd, "Arithmetic Complexity of Computations", SIAM, 1980): y = A' [(G g) * (B' d)]
for a filter g and the n inputs d that the results see. It is the multiplication of two
polynomials by their values at n - 1 points and at infinity (Toom 1963, Cook 1966). Of
two axes, both are transformed: Y = A' [(G g G') * (B' d B)] A, n² products for m²
results (Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", Conference
on Computer Vision and Pattern Recognition (CVPR) 2016).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from math import lcm

Row = tuple[Fraction, ...]
Matrix = tuple[Row, ...]

WINDOW = 3  # r, along both axes

# The points besides infinity, by m. Which ones decides about the errors (Barabasz,
# Anderson, Soodhalter and Gregg, "Error analysis and improving the accuracy of Winograd
# convolution for deep neural networks", ACM TOMS 46 (2020), article 37). Those of F(4)
# were searched for among pairs that make all elements of A and B exact in f32: its
# errors are 0.43 of those of 0, ±1, ±2 on average, and 0.35 at worst.
_POINTS = {
    2: (Fraction(0), Fraction(1), Fraction(-1)),
    4: (
        Fraction(0),
        Fraction(5, 8),
        Fraction(-5, 8),
        Fraction(3, 2),
        Fraction(-3, 2),
    ),
}
OUTPUTS = tuple(_POINTS)  # of a tile, along each axis, that there are matrices for
EXACT = (2,)  # those whose matrices, but for the filter's, are of integers


@dataclass(frozen=True)
class WinogradMatrices:
    """The exact matrices of Winograd's transforms of tiles, along one axis.

    Args:
        output: A', m × n: results from products.
        filter: G, n × r.
        input: B', n × n.
    """

    output: Matrix
    filter: Matrix
    input: Matrix


@cache
def matrices(outputs: int) -> WinogradMatrices:
    """Return the exact transform matrices of F(outputs, 3)."""
    points = _POINTS[outputs]
    size = outputs + WINDOW - 1
    at_points = [_powers(point, outputs) for point in points]
    infinity = tuple(Fraction(int(i == outputs - 1)) for i in range(outputs))
    columns = [*at_points, infinity]
    output = tuple(tuple(each[i] for each in columns) for i in range(outputs))
    filters: list[Row] = []
    inputs: list[Row] = []
    for point in points:
        others = [each for each in points if each != point]
        scale = Fraction(1)
        for other in others:
            scale *= point - other
        filters.append(tuple(power / scale for power in _powers(point, WINDOW)))
        inputs.append(_polynomial(others, size))
    filters.append(tuple(Fraction(int(i == WINDOW - 1)) for i in range(WINDOW)))
    inputs.append(_polynomial(points, size))
    return WinogradMatrices(output, tuple(filters), tuple(inputs))


def filter_scale(outputs: int) -> int:
    """Return the least factor that makes the filter's matrix one of integers."""
    return lcm(*(x.denominator for row in matrices(outputs).filter for x in row))


def _powers(point: Fraction, count: int) -> Row:
    """Return the first `count` powers of a point, from 1 on."""
    return tuple(point**power for power in range(count))


def _polynomial(roots: Sequence[Fraction], count: int) -> Row:
    """Return the coefficients of the monic polynomial of some roots, constant first."""
    found = [Fraction(1)]
    for root in roots:
        shifted = [Fraction(0), *found]
        found = [
            high - root * low
            for high, low in zip(shifted, [*found, Fraction(0)], strict=True)
        ]
    return (*found, *[Fraction(0)] * (count - len(found)))
