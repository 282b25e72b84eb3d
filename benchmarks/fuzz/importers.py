"""Random PyTorch modules and ONNX graphs, imported and compared with their frameworks.

    python -m benchmarks.fuzz.importers --programs 300 --seed 0

They are made of what importers get wrong most easily: sizes that vary, arithmetic on
shapes, in floats too, views, writes in place, slices and buffers. aotc's reference
evaluator computes what comes of them, at the sizes of the example and at others. Exits
with 1 if any differs.
"""

from __future__ import annotations

import argparse
import math
import tempfile
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper

import aotc
from aotc import reference
from aotc.errors import AotcError

Rng = np.random.Generator

# ---- PyTorch ------------------------------------------------------------------------

Step = Callable[[Any, torch.Tensor], torch.Tensor]


def _written(net: Any, x: torch.Tensor) -> torch.Tensor:
    """Assign to slices of a copy."""
    y = x.clone()
    y[1:] = x[:-1]
    y[:, ::2] += 1
    return y


def _written_view(net: Any, x: torch.Tensor) -> torch.Tensor:
    """Assign through views of a copy."""
    y = x * 1
    y.t()[0].mul_(2)
    y.view(-1)[:2].fill_(0.5)
    return y


def _branching(net: Any, x: torch.Tensor) -> torch.Tensor:
    """Branch on the sizes of the input."""
    return x * 2 if x.shape[0] > x.shape[1] else x - 1


def _counted(net: Any, x: torch.Tensor) -> torch.Tensor:
    """Count calls in a buffer, and add the count."""
    net.calls += 1
    return x + net.calls


def _padded(net: Any, x: torch.Tensor) -> torch.Tensor:
    """Pad rows, and add two slices of the result."""
    y = torch.nn.functional.pad(x, (0, 0, 1, 2))
    return y[1 : 1 + x.shape[0]] + y[2 : 2 + x.shape[0]]


def _positions(net: Any, x: torch.Tensor) -> torch.Tensor:
    """Add functions of the row index and a table."""
    rows = torch.arange(x.shape[0])
    return x + (rows[:, None] % net.table.shape[0]) * 0.5 + net.table[rows % 3].sum()


def _resized(size: Callable[[Any], Any]) -> Step:
    """Return a step that sums the rows after resizing to a computed number of them."""

    def step(net: Any, x: torch.Tensor) -> torch.Tensor:
        image = x.t()[None]
        new = torch.nn.functional.interpolate(image, size=size(x.shape[0]))
        return x + new.sum(-1)

    return step


_STEPS: dict[str, Step] = {
    "floor": _resized(lambda n: math.floor(n / 1.5) + 1),
    "ceil": _resized(lambda n: math.ceil(n * 0.3)),
    "truncated": _resized(lambda n: torch.sym_int((n + 2) * 1.3)),
    "rounded": _resized(lambda n: math.floor(n * 0.5 + 0.5)),
    "sin": lambda net, x: torch.sin(x),
    "scale": lambda net, x: x / x.shape[0] + x.shape[1],
    "flip": lambda net, x: x.flip(0, 1) + x,
    "roll": lambda net, x: torch.roll(x, 1, 0) * x,
    "halves": lambda net, x: torch.cat([x[1:], x[:1]]) - x,
    "stride": lambda net, x: x[:, ::2].repeat(1, 2)[:, : x.shape[1]] + x[:, :1],
    "reversed": lambda net, x: x[-1:] + x[:-1].sum(0) + x,
    "transposed": lambda net, x: (x.t() @ x).mean(0) + x,
    "flat": lambda net, x: x.reshape(-1).cumsum(0).view(x.shape),
    "chunks": lambda net, x: torch.cat([c.exp() for c in x.tanh().chunk(2, 1)], 1),
    "expanded": lambda net, x: x.mean(0, True).expand_as(x) - x,
    "wide": lambda net, x: torch.cat([x, x.square()], 1)[:, 1:-1],
    "masked": lambda net, x: x.masked_fill(x > 0.3, 0.25),
    "where": lambda net, x: torch.where(x > 0.1, x, -x),
    "tril": lambda net, x: torch.tril(x) + torch.triu(x, 1) * 2,
    "softmax": lambda net, x: torch.softmax(x, 0),
    "sorted": lambda net, x: x.sort(0, descending=True).values,
    "unfolded": lambda net, x: x.unfold(0, 2, 1).sum(-1),
    "buffer": lambda net, x: (
        x * net.gain[: x.shape[0] % 5 + 1].sum() + net.table[1:].sum()
    ),
    "written": _written,
    "written view": _written_view,
    "branch": _branching,
    "counted": _counted,
    "padded": _padded,
    "positions": _positions,
}


