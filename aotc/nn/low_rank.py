"""Low-rank adapters: a network that learns by a few parameters beside its weights.

    tuned = nn.lora(network, rank=8, layers="*attn*")
    adapters = tuned.init(params, tokens)           # once, before training
    logits = tuned(adapters, params, tokens)        # in a training step

A product by a weight W becomes x W + (alpha / rank) (x D) U, where D and U, of `rank`
columns and rows, are what an optimizer changes (Hu et al., "LoRA: Low-Rank Adaptation
of Large Language Models", ICLR 2022). Weights may be of 4 and 8 bits, which stay as
they are (Dettmers et al., "QLoRA", NeurIPS 2023).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy

from aotc.core import dtypes
from aotc.core.array_files import read_safetensors
from aotc.core.pytree import PyTree, Structure, flatten, leaf_names
from aotc.core.writing import atomic_write
from aotc.dialects.ops.shape import Transpose
from aotc.errors import InputError
from aotc.nn.trial_traces import is_array, trial_trace
from aotc.numpy.products import dot_general
from aotc.tracing.array import Array
from aotc.tracing.bodies import function_name
from aotc.tracing.calls import guard
from aotc.tracing.conversion import ArrayLike, astype, lift
from aotc.tracing.layer_ops import LayerInterceptor, LayerOp, LayerWeight
from aotc.tracing.source_locations import fail

__all__ = ["Lora", "lora"]

DOWN, UP = "down", "up"  # the leaves of an adapter
Adapters = Mapping[str, Mapping[str, ArrayLike]]
_Change = Callable[[LayerInterceptor, LayerOp], "list[Array]"]
_PEFT = {DOWN: "lora_A", UP: "lora_B"}  # names in files of adapters
_PREFIX = "base_model.model."
_LISTED = 12


def lora(
    function: Callable[..., object],
    rank: int = 8,
    *,
    alpha: float | None = None,
    layers: str | Sequence[str] | None = None,
) -> Lora:
    """Return the function with low-rank adapters beside its weight matrices.

    Layers are products of inputs by weights, the leaves of the first argument, or what
    the function makes of these alone, such as transposes and dequantised integers.
    Those in bodies of loops, branches and functions with rules of their own stay as
    they are, and so do convolutions and tables.

    Args:
        function: of a pytree of weights, and other arguments.
        rank: of the adapters.
        alpha: by which, over the rank, what they give is multiplied; by default the
            rank.
        layers: patterns, such as `*.attn_q.*`, of the names of weights that get one; by
            default all do.

    Returns:
        A function of adapters and the arguments; see `Lora`.
    """
    if isinstance(rank, bool) or not isinstance(rank, int) or rank < 1:
        fail("bad-rank", f"expected a rank of 1 or more; got {rank!r}")
    patterns = (layers,) if isinstance(layers, str) else tuple(layers or ("*",))
    return Lora(function, rank, (rank if alpha is None else alpha) / rank, patterns)


@dataclass(frozen=True)
class Lora:
    """A function with low-rank adapters (LoRA) beside the weights of its products.

    Adapters are a dict with a dict for each layer, by the name of its weight in the
    first argument: `down`, of the axes that are summed up and the rank, and `up`, of
    the rank and the axes of the result.

    Args:
        function: of weights, and other arguments.
        rank: of the adapters.
        scale: that what they give is multiplied by.
        patterns: of the names of layers that have one.
    """

    function: Callable[..., Any]
    rank: int
    scale: float
    patterns: tuple[str, ...]

    def __call__(
        self, adapters: Adapters, params: PyTree, *args: PyTree, **kwargs: PyTree
    ) -> Any:
        """Call the function with the adapters' products added to its layers'
        results.
        """

        def add(layers: LayerInterceptor, layer: LayerOp) -> list[Array]:
            (y,) = layer.results()
            name = self._adapter_name(layers, layer)
            if name is None:
                return [y]
            self._require_adapter(adapters, name, layer)
            row = {key: astype(lift(x), y.dtype) for key, x in adapters[name].items()}
            return [
                y
                + self._adapter_product(layer, astype(layer.operands[0], y.dtype), row)
            ]

        return self._run(add, params, args, kwargs)

    def init(
        self, params: PyTree, *args: PyTree, seed: int = 0, **kwargs: PyTree
    ) -> dict[str, dict[str, numpy.ndarray]]:
        """Return initial adapters, with which the function computes what it did before.

        Args:
            params: of the function.
            args: of the function: arrays, or `aotc.Spec`s of static shapes.
            seed: of the random numbers in `down`; `up` is 0.
            kwargs: likewise.

        Raises:
            InputError: `no-layers`: no layer's name matches the patterns.
        """
        rng = numpy.random.default_rng(seed)
        found = {}
        for name, layer in self._layers(params, args, kwargs).items():
            summed, free = _shapes(layer)
            down = rng.normal(0, 1 / math.sqrt(math.prod(summed)), (*summed, self.rank))
            up = numpy.zeros((self.rank, *free), "f4")
            found[name] = {DOWN: down.astype("f4"), UP: up}
        return found

    def merge(
        self, adapters: Adapters, params: PyTree, *args: PyTree, **kwargs: PyTree
    ) -> Any:
        """Return the weights with the adapters' products added.

        Args:
            adapters: that were trained.
            params: of the function.
            args: of the function, as for `init`.
            kwargs: likewise.

        Raises:
            InputError: `not-merged`: a weight is computed of others, or read by more
                than one product, also by one that has no adapter.
        """
        leaves, structure = flatten(params)
        known = dict(zip(leaf_names(structure), leaves, strict=True))
        for name, layer in self._layers(params, args, kwargs).items():
            self._require_adapter(adapters, name, layer)
            if name not in known or not _is_read_alone(layer.weight):
                fail(
                    "not-merged",
                    f"expected weights that one product alone reads; that of '{name}' "
                    "is computed of integers or other weights, or read elsewhere, too",
                    "keep the adapters beside it: a bundle of the tuned function",
                )
            down, up = (numpy.asarray(adapters[name][key], "f4") for key in (DOWN, UP))
            added = self.scale * numpy.tensordot(down, up, axes=1)
            known[name] = _add(known[name], added, _axes(layer), layer.weight.order)
        return structure.unflatten([*known.values()])

    def save(self, path: Path | str, adapters: Adapters) -> None:
        """Write adapters to a .safetensors file, with the names that PEFT uses.

        Those of a weight of two axes: `base_model.model.NAME.lora_A.weight` [rank,
        inputs] and `lora_B` [outputs, rank]; `alpha` and `rank` are in its metadata.

        Raises:
            InputError: `not-two-axes`: an adapter is of more; nothing is written.
        """
        from safetensors.numpy import save_file

        arrays = {}
        for name, row in adapters.items():
            for key, x in row.items():
                array = numpy.asarray(x)
                if array.ndim != 2:
                    fail(
                        "not-two-axes",
                        f"expected adapters of two axes; {key} of '{name}' has "
                        f"{array.ndim}",
                        "save the state that they are in: model.save_state",
                    )
                arrays[_peft_name(name, key)] = numpy.ascontiguousarray(array.T)
        facts = {"rank": str(self.rank), "alpha": str(self.scale * self.rank)}
        with atomic_write(Path(path)) as aside:
            save_file(arrays, aside, metadata=facts)

    def load(
        self, path: Path | str, params: PyTree, *args: PyTree, **kwargs: PyTree
    ) -> dict[str, dict[str, numpy.ndarray]]:
        """Read adapters from a file that `save` or PEFT wrote.

        Args:
            path: of a .safetensors file.
            params: of the function.
            args: of the function, as for `init`.
            kwargs: likewise.

        Raises:
            InputError: `bad-adapters`: it has not the adapters of the layers, in their
                shapes.
        """
        file = read_safetensors(Path(path))
        alpha = file.metadata.get("alpha")  # PEFT's lies in another file
        if alpha is not None and float(alpha) != self.scale * self.rank:
            raise InputError(
                "bad-adapters",
                f"expected adapters of alpha {self.scale * self.rank:g}; got {alpha}",
                where=str(path),
                hint=f"aotc.nn.lora(…, alpha={alpha})",
            )
        found = {}
        for name, layer in self._layers(params, args, kwargs).items():
            found[name] = {
                key: _read(file, _peft_name(name, key), shape)
                for key, shape in self._adapter_shapes(layer).items()
            }
        return found

    # ---- which layers

    def _adapter_shapes(self, layer: LayerOp) -> dict[str, tuple[int, ...]]:
        """Return the shapes of the two adapter arrays of a layer."""
        summed, free = _shapes(layer)
        return {DOWN: (*summed, self.rank), UP: (self.rank, *free)}

    def _require_adapter(self, adapters: Adapters, name: str, layer: LayerOp) -> None:
        """Raise if the adapters lack a layer's arrays or have other shapes."""
        if name not in adapters:
            fail(
                "missing-adapter",
                f"expected adapters of all layers; there is none of '{name}', which "
                "the function runs",
                "make them by init, with arguments that run the same layers",
            )
        for key, shape in self._adapter_shapes(layer).items():
            array: Any = adapters[name][key]
            found = tuple(array.shape if is_array(array) else numpy.shape(array))
            if found != shape:  # of another rank they would have another scale
                fail(
                    "bad-adapters",
                    f"expected '{key}' of '{name}' as {[*shape]}; got {[*found]}",
                    "the rank and the layers are those that were trained: "
                    "aotc.nn.lora(…, rank=…)",
                )

    def _adapter_name(self, layers: LayerInterceptor, layer: LayerOp) -> str | None:
        """Return the name of a layer that has an adapter; None for other layers."""
        is_product = layer.op == "dot_general" and not layer.attributes["lhs_batch"]
        if not is_product or not dtypes.is_float(layer.operands[0].dtype):
            return None
        name = layers.name_of(layer)
        return name if any(fnmatchcase(name, x) for x in self.patterns) else None

    def _adapter_product(
        self, layer: LayerOp, x: Array, adapter: Mapping[str, Array]
    ) -> Array:
        """Return the adapter's addition to a layer's result: `x @ down @ up *
        scale`.
        """
        contract = layer.attributes["lhs_contract"]
        low = dot_general(x, adapter[DOWN], (contract, range(len(contract))))
        return dot_general(low, adapter[UP], ((low.ndim - 1,), (0,))) * self.scale

    def _layers(
        self, params: PyTree, args: tuple[PyTree, ...], kwargs: Mapping[str, PyTree]
    ) -> dict[str, LayerOp]:
        """Trace the function; return the products with adapters, by weight name."""
        found: dict[str, LayerOp] = {}
        seen: list[str] = []

        def note(layers: LayerInterceptor, layer: LayerOp) -> list[Array]:
            if layer.op == "dot_general":
                seen.append(layer.weight.source)
            name = self._adapter_name(layers, layer)
            if name is not None:
                found[name] = layer
            return layer.results()

        with trial_trace("lora", params, args, kwargs) as (_, (given, others, named)):
            self._run(note, given, others, named)
        unused = [x for x in self.patterns if not any(fnmatchcase(n, x) for n in found)]
        if unused:
            names = ", ".join(dict.fromkeys(seen[:_LISTED])) or "none"
            fail(
                "no-layers",
                f"expected products by weights that match {', '.join(unused)}; there "
                f"are {names}",
                "convolutions, tables, and what is in loops, branches and checkpoints "
                "have no adapters",
            )
        return found

    def _run(
        self,
        change: _Change,
        params: PyTree,
        args: tuple[PyTree, ...],
        kwargs: Mapping[str, PyTree],
    ) -> Any:
        """Call the function, with `change` giving each layer's result."""
        layers = LayerInterceptor(lambda layer: change(layers, layer))
        return layers.call(self.function, params, args, kwargs, _weight_names)

    @property
    def __name__(self) -> str:
        return function_name(self.function)


