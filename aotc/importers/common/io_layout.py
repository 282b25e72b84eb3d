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
    """The network, to be computed on arrays in the layouts of an entry.

    Args:
        network: that the entry was traced from.
        entry: with the layouts of its images, and those of the source.
    """

    def compute(*values: object) -> Any:
        stored = len(values) - len(network.inputs)
        given = dict(zip(network.inputs, values[stored:], strict=True))
        return network.function(*values[:stored], *_in_source(given, entry).values())

    original = network.original
    if original is not None:
        original = _with_layouts(original, entry)
    return replace(network, function=compute, original=original)


def _with_layouts(original: Original, entry: Entry) -> Original:
    """Convert the layouts of inputs and results of the framework's own run."""
    steps, example = original.steps, original.example

    def run(given: Inputs) -> Any:
        result = original.run(_in_source(given, entry))
        return _transpose(result, entry.ports("output"), _source_and_entry_layouts)

    def run_steps(given: Inputs) -> Mapping[object, object]:
        assert steps is not None
        return steps(_in_source(given, entry))

    return replace(
        original,
        run=run,
        steps=steps and run_steps,
        example=example
        and _transpose_inputs(example, entry, _source_and_entry_layouts),
    )


def _source_and_entry_layouts(port: Port) -> tuple[str, str]:
    """Return the layouts of the source and of the entry, to convert to the entry's."""
    return port.source_layout, port.layout


def _layouts_undone(port: Port) -> tuple[str, str]:
    """Return the layouts of the entry and of the source, to convert back."""
    return port.layout, port.source_layout


_Layouts = Callable[[Port], tuple[str, str]]  # before and after


def _in_source(given: Inputs, entry: Entry) -> dict[str, object]:
    return _transpose_inputs(given, entry, _layouts_undone)


def _transpose_inputs(
    given: Inputs, entry: Entry, layouts: _Layouts
) -> dict[str, object]:
    """The arguments that are given, in the order of the entry."""
    tree, rest = entry.input_tree, iter(entry.ports("input"))
    ports = {
        name: [*islice(rest, child.leaf_count)]
        for name, child in zip(tree.keys, tree.children, strict=True)
    }
    return {
        name: _transpose(given[name], ports[name], layouts)
        for name in tree.keys
        if name in given
    }


def _transpose(tree: object, ports: Sequence[Port], layouts: _Layouts) -> object:
    """The arrays of a pytree, one for each port, in the other layout."""
    leaves, structure = flatten(tree)
    orders = [layout_permutation(*layouts(port)) for port in ports]
    return structure.unflatten(
        [
            np.transpose(leaf, order) if order else leaf
            for leaf, order in zip(leaves, orders, strict=True)
        ]
    )
