"""One training step: exported once for all systems, checked, and timed."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

from inference.case import Case
from inference.systems import System, run_module


@dataclass(frozen=True)
class TrainingCase(Case):
    """A model's training step to measure, and its working folder."""

    python: Path

    @property
    def exported(self) -> Path:
        """The folder of the forms for all systems."""
        return self.work / "steps" / self.model

    def export(self, torch: Path, systems: list[System]) -> bool:
        """Write the model's source, parameters, a batch and expected losses; false if
        that fails.

        False if that fails; it has said why on standard error.
        """
        try:
            run_module(self.python, "training.export", self.model, str(self.exported))
            run_module(torch, "training.expected", str(self.exported))
        except subprocess.CalledProcessError:
            return False
        return True
