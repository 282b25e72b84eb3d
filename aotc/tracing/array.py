"""`Array`: the value that a model computes with.

Its operators and methods are the functions of `aotc.numpy`, which is written in terms
of this class and provides them (`aotc.tracing.operators`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, cast

import numpy as np

from aotc.core import dtypes
from aotc.core.dtypes import DTypeLike
from aotc.dialects.types import Shape, Size, Tensor, element_count
from aotc.tracing.call_sizes import call_shape, call_size
from aotc.tracing.call_values import branch_value
from aotc.tracing.effects import warn_of_text
from aotc.tracing.operators import function_of
from aotc.tracing.source_locations import calling_place, fail
from aotc.tracing.spellings import exact_names

if TYPE_CHECKING:
    from aotc.numpy.updating import At
    from aotc.tracing.scopes import OpScope

_USE_WHERE = "use aotc.numpy.where, or decide on shapes and Python values only"
_USE_TAKE = "use aotc.numpy.take or dynamic_slice for positions computed by the model"
_USE_PRINT = "aotc.debug.print shows the values of each call; '{}' shows the type"
_USE_AOTC = "use the functions of aotc.numpy on it"


def _method(function: str) -> Callable[..., Array]:
    """Return a method `array.method(…)` that calls `aotc.numpy.function(array, …)`."""

    def method(self: Array, *args: object, **kwargs: object) -> Any:
        # as in NumPy, None says that the other operand has its own operators
        if args and getattr(args[0], "__array_ufunc__", self) is None:
            return NotImplemented
        return function_of(function)(self, *args, **kwargs)

    method.__doc__ = f"aotc.numpy.{function} of this array."
    return method


def _rmethod(function: str) -> Callable[..., Array]:
    """Return a reflected operator that calls `aotc.numpy.function(other, array)`."""

    def method(self: Array, other: object) -> Array:
        return function_of(function)(other, self)

    return method


class Array:
    """A tensor in a model: symbolic while it is traced, concrete otherwise.

    Behaves like a NumPy array with a fixed dtype. `shape` may hold symbolic sizes.
    Operators follow NumPy, except that arrays of different dtypes do not mix: convert
    one with `astype`. Python numbers take the dtype of the array they meet.
    """

    # Read by tracing.py and execution.py. Either `_data`, of a constant, or `_value`,
    # what the array is in `_trace`: an MLIR value in a function that is traced. Where
    # the model is executed at once its numbers are `_known` all the same, for people
    # to look at: functions of aotc ask for `_data`, so that they do what they would do
    # if the model were traced.
    #
    # `_is_weak` says that it is a Python number which each call gives: it takes the
    # dtype of the array it meets (`aotc.tracing.conversion`).
    __slots__ = ("_data", "_is_weak", "_known", "_trace", "_type", "_value")

    def __init__(
        self,
        *,
        value: Any = None,
        trace: OpScope | None = None,
        data: np.ndarray | None = None,
        known: np.ndarray | None = None,
    ) -> None:
        self._value = value
        self._trace = trace
        self._data = data
        self._known = data if known is None else known
        self._is_weak = False
        # known at once: who looks at the array after its trace has no value to ask
        self._type = Tensor.of(value) if self._known is None else None

    # ---- what it is -----------------------------------------------------------------

    @property
    def type(self) -> Tensor:
        """The shape and dtype."""
        if self._type is None:
            data = self._known
            assert data is not None  # as it has no value either
            self._type = Tensor(data.shape, dtypes.canonical_dtype(data.dtype))
        return self._type

    @property
    def shape(self) -> Shape:
        """The sizes; symbolic ones are only known when the model runs.

        These compare by values (`aotc.tracing.call_sizes`), those of `type` by what
        they are in the types of the graph.
        """
        return call_shape(self.type.shape)

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
        return call_size(element_count(self.type.shape))

    def __len__(self) -> int:
        if not self.ndim:
            raise TypeError("len() of a scalar")
        return self.shape[0].__index__()

    def __iter__(self) -> Iterator[Array]:
        return (self[i] for i in range(len(self)))

    def __repr__(self) -> str:
        return f"Array({self.type if self._known is None else repr(self._known)})"

    def __str__(self) -> str:
        if self._known is None:
            warn_of_text(calling_place(__name__))
        return repr(self)

    __hash__ = object.__hash__

    # ---- what it can be turned into -------------------------------------------------

    def __array__(
        self, dtype: DTypeLike | None = None, copy: bool | None = None
    ) -> np.ndarray:
        data = self._concrete("be turned into a NumPy array", _USE_AOTC)
        return np.array(data, dtype=dtype, copy=copy)

    def __array_ufunc__(
        self, ufunc: np.ufunc, method: str, *inputs: object, **options: object
    ) -> object:
        """Apply NumPy's operators on mixed operands as aotc's; other ufuncs by
        NumPy.
        """
        if method == "__call__" and ufunc.__name__ in _OPERATORS and not options:
            return function_of(ufunc.__name__)(*inputs)
        return _leave_to_numpy(ufunc.__name__, getattr(ufunc, method), inputs, options)

    def __array_function__(
        self,
        function: Callable[..., object],
        types: object,
        args: Sequence[object],
        kwargs: Mapping[str, object],
    ) -> object:
        """Apply NumPy's functions to concrete arrays only."""
        return _leave_to_numpy(function.__name__, function, args, kwargs)

    def __bool__(self) -> bool:
        return bool(self._concrete("decide a Python condition", _USE_WHERE))

    def __int__(self) -> int:
        return int(self._concrete("be turned into a Python int"))

    def __float__(self) -> float:
        return float(self._concrete("be turned into a Python float", _USE_AOTC))

    def __format__(self, spec: str) -> str:
        if not spec:
            return str(self)
        data = self._concrete(f"be formatted with '{spec}'", _USE_PRINT)
        return format(data.item() if not data.ndim else data, spec)

    def __index__(self) -> int:
        data = self._concrete("be used as a Python index", _USE_TAKE)
        return int(data.__index__())

    def item(self) -> Any:
        """Return a concrete scalar as a Python number."""
        return self._concrete("be turned into a Python number").item()

    def tolist(self) -> Any:
        """Return a concrete array as a nested list."""
        return self._concrete("be turned into a list").tolist()

    def _concrete(self, purpose: str, hint: str | None = None) -> np.ndarray:
        """Return the array's value; raise for a traced array that has none."""
        if self._known is not None:
            return self._known
        data = branch_value(self)
        if data is None:
            self._fail_without_value(purpose, hint)
        return data

    def _fail_without_value(self, purpose: str, hint: str | None = None) -> NoReturn:
        """Raise the error for an array without a value; `purpose` follows "it
        cannot".
        """
        fail(
            "traced-value",
            f"a traced array ({self.type}) has no value yet, so it cannot {purpose}",
            hint or "compute it inside the model, or before the entry is traced",
        )

    # ---- indexing and shape ---------------------------------------------------------

    __getitem__ = _method("getitem")

    @property
    def at(self) -> At:
        """`x.at[key].set(values)`, `.add(…)`, …: a new array with elements changed."""
        return cast("At", function_of("at")(self))

    def __setitem__(self, key: object, value: object) -> None:
        fail(
            "immutable-array",
            "arrays in a model cannot be assigned to",
            "build a new array: x.at[key].set(values), aotc.numpy.where or "
            "dynamic_update_slice",
        )

    @property
    def T(self) -> Array:  # noqa: N802 - NumPy's name
        """The transposed array: its axes in reverse order."""
        return self.transpose()

    def reshape(self, *shape: object) -> Array:
        """Reshape as `aotc.numpy.reshape` does; sizes one by one or as a tuple."""
        return function_of("reshape")(self, shape[0] if len(shape) == 1 else shape)

    def transpose(self, *axes: object) -> Array:
        """Transpose as `aotc.numpy.transpose` does; axes one by one, as a tuple, or
        none at all.
        """
        listed = len(axes) == 1 and not isinstance(axes[0], int)
        return function_of("transpose")(self, axes[0] if listed else axes or None)

    # ---- methods and operators that are functions of aotc.numpy ---------------------

    astype = _method("astype")
    ravel = _method("ravel")
    flatten = _method("ravel")
    squeeze = _method("squeeze")
    swapaxes = _method("swapaxes")
    take = _method("take")
    repeat = _method("repeat")
    clip = _method("clip")
    dot = _method("dot")
    sum = _method("sum")
    prod = _method("prod")
    mean = _method("mean")
    var = _method("var")
    std = _method("std")
    max = _method("max")
    min = _method("min")
    any = _method("any")
    all = _method("all")
    argmax = _method("argmax")
    argmin = _method("argmin")

    __neg__ = _method("negative")
    __pos__ = _method("positive")
    __abs__ = _method("abs")
    __round__ = _method("round")
    __invert__ = _method("invert")

    __add__, __radd__ = _method("add"), _rmethod("add")
    __sub__, __rsub__ = _method("subtract"), _rmethod("subtract")
    __mul__, __rmul__ = _method("multiply"), _rmethod("multiply")
    __truediv__, __rtruediv__ = _method("divide"), _rmethod("divide")
    __floordiv__, __rfloordiv__ = _method("floor_divide"), _rmethod("floor_divide")
    __mod__, __rmod__ = _method("remainder"), _rmethod("remainder")
    __pow__, __rpow__ = _method("power"), _rmethod("power")
    __matmul__, __rmatmul__ = _method("matmul"), _rmethod("matmul")
    __and__, __rand__ = _method("bitwise_and"), _rmethod("bitwise_and")
    __or__, __ror__ = _method("bitwise_or"), _rmethod("bitwise_or")
    __xor__, __rxor__ = _method("bitwise_xor"), _rmethod("bitwise_xor")
    __lshift__, __rlshift__ = _method("left_shift"), _rmethod("left_shift")
    __rshift__, __rrshift__ = _method("right_shift"), _rmethod("right_shift")

    __eq__ = _method("equal")  # type: ignore[assignment]
    __ne__ = _method("not_equal")  # type: ignore[assignment]
    __lt__ = _method("less")
    __le__ = _method("less_equal")
    __gt__ = _method("greater")
    __ge__ = _method("greater_equal")


