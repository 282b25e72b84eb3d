"""Verification that declared functions, and the rules they name, fit the functions they
use.

Passes take that for granted: what they declare fits. In IR from outside it may not.
"""

from collections.abc import Iterator, Mapping

from aotc.core import dtypes
from aotc.dialects import control
from aotc.dialects.calls.custom import Custom, custom_of
from aotc.dialects.control.parts import Types, require_same, types_text
from aotc.dialects.functions.functions import functions_of, signature
from aotc.dialects.functions.transform import (
    Derived,
    Jvp,
    Precision,
    Vjp,
    transformation_of,
)
from aotc.errors import InputError
from aotc.mlir import Function, Module

Known = Mapping[str, Function]


def verify(module: Module) -> None:
    """Raise InputError for a declared or annotated function whose callees do not fit.

    Raises:
        InputError: it names the function and what it should be, take or return.
    """
    control.verify(module)
    known = functions_of(module)
    for name, function in known.items():
        try:
            derived, custom = transformation_of(function), custom_of(function)
            # what has a body was a declaration once: its ops say what it is now
            if derived is not None and function.is_external:
                _require_transformed(derived, function, known)
            if custom is not None:
                _require_rules(custom, function, known)
        except InputError as error:
            raise InputError(error.code, f"'{name}': {error.message}") from error


def _require_transformed(derived: Derived, function: Function, known: Known) -> None:
    """Raise InputError for a transformation with wrong options or signature."""
    _require_known(derived.of, known)
    inputs, outputs = signature(known[derived.of])
    for said in _misfits(derived, inputs):
        raise InputError("malformed-op", f"graph.{derived.kind}: {said}")
    taken, returned = derived.signature(inputs, outputs)
    got_inputs, got_outputs = signature(function)
    what = f"as graph.{derived.kind} of '{derived.of}' it"
    require_same(f"{what} takes", taken, got_inputs)
    require_same(f"{what} returns", returned, got_outputs)


def _misfits(derived: Derived, inputs: Types) -> Iterator[str]:
    """Yield an error text for each wrong option of a transformation."""
    if isinstance(derived, Precision) and derived.compute not in dtypes.FLOATS:
        yield f"expected compute to be a float dtype; got '{derived.compute}'"
    wrt = getattr(derived, "wrt", ())
    of = f"of '{derived.of}', which takes {types_text(inputs)}"
    if len({*wrt}) < len(wrt) or not all(0 <= each < len(inputs) for each in wrt):
        yield f"expected wrt to be different inputs, from 0, {of}; got {[*wrt]}"
    elif isinstance(derived, Vjp | Jvp):
        for each in wrt:
            if not dtypes.is_float(inputs[each].dtype):
                yield f"expected wrt to be inputs of a float dtype {of}; got {[*wrt]}"


def _require_rules(custom: Custom, function: Function, known: Known) -> None:
    """Raise InputError for custom rules whose functions are missing or do not fit."""
    for name in vars(custom).values():
        _require_known(name, known)
    parts = {role: signature(known[name]) for role, name in vars(custom).items()}
    expected = custom.rule_types(*signature(function), parts)
    for role, (taken, returned) in expected.items():
        require_same(f"its {role} of {custom.key} takes", taken, parts[role][0])
        require_same(f"its {role} of {custom.key} returns", returned, parts[role][1])


def _require_known(name: str, known: Known) -> None:
    """Raise InputError for a name that no function of the module has."""
    if name not in known:
        raise InputError(
            "unknown-function", f"it names '{name}', which the module does not have"
        )
