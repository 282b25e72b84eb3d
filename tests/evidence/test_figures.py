"""Figures of replays whose times are known, also of calls that are refused."""

import re
from dataclasses import replace

import pytest

from aotc.cli.evidence_forms.page import to_html
from aotc.cli.evidence_forms.text import to_text
from aotc.errors import InputError
from aotc.evidence.contenders import Contender
from aotc.evidence.messages import (
    ANY,
    EAGER,
    OWN,
    PADDED,
    REFUSED,
    ROUTED,
    LoadedContender,
    Replayed,
    Way,
)
from aotc.evidence.replay import ReplayMeasurement, measure
from aotc.evidence.report import evidence_of
from aotc.evidence.requests import RequestSequence
from aotc.timing.messages import TimedBundle
from aotc.traffic import Traffic

MS = 10**6
LOADED = LoadedContender("toy 1.0, 00", "vmvx", 1, 2, 5, 1024, 3 * MS, 100, ())
ORDER = (0, 1, 1, 2, 0)
WAYS = (Way(OWN, "a", 4), Way(PADDED, "a", 3, 1), Way(REFUSED, "", 9))


def measured(name, *rounds, ways=WAYS):
    """A contender whose first replay has the times of the first round."""
    replays = [
        Replayed(tuple(t and t * MS for t in times), ways, 0, 200) for times in rounds
    ]
    return ReplayMeasurement(
        Contender(name, TimedBundle(name, "f")), LOADED, replays[0], (*replays,)
    )


def evidence(*contenders, bound=None):
    traffic = Traffic(("n",), {(4,): 2, (3,): 2, (9,): 1})
    machine = {"model": "", "cores_logical": 2, "load_average": 0.0}
    return evidence_of(
        contenders,
        bound,
        source="model.py",
        entry="f",
        traffic_file="traffic.csv",
        traffic=traffic,
        requests=RequestSequence(({"n": 4}, {"n": 3}, {"n": 9}), ORDER),
        seed=0,
        machine=machine,
    )


def test_a_request_has_the_median_of_its_rounds_and_the_least():
    rounds = [(2, 5, 5, None, 2), (4, 3, 5, None, 8), (3, 4, 5, None, 2)]
    document = evidence(measured("buckets", *rounds)).to_json()
    (found,) = document["contenders"]
    assert found["latency_ms"]["mean"] == pytest.approx((3 + 4 + 5 + 2) / 4)
    assert found["least_latency_ms"]["mean"] == pytest.approx((2 + 3 + 5 + 2) / 4)
    assert (found["first_call_ms"], found["slowest_cold_call_ms"]) == (2, 5)
    served = {"own": 0.4, "padded": 0.4, "any": 0, "routed": 0, "eager": 0}
    assert found["shares"] == {**served, "refused": 0.2}
    assert found["hit_rate"] == pytest.approx(3 / 5)  # one code, called four times
    assert found["padding_overhead"] == pytest.approx(2 / 14)
    assert "buckets refuses 20.0% of the calls" in " ".join(document["notes"])


def test_the_default_bound_is_one_that_every_contender_keeps_at_some_rate():
    ways = (Way(ANY, "f", 4),) * 3
    slow = measured("static", (9, 9, 9, 9, 40), ways=ways)
    fast = measured("dynamic", (1, 1, 1, 1, 20), ways=ways)
    found = evidence(slow, fast)
    assert found.bound == pytest.approx(2 * (9 + 0.96 * 31))
    assert 0 < found.figures[0].goodput < found.figures[1].goodput
    assert found.baseline.name == "dynamic"
    assert found.ratio(found.figures[0]) == 9
    assert evidence(slow, fast, bound=10.0).figures[1].goodput == 0


def test_a_contender_that_refuses_all_calls_has_no_times():
    ways = (Way(REFUSED, "", 4),) * 3
    none = measured("sizes", (None,) * 5, ways=ways)
    for found in (evidence(none), evidence(none, measured("buckets", (1, 1, 1, 1, 1)))):
        first = found.to_json()["contenders"][0]
        assert first["latency_ms"] is None
        assert first["goodput_per_second"] == 0
        assert first["latency_over_rate"] == []
        assert "sizes refuses 100.0%" in to_text(found)
        assert "refused" in to_html(found)
    assert "All calls were refused" in to_html(evidence(none))


def test_calls_that_no_code_of_the_entry_computes_are_the_fallback():
    ways = (Way(OWN, "a", 4), Way(ROUTED, "route:b", 3), Way(EAGER, "eager", 9))
    found = evidence(measured("buckets", (1, 1, 1, 1, 1), ways=ways))
    assert found.figures[0].fallback == pytest.approx(3 / 5)
    assert "fallback                   60.0%" in to_text(found)
    assert '<th scope="row">fallback</th><td>60.0%</td>' in to_html(found)


