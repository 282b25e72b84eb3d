"""Dataflow: an entry called over a stream of inputs, with bounded queues.

    with aotc.stream(model.predict, frames, depth=8) as results:
        for result in results:
            show(result)

Results come in the order of the items. The source is not read further ahead than
`depth`, so a slow consumer slows it down and an endless one does not fill the memory.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Iterable, Iterator
from contextlib import suppress
from types import TracebackType
from typing import Any, Literal, TypeGuard

from aotc.counting import counters
from aotc.errors import InputError, SetupError
from aotc.runtime.model import LoadedEntry
from aotc.streaming.batching import Batching
from aotc.streaming.callers import Caller, EntryCaller, FunctionCaller
from aotc.streaming.channel import Closed
from aotc.streaming.outcomes import End, Failure
from aotc.streaming.work import StreamThreads

__all__ = ["Stream", "stream"]

OnError = Literal["raise", "yield"]


def stream(
    entry: object,
    source: Iterable[object],
    *,
    depth: int = 8,
    latency: float | None = None,
    max_rows: int | None = None,
    batch_stateful: bool = False,
    on_error: OnError = "raise",
) -> Stream:
    """Return an iterator over the results of an entry, called on a stream of inputs.

    One thread reads the source and prepares calls, another one runs them; both work
    ahead of the consumer. Streams may follow each other, each with threads of its own,
    and with models on other devices:

        features = aotc.stream(encoder.encode, images)
        labels = aotc.stream(head.classify, ({"x": each} for each in features))

    With `latency`, several items become one call: those that come within so many
    seconds, differ in nothing but their rows, and have no more of them together than
    the entry takes. The results are those of calls one by one, up to rounding: the
    first batch is compared with these.

    Args:
        entry: of a loaded model, such as `model.predict`; or a function that takes
            inputs by name.
        source: the items: inputs by name, as the entry takes them; for an entry of one
            input its value will do. An `AotcError` as an item is passed on.
        depth: how many items are in work at a time, from being read to being taken. A
            batch has no more of them.
        latency: seconds that an item waits at most for others of its batch; None puts
            no calls together.
        max_rows: of a batch; by default the largest that the entry was built for.
        batch_stateful: whether an entry that updates a state may update it once for
            all calls of a batch.
        on_error: `raise` ends the stream at the first item that fails, with its error;
            `yield` gives the `AotcError` in the place of the result, and goes on.

    Returns:
        An iterator of the results, each as the call of the entry returns it.

    Raises:
        InputError: `unbounded-stream`, `bad-stream` or `not-batchable`. The iterator
            raises what calls and the source do, after the results of items before.
    """
    _require_bounds(depth, latency, max_rows)
    if on_error not in ("raise", "yield"):
        raise _argument_error("on_error", "'raise' or 'yield'", on_error)
    caller = _caller(entry, latency, max_rows, batch_stateful)
    try:
        items = iter(source)
    except TypeError:
        raise _argument_error("source", "an iterable of inputs", source) from None
    return Stream(
        StreamThreads(caller, items, depth, latency or 0), caller, items, on_error
    )


class Stream:
    """An iterator over the results of a stream in order; it is to be closed.

    It closes itself when it is exhausted, raises an error, or is no longer referred to;
    `with` closes it where the block ends. Any thread may iterate over it or close it.
    """

    def __init__(
        self,
        work: StreamThreads,
        caller: Caller,
        source: Iterator[object],
        on_error: OnError,
    ) -> None:
        self._work = work
        self._source = source
        self._raises = on_error == "raise"
        self._results, self._errors = (
            counters.counter("stream_items", {"entry": caller.name, "outcome": each})
            for each in ("result", "error")
        )
        self._stop = weakref.finalize(self, work.stop)
        work.start()

    def __iter__(self) -> Stream:
        return self

    def __next__(self) -> Any:
        self._require_own_process()
        try:
            outcome = self._work.done.get()
        except Closed:
            raise StopIteration from None
        if isinstance(outcome, End):
            self.close()
            raise outcome.error or StopIteration
        with suppress(Closed):
            self._work.permits.put(None)
        if not isinstance(outcome, Failure):
            self._results.add()
            return outcome.value
        self._errors.add()
        if self._raises:
            self.close()
            raise outcome.error
        return outcome.error

    def close(self) -> None:
        """End the stream and those that feed it; results not read are lost.

        A call that runs is waited for. A source that does not answer is not: it is let
        go of when it does.
        """
        self._stop()
        if isinstance(self._source, Stream):
            self._source.close()
        self._work.join()

    def _require_own_process(self) -> None:
        """Raise if this process is a fork of the one that began the stream."""
        if self._work.is_forked:
            raise SetupError(
                "forked",
                "expected the process that began the stream, got a fork of it, which "
                "has none of its threads",
                hint="begin the stream after the fork",
            )

    def __enter__(self) -> Stream:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _caller(
    entry: object, latency: float | None, max_rows: int | None, stateful: bool
) -> Caller:
    """Return the object that calls an entry or function, perhaps in batches."""
    if isinstance(entry, LoadedEntry):
        if latency is None:
            return EntryCaller(entry)
        return EntryCaller(entry, Batching.of(entry, max_rows, stateful))
    if not callable(entry):
        raise _argument_error("entry", "an entry of a loaded model", entry)
    if latency is not None:
        raise InputError(
            "not-batchable",
            "expected an entry of a loaded model, whose sizes are known, got "
            f"{entry!r}",
            hint="leave out latency",
        )
    return FunctionCaller(entry)


def _require_bounds(depth: object, latency: object, max_rows: object) -> None:
    """Raise for an invalid depth, latency or number of rows."""
    if not _is_whole(depth) or depth < 1:
        raise InputError(
            "unbounded-stream",
            f"expected depth to be a whole number of items, at least 1, got {depth!r}: "
            "a queue without a limit would take all of a source that never ends",
            hint="leave it out for 8",
        )
    if latency is not None and not _is_duration(latency):
        raise _argument_error("latency", "seconds, a number of at least 0", latency)
    if max_rows is not None and (not _is_whole(max_rows) or max_rows < 1):
        raise _argument_error("max_rows", "a whole number, at least 1", max_rows)
    if max_rows is not None and latency is None:
        raise InputError(
            "bad-stream",
            "max_rows is of batches, which latency asks for",
            hint="give latency, the seconds that an item waits for others",
        )


def _is_whole(value: object) -> TypeGuard[int]:
    """Return whether a value is an int and no bool."""
    return isinstance(value, int) and not isinstance(value, bool)


def _is_duration(value: object) -> bool:
    """Return whether a value is a finite number of seconds of at least 0."""
    return (_is_whole(value) or isinstance(value, float)) and 0 <= value < math.inf


def _argument_error(name: str, expected: str, got: object) -> InputError:
    """Return the error for an invalid argument of `stream`."""
    return InputError("bad-stream", f"expected {name} to be {expected}; got {got!r}")
