"""Metrics of the distance between results before and after quantisation: 0 is none.

A metric gives what is lost, as a share where that makes sense: `--quality 0.5%` asks
for at most 0.005.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from aotc.core import dtypes
from aotc.errors import InputError
from aotc.programs.computed_arrays import Array

Outputs = Sequence[Array]  # of one entry, all calls together


def top1(reference: Array, found: Array) -> float:
    """Return the fraction of rows whose argmax differs."""
    return float(np.mean(reference.argmax(-1) != found.argmax(-1)))


def disagreement(reference: Array, found: Array) -> float:
    """Return the fraction of elements that differ."""
    return float(np.mean(reference != found))


def divergence(reference: Array, found: Array) -> float:
    """Return the mean Kullback–Leibler divergence of rows, in nats.

    Rows that are no probabilities are taken for their logarithms.
    """
    p, q = _log_probabilities(reference, found)
    return float(np.mean((np.exp(p) * (p - q)).sum(-1)))


def _log_probabilities(*arrays: Array) -> list[Array]:
    """Return arrays of probabilities or logits as log-probabilities over the
    last axis.
    """
    wide = [x.astype(np.float64) for x in arrays]
    least, most = 1e-30, 1e-3
    are_shares = all(
        (x >= 0).all() and (np.abs(x.sum(-1) - 1) < most).all() for x in wide
    )
    if are_shares:
        return [np.log(np.maximum(x / x.sum(-1, keepdims=True), least)) for x in wide]
    moved = [x - x.max(-1, keepdims=True) for x in wide]
    return [x - np.log(np.exp(x).sum(-1, keepdims=True)) for x in moved]


def cosine(reference: Array, found: Array) -> float:
    """Return 1 less the cosine similarity of two arrays."""
    x, y = (each.astype(np.float64).reshape(-1) for each in (reference, found))
    size = float(np.linalg.norm(x) * np.linalg.norm(y))
    if not size:
        return 0.0 if np.array_equal(x, y) else 1.0
    return max(0.0, 1 - float(x @ y) / size)


METRICS: dict[str, Callable[[Array, Array], float]] = {
    "top1": top1,
    "kl": divergence,
    "cosine": cosine,
    "disagreement": disagreement,
}


@dataclass(frozen=True)
class LossMetric:
    """A metric of the loss between outputs before and after quantisation.

    Args:
        name: of it: one of `METRICS`, `auto`, or that of a user's function.
        function: of the user; gets the outputs by name of the program and of the
            quantised one, and the arrays of the data.
    """

    name: str = "auto"
    function: Callable[
        [dict[str, Array], dict[str, Array], dict[str, Array]], float
    ] | (None) = None

    @classmethod
    def from_name(cls, text: str) -> LossMetric:
        """Return the metric with this name, or the user's function in
        `FILE.py:FUNCTION`.

        Raises:
            InputError: `bad-metric`.
        """
        if text == "auto" or text in METRICS:
            return cls(text)
        path, colon, name = text.rpartition(":")
        if not colon or not path.endswith(".py"):
            raise _bad(f"auto, {', '.join(METRICS)} or FILE.py:FUNCTION; got {text!r}")
        spec = importlib.util.spec_from_file_location("aotc_metric", path)
        if spec is None or spec.loader is None or not Path(path).is_file():
            raise _bad(f"a file of Python; there is no '{path}'")
        module = importlib.util.module_from_spec(spec)
        try:
            spec.loader.exec_module(module)
            return cls(f"{Path(path).name}:{name}", getattr(module, name))
        except Exception as error:  # whatever the user's file raises
            raise _bad(f"a function '{name}' in '{path}'; {error!r}") from error

    def resolve_auto(self, outputs: Outputs) -> LossMetric:
        """Return the metric itself, or for `auto` the one that suits a program's
        outputs.

        Args:
            outputs: of all entries that are measured.
        """
        if self.name != "auto":
            return self
        for name in ("top1", "disagreement"):
            if any(_applies_to(METRICS[name], x) for x in outputs):
                return LossMetric(name)
        return LossMetric("cosine")

    def measures(self, output: Array) -> bool:
        """Return whether the metric applies to an output of this dtype and rank."""
        return self.function is not None or _applies_to(METRICS[self.name], output)

    def loss_of(
        self,
        names: Sequence[str],
        reference: Outputs,
        found: Outputs,
        data: Mapping[str, Array],
    ) -> float:
        """Return the loss of an entry's outputs: the largest, or what the user's
        function gives.

        Raises:
            InputError: `bad-metric`: the user's function fails, or gives no number.
        """
        if self.function is None:
            measure = METRICS[self.name]
            pairs = zip(reference, found, strict=True)
            lost = [measure(x, y) for x, y in pairs if self.measures(x)]
            return max(lost, default=0.0) if np.isfinite(lost).all() else np.inf
        wanted, given = (
            dict(zip(names, each, strict=True)) for each in (reference, found)
        )
        try:
            lost_share = float(self.function(wanted, given, dict(data)))
        except Exception as error:  # whatever the user's function raises
            raise _bad(f"{self.name} to return a number; {error!r}") from error
        return lost_share if np.isfinite(lost_share) else np.inf


def _applies_to(measure: object, x: Array) -> bool:
    """Return whether a metric applies to an output of this dtype and rank."""
    is_float = dtypes.is_float(dtypes.canonical_dtype(x.dtype))
    if measure is disagreement:
        return not is_float
    return is_float and (measure is cosine or x.ndim > 0 and x.shape[-1] > 1)


def _bad(expected: str) -> InputError:
    """Return an error of code `bad-metric`."""
    return InputError(
        "bad-metric",
        f"expected {expected}",
        hint="FUNCTION(reference, quantised, data) gets arrays by name and returns "
        "what is lost, 0 for nothing: docs/precision.md",
    )
