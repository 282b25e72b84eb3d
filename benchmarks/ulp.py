"""Errors of compiled elementary functions against their formulas, in f32.

    python -m benchmarks.ulp x86_64-v3 x86_64-v4 --write

Compiles every elementwise op that code only comes near to, runs it on arguments of all
exponents and both signs, next to every whole number, half and multiple of pi/4 below
64, and where its formula has branches, and compares with the same function in f64.
Prints the largest error in ulp (distances of neighbouring f32 numbers at the right
result) and its argument; `--write` puts the table into docs/dialect.md. Results below
2**-126 are not counted, which compiled code takes for 0.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import iree.runtime as iree
import numpy as np

import aotc
from aotc.backend import compile_targets
from aotc.dialects import OPS
from aotc.machine.target import Target
from aotc.pipeline import lower
from aotc.tracing.assembly import trace
from aotc.tracing.tracing import emit

PAGE = Path(__file__).parents[1] / "docs/dialect.md"
BEGIN, END = "<!-- ulp: begin -->", "<!-- ulp: end -->"

# of one operand and of two; with the attributes that they need
UNARY: dict[str, dict[str, Any]] = {
    name: {}
    for name in (
        "exp", "exp2", "expm1", "log", "log1p", "sqrt", "rsqrt", "cbrt", "sin", "cos",
        "tanh", "asinh", "logistic", "erf", "erfc", "erfinv", "lgamma",
    )
} | {"gelu": {"form": "exact"}, "polygamma": {"order": 0}}  # fmt: skip
BINARY = ("power", "atan2", "hypot", "divide", "remainder")


@dataclass(frozen=True)
class Worst:
    """The largest error of an op in ulps, and where it occurs.

    Args:
        ulp: of the results, compared with the same function in f64.
        arguments: where it is.
    """

    ulp: float
    arguments: tuple[float, ...]


def unary_arguments(count: int, seed: int = 0) -> np.ndarray:
    """Draw numbers of all exponents and signs, and typical branch points."""
    rng = np.random.default_rng(seed)
    exponents = np.resize(np.arange(1, 255, dtype=np.uint32), count)
    fractions = rng.integers(0, 1 << 23, count, dtype=np.uint32)
    spread = (exponents << 23 | fractions).view(np.float32)
    common = rng.uniform(0, 20, count // 2).astype(np.float32)
    steps = np.arange(1, 64)
    near = [steps, steps / 2, steps / 8, steps * np.pi / 4, 1 - 2.0**-steps]
    near = [*near, np.log(2) * steps, np.tan(np.pi / 8) * np.ones(1)]
    edges = np.concatenate(near).astype(np.float32)
    beside = [edges * np.float32(1 + n * 2.0**-20) for n in (-9, -1, 0, 1, 9)]
    ulps = [np.nextafter(edges, np.float32(x)) for x in (0, np.inf)]
    sizes = np.concatenate([spread, common, *beside, *ulps])
    return np.concatenate([sizes, -sizes])


def binary_arguments(count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Draw pairs: independent, almost equal, and moderate numbers."""
    rng = np.random.default_rng(seed)
    any_x, any_y = (rng.permutation(unary_arguments(count, seed + n)) for n in (1, 2))
    ratio = 1 + rng.normal(size=len(any_x)) * 10.0 ** rng.uniform(-7, 0, len(any_x))
    moderate = np.exp(rng.uniform(-5, 5, (2, count)))
    whole = rng.integers(-40, 40, count)
    x = np.concatenate([any_x, any_x, moderate[0], moderate[0]])
    with np.errstate(over="ignore"):
        near = (any_x * ratio).astype(np.float32)
    y = np.concatenate([any_y, near, moderate[1] * np.sign(whole + 0.5), whole])
    x, y = x.astype(np.float32), y.astype(np.float32)
    kept = (np.abs(x) >= 2.0**-126) & ((np.abs(y) >= 2.0**-126) | (y == 0))
    return x[kept], y[kept]


