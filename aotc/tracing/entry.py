"""Declarations of a model.py: entries, their inputs, weights and state."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from aotc.core import dtypes
from aotc.core.dtypes import DTypeLike
from aotc.core.pytree import PyTree, flatten, leaf_names, nodes_in
from aotc.errors import InputError
from aotc.programs.parameter_archive import UnevaluatedArray
from aotc.tracing.archives import load_arrays
from aotc.tracing.dims import LARGEST, Dim, DimTerm, is_plain_identifier
from aotc.tracing.scopes import current_scope
from aotc.tracing.source_locations import Place, calling_place, fail

# ---- inputs of each call ------------------------------------------------------------


# a size of a Spec: a number, a name, or an expression of names
SpecSize = int | np.integer | str | DimTerm


@dataclass(frozen=True)
class Spec:
    """The type of an input of an entry: shape and dtype.

    Args:
        shape: sizes as ints, names, or `Dim`s where a size has a contract; `2 * n + 1`
            for a Dim n is a size as well.
        dtype: element type, such as "f32".
    """

    shape: tuple[int | DimTerm, ...]
    dtype: str = "f32"
    place: Place | None = field(default=None, compare=False, repr=False)

    def __init__(
        self, shape: SpecSize | Sequence[SpecSize], dtype: DTypeLike = "f32"
    ) -> None:
        sizes = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
        object.__setattr__(self, "shape", tuple(map(_checked_size, sizes)))
        object.__setattr__(self, "dtype", dtypes.canonical_dtype(dtype))
        object.__setattr__(self, "place", calling_place(__name__))


def _checked_size(size: object) -> int | DimTerm:
    """Return a size as an int or DimTerm; refuse other values."""
    if isinstance(size, str):
        return Dim(size)
    if isinstance(size, DimTerm):
        return size
    if isinstance(size, bool) or not isinstance(size, (int, np.integer)):
        fail("bad-spec", f"expected sizes that are ints, names or Dims; got {size!r}")
    if size > LARGEST:
        fail("bad-spec", f"expected sizes below 2**63; got {size}")
    if size < 0:
        fail(
            "bad-spec",
            f"expected sizes of 0 or more; got {size}",
            "name a size that varies, for instance 'batch'",
        )
    return int(size)


# ---- what is stored -----------------------------------------------------------------


class StoredTree:
    """A pytree of arrays that is stored in the bundle; base of Weights and State.

    Args:
        tree: its leaves are arrays.
        copy: keep the values of now. Without, arrays that nobody will change are taken
            over as they are. Arrays that nobody can change are never copied: what is
            mapped from a file stays there.
    """

    def __init__(self, tree: PyTree, *, copy: bool = True) -> None:
        leaves, self.structure = flatten(tree)
        names = leaf_names(self.structure)
        self.arrays = [
            _stored_array(leaf, name, copy)
            for leaf, name in zip(leaves, names, strict=True)
        ]

    @property
    def tree(self) -> Any:
        """The stored pytree of NumPy arrays.

        What a file has in a form of its own is computed by `numpy.asarray`.
        """
        return self.structure.unflatten(self.arrays)

    def __array__(
        self, dtype: DTypeLike | None = None, copy: bool | None = None
    ) -> np.ndarray:
        """Raise an error: a stored tree is read as a parameter of an entry."""
        raise unreadable_error(self)


class Weights(StoredTree):
    """Immutable parameters: stored once, shared by entries, targets and profiles.

    They may be none: the buffers of a network are none where training updates them all.

    Args:
        tree: its leaves are arrays.
        copy: as of `StoredTree`.
        metadata: what the file that they are of says besides, by name.
    """

    def __init__(
        self,
        tree: PyTree,
        *,
        copy: bool = True,
        metadata: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(tree, copy=copy)
        self.metadata = dict(metadata or {})
        for node in nodes_in(tree):
            node.check()

    @classmethod
    def load(cls, path: str | Path) -> Weights:
        """Load weights from a .safetensors, .npz or .gguf file, or a folder of
        safetensors.

        Dotted names become nested dicts. Quantised tensors (those of GGUF, and of GPTQ,
        AWQ and compressed-tensors where a config.json says so) are
        `nn.QuantizedWeights`; others are arrays. The files are mapped, and nothing is
        unpacked before it is written. A relative path is looked up beside the file that
        calls this.
        """
        caller = sys._getframe(1).f_code.co_filename
        tree, metadata = load_arrays(Path(caller).parent / path)
        return cls(tree, metadata=metadata)


class State(StoredTree):
    """Arrays that entries update and the loaded model keeps between calls.

    An entry that takes a State returns its new value first:
    ``return new_state, result``. `frozen` is the same state for entries that only read.
    """

    def __init__(self, tree: PyTree, *, copy: bool = True) -> None:
        super().__init__(tree, copy=copy)
        if not self.arrays:
            fail(
                "empty-tree",
                "State holds no arrays, so that there is nothing to update",
                hint="leave it out of the entries, or give it an array",
            )

    @property
    def frozen(self) -> Frozen:
        """The state as a read-only parameter, such as in an evaluation."""
        return Frozen(self)


@dataclass(frozen=True)
class Frozen:
    """A read-only parameter: a `State` that an entry does not update."""

    state: State


# what parameters of an entry are that calls need not give
StoredParameter = StoredTree | Frozen


def _stored_array(leaf: object, name: str, copy: bool) -> np.ndarray | UnevaluatedArray:
    """Return a leaf as an array, copied if asked; refuse what is no array."""
    if isinstance(leaf, UnevaluatedArray):
        return leaf
    array = leaf if type(leaf) is np.ndarray else _as_numpy_array(leaf)
    if array is None or not _is_known(array.dtype):
        fail(
            "not-an-array",
            f"expected arrays as leaves; '{name}' is {type(leaf).__name__}",
        )
    return np.array(array, order="C", copy=(copy and not _is_constant(array)) or None)


def _is_known(dtype: np.dtype) -> bool:
    """Return whether aotc supports a NumPy dtype."""
    try:
        dtypes.canonical_dtype(dtype)
    except InputError:
        return False
    return True


def _as_numpy_array(leaf: object) -> np.ndarray | None:
    """Return an array-like leaf as a NumPy array; None if it is not array-like."""
    from aotc.tracing.array import Array  # with the dialect
    from aotc.tracing.conversion import lift

    if isinstance(leaf, Array):
        leaf = leaf.__array__()
    try:
        return lift(leaf)._data
    except InputError:
        return None


def _is_constant(array: object) -> bool:
    """Return whether neither an array nor an array that it views is writeable."""
    while isinstance(array, np.ndarray):
        if array.flags.writeable:
            return False
        array = array.base
    return True


# The variable of a module that lists the entries declared at its top, so that one
# whose name was given to something else is not lost without a word.
DECLARED = "__aotc_entries__"

# ---- entries ------------------------------------------------------------------------

_entry: ContextVar[EntryFunction | None] = ContextVar("aotc_entry", default=None)


# Of an entry, arguments by position and by name; what it returns for arrays.
Execute = Callable[["EntryFunction", Sequence[object], Mapping[str, object]], PyTree]
_execute: Execute | None = None


def provide_execution(execute: Execute) -> None:
    """Register the function that executes entries outside of a trace."""
    global _execute
    _execute = execute


@dataclass(frozen=True)
class EntryFunction:
    """A function of model.py declared as an entry, with the sources of its parameters.

    Inside another entry, calling it runs the Python function itself, which is traced
    along. Elsewhere a call is executed at once: see `aotc.tracing.entry_calls`.

    Args:
        function: whose name is the entry's.
        sources: what its parameters are.
        declared: the line it is declared at, if that is not where it is defined.
        network: the `Imported` that it is, if it is one.
    """

    function: Callable[..., Any]
    sources: Mapping[str, object]
    declared: Place | None = None
    network: Any = None

    @property
    def place(self) -> Place:
        """The file and line of the declaration."""
        code = self.function.__code__
        return self.declared or (code.co_filename, code.co_firstlineno)

    @property
    def name(self) -> str:
        """The function's name, which is the entry's."""
        return self.function.__name__

    @property
    def __name__(self) -> str:
        return self.name

    def __call__(self, *args: object, **kwargs: object) -> Any:
        """Call the function on arrays; declared Weights and States are defaults.

        Raises:
            InputError: outside of entries, what is wrong with the inputs, as it is said
                by the loader of a bundle.
        """
        if current_scope() is not None or _execute is None:
            return self.function(*args, **kwargs)
        return _execute(self, args, kwargs)


def entry(
    function: Callable[..., object] | None = None, /, **sources: PyTree
) -> Callable[..., Any]:
    """Declare a function as an entry of the model.

    Every parameter is named here with what it is: a `Spec` (or a pytree of them) for an
    input of each call, a `Weights`, a `State` or a `State.frozen`. A parameter that is
    not named is looked up as a Weights or State of the same name in the module, and
    keeps its default otherwise.

        @aotc.entry(x=aotc.Spec(("batch", 8, 8, 1)))
        def predict(weights, x): ...
    """

    def declare(function: Callable[..., object]) -> EntryFunction:
        if not inspect.isfunction(function) or not function.__name__.isidentifier():
            fail("bad-entry", f"expected a function with a name; got {function!r}")
        _require_callable_by_name(function)
        declared = EntryFunction(function, dict(sources))
        if function.__qualname__ == function.__name__:  # at the top of its file
            function.__globals__.setdefault(DECLARED, []).append(declared)
        return declared

    return declare if function is None else declare(function)


def _require_callable_by_name(function: Callable[..., object]) -> None:
    """Refuse an entry whose name bundles cannot have, such as a method."""
    name, scope = function.__name__, function.__qualname__.rpartition("<locals>.")[2]
    if not is_plain_identifier(name):
        fail("bad-entry", f"expected an entry's name in ASCII; got {name!r}")
    if scope != name and scope.endswith(f".{name}"):
        fail(
            "bad-entry",
            f"entry '{scope}' is a method; its first parameter is no input",
            "declare a function at the top of the file that calls the method",
        )


@contextmanager
def traced_entry(declared: EntryFunction) -> Iterator[None]:
    """Set the entry that error messages refer to, within the `with` block."""
    token = _entry.set(declared)
    try:
        yield
    finally:
        _entry.reset(token)


def unreadable_error(stored: StoredTree) -> InputError:
    """Return the error for a Weights or State used as if it were an array."""
    kind, declared = type(stored).__name__, _entry.get()
    if declared is None:
        return InputError(
            "not-a-parameter",
            f"a {kind} is given to entries; it is not read where it is defined",
            hint="its NumPy arrays are in its .tree",
        )
    names = [n for n, x in declared.function.__globals__.items() if x is stored]
    name = names[0] if names else kind.lower()
    parameters = ", ".join(inspect.signature(declared.function).parameters)
    return InputError(
        "not-a-parameter",
        f"the {kind} '{name}' is no parameter of entry '{declared.name}', which takes "
        f"({parameters}): its arrays are only known as one",
        hint=f"write def {declared.name}({name}, {parameters}): a parameter called "
        f"like a {kind} of the module is that; under another name it is given in the "
        f"decorator, @aotc.entry(params={name}, …)",
    )


def parameter_sources(declared: EntryFunction) -> dict[str, PyTree]:
    """Return the Spec, Weights or State of each parameter, in the signature's order.

    Raises:
        InputError: a parameter has no source, or a source has no parameter.
    """
    parameters = inspect.signature(declared.function).parameters
    for name in declared.sources:
        if name not in parameters:
            fail(
                "bad-entry",
                f"entry '{declared.name}' has no parameter '{name}'; it has "
                f"{', '.join(parameters) or 'none'}",
            )
    sources = {}
    for name, parameter in parameters.items():
        if parameter.kind not in _BY_NAME:
            fail(
                "bad-entry",
                f"entry '{declared.name}' takes '{parameter}'; its parameters must be "
                "given by name",
            )
        source = _source(declared, name)
        if source is not None:
            sources[name] = source
        elif parameter.default is parameter.empty:
            _fail_undeclared(declared, name)
    return sources


_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def _source(declared: EntryFunction, name: str) -> PyTree:
    """Return what a parameter is declared as, or a Weights or State of its name; else
    None.
    """
    if name in declared.sources:
        return declared.sources[name]
    value = declared.function.__globals__.get(name)
    return value if isinstance(value, (StoredTree, Frozen)) else None


def _fail_undeclared(declared: EntryFunction, name: str) -> None:
    """Raise the error for a parameter without a declared source."""
    fail(
        "bad-entry",
        f"nothing says what parameter '{name}' of entry '{declared.name}' is",
        f"declare it: @aotc.entry({name}=aotc.Spec(...)), or define a Weights or State "
        f"called '{name}' in the module",
    )
