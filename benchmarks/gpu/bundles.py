"""Bundles of models for several targets, without what a target refuses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from aotc.artifacts.pack import read_bundle
from aotc.errors import AotcError, CompileError
from aotc.machine.target import Target
from aotc.pipeline import build
from benchmarks.gpu.programs import Subject


@dataclass(frozen=True)
class Bundle:
    """A bundle in the prepared folder: its entries and variants.

    Args:
        path: of the bundle.
        entries: that it has.
        variants: ids of the targets that it is for.
    """

    path: Path
    entries: tuple[str, ...]
    variants: tuple[str, ...]


class Builder:
    """Builds signed bundles, and records entries that no target compiles.

    Args:
        key: private key file that they are signed with.
        public: the other half.
        tell: is told what is being built.
    """

    def __init__(self, key: Path, public: Path, tell: Callable[[str], None]) -> None:
        self._key, self._public, self._tell = key, public, tell
        self.refused: dict[str, dict[str, str]] = {}

    def build(self, subject: Subject, folder: Path) -> list[Bundle]:
        """Build a subject's bundles: several if a target refuses some entries."""
        return self._parts(subject, (), subject.targets, folder)

    def _parts(
        self,
        subject: Subject,
        entries: Sequence[str],
        targets: Sequence[Target],
        folder: Path,
    ) -> list[Bundle]:
        """Build bundles of some entries, by halves as long as a target refuses them."""
        if not targets:
            return []
        self._tell(f"{subject.name} for {', '.join(map(str, targets))}")
        try:
            return [self._bundle(subject, entries, targets, folder)]
        except CompileError as error:
            failing = [each for each in targets if f"'{each}'" in error.message]
            if not failing:
                raise
            others = [each for each in targets if each not in failing]
            return [
                *self._parts(subject, entries, others, folder / "others"),
                *self._halves(subject, entries, failing, folder, error),
            ]

    def _halves(
        self,
        subject: Subject,
        entries: Sequence[str],
        targets: Sequence[Target],
        folder: Path,
        error: AotcError,
    ) -> list[Bundle]:
        """Build bundles of each half of entries that targets refuse together."""
        entries = entries or _entries_of(subject)
        if len(entries) == 1:
            why = error.message.partition("\n")[0]
            names = {str(target): why for target in targets}
            self.refused.setdefault(f"{subject.name}.{entries[0]}", {}).update(names)
            return []
        middle = len(entries) // 2
        return [
            bundle
            for number, half in enumerate((entries[:middle], entries[middle:]))
            for bundle in self._parts(subject, half, targets, folder / str(number))
        ]

    def _bundle(
        self,
        subject: Subject,
        entries: Sequence[str],
        targets: Sequence[Target],
        folder: Path,
    ) -> Bundle:
        """Build one bundle, without a self-check."""
        report = build(
            subject.model,
            output=folder,
            entries=tuple(entries),
            targets=tuple(targets),
            signing_key=self._key,
            self_check="off",
        )
        manifest = read_bundle(report.bundle, self._public, False).manifest
        return Bundle(
            report.bundle, tuple(manifest.entry_points), tuple(manifest.variants)
        )


def _entries_of(subject: Subject) -> list[str]:
    """Return the names of a subject's entries."""
    from aotc import importers

    return [entry.name for entry in importers.load(subject.model).entry_points]
