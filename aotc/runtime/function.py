"""What a module exports, as functions of arrays that check their inputs."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import iree.runtime as iree

from aotc.artifacts.manifest import Leaf
from aotc.errors import AotcError, SetupError, VerificationError
from aotc.printing import failed_assertion
from aotc.runtime import buffers, engine, lifetime
from aotc.runtime.contract import Array, Contract, Shapes

_BufferView, _VariantList = iree.HalBufferView, iree.VmVariantList
_FAILURES = (RuntimeError, ValueError, MemoryError)
_REMEMBERED = 256  # shapes of calls
_RELEASE = "$release_workspaces"  # of modules that have any (aotc.worker.workspaces)


class Module:
    """The running code of a variant: what all functions of a model share."""

    def __init__(self, context: Any, module: Any, device: Any, on_cpu: bool) -> None:
        self.context = context
        self.module = module
        self.device = device
        self.on_cpu = on_cpu
        self.has_pool = lifetime.has_pool(device)
        self.lock = lifetime.call_lock()
        self._release = module.lookup_function(_RELEASE)
        self._last_call: Hashable = None

    def expect(self, call: Hashable) -> None:
        """Keep memory for a call that is like the last one, else give it back.

        Args:
            call: the function and the sizes of its inputs.
        """
        if self._release is not None and call != self._last_call:
            self.context.invoke(self._release, _VariantList(0), _VariantList(0))
            self._last_call = call
        if self.on_cpu:
            engine.expect(self.device, call)


class Prepared(NamedTuple):
    """A call that is ready to run: the export, and arguments on the device."""

    export: Any
    arguments: Any


class Function:
    """One exported function: flat arrays in, flat arrays out, all of them checked.

    Args:
        code: that exports it.
        owner: how messages call the function.
        exports: its names there; several that make up one function for calls of
            different sizes.
        contract: of its inputs.
        outputs: what it returns.
        pure: it neither reads nor changes a state. Then large inputs are used in place
            and results are views; otherwise both are copied, because a later call may
            write to memory that the module still holds.
        choose: the export for a call, by the value of each symbol; by default the
            first.
    """

    def __init__(
        self,
        code: Module,
        owner: str,
        exports: Sequence[str],
        contract: Contract,
        outputs: Sequence[Leaf],
        pure: bool,
        choose: Callable[[Mapping[str, int]], str] | None = None,
    ) -> None:
        self._owner = owner
        self._contract = contract
        self._pure = pure
        self._expect = code.expect
        self._has_pool = code.has_pool
        self._lock = code.lock
        self._invoke = code.context.invoke
        self._exports = {name: _look_up(code, owner, name) for name in exports}
        self._choose = choose or (lambda _: exports[0])
        self._chosen: dict[Shapes, Any] = {}
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
            SetupError: `out-of-memory`, or `run-failed` if the device gives up.
        """
        return self.invoke(self.prepare(values))

    def prepare(self, values: Sequence[Any]) -> Prepared:
        """A call whose arguments are checked, and copied to the device."""
        if self._has_pool:
            lifetime.require_pool()
        try:
            arrays, shapes = self._contract.arrays(values)
        except MemoryError as error:
            raise self._diagnose(error) from error
        export = self._chosen.get(shapes) or self._export_for(shapes)
        try:
            with self._lock:
                return Prepared(export, self._arguments(arrays, shapes))
        except _FAILURES as error:
            raise self._diagnose(error) from error

    def _export_for(self, shapes: Shapes) -> Any:
        """The export for calls of these shapes, which is remembered."""
        export = self._exports[self._choose(self._contract.sizes(shapes))]
        if len(self._chosen) >= _REMEMBERED:
            self._chosen.clear()
        self._chosen[shapes] = export
        return export

    def _arguments(self, arrays: Sequence[Array], shapes: Shapes) -> Any:
        self._expect((id(self), shapes))
        arguments = _VariantList(len(arrays))
        for send, array in zip(self._senders, arrays, strict=True):
            arguments.push_ref(send(array))
        return arguments

    def invoke(self, call: Prepared) -> list[Array]:
        """Run a call that is prepared."""
        results = _VariantList(len(self._readers))
        try:
            with self._lock:
                self._invoke(call.export, call.arguments, results)
                get = results.get_as_object
                arrays = [read(get(i, _BufferView)) for i, read in self._readers]
                # The next call may overwrite what a stateful function returned.
                return arrays if self._pure else [array.copy() for array in arrays]
        except _FAILURES as error:
            raise self._diagnose(error) from error

    def _diagnose(self, error: Exception) -> AotcError:
        first_line = str(error).partition("\n")[0]
        if isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in first_line:
            return SetupError(
                "out-of-memory",
                f"{self._owner}: this machine has not the memory that the call needs",
                hint="call it with smaller inputs, or free some memory",
            )
        return failed_assertion(str(error)) or SetupError(
            "run-failed", f"{self._owner}: {first_line}"
        )


def _look_up(code: Module, owner: str, export: str) -> Any:
    function = code.module.lookup_function(export)
    if function is None:
        raise VerificationError(
            "entry-missing", f"the module does not export {export!r}", where=owner
        )
    return function
