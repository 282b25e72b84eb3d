"""Write docs/iree-faults.md: what IREE does wrong, and what aotc does about it.

python docs/list_iree_faults.py [--write]

Each line is a row of `benchmarks/iree_faults/table`. Without `--write` the page is
compared with what it should be: exits with 1 if it is another.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.iree_faults import FAULTS
from benchmarks.iree_faults.fault import Fault, Symptom

PAGE = Path(__file__).with_name("iree-faults.md")

_HEAD = """\
# Faults of IREE

What IREE does wrong, and where aotc avoids it. Each line is a row of
`benchmarks/iree_faults/table`, and has a witness: a small module in
`benchmarks/iree_faults/mlir` that `iree-compile` takes as it is, or a few lines of
Python in `runs.py` beside it.

`python -m benchmarks.iree_faults` looks at all of them with the IREE that is installed,
each in a process of its own, and says which faults are still there, which are gone, and
which show in another way: run it at each release of IREE. Where a fault is gone, the
code that avoids it may go, if its tests agree without it. Found
with IREE 3.13, where nothing else is said. Made by
`python docs/list_iree_faults.py --write`.
"""
_COLUMNS = (
    "| fault | what IREE does | where it is avoided | witness |\n|---|---|---|---|"
)


def page() -> str:
    """The page, as it should be."""
    return "\n".join([_HEAD, *_not_reproduced(), *_tables()]) + "\n"


def _not_reproduced() -> Iterator[str]:
    """Return the faults that the installed release does not show."""
    yield "## Not reproduced\n"
    yield "What the installed release no longer shows, and what was tried.\n"
    yield "| fault | where it is avoided | tried |\n|---|---|---|"
    for fault in FAULTS:
        if fault.not_reproduced:
            tried = f"{fault.witness.describe()}; {fault.not_reproduced}"
            yield _line(f"`{fault.name}`", _places(fault), tried)
    yield ""


def _tables() -> Iterator[str]:
    for symptom in Symptom:
        rows = [fault for fault in FAULTS if fault.symptom is symptom]
        title = symptom.value[0].upper() + symptom.value[1:]
        yield f"## {title}\n\n{_COLUMNS}"
        for fault in rows:
            yield _line(f"`{fault.name}`", _told(fault), _places(fault), _seen(fault))
        yield ""


def _told(fault: Fault) -> str:
    links = "".join(f" [{_title(each)}]({each})" for each in fault.upstream)
    return fault.does + links


def _title(address: str) -> str:
    """Return the text of a link to an issue: `iree-org/iree#1`."""
    *_, owner, project, _, number = address.split("/")
    return f"{owner}/{project}#{number}"


def _places(fault: Fault) -> str:
    return ", ".join(f"`{place}`" for place in fault.where)


def _seen(fault: Fault) -> str:
    return fault.witness.describe() + (
        " (not reproduced)" if fault.not_reproduced else ""
    )


def _line(*cells: str) -> str:
    return f"| {' | '.join(each.replace('|', chr(92) + '|') for each in cells)} |"


def main() -> int:
    """Write the page, or compare it; returns the exit status."""
    if sys.argv[1:] == ["--write"]:
        PAGE.write_text(page(), encoding="utf-8")
        return 0
    is_current = PAGE.is_file() and PAGE.read_text(encoding="utf-8") == page()
    print(f"{PAGE.name} is {'current' if is_current else 'out of date: use --write'}")
    return 0 if is_current else 1


if __name__ == "__main__":
    sys.exit(main())
