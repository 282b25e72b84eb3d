"""Transformations of functions, as functions without a body until a pass writes it.

    func.func private @loss.vjp(…) -> (…)
        attributes {graph.vjp = {of = @loss, wrt = [0]}}
    %loss, %dparams = call @loss.vjp(%params, %x, %dloss)

`Vjp` and `Jvp` are derivatives, `Batch` is the function for each of a stack of inputs,
`Precision` is the function with cheaper numbers inside, `Widened` with f64 everywhere.

Note [variadic ops]: IRDL gives one constraint variable to all operands of a variadic
field and requires them to be of one type. An op over the arguments of another function
can therefore not be declared with it; a call can.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from typing import Any, ClassVar, NoReturn

from aotc.core import dtypes
from aotc.dialects.attributes import (
    Attribute,
    Bool,
    Ints,
    OneSize,
    Str,
    SymbolReference,
    read_attribute,
    read_dictionary,
)
from aotc.dialects.functions import functions
from aotc.dialects.functions.function_table import table_of
from aotc.dialects.graph import where_of
from aotc.dialects.types import Size, Tensor
from aotc.errors import CompileError
from aotc.mlir import Function, func, ir

Types = list[Tensor]

CHEAPER = ("bf16", "f16")  # what `Precision` computes in


@dataclass(frozen=True)
class _Transformation:
    """Base of derived functions: made from the function `of`, without a body yet."""

    kind: ClassVar[str]
    of: str

    @property
    def functions(self) -> tuple[str, ...]:
        """Names of the functions that the derived one is made from: just `of`."""
        return (self.of,)

    def evaluate(self, *_: object) -> NoReturn:
        """Raise CompileError: a function without a body cannot be evaluated."""
        raise _unwritten_error(f"{self.of}.{self.kind}")

    def lower(self, _: object, op: func.CallOp, *__: object) -> NoReturn:
        """Raise CompileError: a function without a body cannot be lowered."""
        raise _unwritten_error(op.callee, where_of(op))


def _unwritten_error(name: object, where: str | None = None) -> CompileError:
    """Return the error for a use of a derived function without a body."""
    return CompileError(
        "undefined-derivative",
        f"the body of '{name}' has not been written yet",
        where=where,
        hint="run the pass 'autodiff' first, then 'inline'",
    )


@dataclass(frozen=True)
class Vjp(_Transformation):
    """The vector-Jacobian product of the function `of`, by its inputs in `wrt`.

    Takes the inputs of `of`, then one cotangent per float output; returns the outputs,
    then one cotangent per input in `wrt`.
    """

    kind: ClassVar[str] = "vjp"
    wrt: tuple[int, ...]

    def signature(self, inputs: Types, outputs: Types) -> tuple[Types, Types]:
        """Return the types of arguments and results, given those of function `of`."""
        cotangents = [inputs[index] for index in self.wrt]
        return inputs + floats(outputs), outputs + cotangents


@dataclass(frozen=True)
class Jvp(_Transformation):
    """The Jacobian-vector product of the function `of`, by its inputs in `wrt`.

    Takes the inputs of `of`, then one tangent per input in `wrt`; returns the outputs,
    then one tangent per float output.
    """

    kind: ClassVar[str] = "jvp"
    wrt: tuple[int, ...]

    def signature(self, inputs: Types, outputs: Types) -> tuple[Types, Types]:
        """Return the types of arguments and results, given those of function `of`."""
        tangents = [inputs[index] for index in self.wrt]
        return inputs + tangents, outputs + floats(outputs)


@dataclass(frozen=True)
class Batch(_Transformation):
    """The function `of` mapped over a leading axis of `size` (as jax.vmap).

    Inputs in `wrt` have a leading axis of that size; so have all outputs.
    """

    kind: ClassVar[str] = "batch"
    wrt: tuple[int, ...]
    size: Size

    def signature(self, inputs: Types, outputs: Types) -> tuple[Types, Types]:
        """Return the types of arguments and results, given those of function `of`."""
        taken = [
            with_leading(tensor, self.size) if index in self.wrt else tensor
            for index, tensor in enumerate(inputs)
        ]
        return taken, [with_leading(tensor, self.size) for tensor in outputs]


@dataclass(frozen=True)
class Precision(_Transformation):
    """The function `of` in mixed precision: its f32 values in `compute` where possible.

    What it takes and returns stays f32; which ops may, they say themselves. Arguments
    in `kept` are rounded for products alone.
    """

    kind: ClassVar[str] = "precision"
    compute: str
    kept: tuple[int, ...] = ()

    def signature(self, inputs: Types, outputs: Types) -> tuple[Types, Types]:
        """Return the types of arguments and results, those of function `of`."""
        return inputs, outputs


@dataclass(frozen=True)
class Widened(_Transformation):
    """The function `of` with every float in f64, also its arguments and results.

    Without `checkpoints` it keeps for its derivative what `of` computes again.
    """

    kind: ClassVar[str] = "widened"
    checkpoints: bool = True

    def signature(self, inputs: Types, outputs: Types) -> tuple[Types, Types]:
        """Return the types of arguments and results, given those of function `of`."""
        return list(map(wide_type, inputs)), list(map(wide_type, outputs))


Derived = Vjp | Jvp | Batch | Precision | Widened
_KINDS: dict[str, type[Derived]] = {
    f"graph.{cls.kind}": cls for cls in (Vjp, Jvp, Batch, Precision, Widened)
}
_FACTS: dict[str, type[Attribute[Any]]] = {
    "of": SymbolReference,
    "wrt": Ints,
    "size": OneSize,
    "compute": Str,
    "kept": Ints,
    "checkpoints": Bool,
}


def floats(types: Sequence[Tensor]) -> Types:
    """Return those of the types that have a float dtype."""
    return [tensor for tensor in types if dtypes.is_float(tensor.dtype)]


def wide_type(tensor: Tensor) -> Tensor:
    """Return a type with f64 in the place of any float dtype."""
    return tensor.with_dtype("f64") if dtypes.is_float(tensor.dtype) else tensor


def with_leading(tensor: Tensor, size: Size) -> Tensor:
    """Return a type with one more axis of `size` in front."""
    return tensor.with_shape((size, *tensor.shape))


def derive(derived: Derived) -> str:
    """Declare a transformed function, unless the module has it; return its name.

    To be called where ops are inserted; the function that it is of is complete.
    """
    known = table_of(functions.current_module())
    for function in known.group_by(transformation_of).get(derived, ()):
        return functions.name_of(function)
    inputs, outputs = functions.signature(known[derived.of])
    taken, returned = derived.signature(inputs, outputs)
    facts = {
        field.name: _FACTS[field.name].encode(getattr(derived, field.name))
        for field in fields(derived)
    }
    key, name = f"graph.{derived.kind}", f"{derived.of}.{derived.kind}"
    return functions.declare(name, taken, returned, {key: ir.DictAttr.get(facts)})


def derived_of(function: Function) -> Derived | None:
    """Return the transformation that is yet to write a function's body, or None."""
    return transformation_of(function) if function.is_external else None


def transformations_of(known: Mapping[str, Function], name: str) -> Iterator["Derived"]:
    """Yield the transformations that made a function, outermost first."""
    while (made := transformation_of(known[name])) is not None:
        yield made
        name = made.of


def transformation_of(function: Function) -> Derived | None:
    """Return the transformation that makes, or has made, a function; or None."""
    for kind, cls in _KINDS.items():
        if kind in function.attributes:
            facts = read_dictionary(function.attributes, kind)
            stated = [
                each.name
                for each in fields(cls)
                if each.default is MISSING or each.name in facts
            ]
            return cls(**{x: read_attribute(facts, x, _FACTS[x]) for x in stated})
    return None
