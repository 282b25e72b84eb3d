"""Random models of products and convolutions by weights, with what is around them.

    python -m benchmarks.fuzz.weighted --models 10 --target x86_64-v3 --keep failed

The entries of a model read each other's results in any order, several times, moved and
broadcast, so that the regions that kernels compute (`passes/fuse_regions.py`) begin and
end in many ways. They are compared with the reference evaluator. Exits with 1 if any
differs; its model is written to the folder of `--keep`.
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import aotc
from aotc import reference
from aotc.errors import AotcError
from aotc.importers import load
from aotc.passes import run_passes
from aotc.pipeline import build
from aotc.target import Target

Shape = tuple[int, ...]

HEADER = """\
import numpy
import aotc
import aotc.numpy as np
from aotc import nn, special

rng = numpy.random.default_rng(0)
"""
UNARY = (
    "np.tanh({0})", "nn.relu({0})", "nn.gelu({0})", "np.exp(np.minimum({0}, 2.0))",
    "np.sin({0})", "nn.sigmoid({0})", "-{0}", "np.sqrt(np.abs({0}) + 0.1)",
    "np.clip({0}, -1.0, 1.0)", "{0} * 0.5", "1.0 - {0}", "special.erf({0})",
    "np.where({0} > 0, {0}, 0.1 * {0})", "np.log(np.abs({0}) + 0.5)", "np.cos({0})",
)  # fmt: skip
BINARY = (
    "{0} + {1}", "{0} * {1}", "{0} - {1}", "{1} - {0}", "np.maximum({0}, {1})",
    "{0} / (1.5 + np.abs({1}))", "np.where({0} > {1}, {0}, {1})",
)  # fmt: skip
SIZES = (1, 8, 9, 12, 16, 17, 24, 31, 32, 33, 48, 65, 100)
ROWS = (1, 2, 3, 7, 8, 13, 14, 15, 33, 64)
LARGEST = 60_000  # elements of a value


@dataclass
class Entry:
    """An entry as it is drawn.

    Args:
        rng: that draws it.
        name: of its function; those of its weights begin with it.
        values: names and shapes of inputs and results.
        weights: shapes by name.
        lines: of its body.
        read: names of values that others are computed from.
    """

    rng: np.random.Generator
    name: str
    values: list[tuple[str, Shape]] = field(default_factory=list)
    weights: dict[str, Shape] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    read: set[str] = field(default_factory=set)

    def one_of(self, some: Sequence[Any]) -> Any:
        """Any of them."""
        return some[int(self.rng.integers(len(some)))]

    def chance(self, share: float) -> bool:
        """Whether something that happens so often happens."""
        return bool(self.rng.random() < share)

    def weight(self, *shape: int) -> str:
        """A new one, or one of this shape that there is."""
        known = [name for name, other in self.weights.items() if other == shape]
        if known and self.chance(0.4):
            return f"w[{self.one_of(known)!r}]"
        name = f"{self.name}_{len(self.weights)}"
        self.weights[name] = shape
        return f"w[{name!r}]"

    def add(self, source: str, shape: Shape, *read: str) -> None:
        """A value, unless it has too many elements."""
        if math.prod(shape) <= LARGEST:
            name = f"v{len(self.lines)}"
            self.lines.append(f"{name} = {source}")
            self.values.append((name, shape))
            self.read.update(read)

    def product(self) -> None:
        """Of a value with a weight, from either side of it, over one axis or two."""
        x, (*rows, depth) = self.one_of(self.values)
        features = self.one_of([self.one_of(SIZES), self.one_of(self.values)[1][-1]])
        if len(rows) >= 2 and rows[-1] * depth < 400 and self.chance(0.2):
            right = self.weight(rows[-1], depth, features)
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

    def convolution(self) -> None:
        """Of an image or a sequence, with any window, step, padding and dilation."""
        images = [each for each in self.values if len(each[1]) in (3, 4)]
        if not images:
            return
        x, (count, *size, channels) = self.one_of(images)
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
            return
        features = self.one_of((8, 16, 17, 40, channels))
        is_depthwise = self.chance(0.1)
        groups, seen = (channels, 1) if is_depthwise else (1, channels)
        features = channels if is_depthwise else features
        kernel = self.weight(*window, seen, features)
        self.add(
            f"nn.conv{len(size)}d({x}, {kernel}, strides={tuple(strides)}, "
            f"padding={tuple(ends)}, dilation={tuple(dilation)}, groups={groups})",
            (count, *result, features),
            x,
        )

    def elementwise(self) -> None:
        """Of the newest value or another, with something that can be broadcast."""
        x, shape = self.values[-1] if self.chance(0.6) else self.one_of(self.values)
        if self.chance(0.4):
            self.add(self.one_of(UNARY).format(x), shape, x)
            return
        same = self.one_of([name for name, other in self.values if other == shape])
        others = [
            same, same, same, self.weight(shape[-1]), self.weight(), f"{same}[0]",
            self.weight(*shape[:-1], 1), f"{same}.mean(axis=-1, keepdims=True)",
            f"{same}[..., :1]", f"{same}.mean()", self.weight(*shape),
        ]  # fmt: skip
        self.add(self.one_of(BINARY).format(x, self.one_of(others)), shape, x)

    def movement(self) -> None:
        """Rows in another form, order or number."""
        x, shape = self.one_of(self.values)
        if len(shape) < 2:
            return
        order = [int(axis) for axis in self.rng.permutation(len(shape))]
        rows, features = math.prod(shape[:-1]), shape[-1]
        forms: list[tuple[str, Shape]] = [
            (f"{x}.reshape(-1, {features})", (rows, features)),
            (f"np.transpose({x}, {tuple(order)})", tuple(shape[a] for a in order)),
            (f"np.concatenate([{x}, {x} * 2.0], axis=0)", (2 * shape[0], *shape[1:])),
            (f"nn.softmax({x})", shape),
        ]
        self.add(*self.one_of(forms), x)

    def draw(self) -> None:
        """Inputs, and what is computed from them."""
        for number in range(int(self.rng.integers(1, 3))):
            self.values.append((f"x{number}", self._input()))
        steps = (self.product, self.convolution, self.elementwise, self.movement)
        for _ in range(int(self.rng.integers(5, 15))):
            self.rng.choice(np.array(steps), p=[0.28, 0.12, 0.48, 0.12])()

    def _input(self) -> Shape:
        rows, features = self.one_of(ROWS), self.one_of(SIZES)
        shapes: list[Shape] = [
            (rows, features), (rows, features), (features,), (2, rows, features),
            (1, rows, features), (1, rows, self.one_of((1, 7, 16)), min(features, 24)),
        ]  # fmt: skip
        return self.one_of(shapes)  # type: ignore[no-any-return]

    def source(self) -> str:
        """The entry in a model file; it returns what is unread, and one value more."""
        inputs = [each for each in self.values if each[0][0] == "x"]
        made = [name for name, _ in self.values if name[0] == "v"] or ["x0 * 2.0"]
        results = [x for x in made if x not in self.read][-4:] + [self.one_of(made)]
        specs = ", ".join(f"{name}=aotc.Spec({shape})" for name, shape in inputs)
        names = ", ".join(name for name, _ in inputs)
        body = "\n".join(f"    {line}" for line in self.lines)
        returned = f"    return ({', '.join(results)},)"
        return (
            f"@aotc.entry({specs})\ndef {self.name}(w, {names}):\n{body}\n{returned}\n"
        )


def model_source(seed: int, entries: int) -> str:
    """A model file with so many random entries."""
    drawn = [
        Entry(np.random.default_rng([seed, number]), f"f{number}")
        for number in range(entries)
    ]
    for each in drawn:
        each.draw()
    weights = {name: shape for each in drawn for name, shape in each.weights.items()}
    rows = "".join(
        f'    "{name}": rng.normal(size={shape}, scale=0.5).astype("f4"),\n'
        if shape
        else f'    "{name}": numpy.float32(1.25),\n'
        for name, shape in weights.items()
    )
    table = f"w = aotc.Weights({{\n{rows}}})\n"
    return "\n\n".join([HEADER + table, *(each.source() for each in drawn)])


def differences(model: Path, bundle: Path) -> Iterator[str]:
    """The entries of a bundle that do not compute what their model says, in words."""
    program, built = load(model), aotc.load(bundle, allow_unsigned=True)
    run_passes(program.module, ("autodiff",), silently=True)
    for entry in program.entries:
        rng = np.random.default_rng(1)
        inputs = {
            port.name: rng.normal(size=port.type.shape).astype("f4")
            for port in entry.ports("input")
        }
        named = {**program.parameters, **inputs}
        given = [named[port.name] for port in entry.arguments]
        wanted = reference.evaluate(program.module, entry.name, given)
        found = built.entries[entry.name](**inputs)
        for number, (mine, theirs) in enumerate(zip(found, wanted, strict=True)):
            limit = 1e-4 * (1 + np.abs(theirs).max())
            if not np.allclose(mine, theirs, rtol=1e-4, atol=limit):
                off = np.abs(mine - theirs).max()
                yield f"{entry.name}, result {number}: off by {off:.3g}"


def main() -> int:
    """Draw, build and compare models."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.fuzz.weighted", description=__doc__
    )
    parser.add_argument("--models", type=int, default=10)
    parser.add_argument("--entries", type=int, default=40, help="of a model (40)")
    parser.add_argument("--seed", type=int, default=0, help="of the first one")
    parser.add_argument("--target", type=Target.parse, default=Target.parse("cpu"))
    parser.add_argument("--keep", type=Path, help="a folder for models that failed")
    asked, failed = parser.parse_args(), 0
    for seed in range(asked.seed, asked.seed + asked.models):
        text = model_source(seed, asked.entries)
        found = _verdict(text, asked.target)
        failed += bool(found)
        print(f"model {seed}: {'; '.join(found) or 'agrees'}", flush=True)
        if found and asked.keep:
            asked.keep.mkdir(parents=True, exist_ok=True)
            (asked.keep / f"model_{seed}.py").write_text(text, encoding="utf-8")
    return min(failed, 1)


def _verdict(text: str, target: Target) -> list[str]:
    """What is wrong with a model."""
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "model.py"
        model.write_text(text, encoding="utf-8")
        asked = {"targets": [target], "self_check": "off", "sign": False}
        try:
            bundle = build(model, output=Path(folder), **asked).bundle
            assert bundle is not None
            return list(differences(model, bundle))
        except AotcError as error:
            return [str(error).splitlines()[0]]


if __name__ == "__main__":
    sys.exit(main())
