"""Random Python programs that compute and decide with sizes, against Python itself.

    python -m benchmarks.fuzz.sizes --programs 3000

Each program is called with several sizes, as a function of `aotc.jit` (with symbols for
the sizes that have varied, and for all), as a hybrid function and as an entry of a
bundle. What Python computes with NumPy's arrays is right. An entry may be refused with
`symbolic-size` instead; a program that raises for some sizes must not give a result for
these. Code is what the reference evaluator computes; with `--compile` all graphs that
`aotc.jit` would compile are compiled, many at once, and called again with the same
arrays. Exits with 1 if any is wrong.
"""

from __future__ import annotations

import argparse
import linecache
import math
import random
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import aotc
import aotc.numpy
from aotc import control, reference
from aotc.errors import AotcError
from aotc.machine.target import Target
from aotc.tracing.assembly import trace

from .compiled import distinct, failures
from .evaluated import Evaluated, without_compiler
from .running import Runner

REFUSED = ("symbolic-size", "shape-mismatch")
BATCH = 64  # programs of a report
TOGETHER = 96  # graphs that are compiled as one module
LARGEST = 1e7  # of numbers that are compared: f32 is exact up to 2**24
Call = tuple[int, int, int]  # the sizes n and m of x, and k of y

# contracts of an entry's sizes, and what calls draw from
DIMS: tuple[tuple[dict[str, Any], Sequence[int]], ...] = (
    ({}, (1, 2, 3, 4, 5, 6)),
    ({"min": 0}, (0, 1, 2, 3)),
    ({"min": 2, "max": 4}, (2, 3, 4)),
    ({"min": 4}, (4, 5, 8)),
    ({"multiple_of": 2, "max": 8}, (2, 4, 6, 8)),
)


@dataclass(frozen=True)
class Program:
    """A random function of sizes and arrays x[n, m] and y[k], and its calls.

    Args:
        seed: that it was drawn with.
        source: of the function `program`.
        dims: the contract of each size, as keywords of `aotc.Dim`.
        calls: the sizes that it is called with, in this order.
    """

    seed: int
    source: str
    dims: tuple[dict[str, Any], ...]
    calls: tuple[Call, ...]


# ---- what is drawn ------------------------------------------------------------------


class Draw:
    """Draws random source expressions of integers, conditions and bodies."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def one_of(self, *choices: Any) -> Any:
        """Draw one of the arguments."""
        return self._random.choice(choices)

    def _text(self, depth: int, templates: Sequence[str]) -> str:
        """Return a random template, filled with random expressions.

        W stands for a whole number, T for a truth value, C for a number from 1 to 6.
        """
        found = ""
        for letter in self._random.choice(templates):
            if letter == "W":
                found += self.whole(depth - 1)
            elif letter == "T":
                found += self.truth(depth - 1)
            else:
                found += str(self._random.randint(1, 6)) if letter == "C" else letter
        return found

    def whole(self, depth: int) -> str:
        """Return the source of a random integer expression."""
        return self._text(depth, _WHOLE if depth > 0 else _SIZES)

    def truth(self, depth: int) -> str:
        """Return the source of a random condition."""
        return self._text(max(depth, 1), _TRUTHS)

    def body(self) -> str:
        """Return the source of a random program's statements."""
        return self._text(self._random.randint(1, 3), _BODIES)


