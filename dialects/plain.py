"""Plain data as MLIR attributes, for a module's statements about itself.

`plain_of(attribute_of(data)) == data` for text, numbers, truth values, None, lists,
and dicts with text as keys, whose order is lost. Trees are plain data, too.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from aotc.core.pytree import Structure
from aotc.mlir import ir

Plain = str | int | float | bool | None | Sequence["Plain"] | Mapping[str, "Plain"]


def attribute_of(data: Plain) -> Any:
    """Return plain Python data as an MLIR attribute of the current context."""
    if data is None:
        return ir.UnitAttr.get()
    if isinstance(data, bool):
        return ir.BoolAttr.get(data)
    if isinstance(data, int):
        return ir.IntegerAttr.get(ir.IntegerType.get_signless(64), data)
    if isinstance(data, float):
        # the bindings check a float at a place, and there may be none
        with ir.Location.unknown():
            return ir.FloatAttr.get(ir.F64Type.get(), data)
    if isinstance(data, str):
        return ir.StringAttr.get(data)
    if isinstance(data, Mapping):
        return ir.DictAttr.get({key: attribute_of(each) for key, each in data.items()})
    return ir.ArrayAttr.get([attribute_of(each) for each in data])


def plain_of(attribute: Any) -> Any:
    """Return the plain Python data that an MLIR attribute holds.

    Raises:
        ValueError: it holds something else.
    """
    if isinstance(attribute, ir.UnitAttr):
        return None
    if isinstance(attribute, ir.BoolAttr):
        return bool(attribute.value)
    if isinstance(attribute, ir.IntegerAttr):
        return int(attribute.value)
    if isinstance(attribute, ir.FloatAttr):
        return float(attribute.value)
    if isinstance(attribute, ir.StringAttr):
        return str(attribute.value)
    if isinstance(attribute, ir.ArrayAttr):
        return [plain_of(each) for each in attribute]
    if isinstance(attribute, ir.DictAttr):
        return {each.name: plain_of(each.attr) for each in attribute}
    raise ValueError(f"expected text, a number, a list or a dict; got {attribute}")


# ---- trees --------------------------------------------------------------------------


def plain_tree(tree: Structure) -> Any:
    """Return a pytree's structure as plain data: a leaf is `*`, keys are ordered."""
    if tree.kind == "leaf":
        return "*"
    if tree.kind == "none":
        return None
    children = [plain_tree(child) for child in tree.children]
    if not tree.keys:
        return {tree.kind: children}
    pairs = zip(tree.keys, children, strict=True)
    return {tree.kind: [[key, child] for key, child in pairs]}


def tree_of(data: Any) -> Structure:
    """Return the pytree structure of plain data, the inverse of `plain_tree`.

    A named tuple has lost its class.
    """
    if data == "*":
        return Structure("leaf")
    if data is None:
        return Structure("none")
    ((kind, rows),) = data.items()
    if kind not in ("dict", "namedtuple"):
        return Structure(kind, (), tuple(map(tree_of, rows)))
    keys = tuple(key for key, _ in rows)
    children = tuple(tree_of(child) for _, child in rows)
    if kind == "dict":
        return Structure.of_dict(keys, children)
    return Structure(kind, keys, children)
