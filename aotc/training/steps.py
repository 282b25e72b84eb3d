"""The steps of a loop: call the entry with a batch, measure, record, and tell."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from aotc.artifacts import trees
from aotc.artifacts.manifest import EntryPoint
from aotc.core import dtypes
from aotc.errors import Finding, InputError
from aotc.runtime import Model
from aotc.training import entries, metrics, wording
from aotc.training.entries import Array
from aotc.training.history import Step
from aotc.training.replicas import Replicas

OnStep = Callable[[Step], object]


class StepRunner:
    """Runs the steps of a loop one by one and records their metrics.

    Args:
        model: the loaded model.
        point: the entry to call.
        constants: the inputs that are the same in every step, by name.
        log: where to write what is measured.
        total: the number of the last step, if it is known.
        allow_nan: go on after a metric that is NaN or infinite.
        on_step: is told of each step; what it returns is not looked at.
        replicas: the devices that a batch is divided among; None for the model alone.
    """

    def __init__(
        self,
        model: Model,
        point: EntryPoint,
        constants: Mapping[str, object],
        log: metrics.MetricsLog,
        *,
        total: int | None,
        allow_nan: bool,
        on_step: OnStep | None,
        replicas: Replicas | None = None,
    ) -> None:
        self._model = model
        self._replicas = replicas
        self._point = point
        self._constants = constants
        self._log = log
        self._total = total
        self._allow_nan = allow_nan
        self._on_step = on_step
        self._build_result = trees.builder(point.result)
        self._measured: dict[str, list[Any]] = {}
        self._began = perf_counter() - log.seconds

    @property
    def seconds(self) -> float:
        """Seconds of the loop so far, with the time of earlier runs."""
        return perf_counter() - self._began

    def run(
        self,
        step: int,
        epoch: int,
        batch: Mapping[str, object],
        checkpoint: Path | None = None,
    ) -> list[Array]:
        """Run one step and record its metrics; return the entry's outputs.

        Args:
            step: its number, from 1.
            epoch: from 1.
            batch: the other inputs, by name.
            checkpoint: a folder to search for the origin of a NaN from.

        Raises:
            InputError: the inputs break the contract; or `not-finite`, if a metric is
                NaN or infinite.
            SetupError: `cannot-write`, of the metrics.
        """
        with _errors_of(step):
            outputs = self._call(batch)
        names = [leaf.name for leaf in self._point.outputs]
        measured = metrics.scalars(dict(zip(names, outputs, strict=True)))
        seconds = self.seconds
        self._log.step(step, epoch, seconds, measured)
        self._require_finite(measured, f"step {step} (epoch {epoch})", checkpoint)
        for name, value in measured.items():
            self._measured.setdefault(name, []).append(value)
        if self._on_step:
            result = self._build_result(outputs)
            told = Step(step, self._total, epoch, seconds, measured, result)
            self._on_step(told)
        return outputs

    def _call(self, batch: Mapping[str, object]) -> list[Array]:
        """Call the entry with a batch and the constants, on all devices."""
        if self._replicas is not None:
            return self._replicas.call(self._constants, batch)
        given = {**self._constants, **batch}
        return entries.call(self._model, self._point, given)

    def metrics(self) -> dict[str, Array]:
        """Return the metrics of all steps so far: an array by name."""
        return {
            leaf.name: np.array(self._measured[leaf.name], dtypes.to_numpy(leaf.dtype))
            for leaf in self._point.outputs
            if leaf.name in self._measured
        }

    def _require_finite(
        self, measured: Mapping[str, object], when: str, checkpoint: Path | None
    ) -> None:
        """Raise if a metric is NaN or infinite, unless that is allowed."""
        name = metrics.not_finite(measured)
        if name is None or self._allow_nan:
            return
        words = wording.current()
        search = entries.nan_search(self._model, self._point.name, checkpoint)
        raise InputError(
            "not-finite",
            f"{self._point.name}: {name} is {measured[name]} in {when}",
            hint=f"{search} names the op at fault; "
            f"{words.option('allow_nan', True)} goes on anyway",
        )


@contextmanager
def _errors_of(step: int) -> Iterator[None]:
    """Add the step's number to errors about its arguments or results."""
    try:
        yield
    except (Finding, InputError) as error:
        error.message = f"step {step}: {error.message}"
        raise