class RandomModule(torch.nn.Module):
    """A PyTorch module of random steps over a matrix, with a parameter and buffers."""

    def __init__(self, steps: Sequence[str]) -> None:
        super().__init__()
        self.steps = list(steps)
        self.gain = torch.nn.Parameter(torch.linspace(0.5, 1, 12))
        self.register_buffer("table", torch.linspace(-1, 1, 12).reshape(4, 3))
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the last matrix of the chain."""
        for step in self.steps:
            x = _STEPS[step](self, x)
        return x


def random_torch_module(
    rng: Rng,
) -> tuple[RandomModule, tuple[torch.Tensor, ...], dict[str, Any]]:
    """Return a random module, example inputs, and which of their sizes vary."""
    steps = rng.choice(list(_STEPS), int(rng.integers(2, 6))).tolist()
    sizes = int(rng.integers(3, 9)), int(rng.integers(3, 7))
    x = torch.from_numpy(rng.uniform(-1, 1, sizes).astype(np.float32))
    varying: dict[int, Any] = {0: torch.export.Dim.AUTO}
    if rng.random() < 0.3:
        varying[1] = torch.export.Dim.AUTO
    return RandomModule(steps), (x,), {"x": varying}


def _in_contracts(entry: Any, sizes: Sequence[int]) -> bool:
    """Return whether an entry's contracts allow these sizes of its only input."""
    own = {f"x_{axis}": size for axis, size in enumerate(sizes)}
    return all(
        each.min <= own[each.name] <= (each.max or own[each.name])
        and own[each.name] % each.multiple_of == 0
        for each in entry.symbols
    )


def check_torch(rng: Rng) -> str:
    """Import a random module and compare it with PyTorch; return the outcome."""
    module, args, shapes = random_torch_module(rng)
    named = "torch " + " → ".join(module.steps)
    try:
        exported = torch.export.export(module, args, dynamic_shapes=shapes)
    except Exception:  # a module that torch does not export
        return f"not exported: {named}"
    try:
        net = aotc.from_torch(exported)
        program = net.program()
    except AotcError as error:
        return f"refused: {named}: {error.message}"
    (entry,) = program.entries
    rows, columns = args[0].shape
    for more in (0, 1, 2, 5):
        sizes = rows + more, columns + more * (1 in shapes["x"])
        x = rng.uniform(-1, 1, sizes).astype(np.float32)
        if not _in_contracts(entry, sizes):
            continue  # the loader refuses it
        values = [program.parameters.get(p.name, x) for p in entry.arguments]
        try:
            found = reference.evaluate(program.module, entry.name, values)[-1]
        except AotcError as error:
            if error.code not in ("shape-guard", "input-mismatch"):
                raise
            continue
        # the module itself says what is right at these sizes, guards or not
        with torch.no_grad():
            expected = RandomModule(module.steps)(torch.from_numpy(x)).numpy()
        np.testing.assert_allclose(
            found, expected, 1e-3, 1e-3, err_msg=f"{named} at {sizes}"
        )
    return f"right: {named}"


# ---- ONNX ---------------------------------------------------------------------------


class _Graph:
    """An ONNX graph under construction, over one matrix of symbolic sizes."""

    def __init__(self, rng: Rng) -> None:
        self.rng = rng
        self.nodes: list[Any] = []
        self.tensors: list[Any] = []

    def add(self, op: str, *inputs: str, **attributes: Any) -> str:
        """Add a node; return the name of its result."""
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(inputs), [name], **attributes))
        return name

    def integers(self, *values: int) -> str:
        """Add a constant vector of integers; return its name."""
        name = f"c{len(self.tensors)}"
        array = np.array(values, np.int64)
        self.tensors.append(numpy_helper.from_array(array, name))
        return name

    def number(self, value: float, code: int) -> str:
        """Add a scalar float of one of ONNX's types; return its name."""
        name = f"c{len(self.tensors)}"
        array = np.array(value, helper.tensor_dtype_to_np_dtype(code))
        self.tensors.append(numpy_helper.from_array(array, name))
        return name

    def size(self, x: str, axis: int) -> str:
        """Add nodes for a size of `x`, as a vector of one element; return its name."""
        shape, place = self.add("Shape", x), self.integers(axis)
        if self.rng.random() < 0.5:
            return self.add("Gather", shape, place, axis=0)
        return self.add("Slice", shape, place, self.integers(axis + 1))

    def scalar(self, size: str) -> str:
        """Add a node that turns a vector of one element into a scalar; return its
        name.
        """
        return self.add("Squeeze", size, self.integers(0))


