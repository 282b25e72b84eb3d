"""Builds for GPUs need no Triton here: what it makes of a kernel is stood in for."""

from __future__ import annotations

import pytest

from aotc.backend import device_kernels
from aotc.kernels import capabilities


@pytest.fixture
def with_triton(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let kernels be planned as where Triton is installed."""
    monkeypatch.setattr(capabilities, "has_triton", lambda: True)
    monkeypatch.setattr(device_kernels, "triton_version", lambda: "0")
