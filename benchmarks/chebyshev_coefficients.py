"""Print the Chebyshev series that the lowerings of special functions use.

    python benchmarks/chebyshev_coefficients.py > dialects/lowering/coefficients.py

Needs mpmath. Each is an interpolation at Chebyshev nodes in 50 digits, cut below 1e-18.
"""

from collections.abc import Callable

from mpmath import mp, mpf

Function = Callable[[mpf], mpf]


def on(low: str, high: str, function: Function) -> Function:
    """Return `function` of [low, high] as a function of t in [-1, 1]."""
    middle, half = (mpf(low) + mpf(high)) / 2, (mpf(high) - mpf(low)) / 2
    return lambda t: function(middle + half * t)


def erfc_expanded(t: mpf) -> mpf:
    """(1 + 2x) exp(x**2) erfc(x) in t = (x - 3.75) / (x + 3.75)."""
    x = mpf("3.75") * (1 + t) / (1 - t)
    return (1 + 2 * x) * mp.exp(x * x) * mp.erfc(x)


def arctan_by_square(z: mpf) -> mpf:
    """arctan(x) / x in z = x**2."""
    x = mp.sqrt(z)
    return mp.atan(x) / x


def erfinv_by_log(w: mpf) -> mpf:
    """erfinv(x) / x in w = -log(1 - x**2)."""
    x = mp.sqrt(-mp.expm1(-w))
    y = mp.sqrt(w)
    for _ in range(60):  # Newton on log erfc, whose slope does not vanish in the tail
        tail = mp.exp(-w) / (1 + x)
        slope = -2 / mp.sqrt(mp.pi) * mp.exp(-y * y) / mp.erfc(y)
        y -= mp.log(mp.erfc(y) / tail) / slope
    return y / x


def lgamma_by_zeros(x: mpf) -> mpf:
    """lgamma(x) / ((x - 1) (x - 2))."""
    return mp.loggamma(x) / ((x - 1) * (x - 2))


TABLES: dict[str, tuple[str, Function]] = {
    "ERFC": ("(1 + 2x) exp(x**2) erfc(x), t = (x - 3.75) / (x + 3.75)", erfc_expanded),
    "ARCTAN": (
        "arctan(x) / x, z = x**2 in [0, 0.1716]",
        on("0", "0.1716", arctan_by_square),
    ),
    "ERFINV_CENTRE": (
        "erfinv(x) / x, w = -log(1 - x**2) in [0, 6.25]",
        on("0", "6.25", erfinv_by_log),
    ),
    "ERFINV_SLOPE": (
        "erfinv(x) / x, sqrt(w) in [2.5, 4]",
        on("2.5", "4", lambda s: erfinv_by_log(s * s)),
    ),
    "ERFINV_TAIL": (
        "erfinv(x) / x, sqrt(w) in [4, 6.25]",
        on("4", "6.25", lambda s: erfinv_by_log(s * s)),
    ),
    "LGAMMA": (
        "lgamma(x) / ((x - 1) (x - 2)), x in [1, 3]",
        on("1", "3", lgamma_by_zeros),
    ),
}


def coefficients(function: Function, count: int = 40) -> list[float]:
    """Coefficients of the interpolating Chebyshev series, those below 1e-18 cut."""
    angles = [mp.pi * (k + mpf("0.5")) / count for k in range(count)]
    values = [function(mp.cos(angle)) for angle in angles]
    series = [
        2
        * mp.fsum(v * mp.cos(j * a) for v, a in zip(values, angles, strict=True))
        / count
        for j in range(count)
    ]
    series[0] /= 2
    while abs(series[-1]) < mpf("1e-18"):
        series.pop()
    return [float(c) for c in series]


if __name__ == "__main__":
    mp.dps = 50
    print('"""Chebyshev series, printed by benchmarks/chebyshev_coefficients.py."""')
    for name, (meaning, function) in TABLES.items():
        print(f"\n# {meaning}\n{name} = (")
        for value in coefficients(function):
            print(f"    {value!r},")
        print(")")
