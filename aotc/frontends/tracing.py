"""Tracing: Python functions over `Array`s → functions of the graph dialect.

A `Trace` is one function under construction. While it is current, every operation on an
`Array` appends a graph op that remembers the user's source line. Outside of any trace
the same operations compute at once, by the ops' NumPy references; their results are
constants to a later trace.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from aotc import dtypes
from aotc.dialects import OPS, context
from aotc.dialects.types import Shape, Size, Tensor, symbol_names
from aotc.errors import AotcError, InputError
from aotc.frontends.program import Contract, contract_names
from aotc.mlir import func, ir, source_of

_current: ContextVar[Trace | None] = ContextVar("aotc_trace", default=None)
_scopes: ContextVar[tuple[str, ...]] = ContextVar("aotc_scopes", default=())
_source_root: ContextVar[Path | None] = ContextVar("aotc_source_root", default=None)

# Larger arrays would bloat the module's text; they belong into Weights.
LARGEST_CONSTANT = 4 << 20


class Array:
    """A tensor in a model: symbolic while tracing, concrete otherwise.

    Behaves like a NumPy array with a fixed dtype. `shape` may hold symbolic sizes.
    Operators follow NumPy, except that arrays of different dtypes do not mix: convert
    one with `astype`. Python numbers take the dtype of the array they meet.
    """

    __slots__ = ("_data", "_trace", "_value")
    __array_ufunc__ = None  # NumPy arrays leave mixed operators to this class

    def __init__(self, *, value: Any = None, trace: Trace | None = None, data: Any = None):
        self._value = value
        self._trace = trace
        self._data = data

    # ---- what it is -----------------------------------------------------------------

    @property
    def type(self) -> Tensor:
        """Shape and dtype."""
        if self._data is not None:
            return Tensor(self._data.shape, dtypes.canonical(self._data.dtype))
        return Tensor.of(self._value)

    @property
    def shape(self) -> Shape:
        """The sizes; symbolic ones are only known when the model runs."""
        return self.type.shape

    @property
    def dtype(self) -> str:
        """The element type by aotc's name, such as `f32`."""
        return self.type.dtype

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return self.type.rank

    @property
    def size(self) -> Size:
        """The number of elements."""
        from aotc.dialects.types import element_count

        return element_count(self.shape)

    @property
    def T(self) -> Array:  # noqa: N802 - NumPy's name
        """The axes in reverse order."""
        return self._apply("transpose")

    def __len__(self) -> int:
        if not self.ndim:
            raise TypeError("len() of a scalar")
        return self.shape[0].__index__()

    def __iter__(self) -> Iterator[Array]:
        return (self[i] for i in range(len(self)))

    def __repr__(self) -> str:
        return f"Array({self.type})" if self._data is None else f"Array({self._data!r})"

    # ---- what it can be turned into -------------------------------------------------

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        if self._data is None:
            self._no_value("be turned into a NumPy array")
        return np.array(self._data, dtype=dtype, copy=copy)

    def __bool__(self) -> bool:
        return bool(self._concrete("decide a Python condition", _USE_WHERE))

    def __int__(self) -> int:
        return int(self._concrete("be turned into a Python int"))

    def __float__(self) -> float:
        return float(self._concrete("be turned into a Python float"))

    def __index__(self) -> int:
        data = self._concrete("be used as a Python index", _USE_TAKE)
        return int(data.__index__())

    def item(self) -> Any:
        """The Python number of a concrete scalar."""
        return self._concrete("be turned into a Python number").item()

    def _concrete(self, wish: str, hint: str | None = None) -> Any:
        if self._data is None:
            self._no_value(wish, hint)
        return self._data

    def _no_value(self, wish: str, hint: str | None = None) -> NoReturn:
        raise InputError(
            "traced-value",
            f"a traced array ({self.type}) has no value yet, so it cannot {wish}",
            where=user_line(),
            hint=hint or "compute it inside the model, or before the entry is traced",
        )

    def __setitem__(self, key: Any, value: Any) -> None:
        raise InputError(
            "immutable-array",
            "arrays in a model cannot be assigned to",
            where=user_line(),
            hint="build a new array: np.where, np.concatenate or "
            "aotc.numpy.dynamic_update_slice",
        )

    # ---- operators and methods: all of them aotc.numpy functions ---------------------

    def _apply(self, function: str, *args: Any, **kwargs: Any) -> Any:
        return getattr(import_module("aotc.numpy"), function)(self, *args, **kwargs)

    def _reverse(self, function: str, other: Any) -> Any:
        return getattr(import_module("aotc.numpy"), function)(other, self)

    def __getitem__(self, key: Any) -> Array:
        result: Array = import_module("aotc.numpy").getitem(self, key)
        return result

    __hash__ = object.__hash__


_USE_WHERE = "use aotc.numpy.where, or decide on shapes and Python values only"
_USE_TAKE = "use aotc.numpy.take or dynamic_slice for positions computed by the model"

