"""What aotc does around its passes grows with the graph, and not with its square.

Counted as in `test_growth`: the rewrites of IREE's IR in the worker, `aotc explain`,
what `aotc inspect` shows, and the search for schedules. Each is made quadratic, too,
and is found then.
"""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from iree.compiler import ir, passmanager

from aotc import explain as explaining
from aotc.artifacts.manifest import Manifest
from aotc.cli import inspect
from aotc.cli.kernels import KernelTable
from aotc.core.numerics import RELAXED, STRICT
from aotc.dialects.functions.functions import functions_of
from aotc.kernels.listing import kernels_listed
from aotc.worker.rewrites import REWRITES
from benchmarks.growth_counts import counts_of, forget, growth_of
from benchmarks.growth_stages import MODEL, TARGET, GrowingBuild

GOLDEN = Path(__file__).parents[1] / "golden" / "format-1" / "bundle" / "manifest.json"

MOST = 2.1  # linear is 2; see `test_growth`
FEW = 100  # calls beside what grows


def is_growing(one, two, four):
    """Whether counts of three graphs, each twice the one before, are above linear."""
    return growth_of((one, two, four)) > MOST and four.total() - two.total() > FEW


def blocks_in(op):
    for region in op.regions:
        for block in region.blocks:
            yield block
            for each in block.operations:
                yield from blocks_in(each.operation)


def walk_for_each_op(blocks):
    for block in blocks:
        for _ in block.operations:
            for _ in block.operations:
                pass


# ---- the worker ---------------------------------------------------------------------


def lowered(kind, size, batch="4"):
    build = GrowingBuild(kind, size, batch)
    for step in build.steps():
        step.run()
    return build


def growing_rewrites(runs=lambda each: each):
    counts = [
        {
            step.name: counts_of(step.run, (ir, passmanager))
            for step in lowered("chain", size).rewrites(runs)
        }
        for size in (1, 8, 16, 32)
    ][1:]
    return [name for name in counts[0] if is_growing(*(x[name] for x in counts))]


def quadratic(rewrite):
    def run(module, job):
        walk_for_each_op([*blocks_in(module.operation)])
        return rewrite.run(module, job)

    return replace(rewrite, run=run)


def test_no_rewrite_of_the_worker_grows_faster_than_the_graph():
    assert not growing_rewrites()


def test_each_rewrite_that_is_quadratic_is_found():
    assert growing_rewrites(quadratic) == [f"vmfb: {each.name}" for each in REWRITES]


# ---- explain and inspect ------------------------------------------------------------


def explained(size):
    GrowingBuild("chain", size, "4")  # sets what the model is to be
    return counts_of(lambda: explaining.explain(MODEL, (), (TARGET,)))


def test_explain_grows_as_the_graph():
    assert not is_growing(*[explained(size) for size in (6, 6, 12, 24)][1:])


def test_explain_that_is_quadratic_is_found(monkeypatch):
    known = explaining._note_approximated

    def note_approximated(module, survey):
        for function in functions_of(module).values():
            walk_for_each_op(function.regions[0].blocks)
        known(module, survey)

    monkeypatch.setattr(explaining, "_note_approximated", note_approximated)
    assert is_growing(*[explained(size) for size in (6, 6, 12, 24)][1:])


@pytest.fixture(scope="module")
def listed():
    """The kernels of a graph, as its manifest has them."""
    build = lowered("decoding", 2, "64")
    found = kernels_listed(build.module, TARGET, tuple(build.unit.program.passes))
    return json.loads(json.dumps(found))


def inspected(listed, size):
    """Show a manifest with so many entries, and kernels of each."""
    data = json.loads(GOLDEN.read_text(encoding="utf-8"))
    (entry, *_), regions = data["entry_points"], listed["regions"]
    names = [f"entry_{number}" for number in range(size)]
    data["entry_points"] = [{**entry, "name": name} for name in names]
    rows = [{**row, "name": f"{row['name']}_{n}"} for n in names for row in regions]
    data["variants"][0]["kernels"] = {**listed, "regions": rows}
    manifest = Manifest(data)

    def show():
        inspect._render(manifest, {"verified": False, "key_id": None, "error": None})
        for variant in manifest.variants.values():
            table = KernelTable(variant, None)
            table.to_text()
            table.to_json()

    return counts_of(show)


def test_inspect_grows_as_the_manifest(listed):
    one, two, four = (inspected(listed, size) for size in (10, 20, 40))
    assert not is_growing(one, two, four)
    assert four.total() > 1.5 * two.total()  # it shows more, indeed


def test_inspect_that_is_quadratic_is_found(listed, monkeypatch):
    known = KernelTable.to_text

    def to_text(table):
        names = [row["name"] for row in table._regions]
        assert all(other.strip() for _ in names for other in names)
        return known(table)

    monkeypatch.setattr(KernelTable, "to_text", to_text)
    assert is_growing(*(inspected(listed, size) for size in (10, 20, 40)))


# ---- schedules ----------------------------------------------------------------------

# what says how long a schedule takes; a search asks it of each
MODELS = ("(cycles)", "(estimate)")


def searched(kind, size, numerics):
    """How many schedules are looked at for a graph, when none is known yet."""
    forget()
    build, found = GrowingBuild(kind, size, "64"), 0
    for step in build.steps():
        counts = counts_of(step.run)
        build.unit.program.numerics = numerics
        if step.name.endswith("fuse-regions"):
            found = sum(n for name, n in counts.items() if name.endswith(MODELS))
    return found


@pytest.mark.parametrize(
    ("kind", "numerics"),
    [("convolving", STRICT), ("convolving", RELAXED), ("decoding", STRICT)],
)
def test_schedules_are_searched_once_for_each_distinct_term(kind, numerics):
    assert searched(kind, 4, numerics) == searched(kind, 2, numerics) > 0
