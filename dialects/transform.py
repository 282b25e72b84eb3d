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

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, NamedTuple

from aotc import dtypes
from aotc.dialects import functions
from aotc.dialects.attributes import (
    Attribute,
    Bool,
    Ints,
    OneSize,
    Str,
    Symbol,
    read_attribute,
)
from aotc.dialects.function_table import table_of
from aotc.dialects.types import Size, Tensor
from aotc.mlir import Function, ir

Types = list[Tensor]


class Vjp(NamedTuple):
    """The vector-Jacobian product of the function `of`, by its inputs in `wrt`.

    Takes the inputs of `of`, then one cotangent per float output; returns the outputs,
    then one cotangent per input in `wrt`.
    """

    of: str
    wrt: tuple[int, ...]

    def signature(self, inputs: Types, outputs: Types) -> tuple[Types, Types]:
        """The types that it takes and returns, given those of `of`."""
        cotangents = [inputs[index] for index in self.wrt]
        return inputs + floats(outputs), outputs + cotangents


class Jvp(NamedTuple):
    """The Jacobian-vector product of the function `of`, by its inputs in `wrt`.

    Takes the inputs of `of`, then one tangent per input in `wrt`; returns the outputs,
    then one tangent per float output.
    """

    of: str
    wrt: tuple[int, ...]

    def signature(self, inputs: Types, outputs: Types) -> tuple[Types, Types]:
        """The types that it takes and returns, given those of `of`."""
        tangents = [inputs[index] for index in self.wrt]
        return inputs + tangents, outputs + floats(outputs)


class Batch(NamedTuple):
    """The function `of` for each of `size` inputs.

    Inputs in `wrt` have a leading axis of that size; so have all outputs.
    """

    of: str
    wrt: tuple[int, ...]
    size: Size

    def signature(self, inputs: Types, outputs: Types) -> tuple[Types, Types]:
        """The types that it takes and returns, given those of `of`."""
        taken = [
            with_leading(tensor, self.size) if index in self.wrt else tensor
            for index, tensor in enumerate(inputs)
        ]
        return taken, [with_leading(tensor, self.size) for tensor in outputs]


class Precision(NamedTuple):
    """The function `of` with its f32 values in the float dtype `compute` where it may.

    What it takes and returns stays f32; which ops may, they say themselves.
    """

    of: str
    compute: str

    def signature(self, inputs: Types, outputs: Types) -> tuple[Types, Types]:
        """The types that it takes and returns: those of `of`."""
        return inputs, outputs


class Widened(NamedTuple):
    """The function `of` with every float in f64, also those it takes and returns.

    Without `checkpoints` it keeps for its derivative what `of` computes again.
    """

    of: str
    checkpoints: bool = True

    def signature(self, inputs: Types, outputs: Types) -> tuple[Types, Types]:
        """The types that it takes and returns, given those of `of`."""
        return list(map(widened, inputs)), list(map(widened, outputs))


Derived = Vjp | Jvp | Batch | Precision | Widened
_KINDS: dict[str, Any] = {
    "graph.vjp": Vjp,
    "graph.jvp": Jvp,
    "graph.batch": Batch,
    "graph.precision": Precision,
    "graph.widened": Widened,
}
_FACTS: dict[str, type[Attribute[Any]]] = {
    "of": Symbol,
    "wrt": Ints,
    "size": OneSize,
    "compute": Str,
    "checkpoints": Bool,
}


def floats(types: Sequence[Tensor]) -> Types:
    """Those of `types` that have derivatives."""
    return [tensor for tensor in types if dtypes.is_float(tensor.dtype)]


def widened(tensor: Tensor) -> Tensor:
    """The type with f64 in the place of any float."""
    return tensor.with_dtype("f64") if dtypes.is_float(tensor.dtype) else tensor


def with_leading(tensor: Tensor, size: Size) -> Tensor:
    """A type with one more axis in front."""
    return tensor.with_shape((size, *tensor.shape))


def derive(derived: Derived) -> str:
    """Declare a transformed function, unless there is one; returns its name.

    To be called where ops are inserted; the function that it is of is complete.
    """
    known = table_of(functions.current_module())
    for function in known.grouped(_kind_and_facts).get((type(derived), derived), ()):
        return functions.name_of(function)
    inputs, outputs = functions.signature(known[derived.of])
    taken, returned = derived.signature(inputs, outputs)
    kind = _kind_of(derived)
    facts = {
        name: _FACTS[name].encode(value) for name, value in derived._asdict().items()
    }
    name = f"{derived.of}{kind.removeprefix('graph')}"
    return functions.declare(name, taken, returned, {kind: ir.DictAttr.get(facts)})


def _kind_of(derived: Derived) -> str:
    return next(kind for kind, cls in _KINDS.items() if isinstance(derived, cls))


def derived_of(function: Function) -> Derived | None:
    """What `function` is declared as, if its body is yet to be written."""
    return _facts_of(function) if function.is_external else None


def _kind_and_facts(function: Function) -> tuple[type[Derived], Derived] | None:
    """What `function` is declared as; tuples of different classes may be equal."""
    facts = _facts_of(function)
    return None if facts is None else (type(facts), facts)


def _facts_of(function: Function) -> Derived | None:
    for kind, cls in _KINDS.items():
        if kind in function.attributes:
            facts = ir.DictAttr(function.attributes[kind])
            read = (read_attribute(facts, name, _FACTS[name]) for name in cls._fields)
            found: Derived = cls(*read)
            return found
    return None


# ---- functions that say how they are differentiated ---------------------------------


@dataclass(frozen=True)
class CustomVjp:
    """On a function: its outputs and residuals by `forward`, cotangents by `backward`.

    `forward` takes the inputs and returns the outputs, then residuals. `backward` takes
    the residuals and a cotangent per float output; it returns one per float input.
    """

    key: ClassVar[str] = "graph.custom_vjp"
    forward: str
    backward: str


@dataclass(frozen=True)
class CustomJvp:
    """On a function: `rule` gives its outputs and their tangents.

    It takes the inputs, then a tangent per float input, and returns the outputs, then a
    tangent per float output; it is linear in the tangents.
    """

    key: ClassVar[str] = "graph.custom_jvp"
    rule: str


@dataclass(frozen=True)
class Checkpoint:
    """On a function: what it computes is computed again for its derivative."""

    key: ClassVar[str] = "graph.checkpoint"


@dataclass(frozen=True)
class CheckpointProducts(Checkpoint):
    """The same, but for products of matrices and convolutions, which are kept.

    `saving` returns the outputs, then all products; `given` takes the inputs and then
    these, and computes the outputs from them.
    """

    key: ClassVar[str] = "graph.checkpoint_products"
    saving: str
    given: str


Custom = CustomVjp | CustomJvp | Checkpoint


def annotate(function: Function, custom: Custom) -> None:
    """Say how a function is differentiated."""
    facts = {field.name: getattr(custom, field.name) for field in fields(custom)}
    function.attributes[custom.key] = ir.DictAttr.get(
        {key: ir.FlatSymbolRefAttr.get(name) for key, name in facts.items()}
    )


def custom_of(function: Function) -> Custom | None:
    """How a function says that it is differentiated, if it does."""
    kinds: tuple[Any, ...] = (CustomVjp, CustomJvp, Checkpoint, CheckpointProducts)
    for cls in kinds:
        if cls.key in function.attributes:
            facts = ir.DictAttr(function.attributes[cls.key])
            named = [ir.FlatSymbolRefAttr(facts[f.name]) for f in fields(cls)]
            found: Custom = cls(*(str(symbol.value) for symbol in named))
            return found
    return None
