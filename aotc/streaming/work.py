"""Work of a stream's threads: read, prepare, run.

    source → read → (gather →) prepare → run → consumer

Before it reads an item, a stream takes one of `depth` permits, which the consumer gives
back when it takes the outcome. So no more than `depth` items are anywhere in it, and no
queue needs a limit of its own. All outcomes go the whole way, in the order of the
items. While a call runs in one thread, the next one is read and prepared in another.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count
from time import perf_counter_ns

from aotc.errors import AotcError
from aotc.streaming.callers import Caller, FunctionCaller
from aotc.streaming.channel import Channel, Closed
from aotc.streaming.outcomes import (
    End,
    Failure,
    Outcome,
    PreparedCall,
    StreamItem,
    StreamResult,
)

_NOTHING = object()
_NO_ENTRY = FunctionCaller(str)  # in place of one when a stream has ended


class StreamThreads:
    """The threads of a stream that read, batch and run items, and the queues between
    them.

    It knows nothing of the `Stream`, so that one that nobody holds any more can end it.

    Args:
        caller: of the entry.
        source: the items.
        depth: how many of them are in work at a time.
        latency: seconds that an item waits at most for others of its batch.
    """

    def __init__(
        self, caller: Caller, source: Iterator[object], depth: int, latency: float
    ) -> None:
        self._caller: Caller = caller
        self._source = source
        self._depth = depth
        self._latency = latency
        self.permits: Channel[None] = Channel([None] * depth)
        self._inbox: Channel[StreamItem | Failure | End] = Channel()
        self._ready: Channel[PreparedCall | Failure | End] = Channel()
        self.done: Channel[Outcome] = Channel()
        self._is_reading = False
        self._process = os.getpid()
        self._reader = self._thread(self._read, "read")
        loops = {"run": self._run}
        if caller.batching:
            loops["gather"] = self._gather
        self._workers = [self._thread(loop, name) for name, loop in loops.items()]

    def start(self) -> None:
        """Start the threads."""
        for thread in (self._reader, *self._workers):
            thread.start()

    @property
    def is_forked(self) -> bool:
        """Return whether this process is a fork of the one with the threads."""
        return os.getpid() != self._process

    def stop(self) -> None:
        """Close all queues, so that the threads end soon; do not wait for them."""
        if self.is_forked:  # which may have a lock that nobody gives back
            return
        for channel in (self.permits, self._inbox, self._ready, self.done):
            channel.close()

    def join(self) -> None:
        """Wait until the threads have ended, except one that waits for the source."""
        me = threading.current_thread()
        if self.is_forked or me in (self._reader, *self._workers):
            return
        for thread in self._workers:
            thread.join()
        # A source that does not answer holds this, but not the memory of the entry.
        self._caller = _NO_ENTRY
        while self._reader.is_alive() and not self._is_reading:
            self._reader.join(0.01)

    def _thread(self, loop: Callable[[], None], name: str) -> threading.Thread:
        """Return a daemon thread that runs `loop` and passes on its error."""

        def run() -> None:
            try:
                loop()
            except Closed:
                pass
            except BaseException as error:  # the consumer is who has to know of it
                with suppress(Closed):
                    self.done.put(End(error))

        # Daemons, as a source that never ends must not keep the process from ending.
        title = f"aotc.stream {self._caller.name}: {name}"
        return threading.Thread(target=run, name=title, daemon=True)

    # ---- read: from the source to items ---------------------------------------------

    def _read(self) -> None:
        """Read items from the source until it ends (loop of a thread)."""
        for number in count(1):
            self.permits.get()
            if self._read_item(number) is None:
                return

    def _read_item(self, number: int) -> int | None:
        """Read an item and queue it; return its number, or None at the end.

        A function of its own, as `_read` may wait long for the next item, and must not
        hold this one and its error meanwhile.
        """
        found = self._next_item(number)
        if self._caller.batching:
            self._inbox.put(found)
        elif isinstance(found, StreamItem):
            self._prepare([found])
        else:
            self._ready.put(found)
        return None if isinstance(found, End) else number

    def _next_item(self, number: int) -> StreamItem | Failure | End:
        """Return the next item of the source, or its error, or the end."""
        self._is_reading = True
        try:
            given = next(self._source, _NOTHING)
        except BaseException as error:  # it belongs after the results of items before
            return End(error)
        finally:
            self._is_reading = False
        if given is _NOTHING:
            return End(None)
        if isinstance(given, AotcError):  # of a stream before this one
            return Failure(given)
        try:
            return StreamItem(number, self._caller.accept(given), time.monotonic())
        except AotcError as error:
            return Failure(at_item(error, number))

    # ---- gather: from items to batches ----------------------------------------------

    def _gather(self) -> None:
        """Collect items into batches and prepare their calls (loop of a thread)."""
        first = self._inbox.get()
        while True:
            if not isinstance(first, StreamItem):
                self._ready.put(first)
                if isinstance(first, End):
                    return
                first = self._inbox.get()
                continue
            items, following = self._batch_from(first)
            self._prepare(items)
            first = self._inbox.get() if following is None else following

    def _batch_from(
        self, first: StreamItem
    ) -> tuple[list[StreamItem], StreamItem | Failure | End | None]:
        """Return the items of a batch, and what was read next that did not fit; None if
        the time or the room was up.
        """
        batching = self._caller.batching
        assert batching is not None
        items, rows = [first], batching.rows(first.inputs)
        deadline = first.arrived + self._latency
        # All that may be read is here: to wait for more would be in vain.
        while rows < batching.limit and len(items) < self._depth:
            item = self._inbox.get_until(deadline)
            if not isinstance(item, StreamItem):
                return items, item
            rows += batching.rows(item.inputs)
            if rows > batching.limit or not batching.fit(first.inputs, item.inputs):
                return items, item
            items.append(item)
        return items, None

    # ---- prepare: from items to calls -----------------------------------------------

    def _prepare(self, items: list[StreamItem]) -> None:
        """Prepare and queue a call for items; if that fails, one for each item
        alone.
        """
        began = perf_counter_ns()
        try:
            prepared = self._caller.prepare([item.inputs for item in items])
        except AotcError as error:
            if len(items) == 1:
                self._ready.put(Failure(at_item(error, items[0].number)))
                return
        else:
            self._ready.put(PreparedCall(items, prepared, perf_counter_ns() - began))
            return
        for item in items:
            self._prepare([item])

    # ---- run: from calls to outcomes ------------------------------------------------

    def _run(self) -> None:
        """Run queued calls and queue their outcomes (loop of a thread)."""
        while True:
            call = self._ready.get()
            if isinstance(call, PreparedCall):
                for outcome in self._outcomes(call):
                    self.done.put(outcome)
            else:
                self.done.put(call)
                if isinstance(call, End):
                    return

    def _outcomes(self, call: PreparedCall) -> Iterator[Outcome]:
        """Run a call and yield the outcome of each item; alone if the batch fails."""
        try:
            results = self._caller.run(call)
        except AotcError as error:
            if len(call.items) == 1:
                yield Failure(at_item(error, call.items[0].number))
                return
            for item in call.items:
                yield self._outcome_alone(item)
            return
        self._caller.require_same_alone(call, results)
        for result in results:
            yield StreamResult(self._caller.build(result))

    def _outcome_alone(self, item: StreamItem) -> Outcome:
        """Prepare and run a call for one item; return its result or failure."""
        try:
            call = PreparedCall([item], self._caller.prepare([item.inputs]), 0)
            (result,) = self._caller.run(call)
        except AotcError as error:
            return Failure(at_item(error, item.number))
        return StreamResult(self._caller.build(result))


def at_item(error: AotcError, number: int) -> AotcError:
    """Add the item's number to an error's location; return the error."""
    place = f"item {number} of the stream"
    error.where = f"{error.where}, {place}" if error.where else place
    return error
