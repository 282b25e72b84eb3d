"""Options of passes are read from text by the types and defaults of the fields."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field, make_dataclass
from pathlib import Path

import pytest

from aotc import passes
from aotc.errors import InputError
from aotc.passes.base import Pass


@dataclass(frozen=True)
class Trim(Pass):
    """A pass with an option of each type; the annotations are text here."""

    entry: str
    count: int = 3
    flag: bool = False
    share: float = field(default=0.5)

    name = "trim"
    level = 1
    keeps_graph = True


@dataclass(frozen=True)
class KeepFile(Pass):
    """A pass with an option that no text is read as."""

    file: Path

    name = "keep-file"
    level = 1
    keeps_graph = True


Plain = make_dataclass(
    "Plain",
    [("flag", bool, field(default=True))],  # a type, not the text of one
    bases=(Pass,),
    namespace={"name": "plain", "level": 1, "keeps_graph": True},
    frozen=True,
)


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    for kind in (Trim, KeepFile, Plain):
        where = f"{sys.modules[__name__].__name__}:{kind.__name__}"
        monkeypatch.setitem(passes.PASSES, kind.name, where)


@pytest.mark.parametrize(
    ("spelled", "loaded"),
    [
        ("trim{entry=f}", Trim("f")),
        ("trim{entry=f,count=-4}", Trim("f", -4)),
        ("trim{flag=True, entry=f}", Trim("f", flag=True)),
        ("trim{entry=f,flag=false,share=1e-3}", Trim("f", share=0.001)),
        ("plain", Plain()),
        ("plain{flag=False}", Plain(flag=False)),
    ],
)
def test_a_pass_takes_options_of_the_types_of_its_fields(spelled, loaded):
    assert passes.load(spelled) == loaded
    assert passes.load(str(loaded)) == loaded


@pytest.mark.parametrize(
    ("spelled", "told"),
    [
        ("trim{count=4}", "entry is missing"),
        ("trim{entry}", "got option 'entry'"),
        ("trim{entry=f,flag=1}", "got option 'flag=1'"),
        ("trim{entry=f,count=2.5}", "got option 'count=2.5'"),
        ("trim{entry=f,share=half}", "count, flag, share may be left out"),
        ("trim{entry=f,other=1}", "'trim{entry=<str>,count=<int>,flag=<bool>,"),
    ],
)
def test_refuses_options_that_are_not_of_the_type_of_their_field(spelled, told):
    with pytest.raises(InputError) as caught:
        passes.load(spelled)
    assert caught.value.code == "bad-pass-option"
    assert told in caught.value.message


def test_a_family_of_kernels_that_there_is_not_is_no_option():
    assert passes.load("fuse-regions{without=rows+sort}").without == "rows+sort"
    with pytest.raises(InputError, match="got 'row'") as caught:
        passes.load("fuse-regions{without=sort+row}")
    assert caught.value.code == "bad-pass-option"
    assert "contraction" in caught.value.hint


def test_a_class_with_an_option_that_no_text_is_read_as_is_not_loaded():
    with pytest.raises(TypeError, match="'keep-file'.* 'file'; got .*Path"):
        passes.class_of("keep-file")
