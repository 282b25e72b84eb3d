"""A loaded model: its entry points as functions, and its states."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from time import perf_counter_ns
from typing import Any, NoReturn

from aotc.artifacts import trees
from aotc.artifacts.manifest import EntryPoint, Manifest, Variant
from aotc.artifacts.selection import Selection
from aotc.core.pytree import PyTree
from aotc.errors import InputError
from aotc.errors.system import translate_system_errors
from aotc.parallel import Device
from aotc.runtime.arguments import flattener, look_up, suggestion
from aotc.runtime.call_counts import FunctionCallCounters
from aotc.runtime.callbacks import Callbacks, checked_result
from aotc.runtime.contract import CallContract
from aotc.runtime.function import ExportedFunction, NoCodeForSizes
from aotc.runtime.module import LoadedModule
from aotc.runtime.states import ModelStates


class LoadedEntry:
    """An entry point of a loaded model: call it with its inputs by name.

    Inputs are NumPy arrays of the declared dtypes (or Python numbers), in the structure
    that the model was built with; the input of an entry that has but one needs no name.
    Results of an entry that touches no state are
    read-only views of the runtime's memory, valid for as long as they are kept.

    On CUDA and ROCm, tensors of PyTorch and of others with DLPack are taken where they
    lie on the GPU that computes, and results of such calls stay there
    (`aotc.runtime.transfers.DeviceArray`): `torch.from_dlpack(model.predict(x))`.
    """

    def __init__(
        self, code: LoadedModule, spec: EntryPoint, manifest: Manifest, variant: Variant
    ) -> None:
        self.spec = spec
        self.name = spec.name
        self.symbols = manifest.symbols
        self.connect({}, {})
        touched = {*spec.reads, *spec.updates}
        self._flatten = flattener(spec.name, spec.arguments)
        self._count = len(spec.inputs)
        self._build = trees.builder(spec.result)
        self._run = ExportedFunction(
            code,
            owner=spec.name,
            codes=spec.codes,
            contract=CallContract(
                spec.name,
                spec.inputs,
                manifest.symbols,
                spec.guards,
                computed=(*spec.outputs, *spec.intermediates),
                gpu=code.gpu,
            ),
            outputs=spec.outputs,
            pure=touched.isdisjoint(manifest.states),
            choose=spec.code_for,
            counts=FunctionCallCounters.of_entry(
                manifest, variant, spec, fetched=not code.on_cpu
            ),
        )

    def __call__(self, *positional: object, **inputs: object) -> Any:
        """Check the inputs, run, and return the result.

        Raises:
            InputError: the inputs break the contract or an assertion of the model; no
                state has changed then.
        """
        if positional:
            inputs = self._by_name(positional, inputs)
        return self._build(self.call_flat(self.flatten(inputs)))

    def _by_name(
        self, positional: tuple[object, ...], inputs: Mapping[str, object]
    ) -> dict[str, object]:
        """Return the single positional input by its name; raise for several."""
        names = list(self.spec.arguments["dict"])
        if len(names) == 1 and len(positional) == 1 and not inputs:
            return {names[0]: positional[0]}
        known = ", ".join(f"{name}=..." for name in names)
        raise InputError(
            "input-positional",
            f"{self.name}: expected inputs by name, got {len(positional)} without",
            hint=f"{self.name}({known}); an entry of one input takes it without a name",
        )

    @property
    def function(self) -> ExportedFunction:
        """The underlying function of flat arrays, whose calls can be prepared in
        advance.
        """
        return self._run

    def flatten(self, inputs: PyTree) -> list[object]:
        """Return the leaves of named inputs in the order of `spec`, with only names
        checked.

        Raises:
            InputError: `missing-input`, `unknown-input` or `input-structure`.
        """
        leaves: list[object] = [None] * self._count
        self._flatten(inputs, leaves, "")
        return leaves

    def build(self, leaves: Sequence[object]) -> Any:
        """Return the result pytree with these leaves, which are in the order of
        `spec`.
        """
        return self._build(leaves)

    def call_flat(self, leaves: Sequence[object]) -> list[Any]:
        """Call the entry with the leaves of the inputs; return the leaves of the
        result.

        Both are in the order of `spec`, and each leaf of the result comes once.
        """
        try:
            return self._run(leaves)
        except NoCodeForSizes as miss:
            return self._call_elsewhere(leaves, miss)

    def _call_elsewhere(
        self, leaves: Sequence[object], miss: NoCodeForSizes
    ) -> list[Any]:
        """Compute a call without code by another entry or callback; return the result's
        leaves.
        """
        policy = self.spec.route_for(miss.sizes, self.symbols)
        if policy is None:
            raise miss
        kind, _, name = policy.partition(":")
        if kind == "route":
            return self._entries[name].call_flat(leaves)
        if name not in self._callbacks:
            raise InputError(
                "no-callback",
                f"{self.name}: expected the function {name!r}, which computes calls of "
                f"sizes without code ({miss.message}); got none",
                hint=f"aotc.load(…, callbacks={{{name!r}: function}})",
            )
        began = perf_counter_ns()
        inputs = trees.builder(self.spec.arguments)(leaves)
        result = self._callbacks[name](**inputs)
        arrays = checked_result(name, self.spec, miss.sizes, result)
        self._run.count_elsewhere(policy, leaves, arrays, began)
        return arrays

    def connect(self, entries: Mapping[str, LoadedEntry], callbacks: Callbacks) -> None:
        """Set the entries and callbacks to which calls of sizes without code are
        routed.

        Args:
            entries: of the model, by name.
            callbacks: functions of the inputs by name, by the names of policies.
        """
        self._entries, self._callbacks = entries, callbacks

    def __repr__(self) -> str:
        inputs = ", ".join(f"{leaf.name}: {leaf}" for leaf in self.spec.inputs)
        outputs = ", ".join(map(str, self.spec.outputs))
        return f"<{self.spec.kind} {self.name}({inputs}) -> {outputs}>"


class Model:
    """A loaded bundle, ready to be called: `model.predict(x=...)`.

    Entry points are attributes, and `model.entry(name)` finds those whose name is also
    that of something else here. States keep their values between calls. Several threads
    may use one model; their calls take turns. Independent states need a model each.

    `manifest` says what the bundle holds, `variant` which of its variants runs, and
    `selection` why: the reasons against it and the variants that were passed over.
    `device` is the part of this model in one that several devices compute together.
    """

    def __init__(
        self,
        manifest: Manifest,
        variant: Variant,
        code: LoadedModule,
        selection: Selection,
        device: Device | None = None,
    ) -> None:
        self.manifest = manifest
        self.device = device
        self.variant = variant
        self.selection = selection
        self.entries: Mapping[str, LoadedEntry] = {
            name: LoadedEntry(code, spec, manifest, variant)
            for name, spec in manifest.entry_points.items()
        }
        for entry in self.entries.values():
            entry.connect(self.entries, {})
        self._states = ModelStates(code, manifest)
        # A plain attribute is found much faster than one through `__getattr__`.
        for name, entry in self.entries.items():
            if not hasattr(type(self), name):
                vars(self).setdefault(name, entry)

    def entry(self, name: str) -> LoadedEntry:
        """Return the entry point `name`.

        Raises:
            InputError: `unknown-entry`.
        """
        return look_up("entry", self.entries, name)

    @translate_system_errors()
    def read_state(self, name: str | None = None) -> Any:
        """Return a copy of a state, as a pytree of arrays.

        Args:
            name: of the state; by default the only one, or of several `state`.

        Raises:
            InputError: `unknown-state`.
        """
        return self._states.read(name)

    @translate_system_errors()
    def write_state(self, tree: PyTree, name: str | None = None) -> None:
        """Replace a state by a pytree of arrays, as `read_state` gives it.

        Args:
            tree: the arrays.
            name: as for `read_state`.

        Raises:
            InputError: `unknown-state`, or the tree breaks the state's contract.
        """
        self._states.write(name, tree)

    @translate_system_errors()
    def save_state(
        self,
        path: Path | str | os.PathLike[str],
        name: str | None = None,
        *,
        notes: Mapping[str, str] | None = None,
    ) -> None:
        """Save all states, or the one called `name`, as a .safetensors file.

        Args:
            path: the file, which appears complete or not at all.
            name: the state to save; by default all of them.
            notes: further texts to keep in the metadata of the file.

        Raises:
            InputError: `unknown-state` or `no-states`.
            SetupError: `cannot-write` or `out-of-memory`.
        """
        self._states.save(path, name, notes or {})

    @translate_system_errors()
    def load_state(
        self, path: Path | str | os.PathLike[str], name: str | None = None
    ) -> None:
        """Restore all states, or the one called `name`, from a file of `save_state`.

        The file may come from another version of the model, if the states have the same
        leaves. With `name` it may hold other states too, which are left out.

        Raises:
            InputError: the file is not one of this model's states; no state has changed
                then.
        """
        self._states.load(path, name)

    def __copy__(self) -> Model:
        """Return a model that shares code and states, whose entries can be replaced."""
        other = object.__new__(type(self))
        vars(other).update(vars(self))
        return other

    def __reduce__(self) -> NoReturn:
        raise InputError(
            "not-picklable",
            "a loaded model cannot be sent to another process or copied as a whole: it "
            "holds code and memory of this one",
            hint="pass the bundle's path, and load it there",
        )

    def __getattr__(self, name: str) -> LoadedEntry:
        hint = suggestion(name, self.__dict__.get("entries", ())) or ""
        raise AttributeError(f"the model has no entry {name!r}; {hint}".rstrip("; "))

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self.entries})

    def __repr__(self) -> str:
        names = ", ".join(self.entries)
        title = f"{self.manifest.name} {self.manifest.version}"
        return f"<Model {title} ({self.variant.id}): {names}>"
