"""Choose the precision of each layer so that the quality holds with the fewest bytes.

Each layer alone is measured at each of its precisions. What layers cost is taken to add
up, by which the choice with the fewest bytes is known for any budget; the largest
budget whose choice holds the quality is found by bisection, measuring the whole
program. At last each layer is narrowed further, where the quality still holds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from aotc.programs.computed_arrays import Array
from aotc.quantization.layers import Layer
from aotc.quantization.measuring import MeasuredLoss, Tell
from aotc.quantization.recipe import LayerPlan

_LEVELS = 1000  # that costs are rounded up to
_BISECTIONS = 12

Measure = Callable[[Sequence[LayerPlan]], MeasuredLoss]
Keep = Callable[[Sequence[LayerPlan]], None]
Rungs = Sequence[Sequence[LayerPlan]]  # of each layer, the narrowest first


@dataclass(frozen=True)
class Chosen:
    """The plans that were chosen, one for each layer, and their measured loss.

    Args:
        plans: of each layer.
        lost: by the metric.
        evaluations: how many programs were measured.
        sensitivity: what each layer loses alone, by its name and that of the precision;
            empty where it was not measured.
    """

    plans: tuple[LayerPlan, ...]
    lost: float
    evaluations: int
    sensitivity: Mapping[str, Mapping[str, MeasuredLoss]] = field(default_factory=dict)


def choose(
    layers: Sequence[Layer],
    rungs: Rungs,
    measure: Measure,
    quality: float,
    tell: Tell,
    keep: Keep = lambda plans: None,
) -> Chosen:
    """Search for the plans with the fewest bytes whose loss is within `quality`.

    Args:
        layers: of the program.
        rungs: of each; the last one loses nothing.
        measure: what some plans lose.
        quality: what may be lost.
        tell: gets what is being done.
        keep: gets plans, of which those that are measured next differ in one layer.
    """
    search = _RungSearch(layers, rungs, measure, quality, tell, keep)
    narrow = (0,) * len(layers)
    if search.holds(narrow):
        return search.chosen(narrow, ())
    alone = search.measure_alone()
    found = search.bisect(_LayerCostModel.of(search.bytes, alone, quality))
    return search.chosen(search.narrow(found), alone)


@dataclass
class _RungSearch:
    """The state of a search that assigns each layer a rung (an index of its plans)."""

    layers: Sequence[Layer]
    rungs: Rungs
    measure: Measure
    quality: float
    tell: Tell
    keep: Keep
    _known: dict[tuple[int, ...], MeasuredLoss] = field(default_factory=dict)

    @property
    def bytes(self) -> list[list[int]]:
        """Bytes of each layer's weight at each of its rungs."""
        return [
            [plan.kind.stored_bytes(layer.shape, layer.summed) for plan in row]
            for layer, row in zip(self.layers, self.rungs, strict=True)
        ]

    @property
    def widest(self) -> tuple[int, ...]:
        """The choice of every layer's last rung, which loses nothing."""
        return tuple(len(row) - 1 for row in self.rungs)

    def plans(self, choice: Sequence[int]) -> tuple[LayerPlan, ...]:
        """Return the plans that a choice (a rung for each layer) selects."""
        pairs = zip(self.rungs, choice, strict=True)
        return tuple(rungs[number] for rungs, number in pairs)

    def measured(self, choice: tuple[int, ...]) -> MeasuredLoss:
        """Return the loss of a choice, measured once; zero for the unchanged
        program.
        """
        if choice == self.widest:
            return MeasuredLoss(0.0, 0.0)
        if choice not in self._known:
            self._known[choice] = self.measure(self.plans(choice))
        return self._known[choice]

    def holds(self, choice: tuple[int, ...]) -> bool:
        """Return whether a choice loses no more than allowed."""
        return self.measured(choice).lost <= self.quality

    def measure_alone(self) -> list[list[MeasuredLoss]]:
        """Return the measured loss with one layer at a time quantised, at each of its
        rungs.
        """
        wide, count = self.widest, len(self.layers)
        self.keep(self.plans(wide))
        rows = []
        for number, rungs in enumerate(self.rungs):
            self.tell(f"layer {number + 1} of {count}: {self.layers[number].name}")
            choices = (_replace_rung(wide, number, rung) for rung in range(len(rungs)))
            rows.append([self.measured(choice) for choice in choices])
        return rows

    def bisect(self, model: _LayerCostModel) -> tuple[int, ...]:
        """Return the choice for the largest cost budget found to keep the quality."""
        found, least, most = self.widest, 0.0, 1.0  # of what all layers cost
        for turn in range(_BISECTIONS):
            middle = (least + most) / 2 if least else most / 4
            self.tell(f"tries choice {turn + 1} of {_BISECTIONS}")
            choice = model.choice(middle)
            if self.holds(choice):
                found, least = choice, middle
            else:
                most = middle
        return found

    def narrow(self, choice: tuple[int, ...]) -> tuple[int, ...]:
        """Return the choice with layers narrowed while the quality holds, largest gain
        first.
        """
        sizes = self.bytes
        steps = [(n, rung) for n, at in enumerate(choice) for rung in range(at)]
        steps.sort(
            key=lambda step: (
                sizes[step[0]][step[1]] - _current_bytes(sizes, choice, step)
            )
        )
        self.keep(self.plans(choice))
        for turn, (number, rung) in enumerate(steps):
            name = self.layers[number].name
            self.tell(f"narrows, try {turn + 1} of {len(steps)}: {name}")
            tried = _replace_rung(choice, number, rung)
            if rung < choice[number] and self.holds(tried):
                choice = tried
                self.keep(self.plans(choice))
        return choice

    def chosen(
        self, choice: tuple[int, ...], alone: Sequence[Sequence[MeasuredLoss]]
    ) -> Chosen:
        """Return a choice's plans with its loss, and the losses measured on the way.

        Args:
            choice: a rung for each layer.
            alone: what each layer loses at each of its rungs; empty if not measured.
        """
        sensitivity = {
            layer.name: {
                plan.precision: value
                for plan, value in zip(rungs[:-1], row[:-1], strict=True)
            }
            for layer, rungs, row in zip(self.layers, self.rungs, alone, strict=False)
        }
        lost = self.measured(choice).lost
        return Chosen(self.plans(choice), lost, len(self._known), sensitivity)