_SIZES = (
    *("x.shape[0]", "x.shape[1]", "y.shape[0]") * 3,
    *("x.size", "len(y)", "np.size(x)", "np.shape(x)[1]", "C", "C", "0"),
)
_WHOLE = (
    *("(W + W)", "(W - W)", "(W * W)", "W // C", "W % C", "(W + C)", "C * W") * 2,
    *("-(-W // C)", "(W // W)", "W % W", "C // W", "C % W", "(C - W)", "W // -C"),
    *("W % -C", "W ** 2", "(W << 1)", "(W >> 1)", "(W & 3)", "(W | 1)", "(W ^ 2)"),
    *("abs(W)", "min(W, W)", "max(W, C)", "divmod(W, C)[1]", "divmod(W, W)[0]"),
    *("round(W)", "int(W)", "math.floor(W)", "int(W / 2)", "int(float(W))", "-W"),
    *("sum(x.shape)", "math.prod(x.shape)", "int(numpy.prod(x.shape))", "(~W)"),
    *("len({W, C})", "len({W, W, C})", "len(set(x.shape + y.shape))"),
    *("(W, C, W).index(W)", "(W, C, W).count(W)", "x.shape.count(W)"),
    *("x.shape.index(W)", "sorted((W, W, C))[1]", "{C: 7, C: 8}.get(W, 9)"),
    *("{W: 7, 3: 8}.get(C, 9)", "{3: 1, 4: 2, 5: 3}[W]", "[*range(5)][W % 5]"),
    *(
        "len(str(W))",
        "int(format(W, '03d'))",
        "int('%d' % W)",
        "len('{}'.format(W))",
        "hash(W) % 7",
    ),
    *("len(range(W))", "sum(range(W % 7))", "len([0] * (W % 5))", "(W).bit_length()"),
    *("(T + 1)", "int(T)", "(W if T else W)", "(W if T else C)", "(T * W)", "(W or C)"),
    *("(W and C)", "int(math.sqrt(abs(W)))", "sum(n == C for n in x.shape)"),
    *("len([n for n in x.shape if n > C])", "next((n for n in (C, W, 2) if n < 4), 9)"),
    *("math.gcd(W, C)", "(T & T) + 0", "(T | T) + 0", "pow(W, 2)", "operator.index(W)"),
)
_TRUTHS = (
    *("(W == C)", "(W == W)", "(W != W)", "(W < W)", "(W >= C)", "(W > C)") * 3,
    *("(W == 2.5)", "(W < 2.5)", "(W >= C + 0.5)", "(W == 3.0)", "(2.5 > W)"),
    *("(C < W <= W)", "(C == W == W)", "(W in (C, W))", "(W not in (3, C))"),
    *("(W in {3, C})", "(W in [*range(3, 6)])", "(W in range(C))", "(C in x.shape)"),
    *("(x.shape == (3, W))", "(x.shape != y.shape)", "(x.shape[1:] == y.shape)"),
    *("(x.shape[::-1] == x.shape)", "((W, C) < (W, W))", "(x.shape == (4, 3))"),
    *("(not T)", "(T and T)", "(T or T)", "bool(W)", "all((T, T))", "any([T, T])"),
    *("(T == T)", "(W == 'a')", "(W is None)", "(W % 2 == 1)", "(W % 2 == 0)"),
    *("numpy.array_equal(x.shape, (3, C))", "numpy.array_equal(x.shape, y.shape)"),
    *("(str(W) == '3')", "isinstance(x.shape, tuple)", "bool(numpy.int64(C) == W)"),
    *(
        "bool(numpy.float64(2.5) < W)",
        "bool(W == numpy.int32(C))",
        "(max(x.shape) == W)",
    ),
)
_BODIES = (
    *("return np.sum(x) + W if T else np.sum(x) * 2 - W",) * 3,
    *("return np.where(T, np.sum(x) + W, np.sum(y) - C)",) * 3,
    *("return cond(T, lambda: np.sum(x) + W, lambda: np.sum(y) * C)",) * 2,
    *("if T:\n        x = x * 2\n    return np.sum(x) + W",) * 2,
    "if T and T:\n        return x * 2.0 + W\n    return x - C",
    "if T:\n        return np.sum(y, 0) + C\n    if T:\n        return np.max(y + C, "
    "initial=-1)\n    return np.sum(x) + W",
    "return np.sum(x) * W + T",
    "return x * T",
    "return np.asarray(W, 'float32') + np.sum(x)",
    "return np.asarray(T, 'float32') * np.sum(x) if T else np.logical_not(T)",
    "return y + np.asarray(W == C, 'float32')",
    "return np.where(np.array_equal(x[:, 0] if T else x[:, -1], y), np.sum(x), W)",
    "return np.array_equal(x[0], y)",
    "return np.sum(x[: W % 3]) + W",
    "return x[W % 2 :]",
    "return np.zeros((W % 4 + 1, 2)).sum() + np.ones((2, abs(W) + 1)).sum()",
    "total = np.sum(x)\n    for i in range(W % 5):\n        total = total + i * W\n"
    "    return total",
    "a, b = W, W\n    while a < b and T:\n        a = a + C\n    return np.sum(x) + a",
    "assert W != C\n    return np.sum(x) + W",
    "if T:\n        raise ValueError('no')\n    return np.sum(x) + W",
    "match x.shape:\n        case (3, _):\n            return np.sum(x) + W\n"
    "        case (_, C):\n            return np.sum(x) - W\n    return np.sum(y) + C",
    "return np.reshape(x, (-1,)) if T else np.reshape(x, (x.shape[1], x.shape[0]))",
    "return np.concatenate([y, y]) if T else y[: y.shape[0] // 2 + 1]",
    "return np.sum(np.arange(W % 6 + 1, dtype='float32')) + np.sum(x)",
    "return np.squeeze(np.expand_dims(x, 0)) + C",
    "return loop(W, W, lambda i, total: total + 2.0, 0.0) + np.sum(x)",
    "return np.sum(np.zeros(W)) + np.ones((2, W)).sum()",
    "return np.sum(np.arange(W, dtype='float32')) + np.arange(W, W).shape[0]",
    "return np.roll(y, W) + np.roll(y, C)",
    "return np.repeat(y, W % 3) if T else np.tile(y, W % 3)",
    "return np.pad(y, (W % 3, W % 2))",
    "return y[W % 5] + x[C % 3, W % 2]",
    "return y[W:] if T else y[: W : C]",
    "return np.concatenate([np.reshape(x, (-1,)), np.full(W % 4 + 1, W * 1.0)])",
    "return np.mean(np.eye(W % 4 + 1, dtype='float32'), 0) + W % 2",
    "return np.broadcast_to(np.sum(x) + C, (W % 4, C))",
    "return np.expand_dims(y, W % 2) + C",
    "return np.split(np.concatenate([y, y]), 2)[W % 2]",
    "return np.linspace(0.0, 1.0, W % 5 + 2)[1:] + C",
    "return y * 2 + np.sum(np.tri(C, W % 4))",
    "return np.convolve(y, np.asarray([1.0, 2.0, 3.0], 'float32'), 'same') * C",
)


