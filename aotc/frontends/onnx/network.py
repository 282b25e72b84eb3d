"""A `Model` as a network: what it takes, what it stores, and the function it is."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from aotc.errors import InputError
from aotc.frontends.conversion import lift
from aotc.frontends.dims import Dim, DimTerm
from aotc.frontends.entry import Spec, Weights
from aotc.frontends.imported import Imported
from aotc.frontends.onnx.calling import signature
from aotc.frontends.onnx.elements import element
from aotc.frontends.onnx.graph import Constant, Graph, Model
from aotc.frontends.onnx.interpreter import Interpreter
from aotc.frontends.onnx.ops import TABLE
from aotc.frontends.onnx.scan import unsupported
from aotc.frontends.onnx.values import as_array, tagged
from aotc.frontends.places import fail, pinned, scope
from aotc.frontends.survey import require_importable

_LARGE = 1 << 12  # bytes of a constant that is stored, not part of the code


def network(model: Model, dims: Mapping[str, int | Dim]) -> Imported:
    """The model as an entry of its weights and inputs.

    Raises:
        InputError: it has operators or types that aotc does not import.
    """
    require_importable(unsupported(model))
    stored = dict(_weights(model.graph))
    inputs = _inputs(model, dims)
    names = identifiers(model.graph.outputs)
    codes = [model.graph.types[own].tensor_type.elem_type for own in model.graph.inputs]

    def run(*arguments: Any) -> Any:
        weights = dict(arguments[0]) if stored else {}
        arrays = {id(c): lift(weights[name]) for name, c in stored.items()}
        given = arguments[1:] if stored else arguments
        found = Interpreter(model, arrays).run(
            [
                tagged(lift(x), element(code), code)
                for x, code in zip(given, codes, strict=True)
            ]
        )
        results = [as_array(value) for value in found]
        return (
            results[0] if len(results) == 1 else dict(zip(names, results, strict=True))
        )

    tree = {name: constant.array for name, constant in stored.items()}
    with pinned((model.file, 1)):
        weights = Weights(tree, copy=False) if tree else None
        return Imported(run, inputs, weights, None, (model.file, 1))


# ---- inputs -------------------------------------------------------------------------


def _inputs(model: Model, dims: Mapping[str, int | Dim]) -> dict[str, Spec]:
    """The Spec of each input, by its name as an identifier."""
    graph, sizes = model.graph, _Sizes(dims)
    specs = {}
    for name, own in zip(identifiers(graph.inputs), graph.inputs, strict=True):
        with pinned((model.file, 1)), scope(own):
            specs[name] = _spec(own, name, graph.types[own], sizes)
    unknown = [name for name in dims if name not in sizes.met]
    if unknown:
        raise InputError(
            "unknown-size",
            f"no input of '{model.file}' has a size '{unknown[0]}'; it has "
            f"{', '.join(sizes.met) or 'none'}",
            where=model.file,
        )
    return specs


def _spec(own: str, name: str, kind: Any, sizes: _Sizes) -> Spec:
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


class _Sizes:
    """The sizes of inputs: numbers, and Dims by their names."""

    def __init__(self, given: Mapping[str, int | Dim]) -> None:
        self._given = given
        self._dims: dict[str, Dim] = {}
        self.met: list[str] = []

    def of(self, size: Any, unnamed: str) -> int | DimTerm:
        """The size in a message; those without a name are called `unnamed`."""
        if size.WhichOneof("value") == "dim_value":
            # 0 and less are how some exporters say that a size is open
            return size.dim_value if size.dim_value > 0 else self._dim(unnamed)
        if not size.dim_param:
            return self._dim(unnamed)
        if size.dim_param in self._given:
            return self._dim(size.dim_param)
        return self._expression(size.dim_param)

    def _expression(self, text: str) -> int | DimTerm:
        """`past + 1` as what it says, where it is a sum or product of sizes."""
        try:
            tree = ast.parse(text.strip(), mode="eval").body
        except SyntaxError:
            return self._dim(text)
        return self._term(tree) if _is_arithmetic(tree) else self._dim(text)

    def _term(self, tree: Any) -> Any:
        if isinstance(tree, ast.Name):
            return self._dim(tree.id)
        if isinstance(tree, ast.Constant):
            return tree.value
        left, right = self._term(tree.left), self._term(tree.right)
        if isinstance(tree.op, ast.Add):
            return left + right
        return left - right if isinstance(tree.op, ast.Sub) else left * right

    def _dim(self, name: str) -> int | Dim:
        if name not in self.met:
            self.met.append(name)
        if name in self._given:
            return self._given[name]
        if name not in self._dims:
            taken = [dim.name for dim in self._dims.values()]
            self._dims[name] = Dim(identifiers([name], taken)[0])
        return self._dims[name]


def _is_arithmetic(tree: Any) -> bool:
    if isinstance(tree, ast.BinOp):
        known = isinstance(tree.op, (ast.Add, ast.Sub, ast.Mult))
        return known and _is_arithmetic(tree.left) and _is_arithmetic(tree.right)
    whole = isinstance(tree, ast.Constant) and type(tree.value) is int
    return whole or isinstance(tree, ast.Name)


def identifiers(names: Iterable[str], taken: Iterable[str] = ()) -> list[str]:
    """Names of the file as different Python names."""
    used, found = set(taken), []
    for name in names:
        base = re.sub(r"\W", "_", name) or "x"
        base = f"_{base}" if base[0].isdigit() else base
        unique, number = base, 1
        while unique in used or not unique.isidentifier():
            number += 1
            unique = f"{base}_{number}"
        used.add(unique)
        found.append(unique)
    return found


# ---- weights ------------------------------------------------------------------------


def _weights(graph: Graph) -> Iterator[tuple[str, Constant]]:
    """The tensors that are stored: parameters, and all that is large."""
    taken: set[str] = set()
    for name, constant, is_parameter in _constants(graph):
        if not _is_stored(constant, is_parameter):
            continue
        unique = name
        while unique in taken:
            unique += "_"
        taken.add(unique)
        yield unique, constant


def _is_stored(constant: Constant, is_parameter: bool) -> bool:
    kind = element(constant.code)
    is_float = kind.dtype.startswith(("f", "bf"))
    return constant.array.nbytes > _LARGE or (is_parameter and is_float)


def _constants(graph: Graph) -> Iterator[tuple[str, Constant, bool]]:
    """All tensors with their names, and whether they are parameters."""
    read = set(_read(graph))
    for name, constant in graph.constants.items():
        if name in read:
            yield name, constant, math.prod(constant.array.shape) > 0
    for node in graph.nodes:
        for value in node.attributes.values():
            if isinstance(value, Constant) and node.key == "Constant":
                yield node.outputs[0], value, False
        for inner in node.graphs():
            yield from _constants(inner)


def _read(graph: Graph) -> Iterator[str]:
    """The values that the model computes with, and not only when it is built."""
    yield from graph.outputs
    for node in graph.nodes:
        function = TABLE.get(node.key)
        known = signature(function).inputs if function else ()
        for place, name in enumerate(node.inputs):
            if not (place < len(known) and known[place][1]):
                yield name
        for inner in node.graphs():
            yield from _read(inner)
