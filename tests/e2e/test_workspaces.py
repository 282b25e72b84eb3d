"""A module keeps the memory of what its entries compute on the way, if that is much."""

import resource
from pathlib import Path

import numpy as np
import pytest

import aotc
from aotc.artifacts.pack import read_bundle
from aotc.errors import AotcError
from aotc.machine.target import Target
from aotc.pipeline import build
from aotc.runtime.module import CALLS_OF_A_KIND

MODEL = Path(__file__).parent / "workspaces_model.py"
ROWS, COLUMNS = 4096, 1024
BLOCK = ROWS * COLUMNS * 4  # bytes


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    asked = {"targets": Target.named("native"), "sign": False, "self_check": "off"}
    return build(MODEL, output=tmp_path_factory.mktemp("workspaces"), **asked).bundle


@pytest.fixture(scope="module", params=[1, 2])
def model(request, bundle):
    return aotc.load(bundle, allow_unsigned=True, threads=request.param)


@pytest.fixture(scope="module")
def expected():
    """Inputs, and what entries of some values make of each."""
    rng = np.random.default_rng(0)
    inputs = [rng.normal(size=(ROWS, COLUMNS)).astype("f") for _ in range(2)]
    return [(x, {count: sums(x, count) for count in (2, 5, 6)}) for x in inputs]


def softmax(x):
    e = np.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def resident():
    """Bytes that this process has in memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def sums(x, count):
    parts = [softmax(x)]
    for _ in range(count - 1):
        parts.append(softmax(parts[-1] * np.float32(3)))
    return sum(np.sum(part * parts[-1], 1) for part in parts)


def test_entries_that_share_the_memory_do_not_disturb_each_other(model, expected):
    (before,), added = model.read_state(), 0
    for x, known in expected:
        calls = [("five", 5), ("six", 6), ("two", 2), ("any_rows", 5)]
        for name, count in [*calls, *reversed(calls)]:
            model.add(x=x)  # which is under way when it returns, if nothing waits
            added = added + known[5]
            found = model.entries[name](x=x)
            np.testing.assert_allclose(found, known[count], rtol=1e-5, err_msg=name)
    np.testing.assert_allclose(model.read_state()[0] - before, added, rtol=1e-4)


@pytest.mark.parametrize("name", ["five", "six", "add"])
def test_no_call_takes_memory_from_the_system(model, expected, name):
    entry, (x, _) = model.entries[name], expected[0]
    for _ in range(2):
        entry(x=x)
    start = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(4):
        entry(x=x)
    taken = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - start
    assert taken * resource.getpagesize() < BLOCK


def test_values_that_are_needed_in_turn_share_memory(model, expected):
    x, _ = expected[0]
    for factor in (np.nan, 1.0):  # what a call leaves there, the next does not read
        given = x * np.float32(factor)
        second = sums(given * sums(given, 5)[:, None], 6)
        known = sums(given * second[:, None], 5)
        np.testing.assert_allclose(model.in_turn(x=given), known, rtol=1e-4)


def test_entries_that_take_turns_take_no_memory_from_the_system(bundle, expected):
    model, (x, _) = aotc.load(bundle, allow_unsigned=True, threads=2), expected[0]
    for _ in range(2 * CALLS_OF_A_KIND):
        model.five(x=x)
        start = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        model.any_rows(x=x[:16])
        model.five(x=x)
        taken = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - start
    assert taken * resource.getpagesize() < BLOCK


def test_calls_of_another_entry_give_the_memory_back(model, expected):
    x, known = expected[0]
    for name in ("two", "any_rows"):
        model.five(x=x)
        before = resident()
        given = x if name == "two" else x[:16]
        for _ in range(CALLS_OF_A_KIND):
            model.entries[name](x=given)
        assert resident() < before - 3 * BLOCK
        np.testing.assert_allclose(model.five(x=x), known[5], rtol=1e-5)


def test_an_entry_beyond_the_memory_of_the_machine_disturbs_no_other(model, expected):
    x, known = expected[0]
    for _ in range(2):
        with pytest.raises(AotcError) as raised:
            model.excessive(x=x[0, :3])
        assert raised.value.code == "out-of-memory"
        np.testing.assert_allclose(model.five(x=x), known[5], rtol=1e-5)


def test_the_manifest_counts_what_a_call_leaves_behind(bundle):
    (variant,) = read_bundle(bundle, None, True).manifest.variants.values()
    kept = {name: plan["resident_bytes"] for name, plan in variant.memory.items()}
    assert kept["two"] == 0
    assert kept["six"] > kept["five"] > 5 * BLOCK
    assert kept["in_turn"] == kept["six"]
    assert kept["add"] == kept["five"] + ROWS * 4
    assert variant.memory["five"]["peak_bytes"] > kept["five"]
