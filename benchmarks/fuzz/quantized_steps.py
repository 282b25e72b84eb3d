"""Steps of random quantised entries: what is computed between tensors of bytes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

from .quantized_drawing import KINDS, Levels, QuantizedEntry

# between bytes: those whose ops round alike on all targets, and those that round as
# the functions of a target do
EXACT_CHAINS = (
    "nn.relu({0})", "np.clip({0}, -0.7, 0.9)", "{0} * 0.37", "{0} / 1.7 + 0.21",
    "np.where({0} > 0, {0}, 0.1 * {0})", "np.abs({0})", "-{0}", "np.maximum({0}, 0.2)",
    "nn.hard_swish({0})", "{0} * {0}", "np.round({0} * 3.0) / 3.0", "nn.relu6({0})",
    "np.floor({0} * 4.0)", "1.0 / (1.5 + np.abs({0}))", "np.sign({0})",
)  # fmt: skip
CHAINS = (
    "nn.gelu({0})", "nn.gelu({0}, approximate=True)", "nn.sigmoid({0})",
    "np.tanh({0})", "nn.silu({0})", "{0} * nn.sigmoid({0})", "np.exp({0} - 2.0)",
    "nn.softplus({0})", "np.sqrt(np.abs({0}))", "nn.elu({0})", "nn.mish({0})",
)  # fmt: skip
ROWS = ("nn.softmax({0})", "nn.layer_norm({0})", "nn.softmax({0}, axis=-2)",
    "nn.rms_norm({0})", "nn.log_softmax({0})")  # fmt: skip
BINARY = ("{0} + {1}", "{0} - {1}", "{0} * {1}", "np.maximum({0}, {1})",
    "nn.relu({0} + {1})", "np.minimum({0}, {1})", "np.where({0} > {1}, {0}, -{1})",
    "{0} / (0.5 + np.abs({1}))", "0.3 * {0} + 0.7 * {1}")  # fmt: skip
GATES = ("{0} * nn.sigmoid({1})", "nn.gelu({0}) + {1}", "{0} * (1.0 - np.tanh({1}))")
FEATURES = (1, 3, 4, 8, 15, 16, 17, 24, 32, 33, 64, 70)


def product(e: QuantizedEntry) -> None:
    """Add a product of rows by a quantised weight."""
    found = e.some_levels(2, 3, 4)
    if found is None:
        return
    *rows, depth = found.shape
    features = e.one_of(FEATURES)
    right = e.byte_weight((depth, features), int(depth), zero=e.chance(0.3))
    if e.chance(0.2):
        right = f"np.transpose(np.transpose({right}))"
    _need_integers(e, found)
    if not e.is_exact and e.chance(0.15):  # a scale for each term
        scales = e.weight(f"rng.uniform(0.5, 2.0, ({depth}, 1)).astype('f4')")
        right = f"({right} * {scales})"
    source = _biased(e, f"{found.floats} @ {right}", features)
    e.add(source, (*rows, features), found)


def product_of_values(e: QuantizedEntry) -> None:
    """Add a product of two quantised tensors that both vary from call to call."""
    found = e.some_levels(3)
    if found is None:
        return
    batch, rows, depth = found.shape
    others = [
        each
        for each in e.levels
        if len(each.shape) == 3
        and (each.shape[0], each.shape[2]) == (batch, depth)
        and isinstance(each.shape[1], int)
        and each.is_plain
    ]
    if not others:
        return
    other = e.one_of(others)
    _need_integers(e, found)
    _need_integers(e, other)
    source = f"np.einsum('bid,bjd->bij', {found.floats}, {other.floats})"
    source = f"{source} * numpy.float32({1 / math.sqrt(int(depth)):.4f})"
    e.add(source, (batch, rows, other.shape[1]), found, other)


def integer_product(e: QuantizedEntry) -> None:
    """Add an i32 product that is rescaled to bytes by floats or shifts."""
    found = e.some_levels(2)
    if found is None or found.zero_kind != "number":
        return
    rows, depth = found.shape
    features = e.one_of(FEATURES)
    kind, least = ("u1", 0) if found.dtype == "u8" else ("i1", -128)
    right = e.integers([int(depth), features], kind, least, 256)
    point = e.one_of((0, 1, 7)) + (128 + least)
    scale = 0.02 / math.sqrt(int(depth))
    given = f"{found.scale}, numpy.float32({scale}), {found.zero}, {point}"
    made = e.grid(f"q{len(e.lines)}", (rows, features))
    if e.chance(0.5):
        source = f"nn.quantized_matmul({found.name}, {right}, {given})"
        e.add_levels(made, _biased(e, source, features), found)
        return
    wide = f"np.astype({found.name}, 'i32') - np.astype({found.zero}, 'i32')"
    other = f"np.astype({right}, 'i32') - {point}"
    total = e.line(f"({wide}) @ ({other})")
    bias = e.weight(f"rng.integers(-5000, 5000, {features}).astype('i4')")
    shift = e.one_of((20, 31, 33))
    factor = int(0.01 * 2**shift / math.sqrt(int(depth)))
    half = 1 << (shift - 1)
    part = f"np.astype({total} + {bias}, 'i64') * {factor} + {half}"
    low, high = _bounds(made)
    sum_of_zero = f"np.right_shift({part}, {shift}) + np.astype({made.zero}, 'i64')"
    source = f"np.astype(np.clip({sum_of_zero}, {low}, {high}), {made.dtype!r})"
    e.add_integers(made, source, found)


def convolution(e: QuantizedEntry) -> None:
    """Add a quantised convolution: full, depthwise or grouped."""
    windows = _windows(e)
    if windows is None:
        return
    found, channels = windows.read, int(windows.read.shape[-1])
    divisors = [n for n in (2, 3, 4, 8) if channels % n == 0]
    kind = e.one_of(("all", "each", "groups" if divisors else "all"))
    groups = {"all": 1, "each": channels}.get(kind) or e.one_of(divisors)
    features = groups * e.one_of((1, 2) if kind == "each" else (3, 4, 8))
    depth = math.prod(windows.window) * channels // groups
    zero = e.chance(0.15)
    is_long = depth > 255 and (groups > 1 or zero)
    if is_long or found.zero_kind != "number":
        e.is_exact = False
    shape = (found.shape[0], *windows.result, features)
    name = f"nn.conv{len(windows.window)}d"
    if not zero and e.chance(0.15):
        _integer_convolution(e, windows, groups, features, depth)
        return
    kernel = (*windows.window, channels // groups, features)
    right = e.byte_weight(kernel, depth, zero=zero)
    source = f"{name}({found.floats}, {right}, {windows.given}, groups={groups})"
    e.add(_biased(e, source, features), shape, found)


def _integer_convolution(
    e: QuantizedEntry, windows: Windows, groups: int, features: int, depth: int
) -> None:
    """Add a convolution computed on integers, rescaled to bytes."""
    found = windows.read
    kernel = [*windows.window, int(found.shape[-1]) // groups, features]
    right = e.integers(kernel, "i1", -128, 256)
    given = f"{windows.given}, groups={groups}"
    zero = f"np.astype({found.zero}, {found.dtype!r})"
    total = e.line(f"nn.integer_conv({found.name}, {right}, {zero}, {given})")
    drawn = f"rng.uniform(0.5, 2.0, {features}) * {0.0002 / math.sqrt(depth)}"
    scales = e.weight(f"({drawn}).astype('f4')")
    source = _biased(e, f"np.astype({total}, 'f32') * {scales}", features)
    e.add(source, (found.shape[0], *windows.result, features), found)


def pooling(e: QuantizedEntry) -> None:
    """Add a max or average pooling of a quantised tensor."""
    windows = _windows(e, is_pool=True)
    if windows is None:
        return
    found = windows.read
    kind = e.one_of(("max", "max", "avg"))
    if kind == "avg":
        _need_integers(e, found)
    read = found.name if kind == "max" and e.chance(0.2) else found.floats
    source = f"nn.{kind}_pool({read}, {windows.window}, {windows.given})"
    shape = (found.shape[0], *windows.result, found.shape[-1])
    if read == found.name:
        made = replace(found, name=f"q{len(e.lines)}", shape=shape)
        e.add_integers(made, source, found)
    else:
        e.add(source, shape, found)


def reduction(e: QuantizedEntry) -> None:
    """Add a mean, sum or maximum along some axes."""
    found = e.some_levels(2, 3, 4)
    if found is None:
        return
    static = [at for at, n in enumerate(found.shape) if isinstance(n, int) and n]
    axes = tuple(at for at in static if e.chance(0.6)) or (static[-1],)
    kind = e.one_of(("mean", "mean", "sum", "max", "min"))
    if kind in ("mean", "sum"):
        _need_integers(e, found)
    source = f"np.{kind}({found.floats}, axis={axes}, keepdims=True)"
    shape = tuple(1 if at in axes else n for at, n in enumerate(found.shape))
    e.add(source, shape, found)
    if e.chance(0.2):
        e.results.append(e.line(f"np.argmax({found.floats}, axis={axes[0]})"))


def binary(e: QuantizedEntry) -> None:
    """Add an elementwise op of two quantised tensors of different grids."""
    found = e.some_levels(plain=False)
    if found is None:
        return
    other = e.one_of([each for each in e.levels if each.shape == found.shape])
    right = other.floats
    if e.chance(0.2):
        right = e.weight(f"rng.normal(size={found.shape[-1]}).astype('f4')")
    elif e.chance(0.15):
        right = f"{other.floats}[..., :1]"
    e.add(e.one_of(BINARY).format(found.floats, right), found.shape, found, other)


def concatenation(e: QuantizedEntry) -> None:
    """Add a concatenation of quantised tensors, dequantised or not."""
    found = e.some_levels()
    if found is None:
        return
    axis = len(found.shape) - 1
    alike = [
        each
        for each in e.levels
        if each.shape[:-1] == found.shape[:-1]
        and isinstance(each.shape[-1], int)
        and each.is_plain
    ]
    parts = [found, *(e.one_of(alike) for _ in range(e.one_of((1, 1, 2))))]
    size = sum(int(each.shape[-1]) for each in parts)
    shape = (*found.shape[:-1], size)
    if all(each.dtype == found.dtype for each in parts) and e.chance(0.3):
        names = ", ".join(each.name for each in parts)
        made = replace(found, name=f"q{len(e.lines)}", shape=shape)
        source = f"np.concatenate([{names}], axis={axis})"
        e.add_integers(made, source, *parts)
        return
    floats = ", ".join(each.floats for each in parts)
    e.add(f"np.concatenate([{floats}], axis={axis})", shape, *parts)


def chain(e: QuantizedEntry) -> None:
    """Add several elementwise ops of one quantised tensor."""
    found = e.some_levels(plain=False)
    if found is None:
        return
    chains = EXACT_CHAINS if e.is_exact else (*EXACT_CHAINS, *CHAINS, *CHAINS)
    source = found.floats
    for _ in range(int(e.rng.integers(1, 4))):
        source = e.one_of(chains).format(e.line(source))
    e.add(source, found.shape, found)


def table(e: QuantizedEntry) -> None:
    """Add a function of one byte as a table, of the build or of the model."""
    found = e.some_levels()
    if found is None:
        return
    if e.chance(0.3):
        numbers = e.integers([256], KINDS[found.dtype], *_span(found.dtype))
        index = f"np.astype({found.name}, 'i32')"
        index = index if found.dtype == "u8" else f"{index} + 128"
        made = replace(found, name=f"q{len(e.lines)}", bits=None)
        e.add_integers(made, f"np.take({numbers}, {index}, axis=0)", found)
        return
    source = e.one_of(CHAINS).format(e.line(found.floats))
    e.add_levels(e.grid(f"q{len(e.lines)}", found.shape), source, found)


def requantization(e: QuantizedEntry) -> None:
    """Add several requantisations in a row."""
    found = e.some_levels(plain=False)
    for _ in range(int(e.rng.integers(1, 4))):
        if found is not None:
            e.add(found.floats, found.shape, found)
            found = e.levels[-1]


def rows(e: QuantizedEntry) -> None:
    """Add a norm or softmax of rows."""
    found = e.some_levels(2, 3)
    if found is None:
        return
    if not e.is_exact:
        e.add(e.one_of(ROWS).format(found.floats), found.shape, found)
        return
    scale = e.one_of((2.0**-8, 2.0**-8, 0.0173))
    grid = e.grid(f"q{len(e.lines)}", found.shape)
    made = replace(grid, scale=f"numpy.float32({scale})")
    source = f"nn.softmax({found.floats}, axis={e.one_of((-1, -1, -2))})"
    e.add_levels(made, source, found)


def gate(e: QuantizedEntry) -> None:
    """Add a function of a quantised tensor times another tensor."""
    found = e.some_levels()
    if found is None:
        return
    alike = [x for x in e.levels if x.shape == found.shape and x.is_plain]
    other = e.one_of(alike)
    source = e.one_of(GATES).format(found.floats, other.floats)
    e.add_levels(e.grid(f"q{len(e.lines)}", found.shape), source, found, other)


# ---- what several steps need --------------------------------------------------------


class Windows(NamedTuple):
    """The source of windows over a quantised tensor, and the result's shape."""

    read: Levels
    window: tuple[int, ...]
    given: str
    result: tuple[int, ...]


