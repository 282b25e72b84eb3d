"""The smallest set of targets that a fleet needs: an exact minimum partial set cover.

Targets are few, so all sets of a size are tried, from the smallest on: of n targets at
most 2**n, however large the fleet is. What no cover can do without is taken first,
which leaves little to try.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations

Targets = tuple[str, ...]


@dataclass(frozen=True)
class Demand:
    """A group of devices, and how many of them may be left without code.

    Args:
        devices: how many there are by the targets that run on them, the fastest first.
        spare: how many of them may be left out.
    """

    devices: Mapping[Targets, int]
    spare: int = 0

    @property
    def is_feasible(self) -> bool:
        """Return whether all targets together would serve enough of the devices."""
        return self.devices.get((), 0) <= self.spare


def smallest_cover(
    fleet: Demand, parts: Iterable[Demand] = (), given: Collection[str] = ()
) -> Targets:
    """Return the fewest targets that, added to those `given`, meet all demands.

    Of several such sets it is the one that serves most devices of the fleet, and of
    those the one whose targets are fastest where they run: with the least sum over
    devices of the place of the first target in their targets.

    A demand that is not feasible asks for all devices that have a target.

    Args:
        fleet: all devices.
        parts: groups of devices of the fleet, each a demand of its own.
        given: targets that are there already; the result has none of them.
    """
    conditions = _Conditions.of((fleet, *parts), given)
    useful = conditions.targets
    forced = {each for each in useful if not conditions.hold(useful - {each})}
    free = sorted(useful - forced)
    for size in range(len(free) + 1):
        chosen = (forced.union(each) for each in combinations(free, size))
        covers = [cover for cover in chosen if conditions.hold(cover)]
        if covers:
            best = min(covers, key=lambda cover: _cost(fleet, cover.union(given)))
            return tuple(sorted(best))
    raise AssertionError("all useful targets together meet every demand")


@dataclass(frozen=True)
class _Conditions:
    """The demands that remain once some targets are given, simplified.

    Args:
        needs: sets of targets, one of each of which has to be chosen, as more devices
            have these targets alone than may be left out.
        limits: counts of devices by targets, with how many of them may be left out.
    """

    needs: frozenset[frozenset[str]]
    limits: frozenset[tuple[frozenset[tuple[frozenset[str], int]], int]]

    @classmethod
    def of(cls, demands: Iterable[Demand], given: Collection[str]) -> _Conditions:
        """Return the conditions for those devices that no `given` target serves.

        Each demand is of a group of devices; equal conditions are merged.
        """
        needs, limits = set(), set()
        for demand in demands:
            spare = max(0, demand.spare - demand.devices.get((), 0))
            counts = _counts_by_set(demand, given)
            needs |= {targets for targets, count in counts.items() if count > spare}
            few = {each: count for each, count in counts.items() if count <= spare}
            if sum(few.values()) > spare:
                limits.add((frozenset(few.items()), spare))
        return cls(frozenset(needs), frozenset(limits))

    @property
    def targets(self) -> frozenset[str]:
        """All targets that could help to meet the demands."""
        limited = (targets for counts, _ in self.limits for targets, _ in counts)
        return frozenset().union(*self.needs, *limited)

    def hold(self, chosen: Collection[str]) -> bool:
        """Return whether the chosen targets meet every demand."""
        return not any(need.isdisjoint(chosen) for need in self.needs) and all(
            sum(n for targets, n in counts if targets.isdisjoint(chosen)) <= spare
            for counts, spare in self.limits
        )


def _counts_by_set(demand: Demand, given: Collection[str]) -> dict[frozenset[str], int]:
    """Count devices by set of targets, leaving out those that a given target serves."""
    counts: dict[frozenset[str], int] = {}
    for targets, count in demand.devices.items():
        if targets and set(targets).isdisjoint(given):
            key = frozenset(targets)
            counts[key] = counts.get(key, 0) + count
    return counts


def _cost(fleet: Demand, chosen: Collection[str]) -> tuple[int, int]:
    """Return a sort key of a set of targets: devices left out, then the sum of speed
    ranks on the others.
    """
    left_out = slowness = 0
    for targets, count in fleet.devices.items():
        places = (place for place, target in enumerate(targets) if target in chosen)
        place = next(places, None)
        if place is None:
            left_out += count
        else:
            slowness += count * place
    return left_out, slowness
