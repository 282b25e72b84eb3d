"""Guards of an entry, which hold its calls to its contract, each with a name.

    device of x              x lies on the host, or on the GPU that computes
    dtype of x               f32
    rank of x                4 axes
    layout of x              nhwc
    x.shape[1]               8
    y.shape[0] = x.shape[0]  both are batch
    range of batch           1 to 64
    step of batch            a multiple of 8
    batch != length          a condition that the model was traced for
    code for the sizes       batch 8; batch 64
    bytes of result y        at most 2**47

The loader's errors and counters have these names, and so has `aotc.jit`. They depend on
what the bundle declares and never on a call, so that there are only so many of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass

from aotc.artifacts.manifest import EntryPoint, Leaf, Symbol
from aotc.artifacts.shapes import SizeExpression

CODE = "code for the sizes"


@dataclass(frozen=True)
class CallGuard:
    """A named guard of an entry: a condition that every call must satisfy.

    Args:
        name: that errors and counters give it.
        rule: what must hold.
        where: the line of the model that declares it, as far as the bundle says so.
    """

    name: str
    rule: str
    where: str = ""

    def to_json(self) -> dict[str, str]:
        """Return the guard as a JSON object."""
        return asdict(self)


def kind_guard(name: str) -> str:
    """Return the name of the guard that an input is an array."""
    return f"type of {name}"


def device_guard(name: str) -> str:
    """Return the name of the guard that an input is on the host or the model's GPU."""
    return f"device of {name}"


def dtype_guard(name: str) -> str:
    """Return the name of the guard on an input's dtype."""
    return f"dtype of {name}"


def rank_guard(name: str) -> str:
    """Return the name of the guard on an input's rank."""
    return f"rank of {name}"


def layout_guard(name: str) -> str:
    """Return the name of the guard on an image's layout, such as nhwc."""
    return f"layout of {name}"


def size_guard(name: str, axis: int) -> str:
    """Return the name of the guard that an axis has its declared or computed size."""
    return f"{name}.shape[{axis}]"


def equality_guard(one: str, other: str) -> str:
    """Return the name of the guard that two axes, named as by `size_guard`, are
    equal.
    """
    return f"{one} = {other}"


def structure_guard(name: str) -> str:
    """Return the name of the guard that an argument has the pytree structure of the
    build.
    """
    return f"structure of {name}"


def value_guard(name: str) -> str:
    """Return the name of the guard that a non-array argument has the value of the
    build.
    """
    return f"value of {name}"


def range_guard(symbol: str) -> str:
    """Return the name of the guard that a symbolic size is within its bounds."""
    return f"range of {symbol}"


def step_guard(symbol: str) -> str:
    """Return the name of the guard that a symbolic size is a multiple of its step."""
    return f"step of {symbol}"


def bytes_guard(name: str) -> str:
    """Return the name of the guard that a result, or intermediates for "", can be
    allocated.
    """
    return f"bytes of result {name}" if name else "bytes of intermediates"


def call_guards(entry: EntryPoint, symbols: Mapping[str, Symbol]) -> list[CallGuard]:
    """Return all guards of an entry, in the order in which a call is checked.

    Args:
        entry: of a bundle.
        symbols: of the bundle, by name.
    """
    found = [guard for leaf in entry.inputs for guard in _array_guards(leaf)]
    found += _size_guards(entry, symbols)
    found += (CallGuard(x.condition, x.message, x.where) for x in entry.guards)
    sizes = (leaf for leaf in (*entry.outputs, *entry.intermediates) if _varies(leaf))
    names = dict.fromkeys(bytes_guard(leaf.name) for leaf in sizes)
    found += (CallGuard(name, "at most 2**47") for name in names)
    if not entry.has_general_code:
        found.append(CallGuard(CODE, "; ".join(map(str, entry.codes))))
    return found


def _array_guards(leaf: Leaf) -> Iterator[CallGuard]:
    """Yield the guards of one input that depend on no other input."""
    axes = len(leaf.shape)
    yield CallGuard(kind_guard(leaf.name), "an array", leaf.where)
    yield CallGuard(device_guard(leaf.name), "on the host, or on its GPU", leaf.where)
    yield CallGuard(dtype_guard(leaf.name), leaf.dtype, leaf.where)
    yield CallGuard(
        rank_guard(leaf.name), f"{axes} {'axis' if axes == 1 else 'axes'}", leaf.where
    )
    if leaf.layout:
        yield CallGuard(layout_guard(leaf.name), leaf.layout, leaf.where)


def _size_guards(
    entry: EntryPoint, symbols: Mapping[str, Symbol]
) -> Iterator[CallGuard]:
    """Yield the guards of sizes, of their relations, and of the symbols in them."""
    first: dict[str, str] = {}  # the place that says what a symbol is
    used: dict[str, str] = {}  # the line of the first input that has it
    for leaf in entry.inputs:
        for axis, size in enumerate(leaf.shape):
            place = size_guard(leaf.name, axis)
            if isinstance(size, int):
                yield CallGuard(place, str(size), leaf.where)
                continue
            dim = SizeExpression.parse(size)
            for name in sorted(dim.symbols):
                used.setdefault(name, leaf.where)
            if not dim.is_symbol:
                yield CallGuard(place, size, leaf.where)
            elif (other := first.setdefault(size.strip(), place)) != place:
                rule = f"both are {size.strip()}"
                yield CallGuard(equality_guard(place, other), rule, leaf.where)
    for name, where in used.items():
        yield from _contract_guards(name, symbols[name], where)


def _contract_guards(name: str, symbol: Symbol, where: str) -> Iterator[CallGuard]:
    """Yield the guards on the bounds and the step of a symbolic size."""
    line = symbol.where or where
    most = f"{symbol.min} and more" if symbol.max is None else None
    yield CallGuard(range_guard(name), most or f"{symbol.min} to {symbol.max}", line)
    if symbol.multiple_of > 1:
        yield CallGuard(step_guard(name), f"a multiple of {symbol.multiple_of}", line)


def _varies(leaf: Leaf) -> bool:
    """Return whether any dimension of an array is symbolic."""
    return any(isinstance(size, str) for size in leaf.shape)