def _windows(e: QuantizedEntry, *, is_pool: bool = False) -> Windows | None:
    """Draw windows over a quantised tensor; None if there is none."""
    found = e.some_levels(3, 4)
    if found is None or not all(isinstance(n, int) for n in found.shape[1:]):
        return None
    sizes = [int(n) for n in found.shape[1:-1]]
    window, strides, dilation = (
        tuple(e.one_of(some) for _ in sizes)
        for some in ((1, 2, 3, 3), (1, 1, 2), (1,) if is_pool else (1, 1, 2))
    )
    most = [(k - 1) // 2 if is_pool else 2 for k in window]
    ends = [
        (int(e.rng.integers(0, n + 1)), int(e.rng.integers(0, n + 1))) for n in most
    ]
    result = tuple(
        (n + sum(p) - (k - 1) * d - 1) // s + 1
        for n, p, k, d, s in zip(sizes, ends, window, dilation, strides, strict=True)
    )
    if min(result) < 1:
        return None
    given = f"strides={strides}, padding={tuple(ends)}, dilation={dilation}"
    return Windows(found, window, given, result)


def _biased(e: QuantizedEntry, source: str, features: Any) -> str:
    """Return source that adds a bias and activation, as often follows a product."""
    if e.chance(0.25):  # as exporters write it: integers of the sum's own scale
        drawn = f"rng.integers(-3000, 3000, {features}).astype('i4')"
        bias = f"nn.dequantize({e.weight(drawn)}, numpy.float32(1e-4))"
        source = f"{source} + {bias}"
    elif e.chance(0.5):
        drawn = f"rng.normal(size={features}, scale=0.3).astype('f4')"
        source = f"{source} + {e.weight(drawn)}"
    if e.chance(0.5):
        chains = EXACT_CHAINS if e.is_exact else (*EXACT_CHAINS, *CHAINS)
        source = e.one_of(chains).format(e.line(source))
    return source


def _need_integers(e: QuantizedEntry, found: Levels) -> None:
    """Mark the entry as inexact if the zero point is a float."""
    if found.zero_kind == "float":
        e.is_exact = False


def _span(dtype: str) -> tuple[int, int]:
    """Return the least integer and the number of integers of a byte dtype."""
    return (0, 256) if dtype == "u8" else (-128, 256)


def _bounds(made: Levels) -> tuple[int, int]:
    """Return the least and greatest integer of a tensor's bits."""
    steps = 2 ** (made.bits or 8)
    least = 0 if made.dtype == "u8" else -steps // 2
    return least, least + steps - 1


Step = Callable[[QuantizedEntry], None]
STEPS: dict[Step, float] = {
    product: 0.19, product_of_values: 0.06, integer_product: 0.06, convolution: 0.19,
    pooling: 0.06, reduction: 0.06, binary: 0.12, concatenation: 0.05, chain: 0.09,
    table: 0.06, requantization: 0.03, rows: 0.05, gate: 0.03,
}  # fmt: skip
