"""Entries of a model's source, executed op by op and not compiled."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from aotc.artifacts.manifest import Leaf
from aotc.errors import InputError
from aotc.importers import python, require_known
from aotc.tracing.entry_calls import executed_outputs, input_leaves
from aotc.tracing.source_locations import at_location
from aotc.tracing.user_errors import translate_user_errors

Read = Callable[[Sequence[Leaf]], Sequence[np.ndarray]]


def execute_source(
    path: Path, entry: str | None, read: Read
) -> tuple[str, list[tuple[Leaf, np.ndarray]]]:
    """Run a model.py without compiling it, and call one of its entries.

    Args:
        path: of the model.
        entry: its name; None for the only one.
        read: gives an array for each input.

    Returns:
        The name of the entry, and what and which arrays it returns, States left out.

    Raises:
        InputError: there is no such entry, an input does not fit, or the model raises.
    """
    require_known(path)
    with python.running(path, () if entry is None else (entry,)) as (_, found):
        if len(found) > 1:
            names = ", ".join(each.name for each in found)
            raise InputError(
                "unknown-entry",
                f"'{path}' has several entries: {names}",
                hint="name one of them with --entry",
            )
        declared = found[0]
        with at_location(declared.place), translate_user_errors():
            arrays = read(input_leaves(declared))
            return declared.name, executed_outputs(declared, arrays)
