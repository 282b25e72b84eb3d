"""What a model.py declares: entries, their inputs, weights and state."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from aotc import dtypes
from aotc.errors import InputError
from aotc.frontends.program import Contract
from aotc.frontends.tracing import user_line
from aotc.pytree import flatten, leaf_names


@dataclass(frozen=True)
class Dim:
    """A size that is known only when the model runs, and its contract.

    Args:
        name: equal names are equal sizes, over all inputs of an entry.
        min: least size (0 or more).
        max: greatest size, or None for no bound.
        multiple_of: the size divides by this.
    """

    name: str
    min: int = 1
    max: int | None = None
    multiple_of: int = 1

    def __post_init__(self) -> None:
        bad = self.min < 0 or self.multiple_of < 1
        if bad or (self.max is not None and self.max < self.min):
            raise InputError(
                "bad-contract",
                f"Dim '{self.name}' allows no size: min {self.min}, max {self.max}, "
                f"multiple_of {self.multiple_of}",
                where=user_line(),
            )
        if not self.name.isidentifier():
            raise InputError(
                "bad-contract",
                f"expected a Dim name like a Python name; got {self.name!r}",
                where=user_line(),
            )

    def contract(self) -> Contract:
        """The same facts for the graph."""
        return Contract(self.name, self.min, self.max, self.multiple_of)


@dataclass(frozen=True)
class Spec:
    """The type of an input that is given at each call.

    Args:
        shape: sizes as ints, names, or `Dim`s where a size has a contract.
        dtype: element type, such as "f32".
    """

    shape: tuple[int | str | Dim, ...]
    dtype: str = "f32"

    def __init__(self, shape: Any, dtype: Any = "f32") -> None:
        sizes = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
        for size in sizes:
            if not isinstance(size, (int, str, Dim)) or isinstance(size, bool):
                raise InputError(
                    "bad-spec",
                    f"expected sizes that are ints, names or Dims; got {size!r}",
                    where=user_line(),
                )
            if isinstance(size, int) and size < 0:
                raise InputError(
                    "bad-spec",
                    f"expected sizes of 0 or more; got {size}",
                    where=user_line(),
                    hint="name a size that varies, for instance 'batch'",
                )
        named = tuple(Dim(s) if isinstance(s, str) else s for s in sizes)
        object.__setattr__(self, "shape", named)
        object.__setattr__(self, "dtype", dtypes.canonical(dtype))


class Stored:
    """A pytree of arrays that is stored in the bundle."""

    def __init__(self, tree: Any) -> None:
        leaves, self.structure = flatten(tree)
        names = leaf_names(self.structure)
        self.arrays = [
            _stored_array(leaf, name) for leaf, name in zip(leaves, names, strict=True)
        ]
        if not self.arrays:
            raise InputError(
                "empty-tree",
                f"{type(self).__name__} holds no arrays",
                where=user_line(),
            )

    @property
    def tree(self) -> Any:
        """The stored pytree of NumPy arrays."""
        return self.structure.unflatten(self.arrays)


class Weights(Stored):
    """Immutable parameters: stored once, shared by entries, targets and profiles."""

    @classmethod
    def load(cls, path: str | Path) -> Weights:
        """Weights from a .safetensors file (dotted names become nested dicts) or .npz.

        A relative path is looked up beside the file that calls this.
        """
        file = Path(path)
        if not file.is_absolute():
            file = Path(inspect.stack()[1].filename).parent / file
        return cls(load_arrays(file))


class State(Stored):
    """Arrays that entries update and the loaded model keeps between calls.

    An entry that takes a State returns its new value first:
    ``return new_state, result``. `frozen` is the same state for entries that only read.
    """

    @property
    def frozen(self) -> Frozen:
        """This state for reading, such as the parameters in an evaluation entry."""
        return Frozen(self)


@dataclass(frozen=True)
class Frozen:
    """A `State` that an entry reads and does not update."""

    state: State


def _stored_array(leaf: Any, name: str) -> np.ndarray[Any, Any]:
    try:
        array = np.asarray(leaf)
        dtypes.canonical(array.dtype)
    except InputError:
        raise InputError(
            "not-an-array",
            f"expected arrays as leaves; '{name}' is {type(leaf).__name__}",
            where=user_line(),
        ) from None
    return np.ascontiguousarray(array).reshape(array.shape)


def load_arrays(file: Path) -> dict[str, Any]:
    """The nested dict of arrays in a .safetensors or .npz file.

    Raises:
        InputError: the file is missing, damaged or of another kind.
    """
    if not file.is_file():
        raise InputError(
            "no-such-file", f"there are no weights at '{file}'", where=user_line()
        )
    readers = {".safetensors": _read_safetensors, ".npz": _read_npz}
    if file.suffix not in readers:
        raise InputError(
            "unknown-format",
            f"expected weights in {' or '.join(readers)}; got '{file.name}'",
            where=user_line(),
        )
    try:
        flat = readers[file.suffix](file)
    except Exception as error:
        raise InputError(
            "bad-file", f"'{file}' cannot be read: {error}", where=user_line()
        ) from None
    return nested(flat)


def _read_safetensors(file: Path) -> dict[str, Any]:
    from safetensors.numpy import load_file

    return dict(load_file(file))


def _read_npz(file: Path) -> dict[str, Any]:
    with np.load(file, allow_pickle=False) as archive:
        return dict(archive)


def nested(flat: Mapping[str, Any]) -> dict[str, Any]:
    """`{"conv.kernel": a}` → `{"conv": {"kernel": a}}`."""
    tree: dict[str, Any] = {}
    for name, value in flat.items():
        *parents, last = name.split(".")
        node = tree
        for parent in parents:
            node = node.setdefault(parent, {})
        node[last] = value
    return tree


# ---- entries ------------------------------------------------------------------------


@dataclass(frozen=True)
class EntryFunction:
    """A function of model.py that is to be compiled.

    Calling it runs the Python function itself: inside another entry it is traced along.
    """

    function: Callable[..., Any]
    sources: Mapping[str, Any]
    where: str | None

    @property
    def name(self) -> str:
        """The function's name, which is the entry's."""
        return self.function.__name__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The undecorated function."""
        return self.function(*args, **kwargs)


