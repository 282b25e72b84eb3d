"""Compiled regions of a program, as the package of a hybrid function calls them."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from aotc.errors import InputError
from aotc.pytree import flatten
from aotc.runtime.loader import load
from aotc.runtime.model import Model


def form_of(value: Any) -> tuple[dict[str, Any], list[Any]]:
    """What of a value is no array, as manifests spell it, and its arrays.

    Args:
        value: a tree of arrays, numbers, texts and None.
    """
    leaves, structure = flatten(value)
    arrays = [leaf for leaf in leaves if _is_array(leaf)]
    other = [None if _is_array(leaf) else token_of(leaf) for leaf in leaves]
    return {"tree": structure.to_json(), "values": other}, arrays


def token_of(value: Any) -> str:
    """A text that values of one type share if they are the same."""
    return f"{type(value).__name__}:{value!r}"


def _is_array(value: Any) -> bool:
    if not isinstance(value, (np.ndarray, np.generic)):
        return False
    return value.dtype.kind in "biufcV" and value.dtype.names is None


class Regions:
    """The regions of a package.

    Args:
        module: `__file__` of the package.
        bundle: the name of the bundle beside it.
    """

    def __init__(self, module: str, bundle: str) -> None:
        self._path = Path(module).parent / bundle
        self._lock = threading.Lock()
        self._model: Model | None = None
        self._forms: dict[str, Mapping[str, Any]] = {}

    def load(self, **options: Any) -> Model:
        """Load the bundle, as `aotc.load` does; without this the first call does it.

        Args:
            options: of `aotc.load`, such as `trust` and `threads`.
        """
        with self._lock:
            return self._loaded(options)

    def _loaded(self, options: Mapping[str, Any]) -> Model:
        model = load(self._path, **options)
        regions = model.manifest.data["hybrid"]["regions"]
        self._forms = {each["entry"]: each["inputs"] for each in regions}
        self._model = model
        return model

    def __call__(self, region: str, /, **values: Any) -> tuple[Any, ...]:
        """The values that a region computes, in the order of their names.

        Raises:
            InputError: `region-guard`: a value that is no array, or the form of one,
                is not what the region was compiled for; or as a call of a model.
        """
        model = self._model or self.load()
        arrays = {}
        for name, expected in self._forms[region].items():
            found, arrays[name] = form_of(values[name])
            if found != expected:
                raise InputError(
                    "region-guard",
                    f"{region}: expected '{name}' as it was compiled for, "
                    f"{_shown(expected)}; got {_shown(found)}",
                    hint="export the function after calls of each kind, with arrays in "
                    "place of numbers that vary",
                )
        given = {name: each for name, each in arrays.items() if each}
        found = model.entry(region)(**given)
        return tuple(found[name] for name in sorted(found))


def _shown(form: Mapping[str, Any]) -> str:
    values = [each.partition(":")[2] for each in form["values"] if each is not None]
    return f"of the form {form['tree']} with {', '.join(values) or 'arrays alone'}"
