"""Which targets this machine can run."""

import pytest

from aotc.machine import processor
from aotc.machine.target import Target


def require_runs_here(target: Target) -> None:
    """Skip a test if this processor lacks a feature that the target's code uses."""
    if not set(target.cpu_features_required) <= set(processor.cpu_features()):
        pytest.skip(f"this processor runs no code for {target}")
