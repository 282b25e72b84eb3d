"""Control flow: branches and loops that the model decides when it runs.

Names and arguments are those of jax.lax. What a branch or a body reads from around it
is captured; what it carries is a pytree whose types stay the same. Where nothing is
traced the same functions run as Python loops, on arrays that have values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from aotc import numpy as np
from aotc.control.scanning import associative_scan, reduce, reduce_window
from aotc.control.segments import in_segments
from aotc.core.pytree import PyTree, Structure, flatten, leaf_names
from aotc.dialects import control
from aotc.dialects.types import Size, SymbolicDim
from aotc.mlir import Value, ir
from aotc.numpy.rows import CollectedResults, no_rows
from aotc.tracing.array import Array
from aotc.tracing.bodies import Body, function_name, returned_arrays, trace_bodies
from aotc.tracing.call_sizes import compiler_size
from aotc.tracing.calls import guard
from aotc.tracing.conversion import ArrayLike, lift
from aotc.tracing.source_locations import fail, location
from aotc.tracing.tracing import Trace, current_trace, emit

__all__ = [
    "associative_scan",
    "cond",
    "fori_loop",
    "map",
    "reduce",
    "reduce_window",
    "scan",
    "switch",
    "while_loop",
]

Result = TypeVar("Result")
Carried = TypeVar("Carried")
Element = TypeVar("Element")
Stacked = TypeVar("Stacked")


def cond(
    condition: ArrayLike,
    true_function: Callable[..., Result],
    false_function: Callable[..., Result],
    *operands: PyTree,
) -> Result:
    """Return `true_function(*operands)` if `condition` holds, else `false_function(…)`.

    Args:
        condition: a bool scalar.
        true_function: returns a pytree of arrays.
        false_function: returns one of the same form and types.
        operands: pytrees of arrays.
    """
    flag = lift(condition)
    if flag.dtype != "bool" or flag.ndim:
        fail("bad-condition", f"expected a condition of type bool[]; got {flag.type}")
    return switch(np.astype(flag, "i32"), [false_function, true_function], *operands)


def switch(
    index: ArrayLike, branches: Sequence[Callable[..., Result]], *operands: PyTree
) -> Result:
    """Return `branches[index](*operands)`; an index out of range is clamped.

    Args:
        index: an integer scalar.
        branches: functions that return pytrees of arrays of one form and types.
        operands: pytrees of arrays.
    """
    chosen = lift(index)
    if chosen.dtype == "bool" or not chosen.dtype.startswith(("i", "u")) or chosen.ndim:
        fail("bad-index", f"expected an integer scalar as index; got {chosen.type}")
    if not branches:
        fail("bad-branches", "expected at least one branch")
    leaves, structure = flatten((operands, {}))
    arrays = [lift(leaf) for leaf in leaves]
    trace = current_trace()
    if trace is None:
        branch = branches[min(max(int(chosen), 0), len(branches) - 1)]
        args, _ = structure.unflatten(arrays)
        return _arrays_of(branch, branch(*args))
    types = [array.type for array in arrays]
    bodies, captures = trace_bodies(trace, branches, types, structure)
    for number, body in enumerate(bodies[1:], 1):
        _require_same_results(branches, number, bodies[0], body)
    names = tuple(body.name for body in bodies)
    selected = np.astype(np.clip(chosen, 0, len(branches) - 1), "i32")
    results = _invoke(trace, control.Switch(names), [selected, *arrays], captures)
    found: Result = bodies[0].tree.unflatten(results)
    return found


def while_loop(
    condition: Callable[[Carried], ArrayLike],
    body: Callable[[Carried], Carried],
    initial: Carried,
    max_steps: Size | None = None,
) -> Carried:
    """Apply `body` to the carried value while `condition` holds of it; return the last.

    Forward-mode derivatives are always there. Reverse mode saves the values of every
    step, so it has to know how many there may be: with `max_steps` the gradient goes
    through the steps that were taken, at the memory of `max_steps` carried values.

    Args:
        condition: of the carried value; returns a bool scalar.
        body: of the carried value; returns the next one, of the same form and types.
        initial: the first carried value, a pytree of arrays.
        max_steps: the loop ends after so many steps, also if the condition still holds;
            None for no bound.
    """
    if max_steps is None:
        return _while(condition, body, initial, None)
    if isinstance(max_steps, int) and max_steps < 0:
        fail("bad-bounds", f"expected max_steps of 0 or more; got {max_steps}")

    def bounded_condition(carried: tuple[Array, Carried]) -> Array:
        held = _checked_condition(condition, condition(carried[1]))
        return np.logical_and(np.less(carried[0], max_steps), held)

    def step(carried: tuple[Array, Carried]) -> tuple[Array, Carried]:
        return carried[0] + 1, body(carried[1])

    step.__name__ = function_name(body)
    return _while(bounded_condition, step, (lift(0, "i32"), initial), max_steps)[1]


def _while(
    condition: Callable[[Carried], ArrayLike],
    body: Callable[[Carried], Carried],
    initial: Carried,
    max_steps: Size | None,
) -> Carried:
    """Run `while_loop` in Python, or write it as an op; `condition` checks
    `max_steps`.
    """
    trace = current_trace()
    leaves, tree = flatten(initial)
    arrays = [lift(leaf) for leaf in leaves]
    if trace is None:
        carried: Carried = tree.unflatten(arrays)
        while _checked_condition(condition, condition(carried)):
            carried = _check_carried(body, tree, arrays, body(carried))
        return carried
    types = [array.type for array in arrays]
    arguments = flatten(((initial,), {}))[1]

    def adapt_result(function: Callable[..., object], result: PyTree) -> PyTree:
        if function is condition:
            return _checked_condition(condition, result)
        return _check_carried(body, tree, arrays, result)

    bodies, captures = trace_bodies(
        trace, [condition, body], types, arguments, adapt_result
    )
    names = tuple(body.name for body in bodies)
    loop = control.While(names, len(arrays), max_steps)
    last: Carried = tree.unflatten(_invoke(trace, loop, arrays, captures))
    return last


def fori_loop(
    lower: ArrayLike,
    upper: ArrayLike,
    body: Callable[[Array, Carried], Carried],
    initial: Carried,
) -> Carried:
    """Apply `body(i, carried)` for i = lower … upper - 1; return the last carried
    value.

    With bounds that are known when the model is built (numbers, or sizes of its inputs)
    it is a `scan` and has derivatives of both modes; else it is a `while_loop`.

    Args:
        lower: an integer.
        upper: an integer; nothing happens unless it is larger.
        body: returns the next carried value, of the same form and types.
        initial: the first carried value, a pytree of arrays.
    """
    if isinstance(lower, int | SymbolicDim) and isinstance(upper, int | SymbolicDim):
        count = upper - lower
        if isinstance(count, int) or not isinstance(lower, SymbolicDim):
            length = max(count, 0) if isinstance(count, int) else count
            return _count_loop(lower, length, body, initial)
    first, last = np.asarray(lower), np.asarray(upper)
    if first.dtype != last.dtype or first.ndim or last.ndim:
        fail(
            "bad-bounds",
            "expected bounds that are integer scalars of one dtype; got "
            f"{first.type} and {last.type}",
        )

    def condition(carried: tuple[Array, Carried]) -> Array:
        return np.less(carried[0], last)

    def step(carried: tuple[Array, Carried]) -> tuple[Array, Carried]:
        return carried[0] + 1, body(*carried)

    return while_loop(condition, step, (first, initial))[1]


def _count_loop(
    lower: Size,
    length: Size,
    body: Callable[[Array, Carried], Carried],
    initial: Carried,
) -> Carried:
    """Compute `fori_loop` as a scan over a vector of the index values.

    The ones of a loop within another would be a vector in its body, which then is no
    loop of numbers any more.
    """
    if all(np.asarray(leaf).ndim == 0 for leaf in flatten(initial)[0]):
        return _counting(lower, length, body, initial)
    offsets = emit("iota", shape=(length,), axis=0, dtype="i32")
    steps = offsets + lower

    def step(carried: Carried, i: Array) -> tuple[Carried, None]:
        return body(i, carried), None

    return scan(step, initial, steps)[0]


def _counting(
    lower: Size,
    length: Size,
    body: Callable[[Array, Carried], Carried],
    initial: Carried,
) -> Carried:
    """Compute `fori_loop` as a scan that carries the index with the value."""

    def step(
        carried: tuple[Array, Carried], _: None
    ) -> tuple[tuple[Array, Carried], None]:
        i, value = carried
        return (i + 1, body(i, value)), None

    start = np.asarray(0, "i32") + lower
    return scan(step, (start, initial), length=length)[0][1]


def scan(
    function: Callable[[Carried, Element], tuple[Carried, Stacked]],
    initial: Carried,
    xs: Element | None = None,
    length: Size | None = None,
    reverse: bool = False,
    checkpoint_every: int | None = None,
) -> tuple[Carried, Stacked]:
    """Loop over the leading axis of arrays with a carried value; stack the results.

        carried = initial
        for x in xs:
            carried, y = function(carried, x)
        return carried, stack of the ys

    Args:
        function: gets the carried value and one element of `xs`; returns the next
            carried value, of the same form and types, and what is stacked.
        initial: the first carried value, a pytree of arrays.
        xs: a pytree of arrays with leading axes of one size; None for none.
        length: the number of steps, if there are no `xs`.
        reverse: go from the last element to the first; the stacks keep the order of xs.
        checkpoint_every: for reverse mode, which saves what each step began with: save
            it once in so many steps and compute those in between again. Near the square
            root of the number of steps it takes least memory.

    Returns:
        The last carried value, and the stacked results.
    """
    carried, tree = flatten(initial)
    arrays = [lift(leaf) for leaf in carried]
    leaves, xs_tree = flatten(xs)
    stacks = [lift(leaf) for leaf in leaves]
    count = _length_of(stacks, xs_tree, length)
    if checkpoint_every is not None:
        return in_segments(
            scan,
            function,
            initial,
            xs_tree.unflatten(stacks),
            count,
            reverse,
            checkpoint_every,
        )
    trace = current_trace()
    if trace is None:
        steps = int(count)  # no size is symbolic here
        return _python_scan(function, (tree, arrays), (xs_tree, stacks), steps, reverse)
    types = [array.type for array in arrays]
    types += [stack.type.with_shape(stack.type.shape[1:]) for stack in stacks]
    arguments = flatten(((initial, xs), {}))[1]

    def adapt_result(_: Callable[..., object], result: PyTree) -> PyTree:
        new, stacked = _pair(function, result)
        return _check_carried(function, tree, arrays, new), stacked

    (body,), captures = trace_bodies(trace, [function], types, arguments, adapt_result)
    loop = control.Scan((body.name,), len(arrays), len(stacks), count, reverse)
    results = _invoke(trace, loop, [*arrays, *stacks], captures)
    found: tuple[Carried, Stacked] = body.tree.unflatten(results)
    return found


def map(function: Callable[[Element], Stacked], xs: Element) -> Stacked:
    """Apply `function` to each element along the leading axis of `xs`; stack the
    results.

    As `vmap`, but in a loop: it needs the memory of one element at a time.
    """
    return scan(lambda _, x: (None, function(x)), None, xs)[1]


# ---- in Python ----------------------------------------------------------------------


def _python_scan(
    function: Callable[[Carried, Element], tuple[Carried, Stacked]],
    initial: tuple[Structure, Sequence[Array]],
    xs: tuple[Structure, Sequence[Array]],
    count: int,
    reverse: bool,
) -> tuple[Carried, Stacked]:
    """Compute `scan` by a Python loop, on arrays that have values."""
    (tree, arrays), (xs_tree, stacks) = initial, xs
    carried, rows = tree.unflatten(arrays), CollectedResults(function)
    for number in reversed(range(count)) if reverse else range(count):
        element = xs_tree.unflatten([stack[number] for stack in stacks])
        new, y = _pair(function, function(carried, element))
        carried = _check_carried(function, tree, arrays, new)
        rows.append(y)
    if count:
        ys, form = rows.stacked(reverse)
    else:
        types = [x.type for x in arrays]
        types += [x.type.with_shape(x.type.shape[1:]) for x in stacks]
        arguments = flatten(((carried, xs_tree.unflatten(stacks)), {}))[1]
        ys, form = no_rows(
            function, types, arguments, lambda _, result: _pair(function, result)[1]
        )
    return carried, form.unflatten(ys)


def _arrays_of(function: Callable[..., object], result: Result) -> Result:
    """Return a function's result as a pytree whose leaves are arrays."""
    leaves, tree = flatten(result)
    found: Result = tree.unflatten(returned_arrays(function, leaves, tree))
    return found


