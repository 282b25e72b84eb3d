"""Inputs of a model: Specs with their sizes and names."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, cast

from aotc.errors import InputError
from aotc.importers.onnx.elements import element
from aotc.importers.onnx.graph import OnnxGraph, OnnxModel
from aotc.importers.onnx.size_limits import size_limits
from aotc.tracing.dims import Dim, DimTerm
from aotc.tracing.entry import Spec
from aotc.tracing.source_locations import at_location, fail, scope

if TYPE_CHECKING:
    import onnx


def specs_of(model: OnnxModel, dims: Mapping[str, int | Dim]) -> dict[str, Spec]:
    """Return the Spec of each input of a model, by its name as a Python identifier."""
    graph = model.graph
    sizes = InputSizes(dims, _limits_by_name(graph))
    specs = {}
    for name, own in zip(identifiers(graph.inputs), graph.inputs, strict=True):
        with at_location((model.file, 1)), scope(own):
            specs[name] = spec_of(own, name, graph.types[own], sizes)
    unknown = [name for name in dims if name not in sizes.met]
    if unknown:
        raise InputError(
            "unknown-size",
            f"no input of '{model.file}' has a size '{unknown[0]}'; it has "
            f"{', '.join(sizes.met) or 'none'}",
            where=model.file,
        )
    return specs


def spec_of(own: str, name: str, kind: onnx.TypeProto, sizes: InputSizes) -> Spec:
    """Return the Spec of the input `own` of the file, which the entry calls `name`.

    Raises:
        InputError: `unsupported-type` or `dynamic-rank`.
    """
    if kind.WhichOneof("value") != "tensor_type":
        what = (kind.WhichOneof("value") or "no type").replace("_type", "")
        fail("unsupported-type", f"the input '{own}' is a {what}; aotc takes arrays")
    tensor = kind.tensor_type
    dtype = element(tensor.elem_type).dtype
    if not tensor.HasField("shape"):
        fail(
            "dynamic-rank",
            f"the file does not say how many axes the input '{own}' has",
            "export the model again, with the shapes of its inputs",
        )
    return Spec(
        [
            sizes.of(size, f"{name}_{axis}")
            for axis, size in enumerate(tensor.shape.dim)
        ],
        dtype,
    )


def _limits_by_name(graph: OnnxGraph) -> dict[str, int]:
    """Map names of sizes to upper bounds, which are lengths of stored tables."""
    found: dict[str, int] = {}
    for (own, axis), limit in size_limits(graph).items():
        name = graph.types[own].tensor_type.shape.dim[axis].dim_param
        if name:
            found[name] = min(found.get(name, limit), limit)
    return found


class InputSizes:
    """The sizes of a model's inputs: numbers, and a Dim for each name.

    Args:
        given: what some names stand for.
        limits: the greatest value of some of the others.
        least: the least value of the others.
    """

    def __init__(
        self, given: Mapping[str, int | Dim], limits: Mapping[str, int], least: int = 1
    ) -> None:
        self._given, self._limits, self._least = given, limits, least
        self._dims: dict[str, Dim] = {}
        self.met: list[str] = []

    def of(self, size: onnx.TensorShapeProto.Dimension, unnamed: str) -> int | DimTerm:
        """Return a dimension of an input as a number or Dim; `unnamed` names an open
        one.
        """
        if size.WhichOneof("value") == "dim_value":
            # 0 and less are how some exporters say that a size is open
            return size.dim_value if size.dim_value > 0 else self._dim(unnamed)
        if not size.dim_param:
            return self._dim(unnamed)
        if size.dim_param in self._given:
            return self._dim(size.dim_param)
        return self._expression(size.dim_param)

    def _expression(self, text: str) -> int | DimTerm:
        """Return the size that a text such as `past + 1` states; any other text is a
        name.
        """
        try:
            tree = ast.parse(text.strip(), mode="eval").body
        except SyntaxError:
            return self._dim(text)
        return self._term(tree) if _is_arithmetic(tree) else self._dim(text)

    def _term(self, tree: Any) -> int | DimTerm:
        """Return the size for a Python expression tree of sums and products."""
        if isinstance(tree, ast.Name):
            return self._dim(tree.id)
        if isinstance(tree, ast.Constant):
            return cast(int, tree.value)
        left, right = self._term(tree.left), self._term(tree.right)
        if isinstance(tree.op, ast.Add):
            return left + right
        return left - right if isinstance(tree.op, ast.Sub) else left * right

    def _dim(self, name: str) -> int | Dim:
        """Return the Dim, or the number given by the user, for a name of the file."""
        if name not in self.met:
            self.met.append(name)
        if name in self._given:
            return self._given[name]
        if name not in self._dims:
            taken = [dim.name for dim in self._dims.values()]
            identifier, most = identifiers([name], taken)[0], self._limits.get(name)
            self._dims[name] = Dim(identifier, min=self._least, max=most)
        return self._dims[name]


def _is_arithmetic(tree: ast.expr) -> bool:
    """Return whether an expression tree has only names, integers, +, - and *."""
    if isinstance(tree, ast.BinOp):
        known = isinstance(tree.op, (ast.Add, ast.Sub, ast.Mult))
        return known and _is_arithmetic(tree.left) and _is_arithmetic(tree.right)
    whole = isinstance(tree, ast.Constant) and type(tree.value) is int
    return whole or isinstance(tree, ast.Name)


def identifiers(names: Iterable[str], taken: Iterable[str] = ()) -> list[str]:
    """Return unique Python identifiers for names of the file, unchanged where
    possible.
    """
    names = list(names)
    used, found = set(taken), []
    kept = {name for name in names if name.isidentifier()} - used
    for name in names:
        if name in kept:
            kept.remove(name)
            used.add(name)
            found.append(name)
            continue
        base = re.sub(r"\W", "_", name) or "x"
        base = f"_{base}" if base[0].isdigit() else base
        unique, number = base, 1
        while unique in used or unique in kept or not unique.isidentifier():
            number += 1
            unique = f"{base}_{number}"
        used.add(unique)
        found.append(unique)
    return found
