"""The graph dialect and the base class of its ops.

Every op is one class that holds everything known about it, in this order:

    docstring    what it computes, as a formula
    why          why it is an op, and not a function made of others
    fields       operands, attributes, results
    infer        operand types and attributes → result type; raises on invalid ones
    ref          its meaning, in NumPy
    jvp          tangents of the operands → tangent of the result
    vjp          cotangent of the result → cotangents of the operands
    batch        operands with a leading axis → the results with it
    pad          operands in the sizes of a bucket → the results in them
    lower        the op as linalg on tensors
    samples      typical and extreme uses; the op × rule test runs every rule on them

An op with several results has a tuple in each place where others have one thing: the
types of `infer`, the arrays of `ref`, the tangents of `jvp` and the cotangents that
`vjp` gets.

What a rule is given says what it may ask: `infer` gets `Tensor`s, `ref` arrays, and the
others a `Builder` or a `Lowering` to write with, the op as its own class, and `Value`s.
A tangent is a `Tangent` where it may be None, for zero. The op is `Self` in a class
method, and its class's name in quotes in a static one.

A rule that does not apply holds a `Reason`, never nothing. `verify` follows from
`infer`: an op is valid when its operands and attributes infer its result types.
In the place of `lower` an op may have `decompose`: itself in other ops of the dialect,
which the pass of that name puts in its place. It may also have `simplify`: rows that
say where an equal, cheaper value takes its place (`aotc.dialects.patterns`); `reorder`:
itself on operands whose axes come in another order, which lets transposes move past it;
`view`: what its result is of that which its first operand is a view of
(`aotc.dialects.movement.views`); `nests`: the loops over views of its operands that it
is (`aotc.dialects.movement.nests`); `cascade`: itself in nests and elementwise ops, one
after the other; and `composition`: itself in ops that may be kernels of their own,
where those of a GPU are faster so. Of a product, `scaled_axes` says where its operands
may be scaled in the place of its result, and `summed_axes` where one of them in the
place of the other. An op with an effect beside its results is not `Pure`.

What passes and kernels need to know of an op they ask its class: facts that are true of
all its uses are attributes (`rearranges`, `on_vectors`, `is_costly`, `in_memory`, …),
those of a use are class methods (`flops`, `scaled_axes`, …); `GraphOp` has them all.
Nothing looks at the name of an op, or at the file that it stands in.

The base of all ops is `GraphOp`; families add their own base classes. The bindings
evaluate annotations, so modules of this package must not postpone them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, wraps
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

import numpy as np

from aotc.core import dtypes as dt
from aotc.dialects.attributes import Attribute, Sizes, read_attribute
from aotc.dialects.movement.nests import Nest
from aotc.dialects.movement.views import View
from aotc.dialects.sizes.contracts import Contract
from aotc.dialects.sizes.symbols import current_contracts
from aotc.dialects.types import Size, Tensor, evaluate_size
from aotc.errors import AotcError, CompileError, InputError
from aotc.machine.target import Target
from aotc.mlir import Operation, Type, Value, ext, ir, source_of

Pure = ext.Pure

if TYPE_CHECKING:
    from aotc.dialects.patterns.rows import RewriteRow

T = TypeVar("T")

MOST_REMEMBERED = 2**16  # signatures of ops

if TYPE_CHECKING:  # what the bindings evaluate is no type to static tools

    class Operand(Value, Generic[T]):
        """A field that holds an operand."""

    class Result(Value, Generic[T]):
        """A field that holds a result."""
else:
    Operand = ext.Operand
    Result = ext.Result

# A tangent or cotangent, or a factor of one; None where it is zero.
Tangent = Value | None

RULES = ("verify", "infer", "ref", "jvp", "vjp", "batch", "pad", "lower", "samples")


class Graph(ext.Dialect, name="graph"):  # type: ignore[call-arg,misc]
    """Pure dataflow on ranked tensors; closed under differentiation."""


if TYPE_CHECKING:
    _Declared = ir.OpView
else:
    _Declared = Graph.Operation


@dataclass(frozen=True)
class Reason:
    """Placeholder for a rule that an op lacks, with the reason; raises when called."""

    kind: str
    text: str
    hint: str | None = None

    def __call__(self, *_: object, **__: object) -> Any:
        """Raise CompileError with the reason."""
        raise CompileError(self.kind, self.text, hint=self.hint)


def NOT_DIFFERENTIABLE(  # noqa: N802 - reads like the constant it is
    why: str, hint: str | None = None
) -> Reason:
    """Return the `Reason` why an op has no derivative; `hint` is the advice."""
    return Reason("not-differentiable", why, hint)


# Why an op has no `pad` rule: it gets operands cut to the sizes of the call.
CUT = Reason("not-padded", "it is computed in the sizes of the call")


# What mixed precision does with the f32 operands of an op: computes in the cheaper
# dtype; keeps f32, for range or digits; keeps it until the result meets what is not; or
# does what the op before did.
LOW, WIDE, WIDENS, FOLLOWS = "low", "f32", "widens", "follows"
GIVEN, WHOLE = (
    "given",
    "whole",
)  # kinds of values besides, see `dialects/rules/mixing.py`


class GraphOp(_Declared):
    """Base of every graph op: building, typed attributes, and the generic verifier."""

    # No annotations here or in subclasses but those of fields: the bindings read them.
    if TYPE_CHECKING:
        # what the bindings make of the class statement
        OPERATION_NAME: str
        _op_name: str
        _traits: list[Any]
        _fields: list[Any]
        dtypes: tuple[str, ...]
        codecs: dict[str, type[Attribute[Any]]]
        # the rules
        infer: Callable[..., Tensor | tuple[Tensor, ...]]
        ref: Callable[..., Any]
        jvp: Callable[..., Tangent | Sequence[Tangent]]
        vjp: Callable[..., Sequence[Tangent]]
        batch: Callable[..., Value | Sequence[Value]]
        pad: Any
        lower: Callable[..., Value | Sequence[Value]]
        decompose: Callable[..., Value | Sequence[Value]]
        simplify: "tuple[RewriteRow, ...]"
        reorder: Callable[..., tuple[Value, ...]]
        samples: Sequence[Any]
        # facts of some ops
        cascade: Any
        composition: Any
        counter: Any
        counted_axis: Any
    why = ""
    is_constant = False  # whether differentiation takes the results as constants
    precision = FOLLOWS  # what mixed precision does with it
    is_approximated = False  # whether compiled code only comes near to its formula
    rearranges = False  # whether its result has no elements but those of its operand
    keeps_order = False  # whether these are all of them, in the same order
    is_exact = False  # whether compiled code rounds just as `ref`, in the same order
    selects = False  # whether its results have no numbers but operands' and constants
    adds_products = False  # whether it is sums of products of its operands' elements
    commutes = False  # whether its operands may change places
    takes_images = False  # whether x and y are N, spatial axes, C
    on_vectors = False  # whether `lower` takes vectors of f32 as well as tensors
    on_integers = False  # whether it takes vectors of i32, too
    on_masks = False  # whether it takes vectors of f32 or i32 beside those of bool
    on_scalars = False  # whether `lower` takes elements in the place of such tensors
    is_free = False  # whether its readers make its elements: nothing is stored for it
    in_memory = False  # whether IREE stores its results, before anything reads them
    expands = False  # whether its operands are kept in its place: they are smaller
    is_for_kernels = False  # whether it is its composition where it has no kernel
    is_costly = False  # whether it does much more than to read and write its elements
    reads_bits = False  # whether it would mean something else in another dtype
    dtypes = dt.FLOATS
    codecs = {}
    pad = CUT
    simplify = ()
    cascade = None  # of a builder and an op: its results, of nests and elementwise ops
    composition = None  # the same, of ops each of which has a kernel of its own
    counter = None  # of an op: how its elements count along an axis, if they do
    counted_axis = None  # of an op and an axis that its operand counts along: its own

    @staticmethod
    def cancelling(x: Any) -> Any:
        """Return terms of the op's sums that may cancel, as in 1 + erf x; or None.

        Args:
            x: the first operand, an array.
        """
        return None

    def __init_subclass__(cls, **options: object) -> None:
        """Make attribute fields of a new op class readable as Python values."""
        annotations = cls.__dict__.get("__annotations__", {})
        own = {n: k for n, k in annotations.items() if _is_attribute(k)}
        cls.codecs = {**cls.codecs, **own}
        cls.__annotations__ = {
            n: Any if n in own else k for n, k in annotations.items()
        }
        super().__init_subclass__(**options)
        if "name" in options:
            _read_operands_by_place(cls)
            for name, codec in cls.codecs.items():
                setattr(cls, name, _attribute_property(name, codec))

    @classmethod
    def attributes_of(cls, op: Operation) -> dict[str, Any]:
        """Return the attributes of `op` as Python values, by name."""
        stored = op.attributes
        return {n: read_attribute(stored, n, codec) for n, codec in cls.codecs.items()}

    @classmethod
    def build(cls, *operands: Value, **attributes: Any) -> Any:
        """Emit this op at the insertion point, and return its results.

        The result types are inferred; all attributes must be given.

        Returns:
            The result; a list of them where `infer` gives a tuple.
        """
        inferred = cls.infer(*map(Tensor.of, operands), **attributes)
        op = ir.Operation.create(
            cls.OPERATION_NAME,
            results=[tensor.to_mlir() for tensor in as_tuple(inferred)],
            operands=list(operands),
            attributes={n: c.encode(attributes[n]) for n, c in cls.codecs.items()},
        )
        return list(op.results) if isinstance(inferred, tuple) else op.results[0]

    def rebuild(self, *operands: Value, **changes: object) -> Any:
        """Emit the same op on other operands, with some attributes changed."""
        return self.build(*operands, **(self.attributes_of(self) | changes))

    @classmethod
    def verify_invariants(cls, op: Operation) -> bool:
        """Return whether an op has the types that `infer` gives; else emit an error."""
        with op.context:
            flaw = _violation(*signature_of(op, cls))
        if flaw is not None:
            op.location.emit_error(f"graph.{cls._op_name}: {flaw}")
        return flaw is None

    @classmethod
    def _require_operands(cls, count: int) -> None:
        """Raise InputError for a number of operands that the op does not declare."""
        fields = [f for f in cls._fields if isinstance(f, ext.OperandDef)]
        single = [f for f in fields if f.variadicity == ext.Variadicity.single]
        if count < len(single) or (count > len(single) and single == fields):
            raise InputError(
                "malformed-op", f"expected {len(fields)} operands; got {count}"
            )

    @classmethod
    def result_orders(cls, op: Self, order: tuple[int, ...]) -> list[tuple[int, ...]]:
        """Return the axis permutation of each result after `reorder`."""
        return [order] * len(op.results)

    @classmethod
    def view(cls, op: Self, x: View) -> View | None:
        """Return the op's result as a view, given its first operand as one; or None.

        None where the result is no view, or the two have none together.
        """
        return None

    @classmethod
    def nests(cls, op: Self) -> tuple[Nest, ...]:
        """Return the loop nests that compute the op, one per part of its result, or ().

        () where the op is more than loops, or something else.
        """
        return ()

    @classmethod
    def scaled_axes(cls, op: Self, operand: int) -> dict[int, int]:
        """Return {result axis: operand axis} of axes that keep scales; {} for none.

        Scaling the operand along such an axis scales the result along its axis.
        """
        return {}

    @classmethod
    def summed_axes(cls, op: Self) -> dict[int, int]:
        """Return {axis of operand 0: axis of operand 1} of the contracted axes.

        Scaling either operand along one scales the same products. {} for none.
        """
        return {}

    @classmethod
    def flops(cls, op: Self) -> Size | None:
        """Return the number of float operations by the op's formula; None if unknown.

        One for each element of an elementwise op, and of what only moves elements; None
        where the number is not known.
        """
        is_plain = cls.on_vectors or cls.rearranges
        return Tensor.of(op.results[0]).elements if is_plain else None

    @classmethod
    def is_merged(cls, op: Self) -> bool:
        """Return whether IREE fuses the op into the readers of its result."""
        shape = Tensor.of(op.results[0]).shape if len(op.results) else None
        is_same = all(Tensor.of(value).shape == shape for value in op.operands)
        return is_same and cls.on_scalars

    @classmethod
    def kept_axes(cls, op: Self, operand: int) -> dict[int, int]:
        """Return a mapping from axes of an operand to axes of the result, if fused."""
        return {axis: axis for axis in range(Tensor.of(op.operands[operand]).rank)}

    @classmethod
    def is_nonnegative(cls, op: Self, is_known: Callable[[Value], bool]) -> bool:
        """Return whether no element of the op's integer result is below 0.

        Args:
            op: that is asked about.
            is_known: says whether that is known of an operand.
        """
        return cls.rearranges and is_known(op.operands[0])

    @classmethod
    def limit(cls, op: Self, target: Target) -> str | None:
        """Return why a target cannot run this use of the op; None if it can."""
        return None

    @classmethod
    def caveat(cls, op: Self) -> str | None:
        """Return how the compiled op differs from its formula; None if not."""
        return None

    @classmethod
    def rule(cls, name: str) -> Any:
        """Return the rule `name`, the `Reason` why it is missing, or None."""
        if name == "verify":
            return cls.verify_invariants
        if name == "lower" and hasattr(cls, "decompose"):
            return cls.decompose
        return getattr(cls, name, None)


def has_view(op: Operation) -> bool:
    """Return whether the op's class has a `view` rule of its own."""
    return isinstance(op, GraphOp) and "view" in {
        name for cls in type(op).__mro__ if cls is not GraphOp for name in vars(cls)
    }


