"""Uses of every op, drawn from the ops' samples.

A `Case` is one sample of one op in one dtype: what the tests of the rules walk over,
and what is compiled to find out what a target can do.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from aotc.core import dtypes
from aotc.dialects import OPS, context, limits
from aotc.dialects.functions.entries import Entry
from aotc.dialects.functions.functions import functions_of, signature
from aotc.dialects.graph import Reason, as_tuple
from aotc.dialects.rules.samples import OpSample
from aotc.dialects.sizes.contracts import Contract
from aotc.dialects.types import SymbolicDim, Tensor
from aotc.errors import AotcError
from aotc.mlir import ir
from aotc.passes import run_passes
from aotc.programs.program import Program
from aotc.tracing.array import Array
from aotc.tracing.tracing import Trace

Sizes = dict[str, Any]

_FURTHER_KINDS = ("f16", "bf16", "f64"), ("i8", "u8", "u64")
_FEW_SAMPLES = 4


@dataclass(frozen=True)
class Case:
    """One use of an op: a sample, in the dtype that the label ends in."""

    op: str
    label: str
    sample: OpSample

    def __str__(self) -> str:
        return f"{self.op}_{self.label}"

    @property
    def cls(self) -> Any:
        """The op."""
        return OPS[self.op]

    @property
    def is_narrow(self) -> bool:
        """Return whether every test run compiles it; the others only with `-m slow`.

        Integers of one signedness differ in their width only. Of further kinds of
        floats and of integers, each op is compiled in one that its name draws; of its
        samples, in the first few.
        """
        words = set(self.label.split("_"))
        if words & {"i16", "u16", "u32", "i64"}:
            return False
        if "to" in words:
            return True
        if any(word.isdigit() and int(word) >= _FEW_SAMPLES for word in words):
            return False
        drawn = zlib.crc32(self.op.encode())
        return not any(
            words & {*kind} - {kind[drawn % len(kind)]} for kind in _FURTHER_KINDS
        )

    @property
    def symbols(self) -> list[str]:
        """The names of symbolic sizes, in the order in which they are met."""
        shapes: list[tuple[Any, ...]]
        shapes = [x.shape for x in self.sample.operands if isinstance(x, Tensor)]
        shapes += [v for v in self.sample.attributes.values() if isinstance(v, tuple)]
        names = (size for shape in shapes for size in shape if isinstance(size, str))
        return list(dict.fromkeys(names))

    def types(self, sizes: Sizes) -> list[Tensor]:
        """Operand types, with `sizes` for the symbols."""
        return [type_of(operand, sizes) for operand in self.sample.operands]

    def attributes(self, sizes: Sizes) -> dict[str, Any]:
        """Attributes, with `sizes` for the symbols."""
        return {
            name: _static(value, sizes) if isinstance(value, tuple) else value
            for name, value in self.sample.attributes.items()
        }

    def infer(self, sizes: Sizes) -> tuple[Tensor, ...]:
        """The result types for these sizes."""
        with context():
            found = self.cls.infer(*self.types(sizes), **self.attributes(sizes))
            return as_tuple(found)

    def size_choices(self) -> Iterator[Sizes]:
        """Numbers for the symbols: some random ones, all 1, and all 0 where allowed."""
        rng, names = self.rng(), self.symbols
        some = (
            dict(zip(names, rng.integers(1, 8, len(names)).tolist(), strict=True))
            for _ in range(100)
        )
        yield next(sizes for sizes in some if self._allows(sizes))
        for size in (1, 0):
            if names and self._allows(sizes := dict.fromkeys(names, size)):
                yield sizes

    @property
    def dtypes(self) -> str:
        """The dtypes of this use, as the table of limits names them."""
        sizes = next(self.size_choices())
        with context():
            return limits.of(self.types(sizes), self.infer(sizes))

    def _allows(self, sizes: Sizes) -> bool:
        try:
            self.infer(sizes)
        except AotcError:
            return False
        return True

    def rng(self) -> np.random.Generator:
        """Random numbers of this case, equal in every run."""
        return np.random.default_rng(zlib.crc32(str(self).encode()))

    def arrays(self, sizes: Sizes) -> list[Any]:
        """One array per operand."""
        rng = self.rng()
        return [
            operand if isinstance(operand, np.ndarray) else self._draw(rng, kind)
            for operand, kind in zip(
                self.sample.operands, self.types(sizes), strict=True
            )
        ]

    def _draw(self, rng: np.random.Generator, kind: Tensor) -> Any:
        low, high = self.sample.low, self.sample.high
        if kind.dtype == "bool":
            return rng.random(kind.shape) < 0.5
        if dtypes.is_float(kind.dtype):
            return rng.uniform(low, high, kind.shape).astype(
                dtypes.to_numpy(kind.dtype)
            )
        drawn = rng.integers(int(low), int(high) + 1, kind.shape)
        drawn = abs(drawn) if kind.dtype in dtypes.UNSIGNED else drawn
        return drawn.astype(dtypes.to_numpy(kind.dtype))

    def permute(self, array: Any, by: int) -> Any:
        """Other values of the same kind: the elements in another order."""
        return np.roll(array.ravel(), by).reshape(array.shape)

    def assert_equal(self, got: Any, want: Any) -> None:
        """Equal shapes and values; sums may have been made in another order."""
        assert got.shape == want.shape
        if dtypes.is_float(dtypes.canonical_dtype(want.dtype)):
            slack = {"f64": 1e-12, "f32": 1e-5}.get(
                dtypes.canonical_dtype(want.dtype), 2e-2
            )
            got, want = got.astype("f8"), want.astype("f8")
            np.testing.assert_allclose(got, want, rtol=slack, atol=slack)
        else:
            np.testing.assert_array_equal(got, want)

    def inputs(self, sizes: Sizes) -> list[Any]:
        """Return the inputs of the case: operands and one array per symbol."""
        return [*self.arrays(sizes), *(np.zeros(sizes[n], "f") for n in self.symbols)]

    def with_static_sizes(self, sizes: Sizes) -> Case:
        """Return the case with numbers for its symbols."""
        operands = tuple(
            x if isinstance(x, np.ndarray) else x.with_shape(_static(x.shape, sizes))
            for x in self.sample.operands
        )
        sample = replace(
            self.sample, operands=operands, attributes=self.attributes(sizes)
        )
        return replace(self, label=f"{self.label}_fixed", sample=sample)

    def active_sets(self) -> list[list[int]]:
        """Sets of float operands that have tangents: all of them, then each alone."""
        types = self.types(_Any())
        floats = [i for i, x in enumerate(types) if dtypes.is_float(x.dtype)]
        return [floats, *([i] for i in floats if len(floats) > 1)]

    def tangents(self, sizes: Sizes, active: Sequence[int]) -> dict[int, Any]:
        """A random direction for each operand in `active`."""
        rng, arrays = self.rng(), self.arrays(sizes)
        return {i: rng.standard_normal(arrays[i].shape) for i in active}

    def build(self, module: Any, body: Callable[..., Any] | None = None) -> Trace:
        """A function named like the case; it also takes one input per symbol.

        `body` gets the trace and the operands, and returns MLIR values; without it the
        function is the op alone.
        """
        with context():
            sizes = {name: SymbolicDim.symbol(i) for i, name in enumerate(self.symbols)}
            types = self.types(sizes) + [Tensor((d,), "f32") for d in sizes.values()]
            trace = Trace(module, str(self), types, [Contract(name) for name in sizes])
            attributes = self.attributes(sizes)
        values = list(trace.block.arguments)[: len(self.sample.operands)]
        with trace.active():
            if body is None:
                results = as_tuple(trace.build(self.op, *values, **attributes))
            else:
                with ir.Location.unknown(), ir.InsertionPoint(trace.block):
                    results = body(trace, *values)
            trace.finish([Array(value=value, trace=trace) for value in results])
        return trace


def _static(shape: tuple[Any, ...], sizes: Sizes) -> tuple[Any, ...]:
    return tuple(sizes[n] if isinstance(n, str) else n for n in shape)


def type_of(operand: Any, sizes: Sizes) -> Tensor:
    if isinstance(operand, np.ndarray):
        return Tensor(operand.shape, dtypes.canonical_dtype(operand.dtype))
    shape = _static(operand.shape, sizes)
    return Tensor(shape, operand.dtype)


# ---- samples in other dtypes --------------------------------------------------------


def main_dtype(sample: OpSample) -> str:
    """The dtype that the op computes in: of its first operand that is not a mask."""
    found = [type_of(x, _Any()).dtype for x in sample.operands]
    if not sample.operands:
        value = sample.attributes.get("value")
        default = sample.attributes.get("dtype", "i32")  # positions are i32
        found = [default if value is None else value.dtype]
    return next((d for d in map(dtypes.canonical_dtype, found) if d != "bool"), "bool")


class _Any(dict[str, Any]):
    def __missing__(self, key: str) -> int:
        return 1


def in_dtype(sample: OpSample, dtype: str) -> OpSample:
    """The sample with `dtype` in the place of its main dtype."""
    main, target = main_dtype(sample), dtypes.to_numpy(dtype)

    def convert(operand: Any) -> Any:
        if type_of(operand, _Any()).dtype != main:
            return operand
        if isinstance(operand, Tensor):
            return operand.with_dtype(dtype)
        with np.errstate(all="ignore"):
            return operand.astype(target)

    attributes = dict(sample.attributes)
    if not sample.operands and "dtype" in attributes:
        attributes["dtype"] = dtype
    if isinstance(attributes.get("value"), np.ndarray):
        attributes["value"] = edges(dtype)
    operands = tuple(map(convert, sample.operands))
    return replace(sample, operands=operands, attributes=attributes)


EDGES: dict[str, list[Any]] = {
    "f": [np.inf, -np.inf, np.nan, -0.0, 0.0, 1.0, -1.0, 0.5, -2.5, 3.0, 60.0, -60.0],
    "i": ["min", "max", 0, 1, -1, 7, -8, 2],
    "u": [0, 1, "max", 7, 8, 2],
    "b": [False, True],
}


def edges(dtype: str) -> Any:
    """The values at which ops in `dtype` go wrong first."""
    kind = "f" if dtypes.is_float(dtype) else dtype[0]
    target = dtypes.to_numpy(dtype)
    values = [
        getattr(np.iinfo(target), v) if isinstance(v, str) else v for v in EDGES[kind]
    ]
    return np.array(values, target)


def _is_elementwise(op: Any, sample: OpSample) -> bool:
    """Return whether all operands are of one type, the result's shape is theirs too."""
    kinds = [type_of(x, _Any()) for x in sample.operands]
    same = bool(kinds) and all(kind == kinds[0] for kind in kinds)
    return same and op.on_scalars and not op.rearranges and op.dtypes


