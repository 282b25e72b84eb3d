"""Recorded traffic: how often calls had which sizes, as a file says it.

    length,batch,count
    17,1,920
    128,1,31

A CSV file (RFC 4180) has a column for each size, by its name, and perhaps one of
counts, `count`; without it each row is a call. Blank rows and those that begin with #
are passed over.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from aotc.errors import InputError
from aotc.errors.system import translate_system_errors

COUNT = "count"
_DIGITS = 18  # of a number at most, as it has 64 bits
_MOST_ROWS = 10_000_000


@dataclass(frozen=True)
class Traffic:
    """Counts of recorded calls by the values of their symbolic sizes.

    Args:
        symbols: the names of the sizes.
        counts: of calls, by their sizes in the order of `symbols`.
    """

    symbols: tuple[str, ...]
    counts: dict[tuple[int, ...], int]

    @property
    def calls(self) -> int:
        """The total number of calls."""
        return sum(self.counts.values())

    @classmethod
    def read(cls, path: Path) -> Traffic:
        """Read a CSV file of traffic; return its counts.

        Raises:
            InputError: `no-such-file`; `bad-traffic`: it is no such file, or there is
                no call in it.
            SetupError: `file-access`.
        """
        if not path.exists():
            raise InputError("no-such-file", "there is no traffic", where=str(path))
        with (
            translate_system_errors(),
            path.open(encoding="utf-8-sig", newline="") as file,
        ):
            try:
                return cls._of_rows(path, _rows(path, csv.reader(file, strict=True)))
            except (UnicodeDecodeError, csv.Error) as error:
                _fail(path, None, "rows of text, with commas between", str(error))

    @classmethod
    def _of_rows(cls, path: Path, rows: Iterator[tuple[int, list[str]]]) -> Traffic:
        """Return the counts in the rows of a CSV file, the first of which is the
        header.
        """
        line, header = next(rows, (1, []))
        names = [name.strip() for name in header]
        symbols = tuple(name for name in names if name != COUNT)
        are_names = all(name.isidentifier() and name.isascii() for name in symbols)
        if not symbols or not are_names or len({*names}) < len(names):
            _fail(path, line, "a row of the names of sizes, each once", str(header))
        counts: Counter[tuple[int, ...]] = Counter()
        for line, row in rows:
            if len(row) != len(names):
                expected = f"{len(names)} numbers ({', '.join(names)})"
                _fail(path, line, expected, f"{len(row)}")
            values = [
                _number(path, line, *pair) for pair in zip(names, row, strict=True)
            ]
            found = dict(zip(names, values, strict=True))
            count = found.pop(COUNT, 1)
            if count:
                counts[tuple(found.values())] += count
        if not counts:
            _fail(path, None, "at least one call", "none")
        return cls(symbols, dict(counts))


def _rows(path: Path, rows: Iterator[list[str]]) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows that are neither blank nor comments, with their line numbers."""
    for line, row in enumerate(rows, start=1):
        if line > _MOST_ROWS:
            _fail(path, line, f"at most {_MOST_ROWS} rows", "more")
        if any(map(str.strip, row)) and not row[0].lstrip().startswith("#"):
            yield line, row


def _number(path: Path, line: int, name: str, text: str) -> int:
    """Return a cell as a non-negative integer; refuse other texts."""
    digits = text.strip()
    if not (digits.isascii() and digits.isdigit() and len(digits) <= _DIGITS):
        _fail(path, line, f"a whole number for {name}", repr(text[:60]))
    return int(digits)


def _fail(path: Path, line: int | None, expected: str, got: str) -> NoReturn:
    """Raise the error for a file of traffic, at a line."""
    raise InputError(
        "bad-traffic",
        f"expected {expected}; got {got}",
        where=f"{path}:{line}" if line else str(path),
        hint="a column for each size, by its name, and perhaps one of counts: "
        "length,count",
    )


def names_text(symbols: Sequence[str], sizes: Sequence[int]) -> str:
    """Return symbols and their values as text, such as `batch=1, length=128`."""
    return ", ".join(f"{k}={n}" for k, n in zip(symbols, sizes, strict=True))