def errors_in_ulp(found: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return the distance of f32 results from f64 ones in ulps."""
    with np.errstate(all="ignore"):
        rounded = right.astype(np.float32)
        unit = np.spacing(np.abs(rounded)).astype(np.float64)
        error = np.abs(found.astype(np.float64) - right) / unit
    same = (found == rounded) | (np.isnan(found) & np.isnan(rounded))
    same |= np.abs(right) < 2.0**-126
    # what is rounded up to infinity is within an ulp of the greatest number
    same |= np.isinf(rounded) & (np.abs(found) == np.finfo(np.float32).max)
    return np.where(same, 0.0, np.where(np.isfinite(error), error, np.inf))


def compile_ops(names: Iterable[str], target: Target) -> Any:
    """Compile a function for each op on vectors of any length; return the loaded
    module.
    """
    entries = []
    for name in names:
        operands = "xy" if name in BINARY else "x"

        def function(*arrays: Any, name: str = name) -> Any:
            return emit(name, *arrays, **UNARY.get(name, {}))

        function.__name__ = name
        entries.append(_entry(function, operands))
    program = lower(trace(entries, {}), target)
    (variant,) = compile_targets(program, [target])
    config = iree.Config("local-sync")
    code = iree.VmModule.copy_buffer(config.vm_instance, variant.vmfb)
    return iree.load_vm_module(code, config)


def _entry(function: Any, operands: str) -> Any:
    """Return a function of one or two vectors as an entry."""
    specs = {each: aotc.Spec(("n",), "f32") for each in operands}
    if len(operands) == 1:

        def one(x: Any) -> Any:
            return function(x)

        one.__name__ = function.__name__
        return aotc.entry(**specs)(one)

    def two(x: Any, y: Any) -> Any:
        return function(x, y)

    two.__name__ = function.__name__
    return aotc.entry(**specs)(two)


def right_results(name: str, arguments: Sequence[np.ndarray]) -> np.ndarray:
    """Return the op's reference results in f64."""
    with np.errstate(all="ignore"):
        wide = [each.astype(np.float64) for each in arguments]
        return np.asarray(OPS[name].ref(*wide, **UNARY.get(name, {})), np.float64)


def measure(names: Sequence[str], target: Target, count: int) -> dict[str, Worst]:
    """Return the largest error of each op on a target that runs here."""
    module = compile_ops(names, target)
    found = {}
    for name in names:
        pairs = binary_arguments(count) if name in BINARY else (unary_arguments(count),)
        results = np.asarray(getattr(module, name)(*pairs))
        errors = errors_in_ulp(results, right_results(name, pairs))
        at = int(np.argmax(errors))
        found[name] = Worst(float(errors[at]), tuple(float(x[at]) for x in pairs))
    return found


def table(measured: dict[str, dict[str, Worst]]) -> str:
    """Return a Markdown table of the errors, a column per target."""
    targets = list(measured)
    lines = [
        f"| op | {' | '.join(f'`{each}`' for each in targets)} | the largest is at |",
        "|---" * (len(targets) + 2) + "|",
    ]
    for name in next(iter(measured.values())):
        worst = [measured[target][name] for target in targets]
        largest = max(worst, key=lambda each: each.ulp)
        errors = " | ".join(f"{each.ulp:.2g}" for each in worst)
        at = ", ".join(f"{x:.9g}" for x in largest.arguments)
        lines.append(f"| `{name}` | {errors} | {at} |")
    return "\n".join(lines)


def write(text: str) -> None:
    """Write the table between its marks in docs/dialect.md."""
    page = PAGE.read_text(encoding="utf-8")
    before, rest = page.split(BEGIN)
    after = rest.split(END)[1]
    PAGE.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}", encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure errors, print and write the table."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.ulp",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("targets", nargs="+", help="that run here: x86_64-v4, vmvx, …")
    parser.add_argument("--ops", nargs="+", default=[*UNARY, *BINARY])
    parser.add_argument("--count", type=int, default=1 << 20, help="of arguments")
    parser.add_argument("--write", action="store_true", help="renew docs/dialect.md")
    asked = parser.parse_args(arguments)
    measured = {
        name: measure(asked.ops, Target.parse(name), asked.count)
        for name in asked.targets
    }
    text = table(measured)
    print(text)
    if asked.write:
        write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