def entry(**sources: Any) -> Callable[[Callable[..., Any]], EntryFunction]:
    """Declare a function as an entry of the model.

    Every parameter is named here with what it is: a `Spec` (or a pytree of them) for an
    input of each call, a `Weights`, a `State` or a `State.frozen`. A parameter that is
    not named is looked up as a Weights or State of the same name in the module.

        @aotc.entry(x=aotc.Spec(("batch", 8, 8, 1)))
        def predict(weights, x): ...
    """

    def declare(function: Callable[..., Any]) -> EntryFunction:
        return EntryFunction(function, dict(sources), user_line())

    return declare


def parameter_sources(declared: EntryFunction) -> dict[str, Any]:
    """What each parameter of the entry is, in the order of the signature.

    Raises:
        InputError: a parameter has no source, or a source has no parameter.
    """
    parameters = inspect.signature(declared.function).parameters
    for name in declared.sources:
        if name not in parameters:
            raise InputError(
                "bad-entry",
                f"entry '{declared.name}' has no parameter '{name}'; it has "
                f"{', '.join(parameters) or 'none'}",
                where=declared.where,
            )
    return {name: _source(declared, name) for name in parameters}


def _source(declared: EntryFunction, name: str) -> Any:
    if name in declared.sources:
        return declared.sources[name]
    value = declared.function.__globals__.get(name)
    if isinstance(value, (Stored, Frozen)):
        return value
    raise InputError(
        "bad-entry",
        f"nothing says what parameter '{name}' of entry '{declared.name}' is",
        where=declared.where,
        hint=f"declare it: @aotc.entry({name}=aotc.Spec(...)), or define a Weights or "
        f"State called '{name}' in the module",
    )