@pytest.mark.parametrize(
    ("cold", "warm", "again"),
    [(3, (0, 2), (2, 2)), (0, (1, 1), (0, 1)), (0, (), (0, 0))],
)
def test_the_first_compilation_of_a_process_is_no_recompilation(cold, warm, again):
    def replay(compiles):
        return Replayed((MS,) * 5, WAYS, compiles, 200)

    contender = Contender("jit", TimedBundle("jit", "f"))
    rounds = tuple(map(replay, warm))
    assert (
        ReplayMeasurement(contender, LOADED, replay(cold), rounds).recompiles == again
    )


def test_islands_of_the_program_of_a_region_are_told():
    first = measured("region", (1, 1, 1, 1, 1), ways=WAYS)
    found = evidence(replace(first, loaded=replace(LOADED, islands=3)))
    assert found.to_json()["contenders"][0]["islands"] == 3
    assert "computes in its 3 islands is not replayed" in to_text(found)


SPECIFIED = {
    "graph ops, before → after": "build",
    "partitions of a call": "partitions",
    "artifact": "artifact_bytes",
    "build, s": "build",
    "load, ms": "load_ms",
    "first call, ms": "first_call_ms",
    "warm p50, ms": "latency_ms",
    "warm p90, ms": "latency_ms",
    "warm p99, ms": "latency_ms",
    "recompiled, cold + warm": "recompiles",
    "hit rate": "hit_rate",
    "fallback": "fallback_share",
    "padding adds": "padding_overhead",
    "peak memory": "memory_bytes",
    "goodput, calls/s": "goodput_per_second",
}


def test_each_figure_that_is_promised_is_in_every_form():
    found = evidence(measured("buckets", (1, 1, 1, 1, 1)))
    text, page = to_text(found), to_html(found)
    document = found.to_json()["contenders"][0]
    for row, key in SPECIFIED.items():
        assert f"\n{row}  " in text
        assert f'<th scope="row">{row}</th>' in page
        assert key in document


def test_names_of_strangers_are_no_markup():
    page = to_html(evidence(measured("<b>&", (1, 1, 1, 1, 1))))
    assert "<b>" not in page
    assert "&lt;b&gt;&amp;" in page


def test_what_fails_is_left_out_with_a_note_if_that_is_allowed(monkeypatch):
    played = Replayed((MS, MS, MS, None, MS), WAYS, 0, 200)

    class Server:
        """A process that loads nothing but what is called `good`."""

        loaded = LOADED

        def __init__(self, subject, order, module):
            if subject.bundle == "bad":
                raise InputError("recompile-storm", "too many sizes")

        def __enter__(self):
            return self

        def __exit__(self, *_):
            return None

        def ask(self, question):
            return played

    monkeypatch.setattr("aotc.evidence.replay.Server", Server)
    good, bad = (Contender(name, TimedBundle(name, "f")) for name in ("good", "bad"))
    asked = RequestSequence(({}, {}, {}), ORDER), 0, 0.001
    (found,), notes = measure([bad, good], *asked, may_leave_out=True)
    assert (found.contender, len(found.rounds)) == (good, 3)
    assert notes == ("bad is left out: too many sizes",)
    with pytest.raises(InputError, match="too many sizes"):
        measure([bad, good], *asked)
    with pytest.raises(InputError, match="too many sizes"):
        measure([bad], *asked, may_leave_out=True)


def test_the_best_figure_of_each_row_is_marked_unless_all_are_equal():
    pair = evidence(
        measured("slow", (4, 8, 8, None, 4)), measured("fast", (2, 3, 3, None, 2))
    )
    lines = {line.split("  ")[0]: line for line in to_text(pair).splitlines()}
    assert lines["warm p50, ms"].split()[-2:] == ["2.5", "*"]
    assert "*" not in lines["warm p50, ms"].split()[:-1]
    assert "*" not in lines["artifact"]
    page = to_html(pair)
    assert '<td class="best">★ 2.5</td>' in page
    assert "<dt>goodput</dt>" in page


def test_lines_of_a_plot_differ_without_colours_too():
    names = [f"c{number}" for number in range(9)]
    page = to_html(evidence(*(measured(name, (4, 8, 8, None, 4)) for name in names)))
    styles = re.findall(r"<polyline .*?style=\"stroke: (.*?)\"(.*?)/>", page)
    assert len({*styles[:9]}) == 9
    assert len({dashes for _, dashes in styles[:7]}) == 7