def _with_edges(sample: OpSample, dtype: str) -> OpSample:
    """The sample on all combinations of edge values, and some random ones."""
    count = len(sample.operands)
    grid = np.meshgrid(*[edges(dtype)] * count, indexing="ij")
    more = Case("", dtype, replace(sample, operands=(Tensor((9,), dtype),) * count))
    pairs = zip(grid, more.arrays({}), strict=True)
    operands = tuple(np.concatenate([part.ravel(), new]) for part, new in pairs)
    return replace(sample, operands=operands)


@cache
def all_cases() -> list[Case]:
    """Every sample as it is, one in each other dtype, and edge values in each dtype."""
    return [case for name in OPS for case in cases_of(name)]


def cases_of(name: str) -> Iterator[Case]:
    op, seen = OPS[name], set()
    for number, sample in enumerate(op.samples):
        seen.add(main_dtype(sample))
        yield Case(name, f"{number}_{main_dtype(sample)}", sample)
    first = op.samples[0]
    for dtype in op.dtypes:
        if name in ("cast", "bitcast"):
            for target in op.dtypes:
                if name == "bitcast" and dtypes.bits(target) != dtypes.bits(dtype):
                    continue
                sample = OpSample((edges(dtype),), {"dtype": target})
                yield Case(name, f"{dtype}_to_{target}", sample)
        elif _is_elementwise(op, first):
            yield Case(
                name, f"edge_{dtype}", _with_edges(in_dtype(first, dtype), dtype)
            )
        elif dtype not in seen:
            yield Case(name, f"0_{dtype}", in_dtype(first, dtype))


@cache
def smooth_cases() -> list[Case]:
    """The samples of differentiable ops, in f64, where finite differences are fair."""
    return [
        Case(name, f"{number}_f64", in_dtype(sample, "f64"))
        for name, op in OPS.items()
        if not isinstance(op.rule("vjp"), Reason)
        for number, sample in enumerate(op.samples)
        if sample.smooth and sample.operands and dtypes.is_float(main_dtype(sample))
    ]


# ---- compiled -----------------------------------------------------------------------


def lowered_program(cases: Sequence[Case]) -> Program:
    """A program with one entry for each case, lowered to linalg."""
    with context(), ir.Location.unknown():
        module = ir.Module.create()
    for case in cases:
        case.build(module)
    with context():
        functions = functions_of(module)
        entries = [
            Entry.flat(str(case), *signature(functions[str(case)])) for case in cases
        ]
    program = Program.of_functions(module, entries)
    # No pass that simplifies: each op is compiled as it is written.
    run_passes(module, ["inline", "decompose", "lower-to-linalg", "control-to-blocks"])
    return program