def _weight_names(structure: Structure) -> list[str]:
    """Return the names of weights; a quantised weight's arrays share one name."""
    names = leaf_names(structure)
    stems = [name.removesuffix(".data") for name in names]
    return [
        stem if {f"{stem}.scale", f"{stem}.scale.data"} & {*names} else name
        for stem, name in zip(stems, names, strict=True)
    ]


def _is_read_alone(weight: LayerWeight) -> bool:
    """Return whether a traced weight, or its transpose, has exactly one reader."""
    rest: Any = weight.base._value if weight.is_given else None
    while rest is not None:
        uses = [*rest.uses]
        if len(uses) != 1:
            return False
        op = uses[0].owner.opview
        if not isinstance(op, Transpose):
            return True
        rest = op.results[0]
    return False


def _axes(layer: LayerOp) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the axes of a layer's weight that its product contracts, and the
    others.
    """
    summed = tuple(layer.attributes["rhs_contract"])
    rank = layer.operands[layer.number].ndim
    return summed, tuple(axis for axis in range(rank) if axis not in summed)


def _shapes(layer: LayerOp) -> tuple[list[int], list[int]]:
    """Return the sizes of the contracted axes of a layer's weight, and of the
    others.
    """
    shape = layer.operands[layer.number].type.shape
    summed, free = ([int(shape[axis]) for axis in axes] for axes in _axes(layer))
    return summed, free


def _add(
    weight: numpy.ndarray,
    added: numpy.ndarray,
    axes: tuple[tuple[int, ...], tuple[int, ...]],
    order: Sequence[int],
) -> numpy.ndarray:
    """Return a weight plus an adapter's product, transposed to the weight's axes."""
    places = [order[axis] for part in axes for axis in part]
    moved = numpy.transpose(added, numpy.argsort(places))
    wide: numpy.ndarray = numpy.asarray(weight).astype("f4") + moved
    return wide.astype(numpy.asarray(weight).dtype)


def _peft_name(layer: str, key: str) -> str:
    """Return the name that PEFT gives an adapter array."""
    return f"{_PREFIX}{layer.removesuffix('.weight')}.{_PEFT[key]}.weight"


def _read(
    file: Mapping[str, numpy.ndarray], name: str, shape: Sequence[int]
) -> numpy.ndarray:
    """Read one adapter array of a file, transposed as PEFT stores it."""
    array = file.get(name)
    if array is None or array.T.shape != tuple(shape):
        found = "none" if array is None else f"{[*array.T.shape]}"
        raise InputError(
            "bad-adapters",
            f"expected '{name}' of {[*shape]}, transposed; got {found}",
            hint="the rank and the patterns of layers are those that were trained",
        )
    return numpy.ascontiguousarray(array.T)


guard(globals(), ["lora"])
