"""Mixed precision: cheaper numbers inside of a function, f32 around it."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from aotc.core.pytree import flatten
from aotc.dialects.functions.transform import CHEAPER, Precision
from aotc.tracing.source_locations import fail
from aotc.tracing.tracing import current_trace
from aotc.transforms.cheaper import executed_in
from aotc.transforms.traced import TracedFunction

P = ParamSpec("P")
Result = TypeVar("Result")


def mixed_precision(
    function: Callable[P, Result], compute: str = "bf16"
) -> Callable[P, Result]:
    """Return the function with ops computed in a cheaper float dtype where that is
    safe.

    Products of matrices, convolutions and attention, and what follows from them, are
    computed in `compute`; exponentials, logarithms, sums and the like in f32: `aotc
    ops` has the table. Arguments and results keep their dtypes, and so do gradients by
    them: put it inside of `aotc.grad`. Values of other dtypes than f32 are left alone.

    Args:
        function: of pytrees of arrays.
        compute: `bf16` or `f16`; the latter has little range, see
            `aotc.optim.dynamic_loss_scale`.

    Returns:
        A function of the same arguments.
    """
    if compute not in CHEAPER:
        fail("bad-dtype", f"expected compute to be bf16 or f16; got {compute!r}")

    def wrapper(*args: P.args, **kwargs: P.kwargs) -> Result:
        if current_trace() is None:
            return executed_in(compute, function, *args, **kwargs)
        traced = TracedFunction("mixed_precision", function, *flatten((args, kwargs)))
        results, _ = traced.apply(Precision(traced.body.name, compute), [])
        result: Result = traced.body.tree.unflatten(results)
        return result

    return wrapper