def _replace_rung(choice: tuple[int, ...], number: int, rung: int) -> tuple[int, ...]:
    """Return a choice with the rung of one layer replaced."""
    return (*choice[:number], rung, *choice[number + 1 :])


def _current_bytes(
    sizes: Sequence[Sequence[int]], choice: Sequence[int], step: tuple[int, int]
) -> int:
    """Return the bytes of the layer of a step at its present rung."""
    return sizes[step[0]][choice[step[0]]]


class _LayerCostModel(NamedTuple):
    """An additive cost model of layers: the bytes and the cost at each rung.

    Args:
        bytes: of each layer at each of its rungs.
        costs: likewise, as shares of what all cost at their narrowest.
    """

    bytes: Sequence[Sequence[int]]
    costs: Sequence[Array]

    @classmethod
    def of(
        cls,
        sizes: Sequence[Sequence[int]],
        alone: Sequence[Sequence[MeasuredLoss]],
        quality: float,
    ) -> _LayerCostModel:
        """Return the cost model for the losses of layers measured one at a time.

        A layer costs what it loses by the metric, which may be the same for many, and
        the noise that it adds to results.
        """
        noise = sum(row[0].noise for row in alone)
        lost = max(sum(row[0].lost for row in alone), quality, 1e-12)
        rows = [
            np.array([x.noise / max(noise, 1e-30) + x.lost / lost for x in row])
            for row in alone
        ]
        total = max(sum(row[0] for row in rows), 1e-30)
        return cls(sizes, [row / total for row in rows])

    def choice(self, budget: float) -> tuple[int, ...]:
        """Return the choice of fewest bytes whose summed cost is within a budget.

        By dynamic programming over the budget that is left, in so many levels. Of those
        that take the same it is the one that costs the least.
        """
        unit = _LEVELS * (len(self.bytes) + 1)  # of a byte, by that of a level
        least = np.zeros(_LEVELS + 1)  # what the layers so far take, by level
        rungs_of = []
        for sizes, costs in zip(self.bytes, self.costs, strict=True):
            levels = np.ceil(np.minimum(costs / budget, 2) * _LEVELS).astype(int)
            options = np.full((len(sizes), _LEVELS + 1), np.inf)
            for rung, (size, level) in enumerate(zip(sizes, levels, strict=True)):
                if level <= _LEVELS:
                    before = least[: _LEVELS + 1 - level]
                    options[rung, level:] = before + size * unit + level
            rungs_of.append((options.argmin(axis=0), levels))
            least = options.min(axis=0)
        at, found = _LEVELS, list[int]()
        for best, levels in reversed(rungs_of):
            rung = int(best[at])
            found.append(rung)
            at -= int(levels[rung])
        return tuple(found[::-1])
