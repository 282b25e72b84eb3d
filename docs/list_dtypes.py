"""Write the table of dtypes in docs/processors.md: which code computes what.

python docs/list_dtypes.py [--write]

Each line is one of `OPERATIONS`. For each dtype of its elements an entry is lowered for
every target that has kernels; what a cell says is read from the regions that come of
it, and from what is left beside them. Nothing is compiled. Without `--write` the page
is compared with what it should be: exits with 1 if it is another.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy

import aotc
import aotc.numpy as np
from aotc import nn
from aotc.dialects.functions.functions import functions_of
from aotc.dialects.functions.walking import backward_slice
from aotc.dialects.graph import GraphOp
from aotc.dialects.ops.selection import Cast
from aotc.dialects.types import Tensor
from aotc.kernels.capabilities import NoTargetKernels, capabilities_of
from aotc.kernels.family import PlannedKernel
from aotc.kernels.machine import Machine, machine_of
from aotc.kernels.planning.tile import ContractionTile
from aotc.kernels.planning.winograd import WinogradTile
from aotc.machine.target import TARGETS
from aotc.mlir import Function
from aotc.passes import run_passes
from aotc.passes.base import Unit
from aotc.passes.stages import PASS_STAGES
from aotc.tracing.assembly import trace

PAGE = Path(__file__).with_name("processors.md")
MARKS = "<!-- written by docs/list_dtypes.py -->", "<!-- end of dtypes -->"
BYTES = ("i8", "u8")
DTYPES = ("f32", "bf16", "f16", *BYTES)
CAPACITY = 64

w = aotc.Weights(
    {
        name: {
            "f32": numpy.ones(shape, "f4"),
            "i8": numpy.full(shape, -3, "i1"),
            "u8": numpy.full(shape, 3, "u1"),
        }
        for name, shape in {
            "matrix": (256, 256),
            "kernel": (3, 3, 64, 64),
            "depthwise": (3, 3, 1, 64),
        }.items()
    }
)


def floats(x: Any) -> Any:
    """Return x, or the floats that bytes stand for."""
    return np.astype(x, "f32") * 0.25 if x.dtype in BYTES else x


def weight(parts: Any, dtype: str) -> Any:
    """Return a weight of a dtype, or what its bytes stand for."""
    return floats(parts[dtype] if dtype in BYTES else np.astype(parts["f32"], dtype))


# ---- the operations -----------------------------------------------------------------


def product(w, x):
    return floats(x) @ weight(w["matrix"], x.dtype)


def product_by_bytes(w, x):
    return x @ np.astype(weight(w["matrix"], "i8"), x.dtype)


def product_by_blocks(w, x):
    scale = numpy.full((256, 8), 0.25, "f4")
    stored = nn.QuantizedWeights(w["matrix"]["i8"], scale, axis=1, block=32)
    return stored.linear(x)


def product_of_inputs(x, y):
    return floats(x) @ floats(y)


def convolution(w, x):
    return nn.conv2d(floats(x), weight(w["kernel"], x.dtype), padding=1)


def depthwise(w, x):
    return nn.conv2d(floats(x), weight(w["depthwise"], x.dtype), padding=1, groups=64)


def pooling(x):
    x = floats(x)
    return nn.max_pool(x, (3, 3), padding=1), nn.avg_pool(x, (2, 2))


def softmax(x):
    return nn.softmax(floats(x)), nn.log_softmax(floats(x))


def norms(x):
    return nn.layer_norm(floats(x)), nn.rms_norm(floats(x))


def rows(x):
    return np.mean(floats(x), -1), np.max(floats(x), -1)


def columns(x):
    return np.mean(floats(x), 0), np.max(floats(x), 0)


def norm_of_images(x):
    y = nn.instance_norm(floats(x))
    return nn.relu(y), np.exp(y)  # which both compute it


def quantization(x):
    return np.astype(np.round(np.clip(x / 0.25, 0, 255)), "u8")


def attention(q, k):
    return nn.attention(floats(q), floats(k), floats(k), causal=True)


def attention_gradient(q, k):
    def loss(q, k):
        return np.sum(np.square(nn.attention(q, k, k, causal=True)))

    return aotc.grad(loss, argnums=(0, 1))(floats(q), floats(k))


def step(q, k, position):
    return nn.attention(q, floats(k), floats(k), mask=np.arange(CAPACITY) <= position)


def step_of_f32(q, k, position):
    return step(q, np.astype(floats(k), "f32"), position)


def concatenation(x, y):
    return np.concatenate([x, y], -1)


def transposition(x):
    return np.transpose(x, (0, 2, 1))


def order(x):
    return np.argsort(x, -1)


def elementwise(x):
    return np.tanh(floats(x)) * 2.0


def lookup(x, indices):
    return nn.embedding(x, indices)


# the shape of each input, and the dtype of such as have one of their own
Shapes = dict[str, tuple[tuple[int, ...], str]]


def _shapes(own: dict[str, Any] | None = None, **shapes: tuple[int, ...]) -> Shapes:
    return {name: (shape, "") for name, shape in shapes.items()} | (own or {})


_IMAGE, _ROWS, _HEADS = (1, 14, 14, 64), (256, 256), (1, CAPACITY, 2, 64)
_QUERY, _POSITION = ((1, 1, 2, 64), ""), {"position": ((), "i32")}
OPERATIONS: tuple[tuple[str, Callable[..., Any], Shapes], ...] = (
    ("product by a weight", product, _shapes(x=(64, 256))),
    ("the same of one row", product, _shapes(x=(1, 256))),
    ("product by a weight of i8", product_by_bytes, _shapes(x=(1, 256))),
    ("the same, by `QuantizedWeights.linear`", product_by_blocks, _shapes(x=(1, 256))),
    ("product of inputs", product_of_inputs, _shapes(x=(64, 256), y=(256, 256))),
    ("convolution", convolution, _shapes(x=_IMAGE)),
    ("depthwise convolution", depthwise, _shapes(x=_IMAGE)),
    ("pooling", pooling, _shapes(x=_IMAGE)),
    ("softmax, log softmax", softmax, _shapes(x=_ROWS)),
    ("norms", norms, _shapes(x=_ROWS)),
    ("reductions of rows", rows, _shapes(x=_ROWS)),
    ("reductions of columns", columns, _shapes(x=_ROWS)),
    ("norm of images, read twice", norm_of_images, _shapes(x=_IMAGE)),
    ("quantisation", quantization, _shapes(x=_ROWS)),
    ("attention of many queries", attention, _shapes(q=_HEADS, k=_HEADS)),
    ("gradient of attention", attention_gradient, _shapes(q=_HEADS, k=_HEADS)),
    ("attention of one query", step, _shapes({"q": _QUERY, **_POSITION}, k=_HEADS)),
    (
        "the same of f32, whose cache holds",
        step_of_f32,
        _shapes({"q": (_QUERY[0], "f32"), **_POSITION}, k=_HEADS),
    ),
    ("concatenation", concatenation, _shapes(x=(256, 96), y=(256, 64))),
    ("transposition", transposition, _shapes(x=(64, 64, 64))),
    ("order of rows", order, _shapes(x=(64, 1024))),
    ("elementwise ops alone", elementwise, _shapes(x=_ROWS)),
    ("lookup of rows", lookup, _shapes({"indices": ((64,), "i32")}, x=_ROWS)),
)
MOVEMENT = (concatenation, transposition, order, lookup)  # compute no elements
# of bytes there is no other: what is quantised are weights and activations together
WITHOUT_BYTES = (product_by_bytes, product_by_blocks, quantization, step)


def entries() -> Iterator[tuple[str, Any]]:
    """Yield each operation of each dtype, by the name of its entry."""
    for number, (_, function, shapes) in enumerate(OPERATIONS):
        for dtype in DTYPES:
            if dtype in BYTES and function in WITHOUT_BYTES:
                continue
            name = entry_name(number, dtype)
            own = FunctionType(function.__code__, globals(), name)
            specs = {x: aotc.Spec(n, kind or dtype) for x, (n, kind) in shapes.items()}
            yield name, aotc.entry(**specs)(own)


def entry_name(number: int, dtype: str) -> str:
    """Return the name of the entry of an operation."""
    return f"operation_{number}_{dtype}"


# ---- what computes them -------------------------------------------------------------

_MNEMONICS = {
    "pmadd": "vpmaddwd",
    "vpdpbusd": "vpdpbusd",
    "dpbf16ps": "vdpbf16ps",
    "smull.v8": "smull, sadalp",
    "umull.v8": "umull, uadalp",
    "smull.v4": "smlal",
    "sdot": "sdot",
    "udot": "udot",
    "smmla": "smmla",
    "ummla": "ummla",
    "bfdot": "bfdot",
}
_WIDENING = "vwmacc"  # what LLVM makes, on RISC-V, of multiply-adds that widen


@dataclass(frozen=True)
class Lowered:
    """All entries, lowered for a target.

    Args:
        unit: with its regions.
        machine: of the target.
        regions: the kernels, by the names of their functions.
    """

    unit: Unit
    machine: Machine
    regions: dict[str, PlannedKernel[Any, Any]]


def lower() -> Iterator[Lowered]:
    """Lower all entries for each processor that there are kernels for."""
    unit = Unit(trace([each for _, each in entries()], {}))
    run_passes(unit, PASS_STAGES[0].passes(), silently=True)
    for target in TARGETS.values():
        capabilities, machine = capabilities_of(target), machine_of(target)
        if machine is None or isinstance(capabilities, NoTargetKernels):
            continue
        own = unit.fork(target)
        run_passes(own, PASS_STAGES[1].passes(), silently=True)
        regions = {
            name: kernel
            for name, each in functions_of(own.module).items()
            if (kernel := capabilities.planned_kernel(each)) is not None
        }
        yield Lowered(own, machine, regions)


def cells(lowered: Iterable[Lowered]) -> dict[str, dict[str, str]]:
    """Return what computes each entry, by its name and by target."""
    found: dict[str, dict[str, str]] = {}
    for each in lowered:
        target, functions = str(each.unit.target), functions_of(each.unit.module)
        for number, (label, function, _) in enumerate(OPERATIONS):
            for dtype in DTYPES:
                name = entry_name(number, dtype)
                if name in functions:
                    said = _code_of(label, functions[name], each)
                    computes = function not in MOVEMENT and said in ("kernel", "IREE")
                    if dtype != "f32" and computes:
                        said += ", in f32"
                    found.setdefault(name, {})[target] = said
    return found


def _code_of(label: str, function: Function, lowered: Lowered) -> str:
    """Return in words what computes an entry: kernels, and what is left beside them."""
    *ops, _ = function.entry_block.operations
    called = {
        str(op.attributes["callee"]).removeprefix("@")
        for op in ops
        if not isinstance(op, GraphOp)
    }
    computing = [*filter(_computes, ops)]
    if not called:
        return "IREE"
    if any(isinstance(op, Cast) for op in computing):
        return "kernel, of f32 in memory"
    if computing:
        return "kernel and IREE"
    regions, machine = lowered.regions, lowered.machine
    how = {_instruction(regions[name], machine) for name in called} - {""}
    said = f"kernel ({', '.join(sorted(how))})" if how else "kernel"
    held = {Tensor.of(x).dtype for x in function.entry_block.arguments}
    is_wide = "weight of i8" in label and "i8" not in held
    return f"{said}, by what a build has widened" if is_wide else said


def _computes(op: Any) -> bool:
    """Return whether an op computes something of many elements of the inputs."""
    if not isinstance(op, GraphOp) or op.rearranges or op.is_free:
        return False
    sizes = [x for x in op.operands if Tensor.of(x).rank > 1]
    return bool(sizes) and any(
        Tensor.of(x).rank > 1
        for x in backward_slice(sizes)
        if x.owner == op.operation.block
    )


def _instruction(kernel: PlannedKernel[Any, Any], machine: Machine) -> str:
    """Return the instruction that multiplies, if that is no multiply-add of f32."""
    tile = kernel.schedule
    if not isinstance(tile, ContractionTile | WinogradTile) or (
        isinstance(tile, ContractionTile) and tile.group
    ):
        return ""
    left, right = (Tensor.of(x).dtype for x in kernel.anchor.operands)
    if isinstance(tile, WinogradTile) and tile.terms > 1:
        left = right = "i16"  # of transformed bytes
    mma = machine.multiplier_of(left, right, tile.terms)
    if mma.sums == "i32" and not mma.intrinsic:
        return _WIDENING
    return next((x for key, x in _MNEMONICS.items() if key in mma.intrinsic), "")


# ---- the table ----------------------------------------------------------------------


def table(lowered: Iterable[Lowered]) -> str:
    """Return the table, as it should be."""
    found = cells(lowered)
    lines = [f"| | {' | '.join(DTYPES)} |", "|---" * (len(DTYPES) + 1) + "|"]
    for number, (label, _, _) in enumerate(OPERATIONS):
        row = (_cell(found.get(entry_name(number, dtype))) for dtype in DTYPES)
        lines.append(f"| {label} | {' | '.join(row)} |")
    return "\n".join(lines)


def _cell(by_target: dict[str, str] | None) -> str:
    """Return what most targets have, and which others have something else."""
    if by_target is None:
        return "–"
    (usual, _), *others = Counter(by_target.values()).most_common()
    found = [usual]
    for said, _ in others:
        names = [f"`{name}`" for name, each in by_target.items() if each == said]
        found.append(f"{', '.join(names)}: {said}")
    return "; ".join(found)


def page(lowered: Iterable[Lowered]) -> str:
    """Return the page with the table."""
    text = PAGE.read_text(encoding="utf-8")
    before, begin, rest = text.partition(MARKS[0])
    _, end, after = rest.partition(MARKS[1])
    if not (begin and end):
        raise SystemExit(f"expected {MARKS[0]} and {MARKS[1]} in {PAGE.name}")
    return f"{before}{begin}\n\n{table(lowered)}\n\n{end}{after}"


def main() -> int:
    """Write the page, or compare it; returns the exit status."""
    found = page(lower())
    if sys.argv[1:] == ["--write"]:
        PAGE.write_text(found, encoding="utf-8")
        return 0
    is_current = PAGE.read_text(encoding="utf-8") == found
    print(f"{PAGE.name} is {'current' if is_current else 'out of date: use --write'}")
    return 0 if is_current else 1


if __name__ == "__main__":
    sys.exit(main())