def _flattened(g: _Graph, x: str) -> str:
    """Add a cumulative sum over the flattened matrix."""
    flat = g.add("Reshape", x, g.integers(-1))
    total = g.add("CumSum", flat, g.scalar(g.integers(0)))
    shape = g.add("Concat", g.size(x, 0), g.size(x, 1), axis=0)
    return g.add("Reshape", total, shape)


def _grouped(g: _Graph, x: str) -> str:
    """Add a mean over a broadcast three-axis array."""
    shape = g.add("Concat", g.size(x, 0), g.integers(1, -1), axis=0)
    cube = g.add(
        "Add", g.add("Reshape", x, shape), g.add("Unsqueeze", x, g.integers(2))
    )
    return g.add("ReduceMean", cube, g.integers(2), keepdims=0)


def _ranged(g: _Graph, x: str) -> str:
    """Add the row index to each row."""
    ends = g.scalar(g.integers(0)), g.scalar(g.size(x, 0)), g.scalar(g.integers(1))
    rows = g.add("Cast", g.add("Range", *ends), to=TensorProto.FLOAT)
    return g.add("Add", x, g.add("Unsqueeze", rows, g.integers(1)))


def _expanded(g: _Graph, x: str) -> str:
    """Subtract the column maxima, expanded to the matrix's shape."""
    row = g.add("ReduceMax", x, g.integers(0), keepdims=1)
    return g.add("Sub", x, g.add("Expand", row, g.add("Shape", x)))


def _swapped(g: _Graph, x: str) -> str:
    """Swap the upper and the lower half of the rows."""
    half, end = g.add("Div", g.size(x, 0), g.integers(2)), g.integers(2**62)
    top = g.add("Slice", x, g.integers(0), half, g.integers(0))
    rest = g.add("Slice", x, half, end, g.integers(0))
    return g.add("Concat", rest, top, axis=0)


def _reversed(g: _Graph, x: str) -> str:
    """Add the matrix with both axes reversed."""
    start, axes, steps = g.integers(-1, -1), g.integers(0, 1), g.integers(-1, -1)
    ends = g.integers(-(2**62), -(2**62))
    return g.add("Add", x, g.add("Slice", x, start, ends, axes, steps))


def _tiled(g: _Graph, x: str) -> str:
    """Tile the rows twice and take the second copy."""
    twice = g.add("Tile", x, g.integers(2, 1))
    return g.add("Slice", twice, g.size(x, 0), g.integers(2**62), g.integers(0))


def _chosen(g: _Graph, x: str) -> str:
    """Negate the matrix if it is taller than wide."""
    wide = g.add("Greater", g.scalar(g.size(x, 0)), g.scalar(g.size(x, 1)))
    return g.add("Where", wide, g.add("Neg", x), x)


def _gathered(g: _Graph, x: str) -> str:
    """Add the last row, gathered by a computed index."""
    last = g.add("Sub", g.size(x, 0), g.integers(1))
    return g.add("Add", x, g.add("Gather", x, last, axis=0))


def _padded_rows(g: _Graph, x: str) -> str:
    """Pad rows and slice beyond the original end."""
    padded = g.add("Pad", x, g.integers(1, 0, 1, 0))
    end = g.add("Add", g.size(x, 0), g.integers(2))
    return g.add("Slice", padded, g.integers(2), end, g.integers(0))


def _scaled(g: _Graph, x: str) -> str:
    """Return nodes that sum rows resized by a factor computed from sizes."""
    code = int(g.rng.choice([TensorProto.FLOAT, TensorProto.DOUBLE]))
    size = g.add("Cast", g.size(x, int(g.rng.integers(2))), to=code)
    for op in g.rng.choice(["Mul", "Div", "Add"], int(g.rng.integers(1, 4))):
        number = g.rng.choice([0.25, 0.3, 0.7, 1.1, 1.3, 1.5, 2.0, 3.0])
        size = g.add(op, size, g.number(number, code))
    if rounding := g.rng.choice(["", "Floor", "Ceil"]):
        size = g.add(rounding, size)
    count = g.add("Add", g.add("Cast", size, to=TensorProto.INT64), g.integers(1))
    row = g.add("ReduceMax", x, g.integers(0), keepdims=1)
    shape = g.add("Concat", count, g.integers(1), axis=0)
    rows = g.add("Expand", row, shape)
    return g.add("Sub", x, g.add("ReduceSum", rows, g.integers(0), keepdims=1))


