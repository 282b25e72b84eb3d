"""Random entries of quantised arithmetic, of several kinds.

Chains of steps between tensors of bytes; weights of 4 to 8 bits beside floats, by
channel and in blocks; half precision; scales that each call finds; caches and states of
bytes; loops and gradients.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .quantized_drawing import Levels, QuantizedEntry
from .quantized_movement import movement
from .quantized_steps import CHAINS, FEATURES, STEPS
from .weighted_forms import Shape

LENGTHS = (1, 2, 3, 5, 8, 13, 16, 21)
BLOCKS = (16, 20, 32, 32, 64, 128, None)
HALVES = ("bf16", "f16")
ACTIVATIONS = ("nn.relu({0})", "nn.silu({0})", "np.tanh({0})")


def draw(e: QuantizedEntry, *, relaxed: bool = False) -> None:
    """Draw what an entry computes, of one of several kinds.

    Args:
        e: the entry.
        relaxed: draw rows that are rounded, which results show within a bound.
    """
    if relaxed:
        _draw_rounded_rows(e)
        return
    kinds = [*KINDS]
    chosen = kinds[int(e.rng.choice(len(kinds), p=[*KINDS.values()]))]
    chosen(e)
    if chosen not in (_draw_exact, _draw_bytes):
        e.families.append(chosen.__name__.removeprefix("_draw_"))


# ---- bytes between steps ------------------------------------------------------------


def _draw_exact(e: QuantizedEntry) -> None:
    """Draw steps whose integer results are equal on every target."""
    _draw_steps(e)


def _draw_bytes(e: QuantizedEntry) -> None:
    """Draw steps whose results may differ by a rounding step."""
    e.is_exact = False
    _draw_steps(e)


def _draw_steps(e: QuantizedEntry) -> None:
    """Draw inputs and a chain of quantised steps."""
    e.is_wild = True
    first: Any = _batch(e) or e.one_of((1, 1, 2, 3) if e.chance(0.94) else (0,))
    shapes: list[Shape] = [
        (first, e.one_of(FEATURES)),
        (first, e.one_of(LENGTHS), e.one_of(FEATURES)),
        (first, e.one_of((1, 5, 8, 9)), e.one_of((1, 6, 7)),
         e.one_of((1, 3, 4, 8, 16, 24, 32, 40))),
    ]  # fmt: skip
    if e.has_batch and e.chance(0.2):
        shapes = [(e.one_of((1, 2)), "n", e.one_of(FEATURES))]
    for number in range(int(e.rng.integers(1, 3))):
        _add_input(e, f"x{number}", e.one_of(shapes))
    steps = {**STEPS, movement: 1 - sum(STEPS.values()) + 0.1}
    shares = [share / sum(steps.values()) for share in steps.values()]
    wanted = int(e.rng.integers(2, 5)) + len(e.levels)
    for _ in range(20):
        if len(e.levels) >= wanted:
            break
        step = [*steps][e.rng.choice(len(steps), p=shares)]
        before = len(e.levels)
        step(e)
        if len(e.levels) > before:
            e.families.append(step.__name__)
    if e.chance(0.25):  # read by the caller, too
        e.results.append(e.one_of(e.levels[-3:]).name)
    if e.chance(0.15):
        e.results.append(e.line(e.one_of(e.levels[-3:]).floats))


def _batch(e: QuantizedEntry) -> str | None:
    """Draw a symbolic batch size, in some entries."""
    e.has_batch = e.chance(0.3)
    return "n" if e.has_batch else None


def _add_input(e: QuantizedEntry, name: str, shape: Shape) -> None:
    """Add an input, quantised or of floats."""
    made = e.grid(name, shape)
    if e.chance(0.4) and made.bits is None:
        e.inputs[name] = (made.dtype, shape)
        e.levels.append(made)
        return
    e.inputs[name] = ("f32", shape)
    e.add_levels(e.grid(f"q{name}", shape), name)


# ---- weights of few bits ------------------------------------------------------------


def _draw_blocks(e: QuantizedEntry) -> None:
    """Draw products by weights of 4 or 8 bits in blocks."""
    e.is_exact = False
    rows: Any = _batch(e) or e.one_of((1, 1, 2, 5, 16, 33))
    depth, block = _depth(e)
    e.inputs["x0"] = ("f32", (rows, depth))
    count = e.one_of((1, 1, 2, 3))
    for _ in range(count):
        features = e.one_of((1, 8, 16, 31, 48, 64))
        _add_product(e, "x0", _blocks(e, features, depth, block))
    e.families.append(f"weights in blocks of {block}")


def _depth(e: QuantizedEntry) -> tuple[int, int | None]:
    """Draw the contracted size of a product, and its block size."""
    block = e.one_of(BLOCKS)
    return e.one_of((1, 2, 3, 4)) * (block or e.one_of((32, 96, 100))), block


def _add_product(e: QuantizedEntry, x: str, weight: str) -> None:
    """Add a product by a weight to the results, perhaps with an activation."""
    source = e.line(f"{x} @ {weight}")
    if e.chance(0.4):
        source = e.one_of(ACTIVATIONS).format(source)
    e.results.append(e.line(source))


def _blocks(e: QuantizedEntry, features: int, depth: int, block: int | None) -> str:
    """Return the source of a blockwise weight [terms, features], plain or
    transposed.
    """
    bits = e.one_of((4, 4, 5, 6, 8))
    is_signed, turned = e.chance(0.5), e.chance(0.6)
    kind, least = ("i1", -(2 ** (bits - 1))) if is_signed else ("u1", 0)
    axis = int(turned)
    stored = [features, depth] if turned else [depth, features]
    q = e.integers(stored, kind, least, 2**bits)
    shape = [depth // block if block else 1, features]
    shape = [*reversed(shape)] if turned else shape
    counts = shape if block else [features]
    size = 0.2 / 2**bits
    scale = _scales(e, counts, size, axis)
    points, less = "0", "None"
    if e.chance(0.4):
        name = e.integers(counts, kind, least, 2**bits)
        points = f"np.astype({name}, 'f32')" if e.chance(0.3) else name
    elif e.chance(0.3):
        points = f"numpy.{'int8' if is_signed else 'uint8'}({least + 2 ** (bits - 1)})"
    if e.chance(0.3):
        kept = e.one_of(("f4", "f2"))
        less = e.weight(f"rng.uniform(0, 0.4, {tuple(counts)}).astype({kept!r})")
    given = f"axis={axis if block else 1 - axis}, block={block}, less={less}"
    if bits < 8:
        given = f"{given}, bits={bits}"
    return f"nn.dequantize({q}, {scale}, {points}, {given}){'.T' if turned else ''}"


def _scales(e: QuantizedEntry, counts: list[int], size: float, axis: int) -> str:
    """Return the source of scales: f32, f16, or integers with scales of their own.

    Those are one for all, or one for some that are beside each other along an axis.
    """
    shape = tuple(counts)
    kept = e.one_of(("f4", "f2", "bf16", "bytes"))
    if kept == "bytes":  # as of K types
        name = e.weight(f"rng.integers(1, 64, {shape}).astype('u1')")
        together = e.one_of((0, 2, 8))
        if together and len(counts) > 1 and counts[axis] % together == 0:
            shape = tuple(
                n // together if k == axis else n for k, n in enumerate(counts)
            )
            steps = f"rng.uniform({size / 32}, {size / 8}, {shape}).astype('f2')"
            step = f"np.astype({e.weight(steps)}, 'f32')"
            return f"nn.dequantize({name}, {step}, axis={axis}, block={together})"
        step = e.weight(f"numpy.array({size / 16}, 'f2')")
        return f"nn.dequantize({name}, np.astype({step}, 'f32'))"
    kind = "f4" if kept == "bf16" else kept
    name = e.weight(f"rng.uniform({size}, {4 * size}, {shape}).astype({kind!r})")
    if kept == "bf16":
        name = f"np.astype({name}, 'bf16')"
    return f"np.astype({name}, 'f32')"


def _draw_rounded_rows(e: QuantizedEntry) -> None:
    """Draw a product whose rows relaxed numerics round to bytes, and its bound."""
    e.is_exact = False
    rows: Any = _batch(e) or e.one_of((4, 5, 7, 16, 33))
    block = e.one_of((32, 64, 128))
    depth = 256 * e.one_of((1, 2, 3))
    weight = _blocks(e, e.one_of((8, 16, 31, 48, 80)), depth, block)
    e.inputs["x0"] = ("f32", (rows, depth))
    e.results.append(e.line(f"x0 @ {weight}"))
    sizes = f"np.abs({e.line(weight)})"
    parts = f"np.reshape(np.abs(x0), (x0.shape[0], {depth // 32}, 32))"
    largest = f"np.repeat(np.max({parts}, -1), 32, axis=-1)"
    e.bound = f"({largest} / 254 + 2e-5 * np.abs(x0)) @ {sizes} + 1e-6"
    e.families.append("rounded rows")


def _draw_table_of_rows(e: QuantizedEntry) -> None:
    """Draw lookups of quantised rows, and a product by all of them."""
    e.is_exact = False
    rows, block = e.one_of((5, 40, 120)), e.one_of((32, 64, None))
    depth = 2 * (block or e.one_of((24, 33)))
    e.inputs["i0"] = ("i32", (_batch(e) or e.one_of((1, 4, 9)),))
    q = e.integers([rows, depth], "i1", -8, 16)
    counts = [rows, depth // block] if block else [rows]
    scale = _scales(e, counts, 0.02, 1)
    given = f"axis={1 if block else 0}, block={block}, bits=4"
    table = e.line(f"nn.dequantize({q}, {scale}, {given})")
    taken = e.line(f"np.take({table}, i0, axis=0, mode='clip')")
    e.results.append(taken if e.chance(0.3) else e.line(f"np.tanh({taken}) * 2.0"))
    if e.chance(0.6):
        e.results.append(e.line(f"{taken} @ {table}.T"))


# ---- half precision -----------------------------------------------------------------


def _draw_half(e: QuantizedEntry) -> None:
    """Draw products in half precision, also with quantised operands."""
    e.is_exact, e.is_half = False, True
    rows: Any = _batch(e) or e.one_of((1, 2, 5, 33))
    depth, block = _depth(e)
    features, half = e.one_of((1, 8, 31, 48)), e.one_of(HALVES)
    e.families.append(half)
    e.inputs["x0"] = (half, (rows, depth))
    if e.chance(0.4):
        weight = f"np.astype({_blocks(e, features, depth, block)}, {half!r})"
    else:
        drawn = f"rng.normal(size=({depth}, {features}), scale=0.1).astype('f4')"
        weight = f"np.astype({e.weight(drawn)}, {half!r})"
    _add_product(e, "x0", weight)
    if e.chance(0.5):  # bytes of it, and halves of those
        made = e.grid(f"q{len(e.lines)}", (rows, features))
        e.lines.append(f"{made.name} = {_in_f32(made, e.results[-1])}")
        e.results.append(made.name)
        other = e.line(f"np.astype({made.floats}, {half!r})")
        e.results.append(e.line(f"nn.softmax({other}) + {other}"))


def _in_f32(made: Levels, source: str) -> str:
    """Return source that quantises an f16 value through f32."""
    return made.quantize(f"np.astype({source}, 'f32')")


# ---- what calls find or keep --------------------------------------------------------


def _draw_dynamic(e: QuantizedEntry) -> None:
    """Draw products of bytes whose scale is computed in each call."""
    e.is_exact = False
    rows, depth = _batch(e) or e.one_of((1, 2, 7, 16)), e.one_of(FEATURES)
    features = e.one_of(FEATURES)
    e.inputs["x0"] = ("f32", (rows, depth))
    if e.chance(0.6):
        dtype = e.one_of(("u8", "i8"))
        bounds = "np.min(x0, initial=0.0), np.max(x0, initial=0.0)"
        found = e.line(f"nn.quantization_scale({bounds}, {dtype!r})")
        given = f"*{found}"
        q = e.line(f"nn.quantize(x0, {given}, {dtype!r})")
    else:
        scale = e.line("np.max(np.abs(x0), axis=1, initial=1e-6) / 127.0")
        given = f"{scale}, 0, axis=0"
        q = e.line(f"nn.quantize(x0, {scale}, 0, 'i8', axis=0)")
    right = e.byte_weight((depth, features), depth, zero=e.chance(0.3))
    _add_product(e, f"nn.dequantize({q}, {given})", right)
    e.results.append(q)


def _draw_cache(e: QuantizedEntry) -> None:
    """Draw an attention of some queries to quantised keys and values."""
    e.is_exact = False
    batch, length = _batch(e) or e.one_of((1, 2)), e.one_of((1, 7, 16, 33, 80))
    heads, depth = e.one_of((1, 2, 3)), e.one_of((8, 16, 20, 64))
    queries, shared = e.one_of((1, 1, 3)), e.one_of((1, 2))
    e.inputs["x0"] = ("f32", (batch, queries, heads * shared, depth))
    parts = []
    for name in ("k", "v"):
        dtype = e.one_of(("u8", "i8"))
        e.inputs[name] = (dtype, (batch, length, heads, depth))
        e.inputs[f"s{name}"] = ("f32", (batch, length, heads, 1))
        zero = "numpy.uint8(128)" if dtype == "u8" else "0"
        scale = f"np.abs(s{name}) * 0.02"
        given = f"{scale}, {zero}, axis=-1, block={depth}"
        parts.append(f"nn.dequantize({name}, {given})")
    e.results.append(e.line(f"nn.attention(x0, {', '.join(parts)})"))


def _draw_state(e: QuantizedEntry) -> None:
    """Draw a quantised state that each call updates in part."""
    rows, features = e.one_of((1, 4, 9)), e.one_of((1, 8, 24, 33))
    e.is_wild = True
    made = e.grid("state", (rows, features))
    made = Levels("state", made.shape, made.scale, made.zero, made.dtype)
    kind = "u1" if made.dtype == "u8" else "i1"
    e.state = ("state", f"numpy.full(({rows}, {features}), 3, {kind!r})")
    e.inputs["x0"] = ("f32", (1, features))
    q = e.line(made.quantize("x0"))
    if e.chance(0.5):
        e.inputs["at"] = ("i32", ())
        e.updated = e.line(f"np.dynamic_update_slice(state, {q}, (np.abs(at), 0))")
    else:
        e.updated = e.line(f"np.concatenate([state[1:], {q}], axis=0)")
    now = Levels(e.updated, made.shape, made.scale, made.zero, made.dtype)
    if e.chance(0.5):
        e.is_exact = made.zero_kind == now.zero_kind == "number"
        e.results.append(e.line(f"np.max({now.floats}, axis=0)"))
    else:
        right = e.byte_weight((features, 8), features)
        e.is_exact = "float" not in made.zero
        out = e.grid(f"q{len(e.lines)}", (rows, 8))
        e.lines.append(f"{out.name} = {out.quantize(f'{now.floats} @ {right}')}")
        e.results.append(out.name)


# ---- loops and gradients ------------------------------------------------------------


def _draw_loop(e: QuantizedEntry) -> None:
    """Draw a loop whose body quantises, multiplies and dequantises."""
    features = e.one_of((8, 16, 33))
    rows = e.one_of((1, 3, 8))
    e.inputs["x0"] = ("f32", (rows, features))
    made = e.grid("q", (rows, features))
    e.is_exact = False
    if e.chance(0.5):
        right = e.byte_weight((features, features), features)
    else:
        e.is_exact = False
        right = _blocks(e, features, features, None)
    chain = e.one_of(CHAINS).format("y")
    e.lines += [
        "def body(x, _):",
        f"    q = {made.quantize('x')}",
        f"    y = {made.floats} @ {right}",
        f"    return {chain}, q",
    ]
    e.results.append(e.line("control.scan(body, x0, None, length=3)"))
    e.results[-1] = f"*{e.results[-1]}"


def _draw_gradient(e: QuantizedEntry) -> None:
    """Draw the derivative of a product whose operands are rounded as they train."""
    e.is_exact = False
    rows, depth = e.one_of((1, 4, 9)), e.one_of((8, 24, 33))
    features, bits = e.one_of((3, 8, 17)), e.one_of((4, 8))
    e.inputs["x0"] = ("f32", (rows, depth))
    e.inputs["x1"] = ("f32", (depth, features))
    e.inputs["x2"] = ("f32", (features,))
    weight = "np.abs(s) * 0.02 + 0.01"
    e.lines += [
        "def total(x, y, s):",
        "    a = nn.fake_quantize(x, numpy.float32(0.03), numpy.int8(-5))",
        f"    b = nn.fake_quantize(y, {weight}, axis=1, bits={bits})",
        "    return np.sum(np.tanh(a @ b))",
    ]
    e.results.append(f"*{e.line('aotc.grad(total, (0, 1, 2))(x0, x1, x2)')}")


Draw = Callable[[QuantizedEntry], None]
KINDS: dict[Draw, float] = {
    _draw_exact: 0.46, _draw_bytes: 0.18, _draw_blocks: 0.12, _draw_half: 0.04,
    _draw_table_of_rows: 0.03, _draw_dynamic: 0.05, _draw_cache: 0.04,
    _draw_state: 0.04, _draw_loop: 0.02, _draw_gradient: 0.02,
}  # fmt: skip
