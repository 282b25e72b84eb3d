"""A loaded model: its entry points as functions, and its states."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

import iree.runtime as iree

from aotc.artifacts import trees
from aotc.artifacts.manifest import EntryPoint, Leaf, Manifest, State, Variant
from aotc.errors import InputError, SetupError, VerificationError
from aotc.printing import failed_assertion
from aotc.runtime import buffers
from aotc.runtime.arguments import flattener, suggestion
from aotc.runtime.contract import Array, Contract

_BufferView, _VariantList = iree.HalBufferView, iree.VmVariantList


class Module:
    """The running code of a variant: what all functions of a model share."""

    def __init__(self, context: Any, module: Any, device: Any, on_cpu: bool) -> None:
        self.context = context
        self.module = module
        self.device = device
        self.on_cpu = on_cpu
        # A VM context runs one call at a time.
        self.lock = threading.Lock()


class Function:
    """One exported function: flat arrays in, flat arrays out, all of them checked.

    Args:
        owner: how messages call the function.
        pure: it neither reads nor changes a state. Then large inputs are used in place
            and results are views; otherwise both are copied, because a later call may
            write to memory that the module still holds.
    """

    def __init__(
        self,
        code: Module,
        owner: str,
        export: str,
        contract: Contract,
        outputs: Sequence[Leaf],
        pure: bool,
    ) -> None:
        self._owner = owner
        self._contract = contract
        self._pure = pure
        self._lock = code.lock
        self._invoke = code.context.invoke
        self._function = code.module.lookup_function(export)
        if self._function is None:
            raise VerificationError(
                "entry-missing", f"the module does not export {export!r}", where=owner
            )
        leaves = [spec.leaf for spec in contract.inputs]
        reader = buffers.viewer if code.on_cpu else buffers.fetcher
        self._senders = [buffers.sender(code.device, x) for x in leaves]
        readers = [reader(code.device, leaf) for leaf in outputs]
        self._readers = list(enumerate(readers))

    def __call__(self, values: Sequence[Any]) -> list[Array]:
        """Check `values`, run, and return the results.

        Raises:
            InputError: an input breaks the contract, and nothing has run; or one of the
                model's own assertions failed.
            SetupError: `run-failed`, if the device gives up.
        """
        arrays = self._contract.arrays(values)
        arguments = _VariantList(len(arrays))
        results = _VariantList(len(self._readers))
        try:
            for send, array in zip(self._senders, arrays, strict=True):
                arguments.push_ref(send(array))
            with self._lock:
                self._invoke(self._function, arguments, results)
                get = results.get_as_object
                arrays = [read(get(i, _BufferView)) for i, read in self._readers]
                # The next call may overwrite what a stateful function returned.
                return arrays if self._pure else [array.copy() for array in arrays]
        except (RuntimeError, ValueError, MemoryError) as error:
            failed = failed_assertion(str(error))
            if failed is not None:
                raise failed from None
            first_line = str(error).partition("\n")[0]
            raise SetupError("run-failed", f"{self._owner}: {first_line}") from error


class Entry:
    """An entry point: call it with its inputs by name.

    Inputs are NumPy arrays of the declared dtypes (or Python numbers), in the structure
    that the model was built with. Results of an entry that touches no state are
    read-only views of the runtime's memory, valid for as long as they are kept.
    """

    def __init__(self, code: Module, spec: EntryPoint, manifest: Manifest) -> None:
        self.spec = spec
        self.name = spec.name
        touched = {*spec.reads, *spec.updates}
        self._flatten = flattener(spec.name, spec.arguments)
        self._count = len(spec.inputs)
        self._build = trees.builder(spec.result)
        self._run = Function(
            code,
            owner=spec.name,
            export=spec.name,
            contract=Contract(spec.name, spec.inputs, manifest.symbols),
            outputs=spec.outputs,
            pure=touched.isdisjoint(manifest.states),
        )

    def __call__(self, *positional: Any, **inputs: Any) -> Any:
        """Check the inputs, run, and return the result.

        Raises:
            InputError: the inputs break the contract or an assertion of the model; no
                state has changed then.
        """
        if positional:
            names = ", ".join(f"{name}=..." for name in self.spec.arguments["dict"])
            raise InputError(
                "input-positional",
                f"{self.name}: expected inputs by name, got {len(positional)} without",
                hint=f"{self.name}({names})",
            )
        leaves = [None] * self._count
        self._flatten(inputs, leaves, "")
        return self._build(self._run(leaves))

    def __repr__(self) -> str:
        inputs = ", ".join(f"{leaf.name}: {leaf}" for leaf in self.spec.inputs)
        outputs = ", ".join(map(str, self.spec.outputs))
        return f"<{self.spec.kind} {self.name}({inputs}) -> {outputs}>"


class _StateAccess:
    """Reads and writes one state as a whole."""

    def __init__(self, code: Module, state: State) -> None:
        owner = f"state {state.name}"
        self._flatten = flattener(owner, state.tree)
        self._count = len(state.leaves)
        self._build = trees.builder(state.tree)
        empty, full = Contract(owner, (), {}), Contract(owner, state.leaves, {})
        self._read = Function(code, owner, state.read, empty, state.leaves, False)
        self._write = Function(code, owner, state.write, full, (), False)

    def read(self) -> Any:
        return self._build(self._read(()))

    def write(self, tree: Any) -> None:
        leaves = [None] * self._count
        self._flatten(tree, leaves, "")
        self._write(leaves)


class Model:
    """A bundle that is loaded and ready: `model.predict(x=...)`.

    Entry points are attributes, and `model.entry(name)` finds those whose name is also
    that of something else here. States keep their values between calls. Several threads
    may use one model; their calls take turns. Independent states need a model each.
    """

    def __init__(self, manifest: Manifest, variant: Variant, code: Module) -> None:
        self.manifest = manifest
        self.variant = variant
        self.entries: Mapping[str, Entry] = {
            name: Entry(code, spec, manifest)
            for name, spec in manifest.entry_points.items()
        }
        self._states = {
            name: _StateAccess(code, state) for name, state in manifest.states.items()
        }
        # A plain attribute is found much faster than one through `__getattr__`.
        for name, entry in self.entries.items():
            if not hasattr(type(self), name):
                vars(self).setdefault(name, entry)

    def entry(self, name: str) -> Entry:
        """The entry point `name`.

        Raises:
            InputError: `entry-unknown`.
        """
        entry: Entry = self._find(self.entries, name, "entry")
        return entry

    def read_state(self, name: str = "state") -> Any:
        """A copy of a state, as a pytree of arrays.

        Raises:
            InputError: `state-unknown`.
        """
        return self._find(self._states, name, "state").read()

    def write_state(self, tree: Any, name: str = "state") -> None:
        """Replace a state by a pytree of arrays, as `read_state` gives it.

        Raises:
            InputError: `state-unknown`, or the tree breaks the state's contract.
        """
        self._find(self._states, name, "state").write(tree)

    def __getattr__(self, name: str) -> Entry:
        hint = suggestion(name, self.__dict__.get("entries", ())) or ""
        raise AttributeError(f"the model has no entry {name!r}; {hint}".rstrip("; "))

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self.entries]

    def __repr__(self) -> str:
        names = ", ".join(self.entries)
        title = f"{self.manifest.name} {self.manifest.version}"
        return f"<Model {title} ({self.variant.id}): {names}>"

    def _find(self, table: Mapping[str, Any], name: str, kind: str) -> Any:
        if name in table:
            return table[name]
        known = ", ".join(table) or "none"
        raise InputError(
            f"{kind}-unknown",
            f"expected one of the model's {kind} names ({known}), got {name!r}",
            hint=suggestion(name, table),
        )
