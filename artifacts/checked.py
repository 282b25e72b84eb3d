"""Reads from a manifest which code was run and compared before it was signed.

The self-check of a build says in the manifest for each entry and target at which sizes
it called the code, and what ran it: the machine that built, an emulator of the
processor (or a software device), or an evaluator of the code. A code is checked if one
of these calls is one that the loader would have it compute. What is not can be refused:
`aotc build --require-check`, `aotc verify --require-check`, `aotc compat --require
checked`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aotc.artifacts.manifest import Code, EntryPoint, read_entry_point
from aotc.core.json_values import JsonObject
from aotc.errors import Finding

# what may have run the code, in words
RUN_BY = {
    "machine": "the machine that built it",
    "emulator": "an emulator",
    "evaluator": "an evaluator of the code",
}
NOT_CHECKED = "not-checked"
_LISTED = 12
_NOT_SAID = "the bundle says nothing of a check"
_NO_SIZES = "no call of these sizes was compared"


def sizes_text(choices: Sequence[Mapping[str, int]]) -> str:
    """Format symbol values: ` at batch=1; batch=3`, or "" where there are no
    symbols.
    """
    said = [", ".join(f"{k}={v}" for k, v in sizes.items()) for sizes in choices]
    said = [text for text in said if text]
    return f" at {'; '.join(said)}" if said else ""


@dataclass(frozen=True)
class CodeCheckResult:
    """Result of the self-check of an entry's code for one target, from the manifest.

    Args:
        entry: its name.
        target: of the variant.
        by: what ran the code, of `RUN_BY`; None if it is not said.
        unchecked: the codes that no compared call was computed by.
        why: the reasons that the manifest gives for what was left out.
    """

    entry: str
    target: str
    by: str | None
    unchecked: tuple[Code, ...]
    why: tuple[str, ...]

    @property
    def is_checked(self) -> bool:
        """Return whether all code of the entry was run and compared."""
        return not self.unchecked

    def __str__(self) -> str:
        title = f"{self.entry} on {self.target}"
        if self.is_checked:
            return f"{title}: checked by {RUN_BY.get(self.by or '', 'its build')}"
        codes = "; ".join(map(str, self.unchecked))
        at = f" for {codes}" if self.by else ""  # nothing was run at all
        return f"{title}{at}: NOT CHECKED: {'; '.join(self.why) or _NO_SIZES}"

    def to_json(self) -> dict[str, Any]:
        """Return the check as a JSON object."""
        return {
            "entry": self.entry,
            "target": self.target,
            "checked": self.is_checked,
            "by": self.by,
            "unchecked": [each.export for each in self.unchecked],
            "why": list(self.why),
        }


def checks_of(manifest: JsonObject, target: str) -> list[CodeCheckResult]:
    """Return the check results of all entries for a target, from a manifest's JSON."""
    rows = {
        row["entry"]: row
        for row in manifest.get("self_check", ())
        if row["target"] == target
    }
    entries = map(read_entry_point, manifest["entry_points"])
    return [_check(entry, target, rows.get(entry.name)) for entry in entries]


def _check(
    entry: EntryPoint, target: str, row: Mapping[str, Any] | None
) -> CodeCheckResult:
    """Return the check result of one entry, given its row of the manifest, if any."""
    if row is None:
        return CodeCheckResult(entry.name, target, None, entry.codes, (_NOT_SAID,))
    run = set(_codes_run(entry, row["checked"]))
    unchecked = tuple(code for code in entry.codes if code.export not in run)
    why = dict.fromkeys(each["why"] for each in row["unchecked"]) if unchecked else ()
    by = row.get("by") if row["checked"] else None
    return CodeCheckResult(entry.name, target, by, unchecked, tuple(why))


def _codes_run(
    entry: EntryPoint, calls: Collection[Mapping[str, int]]
) -> Iterator[str]:
    """Yield the export names that the loader would call for calls of the given
    sizes.
    """
    for sizes in calls:
        try:
            code = entry.code_for(sizes)
        except KeyError:  # a size is not said
            continue
        if code is not None:
            yield code.export


def require_checked(
    manifest: Mapping[str, object], targets: Collection[str], hint: str
) -> list[CodeCheckResult]:
    """Raise if code for some of the targets was never run and compared; else return the
    results.

    Raises:
        Finding: `not-checked`.
    """
    found = [check for each in targets for check in checks_of(manifest, each)]
    missing = [str(each) for each in found if not each.is_checked]
    if missing:
        more = f"\n  and {len(missing) - _LISTED} more" * (len(missing) > _LISTED)
        raise Finding(
            "not-checked",
            "code that was never run and compared, of what must have been:"
            + "".join(f"\n  {line}" for line in missing[:_LISTED])
            + more,
            hint=hint,
        )
    return found