_ONNX_STEPS: tuple[Callable[[_Graph, str], str], ...] = (
    lambda g, x: g.add("Sin", x),
    lambda g, x: g.add("Softmax", x, axis=0),
    lambda g, x: g.add("Add", x, g.add("ConstantOfShape", g.add("Shape", x))),
    _flattened,
    _grouped,
    _ranged,
    _expanded,
    _swapped,
    _reversed,
    _tiled,
    _chosen,
    _gathered,
    _padded_rows,
    _scaled,
)


def random_onnx_model(rng: Rng) -> tuple[onnx.ModelProto, dict[str, Any]]:
    """Return a random ONNX model over a matrix of symbolic sizes, and inputs."""
    graph, name = _Graph(rng), "x"
    for place in rng.integers(0, len(_ONNX_STEPS), int(rng.integers(2, 7))):
        name = _ONNX_STEPS[place](graph, name)
    f32 = TensorProto.FLOAT
    made = helper.make_graph(
        graph.nodes,
        "random",
        [helper.make_tensor_value_info("x", f32, ["rows", "columns"])],
        [helper.make_tensor_value_info(name, f32, None)],
        graph.tensors,
    )
    opset = [helper.make_opsetid("", 18)]
    model = helper.make_model(made, opset_imports=opset, ir_version=9)
    return model, {"x": rng.uniform(-1, 1, rng.integers(1, 8, 2)).astype(np.float32)}


def check_onnx(rng: Rng) -> str:
    """Import a random model and compare it with ONNX's evaluator; return the
    outcome.
    """
    from onnx.reference import ReferenceEvaluator

    model, inputs = random_onnx_model(rng)
    named = "onnx " + " ".join(node.op_type for node in model.graph.node)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "random.onnx"
        onnx.save(model, str(file))
        try:
            program = aotc.from_onnx(file).program()
        except AotcError as error:
            return f"refused: {named}: {error.message}"
    (entry,) = program.entries
    evaluator = ReferenceEvaluator(model)
    for sizes in (inputs["x"].shape, (1, 1), (1, 4), (4, 1), (5, 3), (2, 7), (10, 20)):
        x = rng.uniform(-1, 1, sizes).astype(np.float32)
        (expected,) = evaluator.run(None, {"x": x})
        values = [program.parameters.get(p.name, x) for p in entry.arguments]
        try:
            (found,) = reference.evaluate(program.module, "main", values)
        except AotcError as error:
            if error.code != "shape-guard":
                raise
            continue
        np.testing.assert_allclose(
            found, expected, 1e-3, 1e-3, err_msg=f"{named} at {sizes}"
        )
    return f"right: {named}"


# ---- many ---------------------------------------------------------------------------

CHECKS: dict[str, Callable[[Rng], str]] = {"torch": check_torch, "onnx": check_onnx}


def outcomes(count: int, seed: int, kind: str) -> Iterator[tuple[int, str]]:
    """Yield the seed and the outcome of each of `count` programs."""
    for number in range(seed, seed + count):
        try:
            yield number, CHECKS[kind](np.random.default_rng(number))
        except Exception:  # whatever is raised is a finding
            yield number, f"WRONG: {kind}\n{traceback.format_exc(limit=-3)}"


def main() -> int:
    """Check random modules and models, and print what is wrong."""
    parser = argparse.ArgumentParser(description="Random modules and graphs, imported.")
    parser.add_argument("--programs", type=int, default=100, help="of each kind")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=CHECKS)
    asked = parser.parse_args()
    counts: dict[str, int] = {}
    for kind in [asked.only] if asked.only else list(CHECKS):
        for seed, outcome in outcomes(asked.programs, asked.seed, kind):
            title = f"{kind} {outcome.split(':')[0]}"
            counts[title] = counts.get(title, 0) + 1
            if not outcome.startswith(("right", "not exported")):
                print(f"{seed}: {outcome}", flush=True)
    print(", ".join(f"{count} {title}" for title, count in counts.items()))
    return int(any("WRONG" in title for title in counts))


if __name__ == "__main__":
    raise SystemExit(main())
