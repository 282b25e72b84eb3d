"""Public functions decide by types, not by the sizes of the call that is traced.

What a function of aotc asks of a size is a guard of the user's function, and a refusal
of the user's entry. The few that have to ask are named.
"""

import importlib

import numpy as np

import aotc
from aotc.core.pytree import flatten
from aotc.errors import AotcError
from aotc.just_in_time.guard_checks import CallValues
from aotc.tracing.assembly import trace
from aotc.tracing.call_values import specializing

FAMILIES = (
    "numpy", "nn", "linalg", "fft", "special", "control", "complexes",
    "random", "optim", "solvers", "collectives", "transforms",
)  # fmt: skip

# whose results have another rank, or other elements, for some sizes
ASKING = {"numpy.squeeze", "numpy.cov", "numpy.corrcoef"}


def asked_of_sizes(name, args, kwargs, *, apart=False):
    """The symbols and conditions that a call asks for, and whether it is refused.

    Of axes of one size the symbols are one, or with `apart` several.
    """
    family, _, function = name.rpartition(".")
    called = getattr(importlib.import_module(f"aotc.{family}"), function)
    leaves, form = flatten([list(args), kwargs])
    arrays = [each for each in leaves if is_array(each)]
    shapes = [
        [
            f"n{n}{f'_{at}_{axis}' * apart}" if n > 1 else n
            for axis, n in enumerate(x.shape)
        ]
        for at, x in enumerate(arrays)
    ]
    specs = [aotc.Spec(s, x.dtype) for s, x in zip(shapes, arrays, strict=True)]

    @aotc.entry(xs=specs)
    def call(xs):
        rest = iter(xs)
        given = [next(rest) if is_array(x) else x for x in leaves]
        args, kwargs = form.unflatten(given)
        called(*args, **kwargs)
        return xs

    named = zip(shapes, arrays, strict=True)
    sizes = {
        symbol: n
        for symbols, x in named
        for symbol, n in zip(symbols, x.shape, strict=True)
        if symbol != n
    }
    known = CallValues(arrays, sizes, guards_branches=False)
    try:
        with specializing(known):
            trace([call], {})
    except AotcError:
        return [*known.pinned, *known.size_guards], True
    return [*known.pinned, *known.size_guards], False


def is_array(x):
    return isinstance(x, np.ndarray) and x.ndim > 0


def calls_with_arrays(calls):
    return {
        name: given
        for name, given in calls.items()
        if name.partition(".")[0] in FAMILIES and any(map(is_array, given[0]))
    }


def test_functions_ask_no_size_of_the_call(calls):
    found = {
        name: asked_of_sizes(name, *given)
        for name, given in calls_with_arrays(calls).items()
    }
    traced = {
        name: asked for name, (asked, is_refused) in found.items() if not is_refused
    }
    assert len(traced) > 250
    assert {name for name, asked in traced.items() if asked} == ASKING


def test_nor_do_they_where_they_refuse_sizes_that_may_differ(calls):
    found = {
        name: asked_of_sizes(name, *given, apart=True)
        for name, given in calls_with_arrays(calls).items()
    }
    assert sum(is_refused for _, is_refused in found.values()) > 50
    assert {name for name, (asked, _) in found.items() if asked} == ASKING
