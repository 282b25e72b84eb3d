"""Programs whose regions are computed by their terms, beside compiled code."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from aotc import reference
from aotc.dialects.functions.functions import functions_of
from aotc.dialects.functions.fusion import fused_of
from aotc.importers import load
from aotc.kernels.reference import evaluate_region
from aotc.machine.target import Target
from aotc.mlir import Function
from aotc.passes import run_passes
from aotc.passes.base import Unit
from aotc.passes.stages import PASS_STAGES


@dataclass(frozen=True)
class Regions:
    """A program with the regions that kernels are made of."""

    unit: Unit

    @classmethod
    def of(cls, model: Path, level: str = "x86_64-v4") -> Regions:
        """Return the regions of a model file for a target."""
        unit = Unit(load(model)).fork(Target.parse(level))
        for stage in PASS_STAGES[:2]:
            run_passes(unit, stage.passes(), silently=True)
        return cls(unit)

    def __iter__(self) -> Iterator[tuple[str, Function]]:
        """Yield the family of each region, and its function."""
        for function in functions_of(self.unit.module).values():
            if (fused := fused_of(function)) is not None:
                yield fused.kernel, function

    def evaluate(self, entry: str, inputs: Mapping[str, Any]) -> list[np.ndarray]:
        """Return what an entry does, its regions computed by their terms.

        Args:
            entry: its name.
            inputs: by name, and states; weights are the program's.
        """
        program = self.unit.program
        given = [
            inputs.get(port.name, program.parameters.get(port.name))
            for port in program.entry(entry).arguments
        ]
        with_region = {"with_region": evaluate_region}
        return reference.evaluate(self.unit.module, entry, given, **with_region)
