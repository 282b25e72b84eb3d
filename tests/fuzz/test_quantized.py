"""Random quantised programs agree, and the fuzzer tells where one does not."""

import numpy as np
import pytest

from aotc.machine.target import Target
from benchmarks.fuzz import quantized, quantized_comparing
from benchmarks.fuzz.quantized_comparing import Asked, Found, compare, source_of

TARGETS = [Target.parse(name) for name in ("x86_64-v4-dot", "riscv64-v")]


@pytest.fixture(scope="module")
def drawn():
    return quantized.drawn_entries(7, 14)


def test_the_same_seed_draws_the_same_programs(drawn):
    again = quantized.drawn_entries(7, 14)
    assert source_of(again) == source_of(drawn)
    assert any(each.is_exact for each in drawn)


@pytest.mark.filterwarnings("ignore")
def test_passes_and_terms_keep_every_byte(drawn):
    found = Found()
    compare(drawn, Asked(evaluated=TARGETS), found)
    assert not found.wrong
    assert found.bytes > 1000


@pytest.mark.filterwarnings("ignore")
def test_a_byte_that_differs_on_one_target_is_told(drawn, monkeypatch):
    by_terms = quantized_comparing._by_terms
    exact = [each for each in drawn if each.is_exact][:1]

    def with_fault(unit, calls, target):
        results = by_terms(unit, calls, target)
        results[-1] = [np.bitwise_xor(x, x.dtype.type(1)) for x in results[-1]]
        return results

    monkeypatch.setattr(quantized_comparing, "_by_terms", with_fault)
    found = Found()
    compare(exact, Asked(evaluated=TARGETS[:1]), found)
    assert f"on {TARGETS[0]}" in found.wrong[exact[0].name]
