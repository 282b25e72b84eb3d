"""Counts of evaluated kernel programs in a self-check."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class KernelCount:
    """Counts of kernel launches and evaluated workgroups of an entry, over some calls.

    Args:
        launches: of kernels in these calls.
        programs: that they have.
        evaluated: how many of these were.
    """

    launches: int = 0
    programs: int = 0
    evaluated: int = 0

    def plus(self, programs: int, evaluated: int) -> KernelCount:
        """Return the counts with one more launch."""
        return KernelCount(
            self.launches + 1, self.programs + programs, self.evaluated + evaluated
        )

    def to_json(self) -> dict[str, int]:
        """Return the counts as the manifest holds them."""
        return {
            "launches": self.launches,
            "programs": self.programs,
            "evaluated": self.evaluated,
        }

    def __str__(self) -> str:
        if not self.launches:
            return "no kernel of it was evaluated"
        return (
            f"kernels evaluated in {self.launches} launches, {self.evaluated:,} of "
            f"{self.programs:,} programs, and right; neither what they are compiled to "
            "nor IREE's code was run"
        )
