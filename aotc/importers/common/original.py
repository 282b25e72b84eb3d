"""`Original`: a network as the framework computes it that it comes from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from aotc.core.pytree import PyTree

Inputs = Mapping[str, PyTree]


@dataclass(frozen=True)
class Original:
    """A network as its source framework runs it, to compare aotc's results with.

    Args:
        framework: name and version.
        run: inputs (pytrees of NumPy arrays by the entry's names for them) → the result
            in the form that the entry returns; with the first state, where it has one.
        steps: the same inputs → for each node, by the key that the importer takes it
            by (`survey.import_node`), its results; None where it does not tell.
        example: inputs that the source brings with it.
    """

    framework: str
    run: Callable[[Inputs], Any]
    steps: Callable[[Inputs], Mapping[Any, Any]] | None = None
    example: Inputs | None = None
