"""Random entries of what kernels compute, as source of a model file.

Products and convolutions by weights and of values, attention, windows, norms and sums,
in one op or written out as exporters do, on sizes that a call decides as well.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .weighted_forms import (
    BINARY,
    LARGEST,
    NORMS,
    REDUCTIONS,
    ROWS,
    SIZES,
    SOFTMAXES,
    UNARY,
    Shape,
    Size,
    element_count,
    rows_of,
    times,
)
from .weighted_lookups import NIBBLES, add_lookups


@dataclass
class Entry:
    """A random entry with weights, under construction.

    Args:
        rng: that draws it.
        name: of its function; those of its weights begin with it.
        least: what a call may decide at least; None if all sizes are static.
        values: names and shapes of inputs and results.
        weights: shapes by name.
        lines: of its body.
        read: names of values that others are computed from.
        text: its source, once it is drawn.
        has_lookups: whether it looks something up as well (`weighted_lookups`).
    """

    rng: np.random.Generator
    name: str
    least: int | None = None
    values: list[tuple[str, Shape]] = field(default_factory=list)
    weights: dict[str, tuple[int, ...]] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    read: set[str] = field(default_factory=set)
    text: str = ""
    has_lookups: bool = False

    def one_of(self, some: Sequence[Any]) -> Any:
        """Draw one of several options."""
        return some[int(self.rng.integers(len(some)))]

    def chance(self, share: float) -> bool:
        """Draw true with a probability."""
        return bool(self.rng.random() < share)

    def value(self, *ranks: int) -> tuple[str, Any] | None:
        """Draw a value of one of these ranks (any if none) with static features."""
        found = [
            (name, shape)
            for name, shape in self.values
            if (not ranks or len(shape) in ranks) and shape
            if isinstance(shape[-1], int)
        ]
        return self.one_of(found) if found else None

    def weight(self, *shape: Size) -> str:
        """Add a weight of this shape, or reuse one; return its source."""
        sizes = tuple(n if isinstance(n, int) else 1 for n in shape)
        known = [name for name, other in self.weights.items() if other == sizes]
        if known and self.chance(0.4):
            return f"w[{self.one_of(known)!r}]"
        name = f"{self.name}_{len(self.weights)}"
        self.weights[name] = sizes
        return f"w[{name!r}]"

    def add(self, source: str, shape: Shape, *read: str) -> None:
        """Add a line and its value, unless the value is too large."""
        if element_count(shape) <= LARGEST:
            name = f"v{len(self.lines)}"
            self.lines.append(f"{name} = {source}")
            self.values.append((name, shape))
            self.read.update(read)

    # ---- steps ----------------------------------------------------------------------

    def product(self) -> None:
        """Add a product of a value by a weight, on either side, over one axis or
        two.
        """
        found = self.value()
        if found is None:
            return
        x, (*rows, depth) = found
        others = [n for _, s in self.values for n in s[-1:] if isinstance(n, int)]
        features = self.one_of([self.one_of(SIZES), self.one_of(others)])
        inner = rows[-1] if rows and isinstance(rows[-1], int) else None
        if len(rows) >= 2 and inner and inner * depth < 400 and self.chance(0.2):
            right = self.weight(inner, depth, features)
            source = f"np.einsum('...yz,yzn->...n', {x}, {right})"
            self.add(source, (*rows[:-1], features), x)
        elif self.chance(0.15):
            right = self.weight(depth, 4, features)
            source = f"np.einsum('...z,zmn->...mn', {x}, {right})"
            self.add(source, (*rows, 4, features), x)
        elif self.chance(0.3):
            right = self.weight(features, depth)
            self.add(f"{x} @ {right}.T", (*rows, features), x)
        else:
            right = self.weight(depth, features)
            self.add(f"{x} @ {right}", (*rows, features), x)

    def product_of_values(self) -> None:
        """Add a batched product of two values."""
        found = self.value(2, 3, 4)
        if found is None:
            return
        x, (*batch, rows, depth) = found
        others = [
            (name, shape)
            for name, shape in self.values
            if list(shape[:-2]) == batch and len(shape) == len(batch) + 2
        ]
        y, (*_, second, last) = self.one_of(others)
        if second == depth and self.chance(0.7):
            self.add(f"np.matmul({x}, {y}) * 0.2", (*batch, rows, last), x, y)
        elif last == depth and self.chance(0.7):
            source = f"np.matmul({x}, np.swapaxes({y}, -1, -2)) * 0.2"
            self.add(source, (*batch, rows, second), x, y)
        elif second == rows and isinstance(rows, int):
            source = f"np.einsum('...ab,...ac->...bc', {x}, {y}) * 0.2"
            self.add(source, (*batch, depth, last), x, y)

    def attention(self) -> None:
        """Add an attention, to itself or another sequence, with masks of all kinds."""
        found = self.value(3)
        if found is None:
            return
        x, (batch, length, depth) = found
        sources = [
            (name, shape)
            for name, shape in self.values
            if len(shape) == 3 and shape[0] == batch and isinstance(shape[2], int)
        ]
        y, (_, positions, width) = self.one_of(sources)
        shared, group = self.one_of((1, 1, 2, 3)), self.one_of((1, 1, 2, 4))
        is_written_out = self.chance(0.25)  # as exporters do
        heads, inner = shared * group, self.one_of((4, 8, 16, 20, 33))
        if length != 1 and self.least != 0 and self.chance(0.25):
            x, length = f"{x}[:, -1:]", 1

        def heads_of(z: str, features: int, count: int) -> str:
            right = self.weight(features, count * inner)
            shape = f"(*{z}.shape[:2], {count}, {inner})"
            return f"np.reshape({z} @ {right}, {shape})"

        query = heads_of(x, depth, heads)
        key, value = (
            heads_of(y, width, heads if is_written_out else shared) for _ in range(2)
        )
        if is_written_out:
            scores = f"np.einsum('blhd,bshd->bhls', {query}, {key})"
            weights = f"nn.softmax({scores} / {math.sqrt(inner)})"
            source = f"np.einsum('bhls,bshd->blhd', {weights}, {value})"
        else:
            bias = self.one_of([
                "", "", f"bias={self.weight(1, heads, length, positions)}",
                f"bias={self.weight(1, 1, 1, positions)}",
                f"mask=np.arange({y}.shape[1]) < {self.one_of((1, 5, 64))}",
            ])  # fmt: skip
            causal = f"causal={self.chance(0.4)}"
            given = ", ".join(filter(None, (query, key, value, bias, causal)))
            source = f"nn.attention({given})"
        result = (batch, length, heads, inner)
        self.add(source, result, x.partition("[")[0], y)
        if self.chance(0.6) and self.values[-1][1] == result:
            name = self.values[-1][0]
            merged = f"np.reshape({name}, (*{name}.shape[:2], {heads * inner}))"
            self.add(merged, (batch, length, heads * inner), name)

    def convolution(self) -> None:
        """Add a convolution with random window, stride, padding and dilation."""
        found = self._windows()
        if found is None:
            return
        x, (count, *_, channels), window, given, result = found
        if len(window) == 2 and self.chance(0.4):
            self._inverted_residual(*found)
            return
        features = self.one_of((8, 16, 17, 40, channels))
        is_depthwise = self.chance(0.25)
        groups, seen = (channels, 1) if is_depthwise else (1, channels)
        features = channels if is_depthwise else features
        kernel = self.weight(*window, seen, features)
        source = f"nn.conv{len(window)}d({x}, {kernel}, {given}, groups={groups})"
        self.add(source, (count, *result, features), x)

    def _inverted_residual(
        self, x: str, shape: Shape, window: list[int], given: str, result: list[int]
    ) -> None:
        """Add pointwise, depthwise and pointwise convolutions."""
        count, *_, channels = shape
        middle, features = self.one_of((16, 24, 40)), self.one_of((8, 17, channels))
        kernel = self.weight(*window, 1, middle)
        if self.chance(0.8):
            x = f"nn.conv2d({x}, {self.weight(1, 1, channels, middle)})"
            x = self._line(self._epilogue(x, middle))
        else:
            x = self._line(f"np.tile({x}, (1, 1, 1, {middle}))[..., :{middle}]")
        x = f"nn.conv2d({x}, {kernel}, {given}, groups={middle})"
        x = self._epilogue(x, middle)
        if self.chance(0.8):
            x = f"nn.conv2d({self._line(x)}, {self.weight(1, 1, middle, features)})"
            middle = features
        self.add(x, (count, *result, middle))

    def _epilogue(self, source: str, channels: int) -> str:
        """Return `source`, often with a bias and activation."""
        if self.chance(0.6):
            source = f"{source} + {self.weight(channels)}"
        if self.chance(0.3):
            return source
        return str(self.one_of(UNARY).format(self._line(source)))

    def _line(self, source: str) -> str:
        """Add a line for a temporary value; return its name."""
        name = f"t{len(self.lines)}"
        self.lines.append(f"{name} = {source}")
        return name

    def pooling(self) -> None:
        """Add a max or average pooling."""
        found = self._windows()
        if found is None:
            return
        x, (count, *_, channels), window, given, result = found
        kind = self.one_of(("max", "avg"))
        if kind == "avg" and self.chance(0.4):
            given += ", count_include_pad=True"
        # windows of nothing but padding have no largest element, and no mean
        source = f"np.nan_to_num(nn.{kind}_pool({x}, {tuple(window)}, {given}))"
        self.add(source, (count, *result, channels), x)

    def _windows(self) -> Any:
        """Draw a value, windows over it, and their number."""
        found = self.value(3, 4)
        if found is None:
            return None
        x, (count, *size, channels) = found
        if not all(isinstance(n, int) for n in size):
            return None
        axes = range(len(size))
        window, strides, dilation = (
            [self.one_of(some) for _ in axes]
            for some in ((1, 1, 2, 3, 5), (1, 1, 2, 3), (1, 1, 2))
        )
        ends = [(self.one_of((0, 0, 1, 2)), self.one_of((0, 0, 1, 3))) for _ in axes]
        result = [
            (n + sum(p) - (k - 1) * d - 1) // s + 1
            for n, p, k, d, s in zip(size, ends, window, dilation, strides, strict=True)
        ]
        if min(result) < 1:
            return None
        given = (
            f"strides={tuple(strides)}, padding={tuple(ends)}, "
            f"dilation={tuple(dilation)}"
        )
        return x, (count, *size, channels), window, given, result

    def elementwise(self) -> None:
        """Add an elementwise op of a value and something that broadcasts to it."""
        x, shape = self.values[-1] if self.chance(0.6) else self.one_of(self.values)
        if self.chance(0.4) or not shape:
            self.add(self.one_of(UNARY).format(x), shape, x)
            return
        same = self.one_of([name for name, other in self.values if other == shape])
        others = [
            same, same, same, self.weight(shape[-1]), self.weight(),
            self.weight(*shape[:-1], 1), f"{same}.mean(axis=-1, keepdims=True)",
            f"{same}[..., :1]", f"{same}.mean()", self.weight(*shape),
        ]  # fmt: skip
        if isinstance(shape[0], int):
            others.append(f"{same}[0]")
        self.add(self.one_of(BINARY).format(x, self.one_of(others)), shape, x)

    def norm(self) -> None:
        """Add a norm or softmax of rows."""
        x, shape = self.one_of(self.values)
        if len(shape) < 2:
            return
        if not isinstance(shape[-1], int):
            self.add(self.one_of(SOFTMAXES).format(x), shape, x)
            return
        along = [self.weight(shape[-1]) for _ in range(2)]
        self.add(self.one_of(NORMS).format(x, *along), shape, x)

    def reduction(self) -> None:
        """Add a reduction along one axis or two."""
        x, shape = self.one_of(self.values)
        if len(shape) < 2:
            return
        count = 2 if len(shape) > 2 and self.chance(0.3) else 1
        # not along what may be empty: there is no largest of no elements
        fixed = [axis for axis, size in enumerate(shape) if isinstance(size, int)]
        if len(fixed) < count:
            return
        axes = sorted(int(a) for a in self.rng.choice(fixed, count, replace=False))
        source = self.one_of(REDUCTIONS).format(x, tuple(axes))
        self.add(source, tuple(n for a, n in enumerate(shape) if a not in axes), x)

    def movement(self) -> None:
        """Add a step that reorders, reshapes or selects elements."""
        x, shape = self.one_of(self.values)
        if len(shape) < 2:
            return
        order = [int(axis) for axis in self.rng.permutation(len(shape))]
        rows, features = rows_of(shape[:-1]), shape[-1]
        moved = tuple(shape[axis] for axis in order)
        forms: list[tuple[str, Shape]] = [
            (f"np.transpose({x}, {tuple(order)})", moved),
            (
                f"np.concatenate([{x}, {x} * 2.0], axis=0)",
                (times(shape[0], 2), *shape[1:]),
            ),
        ]
        if rows is not None and isinstance(features, int):
            forms.append((f"{x}.reshape(-1, {features})", (rows, features)))
        if isinstance(features, int) and features > 2:
            half = (*shape[:-1], features // 2)
            double = (*shape[:-1], 2 * features)
            padded = (*shape[:-1], features + 3)
            ends = [(0, 0)] * (len(shape) - 1) + [(1, 2)]
            forms += [
                (f"{x}[..., :{features // 2}]", half),
                (f"{x}[..., {features % 2}::2]", half),
                (f"{x}[..., ::-1]", shape),
                (f"np.roll({x}, 2, axis=-1)", shape),
                (f"np.concatenate([{x}, {x}[..., ::-1]], axis=-1)", double),
                (f"np.pad({x}, {tuple(ends)})", padded),
                (f"np.take({x}, numpy.array([1, 0, 2, 2]), axis=-1)", (*shape[:-1], 4)),
            ]
        self.add(*self.one_of(forms), x)

    # ---- whole entries --------------------------------------------------------------

    def draw(self) -> None:
        """Draw the inputs and all steps of the entry."""
        if self.chance(0.35):
            self.least = self.one_of((0, 1, 1))
        for number in range(int(self.rng.integers(1, 3))):
            self.values.append((f"x{number}", self._input()))
        steps: dict[Callable[[], None], float] = {
            self.product: 0.17, self.product_of_values: 0.08, self.attention: 0.08,
            self.convolution: 0.12, self.pooling: 0.04, self.elementwise: 0.3,
            self.norm: 0.08, self.reduction: 0.05, self.movement: 0.08,
        }  # fmt: skip
        for _ in range(int(self.rng.integers(5, 15))):
            chosen = self.rng.choice(len(steps), p=[*steps.values()])
            [*steps][chosen]()
        if self.has_lookups:
            add_lookups(self)

    def _input(self) -> Shape:
        """Draw the shape of an input."""
        rows, features = self.one_of(ROWS), self.one_of(SIZES)
        shapes: list[Shape] = [
            (rows, features), (rows, features), (features,), (2, rows, features),
            (1, rows, features), (1, rows, self.one_of((1, 7, 16)), min(features, 24)),
            (3, rows, min(features, 33)),
        ]  # fmt: skip
        shape: Shape = self.one_of(shapes)
        if self.least is None or len(shape) < 2:
            return shape
        if len(shape) == 3 and self.chance(0.4):
            return (shape[0], "n", shape[2])
        return ("n", *shape[1:])

    def source(self) -> str:
        """Return the entry's source; it returns what nothing reads, and one value more.

        Some return the derivative of a sum of that by their inputs and weights, and
        some keep their first input as a state between calls.
        """
        inputs = {name: shape for name, shape in self.values if name[0] == "x"}
        made = [name for name, _ in self.values if name[0] == "v"] or ["x0 * 2.0"]
        results = [x for x in made if x not in self.read][-4:] + [self.one_of(made)]
        specs = {
            name: f"aotc.Spec({_written(each)}, FLOATS)"
            for name, each in inputs.items()
        }
        names, lines = ", ".join(inputs), list(self.lines)
        returned, before = f"({', '.join(results)},)", ""
        is_state = self.least is None and self.chance(0.2)
        if self.least is not None:
            before = f"n = aotc.Dim('n_of_{self.name}', min={self.least})\n"
        if is_state:
            shape = inputs["x0"]
            specs["x0"] = f"state_of_{self.name}"
            drawn = f"rng.normal(size={_written(shape)}).astype(to_numpy(FLOATS))"
            before = f"{specs['x0']} = aotc.State({drawn})\n"
            same = [name for name, other in self.values if other == shape]
            returned = f"np.tanh({self.one_of(same)}) + 0.5 * x0, {returned}"
        body = "\n".join(f"    {line}" for line in [*lines, f"return {returned}"])
        is_whole = not any(name.endswith(NIBBLES) for name in self.weights)
        if not is_state and is_whole and self.chance(0.15):
            body = self._gradient(names, body)
        given = ", ".join(f"{name}={spec}" for name, spec in specs.items())
        return f"{before}@aotc.entry({given})\ndef {self.name}(w, {names}):\n{body}\n"

    def _gradient(self, names: str, body: str) -> str:
        """Return the body of an entry that returns the gradient of `body`."""
        indented = "\n".join(f"    {line}" for line in body.splitlines())
        positions = tuple(range(1 + len(names.split(", "))))
        return (
            f"    def results(w, {names}):\n{indented}\n\n"
            f"    def total(w, {names}):\n"
            f"        return sum(np.sum(np.tanh(y)) for y in results(w, {names}))\n\n"
            f"    own = {{name: w[name] for name in {[*self.weights]}}}\n"
            f"    return aotc.grad(total, {positions})(own, {names})"
        )


def _written(shape: Shape) -> str:
    """Return a shape as source."""
    sizes = "".join(f"{size}, " for size in shape)
    return f"({sizes.strip()})"
