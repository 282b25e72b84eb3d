"""Print the Chebyshev coefficients that the f64 lowering of erf uses.

    python benchmarks/erf_coefficients.py

Needs mpmath. The function is (1 + 2x) exp(x**2) erfc(x) in t = (x - 3.75)/(x + 3.75).
"""

import mpmath


def function(t: mpmath.mpf) -> mpmath.mpf:
    """The expanded function at t in (-1, 1)."""
    x = mpmath.mpf("3.75") * (1 + t) / (1 - t)
    return (1 + 2 * x) * mpmath.exp(x * x) * mpmath.erfc(x)


def coefficients(count: int = 40) -> list[float]:
    """Coefficients of the interpolating Chebyshev series, those below 1e-18 cut."""
    mpmath.mp.dps = 50
    angles = [mpmath.pi * (k + mpmath.mpf("0.5")) / count for k in range(count)]
    values = [function(mpmath.cos(angle)) for angle in angles]
    series = [
        2
        * mpmath.fsum(
            v * mpmath.cos(j * a) for v, a in zip(values, angles, strict=True)
        )
        / count
        for j in range(count)
    ]
    series[0] /= 2
    return [float(c) for c in series if abs(c) > 1e-18]


if __name__ == "__main__":
    for value in coefficients():
        print(f"    {value!r},")
