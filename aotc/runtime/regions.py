"""Compiled regions of a program, as the package of a hybrid function calls them."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from aotc.core.json_values import JsonObject
from aotc.core.pytree import flatten_in_order
from aotc.errors import InputError
from aotc.runtime.loader import load
from aotc.runtime.model import Model

# region → its entries, and what each was compiled for
Codes = dict[str, list[tuple[str, JsonObject]]]


def form_of(value: object) -> tuple[JsonObject, list[np.ndarray]]:
    """Return the key of a value that selects code (structure, dtypes, ranks), and its
    arrays.

    Args:
        value: a tree of arrays, numbers, texts and None.
    """
    leaves, structure = flatten_in_order(value)
    arrays = [np.asarray(leaf) for leaf in leaves if is_array(leaf)]
    tokens = [
        array_token(leaf.dtype, np.ndim(leaf)) if is_array(leaf) else value_token(leaf)
        for leaf in leaves
    ]
    return {"tree": structure.to_json(), "leaves": tokens}, arrays


def array_token(dtype: np.dtype, rank: int) -> str:
    """Return a text that is equal for arrays that differ in their sizes alone."""
    return f"{dtype} array of rank {rank}"


def value_token(value: object) -> str:
    """Return a text that is equal for equal values of one type."""
    return f"{type(value).__name__} {value!r}"


def is_array(value: object) -> bool:
    """Return whether a value is a NumPy array (no subclass) or scalar of a dtype that
    code takes.
    """
    if not (type(value) is np.ndarray or isinstance(value, np.generic)):
        return False
    return value.dtype.kind in "biufcV" and value.dtype.names is None


class Regions:
    """The compiled regions of a hybrid program's package, loaded on first use.

    Args:
        module: `__file__` of the package.
        bundle: the name of the bundle beside it.
    """

    def __init__(self, module: str, bundle: str) -> None:
        self._path = Path(module).parent / bundle
        self._lock = threading.Lock()
        self._loaded: tuple[Model, Codes] | None = None

    def load(self, **options: Any) -> Model:
        """Load the bundle, as `aotc.load` does; without this the first call does it.

        Args:
            options: of `aotc.load`, such as `trust` and `threads`.
        """
        with self._lock:
            self._loaded = self._read(options)
            return self._loaded[0]

    def _read(self, options: Mapping[str, Any]) -> tuple[Model, Codes]:
        """Load the bundle; return its model and each region's (entry, inputs)."""
        model = load(self._path, **options)
        codes: Codes = {}
        for each in model.manifest.data["hybrid"]["regions"]:
            codes.setdefault(each["region"], []).append((each["entry"], each["inputs"]))
        return model, codes

    def _current(self) -> tuple[Model, Codes]:
        """Return the loaded model, loading it on the first call."""
        if self._loaded is None:
            with self._lock:
                if self._loaded is None:
                    self._loaded = self._read({})
                return self._loaded
        return self._loaded

    def __call__(self, region: str, /, **values: object) -> tuple[Any, ...]:
        """Run a region on named values; return its results in the order of their names.

        Raises:
            InputError: `region-guard`: a value that is no array, or the form of one,
                is not what the region was compiled for; or as a call of a model.
        """
        model, codes = self._current()
        parts = {name: form_of(value) for name, value in values.items()}
        form = {name: each for name, (each, _) in parts.items()}
        for entry, expected in codes[region]:
            if expected == form:
                given = {name: arrays for name, (_, arrays) in parts.items() if arrays}
                found = model.entry(entry)(**given)
                return tuple(found[name] for name in sorted(found))
        raise self._refusal(region, form, [each for _, each in codes[region]])

    def _refusal(
        self, region: str, form: JsonObject, forms: Sequence[JsonObject]
    ) -> InputError:
        """Return the error for values whose form has no code."""
        name = next(
            (n for n in form if all(each[n] != form[n] for each in forms)), min(form)
        )
        known = "; or ".join(dict.fromkeys(_shown(each[name]) for each in forms))
        return InputError(
            "region-guard",
            f"{region}: expected '{name}' as it was when it was compiled: {known}; got "
            f"{_shown(form[name])}",
            hint="export the function after calls of each kind, with arrays in place "
            "of numbers that vary",
        )


def _shown(form: JsonObject) -> str:
    """Format the form of a value for an error message."""
    plain = form["tree"] == 0
    leaves = ", ".join(form["leaves"]) or "nothing"
    return leaves if plain else f"{form['tree']} with {leaves}"
