"""Cached self-checks: findings on the same code, on a machine like this.

What is found depends on the compiled code, on the graph and the reference evaluator
that say what it should compute, and on the arrays that it is called with. So a check
is made again when any of them changes, aotc included. That memory or time ran out is
not kept, for another run may get further.
"""

from __future__ import annotations

import functools
import json
import platform
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

import aotc
from aotc import artifacts, dialects, passes
from aotc.artifacts.backends import BACKENDS
from aotc.backend import CompiledVariant
from aotc.backend.reuse import stated_version
from aotc.checks.differences import Distance
from aotc.checks.judging import Verdict
from aotc.checks.kernel_count import KernelCount
from aotc.checks.report import BlockCount, SelfCheck
from aotc.core import options
from aotc.core.cache import Cache, CacheRecipe, arrays_digest, digest, sources_digest
from aotc.core.json_values import JsonObject
from aotc.core.pytree import flatten
from aotc.machine import gpus, processor
from aotc.mlir import Module
from aotc.programs.networks import NetworksOnDemand
from aotc.programs.program import Program

_PACKAGES = (aotc, artifacts, dialects, passes)


def source_parts(program: Program, graph: Module, weights: str) -> dict[str, str]:
    """Return digests of what a self-check reads of a program before it is compiled.

    Args:
        program: what is compiled.
        graph: a copy of its module in which all derivatives are written.
        weights: the digest of its weights and states, see `arrays_digest`.
    """
    return {
        "graph": digest(_text(graph)),
        "entries": digest(repr(program.entries), repr(program.states)),
        "weights and states": weights,
        "examples": examples_digest(program),
        "numerics": program.numerics,  # by which the allowed error is reckoned
    }


def recipe_of(
    program: Program,
    source: Mapping[str, str],
    variants: Sequence[CompiledVariant],
    archives: Iterable[str],
    *,
    full: bool,
) -> CacheRecipe:
    """Return the cache recipe of a self-check: digests of all that it depends on.

    Args:
        program: what was compiled.
        source: what it says, see `source_parts`.
        variants: the compiled code.
        archives: digests of the files of parameters, where passes may have changed
            those of the program.
        full: whether the check has no limit of work.
    """
    entries = ", ".join(entry.name for entry in program.entries)
    targets = ", ".join(str(variant.target) for variant in variants)
    return CacheRecipe(
        "self-check",
        f"{targets}: {entries}",
        {
            **source,
            "code": digest(*_code(variants)),
            "archives": digest(*archives),
            "mode": "full" if full else "auto",
            "aotc": code_digest(),
            "packages": digest(
                platform.python_version(),
                np.__version__,
                stated_version("iree.runtime"),
            ),
            "machine": digest(_machine(variants)),
        },
    )


@functools.cache
def code_digest() -> str:
    """Return the SHA-256 of aotc's own sources and tables."""
    return digest(*(sources_digest(_folder(each)) for each in _PACKAGES))


def found_or_made(
    cache: Cache, recipe: CacheRecipe, check: Callable[[], list[SelfCheck]]
) -> tuple[list[SelfCheck], str]:
    """Return a self-check's findings from the cache or by running it, and hit or miss.

    Args:
        cache: where such findings are kept.
        recipe: all that they depend on.
        check: makes them.
    """
    value = cache.find(recipe)
    if value is None:  # one process checks, others wait for that
        with cache.lock(recipe) as is_there:
            value = cache.find(recipe) if is_there else None
            if value is None:
                return _check_and_keep(cache, recipe, check)
    return [_row(each) for each in json.loads(value)], "hit"


def _check_and_keep(
    cache: Cache, recipe: CacheRecipe, check: Callable[[], list[SelfCheck]]
) -> tuple[list[SelfCheck], str]:
    """Run a self-check, write its findings to the cache; return them and why it
    missed.
    """
    reuse = f"miss ({cache.why_missing(recipe)})"
    rows = check()
    if all(row.is_lasting for row in rows):
        failure = cache.keep(recipe, json.dumps([asdict(row) for row in rows]).encode())
        reuse += f", not kept: {failure}" if failure else ""
    return rows, reuse


def _row(stored: JsonObject) -> SelfCheck:
    """Build the findings on an entry from their cached JSON."""
    results = (
        Verdict(**{**each, "distance": Distance(**each["distance"])})
        for each in stored["results"]
    )
    return SelfCheck(
        stored["entry"],
        stored["target"],
        tuple(stored["checked"]),
        tuple((sizes, why) for sizes, why in stored["unchecked"]),
        tuple(results),
        stored["by"],
        blocks=BlockCount(**stored["blocks"]) if stored["blocks"] else None,
        kernels=KernelCount(**stored["kernels"]) if stored["kernels"] else None,
    )


# ---- what it depends on -------------------------------------------------------------


def _code(variants: Sequence[CompiledVariant]) -> Iterator[str | bytes]:
    """Yield the name and compiled bytes of each target."""
    for variant in variants:
        yield str(variant.target)
        yield variant.vmfb


def _text(graph: Module) -> str:
    """Print the graph without source, title and source locations."""
    with graph.context:
        return "\n".join(
            str(
                op.operation.get_asm(
                    enable_debug_info=False,
                    # else aliases are looked for in the whole module, for each function
                    use_local_scope=True,
                    assume_verified=True,  # else the module is verified for each
                )
            )
            for op in graph.body.operations
        )


def examples_digest(program: Program) -> str:
    """Return the SHA-256 of the example inputs of all entries."""
    if isinstance(program.networks, NetworksOnDemand):
        return program.networks.examples
    return digest(*_examples(program))


def _examples(program: Program) -> Iterator[str]:
    """Yield the structure and digest of each entry's example inputs."""
    for name, network in program.networks.items():
        example = network.original.example if network.original else None
        leaves, structure = flatten(example or {})
        yield f"{name}: {structure}"
        yield arrays_digest({str(i): np.asarray(x) for i, x in enumerate(leaves)})


def _folder(package: Any) -> Path:
    """Return the folder of a package."""
    return Path(package.__file__).parent


def _machine(variants: Sequence[CompiledVariant]) -> str:
    """Describe the CPU, emulators and GPUs that decide which targets run here."""
    facts: dict[str, Any] = {
        "arch": processor.arch(),
        "features": processor.cpu_features(),
        "pythons": options.get("AOTC_PYTHONS"),
    }
    if not all(BACKENDS[variant.target.backend].on_cpu for variant in variants):
        facts |= gpus.probe()
    return json.dumps(facts, sort_keys=True)
