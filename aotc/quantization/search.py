"""Choose the precision of each layer so that the quality holds with the fewest bytes.

Each layer alone is measured at each of its precisions; what is lost is taken to add up.
By that model layers are widened one step at a time, the most of what is lost per byte
first; how many steps it takes is found by bisection, measuring the whole program. At
last layers that were widened are narrowed again one by one, where the quality holds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from aotc.quantization.layers import Layer
from aotc.quantization.measuring import Tell
from aotc.quantization.recipe import LayerPlan

Measure = Callable[[Sequence[LayerPlan]], float]
Rungs = Sequence[Sequence[LayerPlan]]  # of each layer, the narrowest first


@dataclass(frozen=True)
class Chosen:
    """The plans that hold the quality.

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
    sensitivity: Mapping[str, Mapping[str, float]] = field(default_factory=dict)


def choose(
    layers: Sequence[Layer],
    rungs: Rungs,
    measure: Measure,
    quality: float,
    tell: Tell,
) -> Chosen:
    """Return the plans with the fewest bytes that were found to lose no more.

    Args:
        layers: of the program.
        rungs: of each; the last one loses nothing.
        measure: what some plans lose.
        quality: what may be lost.
        tell: gets what is being done.
    """
    search = _Search(layers, rungs, measure, tell)
    narrow = [0] * len(layers)
    lost = search.lost(narrow)
    if lost <= quality:
        return search.chosen(narrow, lost, ())
    sensitivity = search.sensitivity()
    steps = _widening(layers, rungs, sensitivity)
    first, last = 0, len(steps)  # after so many steps it fails, and holds
    while last - first > 1:
        middle = (first + last) // 2
        tell(f"widens {middle} of {len(steps)} steps")
        if search.lost(_after(steps[:middle], len(layers))) <= quality:
            last = middle
        else:
            first = middle
    found = _after(steps[:last], len(layers))
    for number in _by_bytes(layers, rungs, found):
        tell(f"narrows {layers[number].name} again")
        narrower = [*found]
        narrower[number] -= 1
        if search.lost(narrower) <= quality:
            found = narrower
    return search.chosen(found, search.lost(found), sensitivity)


@dataclass
class _Search:
    """Measures choices of a rung for each layer, each once."""

    layers: Sequence[Layer]
    rungs: Rungs
    measure: Measure
    tell: Tell
    _known: dict[tuple[int, ...], float] = field(default_factory=dict)

    def plans(self, choice: Sequence[int]) -> tuple[LayerPlan, ...]:
        """The plans of a choice."""
        pairs = zip(self.rungs, choice, strict=True)
        return tuple(rungs[number] for rungs, number in pairs)

    def lost(self, choice: Sequence[int]) -> float:
        """What a choice loses; nothing, if all is as it was."""
        key = tuple(choice)
        if key not in self._known:
            pairs = zip(self.rungs, choice, strict=True)
            is_wide = all(number == len(rungs) - 1 for rungs, number in pairs)
            self._known[key] = 0.0 if is_wide else self.measure(self.plans(key))
        return self._known[key]

    def sensitivity(self) -> tuple[tuple[float, ...], ...]:
        """What each layer loses alone, at each of its rungs."""
        wide = [len(rungs) - 1 for rungs in self.rungs]
        rows = []
        for number, rungs in enumerate(self.rungs):
            self.tell(f"layer {number + 1} of {len(wide)}: {self.layers[number].name}")
            row = []
            for rung in range(len(rungs)):
                choice = [*wide]
                choice[number] = rung
                row.append(self.lost(choice))
            rows.append(tuple(row))
        return tuple(rows)

    def chosen(
        self, choice: Sequence[int], lost: float, rows: Sequence[Sequence[float]]
    ) -> Chosen:
        """The answer."""
        sensitivity = {
            layer.name: {
                plan.precision: value
                for plan, value in zip(rungs[:-1], row[:-1], strict=True)
            }
            for layer, rungs, row in zip(self.layers, self.rungs, rows, strict=False)
        }
        return Chosen(self.plans(choice), lost, len(self._known), sensitivity)


def _bytes(layer: Layer, plan: LayerPlan) -> int:
    return plan.kind.stored_bytes(layer.shape, layer.summed)


def _widening(
    layers: Sequence[Layer], rungs: Rungs, lost: Sequence[Sequence[float]]
) -> list[int]:
    """The layers to widen by a step, in order: what gains the most by byte first.

    At the end all are as wide as can be.
    """
    at = [0] * len(layers)
    order = []
    while True:
        best, most = None, -1.0
        for number, layer in enumerate(layers):
            row, here = rungs[number], at[number]
            if here + 1 < len(row):
                gained = max(lost[number][here] - lost[number][here + 1], 0.0)
                more = _bytes(layer, row[here + 1]) - _bytes(layer, row[here])
                # of those that gain nothing, the smallest
                value = (gained + 1e-9) / max(more, 1)
                if value > most:
                    best, most = number, value
        if best is None:
            return order
        at[best] += 1
        order.append(best)


def _after(steps: Sequence[int], count: int) -> list[int]:
    """The rung of each layer after some steps."""
    found = [0] * count
    for number in steps:
        found[number] += 1
    return found


def _by_bytes(
    layers: Sequence[Layer], rungs: Rungs, choice: Sequence[int]
) -> list[int]:
    """The layers that were widened, those first that take the most bytes more."""
    widened = [number for number, rung in enumerate(choice) if rung]

    def extra(number: int) -> int:
        layer, row, rung = layers[number], rungs[number], choice[number]
        return _bytes(layer, row[rung]) - _bytes(layer, row[rung - 1])

    return sorted(widened, key=extra, reverse=True)
