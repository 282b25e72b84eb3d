"""A quantised entry while it is drawn, and its source in a model file."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .weighted_forms import LARGEST, Shape, element_count

KINDS = {"u8": "uint8", "i8": "int8", "i16": "int16", "u16": "uint16"}
USUAL_SCALES = (2.0**-5, 0.0173)
EXTREME_SCALES = (2.0**-40, 1e-6, 3e4, 2.0**20)


@dataclass(frozen=True)
class Levels:
    """A quantised tensor in a drawn entry: integers with scale and zero point.

    Args:
        name: of the variable.
        shape: of it.
        scale: the source of the size of a step.
        zero: the source of the integer that stands for 0.
        dtype: of the integers.
        axis: along which scale and zero point vary.
        bits: that the integers have.
        zero_kind: whether the zero point is a "number", a "weight" or a "float".
    """

    name: str
    shape: Shape
    scale: str
    zero: str
    dtype: str
    axis: int | None = None
    bits: int | None = None
    zero_kind: str = "number"

    @property
    def is_plain(self) -> bool:
        """Return whether it has bytes with one scale and one zero point."""
        return self.axis is None and self.dtype in ("u8", "i8")

    @property
    def floats(self) -> str:
        """The source that dequantises the tensor."""
        axis = "" if self.axis is None else f", axis={self.axis}"
        return f"nn.dequantize({self.name}, {self.scale}, {self.zero}{axis})"

    def quantize(self, source: str) -> str:
        """Return source that quantises the numbers of `source` to this tensor's
        grid.
        """
        given = f"{self.scale}, {self.zero}, {self.dtype!r}"
        axis = "" if self.axis is None else f", axis={self.axis}"
        bits = "" if self.bits is None else f", bits={self.bits}"
        return f"nn.quantize({source}, {given}{axis}{bits})"


@dataclass
class QuantizedEntry:
    """A random quantised entry under construction.

    Args:
        rng: that draws it.
        name: of its function; those of its weights begin with it.
        is_exact: whether its results are the same integers on every target.
        is_half: whether it computes in half precision.
        has_batch: whether calls decide the size of an axis.
        is_wild: whether its inputs may be infinite or NaN.
        bound: the source of how far results may be off where rows are rounded.
        inputs: dtypes and shapes by name.
        state: the name of the input that is a state, and the source of its first value.
        updated: the name of what the state becomes.
        levels: tensors of integers.
        weights: the source of each array, by name.
        lines: of its body.
        results: names of what it returns; levels that nothing reads are returned, too.
        read: names of levels that others are computed from.
        families: what was drawn.
    """

    rng: np.random.Generator
    name: str
    is_exact: bool = True
    is_half: bool = False
    has_batch: bool = False
    is_wild: bool = False
    bound: str = ""
    inputs: dict[str, tuple[str, Shape]] = field(default_factory=dict)
    state: tuple[str, str] | None = None
    updated: str = ""
    levels: list[Levels] = field(default_factory=list)
    weights: dict[str, str] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    results: list[str] = field(default_factory=list)
    read: set[str] = field(default_factory=set)
    families: list[str] = field(default_factory=list)

    # ---- drawing --------------------------------------------------------------------

    def one_of(self, some: Sequence[Any]) -> Any:
        """Draw one of several options."""
        return some[int(self.rng.integers(len(some)))]

    def chance(self, share: float) -> bool:
        """Draw true with a probability."""
        return bool(self.rng.random() < share)

    def some_levels(self, *ranks: int, plain: bool = True) -> Levels | None:
        """Draw one of the quantised tensors so far, of these ranks.

        Args:
            ranks: that they may have.
            plain: whether they are bytes of one grid, whose last size is known.
        """
        found = [
            each
            for each in self.levels
            if (not ranks or len(each.shape) in ranks)
            and isinstance(each.shape[-1], int)
            and (each.is_plain or not plain)
        ]
        return self.one_of(found) if found else None

    # ---- writing --------------------------------------------------------------------

    def weight(self, source: str) -> str:
        """Add a weight array; return the source that reads it."""
        name = f"{self.name}_{len(self.weights)}"
        self.weights[name] = source
        return f"w[{name!r}]"

    def line(self, source: str) -> str:
        """Add a line to the body; return the name of its value."""
        name = f"t{len(self.lines)}"
        self.lines.append(f"{name} = {source}")
        return name

    def grid(self, name: str, shape: Shape) -> Levels:
        """Draw a dtype, scale and zero point for numbers near 1; return the levels."""
        dtype = self.one_of(("u8", "u8", "i8"))
        bits = self.one_of((4, 5, 7)) if self.chance(0.08) else None
        steps = 2 ** (bits or 8)
        least = 0 if dtype == "u8" else -steps // 2
        middle = [0, steps // 2 + least, least, least + steps - 1]
        middle += [int(self.rng.integers(least, least + steps)) for _ in range(2)]
        point, scale = int(self.one_of(middle)), self.one_of(USUAL_SCALES)
        if self.chance(0.4):
            scale = round(float(self.rng.uniform(0.008, 0.05)), 6)
        elif self.chance(0.08):
            scale = self.one_of(EXTREME_SCALES)
        kind = self.one_of(("int32", "float32")) if self.chance(0.15) else KINDS[dtype]
        step, zero = f"numpy.float32({scale})", f"numpy.{kind}({point})"
        if self.chance(0.15):
            step = self.weight(f"numpy.array({scale}, 'f4')")
        zero_kind = "float" if kind == "float32" else "number"
        if self.chance(0.1):
            zero_kind = "weight"
            zero = self.weight(f"numpy.array({point}, {KINDS[dtype]!r})")
        return Levels(name, shape, step, zero, dtype, bits=bits, zero_kind=zero_kind)

    def grid_along(self, name: str, shape: Shape, axis: int) -> Levels:
        """Draw a grid with a scale and zero point per index of an axis."""
        dtype, size = self.one_of(("u8", "i8")), shape[axis]
        least = 0 if dtype == "u8" else -128
        scale = self.weight(f"rng.uniform(0.005, 0.05, {size}).astype('f4')")
        zero = "0"
        if self.chance(0.6):
            kind = self.one_of((KINDS[dtype], "int32"))
            drawn = f"rng.integers({least}, {least + 256}, {size})"
            zero = self.weight(f"{drawn}.astype({kind!r})")
        return Levels(name, shape, scale, zero, dtype, axis=axis)

    def add(self, source: str, shape: Shape, *read: Levels) -> None:
        """Add a line that quantises `source` to a new random grid, if it is small."""
        axes = [at for at, size in enumerate(shape) if isinstance(size, int)]
        name = f"q{len(self.lines)}"
        if self.chance(0.06) and axes:
            made = self.grid_along(name, shape, self.one_of(axes))
        elif self.chance(0.04):
            dtype = self.one_of(("i16", "u16"))
            made = Levels(name, shape, "numpy.float32(0.0007)", "0", dtype)
        else:
            made = self.grid(name, shape)
        self.add_levels(made, source, *read)

    def add_levels(self, made: Levels, source: str, *read: Levels) -> None:
        """Add a line that quantises `source` to the grid of `made`, if it is small."""
        self.add_integers(made, made.quantize(source), *read)

    def add_integers(self, made: Levels, source: str, *read: Levels) -> None:
        """Add levels whose integers are given by `source`, if they are few."""
        if element_count(made.shape) <= LARGEST:
            self.lines.append(f"{made.name} = {source}")
            self.levels.append(made)
            self.read.update(each.name for each in read)

    def integers(self, shape: Sequence[int], kind: str, least: int, steps: int) -> str:
        """Add a weight of random or extreme integers; return its source."""
        drawn = f"rng.integers({least}, {least + steps}, {tuple(shape)})"
        if self.chance(0.12):
            ends = [least, least + steps - 1]
            drawn = f"rng.choice({ends}, {tuple(shape)})"
        return self.weight(f"{drawn}.astype({kind!r})")

    def byte_weight(self, shape: Shape, depth: int, *, zero: bool = False) -> str:
        """Add a quantised weight; return the source of it dequantised."""
        scale = 1 / (74 * math.sqrt(max(depth, 1)))
        is_unsigned = zero and self.chance(0.5)
        least, steps, kind = (0, 256, "u1") if is_unsigned else (-128, 256, "i1")
        if self.chance(0.25):  # 7 bits, whose products of pairs fit 16
            least, steps = (least + 64, 128)
        sizes, axis = [int(n) for n in shape], len(shape) - 1
        turned = len(sizes) == 2 and self.chance(0.3)
        stored = [sizes[1], sizes[0]] if turned else sizes
        name = self.integers(stored, kind, least, steps)
        axis = 0 if turned else axis
        if self.chance(0.4):
            point = self.one_of((0, 3, 128 if is_unsigned else -7)) if zero else 0
            given = f"numpy.float32({scale}), numpy.dtype({kind!r}).type({point})"
        else:
            drawn = f"rng.uniform({0.5 * scale}, {2 * scale}, {sizes[-1]})"
            scales, points = self.weight(f"{drawn}.astype('f4')"), "0"
            if zero:
                points = self.integers([sizes[-1]], kind, least, steps)
            given = f"{scales}, {points}, axis={axis}"
        return f"nn.dequantize({name}, {given}){'.T' if turned else ''}"

    # ---- the source -----------------------------------------------------------------

    def source(self) -> str:
        """Return the entry's source; it returns what nothing reads."""
        unread = [each.name for each in self.levels if each.name not in self.read]
        made = [name for name in unread if name not in self.inputs]
        last = [each.name for each in self.levels[-1:]]
        results = [*self.results, *(made or ([] if self.results else last))]
        returned = f"({', '.join(results)},)"
        if self.updated:
            returned = f"{self.updated}, {returned}"
        return self._declared() + self._written(self.name, returned)

    def source_of_bound(self) -> str:
        """Return the source of an entry that computes the allowed error."""
        return self._written(f"bound_of_{self.name}", f"({self.bound},)")

    def _declared(self) -> str:
        """Return the source lines before the entry: its weights."""
        before = f"n_{self.name} = aotc.Dim('n_of_{self.name}', min=0)\n"
        stated = f"s_{self.name} = aotc.State({self.state[1]})\n" if self.state else ""
        return before * self.has_batch + stated

    def _written(self, name: str, returned: str) -> str:
        """Return the source of an entry with this name and return value."""
        specs = {
            name: f"aotc.Spec({self._sizes(shape)}, {dtype!r})"
            for name, (dtype, shape) in self.inputs.items()
        }
        if self.state:
            specs = {self.state[0]: f"s_{self.name}", **specs}
        given = ", ".join(f"{each}={spec}" for each, spec in specs.items())
        lines = [*self.lines, f"return {returned}"]
        body = "\n".join(f"    {line}" for line in lines)
        return f"@aotc.entry({given})\ndef {name}(w, {', '.join(specs)}):\n{body}\n"

    def _sizes(self, shape: Shape) -> str:
        """Return a shape as source, with the entry's own symbol for `n`."""
        sizes = "".join(f"{size}, " for size in shape)
        return f"({sizes.strip()})".replace("n", f"n_{self.name}")
