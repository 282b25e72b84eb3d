"""Control flow: functions without a body that say which others run, and how often.

    func.func private @rnn.scan(%h, %xs, %w) -> (…)
        attributes {graph.control = {kind = "scan", functions = [@rnn.body], …}}
    %h_last, %ys = call @rnn.scan(%h0, %xs, %w)

What a loop or branch reads from outside is an argument like any other (captures come
last), so every function stays a flat list of ops that each pass can walk; Note
[variadic ops] in transform.py says why they are not ops with regions. Each kind has
the rules that an op has: `evaluate`, `jvp`, `vjp`, `batch`, `lower`.

The functions `switch`, `while_loop` and `scan` build them from Python functions.

Note [what loops start from]: IREE 3.13 may put what a loop starts from and what is
computed after it of the same values into one dispatch, and then refuses that as a
"circular dependency". So loops start from values behind a barrier.
"""

from collections.abc import Mapping

from aotc.dialects.attributes import (
    Bool,
    Int,
    Sizes,
    Str,
    SymbolReferences,
    read_attribute,
    read_dictionary,
)
from aotc.dialects.control.parts import invoke, require_same
from aotc.dialects.control.repeating import While, while_loop
from aotc.dialects.control.scanning import Scan, scan
from aotc.dialects.control.switching import Switch
from aotc.dialects.functions import functions
from aotc.dialects.types import Size, remembered
from aotc.errors import InputError
from aotc.mlir import Function, Module, ir

__all__ = [
    "Control",
    "Scan",
    "Switch",
    "While",
    "control_of",
    "invoke",
    "scan",
    "verify",
    "while_loop",
]

Control = Switch | While | Scan


def control_of(function: Function) -> Control | None:
    """Return the control flow that `function` is declared as; None if it is not."""
    if functions.CONTROL not in function.attributes:
        return None
    return _read_control(read_dictionary(function.attributes, functions.CONTROL))


@remembered
def _read_control(facts: ir.DictAttr) -> Control:
    """Return the control flow that the attribute `graph.control` describes."""
    kind = read_attribute(facts, "kind", Str)
    if kind not in _COUNTS:
        known = ", ".join(_COUNTS)
        raise InputError("malformed-op", f"expected a kind of {known}; got '{kind}'")
    names = read_attribute(facts, "functions", SymbolReferences)
    if not names or len(names) != (_COUNTS[kind] or len(names)):
        count = _COUNTS[kind] or "one or more"
        raise InputError(
            "malformed-op", f"expected {count} functions of a {kind}; got {len(names)}"
        )
    if kind == "switch":
        return Switch(names)
    carries = _read_count(facts, "carries")
    if kind == "while":
        bounded = "max_steps" in facts
        return While(
            names, carries, _read_size(facts, "max_steps") if bounded else None
        )
    scanned, reverse = (
        _read_count(facts, "scanned"),
        read_attribute(facts, "reverse", Bool),
    )
    return Scan(names, carries, scanned, _read_size(facts, "length"), reverse)


# kind → how many functions it runs, None for any number
_COUNTS = {"switch": None, "while": 2, "scan": 1}


def _read_count(facts: ir.DictAttr, name: str) -> int:
    """Return the integer attribute `name`; refuse negative ones."""
    count: int = read_attribute(facts, name, Int)
    if count < 0:
        raise InputError("malformed-op", f"expected {name} of 0 or more; got {count}")
    return count


def _read_size(facts: ir.DictAttr, name: str) -> Size:
    """Return the attribute `name`, which must hold exactly one size."""
    sizes = read_attribute(facts, name, Sizes)
    if len(sizes) != 1:
        raise InputError("malformed-op", f"expected one {name}; got {sizes}")
    size: Size = sizes[0]
    return size


def verify(module: Module) -> None:
    """Raise InputError for control flow whose functions are missing or do not fit.

    Raises:
        InputError: it names the function and what it should take or return.
    """
    known = functions.functions_of(module)
    for name, function in known.items():
        try:
            control = control_of(function)
            if control is not None:
                _require_fit(control, function, known)
        except InputError as error:
            raise InputError(error.code, f"'{name}': {error.message}") from error


def _require_fit(
    control: Control, function: Function, known: Mapping[str, Function]
) -> None:
    """Raise InputError for control flow that does not fit the functions it runs."""
    missing = [other for other in control.functions if other not in known]
    if missing:
        raise InputError(
            "unknown-function",
            f"it runs '{missing[0]}', which the module does not have",
        )
    parts = [functions.signature(known[other]) for other in control.functions]
    taken, returned = control.signature(parts)
    inputs, outputs = functions.signature(function)
    require_same("it takes", taken, inputs)
    require_same("it returns", returned, outputs)