def random_program(seed: int) -> Program:
    """Return the random program of a seed."""
    draw = Draw(seed)
    source = f"def program(x, y):\n    {draw.body()}\n"
    contracts = [draw.one_of(*DIMS) for _ in range(3)]
    calls = [tuple(draw.one_of(*sizes) for _, sizes in contracts) for _ in range(5)]
    dims = tuple(dict(keywords) for keywords, _ in contracts)
    return Program(seed, source, dims, tuple(calls))  # type: ignore[arg-type]


# ---- how it is run ------------------------------------------------------------------


def _function(program: Program, **given: Any) -> Any:
    """Execute a program's source with these global names; return the function."""
    file = f"<sizes {program.seed}>"
    lines = program.source.splitlines(keepends=True)
    linecache.cache[file] = len(program.source), None, lines, file
    names = {"math": math, "numpy": np, "operator": __import__("operator"), **given}
    names["__name__"] = "program"
    exec(compile(program.source, file, "exec"), names)
    return names["program"]


def arrays_of(call: Call) -> tuple[Any, Any]:
    """Return the arguments of a call: arrays of small integers."""
    n, m, k = call
    x = np.arange(n * m, dtype="f4").reshape(n, m) % 5
    return x, np.arange(k, dtype="f4") % 5


def _loop(lower: int, upper: int, body: Callable[[int, Any], Any], initial: Any) -> Any:
    """Run a Python loop in place of `fori_loop`."""
    value = initial
    for number in range(lower, upper):
        value = body(number, value)
    return value


def _choose(condition: Any, yes: Callable[[], Any], no: Callable[[], Any]) -> Any:
    """Run a Python branch in place of `cond`."""
    return yes() if condition else no()


def _choose_after_both(condition: Any, yes: Any, no: Any) -> Any:
    """Run both functions of a `cond`, as tracing does; return the chosen result."""
    both = no(), yes()
    return both[bool(condition)]


def expected(program: Program, call: Call) -> Any:
    """Run a program by Python; return its result or exception.

    None for what is not compared: large numbers, and what raises where both functions
    of a `cond` are called and gives a result where one is.
    """
    found, traced = (
        _result_of(_function(program, np=np, cond=cond, loop=_loop), call)
        for cond in (_choose, _choose_after_both)
    )
    if isinstance(traced, Exception) and not isinstance(found, Exception):
        return None
    is_array = isinstance(found, np.ndarray)
    return None if is_array and (np.abs(found) > LARGEST).any() else found


def _result_of(function: Callable[..., Any], call: Call) -> Any:
    """Call a function; return its result or exception."""
    try:
        with np.errstate(all="ignore"):
            return np.asarray(function(*arrays_of(call)), "f8")
    except Exception as error:
        return error


def _with_aotc(program: Program) -> Any:
    """Return the program's function with aotc's library."""
    given = {"np": aotc.numpy, "cond": control.cond, "loop": control.fori_loop}
    return _function(program, **given)


def _entry(program: Program) -> Callable[..., Any]:
    """Return the program as an entry, evaluated op by op."""
    n, m, k = (
        aotc.Dim(name, **keywords)
        for name, keywords in zip("nmk", program.dims, strict=True)
    )
    specs = {"x": aotc.Spec((n, m)), "y": aotc.Spec((k,))}
    traced = trace([aotc.entry(**specs)(_with_aotc(program))], {})
    (entry,) = traced.entries

    def call(*arrays: Any) -> Any:
        found = reference.evaluate(traced.module, entry.name, arrays)
        return entry.output_tree.unflatten(found)

    return call


