"""Compiled programs run in a process of their own, which may die of them."""

from __future__ import annotations

import multiprocessing
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any

from aotc.dialects.functions.entries import Entry
from aotc.errors.exit_status import exit_cause

from .failures import Failure

SECONDS = 60  # for one call

Arrays = list[Any]


class Runner:
    """A child process that runs compiled entries; restarted when it dies."""

    def __init__(self) -> None:
        self._process: Any = None
        self._loaded: bytes | None = None

    def __enter__(self) -> Runner:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        place: TracebackType | None,
    ) -> None:
        self._stop()

    def load(self, vmfb: bytes) -> Failure | None:
        """Load a module in the child, unless it is loaded; return a failure or None."""
        if self._process is None or not self._process.is_alive():
            self._start()
        if self._loaded is vmfb:
            return None
        self._connection.send(("load", vmfb))
        self._loaded = None
        found = self._answer()
        if isinstance(found, Failure):
            return Failure("loads", found.message)
        self._loaded = vmfb
        return None

    def call(self, vmfb: bytes, entry: Entry, arrays: Arrays) -> Arrays | Failure:
        """Call an entry of a module in the child; return its results or the failure."""
        failure = self.load(vmfb)
        if failure is not None:
            return failure
        inputs = [port.type.dtype for port in entry.arguments]
        outputs = [port.type.dtype for port in entry.results]
        self._connection.send(("call", entry.name, arrays, inputs, outputs))
        answer: Arrays | Failure = self._answer()
        return answer

    def _answer(self) -> Any:
        """Wait for the child's answer; return it, or a failure if it is late or
        dead.
        """
        if not self._connection.poll(SECONDS):
            self._stop()
            return Failure("runs", f"a call takes more than {SECONDS} s")
        try:
            verdict, found = self._connection.recv()
        except (EOFError, ConnectionError):
            self._process.join()
            code = self._process.exitcode
            self._stop()
            return Failure("runs", f"the call dies of {exit_cause(code)}")
        return found if verdict == "done" else Failure("runs", found)

    def _start(self) -> None:
        """Start the child process."""
        context = multiprocessing.get_context("spawn")
        self._connection, other = context.Pipe()
        self._process = context.Process(target=_serve, args=(other,), daemon=True)
        self._process.start()
        other.close()
        self._loaded = None

    def _stop(self) -> None:
        """Kill the child process."""
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._connection.close()
        self._process = None


# ---- in the process -----------------------------------------------------------------


def _serve(connection: Connection) -> None:
    """Answer requests of the parent until there are no more (child process)."""
    import iree.runtime as iree

    config = iree.Config("local-sync")
    code, module = None, None
    while True:
        try:
            request = connection.recv()
        except EOFError:
            return
        try:
            if request[0] == "load":
                code = iree.VmModule.copy_buffer(config.vm_instance, request[1])
                modules = [*config.default_vm_modules, code]
                module = iree.VmContext(config.vm_instance, modules)
                found: Any = None
            else:
                found = _called(config.device, module, code, request[1:])
        except Exception as error:  # the runtime's
            connection.send(("failed", str(error).splitlines()[0]))
        else:
            connection.send(("done", found))


def _called(device: Any, module: Any, code: Any, request: Any) -> Arrays:
    """Call a function of a loaded module on arrays; return its results."""
    import iree.runtime as iree
    import numpy as np

    from aotc.artifacts.manifest import Leaf
    from aotc.runtime.buffers import sender, viewer

    name, arrays, inputs, outputs = request
    arguments = iree.VmVariantList(len(arrays))
    results = iree.VmVariantList(len(outputs))
    for array, dtype in zip(arrays, inputs, strict=True):
        arguments.push_ref(sender(device, Leaf("", dtype, array.shape))(array))
    module.invoke(code.lookup_function(name), arguments, results)
    found = []
    for number, dtype in enumerate(outputs):
        view = results.get_as_object(number, iree.HalBufferView)
        leaf = Leaf("", dtype, tuple(view.shape))
        found.append(np.array(viewer(device, leaf)(view)))
    return found
