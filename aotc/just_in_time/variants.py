"""Compiled variants of a function, and the guards that keep calls from them."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from aotc.artifacts import trees
from aotc.artifacts.call_guards import equality_guard, range_guard, size_guard
from aotc.core.json_values import JsonObject
from aotc.core.pytree import PyTree
from aotc.counting import counters
from aotc.just_in_time.code_cache import CodeCache
from aotc.just_in_time.compiling import Compilation
from aotc.just_in_time.shapes import Sizes, bound_sizes, fits
from aotc.just_in_time.signature import CallSignature
from aotc.just_in_time.specialization import Specialization
from aotc.just_in_time.trace_guards import GuardCoverage, Values
from aotc.runtime.model import LoadedEntry
from aotc.tracing.dims import Dim

_STORM_HINT = (
    "make what varies an array or a size that calls decide (dynamic='always'), not a "
    "value that code is made for; or raise max_compiles"
)


@dataclass
class CodeVariant:
    """A compiled variant of a function, and the calls that it is specialized to.

    Args:
        specialization: which calls these are.
        made: how.
        calls: how many it has computed.
        used: when it was made or last called, of `time.monotonic_ns`.
    """

    specialization: Specialization
    made: Compilation
    calls: int = 0
    used: int = field(default_factory=time.monotonic_ns)

    def __post_init__(self) -> None:
        self.entry: LoadedEntry = self.made.model.entry(self.specialization.entry)
        self._build = trees.builder(self.entry.spec.result)
        self._call = self.made.caller(self.specialization.entry, self._end_checks)

    def run(self, leaves: Sequence[object]) -> PyTree:
        """Compute a call from its leaves; return the result tree."""
        self.calls += 1
        self.used = time.monotonic_ns()
        found: PyTree = self._build(self._call(leaves))
        return found

    def compare(self, leaves: Sequence[object]) -> None:
        """Compare a call with the reference evaluator, unless one was compared already.

        Raises:
            CompileError: `self-check`.
        """
        if self.made.unchecked is not None:
            self._call(leaves)

    def _end_checks(self) -> None:
        """Call the code without comparison from now on, and free what comparing
        needs.
        """
        self._call = self.entry.call_flat
        self.made = replace(self.made, unchecked=None)

    @property
    def is_dynamic(self) -> bool:
        """Return whether some size of the variant is symbolic."""
        return any(
            not isinstance(n, int) for shape in self.specialization.sizes for n in shape
        )

    def to_json(self) -> JsonObject:
        """Return the sizes, guards, calls and cost as JSON."""
        guards = self.specialization.check.guards if self.specialization.check else []
        return {
            "sizes": [[*map(_size, shape)] for shape in self.specialization.sizes],
            "calls": self.calls,
            "seconds": self.made.seconds,
            "from_cache": self.made.is_cached,
            "guards": [
                {
                    "name": each.name,
                    "where": each.where,
                    "value": each.value.tolist(),
                    "failures": dict(each.failures),
                }
                for each in guards
            ],
            "size_guards": [
                {"name": str(each.condition), "where": each.where}
                for each in self.specialization.guards
            ],
        }


def entry_labels(function: str, target: str) -> dict[str, str]:
    """Return the metric labels of a function of `aotc.jit`."""
    model = {"model": function, "version": "1.0.0", "target": target}
    return {**model, "entry": function}


def _size(size: int | Dim) -> int | str:
    """Return a size as a number, or a Dim's name."""
    return size if isinstance(size, int) else size.name


