"""Cached builds: results of passes and the compiler for a program.

A build that is equal to one before it runs no pass: it takes the compiled modules, the
program that the manifest is made of, and the weights that passes have changed. It is
found by all that passes read, which is a closed list: the program with the places in
its source, its weights, the targets, the code of aotc and of what it computes with, and
the processor, on which NumPy folds weights. No pass reads an option (`AOTC_…`). A build
that tells them something by its request, or shows what they do, runs them.

The modules themselves are kept by `aotc.backend.reuse`; they are named here.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version as installed_version

import numpy as np

from aotc.backend import CompiledVariant
from aotc.backend.memory_plans import Memory
from aotc.backend.reuse import KeptModule, stated_version
from aotc.checks.reuse import code_digest, examples_digest
from aotc.core import options
from aotc.core.cache import Cache, CacheRecipe, digest
from aotc.core.installation import has_triton, triton_version
from aotc.core.json_values import JsonObject
from aotc.counting import counters
from aotc.machine import processor
from aotc.machine.target import Target
from aotc.mlir import Module, bytecode, ir
from aotc.packager import Arrays, WeightFile
from aotc.packager.provenance import BINDINGS
from aotc.passes.base import PassRecord
from aotc.pipeline.array_tables import (
    ArrayTable,
    arrays_of_rows,
    parts_of_value,
    value_of,
)
from aotc.pipeline.request import Request
from aotc.programs.program import Program

# Of elements that passes have made. What is computed when it is written has none: it is
# kept as the ops that compute it, however large it is.
MOST_BYTES = 64 << 20


@dataclass(frozen=True)
class Made:
    """The cacheable results of a build: lowered module, compiled variants, and weights.

    Args:
        module: of the program, as far as it is the same for all targets.
        graph_ops: see `BuildReport`.
        passes: what each pass did, for all targets.
        variant_passes: and for each target by itself.
        variants: the code.
        parameters: of all of them.
        weights: the files of these.
        source: what the program says to a self-check, see `aotc.checks.reuse`; None if
            there was none.
    """

    module: Module
    graph_ops: dict[str, int]
    passes: list[PassRecord]
    variant_passes: dict[str, list[PassRecord]]
    variants: list[CompiledVariant]
    parameters: Arrays
    weights: list[WeightFile]
    source: dict[str, str] | None


def computing_parts() -> dict[str, str]:
    """Return digests of aotc, its packages and the CPU, for cache recipes."""
    return {
        "aotc": code_digest(),
        "packages": digest(
            platform.python_version(),
            np.__version__,
            installed_version("ml_dtypes"),
            installed_version(BINDINGS),
        ),
        "machine": digest(processor.arch(), *sorted(processor.cpu_features())),
    }


def is_reusable(request: Request, stage: str) -> bool:
    """Return whether a build runs just the default passes, so that its results are
    cached.

    Args:
        request: what it is asked for.
        stage: that its source is at.
    """
    asked = request.passes, request.peak_memory, request.tuning, request.dump
    shown = options.get("AOTC_DUMP"), options.get("AOTC_PRINT_AFTER")
    is_plain = all(each is None for each in asked) and not any(shown)
    return is_plain and request.packs and stage == "graph"


@dataclass(frozen=True)
class KeptBuild:
    """The cache entry of a program's build results.

    Args:
        cache: what keeps it.
        recipe: all that it depends on.
        context: of the program's module.
        own: the arrays of its parameters, before any pass.
    """

    cache: Cache
    recipe: CacheRecipe
    context: ir.Context
    own: Arrays

    @classmethod
    def of(
        cls, cache: Cache, program: Program, targets: Sequence[Target], weights: str
    ) -> KeptBuild:
        """Return the cache entry of a program's results for these targets.

        Args:
            cache: what keeps it.
            program: no pass has been run on it.
            targets: in their order, by which weights of one name get others.
            weights: the digest of its weights and states, see `arrays_digest`.
        """
        names = ", ".join(each.name for each in program.entry_points)
        parts = {
            "program": digest(bytecode(program.module)),
            "has weights": str(program.has_arrays),
            "weights and states": weights,
            "examples": examples_digest(program),  # by which self-checks are known
            "targets": digest(*map(repr, targets)),
            "compilers": digest(
                stated_version("iree.compiler"),
                triton_version() if has_triton() else "no triton",
            ),
            **computing_parts(),
        }
        label = f"{', '.join(map(str, targets))}: {names}"
        recipe = CacheRecipe("build", label, parts)
        return cls(cache, recipe, program.module.context, dict(program.parameters))

    def find(self) -> Made | None:
        """Read the build results from the cache; None unless it has all of them."""
        start = time.perf_counter()
        value = self.cache.find(self.recipe)
        if value is None:
            return None
        facts, (module, *blobs) = parts_of_value(value)
        variants = [_find_variant(self.cache, row, start) for row in facts["variants"]]
        found = [each for each in variants if each is not None]
        if len(found) < len(variants):
            return None
        rows = facts["arrays"]
        arrays = arrays_of_rows(rows, blobs, self.context, lambda row: self.own[row[0]])
        parameters = {name: arrays[row] for name, row in facts["parameters"]}
        return Made(
            ir.Module.parse(module, self.context),
            facts["graph_ops"],
            _records(facts["passes"]),
            {k: _records(rows) for k, rows in facts["variant_passes"].items()},
            found,
            parameters,
            [_weight_file(row, parameters) for row in facts["weights"]],
            facts["source"],
        )

    def keep(self, made: Made) -> None:
        """Write the results to the cache, unless modules are missing or arrays too
        large.
        """
        table = ArrayTable({id(array): [name] for name, array in self.own.items()})
        parameters = [[k, table.number_of(x)] for k, x in made.parameters.items()]
        if table.nbytes > MOST_BYTES:
            return
        if any(each.kept is None for each in made.variants):
            return
        facts = {
            "graph_ops": made.graph_ops,
            "passes": [(each.name, each.changed) for each in made.passes],
            "variant_passes": {
                target: [(each.name, each.changed) for each in records]
                for target, records in made.variant_passes.items()
            },
            "variants": [_variant_row(each) for each in made.variants],
            "arrays": table.rows,
            "parameters": parameters,
            "weights": [
                [each.path, [*each.parameters], each.required_by]
                for each in made.weights
            ],
            "source": made.source,
        }
        value = value_of(facts, [bytecode(made.module), *table.stored_blobs()])
        self.cache.keep(self.recipe, value)


def _records(rows: Sequence[tuple[str, bool]]) -> list[PassRecord]:
    """Rebuild pass records of an earlier build, with zero seconds."""
    return [PassRecord(name, 0.0, changed) for name, changed in rows]


# ---- the variants -------------------------------------------------------------------

# fields of a variant that are JSON as they are
_PLAIN = ("compiler", "statistics", "memory_unknown", "kernels")


def _variant_row(variant: CompiledVariant) -> JsonObject:
    """Return a compiled variant as JSON; its module is referred to by cache recipe."""
    assert variant.kept is not None
    return {
        **{name: getattr(variant, name) for name in _PLAIN},
        "recipe": asdict(variant.kept.recipe),
        "target": str(variant.target),
        "passes": variant.passes,
        "rewrites": [(each.name, each.changed) for each in variant.rewrites],
        "flags": variant.flags,
        "memory": {name: plan.to_json() for name, plan in variant.memory.items()},
    }


def _find_variant(
    cache: Cache, row: JsonObject, start: float
) -> CompiledVariant | None:
    """Rebuild a variant whose module is in the cache; None if it is not."""
    kept = KeptModule(cache, CacheRecipe(**row["recipe"]))
    found = kept.find()
    if found is None:
        return None
    seconds = time.perf_counter() - start
    labels = {"layer": "backend", "kind": "warm"}
    counters.counter("compiles", labels).add()
    counters.histogram("compile_duration_seconds", labels).observe(seconds)
    return CompiledVariant(
        **{name: row[name] for name in _PLAIN},
        target=Target.parse(row["target"]),
        vmfb=found[1],
        passes=tuple(row["passes"]),
        rewrites=tuple(_records(row["rewrites"])),
        flags=tuple(row["flags"]),
        memory={name: Memory(**plan) for name, plan in row["memory"].items()},
        seconds=seconds,
        peak_bytes=0,
        reuse="hit",
        kept=kept,
    )


# ---- the weights --------------------------------------------------------------------


def _weight_file(
    row: tuple[str, list[str], list[str]], parameters: Arrays
) -> WeightFile:
    """Rebuild a weight file from its row and the parameters."""
    path, names, readers = row
    return WeightFile(path, {each: parameters[each] for each in names}, tuple(readers))
