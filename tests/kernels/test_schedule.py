"""Schedules have one mapping form, which reads back, and one text form."""

from dataclasses import fields

import pytest

from aotc.errors import InputError
from aotc.kernels.families import FAMILIES
from aotc.kernels.planning.attention import AttentionTile
from aotc.kernels.planning.tile import ContractionTile
from aotc.kernels.schedule import Schedule

SCHEDULES = sorted({x.schedule for x in FAMILIES.values()}, key=lambda x: x.__name__)


def test_no_two_schedules_have_one_name():
    assert len({kind.__name__ for kind in SCHEDULES}) == len(SCHEDULES)


@pytest.mark.parametrize("kind", SCHEDULES)
def test_the_mapping_of_a_schedule_reads_back(kind):
    names = [each.name for each in fields(kind)]
    for first in range(-1, 4):
        schedule = kind(*range(first, first + len(names)))
        assert kind.of_plain(schedule.to_plain()) == schedule


def test_a_mapping_leaves_out_what_is_usual():
    tile = ContractionTile(16, 3, 8, 2, terms=2)
    assert tile.to_plain() == {
        "lanes": 16, "vectors": 3, "rows": 8, "block": 2, "terms": 2
    }  # fmt: skip
    assert Schedule().to_plain() == {}


@pytest.mark.parametrize(
    ("plain", "got"),
    [
        ({"lanes": 8, "vectors": 2, "rows": 3}, "got .*'rows': 3}"),
        ({"lanes": 8, "vectors": 2, "rows": 3, "block": 1, "row": 1}, "'row': 1}"),
        ({"lanes": 8, "vectors": 2, "rows": 3, "block": "1"}, "'block': '1'}"),
        (7, "got 7"),
    ],
)
def test_a_mapping_that_is_no_schedule_is_refused_with_the_names_of_one(plain, got):
    expected = r"each of lanes, vectors, rows, block, products \(or none\), .*" + got
    with pytest.raises(InputError, match=expected) as caught:
        ContractionTile.of_plain(plain)
    assert caught.value.code == "bad-schedule"


@pytest.mark.parametrize(
    ("schedule", "text"),
    [
        (ContractionTile(16, 1, 6, 2), "6 rows × 1 vector of 16, block 2"),
        (
            ContractionTile(8, 2, 1, 3, 4, packed=0, ahead=1, terms=2),
            "1 row × 2 vectors of 8, block 3, products 4, right operand as it lies, "
            "2 terms together, fetches ahead",
        ),
        (
            AttentionTile(8, 2, 5, 64, 3, 4),
            "5 rows × 2 vectors of 8, keys 64, queries 4, width 3",
        ),
        (Schedule(), ""),
    ],
)
def test_the_text_of_a_schedule_says_the_tile_first(schedule, text):
    assert str(schedule) == text
