"""Findings of a self-check on an entry, as output, report and manifest show them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np

from aotc.artifacts.checked import RUN_BY, sizes_text
from aotc.checks.judging import UNITS, Verdict
from aotc.checks.kernel_count import KernelCount
from aotc.core.json_values import JsonObject

_FEW, _MANY = 100, 1e6  # from where on tenths, and single ones, say nothing


@dataclass(frozen=True)
class BlockCount:
    """Counts of an entry's blocks of ops that were compared, by kind and code.

    Args:
        blocks: how many there are.
        kinds: of how many kinds: blocks of one are the same ops of other weights.
        compared: how many were compared.
        compared_kinds: of how many kinds these are.
        operations: the share of the entry's operations that these compute.
        repeated: how many others are the code of one that was compared, and have the
            weights of the source in the archive; see `aotc.checks.repetitions`.
        repeated_operations: the share that these compute.
    """

    blocks: int
    kinds: int
    compared: int = 0
    compared_kinds: int = 0
    operations: float = 0.0
    repeated: int = 0
    repeated_operations: float = 0.0

    def plus(self, is_new: bool, operations: float) -> BlockCount:
        """Return the counts with one more compared block.

        Args:
            is_new: whether it is the first of its kind.
            operations: the share of those that it computes.
        """
        return replace(
            self,
            compared=self.compared + 1,
            compared_kinds=self.compared_kinds + is_new,
            operations=min(self.operations + operations, 1.0),
        )

    def plus_repeated(self, operations: float) -> BlockCount:
        """Return the counts with one more block whose code equals a compared one's."""
        whole = min(self.repeated_operations + operations, 1.0)
        count = self.repeated + 1
        return replace(self, repeated=count, repeated_operations=whole)

    @property
    def is_of_all_kinds(self) -> bool:
        """Return whether a block of each kind was compared."""
        return self.compared_kinds == self.kinds

    @property
    def missing(self) -> str:
        """A phrase on the blocks that were not compared; empty if there are none."""
        left = self.blocks - self.compared - self.repeated
        if not left:
            return ""
        kinds = self.kinds - self.compared_kinds
        like = (
            f"of {kinds} of {self.kinds} kinds none was compared"
            if kinds
            else "like others that were compared"
        )
        return f"{left} of {self.blocks} blocks ({like})"

    def __str__(self) -> str:
        text = (
            f"{self.compared} of {self.blocks} blocks, {self.compared_kinds} of "
            f"{self.kinds} kinds, {_percent(self.operations)} % of the operations, on "
            "one input"
        )
        if not self.repeated:
            return text
        share = _percent(self.repeated_operations)
        return f"{text}; {self.repeated} others, {share} %, by their code and weights"

    def to_json(self) -> JsonObject:
        """Return the counts as the manifest holds them; shares in percent, rounded
        down.
        """
        return {
            **asdict(self),
            "operations": _percent(self.operations),
            "repeated_operations": _percent(self.repeated_operations),
        }