def view_of_result(op: GraphOp, operand: View) -> View | None:
    """Return an op's result as a view, given its first operand as one; or None."""
    return type(op).view(op, operand)


def as_tuple(found: Any) -> tuple[Any, ...]:
    """Return a rule's result or results as a tuple."""
    return tuple(found) if isinstance(found, (tuple, list)) else (found,)


# the class of an op, the types of its operands and results, its attributes in the order
# of its fields, and the contracts that are known
Signature = tuple[
    Any,  # a class counts as hashable only so
    tuple[Type, ...],
    tuple[Type, ...],
    tuple[ir.Attribute | None, ...],
    tuple[Contract, ...],
]


def signature_of(op: Operation, cls: type[GraphOp]) -> Signature:
    """Return an op's class, types, attributes and the known contracts: a cache key."""
    stored = op.attributes
    return (
        cls,
        tuple([value.type for value in op.operands]),
        tuple([value.type for value in op.results]),
        tuple([stored.get(name, None) for name in cls.codecs]),
        current_contracts(),
    )


def remembered_by_signature(fact: Callable[..., T]) -> Callable[..., T]:
    """Wrap a function of ops to cache its results by the ops' signatures.

    Args:
        fact: takes ops, or None, and reads nothing of them but their signatures.
    """
    known: dict[tuple[Signature | None, ...], T] = {}

    @wraps(fact)
    def remembered(*ops: GraphOp | None) -> T:
        key = tuple([None if op is None else signature_of(op, type(op)) for op in ops])
        if key not in known:
            if len(known) == MOST_REMEMBERED:
                known.clear()
            known[key] = fact(*ops)
        return known[key]

    remembered.cache_clear = known.clear  # type: ignore[attr-defined]
    return remembered


