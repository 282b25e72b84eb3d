"""Files of states: .safetensors, with a key for every leaf and a note of their origin.

The key of a leaf is its dotted path, `state.params.dense.kernel`. The metadata holds

    format    aotc.state/1
    model     the name of the model, and
    version   its version
    schema    the SHA-256 of names, dtypes and shapes of the file's leaves
    content   the SHA-256 of the other metadata and of all that follows the header

Equal states with equal notes give equal bytes.
A file appears complete or not at all, and `load(save(arrays)) == arrays` to the bit.
Nothing of a file is believed: `load` compares all of it with what the model declares.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from aotc.artifacts import strict_json
from aotc.artifacts.manifest import Leaf, Manifest, ManifestState
from aotc.core.writing import atomic_write
from aotc.errors import InputError
from aotc.errors.system import raise_system_error
from aotc.runtime.arguments import suggestion
from aotc.runtime.host_arrays import Array

_FORMAT = "aotc.state/1"
_LISTED = 5


@dataclass(frozen=True)
class StateFileLayout:
    """The expected contents of a file of states: model, version and leaves."""

    model: str
    version: str
    leaves: Mapping[str, Leaf]

    @classmethod
    def of(cls, manifest: Manifest, states: Sequence[ManifestState]) -> StateFileLayout:
        """Return the layout of a file with the given states."""
        leaves = {key(state, leaf): leaf for state in states for leaf in state.leaves}
        return cls(manifest.name, manifest.version, leaves)


def key(state: ManifestState, leaf: Leaf) -> str:
    """Return the name of a state's leaf in a file: its dotted path."""
    return f"{state.name}.{leaf.name}" if leaf.name else state.name


def save(
    path: Path,
    layout: StateFileLayout,
    arrays: Mapping[str, Array],
    notes: Mapping[str, str],
) -> None:
    """Write arrays by key to a .safetensors file atomically, with `notes` as metadata.

    Raises:
        SetupError: `cannot-write`; a file that was there is still there then.
    """
    names = sorted(arrays, key=lambda name: (-arrays[name].itemsize, name))
    parts = [np.ascontiguousarray(arrays[name]).tobytes() for name in names]
    metadata = {
        **notes,
        "format": _FORMAT,
        "model": layout.model,
        "version": layout.version,
        "schema": _digest(layout.leaves),
    }
    metadata["content"] = _content(metadata, _digest_of_chunks(parts))
    header = _header(metadata, layout, names, parts)
    with atomic_write(path) as aside, aside.open("xb") as file:
        file.write(len(header).to_bytes(8, "little"))
        file.write(header)
        file.writelines(parts)


def _header(
    metadata: Mapping[str, str],
    layout: StateFileLayout,
    names: Sequence[str],
    parts: Sequence[bytes],
) -> bytes:
    """Return the header bytes of a .safetensors file, with its keys in a fixed order.

    The library's own writer puts metadata in another order in every process.
    """
    fields: dict[str, Any] = {"__metadata__": dict(sorted(metadata.items()))}
    end = 0
    for name, part in zip(names, parts, strict=True):
        leaf, start, end = layout.leaves[name], end, end + len(part)
        fields[name] = {
            "dtype": leaf.dtype.upper(),
            "shape": [*leaf.shape],
            "data_offsets": [start, end],
        }
    text = json.dumps(fields, separators=(",", ":")).encode("ascii")
    return text + b" " * (-len(text) % 8)


def _check_content(path: Path, metadata: Mapping[str, str]) -> None:
    """Raise if a file's content digest differs; files of early releases have none."""
    if "content" not in metadata:
        return
    with open(path, "rb") as file:
        file.seek(int.from_bytes(file.read(8), "little"), 1)
        data = _digest_of_chunks(iter(lambda: file.read(1 << 20), b""))
    if metadata["content"] not in (_content(metadata, data), data):
        raise _file_error(
            path, "its content was changed or damaged after it was written"
        )


def _content(metadata: Mapping[str, str], data: str) -> str:
    """Return the digest of a file, from its metadata and the digest of its arrays."""
    rest = {name: text for name, text in metadata.items() if name != "content"}
    return hashlib.sha256(strict_json.dump([rest, data])).hexdigest()


def _digest_of_chunks(chunks: Iterable[bytes]) -> str:
    """Return the SHA-256 of consecutive pieces of data."""
    digest = hashlib.sha256()
    for chunk in chunks:
        digest.update(chunk)
    return digest.hexdigest()


