"""Random entries of quantised arithmetic, as source of a model file.

Products and convolutions of bytes, pools, residuals, concatenations, movement and
elementwise chains between tensors of bytes; weights of 4 to 8 bits beside floats, by
channel and in blocks; half precision.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .weighted_forms import LARGEST, Shape, element_count

# between bytes: those whose ops round alike on all targets, and those that round as
# the functions of a target do
EXACT_CHAINS = (
    "nn.relu({0})", "np.clip({0}, -0.7, 0.9)", "{0} * 0.37", "{0} / 1.7 + 0.21",
    "np.where({0} > 0, {0}, 0.1 * {0})", "np.abs({0})", "-{0}", "np.maximum({0}, 0.2)",
    "nn.hard_swish({0})", "{0} * {0}",
)  # fmt: skip
CHAINS = (
    "nn.gelu({0})", "nn.gelu({0}, approximate=True)", "nn.sigmoid({0})",
    "np.tanh({0})", "nn.silu({0})", "{0} * nn.sigmoid({0})", "np.exp({0} - 2.0)",
    "nn.softplus({0})", "np.sqrt(np.abs({0}))", "nn.elu({0})", "nn.mish({0})",
)  # fmt: skip
ROWS = ("nn.softmax({0})", "nn.layer_norm({0})", "nn.softmax({0}, axis=-2)",
    "nn.rms_norm({0})")  # fmt: skip
BINARY = ("{0} + {1}", "{0} - {1}", "{0} * {1}", "np.maximum({0}, {1})",
    "nn.relu({0} + {1})")  # fmt: skip
FEATURES = (1, 3, 4, 8, 15, 16, 17, 24, 32, 33, 64, 70)
LENGTHS = (1, 2, 3, 5, 8, 13, 16, 21)
BLOCKS = (16, 32, 64, 128, None)


@dataclass(frozen=True)
class Levels:
    """A tensor of bytes.

    Args:
        name: of the variable.
        shape: of it.
        scale: the size of a step.
        zero_point: the integer that stands for 0.
        dtype: of the bytes.
    """

    name: str
    shape: Shape
    scale: float
    zero_point: int
    dtype: str

    @property
    def floats(self) -> str:
        """The source of the numbers that the bytes stand for."""
        scale = f"numpy.float32({self.scale})"
        return f"nn.dequantize({self.name}, {scale}, {self._zero})"

    @property
    def _zero(self) -> str:
        kind = "uint8" if self.dtype == "u8" else "int8"
        return f"numpy.{kind}({self.zero_point})"

    def quantize(self, source: str) -> str:
        """The source of the bytes of some numbers."""
        given = f"numpy.float32({self.scale}), {self._zero}, {self.dtype!r}"
        return f"nn.quantize({source}, {given})"


@dataclass
class QuantizedEntry:
    """An entry as it is drawn.

    Args:
        rng: that draws it.
        name: of its function; those of its weights begin with it.
        is_exact: whether its results are the same integers on every target.
        has_batch: whether calls decide the size of the first axis.
        is_half: whether it computes in half precision.
        inputs: dtypes and shapes by name.
        levels: tensors of bytes.
        weights: the source of each array, by name.
        lines: of its body.
        results: names of floats that it returns; bytes that nothing reads are, too.
        read: names of bytes that others are computed from.
        families: what was drawn.
    """

    rng: np.random.Generator
    name: str
    is_exact: bool = True
    has_batch: bool = False
    is_half: bool = False
    inputs: dict[str, tuple[str, Shape]] = field(default_factory=dict)
    levels: list[Levels] = field(default_factory=list)
    weights: dict[str, str] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    results: list[str] = field(default_factory=list)
    read: set[str] = field(default_factory=set)
    families: list[str] = field(default_factory=list)

    # ---- drawing --------------------------------------------------------------------

    def one_of(self, some: Sequence[Any]) -> Any:
        """Return any of them."""
        return some[int(self.rng.integers(len(some)))]

    def chance(self, share: float) -> bool:
        """Return whether something that happens so often happens."""
        return bool(self.rng.random() < share)

    def some_levels(self, *ranks: int) -> Levels | None:
        """Return any tensor of bytes of some ranks."""
        found = [each for each in self.levels if len(each.shape) in ranks]
        return self.one_of(found) if found else None

    def weight(self, source: str) -> str:
        """Add an array to the weights; return the source that reads it."""
        name = f"{self.name}_{len(self.weights)}"
        self.weights[name] = source
        return f"w[{name!r}]"

    def line(self, source: str) -> str:
        """Add a line to the body; return the name of its value."""
        name = f"t{len(self.lines)}"
        self.lines.append(f"{name} = {source}")
        return name

    def grid(self, name: str, shape: Shape) -> Levels:
        """Return levels of any dtype, scale and zero point for numbers near 1."""
        dtype = self.one_of(("u8", "u8", "i8"))
        least = 0 if dtype == "u8" else -128
        middle = [0, 128 + least, least, least + 255]
        middle += [int(self.rng.integers(least, least + 256)) for _ in range(2)]
        scale = self.one_of((2.0**-5, 0.0173, float(self.rng.uniform(0.008, 0.05))))
        return Levels(name, shape, round(scale, 6), self.one_of(middle), dtype)

    def add(self, source: str, shape: Shape, *read: Levels) -> None:
        """Quantise numbers to a new tensor of bytes, unless it is too large."""
        if element_count(shape) > LARGEST or 0 in shape:
            return
        made = self.grid(f"q{len(self.lines)}", shape)
        self.lines.append(f"{made.name} = {made.quantize(source)}")
        self.levels.append(made)
        self.read.update(each.name for each in read)

    def byte_weight(self, shape: Shape, depth: int, *, zero: bool = False) -> str:
        """Return the source of a dequantised weight; features are its last axis."""
        scale: Any = 1 / (74 * math.sqrt(max(depth, 1)))
        is_unsigned = zero and self.chance(0.5)
        low, high, kind = (0, 256, "u1") if is_unsigned else (-128, 128, "i1")
        name = self.weight(f"rng.integers({low}, {high}, {shape}).astype({kind!r})")
        if self.chance(0.4):
            point = self.one_of((0, 3, 128 if is_unsigned else -7)) if zero else 0
            return (
                f"nn.dequantize({name}, numpy.float32({scale}), "
                f"numpy.dtype({kind!r}).type({point}))"
            )
        drawn = f"rng.uniform({0.5 * scale}, {2 * scale}, {shape[-1]})"
        scales = self.weight(f"{drawn}.astype('f4')")
        points = "0"
        if zero:
            drawn = f"rng.integers({low}, {high}, {shape[-1]})"
            points = self.weight(f"{drawn}.astype({kind!r})")
        axis = len(shape) - 1
        return f"nn.dequantize({name}, {scales}, {points}, axis={axis})"

    def biased(self, source: str, features: Any) -> str:
        """Return a sum with what often follows a product."""
        if self.chance(0.6):
            drawn = f"rng.normal(size={features}, scale=0.3).astype('f4')"
            source = f"{source} + {self.weight(drawn)}"
        if self.chance(0.5):
            chains = EXACT_CHAINS if self.is_exact else (*EXACT_CHAINS, *CHAINS)
            source = self.one_of(chains).format(self.line(source))
        return source

    # ---- steps ----------------------------------------------------------------------

    def product(self) -> None:
        """Rows by a weight."""
        found = self.some_levels(2, 3, 4)
        if found is None:
            return
        *rows, depth = found.shape
        features = self.one_of(FEATURES)
        right = self.byte_weight((depth, features), int(depth), zero=self.chance(0.3))
        if self.chance(0.3):
            right = f"np.transpose(np.transpose({right}))"
        source = self.biased(f"{found.floats} @ {right}", features)
        self.add(source, (*rows, features), found)

    def product_of_values(self) -> None:
        """Two tensors of bytes that both change from call to call."""
        found = self.some_levels(3)
        if found is None:
            return
        batch, rows, depth = found.shape
        others = [
            each
            for each in self.levels
            if len(each.shape) == 3 and (each.shape[0], each.shape[2]) == (batch, depth)
        ]
        other = self.one_of(others)
        source = f"np.einsum('bid,bjd->bij', {found.floats}, {other.floats})"
        source = f"{source} * numpy.float32({1 / math.sqrt(int(depth)):.4f})"
        self.add(source, (batch, rows, other.shape[1]), found, other)

    def convolution(self) -> None:
        """Windows of an image or a sequence, of all channels, of each or of groups."""
        windows = self._windows()
        if windows is None:
            return
        found, window, given, result = windows
        channels = int(found.shape[-1])
        divisors = [n for n in (2, 3, 4, 8) if channels % n == 0]
        kind = self.one_of(("all", "each", "groups" if divisors else "all"))
        groups = {"all": 1, "each": channels}.get(kind) or self.one_of(divisors)
        features = groups * self.one_of((1, 2) if kind == "each" else (3, 4, 8))
        depth = math.prod(window) * channels // groups
        if groups > 1 and depth > 255:
            self.is_exact = False
        right = self.byte_weight((*window, channels // groups, features), depth)
        name = f"nn.conv{len(window)}d"
        source = f"{name}({found.floats}, {right}, {given}, groups={groups})"
        shape = (found.shape[0], *result, features)
        self.add(self.biased(source, features), shape, found)

    def pooling(self) -> None:
        """The largest or the mean of windows, or of a whole image."""
        windows = self._windows(is_pool=True)
        if windows is None:
            return
        found, window, given, result = windows
        count, *_, channels = found.shape
        if not self.is_exact and self.chance(0.6):
            axes = tuple(range(1, len(found.shape) - 1))
            mean = f"np.mean({found.floats}, axis={axes}, keepdims=True)"
            whole = f"nn.avg_pool({found.floats}, {window}, {given})"
            if self.chance(0.5):
                self.add(mean, (count, *(1 for _ in axes), channels), found)
            else:
                self.add(whole, (count, *result, channels), found)
            return
        source = f"nn.max_pool({found.floats}, {window}, {given})"
        self.add(source, (count, *result, channels), found)

    def _windows(self, *, is_pool: bool = False) -> Any:
        """Return bytes, the windows that go over them, and how many there are."""
        found = self.some_levels(3, 4)
        if found is None:
            return None
        sizes = found.shape[1:-1]
        window, strides, dilation = (
            tuple(self.one_of(some) for _ in sizes)
            for some in ((1, 2, 3, 3), (1, 1, 2), (1,) if is_pool else (1, 1, 2))
        )
        most = [(k - 1) // 2 if is_pool else 2 for k in window]
        ends = [
            (int(self.rng.integers(0, n + 1)), int(self.rng.integers(0, n + 1)))
            for n in most
        ]
        result = [
            (int(n) + sum(p) - (k - 1) * d - 1) // s + 1
            for n, p, k, d, s in zip(
                sizes, ends, window, dilation, strides, strict=True
            )
        ]
        if min(result) < 1:
            return None
        given = f"strides={strides}, padding={tuple(ends)}, dilation={dilation}"
        return found, window, given, result

    def binary(self) -> None:
        """Two tensors of bytes of other grids, or one and a row of numbers."""
        found = self.one_of(self.levels)
        same = [each for each in self.levels if each.shape == found.shape]
        other = self.one_of(same)
        right = other.floats
        if self.chance(0.2):
            size = found.shape[-1]
            right = self.weight(f"rng.normal(size={size}).astype('f4')")
        elif self.chance(0.15):
            right = f"{other.floats}[..., :1]"
        source = self.one_of(BINARY).format(found.floats, right)
        self.add(source, found.shape, found, other)

    def concatenation(self) -> None:
        """Two tensors of bytes along the last axis."""
        found = self.one_of(self.levels)
        alike = [x for x in self.levels if x.shape[:-1] == found.shape[:-1]]
        other = self.one_of(alike)
        source = f"np.concatenate([{found.floats}, {other.floats}], axis=-1)"
        shape = (*found.shape[:-1], int(found.shape[-1]) + int(other.shape[-1]))
        self.add(source, shape, found, other)

    def chain(self) -> None:
        """Elementwise ops of one tensor of bytes."""
        found = self.one_of(self.levels)
        chains = EXACT_CHAINS if self.is_exact else (*EXACT_CHAINS, *CHAINS, *CHAINS)
        source = found.floats
        for _ in range(int(self.rng.integers(1, 4))):
            source = self.one_of(chains).format(self.line(source))
        self.add(source, found.shape, found)

    def rows(self) -> None:
        """Norms and softmax of rows."""
        found = self.some_levels(2, 3)
        if found is None or self.is_exact:
            return
        self.add(self.one_of(ROWS).format(found.floats), found.shape, found)

    def movement(self) -> None:
        """Bytes in another order or form, quantised again as they were or not."""
        found = self.one_of(self.levels)
        first, *rest = found.shape
        order = (0, *(1 + int(n) for n in self.rng.permutation(len(rest))))
        moved: Shape = tuple(found.shape[axis] for axis in order)
        last = int(found.shape[-1])
        forms: list[tuple[str, Shape]] = [
            (f"np.transpose({{0}}, {order})", moved),
            ("{0}[..., ::-1]", found.shape),
            (f"{{0}}[..., :{(last + 1) // 2}]", (*found.shape[:-1], (last + 1) // 2)),
            ("np.take({0}, numpy.array([0, -1, 9]), axis=-1, mode='clip')",
             (*found.shape[:-1], 3)),
            ("np.pad({0}, %s)" % ([(0, 0)] * len(rest) + [(1, 2)]),
             (*found.shape[:-1], last + 3)),
        ]  # fmt: skip
        if len(rest) == 3:
            flat = f"np.reshape({{0}}, ({{0}}.shape[0], -1, {last}))"
            forms.append((flat, (first, int(rest[0]) * int(rest[1]), last)))
        source, shape = self.one_of(forms)
        name = self.line(found.floats)
        if self.chance(0.5):
            made = Levels(f"q{len(self.lines)}", shape, found.scale, found.zero_point,
                found.dtype)  # fmt: skip
            self.lines.append(f"{made.name} = {made.quantize(source.format(name))}")
            self.levels.append(made)
            self.read.add(found.name)
        else:
            self.add(source.format(name), shape, found)

    # ---- whole entries --------------------------------------------------------------

    def draw(self) -> None:
        """Draw what the entry computes."""
        kind = self.rng.choice(4, p=(0.55, 0.25, 0.15, 0.05))
        if kind < 2:
            self.is_exact = bool(kind == 0)
            self._draw_bytes()
        else:
            self.is_exact = False
            self.is_half = bool(kind == 3)
            self._draw_weights_alone()

    def _draw_bytes(self) -> None:
        self.has_batch = self.chance(0.3)
        first: Any = "n" if self.has_batch else self.one_of((1, 2, 3))
        shapes: list[Shape] = [
            (first, self.one_of(FEATURES)),
            (first, self.one_of(LENGTHS), self.one_of(FEATURES)),
            (first, self.one_of((1, 5, 8, 9)), self.one_of((1, 6, 7)),
             self.one_of((1, 3, 4, 8, 16, 24, 32, 40))),
        ]  # fmt: skip
        for number in range(int(self.rng.integers(1, 3))):
            self._add_input(f"x{number}", self.one_of(shapes))
        steps: dict[Callable[[], None], float] = {
            self.product: 0.25, self.product_of_values: 0.07, self.convolution: 0.2,
            self.pooling: 0.07, self.binary: 0.13, self.concatenation: 0.05,
            self.chain: 0.12, self.rows: 0.03, self.movement: 0.08,
        }  # fmt: skip
        wanted = int(self.rng.integers(2, 6)) + len(self.levels)
        for _ in range(20):
            if len(self.levels) >= wanted:
                break
            step = [*steps][self.rng.choice(len(steps), p=[*steps.values()])]
            before = len(self.levels)
            step()
            if len(self.levels) > before:
                self.families.append(step.__name__)

    def _add_input(self, name: str, shape: Shape) -> None:
        made = self.grid(name, shape)
        if self.chance(0.4):
            self.inputs[name] = (made.dtype, shape)
            self.levels.append(made)
            return
        self.inputs[name] = ("f32", shape)
        made = self.grid(f"q{name}", shape)
        self.lines.append(f"{made.name} = {made.quantize(name)}")
        self.levels.append(made)

    def _draw_weights_alone(self) -> None:
        """Draw a product by a weight of few bits, or in half precision."""
        self.has_batch = self.chance(0.3)
        rows: Any = "n" if self.has_batch else self.one_of((1, 1, 2, 5, 16, 33))
        block = self.one_of(BLOCKS)
        depth = self.one_of((1, 2, 3)) * (block or self.one_of((32, 96, 100)))
        features = self.one_of((1, 8, 16, 31, 48, 64))
        half = self.one_of(("bf16", "f16"))
        self.inputs["x0"] = (half if self.is_half else "f32", (rows, depth))
        if self.is_half:
            drawn = f"rng.normal(size=({features}, {depth}), scale=0.1).astype('f4')"
            name = f"np.astype({self.weight(drawn)}, {half!r})"
            self.families.append(half)
        else:
            name = self._blocks(features, depth, block)
            self.families.append(f"weights in blocks of {block}")
        source = self.line(f"x0 @ {name}.T")
        if self.chance(0.4):
            source = self.one_of(("nn.relu({0})", "nn.silu({0})")).format(source)
        self.results.append(self.line(source))

    def _blocks(self, features: int, depth: int, block: int | None) -> str:
        bits = self.one_of((4, 4, 5, 6, 8))
        is_signed = self.chance(0.5)
        kind, least = ("i1", -(2 ** (bits - 1))) if is_signed else ("u1", 0)
        drawn = f"rng.integers({least}, {least + 2**bits}, ({features}, {depth}))"
        q = self.weight(f"{drawn}.astype({kind!r})")
        shape = (features, depth // block) if block else (features,)
        kept = self.one_of(("f4", "f2"))
        size = 0.2 / 2**bits
        drawn = f"rng.uniform({size}, {4 * size}, {shape}).astype({kept!r})"
        scale = f"np.astype({self.weight(drawn)}, 'f32')"
        together = self.one_of((0, 2, 8)) if block else 0
        if together and depth // block % together == 0:
            scale = self._of_bytes(scale, shape, together)
        points, less = "0", "None"
        if self.chance(0.5):
            drawn = f"rng.integers({least}, {least + 2**bits}, {shape})"
            points = self.weight(f"{drawn}.astype({kind!r})")
        elif self.chance(0.4):
            less = self.weight(f"rng.uniform(0, 0.4, {shape}).astype('f4')")
        given = f"axis={1 if block else 0}, block={block}, less={less}"
        if bits < 8:
            given = f"{given}, bits={bits}"
        return f"nn.dequantize({q}, {scale}, {points}, {given})"

    def _of_bytes(self, unit: str, shape: Shape, together: int) -> str:
        """Scales that are bytes, and have some of the given ones as theirs."""
        q = self.weight(f"rng.integers(-4, 5, {shape}).astype('i1')")
        first = f"{unit}[:, ::{together}]"
        return f"nn.dequantize({q}, {first}, axis=1, block={together})"

    def source(self) -> str:
        """Return the entry in a model file; it returns what nothing reads."""
        unread = [each.name for each in self.levels if each.name not in self.read]
        made = [name for name in unread if name not in self.inputs]
        last = [each.name for each in self.levels[-1:]]
        results = [*self.results, *(made or last)]
        specs = [
            f"{name}=aotc.Spec({_written(shape)}, {dtype!r})"
            for name, (dtype, shape) in self.inputs.items()
        ]
        before = f"n = aotc.Dim('n_of_{self.name}', min=0)\n" * self.has_batch
        lines = [*self.lines, f"return ({', '.join(results)},)"]
        body = "\n".join(f"    {line}" for line in lines)
        names = ", ".join(self.inputs)
        head = f"@aotc.entry({', '.join(specs)})\ndef {self.name}(w, {names}):"
        return f"{before}{head}\n{body}\n"


def _written(shape: Shape) -> str:
    sizes = "".join(f"{size}, " for size in shape)
    return f"({sizes.strip()})"
