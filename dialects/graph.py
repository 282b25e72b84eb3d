"""The graph dialect and the base class of its ops.

Every op is one class that holds everything known about it, in this order:

    docstring    what it computes, as a formula
    fields       operands, attributes, results
    infer        operand types and attributes → result type; raises on invalid ones
    ref          its meaning, in NumPy
    jvp          tangents of the operands → tangent of the result
    vjp          cotangent of the result → cotangents of the operands
    lower        the op as linalg on tensors
    samples      typical and extreme uses; the op × rule test runs every rule on them

A rule that does not apply holds a `Reason`, never nothing. `verify` follows from
`infer`: an op is valid when its operands and attributes infer its result types.
An op may also have `simplify`: an equal, cheaper value, or None.

The base of all ops is `GraphOp`; families add their own base classes. The bindings
evaluate annotations, so modules of this package must not postpone them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from aotc import dtypes as dt
from aotc.dialects.attributes import Attribute, Sizes
from aotc.dialects.types import Tensor, evaluate_size
from aotc.errors import AotcError, CompileError
from aotc.mlir import ext, ir, source_of

Pure = ext.Pure

if TYPE_CHECKING:  # what the bindings evaluate is no type to static tools
    T = TypeVar("T")

    class Operand(Generic[T]):
        """A field that holds an operand."""

    class Result(Generic[T]):
        """A field that holds a result."""
else:
    Operand = ext.Operand
    Result = ext.Result

RULES = ("verify", "infer", "ref", "jvp", "vjp", "lower", "samples")


class Graph(ext.Dialect, name="graph"):  # type: ignore[call-arg]
    """Pure dataflow on ranked tensors; closed under differentiation."""


@dataclass(frozen=True)
class Reason:
    """Stands where a rule would, and says why there is none."""

    kind: str
    text: str

    def __call__(self, *_: Any, **__: Any) -> Any:
        raise CompileError(self.kind, self.text)


def NOT_DIFFERENTIABLE(why: str) -> Reason:  # noqa: N802 - reads like the constant it is
    """The op has no derivative, because of `why`."""
    return Reason("not-differentiable", why)


class GraphOp(Graph.Operation):  # type: ignore[name-defined]
    """Base of every op: building, typed attributes, and the generic verifier."""

    # No annotations here or in subclasses but those of fields: the bindings read them.
    if TYPE_CHECKING:
        dtypes: tuple[str, ...]
        codecs: dict[str, type[Attribute]]
    family = ""
    dtypes = dt.FLOATS
    codecs = {}

    def __init_subclass__(cls, **options: Any) -> None:
        """Take note of attribute fields, so that they read as Python values."""
        annotations = cls.__dict__.get("__annotations__", {})
        own = {n: k for n, k in annotations.items() if _is_attribute(k)}
        cls.codecs = {**cls.codecs, **own}
        cls.__annotations__ = {
            n: Any if n in own else k for n, k in annotations.items()
        }
        super().__init_subclass__(**options)
        if "name" in options:
            cls.family = cls.__module__.rsplit(".", 1)[-1]
            for name, codec in cls.codecs.items():
                setattr(cls, name, _attribute_property(name, codec))

    @classmethod
    def attributes_of(cls, op: Any) -> dict[str, Any]:
        """The attributes of `op` as Python values."""
        stored = op.attributes
        return {name: codec.decode(stored[name]) for name, codec in cls.codecs.items()}

    @classmethod
    def build(cls, *operands: Any, **attributes: Any) -> Any:
        """Insert this op at the current insertion point, and return its result.

        The result type is inferred; all attributes must be given.
        """
        result = cls.infer(*map(Tensor.of, operands), **attributes)
        return ir.Operation.create(
            cls.OPERATION_NAME,
            results=[result.to_mlir()],
            operands=list(operands),
            attributes={n: c.encode(attributes[n]) for n, c in cls.codecs.items()},
        ).results[0]

    @classmethod
    def verify_invariants(cls, op: Any) -> bool:
        """An op is valid when it infers the result type that it has."""
        with op.context:
            return cls._infers_its_type(op)

    @classmethod
    def _infers_its_type(cls, op: Any) -> bool:
        try:
            operands = map(Tensor.of, op.operands)
            expected = cls.infer(*operands, **cls.attributes_of(op))
        except AotcError as error:
            op.location.emit_error(f"graph.{cls._op_name}: {error.message}")
            return False
        actual = Tensor.of(op.results[0])
        if expected != actual:
            op.location.emit_error(
                f"graph.{cls._op_name}: the operands give {expected}, "
                f"but the result type is {actual}"
            )
        return bool(expected == actual)

    @classmethod
    def rule(cls, name: str) -> Any:
        """The rule `name`, or the `Reason` for which there is none."""
        return cls.verify_invariants if name == "verify" else getattr(cls, name, None)


def _is_attribute(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Attribute)


def _attribute_property(name: str, codec: type[Attribute]) -> property:
    return property(lambda self: codec.decode(self.attributes[name]))


def evaluate(op: Any, arrays: Sequence[Any], symbols: Sequence[int]) -> Any:
    """What `op` computes from NumPy `arrays`, by its `ref` rule.

    Args:
        op: an op of the graph dialect.
        arrays: its operands, concrete.
        symbols: the value of every symbol of the enclosing function.
    """
    cls = type(op)
    attributes = cls.attributes_of(op)
    for name, codec in cls.codecs.items():
        if codec is Sizes:
            attributes[name] = tuple(
                evaluate_size(size, symbols) for size in attributes[name]
            )
    result = cls.ref(*arrays, **attributes)
    dtype = dt.to_numpy(Tensor.of(op.results[0]).dtype)
    return np.asarray(result).astype(dtype, copy=False)


def where_of(op: Any) -> str | None:
    """The user's source line of an op."""
    return source_of(op.location)
