"""The work of `aotc run --stream`: items of a file in, results to standard output."""

from __future__ import annotations

import io
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aotc.artifacts import trees
from aotc.cli import json_lines, npy_records, output
from aotc.cli.arrays import Array
from aotc.cli.stream_options import StreamSettings
from aotc.errors import AotcError, Finding, InputError
from aotc.streaming import stream

if TYPE_CHECKING:
    from aotc.artifacts.manifest import EntryPoint
    from aotc.runtime import Model

_STDIN = 0
_REFRESH = 10.0  # seconds between two writings of counters


def run(
    model: Model,
    point: EntryPoint,
    constants: Mapping[str, Array],
    settings: StreamSettings,
    write_counters: Callable[[], None],
) -> None:
    """Call an entry for each item of a stream; write each result as soon as it is
    ready.

    Args:
        model: the loaded model.
        point: the entry.
        constants: the inputs that are the same for all items.
        settings: what the options of the stream say.
        write_counters: called now and then, as a stream may have no end.

    Raises:
        InputError: an item cannot be read, or its call fails.
        Finding: `items-failed`, at the end, with `--keep-going`.
    """
    items = _Items(settings.source, point, constants)
    if settings.keep_going and items.form is npy_records:
        raise InputError(
            "usage",
            "--keep-going writes errors between results, which .npy records have no "
            "place for",
            hint="stream JSON Lines",
        )
    entry = model.entry(point.name)
    failed, refresh = 0, time.monotonic() + _REFRESH
    arguments = settings.arguments
    with stream(entry, items.read(), on_error="yield", **arguments) as outcomes:
        for outcome in outcomes:
            place = items.places.popleft()
            if isinstance(outcome, AotcError):
                outcome.where = place
                if not settings.keep_going:
                    raise outcome
                failed += 1
                output.print_answer(json_lines.failure(outcome), nl=False)
            else:
                outputs = _by_name(point, outcome)
                output.print_answer(items.form.result(outputs), nl=False)
            if time.monotonic() > refresh:
                write_counters()
                refresh = time.monotonic() + _REFRESH
    if failed:
        raise Finding(
            "items-failed",
            f"{failed} of {items.count} items failed",
            where=items.name,
            hint="their lines of the output say why",
        )


class _Items:
    """The items read from a stream, and the positions of those being processed.

    Args:
        source: the file, or `-`.
        point: the entry that takes them.
        constants: inputs that are the same for all.
    """

    def __init__(
        self, source: Path, point: EntryPoint, constants: Mapping[str, Array]
    ) -> None:
        is_stdin = str(source) == "-"
        self.name = "standard input" if is_stdin else str(source)
        self.places: deque[str] = deque()
        self.count = 0
        self._point = point
        self._constants = constants
        self._build = trees.builder(point.arguments)
        self._leaves = [leaf for leaf in point.inputs if leaf.name not in constants]
        if not self._leaves:
            raise InputError(
                "usage",
                f"the entry {point.name!r} takes no inputs besides those of --input: "
                "nothing is left to stream",
                hint="leave out --stream",
            )
        # Not sys.stdin, which the end of the process would wait for.
        raw = io.FileIO(_STDIN if is_stdin else source, closefd=not is_stdin)
        self._file = io.BufferedReader(raw)
        is_npy = self._file.peek(1)[:1] == npy_records.MAGIC[:1]
        self.form: Any = npy_records if is_npy else json_lines

    def read(self) -> Iterator[Any]:
        """Yield each item's inputs, or its error; close the file at the end."""
        try:
            with self._file:
                # No variable holds an item while the next one is waited for.
                yield from map(self._item, self.form.read(self._file, self._leaves))
        except InputError as error:  # of a form in which nothing follows a bad item
            error.where = f"{self.name}, {error.where}"
            raise

    def _item(
        self, place_and_inputs: tuple[str, dict[str, Array] | AotcError]
    ) -> object:
        """Record an item's position; return its inputs in the structure that the entry
        takes, or its error.
        """
        place, found = place_and_inputs
        self.places.append(f"{self.name}, {place}")
        self.count += 1
        if isinstance(found, AotcError):
            return found
        given = {**self._constants, **found}
        return self._build([given[leaf.name] for leaf in self._point.inputs])


def _by_name(point: EntryPoint, result: object) -> dict[str, Array]:
    """Return an entry's result as arrays by output name."""
    leaves = trees.flatten(point.result, result)
    return {leaf.name: leaves[number] for number, leaf in enumerate(point.outputs)}