def has_effect(op: Operation) -> bool:
    """Return whether `op` must be kept if unused: all but graph ops that are pure."""
    return not isinstance(op, GraphOp) or Pure not in type(op)._traits


@lru_cache(maxsize=MOST_REMEMBERED)  # most ops are like one before, or the same
def _violation(
    cls: Any,
    operands: tuple[Type, ...],
    results: tuple[Type, ...],
    attributes: tuple[ir.Attribute | None, ...],
    _: tuple[Contract, ...],
) -> str | None:
    """Return why an op of these types and attributes is invalid; None if it is valid.

    Rules may ask for the contracts that are known.
    """
    stored = {
        n: a for n, a in zip(cls.codecs, attributes, strict=True) if a is not None
    }
    try:
        cls._require_operands(len(operands))
        values = {n: read_attribute(stored, n, c) for n, c in cls.codecs.items()}
        expected = as_tuple(cls.infer(*map(Tensor.of, operands), **values))
    except AotcError as error:
        return error.message
    actual = tuple(map(Tensor.of, results))
    if expected != actual:
        return (
            f"the operands give {_type_list(expected)}, "
            f"but the result type is {_type_list(actual)}"
        )
    return None


def _type_list(types: Sequence[Tensor]) -> str:
    """Return types as text, separated by commas."""
    return ", ".join(map(str, types))


