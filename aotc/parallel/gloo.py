"""The engine of `torchrun`: gloo, through torch.distributed."""

from __future__ import annotations

import atexit
from typing import TYPE_CHECKING

from aotc.parallel.engine import rank_lost
from aotc.parallel.messages import MessageEngine

if TYPE_CHECKING:
    import torch


class GlooEngine(MessageEngine):
    """An engine that exchanges messages by torch.distributed's gloo backend.

    A program that has called `init_process_group` goes on with what it has. Groups are
    left when the interpreter ends: threads of gloo that go on then abort the process.
    """

    name = "gloo"

    def __init__(self) -> None:
        import torch
        import torch.distributed as distributed

        self._torch, self._distributed = torch, distributed
        self._has_begun = not distributed.is_initialized()
        if self._has_begun:
            distributed.init_process_group("gloo")
        self._group = distributed.new_group(backend="gloo")
        super().__init__(distributed.get_rank(), distributed.get_world_size())
        atexit.register(self.close)

    def gather(self, message: bytes) -> list[memoryview]:
        """Send a message to all ranks; return the messages of all ranks in order."""
        try:
            sizes = self._gather(self._torch.tensor([len(message)]))
            most = max(int(size) for size in sizes)
            padded = bytearray(message.ljust(most, b"\0"))
            found = self._gather(
                self._torch.frombuffer(padded, dtype=self._torch.uint8)
            )
        except RuntimeError as error:
            first_line = str(error).partition("\n")[0]
            raise rank_lost(None, self.size, f"gloo says: {first_line}") from error
        return [each.numpy().data for each in found]

    def _gather(self, tensor: torch.Tensor) -> list[torch.Tensor]:
        """Return the tensors of all ranks, which have one shape."""
        found = [self._torch.empty_like(tensor) for _ in range(self.size)]
        self._distributed.all_gather(found, tensor, group=self._group)
        return found

    def close(self) -> None:
        """Destroy the process group, and the default one if this engine made it."""
        group, self._group = self._group, None
        if group is None or not self._distributed.is_initialized():
            return
        self._distributed.destroy_process_group(None if self._has_begun else group)