# ---- checks -------------------------------------------------------------------------


def _invoke(
    trace: Trace,
    loop: control.Control,
    arrays: Sequence[Array],
    captures: Sequence[Value],
) -> list[Array]:
    """Write a control-flow op into the trace; return its results."""
    operands = [trace.value_of(array) for array in arrays]
    with location(), ir.InsertionPoint(trace.block):
        values = control.invoke(loop, [*operands, *captures])
    return [Array(value=value, trace=trace) for value in values]


def _length_of(
    stacks: Sequence[Array], structure: Structure, length: Size | None
) -> Size:
    """Return the size of every leading axis; raise if they or `length` differ."""
    sizes: list[tuple[str, Size]] = []
    if length is not None:
        sizes.append(("length", compiler_size(length)))
    for name, stack in zip(leaf_names(structure, "xs"), stacks, strict=True):
        if not stack.ndim:
            fail("bad-length", f"'{name}' of the scan is a scalar: it has no elements")
        sizes.append((name, stack.type.shape[0]))
    if not sizes:
        fail("bad-length", "a scan without xs needs a length")
    for name, size in sizes[1:]:
        if size != sizes[0][1]:
            fail(
                "shape-mismatch",
                f"expected one number of steps; '{sizes[0][0]}' says {sizes[0][1]} and "
                f"'{name}' says {size}",
            )
    first = sizes[0][1]
    if isinstance(first, int) and first < 0:
        fail("bad-length", f"expected a length of at least 0; got {first}")
    return first