def _is_attribute(kind: object) -> bool:
    """Return whether a field's annotation is an `Attribute` codec."""
    return isinstance(kind, type) and issubclass(kind, Attribute)


def _read_operands_by_place(cls: type[GraphOp]) -> None:
    """Give an op class a property for each operand field, which reads it by index.

    The bindings would look for an attribute that counts them.
    """
    fields = [f for f in cls._fields if isinstance(f, ext.OperandDef)]
    for place, field in enumerate(fields):
        single = field.variadicity == ext.Variadicity.single
        setattr(cls, field.name, _operand_property(place, single))


def _operand_property(place: int, single: bool) -> property:
    """Return a property that reads operand `place`, or the list from there on."""
    if single:
        return property(lambda self: self.operands[place])
    return property(lambda self: list(self.operands)[place:])


def _attribute_property(name: str, codec: type[Attribute[object]]) -> property:
    """Return a property that decodes the attribute `name`."""
    return property(lambda self: codec.decode(self.attributes[name]))


def evaluate(
    op: GraphOp, arrays: Sequence[np.ndarray], symbols: Sequence[int]
) -> list[np.ndarray]:
    """Return the results that an op's `ref` rule computes from NumPy arrays.

    Sums of products are made in f64 and rounded once: what a bundle stores of them is
    then the same on all processors, as far as the library allows that multiplies.

    Args:
        op: an op of the graph dialect.
        arrays: its operands, concrete.
        symbols: the value of every symbol of the enclosing function.
    """
    if type(op).precision == LOW:
        arrays = [
            x.astype(np.float64) if dt.is_float(dt.canonical_dtype(x.dtype)) else x
            for x in arrays
        ]
    return Evaluator()(op, arrays, symbols)