_OPERATORS = {
    "add": "add",
    "sub": "subtract",
    "mul": "multiply",
    "truediv": "divide",
    "floordiv": "floor_divide",
    "mod": "remainder",
    "pow": "power",
    "matmul": "matmul",
    "and": "bitwise_and",
    "or": "bitwise_or",
    "xor": "bitwise_xor",
    "lshift": "left_shift",
    "rshift": "right_shift",
}
_COMPARISONS = {
    "eq": "equal",
    "ne": "not_equal",
    "lt": "less",
    "le": "less_equal",
    "gt": "greater",
    "ge": "greater_equal",
}
_METHODS = (
    "astype reshape transpose sum mean max min prod argmax argmin squeeze ravel any all var "
    "std clip".split()
)


def _delegate(function: str, *, reverse: bool = False) -> Callable[..., Any]:
    if reverse:
        return lambda self, other: self._reverse(function, other)
    return lambda self, *args, **kwargs: self._apply(function, *args, **kwargs)


for _name, _function in _OPERATORS.items():
    setattr(Array, f"__{_name}__", _delegate(_function))
    setattr(Array, f"__r{_name}__", _delegate(_function, reverse=True))
for _name, _function in _COMPARISONS.items():
    setattr(Array, f"__{_name}__", _delegate(_function))
for _name in _METHODS:
    setattr(Array, _name, _delegate(_name))
for _name, _function in {"neg": "negative", "abs": "abs", "invert": "invert"}.items():
    setattr(Array, f"__{_name}__", _delegate(_function))


# ---- traces -------------------------------------------------------------------------


class Trace:
    """One graph function under construction.

    Args:
        module: the MLIR module it goes into.
        name: of the function; made unique within the module.
        arguments: their types.
        contracts: the symbols that types may mention.
        parent: the trace that this one is nested in; its arrays may be captured.
    """

    def __init__(
        self,
        module: Any,
        name: str,
        arguments: Sequence[Tensor],
        contracts: Sequence[Contract],
        parent: Trace | None = None,
    ) -> None:
        self.module = module
        self.contracts = tuple(contracts)
        self.parent = parent
        self.captures: dict[Any, Any] = {}
        self.captured: list[Array] = []
        with context(), location(), ir.InsertionPoint(module.body):
            types = [tensor.to_mlir() for tensor in arguments]
            self.function = func.FuncOp(_unique(module, name), (types, []))
            self.block = self.function.add_entry_block()
            if parent is not None:
                self.function.attributes["sym_visibility"] = ir.StringAttr.get("private")

    @property
    def name(self) -> str:
        """The name of the function."""
        return str(ir.StringAttr(self.function.attributes["sym_name"]).value)

    @property
    def arguments(self) -> list[Array]:
        """The function's arguments so far, captures included."""
        return [Array(value=v, trace=self) for v in self.block.arguments]

    @contextmanager
    def active(self) -> Iterator[None]:
        """Within this block, operations on arrays append to this function."""
        token = _current.set(self)
        try:
            with context(), symbol_names(contract_names(self.contracts)):
                yield
        finally:
            _current.reset(token)

    def value_of(self, array: Array) -> Any:
        """The MLIR value of `array` in this function; captures and constants included."""
        if array._data is not None:
            return self._constant(array._data)
        if array._trace is self:
            return array._value
        self._require_ancestor(array)
        if array._value not in self.captures:
            with context(), location():
                self.captures[array._value] = self.block.add_argument(
                    array._value.type, ir.Location.current
                )
            self.captured.append(array)
        return self.captures[array._value]

    def _constant(self, data: Any) -> Any:
        if data.nbytes > LARGEST_CONSTANT:
            raise InputError(
                "large-constant",
                f"an array of {data.nbytes} bytes would become a constant in the code",
                where=user_line(),
                hint="pass it to the entry as aotc.Weights",
            )
        return self.build("constant", value=data)

    def _require_ancestor(self, array: Array) -> None:
        ancestor = self.parent
        while ancestor is not None:
            if array._trace is ancestor:
                return
            ancestor = ancestor.parent
        raise InputError(
            "leaked-array",
            f"a traced array ({array.type}) is used outside of the function it was "
            "traced in",
            where=user_line(),
            hint="return it from that function instead of storing it elsewhere",
        )

    def build(self, name: str, *operands: Any, **attributes: Any) -> Any:
        """Append the op `name`; operands are MLIR values."""
        with location(), ir.InsertionPoint(self.block):
            return OPS[name].build(*operands, **attributes)

    def finish(self, results: Sequence[Array]) -> None:
        """Return `results`; the function is complete."""
        values = [self.value_of(array) for array in results]
        with context(), location(), ir.InsertionPoint(self.block):
            func.ReturnOp(values)
            inputs = [value.type for value in self.block.arguments]
            whole = ir.FunctionType.get(inputs, [value.type for value in values])
            self.function.attributes["function_type"] = ir.TypeAttr.get(whole)
            self.function.attributes["graph.symbols"] = symbols_attribute(self.contracts)


