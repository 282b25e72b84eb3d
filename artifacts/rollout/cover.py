"""The smallest set of targets that a fleet needs: an exact minimum set cover.

Targets are few (some twenty), devices that differ in which targets run on them are
few too, so all sets of a size are tried, from the smallest on. What only one target
covers is taken first, which leaves little to try.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations


@dataclass(frozen=True)
class Need:
    """Devices that any of these targets would serve.

    Args:
        targets: that run on the devices, the fastest first.
        count: how many devices.
    """

    targets: tuple[str, ...]
    count: int = 1


def smallest_cover(
    needs: Sequence[Need], given: Collection[str] = ()
) -> tuple[str, ...]:
    """The fewest targets that, with those `given`, serve every need.

    Of several such sets it is the one whose targets are fastest where they run: with
    the least sum over devices of the place of the first target in `Need.targets`.
    Needs without a target cannot be served, and are left out.
    """
    merged = _counts_by_targets(needs)
    open_needs = [targets for targets in merged if not set(targets) & set(given)]
    forced = {targets[0] for targets in open_needs if len(targets) == 1}
    open_needs = [targets for targets in open_needs if not set(targets) & forced]
    useful = sorted({target for targets in open_needs for target in targets})
    for size in range(len(useful) + 1):
        covers = [
            chosen
            for chosen in combinations(useful, size)
            if all(not set(targets).isdisjoint(chosen) for targets in open_needs)
        ]
        if covers:
            taken = forced | set(given)
            best = min(
                covers, key=lambda chosen: _slowness(merged, taken | set(chosen))
            )
            return tuple(sorted(forced.union(best)))
    raise AssertionError("all useful targets together serve every need")


def _counts_by_targets(needs: Sequence[Need]) -> dict[tuple[str, ...], int]:
    """How many devices have the same targets."""
    merged: dict[tuple[str, ...], int] = {}
    for need in needs:
        if need.targets:
            merged[need.targets] = merged.get(need.targets, 0) + need.count
    return merged


def _slowness(merged: Mapping[tuple[str, ...], int], chosen: set[str]) -> int:
    return sum(
        count * next(place for place, target in enumerate(targets) if target in chosen)
        for targets, count in merged.items()
    )