class Evaluator:
    """Evaluates ops by their `ref` rules, and caches the attributes of each op."""

    def __init__(self) -> None:
        self._known: dict[Any, tuple[dict[str, Any], list[Tensor]]] = {}

    def __call__(
        self, op: GraphOp, arrays: Sequence[np.ndarray], symbols: Sequence[int]
    ) -> list[np.ndarray]:
        """Return the results of an op on NumPy arrays, as `evaluate` does."""
        cls = type(op)
        if op not in self._known:
            self._known[op] = cls.attributes_of(op), list(map(Tensor.of, op.results))
        stored, types = self._known[op]
        attributes = dict(stored)
        for name, codec in cls.codecs.items():
            if codec is Sizes:
                attributes[name] = tuple(
                    evaluate_size(size, symbols) for size in stored[name]
                )
        try:
            results = as_tuple(cls.ref(*arrays, **attributes))
        except AotcError as error:  # such as a failed assertion
            error.where = error.where or where_of(op)
            raise
        return [in_dtype(x, kind) for x, kind in zip(results, types, strict=True)]


def in_dtype(array: np.ndarray, kind: Tensor) -> np.ndarray:
    """Return an array that a `ref` rule returned, cast to the dtype of its type."""
    return np.asarray(array).astype(dt.to_numpy(kind.dtype), copy=False)


def where_of(op: Operation) -> str | None:
    """Return the user's source line that an op's location names, or None."""
    return source_of(op.location)
