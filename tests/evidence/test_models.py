"""What each execution model makes code for."""

from pathlib import Path

import pytest

from aotc.dialects.sizes.contracts import Contract
from aotc.errors import InputError
from aotc.evidence.models import (
    EXECUTION_MODELS,
    Case,
    build_contenders,
    power_above,
)
from aotc.evidence.signature import EntrySignature
from aotc.pipeline.report import Silent
from aotc.traffic import Traffic


def case_of(contracts, rows):
    symbols = {each.name: each for each in contracts}
    traffic = Traffic(tuple(symbols), dict.fromkeys(rows, 1))
    return Case(
        source="model.py",
        signature=EntrySignature("f", symbols),
        traffic=traffic,
        traffic_file=Path("traffic.csv"),
        max_variants=3,
        target=None,
        threads=1,
        folder=Path(),
        reporter=Silent(),
    )


def options_of(name, case):
    return EXECUTION_MODELS[name].args[0](case)


@pytest.mark.parametrize(
    ("size", "contract", "power"),
    [
        (0, Contract("n"), 0),
        (1, Contract("n"), 1),
        (5, Contract("n"), 8),
        (8, Contract("n"), 8),
        (300, Contract("n", max=400), 400),
        (48, Contract("n", multiple_of=16), 64),
        (80, Contract("n", multiple_of=16, max=100), 96),
    ],
)
def test_powers_of_two_are_rounded_up_to_within_the_contract(size, contract, power):
    assert power_above(size, contract) == power
    assert contract.allows(power) or power == 0


def test_static_code_has_the_max_of_the_contract_or_of_the_traffic():
    case = case_of([Contract("n", max=9), Contract("m")], [(3, 4), (5, 2)])
    assert options_of("static", case) == {
        "policies": {"n": "pad", "m": "bucket"},
        "specialize": [{"m": 4}],
    }


def test_other_models_say_which_sizes_have_code():
    case = case_of([Contract("n", max=9)], [(3,), (5,), (9,), (4,)])
    powers = [{"n": size} for size in (4, 8, 9)]
    assert options_of("powers", case)["specialize"] == powers
    sizes = options_of("sizes", case)
    assert sizes["policies"] == {"n": "error"}
    assert sizes["specialize"] == [{"n": size} for size in (3, 4, 5, 9)]
    assert options_of("buckets", case)["max_variants"] == 3
    assert options_of("dynamic", case) == {"policies": {"n": "dynamic"}}


def test_too_many_sizes_are_an_error_only_where_they_were_asked_for(monkeypatch):
    case = case_of([Contract("n")], [(size,) for size in range(1, 66)])
    with pytest.raises(InputError, match="would make 65") as caught:
        build_contenders(case, ["sizes"])
    assert caught.value.code == "too-many-specializations"
    others = {name: lambda name, _: name for name in ("static", "dynamic")}
    rows = {**others, "sizes": EXECUTION_MODELS["sizes"]}
    monkeypatch.setattr("aotc.evidence.models.EXECUTION_MODELS", rows)
    contenders, left_out = build_contenders(case, None)
    assert contenders == ("static", "dynamic")
    assert "sizes is left out: " in left_out[0]
