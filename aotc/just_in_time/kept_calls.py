"""Kept code for calls, by digest of the function: other processes need not trace it.

The cache has the bundle of a traced function by its graph (`kept_bundles`), and by the
digest of the function and of a call which graph that is. Only functions whose trace
follows from what `function_digests` sees have one, and only calls without guards on
values: what a guard looks at, it computes with the graph.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from aotc.core.cache import CacheRecipe
from aotc.core.pytree import Structure
from aotc.just_in_time.compiling import Compilation
from aotc.just_in_time.function_digests import function_digest
from aotc.just_in_time.kept_bundles import KeptBundle, cache_of_functions, toolchain
from aotc.just_in_time.specialization import Specialization
from aotc.machine.target import Target
from aotc.tracing.entry import StoredParameter, StoredTree


@dataclass(frozen=True)
class KeptCode(Specialization):
    """Compiled code from the cache, and the calls that it is specialized to.

    Args:
        made: the code.
    """

    made: Compilation


@dataclass(frozen=True)
class KeptFunction:
    """A function with the options that its cached code depends on.

    Args:
        function: of arrays.
        stored: Weights and States among its parameters, by name.
        guards_branches: whether Python may decide on values of a call.
        target: that it is compiled for.
    """

    function: Callable[..., object]
    stored: Mapping[str, StoredParameter]
    guards_branches: bool
    target: Target

    def recipe(self, wanted: Specialization) -> CacheRecipe | None:
        """Return the cache key for the code of some calls; None if it is not to be
        cached.

        Args:
            wanted: for which calls.

        Returns:
            None where nothing is kept, or the function has no digest.
        """
        if cache_of_functions() is None:
            return None
        form = wanted.form
        function = function_digest(
            self.function,
            [each.value for _, each in form.static],
            [*_factories(each for _, each in form.structures)],
        )
        stored = function_digest(*map(_plain_stored, self.stored.values()))
        if function is None or stored is None:
            return None
        facts = {
            "entry": wanted.entry,
            "arguments": [(name, _plain(each)) for name, each in form.structures],
            "dtypes": [each.name for each in form.dtypes],
            "are_numbers": form.are_numbers,
            "sizes": [[*map(repr, shape)] for shape in wanted.sizes],
            "static": [name for name, _ in form.static],
            "stored": [*self.stored],
            "guards_branches": self.guards_branches,
        }
        parts = {"function": function, "stored": stored, "call": json.dumps(facts)}
        label = f"{self.target}: {wanted.entry}"
        return CacheRecipe("call", label, parts | toolchain(self.target))


def find_kept(recipe: CacheRecipe | None) -> KeptBundle | None:
    """Return the cache entry of the bundle that a call's key names; None if it names
    none.
    """
    cache = cache_of_functions()
    value = cache.find(recipe) if cache and recipe else None
    if cache is None or value is None:
        return None
    return KeptBundle(cache, CacheRecipe(**json.loads(value)))


def note_kept(recipe: CacheRecipe, bundle: KeptBundle) -> None:
    """Store in the cache, under a call's key, which bundle has its code."""
    found = bundle.recipe
    facts = {"kind": found.kind, "label": found.label, "parts": dict(found.parts)}
    bundle.cache.keep(recipe, json.dumps(facts).encode())


def _factories(structures: Iterable[Structure]) -> Iterator[Callable[..., object]]:
    """Yield the classes of the named tuples in tree structures."""
    for each in structures:
        if each.kind == "namedtuple" and each.factory is not None:
            yield each.factory
        yield from _factories(each.children)


def _plain(structure: Structure) -> list[object]:
    """Return a tree structure as nested lists, without its classes."""
    return [structure.kind, [*structure.keys], [*map(_plain, structure.children)]]


def _plain_stored(source: StoredParameter) -> list[object]:
    """Return the properties of Weights or a State that a trace depends on."""
    stored = source if isinstance(source, StoredTree) else source.state
    structure = stored.structure
    return [
        type(source).__name__,
        repr(_plain(structure)),
        [*_factories([structure])],
        stored.arrays,
    ]