def load(path: Path, layout: StateFileLayout, prefix: str | None) -> dict[str, Array]:
    """Read and check a file of states; return its arrays by key, those of the state
    `prefix` alone if it is given.

    Raises:
        InputError: `no-such-file`, `bad-state-file`, `other-model`, `state-leaves`,
            `state-dtype` or `state-shape`.
    """
    with _open_states(path) as file:
        origin = file.metadata() or {}
        _check_origin(origin, layout, path)
        found = {name: _leaf(file, name) for name in file.keys()}  # noqa: SIM118
        wanted = {
            name: leaf
            for name, leaf in found.items()
            if prefix is None or name == prefix or name.startswith(f"{prefix}.")
        }
        _check_leaves(wanted, layout.leaves, path)
        if origin.get("schema") != _digest(found):
            raise _file_error(path, "its leaves are not those that it was written with")
        _check_content(path, origin)
        return {name: file.get_tensor(name) for name in layout.leaves}


def notes(path: Path) -> dict[str, str]:
    """Return the metadata of a file of states.

    Raises:
        InputError: `no-such-file` or `bad-state-file`.
    """
    with _open_states(path) as file:
        return dict(file.metadata() or {})


@contextmanager
def _open_states(path: Path) -> Iterator[Any]:
    """Open a .safetensors file; convert its errors to input errors."""
    from safetensors import SafetensorError, safe_open

    if not path.is_file():
        raise InputError("no-such-file", "there is no file of states", where=str(path))
    try:
        # Not mapped: a file that is cut off meanwhile would end the process.
        with safe_open(path, framework="np", backend="pread") as file:
            yield file
    except (SafetensorError, OSError) as error:
        raise_system_error(error, str(path))
        raise _file_error(path, str(error)) from error


def _digest(leaves: Mapping[str, Leaf]) -> str:
    """Return the digest of names, dtypes and shapes of leaves."""
    rows = [
        [name, leaves[name].dtype, [*leaves[name].shape]] for name in sorted(leaves)
    ]
    return hashlib.sha256(strict_json.dump(rows)).hexdigest()


def _leaf(file: Any, name: str) -> Leaf:
    """Return an array's dtype and shape from the header of an open file."""
    found = file.get_slice(name)
    return Leaf(name, found.get_dtype().lower(), tuple(found.get_shape()))


def _check_origin(
    found: Mapping[str, str], layout: StateFileLayout, path: Path
) -> None:
    """Raise if a file was not written by `save`, or for another model."""
    if found.get("format") != _FORMAT:
        got = found.get("format", "a file of another kind")
        raise _file_error(path, f"expected the format {_FORMAT}, got {got}")
    if found.get("model") != layout.model:
        raise InputError(
            "other-model",
            f"expected states of the model {layout.model!r}, got those of "
            f"{found.get('model')!r}, version {found.get('version')}",
            where=str(path),
            hint="values from elsewhere are put into a model by write_state",
        )


def _check_leaves(
    found: Mapping[str, Leaf], expected: Mapping[str, Leaf], path: Path
) -> None:
    """Raise if the arrays in a file differ from the model's in name, dtype or shape."""
    missing, extra = expected.keys() - found.keys(), found.keys() - expected.keys()
    if missing or extra:
        said = [f"{_names_text(missing)} missing"] if missing else []
        said += [f"{_names_text(extra)} not in the model"] if extra else []
        close = suggestion(min(extra), missing) if missing and extra else None
        raise InputError(
            "state-leaves",
            f"expected the {len(expected)} arrays of the model's states, got "
            f"{len(found)}: {'; '.join(said)}",
            where=str(path),
            hint=f"{min(extra)}: {close}" if close else _states_hint(found, expected),
        )
    for name, leaf in expected.items():
        got = found[name]
        if (got.dtype, got.shape) != (leaf.dtype, leaf.shape):
            code = "state-dtype" if got.dtype != leaf.dtype else "state-shape"
            raise InputError(
                code, f"{name}: expected {leaf}, got {got}", where=str(path)
            )


def _states_hint(found: Mapping[str, Leaf], expected: Mapping[str, Leaf]) -> str | None:
    """Return the hint for a file of fewer states than asked for, or of another
    version.
    """
    states = {name.partition(".")[0] for name in found}
    if states and states < {name.partition(".")[0] for name in expected}:
        return f"the file holds {', '.join(sorted(states))} alone; name that state"
    return "save the state again with this version of the model"


def _names_text(names: set[str]) -> str:
    """Format the first names for an error message."""
    some = sorted(names)[:_LISTED]
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return ", ".join(some) + more


def _file_error(path: Path, reason: str) -> InputError:
    """Return the error for a file that `save_state` did not write, or that is
    damaged.
    """
    return InputError(
        "bad-state-file",
        f"expected a file that save_state wrote: {reason}",
        where=str(path),
    )
