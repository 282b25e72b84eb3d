"""The running code of a variant, and the locks and memory that its calls share."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING

import iree.runtime as iree

from aotc.runtime import engine, lifetime
from aotc.runtime.collectives import Exchange
from aotc.runtime.foreign_tensors import DlpackGpu
from aotc.runtime.scheduling import without_wakeup_preemption

if TYPE_CHECKING:
    from aotc.runtime.iree_types import HalDevice, VmContext, VmFunction, VmModule

_RELEASE = "$release_workspaces"  # of modules that have any (aotc.worker.workspaces)
# Calls of a kind, one after the other, after which workspaces of other kinds are given
# back: entries that take turns, such as a training step and an evaluation, keep them.
CALLS_OF_A_KIND = 8


class LoadedModule:
    """The running code of a variant, shared by all functions of a model.

    Args:
        context: that the module lives in.
        module: of IREE's VM.
        device: that runs it.
        on_cpu: whether that is a processor.
        gpu: whose tensors calls take where they lie, if it is one that lends any.
        exchange: what the code calls for collectives.
    """

    def __init__(
        self,
        context: VmContext,
        module: VmModule,
        device: HalDevice,
        on_cpu: bool,
        gpu: DlpackGpu | None,
        exchange: Exchange | None = None,
    ) -> None:
        self.context = context
        self.module = module
        self.device = device
        self.on_cpu = on_cpu
        self.gpu = gpu
        self.take_error = exchange.take_error if exchange else lambda: None
        self.memory = engine.call_memory(device)
        if not on_cpu:
            self.memory.give_back()  # what loading took
        self._keep_for = self.memory.expect
        self.has_pool = lifetime.has_pool(device)
        invoke = context.invoke
        self.invoke = without_wakeup_preemption(invoke) if self.has_pool else invoke
        self.lock = lifetime.call_lock()
        self.copying = lifetime.copy_lock()
        self._release = module.lookup_function(_RELEASE)
        self._last_call: Hashable = None
        self._in_a_row = 0
        self._is_mixed = False  # whether workspaces may be of another kind

    def expect(self, call: Hashable, size: int = 0) -> None:
        """Announce a call: keep memory for calls like recent ones, and free the rest.

        Args:
            call: the function and the sizes of its inputs.
            size: bytes that it moves to and from a GPU.
        """
        if self._release is not None:
            self._expect_workspaces(self._release, call)
        self._keep_for(call, size)

    def _expect_workspaces(self, release: VmFunction, call: Hashable) -> None:
        """Free workspaces of other kinds of calls once several of one kind came in a
        row.

        Note [workspaces of entries that take turns]: a block serves every entry that
        needs at most its size, so that the model holds what its largest entry needs.
        Given back at each change, it cost a training step of GPT, after each of which
        its state was read, 23,000 page faults and half of its time.
        """
        if call != self._last_call:
            self._is_mixed = self._last_call is not None
            self._last_call, self._in_a_row = call, 0
        self._in_a_row += 1
        if self._is_mixed and self._in_a_row == CALLS_OF_A_KIND:
            with self.lock:
                self.invoke(release, iree.VmVariantList(0), iree.VmVariantList(0))
                self.memory.give_back()
            self._is_mixed = False
