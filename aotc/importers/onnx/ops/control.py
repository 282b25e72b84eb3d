"""Branches and loops: operators with graphs inside.

What is known when the model is built is decided then: one branch is taken, and a loop
is a loop of Python where its values are concrete.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy

from aotc import control
from aotc import numpy as np
from aotc.importers.onnx.calling import Imports, OnnxBody
from aotc.importers.onnx.values import Known, Value, as_array, known_of
from aotc.tracing.array import Array
from aotc.tracing.conversion import lift
from aotc.tracing.source_locations import fail
from aotc.tracing.tracing import current_trace

Graph = Callable[..., list[Value]]


def if_(condition: Array, *, then_branch: Graph, else_branch: Graph) -> list[Value]:
    """Return the results of one of two subgraphs, chosen by a condition."""
    decided = known_of(condition)
    if decided is not None:
        return then_branch() if decided.reshape(-1)[0] else else_branch()

    def branch(graph: Graph) -> Callable[[], list[Array]]:
        return lambda: [as_array(value) for value in graph()]

    flag = np.reshape(condition, ())
    return list(control.cond(flag, branch(then_branch), branch(else_branch)))


# ---- Loop ---------------------------------------------------------------------------


def loop(
    count: Array | None = None,
    condition: Array | None = None,
    *carried: Array,
    body: OnnxBody,
) -> list[Value]:
    """Run a subgraph while its condition holds, at most `count` times; return its
    results.
    """
    limit = None if count is None else known_of(count)
    first = None if condition is None else known_of(condition)
    if current_trace() is None:
        return _unrolled_loop(body, limit, first, carried)
    stacked = len(body.graph.outputs) - 1 - len(carried)
    if _always_continues(body) and limit is not None and (first is None or first.all()):
        return _emit_counted_loop(body, int(limit.reshape(-1)[0]), carried)
    if stacked:
        fail(
            "data-dependent-shape",
            "how many elements this loop stacks is decided by values that only the "
            "running model knows",
            "give it a number of steps that is known, and no condition of its own",
        )
    return _emit_while(body, count, condition, carried)


def _always_continues(body: OnnxBody) -> bool:
    """Return whether a loop body's condition is the one it is given, or constantly
    true.
    """
    graph = body.graph
    name = graph.outputs[0]
    producers = {out: node for node in graph.nodes for out in node.outputs}
    while name in producers and producers[name].key == "Identity":
        name = producers[name].inputs[0]
    if name in graph.constants:
        return bool(graph.constants[name].array.all())
    if name in producers and producers[name].key == "Constant":
        value = producers[name].attributes.get("value")
        return value is not None and bool(value.array.all())
    return len(graph.inputs) > 1 and name == graph.inputs[1]


def _unrolled_loop(
    body: OnnxBody, limit: Known | None, first: Known | None, carried: Sequence[Array]
) -> list[Value]:
    """Run a loop's iterations in Python, for known bounds; return its results."""
    most = None if limit is None else int(limit.reshape(-1)[0])
    holds, step = first is None or bool(first.all()), 0
    values: list[Any] = list(carried)
    rows: list[list[Array]] = []
    while holds and (most is None or step < most):
        flag, *results = body(lift(_i64(step)), lift(True), *values)
        holds, step = bool(as_array(flag)), step + 1
        values = results[: len(carried)]
        rows.append([as_array(row) for row in results[len(carried) :]])
    return [*values, *_stacks(body, len(carried), rows)]


def _i64(number: int) -> numpy.ndarray:
    """Return an i64 scalar."""
    return numpy.array(number, numpy.int64)


def _stacks(body: OnnxBody, carried: int, rows: list[list[Array]]) -> list[Array]:
    """Stack the rows of each result of a loop; fail if results have no iteration."""
    if rows:
        return [np.stack(list(column)) for column in zip(*rows, strict=True)]
    if len(body.graph.outputs) - 1 > carried:
        fail("bad-length", "a loop without a step does not know what it would stack")
    return []


