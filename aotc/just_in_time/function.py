"""`aotc.jit`: a function that is compiled when it is called."""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MethodType
from typing import TYPE_CHECKING, Any

import numpy as np

from aotc.core import options
from aotc.core.json_values import JsonObject
from aotc.core.pytree import PyTree, flatten
from aotc.errors import InputError
from aotc.just_in_time.code_cache import require_limits
from aotc.just_in_time.compiling import compile_program, load_kept
from aotc.just_in_time.evaluating import (
    Pending,
    ReferenceCode,
    count_reference_call,
    reference_labels,
)
from aotc.just_in_time.kept_calls import (
    KeptCode,
    KeptFunction,
    find_kept,
    note_kept,
)
from aotc.just_in_time.known_calls import (
    KnownCode,
    SignatureCallCount,
    are_leaves,
    quick_key,
)
from aotc.just_in_time.live_signatures import LiveSignature
from aotc.just_in_time.shapes import Sizes, symbolic_sizes
from aotc.just_in_time.signature import Binder, CallSignature
from aotc.just_in_time.specialization import Specialization
from aotc.just_in_time.states import SharedStates
from aotc.just_in_time.trace_guards import Values
from aotc.just_in_time.tracing import (
    TracedSpecialization,
    Tracer,
    stored_parameters,
    values_of,
)
from aotc.just_in_time.variants import CodeVariant, VariantCache
from aotc.machine.target import Target
from aotc.tracing.entry import EntryFunction, StoredParameter
from aotc.tracing.scopes import current_scope
from aotc.tracing.snapshots import Snapshot, describe_unseen
from aotc.tracing.source_locations import fail

if TYPE_CHECKING:
    from aotc.artifacts import Signer

BRANCHES = ("error", "guard")
DYNAMIC = ("auto", "never", "always")
WARM_UPS = ("block", "background")
_Values = Callable[[], Values]  # of the arguments of a call
_REMEMBERED = 1024  # calls whose variant is known without a look at all of them


def jit(
    function: Callable[..., object] | None = None,
    /,
    *,
    static_argnames: Iterable[str] = (),
    branches: str = "error",
    dynamic: str = "auto",
    max_variants: int = 8,
    max_compiles: int = 32,
    warmup: str = "block",
    target: str | None = None,
    threads: int | None = None,
    **sources: StoredParameter,
) -> Any:
    """Return a function that is compiled when called: once for each signature of calls.

    A call of another structure, dtype, rank or static value than those before is traced
    and compiled. So is one of other sizes; the axes that changed are symbols from then
    on, as far as the function can be traced so. What `aotc.specialize` has looked at is
    guarded, too. Weights and States among the parameters are as in an entry: a function
    that takes a State returns its new value first.

    Args:
        function: of arrays, numbers and trees of these. As a decorator, it is left out.
        static_argnames: parameters whose values are known when it is traced; they can
            be hashed.
        branches: what becomes of Python that decides on values: `error`, or `guard`,
            the code is for calls that decide alike.
        dynamic: which sizes are symbols: those that have changed (`auto`), none
            (`never`), or all from the first call on (`always`).
        max_variants: how many compiled forms are kept; the one that was not called for
            longest goes.
        max_compiles: how many there may be in all.
        warmup: what the first calls of a kind do: wait for the compiler (`block`), or
            have the reference evaluator, while it works (`background`).
        target: to compile for, as `aotc build` takes it; by default this machine.
        threads: as `aotc.load` takes them.
        sources: Weights and States by the names of parameters, where the module has
            none under these names.

    Raises:
        InputError: `bad-option`; when it is called, `recompile-storm`, or as a build
            raises it.
    """
    _require_known(branches, dynamic, warmup)
    limits = require_limits(max_variants, max_compiles)

    def declare(function: Callable[..., object]) -> JitFunction:
        plain = function.function if isinstance(function, EntryFunction) else function
        if not callable(plain):
            fail("bad-entry", f"expected a function to compile; got {plain!r}")
        return JitFunction(
            plain,
            static=frozenset(static_argnames),
            guards_branches=branches == "guard",
            dynamic=dynamic,
            limits=limits,
            waits=warmup == "block",
            target=target,
            threads=threads,
            sources=sources,
        )

    return declare if function is None else declare(function)


def _require_known(branches: str, dynamic: str, warmup: str) -> None:
    """Refuse option values of `jit` that are none of their choices."""
    asked = {
        "branches": (branches, BRANCHES),
        "dynamic": (dynamic, DYNAMIC),
        "warmup": (warmup, WARM_UPS),
    }
    for name, (value, known) in asked.items():
        if value not in known:
            raise InputError(
                "bad-option",
                f"expected one of {', '.join(known)} as {name}; got {value!r}",
            )