@dataclass(frozen=True)
class SelfCheck:
    """The findings of comparing one entry on one target with the reference evaluator.

    Args:
        entry: its name.
        target: what was run.
        checked: the sizes of the symbols in the calls that were compared.
        unchecked: what was not compared: sizes, or nothing for all, and why.
        results: the verdict on each output and updated state, over all calls.
        by: what ran the code: `machine`, this one, or `emulator`; see
            `aotc.artifacts.checked`.
        is_lasting: whether another run here would find the same: neither time nor
            memory ran out.
        blocks: how many were compared, if it was done block by block.
        kernels: how much of its kernels was evaluated, where no GPU is for them.
    """

    entry: str
    target: str
    checked: tuple[Mapping[str, int], ...] = ()
    unchecked: tuple[tuple[Mapping[str, int], str], ...] = ()
    results: tuple[Verdict, ...] = ()
    by: str = "machine"
    is_lasting: bool = True
    blocks: BlockCount | None = None
    kernels: KernelCount | None = None

    @property
    def operations(self) -> float:
        """The fraction of the entry's operations that was compared."""
        whole = 1.0 if self.checked else 0.0
        return whole if self.blocks is None else self.blocks.operations

    @property
    def error(self) -> float:
        """The largest relative error of any result."""
        return max((each.distance.error for each in self.results), default=0.0)

    @property
    def farthest(self) -> Verdict | None:
        """The verdict on the result with the largest error in units."""
        return max(self.results, key=lambda each: each.error_ulp, default=None)

    def skip(
        self, sizes: Mapping[str, int], why: str, *, is_lasting: bool = True
    ) -> SelfCheck:
        """Return the findings with one more set of symbol values that was not
        compared.
        """
        return replace(
            self,
            unchecked=(*self.unchecked, (sizes, why)),
            is_lasting=self.is_lasting and is_lasting,
        )

    def without_reasons(self, sizes: Mapping[str, int]) -> SelfCheck:
        """Return the findings without reasons why these sizes were not compared."""
        left = tuple(each for each in self.unchecked if each[0] != sizes)
        return replace(self, unchecked=left)

    def extend(self, sizes: Mapping[str, int], results: Sequence[Verdict]) -> SelfCheck:
        """Return the findings with these sizes as compared, and the verdicts there."""
        checked = self.checked if sizes in self.checked else (*self.checked, sizes)
        return replace(self._with_results(results), checked=checked)

    def extend_by_blocks(
        self, count: BlockCount, results: Sequence[Verdict]
    ) -> SelfCheck:
        """Return the findings with counts of compared blocks and their verdicts.

        If blocks of all kinds were, `extend` says at which sizes.
        """
        return replace(self._with_results(results), blocks=count)

    def _with_results(self, results: Sequence[Verdict]) -> SelfCheck:
        """Return the findings with these verdicts merged into those of the same
        results.
        """
        names = [each.distance.name for each in results]
        if names == [each.distance.name for each in self.results]:
            pairs = zip(self.results, results, strict=True)
            return replace(self, results=tuple(x.worse_of(y) for x, y in pairs))
        found = {each.distance.name: each for each in self.results}
        for each in results:
            known = found.get(each.distance.name)
            found[each.distance.name] = each if known is None else known.worse_of(each)
        return replace(self, results=tuple(found.values()))

    def to_json(self) -> JsonObject:
        """Return the findings as the report holds them, with all figures."""
        return {
            **self.to_manifest(),
            "operations": self.operations,
            "results": [each.to_json() for each in self.results],
        }

    def to_manifest(self) -> dict[str, object]:
        """Return the findings as the manifest holds them.

        Errors are the next power of ten: their digits depend on the machine, and the
        same source is to give the same bytes.
        """
        worst = self.farthest
        figures = {}
        if worst is not None:
            figures["ulp_below"] = _next_power_of_ten(worst.error_ulp)
            moved = worst.rounding_ulp if worst.error_ulp > UNITS else 0.0
            figures["rounding_ulp_below"] = _next_power_of_ten(moved)
        return {
            "entry": self.entry,
            "target": self.target,
            "by": self.by,
            "checked": [dict(sizes) for sizes in self.checked],
            "unchecked": [
                {"sizes": dict(sizes), "why": why} for sizes, why in self.unchecked
            ],
            "error_below": _next_power_of_ten(self.error),
            **figures,
            **({} if self.blocks is None else {"blocks": self.blocks.to_json()}),
            **({} if self.kernels is None else {"kernels": self.kernels.to_json()}),
        }

    def __str__(self) -> str:
        title = f"{self.entry} on {self.target}"
        rows = []
        if self.checked or self.blocks:
            at = sizes_text(self.checked)
            by = "" if self.by == "machine" else f" by {RUN_BY[self.by]}"
            by += f" block by block ({self.blocks})" if self.blocks else ""
            rows.append(f"{title} checked{by}{at}: {self._error_text()}")
        reasons: dict[str, list[Mapping[str, int]]] = {}
        for sizes, why in self.unchecked:
            reasons.setdefault(why, []).append(sizes)
        for why, skipped in reasons.items():
            rows.append(f"{title} NOT CHECKED{sizes_text(skipped)}: {why}")
        if self.kernels is not None:
            rows.append(f"{title}: {self.kernels}")
        return "\n".join(rows)

    def _error_text(self) -> str:
        """Return the largest error and its tolerance as text."""
        if not self.error:
            return "equal"
        worst = _units_text(self.farthest)
        return f"error at most {self.error:.1e} of the largest value{worst}"


def _percent(share: float) -> int:
    """Return a fraction in percent, rounded down."""
    return int(100 * share + 1e-6)  # 100 is all of them


def _next_power_of_ten(number: float) -> float:
    """Return the least power of ten that is at least a number; 0 for 0."""
    return float(10.0 ** np.ceil(np.log10(number))) if number else 0.0


def _units_text(worst: Verdict | None) -> str:
    """Return the largest error in units in the last place, and its bound, as text."""
    if worst is None or not worst.error_ulp:
        return ""
    found = f", {_count_text(worst.error_ulp)} ulp"
    if worst.error_ulp <= UNITS:
        return f"{found}, below {UNITS:.0f}"
    moved = _count_text(worst.rounding_ulp)
    return f"{found} (rounding in another order makes {moved})"


def _count_text(number: float) -> str:
    """Return a number as text, rounded to its significant digits."""
    if number < _FEW:
        return f"{number:.1f}"
    return f"{number:,.0f}" if number < _MANY else f"{number:.1e}"