def _pair(function: Callable[..., object], result: PyTree) -> tuple[PyTree, PyTree]:
    """Return the (carried, stacked) pair that a scan body returns; raise if it is
    none.
    """
    if not isinstance(result, tuple) or len(result) != 2:
        fail(
            "bad-body",
            f"'{function_name(function)}' must return (carried, stacked); got "
            f"{type(result).__name__}",
        )
    return result


def _checked_condition(condition: Callable[..., object], result: PyTree) -> Array:
    """Return a loop condition as a bool scalar; raise if it is none."""
    flag = lift(result)
    if flag.dtype != "bool" or flag.ndim:
        fail(
            "bad-condition",
            f"'{function_name(condition)}' must return a bool scalar; got {flag.type}",
        )
    return flag


def _check_carried(
    function: Callable[..., object],
    tree: Structure,
    arrays: Sequence[Array],
    new: PyTree,
) -> Any:
    """Return a body's next carried value; raise if its structure or types changed."""
    leaves, found = flatten(new)
    if found != tree:
        fail(
            "carry-mismatch",
            f"'{function_name(function)}' must return a carried value of the form "
            f"{tree}; got {found}",
        )
    lifted = [lift(leaf, x.dtype) for leaf, x in zip(leaves, arrays, strict=True)]
    names = leaf_names(tree, "carried")
    for name, array, before in zip(names, lifted, arrays, strict=True):
        if array.type != before.type:
            fail(
                "carry-mismatch",
                f"'{name}' is {before.type} on entry, but '{function_name(function)}' "
                f"returns {array.type}",
                "keep shape and dtype, for instance with astype",
            )
    return tree.unflatten(lifted)


def _require_same_results(
    branches: Sequence[Callable[..., object]], number: int, first: Body, other: Body
) -> None:
    """Raise if a branch's results differ from the first branch's in structure or
    type.
    """
    names = [function_name(branch) for branch in (branches[0], branches[number])]
    if first.tree != other.tree:
        fail(
            "branch-mismatch",
            f"branches must return values of one form; '{names[0]}' returns "
            f"{first.tree} and '{names[1]}' {other.tree}",
        )
    leaves = leaf_names(first.tree, "result")
    for leaf, one, two in zip(leaves, first.outputs, other.outputs, strict=True):
        if one.type != two.type:
            fail(
                "branch-mismatch",
                f"branches must return values of one type; '{leaf}' is {one.type} from "
                f"'{names[0]}' and {two.type} from '{names[1]}'",
            )


guard(globals(), __all__)
