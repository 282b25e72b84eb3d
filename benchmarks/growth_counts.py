"""Count what Python code does: calls, and the elements that C code visits for it.

The time of a machine tells a linear algorithm from a quadratic one only where graphs
are large and nothing else runs; counts do where graphs are small. cProfile counts the
calls. `value in values`, `ops.index(op)` and `[*block.operations]` are no calls, and
what goes through a whole module in C++ is one: here each element that these visit
counts as a call, too.
"""

from __future__ import annotations

import cProfile
import gc
import inspect
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import _lru_cache_wrapper, partial
from types import FunctionType
from typing import Any

from aotc.mlir import ir, passmanager

# what visits one element: of an iterator, a list, a set
_ELEMENT = ("__next__", "__eq__", "__hash__", "__getitem__", "__contains__")
# what visits all ops within one
_WHOLE = ("verify", "get_asm", "write_bytecode", "print", "__str__", "clone")

Counts = Counter[str]  # calls by function
Visit = Callable[[Any], Any]


def counts_of(
    work: Callable[[], Any], bindings: tuple[Any, Any] = (ir, passmanager)
) -> Counts:
    """Run `work` under a profiler; return how often each function was called.

    Args:
        work: that is counted.
        bindings: the modules `ir` and `passmanager` that it looks at ops by.
    """
    profile = cProfile.Profile()
    callbacks = [*gc.callbacks]  # run at any moment, of whoever looks at collections
    gc.callbacks.clear()
    with _visible_elements(*bindings):
        profile.enable()
        try:
            work()
        finally:
            profile.disable()
            gc.callbacks.extend(callbacks)
    found: Counts = Counter()
    for entry in profile.getstats():
        found[_name_of(entry.code)] += entry.callcount
    return found


def forget() -> None:
    """Empty bounded caches, whose evictions would change the counts.

    What is computed again when one is full counts as growth otherwise.
    """
    is_frozen = gc.get_freeze_count() > 0
    gc.unfreeze()  # what is frozen is not among the objects
    objects = gc.get_objects()
    if is_frozen:
        gc.freeze()
    for each in objects:
        if type(each) in (FunctionType, _lru_cache_wrapper):  # asks no object itself
            clear = getattr(each, "cache_clear", None)
            parameters = getattr(each, "cache_parameters", None)
            if clear and (parameters is None or parameters()["maxsize"] is not None):
                clear()


def growth_of(counts: Sequence[Counts]) -> float:
    """Return the factor by which calls grow per doubling: 2 is linear, 4 quadratic.

    What does not grow with the graph counts for nothing.

    Args:
        counts: for three sizes, each twice the one before.
    """
    one, two, four = (sum(each.values()) for each in counts)
    return (four - two) / max(two - one, 1)


def suspects(counts: Sequence[Counts], most: float) -> list[str]:
    """Return the functions whose calls grow fastest, the most called first.

    Args:
        counts: for three sizes, each twice the one before.
        most: what each may grow by.
    """
    one, two, four = counts
    found = [
        name
        for name in four
        if four[name] - two[name] > most * max(two[name] - one[name], 1)
    ]
    return sorted(found, key=lambda name: -four[name])


def _name_of(code: Any) -> str:
    """Return the file, line and name of a profiled function."""
    if isinstance(code, str):  # of C
        return code
    return f"{code.co_filename}:{code.co_firstlineno}({code.co_name})"


@contextmanager
def _visible_elements(ir: Any, passmanager: Any) -> Iterator[None]:
    """Wrap the bindings in this context, so that visits in C code count as calls."""
    replaced: list[tuple[type, str, Any]] = []

    def visit_op(op: Any) -> Any:
        return ir.WalkResult.ADVANCE

    def replace(kind: type, name: str, wrap: Callable[[Any], Any]) -> None:
        method = vars(kind).get(name)
        if method is not None and not inspect.isfunction(method):
            replaced.append((kind, name, method))
            setattr(kind, name, wrap(method))

    for name in ("__getitem__", "__len__"):
        replace(ir.OperationList, name, _visiting_list)
    for kind in filter(inspect.isclass, vars(ir).values()):
        for name in _ELEMENT:
            replace(kind, name, _visiting_one)
    for kind in (ir._OperationBase, ir.OpView, ir.Module):
        for name in _WHOLE:
            replace(kind, name, partial(_visiting_ops_within, visit_op))
    visiting = partial(_visiting_ops_of_argument, visit_op)
    replace(passmanager.PassManager, "run", visiting)
    try:
        yield
    finally:
        for kind, name, method in reversed(replaced):
            setattr(kind, name, method)


def _visiting_one(method: Any) -> Any:
    """Wrap a method so that each call is profiled as a Python function."""

    def visit_element(owner: Any, *arguments: Any) -> Any:
        return method(owner, *arguments)

    return visit_element


def _visiting_ops_within(visit: Visit, method: Any) -> Any:
    """Wrap a method to visit all nested ops first."""

    def visit_ops(owner: Any, *arguments: Any, **options: Any) -> Any:
        owner.operation.walk(visit)
        return method(owner, *arguments, **options)

    return visit_ops


def _visiting_ops_of_argument(visit: Visit, method: Any) -> Any:
    """Wrap a method to visit all ops of its argument first."""

    def run_passes(owner: Any, op: Any) -> Any:
        op.operation.walk(visit)
        return method(owner, op)

    return run_passes


def _visiting_list(method: Any) -> Any:
    """Wrap a lookup in a linked list to visit all ops before the found one."""

    def visit_list(owner: Any, index: int | None = None) -> Any:
        if index is None:
            return sum(1 for _ in owner)
        for place, _ in enumerate(owner):
            if place == index:
                break
        return method(owner, index)

    return visit_list
