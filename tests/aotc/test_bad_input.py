"""Whatever a public function is called with: it works, or says what it expected.

The export lists are walked over, so that a new function needs one line in conftest.py:
a call that works. Each of its arguments is then replaced by each of many wrong ones,
where the function computes at once and inside of a trace.
"""

import inspect
import re
import warnings
from contextlib import contextmanager

import numpy as np
import pytest

from aotc import (
    collectives,
    control,
    debug,
    fft,
    linalg,
    nn,
    optim,
    random,
    solvers,
    special,
    transforms,
)
from aotc import numpy as anp
from aotc.dialects import context
from aotc.dialects.sizes.contracts import Contract
from aotc.dialects.types import SymbolicDim, Tensor
from aotc.errors import AotcError
from aotc.mlir import ir
from aotc.tracing.array import Array
from aotc.tracing.tracing import Trace, current_trace

MODULES = (
    anp, nn, linalg, fft, special, random, control, solvers, collectives, debug,
    transforms, optim,
)  # fmt: skip


def exported():
    """Every public function, by the names of its module and its own."""
    for module in MODULES:
        family = module.__name__.removeprefix("aotc.")
        for name in module.__all__:
            if inspect.isfunction(getattr(module, name)):
                yield f"{family}.{name}", getattr(module, name)


FUNCTIONS = dict(exported())

# those that loop until all elements are drawn or solved for
LOOPS = """
    binomial beta chisquare dirichlet gamma geometric loggamma poisson t triangular
    truncated_normal weibull_min fixed_point linear_solve root
"""
SWEPT = [
    pytest.param(name, marks=[pytest.mark.slow] * (name.split(".")[1] in LOOPS.split()))
    for name in FUNCTIONS
]

# ---- what else may come -------------------------------------------------------------


class Thing:
    """Nothing that any function takes."""


ones = np.ones((3, 4), "f4")

ARRAYS = {
    "a scalar": np.array(0.5, "f4"),
    "a vector": np.linspace(0, 1, 5, dtype="f4"),
    "a higher rank": np.ones((2, 1, 3, 4), "f4"),
    "no elements": np.ones((0, 4), "f4"),
    "integers": np.arange(-3, 9, dtype="i4").reshape(3, 4),
    "truth values": ones > 0.5,
    "half precision": ones.astype("f2"),
    "complex numbers": ones + 1j,
    "texts": np.array(["a", "b"]),
}
OTHERS = {
    "nothing": None,
    "a text": "nonsense",
    "an object": Thing(),
    "a function": lambda: None,
    "not a number": np.nan,
    "infinity": -np.inf,
    "a fraction": 1.5,
    "a truth value": True,
    "a negative number": -1,
    "a large number": 77,
    "a very negative number": -77,
    "a complex number": 1 + 2j,
    "an empty list": [],
    "a list of one": (7,),
    "a list of negatives": (-1, -2),
    "a ragged list": [[1], [1, 2]],
    "a list of texts": ["x", "y"],
    "a list of nothing": [None, None],
    "a dict": {"a": 1.0},
}


def symbolic():
    """A size that is known only when the model runs."""
    return SymbolicDim.symbol(0)


def wrong(old):
    """What may stand in the place of `old`, with a name for it."""
    yield from ARRAYS.items()
    if isinstance(old, np.ndarray) and old.ndim:
        yield "one element less", old[(slice(1, None),) * old.ndim]
        yield "one axis less", old[0]
        yield "one axis more", old[None]
    if current_trace() is None:
        yield from OTHERS.items()
    else:
        yield "a size", symbolic()
        yield "a shape with a size", (symbolic(), 4)
        yield "an array of a symbolic size", anp.ones((symbolic(), 4))


def replaced(function, call):
    """Calls with one argument replaced: (parameter, by what, arguments)."""
    args, kwargs = call
    signature = inspect.signature(function)
    for name, parameter in signature.parameters.items():
        if parameter.kind is parameter.VAR_KEYWORD:
            continue
        bound = signature.bind(*args, **kwargs)
        old = bound.arguments.get(name, parameter.default)
        several = parameter.kind is parameter.VAR_POSITIONAL
        rest = bound.arguments.get(name, ())[1:] if several else ()
        for what, value in wrong(old[0] if rest else old):
            bound.arguments[name] = (value, *rest) if several else value
            yield name, what, (bound.args, bound.kwargs)


# ---- what must happen ---------------------------------------------------------------

# how Python says that a function was called wrongly
SIGNATURE = re.compile(
    r"takes .*positional argument|missing \d+ required|unexpected key"
)
# the user's lines: this file's, and those of functions that are arguments
HERE = ("test_bad_input.py:", "conftest.py:")
# refused where there is no trace
ONLY_COMPILED = ("needs-devices",)


def traced(value):
    """NumPy's arrays as ones that have no value yet."""
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        trace = current_trace()
        return Array(value=trace.value_of(Array(data=value)), trace=trace)
    if type(value) in (list, tuple):
        return type(value)(map(traced, value))
    if type(value) is dict:
        return {name: traced(part) for name, part in value.items()}
    return value


@contextmanager
def inside_a_trace():
    """Within this block, functions of aotc append to a function of the graph."""
    with context(), ir.Location.unknown():
        module = ir.Module.create()
    with context():
        types = [Tensor((symbolic(), 4), "f32")]
        trace = Trace(module, "f", types, [Contract("n", min=1)])
    with trace.active():
        yield


def called(function, call):
    """Call a function, and the function that it returns."""
    args, kwargs = traced(call) if current_trace() else call
    result = function(*args, **kwargs)
    if inspect.isfunction(result):
        result(anp.asarray(ones))


def complaint(function, parameter, call):
    """What is wrong with how a call is refused; None if it works or is told well."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            called(function, call)
    except AotcError as error:
        if not (error.where or "").startswith(HERE):
            return f"is refused at {error.where}: {error.message}"
        if not names(error, function, parameter):
            return f"is refused without its name: {error}"
    except Exception as error:
        if not (isinstance(error, TypeError) and SIGNATURE.search(str(error))):
            return f"raises {type(error).__name__}: {error}"
    return None


def names(error, function, parameter):
    """Whether an error tells the argument; or what the user's own function called."""
    within = (error.call or "").partition("(")[0]
    inner = within not in ("", function.__name__)
    return inner or f"{parameter}=" in (error.call or "") or parameter in error.message


def complaints(function, call):
    """All that is wrong with how wrong arguments are refused."""
    try:
        called(function, call)
    except AotcError as error:
        if error.code in ONLY_COMPILED and not current_trace():
            return
        raise
    for parameter, what, changed in replaced(function, call):
        found = complaint(function, parameter, changed)
        if found is not None:
            yield f"{what} as {parameter} {found}"


def test_every_function_has_a_call_that_works(calls):
    assert [f"add a call of {name}" for name in FUNCTIONS if name not in calls] == []


@pytest.mark.parametrize("name", SWEPT)
def test_a_function_works_or_says_what_it_expected(name, calls):
    if name in calls:
        assert list(complaints(FUNCTIONS[name], calls[name])) == []


@pytest.mark.parametrize("name", SWEPT)
def test_a_traced_function_works_or_says_what_it_expected(name, calls):
    if name in calls:
        with inside_a_trace():
            assert list(complaints(FUNCTIONS[name], calls[name])) == []
