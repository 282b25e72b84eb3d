"""A network whose images a build has given another layout, as its framework has it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np

from aotc.core.pytree import flatten
from aotc.dialects.functions.entries import Entry, Port
from aotc.dialects.movement.image_layouts import layout_permutation
from aotc.importers.common.imported import Imported
from aotc.importers.common.original import Inputs, Original


def with_io_layout(network: Imported, entry: Entry) -> Imported:
    """Return the network for images in the layouts (NCHW, NHWC) that an entry has.

    Args:
        network: that the entry was traced from.
        entry: with the layouts of its images, and those of the source.
    """

    def compute(*values: object) -> Any:
        stored = len(values) - len(network.inputs)
        given = dict(zip(network.inputs, values[stored:], strict=True))
        return network.function(
            *values[:stored], *_to_source_layouts(given, entry).values()
        )

    original = network.original
    if original is not None:
        original = _with_layouts(original, entry)
    return replace(network, function=compute, original=original)


def _with_layouts(original: Original, entry: Entry) -> Original:
    """Return an `Original` with inputs and results transposed to an entry's layouts."""
    steps, example = original.steps, original.example

    def run(given: Inputs) -> Any:
        result = original.run(_to_source_layouts(given, entry))
        return _transpose(result, entry.ports("output"), _source_and_entry_layouts)

    def run_steps(given: Inputs) -> Mapping[object, object]:
        assert steps is not None
        return steps(_to_source_layouts(given, entry))

    return replace(
        original,
        run=run,
        steps=steps and run_steps,
        example=example
        and _transpose_inputs(example, entry, _source_and_entry_layouts),
    )


def _source_and_entry_layouts(port: Port) -> tuple[str, str]:
    """Return a port's layouts, from and to, that turn a source's array into the
    entry's.
    """
    return port.source_layout, port.layout


def _entry_and_source_layouts(port: Port) -> tuple[str, str]:
    """Return a port's layouts, from and to, that turn an entry's array into the
    source's.
    """
    return port.layout, port.source_layout


_Layouts = Callable[[Port], tuple[str, str]]  # before and after


def _to_source_layouts(inputs: Inputs, entry: Entry) -> dict[str, object]:
    """Return input arrays transposed from an entry's layouts (NHWC, say) to the
    source's.
    """
    return _transpose_inputs(inputs, entry, _entry_and_source_layouts)


def _transpose_inputs(
    inputs: Inputs, entry: Entry, layouts: _Layouts
) -> dict[str, object]:
    """Return the given inputs in the entry's order, each transposed between two
    layouts.
    """
    tree, rest = entry.input_tree, iter(entry.ports("input"))
    ports = {
        name: [*islice(rest, child.leaf_count)]
        for name, child in zip(tree.keys, tree.children, strict=True)
    }
    return {
        name: _transpose(inputs[name], ports[name], layouts)
        for name in tree.keys
        if name in inputs
    }


def _transpose(tree: object, ports: Sequence[Port], layouts: _Layouts) -> object:
    """Return a pytree of arrays, each transposed between the two layouts of its
    port.
    """
    leaves, structure = flatten(tree)
    orders = [layout_permutation(*layouts(port)) for port in ports]
    return structure.unflatten(
        [
            np.transpose(leaf, order) if order else leaf
            for leaf, order in zip(leaves, orders, strict=True)
        ]
    )