def _emit_counted_loop(
    body: OnnxBody, steps: int, carried: Sequence[Array]
) -> list[Value]:
    """Emit a loop of a fixed number of steps; return carried values and stacked
    results.
    """

    def step(state: list[Array], number: Array) -> tuple[list[Array], list[Array]]:
        _, *results = body(number, lift(True), *state)
        arrays = [as_array(result) for result in results]
        return arrays[: len(carried)], arrays[len(carried) :]

    last, stacks = control.scan(step, list(carried), np.arange(steps, dtype="i64"))
    return [*last, *stacks]


def _emit_while(
    body: OnnxBody, count: Array | None, first: Array | None, carried: Sequence[Array]
) -> list[Value]:
    """Emit a loop with a computed bound or condition; return the carried values."""
    most = None if count is None else np.reshape(np.astype(count, "i64"), ())
    flag = lift(True) if first is None else np.reshape(first, ())

    def condition(state: tuple[Array, Array, list[Array]]) -> Array:
        step, holds, _ = state
        return holds if most is None else np.logical_and(holds, np.less(step, most))

    def once(
        state: tuple[Array, Array, list[Array]],
    ) -> tuple[Array, Array, list[Array]]:
        step, holds, values = state
        again, *results = body(step, holds, *values)
        arrays = [as_array(result) for result in results]
        return np.add(step, 1), np.reshape(as_array(again), ()), arrays

    start = (lift(_i64(0)), flag, list(carried))
    return list(control.while_loop(condition, once, start)[2])


# ---- Scan ---------------------------------------------------------------------------


def scan(
    *values: Array,
    body: OnnxBody,
    num_scan_inputs: int,
    scan_input_axes: tuple[int, ...] = (),
    scan_input_directions: tuple[int, ...] = (),
    scan_output_axes: tuple[int, ...] = (),
    scan_output_directions: tuple[int, ...] = (),
    directions: tuple[int, ...] = (),
    opset: int,
) -> list[Value]:
    """Run a subgraph for each slice of inputs; return carried values, stacked
    results.
    """
    if opset < 9:
        return _scan_8(values[1:], body, num_scan_inputs, directions)
    count = len(values) - num_scan_inputs
    axes = scan_input_axes or (0,) * num_scan_inputs
    backwards = scan_input_directions or (0,) * num_scan_inputs
    xs = [
        _flip_if(np.moveaxis(x, axis, 0), back)
        for x, axis, back in zip(values[count:], axes, backwards, strict=True)
    ]
    carried, stacks = _run_scan(body, list(values[:count]), xs)
    out_axes = scan_output_axes or (0,) * len(stacks)
    out_back = scan_output_directions or (0,) * len(stacks)
    moved = [
        np.moveaxis(_flip_if(y, back), 0, axis)
        for y, axis, back in zip(stacks, out_axes, out_back, strict=True)
    ]
    return [*carried, *moved]


def _flip_if(x: Array, backwards: int) -> Array:
    """Return x, reversed along axis 0 if `backwards`."""
    return np.flip(x, 0) if backwards else x


def _run_scan(
    body: OnnxBody, carried: list[Array], xs: list[Array]
) -> tuple[list[Array], list[Array]]:
    """Emit a scan of a subgraph over the first axis; return carried values and
    stacks.
    """

    def step(state: list[Array], elements: list[Array]) -> Any:
        arrays = [as_array(result) for result in body(*state, *elements)]
        return arrays[: len(carried)], arrays[len(carried) :]

    last, stacks = control.scan(step, carried, xs)
    return last, stacks


def _scan_8(
    values: Sequence[Array], body: OnnxBody, inputs: int, directions: Sequence[int]
) -> list[Value]:
    """Run a scan of opset 8, one element of the batch axis after the other."""
    count = len(values) - inputs
    back = directions or (0,) * inputs
    rows = []
    for image in range(values[0].shape[0].__index__()):
        parts = [value[image] for value in values]
        xs = [_flip_if(x, b) for x, b in zip(parts[count:], back, strict=True)]
        carried, stacks = _run_scan(body, parts[:count], xs)
        rows.append([*carried, *stacks])
    return [np.stack(list(column)) for column in zip(*rows, strict=True)]


TABLE: dict[str, Imports] = {"If": if_, "Loop": loop, "Scan": scan}
