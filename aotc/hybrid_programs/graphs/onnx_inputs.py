"""Arguments of calls of an ONNX graph, checked against its declared types."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from aotc.artifacts.manifest import Leaf, Symbol
from aotc.importers.common.imported import Imported
from aotc.importers.onnx.elements import ELEMENTS
from aotc.importers.onnx.inputs import InputSizes, spec_of
from aotc.runtime.arguments import flattener
from aotc.runtime.contract import CallContract, Input
from aotc.tracing.entry import Spec
from aotc.tracing.entry_calls import input_leaves

if TYPE_CHECKING:
    import onnx


class _AnyRank(Leaf):
    """The type of an input array whose rank the ONNX file does not declare."""

    def __str__(self) -> str:
        return f"{self.dtype} of any rank"


class GraphInputs:
    """Checks the inputs of an ONNX graph as the loader of a bundle checks those of an
    entry.

    Arrays of elements that aotc does not compute with (strings, 8-bit floats),
    sequences and optional values are left to the framework.

    Args:
        owner: how messages call the graph.
        declared: messages of types by names of the file.
        names: what calls call each of them, by the same.
    """

    def __init__(
        self,
        owner: str,
        declared: Mapping[str, onnx.TypeProto],
        names: Mapping[str, str],
    ) -> None:
        self._names = names
        places = {names[own]: place for place, own in enumerate(declared)}
        self._flatten = flattener(owner, {"dict": places})
        specs = _specs(declared, names)
        entry = Imported(lambda *_: None, specs).entry("main")
        leaves = {leaf.name: leaf for leaf in input_leaves(entry)}
        self._leaf_places = [places[name] for name in leaves]
        sizes = [n for spec in specs.values() for n in spec.shape]
        dims = [dim for n in sizes if not isinstance(n, int) for dim in n.dims()]
        symbols = {dim.name: Symbol(0, None, 1) for dim in dims}
        self._contract = CallContract(owner, [*leaves.values()], symbols)
        self._of_any_rank = {
            places[names[own]]: Input(owner, _AnyRank(names[own], dtype, ()))
            for own, dtype in _any_rank(declared)
        }

    def arrays(self, given: Mapping[str, object]) -> dict[str, object]:
        """Check the inputs of a call; return their values by the names in the file.

        Raises:
            InputError: `missing-input`, `unknown-input`, or as `CallContract.arrays`.
        """
        values: list[object] = [None] * len(self._names)
        self._flatten(given, values, "")
        checked, _ = self._contract.arrays([values[n] for n in self._leaf_places])
        for place, array in zip(self._leaf_places, checked, strict=True):
            values[place] = array
        for place, each in self._of_any_rank.items():
            values[place] = each.array(values[place])
        return dict(zip(self._names, map(_own_array, values), strict=True))


def _specs(
    declared: Mapping[str, onnx.TypeProto], names: Mapping[str, str]
) -> dict[str, Spec]:
    """Return the Specs of the inputs that aotc has arrays for; open sizes may be 0."""
    sizes = InputSizes({}, {}, least=0)
    return {
        names[own]: spec_of(own, names[own], kind, sizes)
        for own, kind in declared.items()
        if _is_plain(kind) and kind.tensor_type.HasField("shape")
    }


def _any_rank(declared: Mapping[str, onnx.TypeProto]) -> Iterable[tuple[str, str]]:
    """Yield name and dtype of the array inputs whose rank is not declared."""
    for own, kind in declared.items():
        if _is_plain(kind) and not kind.tensor_type.HasField("shape"):
            yield own, ELEMENTS[kind.tensor_type.elem_type].dtype


def _is_plain(kind: onnx.TypeProto) -> bool:
    """Return whether an ONNX type is a tensor whose elements aotc computes with."""
    element = ELEMENTS.get(kind.tensor_type.elem_type)
    is_tensor = kind.WhichOneof("value") == "tensor_type"
    return is_tensor and element is not None and element.narrow is None


def _own_array(value: object) -> object:
    """Return a value with `__array__` as a NumPy array; sequences and None
    unchanged.
    """
    if not hasattr(value, "__array__"):
        return value
    array = np.asarray(value)
    return array.astype(object) if array.dtype.kind == "U" else array
