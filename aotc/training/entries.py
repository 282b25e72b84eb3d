"""An entry of a model: chosen by name, called with inputs and outputs by name."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import numpy as np

from aotc.artifacts.manifest import EntryPoint, Manifest
from aotc.errors import InputError
from aotc.runtime import Model
from aotc.training import wording

Array = np.ndarray
Kind = Literal["train-step", "infer"]


def choose(
    manifest: Manifest, name: str | None, kind: Kind | None, option: str = "entry"
) -> EntryPoint:
    """Return the entry `name`, or the only entry of a kind; raise if that is ambiguous.

    Args:
        manifest: of the bundle.
        name: of the entry; None if none was named.
        kind: `train-step` updates a state, `infer` does not; None prefers neither.
        option: what messages call `name`.

    Raises:
        InputError: `unknown-entry`.
    """
    entries = manifest.entry_points
    if name in entries:
        return entries[name]
    of_kind = [entry for entry in entries.values() if entry.kind == kind]
    fitting = of_kind or list(entries.values())
    if name is None and len(fitting) == 1:
        return fitting[0]
    said = f"there is no entry {name!r}" if name else "the bundle has several entries"
    if of_kind and kind == "train-step" and not name:
        said += " to train with"
    offered = of_kind if of_kind and kind == "infer" else entries.values()
    hint = wording.current().option(option, *(each.name for each in offered))
    raise InputError("unknown-entry", said, hint=hint)


def require_one_device(point: EntryPoint, what_for: str, hint: str) -> None:
    """Raise if an entry is computed by several devices.

    Args:
        point: the entry.
        what_for: one device is needed, after "that one device computes".
        hint: what to do instead.

    Raises:
        InputError: `usage`.
    """
    if point.devices is not None:
        raise InputError(
            "usage",
            f"expected an entry that one device computes{what_for}; {point.name!r} "
            f"takes {point.devices.count} along {point.devices.axis!r}",
            hint=hint,
        )


def require_one_rank(point: EntryPoint, ranks: int, hint: str) -> None:
    """Raise if several ranks run an entry that one device computes.

    Args:
        point: the entry.
        ranks: how many there are.
        hint: what to do instead.

    Raises:
        InputError: `bad-ranks`.
    """
    if point.devices is None and ranks > 1:
        raise InputError(
            "bad-ranks",
            f"expected one rank, as the entry {point.name!r} takes one device; got "
            f"{ranks}",
            hint=hint,
        )


def call(model: Model, point: EntryPoint, inputs: Mapping[str, object]) -> list[Array]:
    """Call an entry with inputs by name; return its outputs in the manifest's order.

    Args:
        model: the loaded model.
        point: the entry.
        inputs: arrays or numbers by name, one for each input.

    Raises:
        InputError: the inputs break the contract or an assertion of the model.
    """
    leaves = [inputs[leaf.name] for leaf in point.inputs]
    return model.entry(point.name).call_flat(leaves)


def source_file(model: Model) -> str:
    """Return the name of the file that the model was built from."""
    return str(model.manifest.data.get("source", {}).get("file", "MODEL"))


def nan_search(model: Model, name: str, folder: Path | None) -> str:
    """Return the beginning of a hint on how to find the op behind a NaN: a command
    line, for an entry of one device.

    Args:
        model: the loaded model.
        name: of the entry that made the NaN.
        folder: of the checkpoint to go on from, if there is one.
    """
    if model.manifest.entry_points[name].devices is not None:
        return (
            "the same model with an aotc.collectives.Axis of 1 device can be searched "
            "(--find-nan), which"
        )
    return wording.current().find_nan(source_file(model), folder)
