"""The states of a loaded model: read, written, saved and restored."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from aotc.artifacts import trees
from aotc.artifacts.manifest import Code, Manifest, ManifestState
from aotc.core.pytree import PyTree
from aotc.errors import InputError
from aotc.runtime import state_files
from aotc.runtime.arguments import flattener, look_up
from aotc.runtime.contract import CallContract
from aotc.runtime.function import ExportedFunction
from aotc.runtime.module import LoadedModule


class _StateAccess:
    """The functions that read and write one state as a whole."""

    def __init__(self, code: LoadedModule, state: ManifestState) -> None:
        owner = f"state {state.name}"
        self.state = state
        self.keys = [state_files.key(state, leaf) for leaf in state.leaves]
        self._flatten = flattener(owner, state.tree)
        self.build = trees.builder(state.tree)
        empty = CallContract(owner, (), {})
        full = CallContract(owner, state.leaves, {}, gpu=code.gpu)
        self.reader = ExportedFunction(
            code, owner, [Code(state.read)], empty, state.leaves, False
        )
        self.writer = ExportedFunction(
            code, owner, [Code(state.write)], full, (), False
        )

    def flat(self, tree: PyTree) -> list[object]:
        """Return the leaves of a pytree that has the structure of the state."""
        leaves: list[object] = [None] * len(self.state.leaves)
        self._flatten(tree, leaves, "")
        return leaves


class ModelStates:
    """The states of a loaded model: read, written, saved and restored."""

    def __init__(self, code: LoadedModule, manifest: Manifest) -> None:
        self._lock = code.lock
        self._manifest = manifest
        self._all = {
            name: _StateAccess(code, state) for name, state in manifest.states.items()
        }

    def read(self, name: str | None) -> Any:
        """Return a copy of the state `name`, as a pytree."""
        access = self._find(name)
        return access.build(access.reader(()))

    def write(self, name: str | None, tree: PyTree) -> None:
        """Replace the state `name` by a pytree of arrays."""
        access = self._find(name)
        access.writer(access.flat(tree))

    def save(
        self,
        path: Path | str | os.PathLike[str],
        name: str | None,
        notes: Mapping[str, str],
    ) -> None:
        """Write one state, or a consistent snapshot of all, to a file."""
        chosen = self._choose(name)
        with self._lock:
            arrays = {
                key: array
                for access in chosen
                for key, array in zip(access.keys, access.reader(()), strict=True)
            }
        state_files.save(Path(path), self._layout(chosen), arrays, notes)

    def load(self, path: Path | str | os.PathLike[str], name: str | None) -> None:
        """Replace one state, or all of them, by the contents of a file."""
        chosen = self._choose(name)
        arrays = state_files.load(Path(path), self._layout(chosen), name)
        # What can fail, such as getting the memory, comes before the first write.
        prepared = [
            access.writer.prepare([arrays[key] for key in access.keys])
            for access in chosen
        ]
        with self._lock:
            for access, arguments in zip(chosen, prepared, strict=True):
                access.writer.invoke(arguments)

    def _choose(self, name: str | None) -> Sequence[_StateAccess]:
        """Return the access to one state, or to all for None; raise if there are
        none.
        """
        if name is not None:
            return [self._find(name)]
        if not self._all:
            raise InputError("no-states", f"{self._manifest.name} keeps no states")
        return list(self._all.values())

    def _layout(self, chosen: Sequence[_StateAccess]) -> state_files.StateFileLayout:
        """Return the layout of a file with the chosen states."""
        states = [access.state for access in chosen]
        return state_files.StateFileLayout.of(self._manifest, states)

    def _find(self, name: str | None) -> _StateAccess:
        """Return the access to a state; for None the only one, or that called
        `state`.
        """
        if name is None:
            name = next(iter(self._all)) if len(self._all) == 1 else "state"
        return look_up("state", self._all, name)