# ufuncs that NumPy's operators call when its array stands on the left
_OPERATORS = frozenset(
    {"add", "subtract", "multiply", "divide", "floor_divide", "remainder", "power"}
    | {
        "matmul",
        "bitwise_and",
        "bitwise_or",
        "bitwise_xor",
        "left_shift",
        "right_shift",
    }
    | {"equal", "not_equal", "less", "less_equal", "greater", "greater_equal"}
)


def as_number(array: Array) -> Array:
    """Return a copy that is weak: like a Python number, it adapts to other dtypes."""
    number = as_array(array)
    number._is_weak = True
    return number


def as_array(number: Array) -> Array:
    """Return a copy that is not weak: it keeps its dtype."""
    return Array(
        value=number._value,
        trace=number._trace,
        data=number._data,
        known=number._known,
    )


def _leave_to_numpy(
    name: str,
    function: Callable[..., object],
    args: Sequence[object],
    kwargs: Mapping[str, object],
) -> object:
    """Call NumPy's function on the values of concrete arrays; refuse traced ones."""
    given = [_values(name, each) for each in args]
    return function(*given, **{key: _values(name, x) for key, x in kwargs.items()})


def _values(function_name: str, part: object) -> object:
    """Return nested containers with Arrays replaced by NumPy arrays, for a NumPy
    function.
    """
    if isinstance(part, Array):
        known = exact_names(function_name)
        instead = f"use {known[0]}" if known else "aotc.numpy has no such function"
        if part._known is not None and part._data is None:
            _fail_to_escape(part, function_name, instead)
        return part._concrete(f"be given to NumPy's own '{function_name}'", instead)
    if isinstance(part, (list, tuple)):
        items = [_values(function_name, item) for item in part]
        return items if isinstance(part, list) else tuple(items)
    if isinstance(part, dict):
        return {key: _values(function_name, item) for key, item in part.items()}
    return part


def _fail_to_escape(array: Array, name: str, instead: str) -> NoReturn:
    """Refuse to give an array to NumPy, whose results derivatives would not see."""
    fail(
        "traced-value",
        f"an array of a model ({array.type}) cannot be given to NumPy's own '{name}': "
        "compiled code and derivatives would know nothing of it",
        f"{instead}; to look at its value, numpy.asarray makes a copy",
    )
