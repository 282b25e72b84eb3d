"""Steps with functions in them: branches, loops, custom rules, inner derivatives."""

from __future__ import annotations

from typing import Any

from .forms import is_float
from .programs import Block
from .scope import Refused, Scope, Value


def preserving_chain(s: Scope, x: Value, length: int) -> Value:
    """Emit random steps that keep the type of `x`; return the last value."""
    y = x
    for _ in range(length):
        try:
            found = _preserved(s, y)
        except Refused:
            continue
        if found.kind == x.kind:
            y = found
    return y if y is not x else s.emit("np.cos", x)


def _preserved(s: Scope, x: Value) -> Value:
    """Emit one random step whose result has the type of `x`."""
    same = [v for v in s.values if v.kind == x.kind]
    y = s.one_of(same)
    options: list[tuple[Any, ...]] = [
        ("np.sin", x), ("np.tanh", x), ("np.multiply", x, y), ("np.add", x, y),
        ("np.multiply", x, 0.5), ("nn.relu", x), ("np.subtract", y, x),
        ("np.maximum", x, y), ("nn.sigmoid", x),
        ("np.where", f"{x.source} > 0.1", x, y),
    ]  # fmt: skip
    if x.rank:
        axis = int(s.rng.integers(x.rank))
        options += [
            ("np.flip", x, axis), ("np.roll", x, 1, axis), ("nn.softmax", x, axis),
            ("np.cumsum", x, axis), ("np.sort", x, axis), ("np.ones_like", x),
            ("at.add", x, "::2", 0.5), ("at.set", x, "::-2", f"{x.source}[::-2] * 2"),
            ("np.subtract", x, f"np.mean({x.source}, {axis}, keepdims=True)"),
        ]  # fmt: skip
    return s.emit(*s.one_of(options))


def function_of(s: Scope, examples: list[str], captures: bool = True) -> Block:
    """Build a random function of values like `examples`; its result is like the
    first.
    """
    with s.body(examples, captures) as parameters:
        y = preserving_chain(s, parameters[0], int(s.rng.integers(1, 4)))
        rest = [p for p in parameters[1:] if p.kind == parameters[0].kind]
        for other in rest:
            y = s.emit("np.add", y, other)
        return s.block(parameters, y.source)


def branch(s: Scope) -> Any:
    """Emit a `cond` or `switch` decided by a value."""
    x = s.pick(is_float)
    total = s.emit("np.sum", s.pick(is_float))
    if s.chance(0.5):
        flag = s.emit("np.greater", total, 0.1)
        blocks = [function_of(s, [x.source]) for _ in range(2)]
        names = [block.name for block in blocks]
        return s.emit("control.cond", flag, *names, x, blocks=blocks)
    index = s.emit("np.astype", s.emit("np.floor", s.within(total, -1, 3)), '"int32"')
    blocks = [function_of(s, [x.source]) for _ in range(3)]
    listed = f"[{', '.join(block.name for block in blocks)}]"
    return s.emit("control.switch", index, listed, x, blocks=blocks)


def scan(s: Scope) -> Any:
    """Emit a scan along the leading axis."""
    xs = s.pick(lambda v: v.is_float and v.rank > 0 and v.data.shape[0] > 0)
    row = f"{xs.source}[0]"
    with s.body([row, row], captures=True) as parameters:
        carried, x = parameters
        new = s.emit(
            "np.tanh", s.emit("np.add", s.emit("np.multiply", carried, 0.5), x)
        )
        new = preserving_chain(s, new, 2)
        stacked = s.one_of([v for v in s.values if v.is_float])
        block = s.block(parameters, f"{new.source}, {stacked.source}")
    first = f"np.zeros_like({row})"
    extra = ["reverse=True"] if s.chance(0.3) else []
    return s.emit("control.scan", block.name, first, xs, *extra, blocks=[block])


def mapped(s: Scope) -> Any:
    """Emit a map of a function along the leading axis."""
    xs = s.pick(lambda v: v.is_float and v.rank > 0 and v.data.shape[0] > 0)
    block = function_of(s, [f"{xs.source}[0]"])
    name = s.one_of(["control.map", "aotc.vmap"])
    return s.emit(name, block.name, xs, blocks=[block])


def loop(s: Scope) -> Any:
    """Emit a counted loop, or one that a value ends."""
    x = s.pick(is_float)
    if s.chance(0.5):
        with s.body(["np.asarray(0)", x.source], captures=True) as parameters:
            y = preserving_chain(s, parameters[1], 2)
            block = s.block(parameters, y.source)
        return s.emit("control.fori_loop", 0, 3, block.name, x, blocks=[block])
    with s.body([x.source], captures=True) as parameters:
        size = s.emit("np.sum", s.emit("np.abs", parameters[0]))
        test = s.block(parameters, f"{size.source} < 3.0")
    with s.body([x.source], captures=True) as parameters:
        y = s.emit("np.add", s.emit("np.multiply", parameters[0], 1.25), 0.125)
        body = s.block(parameters, preserving_chain(s, y, 1).source)
    names = [test.name, body.name]
    return s.emit("control.while_loop", *names, x, "max_steps=4", blocks=[test, body])


def folded(s: Scope) -> Any:
    """Emit a running or whole reduction by a function of two values."""
    x = s.pick(lambda v: v.is_float and v.rank > 0)
    name = s.one_of(["control.associative_scan", "control.reduce"])
    return s.emit(name, s.one_of(["np.add", "np.multiply", "np.maximum"]), x)


def ruled(s: Scope) -> Any:
    """Emit a call of a function with custom rules, a checkpoint, or its gradient."""
    x = s.pick(is_float)
    name = s.one_of(["with_vjp", "with_jvp", "aotc.checkpoint", "aotc.grad"])
    if name == "aotc.grad":
        with s.body([x.source], captures=True) as parameters:
            y = preserving_chain(s, parameters[0], 2)
            total = s.emit("np.sum", y)
            block = s.block(parameters, total.source)
        return s.emit(name, block.name, x, blocks=[block])
    captures = name == "aotc.checkpoint"
    same = [v for v in s.values if v.kind == x.kind]
    arguments = [x, s.one_of(same)] if s.chance(0.5) else [x]
    block = function_of(s, [v.source for v in arguments], captures)
    return s.emit(name, block.name, *arguments, blocks=[block])