class JitFunction:
    """A function that is compiled when called, as `jit` makes it; see there."""

    def __init__(
        self,
        function: Callable[..., object],
        *,
        static: frozenset[str],
        guards_branches: bool,
        dynamic: str,
        limits: tuple[int, int],
        waits: bool,
        target: str | None,
        threads: int | None,
        sources: Mapping[str, StoredParameter],
    ) -> None:
        functools.update_wrapper(self, function)
        self._function = function
        stored = stored_parameters(function, sources)
        self._signature = LiveSignature(function)
        self._trace = Tracer(
            function, self._signature, stored, guards_branches=guards_branches
        )
        self._bind = Binder(
            self._trace.name, self._signature, values_of(stored), static
        )
        self._dynamic, self._waits, self._threads = dynamic, waits, threads
        self._target = Target.named(target or "native")[0]
        self._kept = KeptFunction(function, stored, guards_branches, self._target)
        self._variants = VariantCache(self._trace.name, self._target.id, *limits)
        self._quick: dict[CallSignature, KnownCode] = {}
        self._by_key: dict[Hashable, KnownCode] = {}
        self._lock = threading.RLock()
        self._states = SharedStates(stored)
        self._has_states = bool(self._states.names)
        self._pending: list[Pending] = []
        self._counts: dict[CallSignature, SignatureCallCount] = {}
        self.notes: list[str] = []
        self._is_eager = bool(options.get("AOTC_EAGER"))

    def __call__(self, /, *args: object, **kwargs: object) -> Any:
        """Compute a call by cached code, compiled first if there is none for its
        signature.

        With AOTC_EAGER=1 the function is executed op by op instead. Where another
        function is traced, executed or differentiated, this one is a part of it.
        """
        if current_scope() is not None:  # in another function: a part of that
            return self._trace.inline(args, kwargs)
        if self._is_eager:
            return self._execute(*self._bind(args, kwargs))
        key, given = (None, args) if kwargs else quick_key(args)
        known = self._by_key.get(key)
        if known is not None and (known.captured is None or known.captured.holds()):
            if not self._has_states:
                return known.run_given(given)
            with self._lock:
                if self._by_key.get(key) is known:  # no other thread has dropped it
                    self._states.move_to(known.variant.made.model)
                    return known.run_given(given)
        call, leaves = self._bind(args, kwargs)
        if self._has_states:  # which guards may look at, and all variants share
            with self._lock:
                found = self._compute(call, leaves)
        else:
            found = self._compute(call, leaves)
        known = self._quick.get(call)
        if (
            key is not None
            and known is not None
            and (self._signature.is_captured or self._bind.gives_all(args))
            and are_leaves(given, call, leaves)
        ):
            self._by_key[key] = known
        return found

    def _compute(self, call: CallSignature, leaves: Sequence[np.ndarray]) -> PyTree:
        """Return the result of a call of this signature, compiled first if need be."""
        known = self._quick.get(call)
        if known is None or not (known.captured is None or known.captured.holds()):
            found = self._code_for(call, leaves)
            if isinstance(found, Pending):
                return self._evaluate(found, call, leaves)
            known = found
        if self._has_states:
            self._states.move_to(known.variant.made.model)
        return known.run(leaves)

    def __get__(
        self, instance: object, owner: type | None = None
    ) -> JitFunction | MethodType:
        """Bind the function as a method, whose `self` is an argument like others."""
        return self if instance is None else MethodType(self, instance)

    def _execute(self, call: CallSignature, leaves: Sequence[np.ndarray]) -> PyTree:
        """Compute a call op by op without compiling; update the States."""
        with self._lock:
            begun = time.perf_counter()
            states = {name: self._states.read(name) for name in self._states.names}
            result, updated = self._trace.execute(call, leaves, states)
            for name, tree in updated.items():
                self._states.write(name, flatten(tree)[0])
            labels = reference_labels(self._trace.name, self._target.id)
            count_reference_call(labels, time.perf_counter() - begun)
            return result

    # ---- which code

    def _code_for(
        self, call: CallSignature, leaves: Sequence[np.ndarray]
    ) -> KnownCode | Pending:
        """Return the code for a call, compiled if there is none, or a `Pending` while a
        thread compiles it.
        """
        with self._lock:
            values = self._values_of(call, leaves)
            variant = self._variants.find(call, values)
            if variant is None:
                made = self._make_code_for(call, values)
                if isinstance(made, Pending):
                    return made
                variant = made
            known = KnownCode(variant, call, self._count_of(call))
            if variant.specialization.check is None:
                if len(self._quick) >= _REMEMBERED:
                    self._quick.clear()
                    self._by_key.clear()
                self._quick[call] = known
            return known

    def _count_of(self, call: CallSignature) -> SignatureCallCount:
        """Return the mutable call count of a signature; drop rare signatures if
        there are many.
        """
        if len(self._counts) >= 4 * _REMEMBERED:
            often = sorted(self._counts.items(), key=lambda row: -row[1].calls)
            self._counts = dict(often[: 2 * _REMEMBERED])
        return self._counts.setdefault(call, SignatureCallCount())

    def _values_of(self, call: CallSignature, leaves: Sequence[np.ndarray]) -> _Values:
        """Return a function that computes, once, the arguments of a call with the
        current States.
        """

        @functools.cache
        def values() -> Values:
            return self._trace.values(call, leaves, self._states.leaves())

        return values

    def _make_code_for(
        self, call: CallSignature, values: _Values
    ) -> CodeVariant | Pending:
        """Compile code for a call and return it, or a `Pending` if a background thread
        does.
        """
        if not self._waits:
            return self._pending_for(call, values)
        self._variants.note_miss(call)
        return self._add(self._trace_for(call, values))

    def _add(
        self, source: TracedSpecialization | KeptCode, pending: Pending | None = None
    ) -> CodeVariant:
        """Compile a traced function, or take cached code; add it as a variant and
        return that.

        Args:
            source: what it is made of.
            pending: calls in the meantime, of which the last one is compared before
                others have the code.
        """
        if isinstance(source, KeptCode):
            made = source.made
        else:
            made = compile_program(source.program, self._target, self._threads)
            if source.recipe is not None and made.kept is not None:
                note_kept(source.recipe, made.kept)
        variant = CodeVariant(source, made)
        if pending is not None and pending.last is not None:
            variant.compare(pending.last)
        with self._lock:
            gone = self._variants.add(variant)
            if self._states.model in [each.made.model for each in gone]:
                self._states.move_to(made.model)
            self._quick.clear()
            self._by_key.clear()
        return variant

    def _trace_for(
        self, call: CallSignature, values: _Values
    ) -> TracedSpecialization | KeptCode:
        """Return the traced function or cached code for a call, with symbols for sizes
        that vary where possible.
        """
        self._variants.note_shapes(call)
        sizes = None
        if self._dynamic != "never":
            all_vary = self._dynamic == "always"
            sizes = self._variants.symbolic_sizes(call, call.names, all_vary)
        if sizes is not None:
            try:
                return self._cached_or_traced(call, sizes, values)
            except InputError as error:
                if self._dynamic == "always":
                    raise
                self._variants.require_exact(call)
                self.notes.append(f"code for each size of its own: {error}")
        return self._cached_or_traced(call, call.shapes, values)

    def _cached_or_traced(
        self, call: CallSignature, sizes: Sizes, values: _Values
    ) -> TracedSpecialization | KeptCode:
        """Return code from the cache for such sizes, or else trace the function for
        them.
        """
        captured = self._trace.captured()
        wanted = Specialization(
            self._trace.name, call.form, sizes, None, captured=captured
        )
        recipe = self._kept.recipe(wanted)
        made = load_kept(find_kept(recipe), self._target, self._threads)
        if made is not None:
            self._note_unseen(captured)
            name, form = wanted.entry, wanted.form
            return KeptCode(name, form, sizes, None, made, captured=captured)
        traced = self._trace(call, sizes, values())
        self._note_unseen(traced.captured)
        if traced.check is not None or traced.guards:
            return traced  # only the trace tells which calls it is for
        if traced.sizes != sizes:
            recipe = self._kept.recipe(replace(wanted, sizes=traced.sizes))
        return replace(traced, recipe=recipe)

    def _note_unseen(self, captured: Snapshot | None) -> None:
        """Add notes on captured values whose changes cannot be detected, being too
        large.
        """
        if captured is None:
            return
        texts = [describe_unseen(*each) for each in captured.unseen_captures()]
        if not captured.is_whole:
            texts.append("it captures more than is compared: give some as arguments")
        self.notes += [text for text in texts if text not in self.notes]

    # ---- in the background

    def _evaluate(
        self, pending: Pending, call: CallSignature, leaves: Sequence[np.ndarray]
    ) -> PyTree:
        """Compute a call by the reference evaluator while its code is compiled."""
        self._count_of(call).calls += 1
        if not self._has_states:  # which the code does not have yet
            # as they are now: the caller may write into them while the code is compared
            pending.last = [np.array(leaf) for leaf in leaves]
        result, updated = pending.reference.run(self._values_of(call, leaves)())
        for name, arrays in updated.items():
            self._states.write(name, arrays)
        return result

    def _pending_for(
        self, call: CallSignature, values: _Values
    ) -> CodeVariant | Pending:
        """Return cached code for a call, or a `Pending` that a background thread
        compiles, started if there is none.

        Raises:
            Exception: what has kept it from being made, once.
        """
        for each in self._pending:
            if each.traced.takes(call, values):
                if each.error is None:
                    return each
                self._pending.remove(each)
                raise each.error
        self._variants.note_miss(call, len(self._pending))
        traced = self._trace_for(call, values)
        if isinstance(traced, KeptCode):
            return self._add(traced)
        pending = Pending(traced, ReferenceCode(traced, self._target.id))
        self._pending.append(pending)
        pending.worker = threading.Thread(
            target=self._compile_aside, args=(pending,), daemon=True
        )
        pending.worker.start()
        return pending

    def _compile_aside(self, pending: Pending) -> None:
        """Compile pending code, in a background thread, and add it as a variant."""
        try:
            self._add(pending.traced, pending)
        except Exception as error:  # told by the next call
            pending.error = error
            return
        with self._lock:
            self._pending.remove(pending)
            served = pending.traced.check, pending.reference.calls
            self._variants.coverage.note_calls(*served)

    def wait(self) -> None:
        """Wait until all background compilations have ended."""
        for each in list(self._pending):
            if each.worker is not None:
                each.worker.join()

    # ---- states

    def read_state(self, name: str | None = None) -> Any:
        """Return a copy of a State as of the last call, as `Model.read_state`.

        Raises:
            InputError: `no-call`: there was no call yet; `unknown-state`.
        """
        with self._lock:
            if not self._states.were_used:
                raise InputError(
                    "no-call",
                    f"{self._trace.name}: its States are those that it was made with, "
                    "as there was no call yet",
                )
            return self._states.read(self._state_name(name))

    def _state_name(self, name: str | None) -> str:
        """Return the name of a State; by default the only one, or of several
        `state`.
        """
        names = self._states.names
        wanted = (names[0] if len(names) == 1 else "state") if name is None else name
        if wanted not in names:
            raise InputError(
                "unknown-state",
                f"{self._trace.name}: expected a State of {', '.join(names)}; got "
                f"{wanted!r}",
            )
        return wanted

    # ---- what there is

    @property
    def variants(self) -> tuple[CodeVariant, ...]:
        """The compiled variants, from the least to the most recently used."""
        return tuple(self._variants.by_use)

    def report(self) -> JsonObject:
        """Return variants, guards, compilations and failures as JSON: schema
        `aotc.jit/1`.
        """
        found = self._variants
        return {
            "schema": "aotc.jit/1",
            "function": self._trace.name,
            "compiles": found.compiles,
            "from_cache": found.cached,
            "evictions": found.evictions,
            "guard_failures": dict(found.failures),
            "variants": [each.to_json() for each in found.items],
            "coverage": found.share_of_calls(),
            "notes": [*self.notes],
        }

    def entries(self) -> list[tuple[CallSignature, EntryFunction]]:
        """Return a (first call, entry) pair for each form of calls so far, with symbols
        for sizes that varied.

        Returns:
            One for each form of calls, with the first call of it.
        """
        forms: dict[Hashable, list[CallSignature]] = {}
        for call in self._counts:
            forms.setdefault(call.form, []).append(call)
        found = []
        for number, (first, *rest) in enumerate(forms.values()):
            name = f"{self._trace.name}_{number}" if number else self._trace.name
            names = [f"{name}_{each}" for each in first.names]
            shapes = [each.shapes for each in (first, *rest)]
            sizes = symbolic_sizes(shapes, names) or first.shapes
            found.append((first, self._trace.as_entry(first, sizes, name)))
        return found

    def export(
        self,
        path: str | Path,
        *,
        key: Signer | Path | str | None = None,
        targets: str | Sequence[Target | str] = (),
    ) -> Path:
        """Write a signed bundle of the code that calls have used.

        Args:
            path: of the bundle, `name.aotc`, or of a folder to write it into.
            key: to sign with; see `export_bundle`.
            targets: to compile for; see there.

        Raises:
            InputError: `no-call`: there was no call yet.
        """
        from aotc.just_in_time.exporting import export_bundle  # with the pipeline

        counts = {call: count.calls for call, count in self._counts.items()}
        return export_bundle(self._trace, counts, Path(path), key=key, targets=targets)
