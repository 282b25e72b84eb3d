"""Steps of random entries that look something up: by indices, in order, in nibbles.

Indices come of inputs, which no rounding moves, and are often out of bounds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .weighted_forms import Shape

if TYPE_CHECKING:
    from .weighted_entries import Entry

NIBBLES = "_nibbles"  # the end of the name of a weight of four bits
# what makes one: a line of the header of a model
HEADER = """
def nibbles(rows, columns, is_signed):
    low, dtype = (-8, "i1") if is_signed else (0, "u1")
    data = rng.integers(low, low + 16, (rows, columns)).astype(dtype)
    scale = rng.normal(size=(rows, columns // 32), scale=0.1).astype("f2")
    return nn.QuantizedWeights(data, scale, axis=1, block=32, bits=4)
"""
_MODES = ("raise", "clip", "fill", "wrap")
_INDICES = ("int32", "int64", "uint8", "int8")


def add_lookups(entry: Entry) -> None:
    """Add a few lookup steps to an entry."""
    steps = _rows_of_table, _along, _places, _first_few, _product_of_nibbles
    for _ in range(int(entry.rng.integers(1, 4))):
        entry.one_of(steps)(entry)


def _indices(entry: Entry) -> tuple[str, Shape]:
    """Return the source of integer indices computed from an input, and their shape."""
    inputs = [each for each in entry.values if each[0].startswith("x")]
    x, shape = entry.one_of(inputs)
    dtype, by = entry.one_of(_INDICES), entry.one_of((2.0, 9.0, 60.0))
    held = f"np.clip(np.floor({x} * {by}), -120.0, 120.0)"
    if dtype == "uint8":
        held = f"np.abs({held})"
    return f"np.astype({held}, '{dtype}')", shape


def _rows_of_table(entry: Entry) -> None:
    """Add a gather of rows of a weight or value."""
    at, shape = _indices(entry)
    others = [v for v in entry.values if len(v[1]) == 2 and v[1][0] != 0]
    if others and entry.chance(0.4):
        table, (_, width) = entry.one_of(others)
    else:
        width = entry.one_of((1, 8, 24, 33, 64))
        table = entry.weight(entry.one_of((1, 9, 50)), width)
    mode = entry.one_of(_MODES)
    more = ", fill_value=0.0" if mode == "fill" else ""
    entry.add(f"np.take({table}, {at}, axis=0, mode='{mode}'{more})", (*shape, width))


def _along(entry: Entry) -> None:
    """Add a gather of elements along rows, by indices per row."""
    found = entry.value(2, 3)
    if found is None:
        return
    x, shape = found
    count = entry.one_of((1, 3, 40))
    place = f"np.arange({count}) * {entry.one_of((1, 3, 7))}"
    at = f"np.broadcast_to({place}, (*{x}.shape[:-1], {count}))"
    entry.add(f"np.take_along_axis({x}, {at}, axis=-1)", (*shape[:-1], count), x)


def _places(entry: Entry) -> None:
    """Add an argmax or argmin of an input."""
    inputs = [v for v in entry.values if v[0].startswith("x") and len(v[1]) > 1]
    if not inputs:
        return
    x, shape = entry.one_of(inputs)
    fixed = [axis for axis, size in enumerate(shape) if isinstance(size, int)]
    axis, name = entry.one_of(fixed), entry.one_of(("argmax", "argmin"))
    rest = tuple(size for n, size in enumerate(shape) if n != axis)
    entry.add(f"np.astype(np.{name}({x}, axis={axis}), FLOATS)", rest, x)


def _first_few(entry: Entry) -> None:
    """Add a sort or top-k of an input's rows, cut to the first few."""
    inputs = [v for v in entry.values if v[0].startswith("x")]
    x, (*rows, size) = entry.one_of(inputs)
    if not isinstance(size, int):
        return
    count, largest = min(size, entry.one_of((1, 1, 2, 5))), entry.chance(0.7)
    found = f"np.top_k({x}, {count}, largest={largest})"
    if entry.chance(0.5):
        entry.add(f"{found}.values", (*rows, count), x)
    else:
        entry.add(f"np.astype({found}.indices, FLOATS)", (*rows, count), x)


def _product_of_nibbles(entry: Entry) -> None:
    """Add a product by a weight of 4-bit integers."""
    found = entry.value(1, 2, 3)
    if found is None:
        return
    x, (*rows, depth) = found
    features, name = entry.one_of((1, 8, 33, 64)), f"{entry.name}_{len(entry.weights)}"
    columns = 32 * entry.one_of((1, 2, 3))
    entry.weights[name + NIBBLES] = (features, columns)
    held = f"np.tile({x}, {-(-columns // depth)})[..., :{columns}]"
    entry.add(f"w[{name + NIBBLES!r}].linear({held})", (*rows, features), x)