# how a program is run → the function that calls are given to
WAYS: dict[str, Callable[[Program], Callable[..., Any]]] = {
    "jit": lambda program: aotc.jit(_with_aotc(program)),
    "always": lambda program: aotc.jit(_with_aotc(program), dynamic="always"),
    "hybrid": lambda program: aotc.hybrid(_with_aotc(program)),
    "entry": _entry,
}


def check(
    program: Program, ways: Sequence[str] = (*WAYS,)
) -> Iterator[tuple[str, str]]:
    """Run a program in each way; yield the way and `right`, `refused`, or what is
    wrong.

    Args:
        program: to run.
        ways: of `WAYS`.
    """
    wanted = [expected(program, call) for call in program.calls]
    for way in ways:
        yield way, _outcome(program, way, wanted)


def _outcome(program: Program, way: str, wanted: Sequence[Any]) -> str:
    """Run a program in one way and compare; return `right`, `refused`, or what is
    wrong.
    """
    try:
        function = WAYS[way](program)
    except AotcError as error:
        raises = all(isinstance(each, Exception) for each in wanted)
        if raises or error.code in REFUSED:
            return "refused"
        return f"refused with {error.code}: {error}"
    for call, right in zip(program.calls, wanted, strict=True):
        try:
            found = np.asarray(function(*arrays_of(call)), "f8")
        except Exception as error:
            if right is None or isinstance(right, Exception):
                continue
            if way == "always" and getattr(error, "code", "") == "symbolic-size":
                return "refused"
            return f"raises for {call}: {type(error).__name__}: {error}"
        if isinstance(right, Exception):
            return f"gives {found} for {call}, where Python raises {right!r}"
        if right is None:
            continue
        if found.shape != right.shape or not np.allclose(
            found, right, 1e-5, 1e-5, equal_nan=True
        ):
            return f"gives {found} for {call}, where Python gives {right}"
    return "right"


def wrong_code(evaluated: Sequence[Evaluated], runner: Runner) -> Iterator[str]:
    """Compile evaluated programs; yield a description of each difference."""
    programs = distinct(evaluated)
    for start in range(0, len(programs), TOGETHER):
        part = programs[start : start + TOGETHER]
        for each, failure in failures(part, runner, Target.parse("cpu")):
            with each.program.module.context:
                text = each.program.module.operation.get_asm()
            yield f"compiled: {failure.kind}: {failure.message}\n{text}"


def main() -> int:
    """Check random programs, and print what is wrong."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fuzz.sizes")
    add = parser.add_argument
    add("--programs", type=int, default=300, help="how many (300)")
    add("--seed", type=int, default=0, help="of the first one")
    add("--ways", nargs="+", choices=WAYS, default=[*WAYS], help="all of them")
    add("--compile", action="store_true", help="what aotc.jit would compile, too")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    counts = {way: Counter[str]() for way in asked.ways}
    begun, wrong, compiled = time.monotonic(), 0, 0
    with Runner() as runner:
        for start in range(0, asked.programs, BATCH):
            evaluated: list[Evaluated] = []
            for number in range(start, min(start + BATCH, asked.programs)):
                program = random_program(asked.seed + number)
                with without_compiler(evaluated):
                    wrong += _report(program, counts)
            if asked.compile:
                compiled += len(distinct(evaluated))
                for text in wrong_code(evaluated, runner):
                    wrong += 1
                    print(text, flush=True)
            seconds = time.monotonic() - begun
            said = f"{min(start + BATCH, asked.programs)} programs in {seconds:.0f} s"
            print(f"{said}, {compiled} graphs compiled, {wrong} wrong", flush=True)
    print("; ".join(f"{way} {dict(found)}" for way, found in counts.items()))
    return int(wrong > 0)


def _report(program: Program, counts: Mapping[str, Counter[str]]) -> int:
    """Print what is wrong with a program and count its outcomes; return the number
    wrong.
    """
    wrong = 0
    for way, outcome in check(program, [*counts]):
        is_wrong = outcome not in ("right", "refused")
        counts[way]["wrong" if is_wrong else outcome] += 1
        wrong += is_wrong
        if is_wrong:
            print(f"seed {program.seed}, {way}: {outcome}\n{program.source}")
            print(f"    of {program.dims}", flush=True)
    return wrong


if __name__ == "__main__":
    sys.exit(main())