class VariantCache(CodeCache[CodeVariant, str]):
    """An LRU cache of the compiled variants of a function, with metrics of misses.

    Args:
        owner: how messages and counters call the function.
        target: that it is compiled for.
        limits: as `CodeCache` takes them.
    """

    def __init__(self, owner: str, target: str, *limits: int) -> None:
        super().__init__(owner, *limits)
        self._target = target
        self.failures: Counter[str] = Counter()
        self.coverage = GuardCoverage()

    def find(
        self, call: CallSignature, values: Callable[[], Values]
    ) -> CodeVariant | None:
        """Return the most recently used variant that takes a call, or None."""
        return self.latest(lambda each: each.specialization.takes(call, values))

    def add(self, variant: CodeVariant) -> list[CodeVariant]:
        """Add a variant to the cache and the metrics; return the variants that it
        evicts.
        """
        kind = "recompile" if self.compiles + self.cached else "cold"
        labels = {"layer": "jit", "kind": "warm" if variant.made.is_cached else kind}
        counters.counter("compiles", labels).add()
        seconds = variant.made.seconds
        counters.histogram("compile_duration_seconds", labels).observe(seconds)
        self.compiles += not variant.made.is_cached
        self.cached += variant.made.is_cached
        gone = self.keep(variant)
        if gone:
            counters.counter("cache_evictions", {"cache": "jit"}).add(len(gone))
        for each in gone:
            self.coverage.note_calls(each.specialization.check, each.calls)
        return gone

    def share_of_calls(self) -> list[JsonObject]:
        """Return the share of calls by guarded value, evicted variants included."""
        total = self.coverage.copy()
        for each in self.items:
            total.note_calls(each.specialization.check, each.calls)
        return total.to_json()

    def note_miss(self, call: CallSignature, pending: int = 0) -> None:
        """Count a call that has no code, by the guard that failed; limit recompilation.

        Args:
            call: that has none.
            pending: how many compilations there are that have not ended yet.

        Raises:
            InputError: `recompile-storm`: there have been too many.
        """
        if self.compiles + self.cached:
            guard = self._difference(call)
            self.failures[guard] += 1
            labels = {**entry_labels(self.owner, self._target), "guard": guard}
            counters.counter("guard_failures", labels).add()

        def most_common() -> tuple[str, int]:
            self.failures = self.failures or Counter([self._difference(call)])
            return self.failures.most_common(1)[0]

        self.require_room(most_common, str(call), _STORM_HINT, pending)

    def _difference(self, call: CallSignature) -> str:
        """Return the name of the first guard that keeps a call from the most similar
        code.
        """
        if not self.items:
            return "code that is still being made"
        latest = [each.specialization for each in self.by_use[::-1]]
        alike = [each for each in latest if each.form == call.form]
        if not alike:
            forms = [call.form.differences(each.form) for each in latest]
            nearest = min(forms, key=len)
            return nearest[0] if nearest else "the order of parameters"
        fitting = [each for each in alike if fits(each.sizes, call.shapes)]
        if not fitting:
            sizes = (size_differences(each.sizes, call) for each in alike)
            return min(sizes, key=len)[0]
        for each in fitting:
            changed = each.captured.changed_captures() if each.captured else []
            if changed:
                return f"captured {changed[0].text}"
            bound = bound_sizes(each.sizes, call.shapes) or {}
            for guard in each.guards:
                if not guard.holds(bound):
                    return str(guard.condition)
        checks = [each.check for each in fitting if each.check]
        guards = [guard for check in checks for guard in check.guards if guard.failures]
        return guards[0].name if guards else "a value"


def size_differences(sizes: Sizes, call: CallSignature) -> list[str]:
    """Return the names of the size guards by which a call's shapes do not fit code.

    Args:
        sizes: of the Specs that the code is for.
        call: whose shapes they do not take.
    """
    found = []
    first: dict[str, tuple[str, int]] = {}  # where a symbol stands, and its size
    for name, spec, shape in zip(call.names, sizes, call.shapes, strict=True):
        for axis, (size, given) in enumerate(zip(spec, shape, strict=True)):
            place = size_guard(name, axis)
            if isinstance(size, int):
                found += [place] if size != given else []
                continue
            if given < size.min:
                found.append(range_guard(size.name))
            other, bound = first.setdefault(size.name, (place, given))
            if bound != given:
                found.append(equality_guard(place, other))
    return found