def current_trace() -> Trace | None:
    """The function being traced, if any."""
    return _current.get()


def symbols_attribute(contracts: Sequence[Contract]) -> Any:
    """The contracts as the function attribute `graph.symbols`."""

    def number(value: int) -> Any:
        return ir.IntegerAttr.get(ir.IntegerType.get_signless(64), value)

    rows = []
    for contract in contracts:
        row = {
            "name": ir.StringAttr.get(contract.name),
            "min": number(contract.min),
            "multiple_of": number(contract.multiple_of),
        }
        if contract.max is not None:
            row["max"] = number(contract.max)
        rows.append(ir.DictAttr.get(row))
    return ir.ArrayAttr.get(rows)


def _unique(module: Any, name: str) -> str:
    taken = {
        ir.StringAttr(op.attributes["sym_name"]).value
        for op in module.body.operations
        if "sym_name" in op.attributes
    }
    if name not in taken:
        return name
    return next(f"{name}_{n}" for n in range(len(taken) + 1) if f"{name}_{n}" not in taken)


def emit(name: str, *operands: Any, **attributes: Any) -> Array:
    """Apply the op `name` to arrays: append it to the current trace, or compute it.

    Raises:
        InputError: operands or attributes are invalid; `where` is the user's line.
    """
    try:
        trace = _current.get()
        if trace is None:
            return _evaluate(name, operands, attributes)
        values = [trace.value_of(operand) for operand in operands]
        return Array(value=trace.build(name, *values, **attributes), trace=trace)
    except AotcError as error:
        error.where = error.where or user_line()
        raise


def _evaluate(name: str, operands: Sequence[Any], attributes: dict[str, Any]) -> Array:
    op = OPS[name]
    for array in operands:
        if array._data is None:
            array._no_value("be computed with outside of its entry")
    with context():
        result = op.infer(*(array.type for array in operands), **attributes)
        with np.errstate(all="ignore"):
            value = op.ref(*(array._data for array in operands), **attributes)
    return Array(data=np.asarray(value).astype(dtypes.to_numpy(result.dtype), copy=False))


def lift(x: Any, like: str | None = None) -> Array:
    """`x` as an Array; Python numbers take dtype `like`, or their own default.

    Raises:
        InputError: `x` is nothing that an array can be made of.
    """
    if isinstance(x, Array):
        return x
    if isinstance(x, (bool, int, float)):
        return Array(data=_number(x, like))
    try:
        data = np.asarray(x)
        dtypes.canonical(data.dtype)
    except (InputError, ValueError):
        raise InputError(
            "not-an-array",
            f"expected an array or a number; got {type(x).__name__}",
            where=user_line(),
        ) from None
    return Array(data=data)


def _number(x: bool | int | float, like: str | None) -> Any:
    natural = dtypes.canonical(type(x) if type(x) in (bool, int) else float)
    if like is None or not _fits(natural, like):
        like = natural
    try:
        return np.array(x).astype(dtypes.to_numpy(like), casting="unsafe")
    except OverflowError:
        raise InputError(
            "dtype-mismatch", f"{x} is out of the range of {like}", where=user_line()
        ) from None


def _fits(natural: str, like: str) -> bool:
    """Whether a Python number of dtype `natural` may become `like` without notice."""
    if natural == "bool":
        return True
    if natural == "i32":
        return like != "bool"
    return dtypes.is_float(like)


# ---- places -------------------------------------------------------------------------


@contextmanager
def scope(name: str) -> Iterator[None]:
    """Within this block, ops carry `name` in the layer path of their location."""
    token = _scopes.set((*_scopes.get(), name))
    try:
        yield
    finally:
        _scopes.reset(token)


@contextmanager
def source_root(folder: Path) -> Iterator[None]:
    """Within this block, locations name files relative to `folder`."""
    token = _source_root.set(folder.resolve())
    try:
        yield
    finally:
        _source_root.reset(token)


def _user_frame() -> Any:
    frame = sys._getframe(1)
    while frame.f_back is not None:
        module = frame.f_globals.get("__name__", "")
        if module != "aotc" and not module.startswith(("aotc.", "contextlib")):
            break
        frame = frame.f_back
    return frame


def location() -> Any:
    """The user's line that is being executed, as an MLIR location."""
    frame = _user_frame()
    place = ir.Location.file(_relative(frame.f_code.co_filename), frame.f_lineno, 0)
    path = "/".join(_scopes.get())
    return ir.Location.name(path, place) if path else place


def user_line() -> str | None:
    """The user's line that is being executed, for messages."""
    with context():
        return source_of(location())


def _relative(filename: str) -> str:
    root = _source_root.get()
    path = Path(filename)
    if root is not None and path.is_absolute() and path.is_relative_to(root):
        return path.relative_to(root).as_posix()
    return path.name
