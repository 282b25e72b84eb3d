"""docs/pass-examples.md shows what each pass makes of its examples, which keep meaning.

Graphs are evaluated before and after; `test_lowered_examples.py` compiles lowered IR.
"""

import runpy
from pathlib import Path

import numpy as np
import pytest

from aotc import reference
from aotc.dialects.calls.padded_entries import SIZES
from aotc.dialects.functions.functions import (
    functions_of,
    is_root,
    lowered_op,
    signature,
)
from aotc.dialects.ops.collective import Collective
from aotc.passes import PASSES, run_passes
from aotc.passes.base import Unit

DOCS = Path(__file__).parents[2] / "docs"
LISTING = runpy.run_path(str(DOCS / "list_pass_examples.py"))
EXAMPLES = [each for name in PASSES for each in LISTING["examples_of"](name)]
# passes that round in another order, or more: errors beside the largest element; all
# others give the same bits
TOLERANCES = {
    "recover-attention": 1e-5,
    "compose-ops": 1e-5,
    "recover-ops": 1e-6,
    "fold-scales": 1e-6,
    "scale-weights": 1e-6,
    "scale-sums": 1e-6,
    "split-products": 1e-6,  # a BLAS may add in another order for other columns
    "mix-precision": 2e-2,
    "round-rows": 2e-2,
}


def test_every_pass_has_an_example_and_every_example_a_pass():
    files = {file.stem for file in (DOCS / "pass_examples").iterdir()}
    assert files == set(PASSES)
    assert all(each.says.endswith(".") for each in EXAMPLES)


@pytest.mark.parametrize("name", PASSES)
def test_a_pass_makes_of_its_examples_what_the_page_shows(name):
    text = (DOCS / "pass-examples.md").read_text(encoding="utf-8")
    section = LISTING["section"](name)
    assert section in text, "run python docs/list_pass_examples.py --write"


def test_the_page_has_nothing_else():
    text = (DOCS / "pass-examples.md").read_text(encoding="utf-8")
    headings = [line for line in text.splitlines() if line.startswith("## ")]
    assert headings == [f"## {name}" for name in PASSES]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda each: each.spelled)
def test_an_example_is_changed_and_means_the_same(example):
    before, after = example.unit(), example.unit()
    assert example.run(after)
    if lowered_op(after.module) is not None:
        return
    tolerance, compared = TOLERANCES.get(example.name, 0.0), 0
    for name in callable_functions(after):
        entry = entry_of(after, name)
        special = entry and entry.specializes
        size = dict(special.sizes)["batch"] - len(special.padded) if special else 3
        origin = special.entry if special else name
        given = draw_inputs(before, origin, size)
        wanted = values(before, origin, given, size)
        found = values(after, name, given, size)
        for one, other in zip(wanted, found, strict=True):
            most = tolerance * np.abs(one).max()
            np.testing.assert_allclose(other, one, rtol=0, atol=most)
            compared += one.size
    assert compared


def test_the_derivative_that_is_written_is_the_limit_of_differences():
    (example,) = LISTING["examples_of"]("autodiff")
    unit = example.unit()
    example.run(unit)
    x, step = LISTING["draw"](signature(functions_of(unit.module)["f"])[0][0]), 1e-6

    def loss(x):
        return reference.evaluate(unit.module, "f.lambda", [x])[0]

    moved = step * np.eye(x.size)
    wanted = [(loss(x + each) - loss(x - each)) / (2 * step) for each in moved]
    (found,) = reference.evaluate(unit.module, "f", [x])
    np.testing.assert_allclose(found, wanted, rtol=1e-8)


# ---- functions of an example --------------------------------------------------------


def callable_functions(unit):
    """The names of the functions with a body that callers may name."""
    functions = functions_of(unit.module).items()
    return [name for name, each in functions if is_root(each) and not each.is_external]


def entry_of(unit, name):
    """The entry of a function; None of one that is no entry."""
    return {each.name: each for each in unit.program.entries}.get(name)


def devices_of(unit):
    """The axis along which devices exchange, and how many there are."""
    bodies = [x for x in functions_of(unit.module).values() if not x.is_external]
    ops = [op for body in bodies for op in body.entry_block.operations]
    found = [op for op in ops if isinstance(op, Collective)]
    return (found[0].axis_name, found[0].axis_size) if found else ("", 1)


def draw_inputs(unit, name, size):
    """For each device, an array for each input of a function, by name or position."""
    entry, (types, _) = entry_of(unit, name), signature(functions_of(unit.module)[name])
    keys = [each.name for each in entry.arguments] if entry else [*range(len(types))]
    _, devices = devices_of(unit)
    return [
        {
            key: LISTING["draw"](kind, device + 7 * number, size)
            for number, (key, kind) in enumerate(zip(keys, types, strict=True))
        }
        for device in range(devices)
    ]


def values(unit, name, given, size):
    """The results of a function on all devices, as callers of the source see them."""
    written = Unit(unit.program.copy())
    run_passes(written, ["autodiff", "inline"], silently=True)
    entry = entry_of(unit, name)
    arrays = [arguments(unit, entry, each, size) for each in given]
    axis, devices = devices_of(unit)
    if devices > 1:
        found = reference.evaluate_devices(written.module, name, arrays, axis)
        return [x for each in found for x in each]
    found = reference.evaluate(written.module, name, arrays[0])
    if entry is None:
        return found
    ports = zip(found, entry.results, strict=True)
    return [moved_to(x, port.layout, port.source_layout) for x, port in ports]


def arguments(unit, entry, given, size):
    """The arguments of a function, in order."""
    if entry is None:
        return [*given.values()]
    arrays = []
    for port in entry.arguments:
        if port.name == SIZES:
            arrays.append(np.zeros((size, 0), "i1"))
        elif port.kind == "weight":
            arrays.append(np.asarray(unit.program.parameters[port.name]))
        else:
            x = moved_to(given[port.name], port.source_layout, port.layout)
            sizes = zip(port.type.shape, x.shape, strict=True)
            lacking = [(0, n - m if isinstance(n, int) else 0) for n, m in sizes]
            arrays.append(np.pad(x, lacking))
    return arrays


def moved_to(x, layout, wanted):
    """An image in another layout; both are "" for what is none."""
    return np.transpose(x, [layout.index(axis) for axis in wanted]) if layout else x
